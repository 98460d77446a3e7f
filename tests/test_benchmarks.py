"""The benchmarks run, their rivals simulate the same protocol, and the tables are the JSON's."""

import inspect
import json
import math
import pathlib
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import (
    _native,
    _randomizers,
    _report,
    _rivals,
    _timing,
    draws,
    heavy_hitters,
    predictions,
    shuffle,
    startup,
    throughput,
)
from jaxdp import linear, pairwise, randomizers
from jaxdp.random import Count, words
from jaxdp.randomizers import KRR
from jaxdp_kernels import OPERATIONS
from jaxdp_kernels.standard_normal import standard_normal
from jaxdp_kernels.threefry_words import StreamKey, threefry_words
from tests import stats

USERS = 2**14
RESULTS = sorted(_report.RESULTS.glob("*.json"))


def reports(spec, estimate):
    """The reports' counts, from the estimated counts of USERS users."""
    p, q = map(float, spec.probabilities())
    counts = np.asarray(estimate, np.float64) * (p - q) + USERS * q
    np.testing.assert_allclose(counts, counts.round(), atol=0.1)
    return counts.round()


RIVALS = {
    "jax, one word": lambda spec, x, s: _rivals.jax_random(
        spec, jnp.asarray(x), jax.random.key(s), True
    ),
    "jax": lambda spec, x, s: _rivals.jax_random(spec, jnp.asarray(x), jax.random.key(s), False),
    "numpy": _rivals.numpy_krr,
    "numpy, threads": lambda spec, x, s: _rivals.numpy_krr(spec, x, s, 3),
}


def test_startup_measures_fresh_processes(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(startup, "_python", lambda *command, **options: ran.append(command))
    row = dict(method="tally", seconds=1.0, cpu=1.5, build=0.1, xla=0.9, programs=4, again=0.01)
    monkeypatch.setattr(startup, "_first_call", lambda name: row)
    monkeypatch.setattr(startup, "FOLDER", tmp_path)
    startup.main([])
    jobs = [command for command in ran if command[0] == startup.JOB]
    full = [job for job in jobs if "--out" in job]
    assert [job[1:3] for job in full] == [("run", "kendall-flights")] * 2
    assert {" ".join(job[1:]) for job in jobs if job not in full} == {*startup.COMMANDS}
    assert {command[0] for command in ran} == {startup.JOB, *startup.CODES.values()}
    assert set(json.loads((tmp_path / "results.json").read_text())["sections"]) == {
        "imports",
        "commands",
        "first_calls",
        "main_job",
    }


@pytest.mark.slow
def test_startup_runs_end_to_end(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(startup, "FOLDER", tmp_path)
    startup.main(["--quick"])
    out = capsys.readouterr().out
    assert "| import jaxdp |" in out
    assert "| kendall-flights --quick" in out
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("rival", RIVALS)
def test_rivals_simulate_the_same_protocol(rival, k, seed):
    spec = KRR(num_values=k, epsilon=1.0)
    estimate = RIVALS[rival](spec, np.full(USERS, k - 1, np.int32), seed)
    counts = reports(spec, estimate)
    assert counts.sum() == USERS
    law = [float(p) for p in spec.channel()[k - 1]]
    stats.check_multinomial(counts, law)
    twin = [float(p) for p in KRR(num_values=k, epsilon=1.3).channel()[k - 1]]
    stats.must_fail(stats.check_multinomial, counts, twin)


def test_the_limit_is_the_sum_of_all_words(key):
    expected = np.asarray(words(key, Count.zeros(), USERS, 1)).sum(dtype=np.uint32)
    assert np.asarray(_rivals.raw_words(key, USERS)) == expected


@pytest.fixture
def compiled():
    if reason := _native.missing():
        pytest.skip(reason)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("k", [2, 3, 256])
@pytest.mark.parametrize("users", [1, 2048, 10_007])
def test_counts_by_hand_are_ours(k, users, key, rng):
    """The same words and the same remainders: the reports of jaxdp, one by one."""
    spec, values = KRR(k, 1.0), rng.integers(0, k, users, dtype=np.int32)
    start, whole = jnp.zeros(2, jnp.uint32), -(-users // 2048) * 2048
    own = threefry_words(StreamKey.of(key), start, whole, 1)[:, :users]
    reports = jax.vmap(spec.build().from_bits, in_axes=(1, 0))(own, jnp.asarray(values))
    expected = np.bincount(np.asarray(reports), minlength=k)
    np.testing.assert_array_equal(_native.krr_counts(spec, values, key), expected)
    with pytest.raises(ValueError, match=r"values must be in \[0, "):
        _native.krr_counts(spec, values + np.int32(k), key)


@pytest.mark.usefixtures("compiled")
def test_local_hashing_by_hand_is_unbiased():
    """A mean off by 5 % of the users is seen with power 0.999."""
    values = np.repeat(np.arange(5, dtype=np.int32), [4000, 0, 1000, 3000, 2000])
    found = np.array([_native.local_hashing(values, 5, 1.0, seed) for seed in range(100)])
    p, q = math.e / (math.e + 3), 0.25
    users = np.bincount(values)
    variance = (users * p * (1 - p) + (10_000 - users) * q * (1 - q)) / (p - q) ** 2
    stats.check_mean(found, users, variance=variance)
    stats.must_fail(stats.check_mean, found + 500, users, variance=variance)


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setattr(_native.shutil, "which", lambda name: None)
    with pytest.raises(ImportError, match="no C\\+\\+ compiler"):
        _native._library.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(_native, "SOURCE", _native.SOURCE.with_name("nothing.cpp"))
    with pytest.raises(ImportError):
        _native._library.__wrapped__()


@pytest.mark.slow
def test_throughput_runs_end_to_end(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(throughput, "OPERATIONS", OPERATIONS[-1:])
    path = tmp_path / "throughput.json"
    throughput.main(["--quick", "--out", str(path)])
    results = json.loads(path.read_text())
    rows = {(row["name"], row["num_values"]) for row in results["end_to_end"]}
    names = ["raw words", *throughput.OURS, "NumPy", "jax.random, one word", *_rivals.LOOPS]
    names.append(throughput.BY_HAND)
    assert rows >= {(name, k) for name in names for k in throughput.QUICK.num_values}
    times = [v for row in results["end_to_end"] for n, v in row.items() if n.endswith("_ns")]
    assert all(time > 0 for time in times)
    assert results["tally"]["median_ms"] > 0
    jobs = {row["name"]: row for row in results["hashing"]}
    assert set(jobs) >= {*throughput.HASHING_AIMS, throughput.BY_HAND, *_rivals.HASHING_LOOPS}
    assert all("error" in row or row["job_s"] > 0 for row in jobs.values())
    each = {row["name"]: row for row in results["randomizers"]}
    assert each.keys() == {row["name"] for row in results["tallies"]} == {"KRR", "Gaussian"}
    assert each["KRR"]["limit"] == "words"
    assert each["Gaussian"]["limit"] == "normals"
    for row in each.values():
        assert row["share"] == pytest.approx(row["limit_ns"] / row["ours_ns"])
        assert row["met"] or row["reason"]
    table = _report.markdown(results)
    assert path.with_suffix(".md").read_text() == table
    assert table in capsys.readouterr().out


def test_a_part_alone_writes_no_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(throughput, "OPERATIONS", ())
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    throughput.main(["--quick", "--only", "kernels"])
    out = capsys.readouterr().out
    assert "kernel, ns an item" in out
    assert "NumPy" not in out.partition("\n")[2]
    assert not list(tmp_path.iterdir())


def test_every_randomizer_is_timed():
    found = _randomizers.settings((16,), (64,))
    exported = {
        name
        for name, thing in vars(randomizers).items()
        if isinstance(thing, type)
        and issubclass(thing, randomizers.Randomizer)
        and not inspect.isabstract(thing)
    }
    assert {setting.name for setting in found} == exported
    assert _randomizers.REASONS.keys() <= exported
    for setting in found:
        setting.spec.check_population(setting.users(8, 0))
        setting.spec.check_population(setting.histogram(100, 8, 0))


@pytest.mark.parametrize("normals", [False, True])
def test_the_limit_of_a_randomizer_is_the_sum_of_all_its_draws(key, normals):
    make = standard_normal if normals else None
    got = _randomizers.draw(StreamKey.of(key), make, 2048, jnp.int32(3))
    drawn = words(key, Count.zeros(), 3 * 2048, 1)
    if normals:
        total = np.asarray(standard_normal(drawn), np.float64).sum()
        np.testing.assert_allclose(np.asarray(got), total, atol=1e-3)
    else:
        assert np.asarray(got) == np.asarray(drawn).sum(dtype=np.uint32)


def test_timing_stops_in_time_but_not_before_one_round():
    calls = []
    times = _timing.interleave({"a": lambda: calls.append("a")}, 5, seconds=0.0)
    assert calls == ["a", "a"]
    assert times["a"]["min"] == times["a"]["median"] > 0
    _timing.interleave({"a": lambda: calls.append("a")}, 5)
    assert len(calls) == 8


def test_a_shortfall_is_told_with_its_reason():
    row = {"size": 16, "users": 8, "draws": 1, "limit": "words", "users_per_second": 10}
    row |= {"ours_ns": 4.0, "limit_ns": 1.0, "share": 0.25}
    short = row | {"name": "Short", "met": False, "reason": "it is slow."}
    good = row | {"name": "Good", "met": True, "share": 0.75}
    text = "\n".join(_report._randomizers([short, good], 1.0))
    assert "* `Short`: it is slow." in text
    assert "| 25% |" in text
    assert "* `Good`" not in text
    assert "Why" not in "\n".join(_report._randomizers([good], 1.0))


def test_a_library_that_does_not_import_is_reported(monkeypatch):
    grr = "multi_freq_ldpy.pure_frequency_oracles.GRR"
    for module in (grr, "pure_ldp.frequency_oracles.direct_encoding", "opendp.prelude"):
        monkeypatch.setitem(sys.modules, module, None)
    rows = throughput._loops(KRR(3, 1.0), [0, 1, 2], 1)
    assert [row["name"] for row in rows] == list(_rivals.LOOPS)
    assert all("does not import" in row["error"] for row in rows)


def test_aims_are_judged_by_the_measurements():
    names = ["raw words", "histogram", "jax.random, one word", "jax.random, uniform and randint"]
    times = dict.fromkeys([*names, "NumPy", *_rivals.LOOPS], 6.0) | {"array": 1.0}
    del times["pure-ldp"]
    rows = [{"name": n, "num_values": 16, "median_ns": t} for n, t in times.items()]
    rows.append({"name": "pure-ldp", "num_values": 16, "error": "does not import"})
    tally = {"num_values": 8, "median_ms": 0.5}
    results = {"end_to_end": rows, "tally": tally, "settings": {"num_values": [16]}}
    results["hashing"] = [{"name": name, "job_s": 5.0} for name in throughput.HASHING_AIMS]
    met = {row["aim"]: (row["measured"], row["met"]) for row in throughput.aims(results)}
    assert throughput.aims({}) == []
    assert met["array ≤ 2 × raw words"] == (pytest.approx(1 / 6), True)
    assert met["array ≥ 5 × as fast as jax.random, one word"] == (6.0, True)
    assert met["array ≥ 3 × as fast as NumPy"] == (6.0, True)
    assert met["array ≥ 1,000 × as fast as multi-freq-ldpy"] == (6.0, False)
    assert met["array ≥ 1,000 × as fast as pure-ldp"] == (None, False)
    assert met["histogram ≤ 5 ns a user"] == (6.0, False)
    assert met["tally < 1 ms a trial"] == (0.5, True)
    assert met["array ≤ 1.7 × C++ by hand"] == (None, False)
    assert met["`LocalHashing`, per_user, 1,139,000,000 users ≤ 40 s"] == (5.0, True)
    assert met["`AffineHashing`, tally, 1,139,000,000 users ≤ 0.1 s"] == (5.0, False)


def test_users_must_be_a_power_of_two(capsys):
    with pytest.raises(SystemExit) as stop:
        throughput.main(["--users", "1000"])
    assert stop.value.code == 2
    assert "power of two" in capsys.readouterr().err


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_published_tables_are_those_of_the_json(path):
    text = path.read_text()
    assert not re.search(r'"/|[\w]+@', text), "a path or a host"
    table = path.with_suffix(".md")
    assert table.read_text() == _report.markdown(json.loads(text))
    page = pathlib.Path(__file__).parents[1] / "docs" / "benchmarks.md"
    assert f"../benchmarks/results/{table.name}" in page.read_text()


def test_there_are_published_results():
    assert RESULTS


@pytest.mark.slow
def test_draws_run_end_to_end(tmp_path, capsys):
    path = tmp_path / "draws.json"
    draws.main(["--quick", "--out", str(path)])
    rows = json.loads(path.read_text())["cpu_nanoseconds_a_draw"]
    assert len(rows) == 5
    assert all(row["same"] for row in rows)
    assert path.with_suffix(".md").read_text() in capsys.readouterr().out


def test_recall_of_frequent_items_without_rivals(monkeypatch):
    monkeypatch.setattr(heavy_hitters, "OUR_TRIALS", 20)
    row = heavy_hitters._ours(256)
    recalls = [float(row[f"ε = {epsilon:g}"].split(" ± ")[0]) for epsilon in heavy_hitters.EPSILONS]
    assert recalls == sorted(recalls)
    assert 0.15 < recalls[0] < 0.5 < 0.8 < recalls[-1] <= 1


def test_every_randomizer_is_in_the_picture_of_shuffled_reports():
    found = {type(make(1.0)) for make in shuffle.EACH.values()}
    kinds = [kind for kind in vars(randomizers).values() if inspect.isclass(kind)]
    public = {x for x in kinds if issubclass(x, randomizers.Randomizer)}
    assert found == {x for x in public if not inspect.isabstract(x)}
    stored = json.loads((shuffle.FOLDER / "results.json").read_text())["sections"]["each"]
    assert {row["reports"] for row in stored} == {"any reports", *shuffle.EACH}


def test_brackets_of_shuffled_reports_are_closed():
    for row in shuffle.brackets([10_000]):
        assert float(row["attained"]) <= float(row["proven"]) < float(row["any reports"])
        assert float(row["proven / attained"]) < 1.1 * float(row["ratio of indices"])


@pytest.mark.slow
@pytest.mark.parametrize("data", ["zipf", "two spikes"])
def test_predictions_are_worth_what_they_say(data):
    """A sample of the table, to seven standard errors; twice the prediction is not worth that."""
    counts = predictions.data_sets()[data]
    for protocol in (
        linear.HistogramQuery(KRR(16, 1.0)),
        pairwise.QuantizedRR(pairwise.GiniMeanDifference(), 1.0, 16),
        pairwise.TwoRound(pairwise.GiniMeanDifference(), 1.0, 16),
    ):
        cell = predictions.compare(protocol, counts)
        assert abs(cell.off) < 7, (protocol, cell)
        wrong = cell._replace(ratio=2 * cell.ratio)
        assert wrong.off > 7
        assert not wrong.as_claimed


def test_users_of_the_table_of_predictions():
    sets = predictions.data_sets()
    assert len(sets) == 6
    for counts in sets.values():
        assert counts.shape == (predictions.VALUES,)
        assert counts.sum() == predictions.with_labels(counts).sum() == predictions.USERS
        assert np.all(np.sum(np.split(predictions.with_labels(counts), 2), axis=1) > 0)
