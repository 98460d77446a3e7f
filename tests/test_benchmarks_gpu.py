"""`benchmarks.gpu`: every part runs, rows outlive whoever is stopped, and wrong ones are told."""

import argparse
import dataclasses
import importlib.util
import json
import pathlib
import types
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import _device, _device_rows, _device_tests, _report, _rows, _timing, gpu

HEAD = {"benchmark": "gpu", "device": "a", "quick": False, "versions": {"jax": "1"}}
STAMP = {"date": "2026-01-31", "source": "0123abcd"}

SMALL = {
    "hot": "KRR(4), array",
    "kernels": "fwht",
    "randomizers": "bits of krr-5",
    "solvers": "gamma_f",
    "projections": "l2_ball",
    "trials": "KRR(4), 100 users, per_user",
}
"""Rows of each part that take little time; nightly, all are made."""


def small(path, part, *options):
    return ["--allow-cpu", "--quick", "--part", part, "--out", str(path), *options]


@pytest.mark.parametrize("part", gpu.MEASURED)
def test_a_part_runs(part, tmp_path, capsys):
    path = tmp_path / "rows.json"
    assert gpu.main(small(path, part, "--only", SMALL[part])) == 0
    first, *rows = json.loads(path.read_text())["rows"]
    names = [row["name"] for row in rows[: len(_device.ROOFLINES) - 1]]
    assert [first["name"], *names] == list(_device.ROOFLINES)
    rows = rows[len(names) :]
    assert rows
    for row in rows:
        assert row["part"] == part
        assert SMALL[part] in row["name"]
        assert row.get("equal", True)
        if "refused" not in row:
            assert row["first_s"] > 0
        if "seconds" in row:
            assert row["share"] == row["limit_s"] / row["seconds"] > 0
    out = capsys.readouterr().out
    assert out.count(f"{part}: ") == len(rows) + len(_device.ROOFLINES)
    table = path.with_suffix(".md").read_text()
    assert f"| {rows[0]['name']} |" in table
    before = path.read_bytes()
    assert gpu.main(small(path, part, "--only", SMALL[part])) == 0
    assert path.read_bytes() == before
    assert "a user" not in capsys.readouterr().out
    assert gpu.main(["--table", "--out", str(path)]) == 0
    assert capsys.readouterr().out.strip() == table.strip()


def test_parts_are_those_that_are_measured_and_tested():
    assert tuple(_device_rows.PARTS) == gpu.MEASURED == tuple(SMALL)
    texts, numbers = zip(*(gpu._share(part).split("/") for part in gpu.TESTED), strict=True)
    assert set(map(int, numbers)) == {gpu.SLICES}
    slices = [zlib.crc32(text.encode()) % gpu.SLICES for text in texts]
    assert slices == list(range(gpu.SLICES))


@pytest.mark.parametrize("part", gpu.MEASURED)
def test_rows_of_a_part_have_names_of_their_own(part):
    names = [row.name for row in _device_rows.PARTS[part](_device.Scale())]
    assert len({*names, *_device.ROOFLINES}) == len(names) + len(_device.ROOFLINES)


def test_no_gpu_is_said_plainly(capsys):
    if jax.devices()[0].platform == "gpu":
        pytest.skip("there is a GPU")
    assert gpu.main([]) == 2
    assert "no GPU" in capsys.readouterr().err


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name != "hypothesis" or None)
    assert gpu.main(["--part", "tests-1"]) == 2
    assert "not installed: hypothesis." in capsys.readouterr().err
    assert gpu._missing(gpu.MEASURED) == []


def row(name, **found):
    return {"part": "hot", "name": name, **STAMP, **found}


def test_rows_are_written_one_by_one_and_whole(tmp_path):
    path = tmp_path / "new" / "rows.json"
    file = _rows.RowFile(path, HEAD)
    file.add(row("a", seconds=1.0))
    file.begin("hot", "b")
    again = _rows.RowFile(path, HEAD)
    assert again.find("hot", "a") == row("a", seconds=1.0)
    assert again.find("kernels", "a") is None
    assert again.was_begun("hot", "b")
    again.add(row("b"))
    again.add(row("a", seconds=2.0))
    assert [one["name"] for one in _rows.RowFile(path).rows] == ["b", "a"]
    assert not _rows.RowFile(path).was_begun("hot", "b")
    assert path.read_text().count("\n  {") == 2
    again.drop(lambda one: one["name"] == "b")
    assert [one["name"] for one in _rows.RowFile(path).rows] == ["a"]
    assert [found.name for found in path.parent.iterdir()] == ["rows.json"]
    with pytest.raises(ValueError, match=r"another file with --out"):
        _rows.RowFile(path, HEAD | {"versions": {"jax": "2"}})


def options(**changes):
    return argparse.Namespace(only="", again=False, quick=True, **changes)


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Makes rows of these names and functions anew: a call, with which options, and its result."""
    monkeypatch.setattr(
        _device, "ROOFLINES", {"words": lambda scale: {"seconds": 0.5, "unit": "word"}}
    )
    path = tmp_path / "rows.json"

    def make(end=float("inf"), only="", again=False, **functions):
        rows = [_device.Row(name, function) for name, function in functions.items()]
        monkeypatch.setitem(_device_rows.PARTS, "hot", lambda scale: rows)
        file = _rows.RowFile(path, HEAD)
        chosen = argparse.Namespace(only=only, again=again, quick=True)
        return gpu.measure("hot", file, chosen, end), _rows.RowFile(path).rows

    return make


def killed():
    raise KeyboardInterrupt


def test_a_row_during_which_the_process_ended_comes_last(planted):
    with pytest.raises(KeyboardInterrupt):
        planted(slow=killed, fast=dict)
    took = {"seconds": 2.0, "unit": "user", "needs": {"words": 3.0}}
    done, rows = planted(slow=lambda: took, fast=dict)
    assert done
    assert [one["name"] for one in rows] == ["words", "fast", "slow"]
    assert rows[-1]["limit"] == "words"
    assert (rows[-1]["limit_s"], rows[-1]["share"]) == (1.5, 0.75)


def test_a_row_that_fails_says_so_and_the_next_is_made(planted, monkeypatch):
    def fails():
        raise RuntimeError("out of memory\nand so on")

    done, rows = planted(bad=fails, good=dict)
    assert done
    assert rows[1]["error"] == "RuntimeError: out of memory"
    assert [_report.is_wrong(one) for one in rows] == [False, True, False]
    monkeypatch.setattr(_device, "alive", lambda: False)
    done, rows = planted(again=True, bad=fails, good=dict)
    assert not done
    assert [one["name"] for one in rows] == ["good", "words", "bad"]


def test_rows_are_left_when_the_time_is_up_and_made_anew_when_asked(planted):
    assert planted(end=-float("inf"), a=dict) == (False, [])
    made = iter(range(10))
    first = planted(a=lambda: {"number": next(made)}, b=lambda: {"number": next(made)})[1]
    again = planted(
        again=True, only="b", a=lambda: {"number": next(made)}, b=lambda: {"number": next(made)}
    )[1]
    assert [one.get("number") for one in first] == [None, 0, 1]
    assert [one.get("number") for one in again] == [None, 0, 2]


def test_times_are_differences(monkeypatch):
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(_timing.time, "perf_counter", lambda: clock.now)
    items = []

    def prepare(number, fixed=5.0, each=0.25):
        def call():
            items.append(number)
            clock.now += fixed + each * number
            return np.zeros(3) if number > 4 else np.full(3, len(items))

        return call

    found = _timing.slope(prepare, 4, 2**20, 48.0, repeats=2)
    assert found["amount"] == 32
    assert found["seconds"] == 0.25
    assert found["first_s"] == 6.0
    assert not found["same_bits"]
    assert items == [4, 4, 32, 64, 32, 64, 32, 64]
    found = _timing.slope(lambda n: prepare(n, each=-0.01), 8, 16, 1e9, repeats=1)
    assert found["amount"] == 16
    assert found["bound"]
    assert found["seconds"] == pytest.approx((5 - 0.32) / 32)
    assert found["same_bits"]


def test_compilations_are_counted_and_timed():
    @jax.jit
    def triple(x):
        return 3 * x

    x = jax.device_put(np.ones(7, np.float32))
    found, first = _timing.first_call(lambda: triple(x))
    assert first["programs"] == 1
    assert 0 < first["compile_s"] < first["first_s"]
    assert _timing.first_call(lambda: triple(x))[1]["programs"] == 0
    assert _timing.same_bits(found, triple(x))
    assert not _timing.same_bits(found, triple(-x))


def test_the_limit_is_what_takes_longest():
    rates = {"bytes": 2.0, "words": 3.0}
    needs = {"bytes": 4.0, "words": 1.0, "normals": 9.0}
    found = _device.against({"seconds": 16.0, "needs": needs}, rates)
    assert found == {"seconds": 16.0, "limit": "bytes", "limit_s": 8.0, "share": 0.5}
    assert _device.against({"equal": True}, rates) == {"equal": True}


def test_draws_of_the_limit_are_words_and_normals():
    data = jnp.array([1, 2], jnp.uint32)
    words, normals = (_device._draws(data, 2**10, normals) for normals in (False, True))
    reference = jax.random.bits(jax.random.wrap_key_data(data), (2**10,))
    assert int(words) == int(np.asarray(reference).sum(dtype=np.uint32))
    assert 0 < abs(float(normals)) < 400


def test_a_wrong_kernel_is_seen():
    right = (np.arange(3), np.array([1.0, 1e6], np.float32))
    assert _device_rows.equal(right, (np.arange(3), np.array([1.5, 1e6], np.float32)))
    assert not _device_rows.equal(right, (np.arange(3), np.array([1.0, 1e6 + 20], np.float32)))
    assert not _device_rows.equal(right, (np.arange(1, 4), right[1]))
    assert not _device_rows.equal(right, (np.arange(3), right[1].astype(np.float64)))


def test_other_bits_are_told(monkeypatch):
    from tests.contracts import test_digests

    def differs(case, method):
        raise AssertionError("  3 of\n 4 differ")

    (found,) = _device_rows.digests({"krr-5"}, "tally")
    assert found.name == "bits of krr-5, tally"
    monkeypatch.setattr(test_digests, "test_results_for_a_key_are_the_stored_ones", differs)
    made = row(found.name, **found.measure())
    assert not made["equal"]
    assert _report.is_wrong(made)
    assert _report.remarks(made) == "OTHER BITS than the CPU's; 3 of 4 differ"


PLANTED = {
    "test_planted.py": """
import jax

def test_good():
    pass

def test_bad():
    assert 1 + 1 == 3

def test_wide():
    jax.make_mesh((jax.device_count(),), ("a",))
    jax.make_mesh((jax.device_count() + 1,), ("a",))

def test_package():
    import no_such_package.module

def test_known_package():
    import jaxdp.no_such_module
""",
    "test_unimportable.py": """
import no_such_package

def test_never():
    pass
""",
}


def test_tests_become_rows(tmp_path, monkeypatch, capsys):
    for name, text in PLANTED.items():
        (tmp_path / name).write_text(text)
    paths = *(str(tmp_path / name) for name in PLANTED), "tests/marks.py"
    monkeypatch.setattr(gpu, "QUICK_TESTS", paths)
    monkeypatch.setattr(gpu, "SLICES", 1)
    path = tmp_path / "rows.json"
    assert gpu.main(small(path, "tests-1")) == 1
    rows = {one["name"].rpartition(":")[2]: one for one in json.loads(path.read_text())["rows"]}
    found = {name: (one["outcome"], one.get("reason")) for name, one in rows.items()}
    missing = "needs no_such_package, which is not installed"
    assert found.pop("test_known_package")[0] == "failed"
    assert found == {
        "passed": ("passed", None),
        "test_bad": ("failed", "assert (1 + 1) == 3"),
        "test_wide": ("skipped", "needs 9 devices; there is 8"),
        "test_package": ("skipped", missing),
        "import": ("skipped", missing),
    }
    assert rows["passed"]["tests"] == 1
    table = path.with_suffix(".md").read_text()
    assert "| tests-1 | 1 | 2 | 3 |" in table
    assert f"* {missing}: `" in table
    before = path.read_bytes()
    assert gpu.main(small(path, "tests-1")) == 1  # all of them have rows: no process is started
    assert path.read_bytes() == before
    assert "test_bad: assert (1 + 1) == 3" in capsys.readouterr().out


def report(name, when="call", **found):
    found = {"passed": False, "skipped": False, "failed": False, "longrepr": None} | found
    outcome = next(what for what in ("passed", "skipped", "failed") if found[what])
    return types.SimpleNamespace(nodeid=name, when=when, outcome=outcome, duration=1.0, **found)


def test_tests_that_were_not_reached_are_left(tmp_path, monkeypatch):
    path = tmp_path / "rows.json"
    _rows.RowFile(path, HEAD).save()
    settings = _device_tests.Settings("tests-1", str(path), str(path), STAMP)
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    recorder = _device_tests.Recorder()
    for name in "abc":
        recorder.pytest_runtest_logstart(name)
    recorder.pytest_runtest_logreport(report("a", passed=True, when="setup"))
    recorder.pytest_runtest_logreport(report("a", passed=True))
    reason = f"Skipped: {_device_tests.TIME_IS_UP}"
    recorder.pytest_runtest_logreport(report("b", skipped=True, longrepr=("", 0, reason)))
    recorder.pytest_sessionfinish(0)
    file = _rows.RowFile(path)
    assert [one["name"] for one in file.rows] == ["a"]
    assert [file.was_begun("tests-1", name) for name in "abc"] == [False, False, True]

    items = [types.SimpleNamespace(nodeid=name) for name in "abcd"]
    hook = types.SimpleNamespace(pytest_deselected=lambda items: None)
    _device_tests.pytest_collection_modifyitems(types.SimpleNamespace(hook=hook), items)
    assert [item.nodeid for item in items] == ["b", "d", "c"]

    recorder = _device_tests.Recorder()
    for name in "bcd":
        recorder.pytest_runtest_logreport(report(name, passed=True))
    recorder.pytest_sessionfinish(pytest.ExitCode.INTERRUPTED)
    assert len(_rows.RowFile(path).rows) == 4
    recorder.pytest_sessionfinish(0)
    (found,) = _rows.RowFile(path).rows
    assert (found["name"], found["tests"], found["seconds"]) == ("passed", 4, 4.0)


def test_the_reason_is_that_of_the_configuration():
    conftest = pathlib.Path(__file__).with_name("conftest.py").read_text()
    assert f'"{_device_tests.TIME_IS_UP}"' in conftest


def test_tables_tell_times_shares_and_what_is_wrong():
    rows = [
        row("KRR", unit="user", seconds=3.21e-12, limit="words", limit_s=2.3e-12, share=0.7165),
        row("bits", first_s=0.0125, compile_s=0.01, programs=2, equal=False, same_bits=False),
        row("gamma2", gap=1.25e-7, steps=12, bound=True, message="hm", date="2026-02-01"),
        row("fwht", refused="needs a | device"),
        row("broken", error="RuntimeError: no"),
    ]
    head = HEAD | {"machine": {"cpu": "c", "cores": 4}}
    text = _report.markdown(head | {"rows": rows})
    assert text.startswith("2026-01-31 to 2026-02-01; a; c, 4 cores; jax 1; code 0123abcd.\n")
    for line in (
        "| KRR | 3.21 ps a user | 2.3 ps, words | 0.72 |  |  |  |",
        "| bits |  |  |  | 12.5 ms | 2 in 10 ms | OTHER BITS than the CPU's; "
        "OTHER BITS in the second call |",
        "| gamma2 |  |  |  |  |  | gap 1.2e-07 after 12 steps; at most, too short to tell; hm |",
        "| fwht |  |  |  |  |  | refused: needs a \\| device |",
        "| broken |  |  |  |  |  | ERROR RuntimeError: no |",
    ):
        assert line in text
    assert "times mean nothing" in _report.markdown(head | {"rows": rows, "quick": True})


def test_results_of_cpus_are_no_results(tmp_path, monkeypatch):
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    for name in ("2026-01-01-cpu", "2026-01-02-nvidia-h200", "2026-01-03-nvidia-h200"):
        (tmp_path / f"{name}.json").write_text("{}")
    device = types.SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")
    newest = tmp_path / "2026-01-03-nvidia-h200.json"
    assert gpu._newest("*") == gpu._path_for(device, quick=False) == newest
    other = dataclasses.replace(_Device(), device_kind="Other (1)")
    assert gpu._path_for(other, quick=False).name == f"{_report.today()}-other-1.json"
    assert gpu._path_for(device, quick=True).parent != tmp_path


@dataclasses.dataclass(frozen=True)
class _Device:
    device_kind: str = "a"
    platform: str = "gpu"
