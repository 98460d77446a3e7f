"""Reports are counted once each, from wherever they come, and nothing else is."""

import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.randomizers import KRR, CandidateResponse, Gaussian, PrivUnit, Rappor, UnaryEncoding
from jaxdp.reports import Aggregate, Client, Collection
from tests.marks import slow
from tests.reports.made import CASES, bins, drawn, same, sent

pa = pytest.importorskip("pyarrow", reason="pyarrow is part of the extra `sweep`")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.dataset")

KRR5 = Collection(KRR(5, 1.0), purpose="a test")
NUMBER = 3000


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return sent(KRR5, drawn(KRR5, bins(KRR5, NUMBER)))


@pytest.fixture(scope="module")
def whole(rows) -> Aggregate:
    return counted(rows.tobytes())


def counted(source) -> Aggregate:
    aggregate = Aggregate(KRR5)
    aggregate.add(source)
    return aggregate


def values_of(case, number: int):
    """Values of users of a member, in turn."""
    population = jaxdp.Population.from_histogram(case.counts, case.inputs)
    size = min(population.num_users, number)
    return population.block(0, size)[0]


@pytest.mark.parametrize(
    "case", [slow(case) if case.variant else case for case in CASES], ids=lambda case: case.name
)
def test_bytes_have_the_tally_of_the_reports(case):
    collection = Collection(case.make(1.0))
    reports = drawn(collection, values_of(case, 500))
    aggregate = Aggregate(collection)
    added = aggregate.add(sent(collection, reports).tobytes())
    number = len(jax.tree.leaves(reports)[0])
    assert (added.accepted, added.refused) == (number, {})
    assert same(aggregate.tally, jax.jit(collection.params.tally)(reports))


def test_every_source_is_the_same(rows, whole, tmp_path):
    each = [row.tobytes() for row in rows]
    folder = tmp_path / "shards"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.bin").write_bytes(rows[:1000].tobytes())
    (folder / "deep" / "b.bin").write_bytes(rows[1000:2000].tobytes())
    (folder / ".hidden").write_bytes(rows.tobytes())
    column = pa.array(each[2000:], pa.binary())
    pa.parquet.write_table(pa.table({"report": column, "when": range(1000)}), folder / "c.parquet")
    table = pa.table({"report": pa.array(each, pa.large_binary())})
    fixed = pa.table({"report": pa.array(each, pa.binary(KRR5.report_bytes))})
    pa.parquet.write_table(fixed, tmp_path / "fixed.parquet", row_group_size=100)
    sources = {
        "list": each,
        "iterator": iter(each),
        "bytearray": bytearray(rows.tobytes()),
        "folder": folder,
        "path as text": str(folder),
        "paths": [folder / "a.bin", folder / "deep", str(folder / "c.parquet")],
        "parquet": tmp_path / "fixed.parquet",
        "table": table,
        "slices": fixed.slice(0, 1500).to_batches()[0],
        "dataset": pa.dataset.dataset(tmp_path / "fixed.parquet"),
        "dataset in memory": pa.dataset.dataset(table),
        "reader": table.to_reader(),
    }
    for name, source in sources.items():
        aggregate = counted(source)
        if name == "slices":
            aggregate.add(fixed.slice(1500))
        assert aggregate.num_users == NUMBER, name
        assert not aggregate.refused, name
        assert same(aggregate.tally, whole.tally), name


def test_what_is_no_report_is_counted_by_its_reason(rows):
    good = rows[0].tobytes()
    other = Collection(KRR(5, 1.0), purpose="another")
    aggregate = Aggregate(KRR5)
    added = aggregate.add(
        [
            good,
            b"",
            good[:-1],
            good + b"\0",
            bytes([2]) + good[1:],
            sent(other, np.zeros(1, np.int32))[0].tobytes(),
            good[:-1] + b"\5",  # a sixth value
            good[:-1] + b"\x08",  # a bit beyond the entries
        ]
    )
    assert added.accepted == 1
    assert added.refused == {"length": 3, "version": 1, "fingerprint": 1, "range": 2}
    assert aggregate.refused == added.refused
    more = aggregate.add(good + good[:4])
    assert (more.accepted, more.refused) == (1, {"length": 1})
    assert aggregate.num_users == 2
    assert int(aggregate.tally.numpy().sum()) == 2


def test_missing_values_in_a_table_are_refused(rows, tmp_path):
    each = [rows[0].tobytes(), None, b"short", rows[1].tobytes()]
    for kind in (pa.binary(), pa.large_binary()):
        added = Aggregate(KRR5).add(pa.table({"report": pa.array(each, kind)}))
        assert (added.accepted, added.refused) == (2, {"length": 2})


def test_a_file_that_cannot_be_read_is_skipped_whole(rows, tmp_path):
    good = tmp_path / "a.parquet"
    column = [row.tobytes() for row in rows]
    pa.parquet.write_table(pa.table({"report": column}), good)
    content = good.read_bytes()
    (tmp_path / "cut.parquet").write_bytes(content[: len(content) // 2])
    (tmp_path / "empty.parquet").write_bytes(b"")
    pa.parquet.write_table(pa.table({"other": [1]}), tmp_path / "other.parquet")
    pa.parquet.write_table(pa.table({"report": [1]}), tmp_path / "numbers.parquet")
    aggregate = Aggregate(KRR5)
    added = aggregate.add(tmp_path)
    assert (added.accepted, added.files, added.refused) == (NUMBER, 1, {})
    reasons = {pathlib.Path(path).name: reason for path, reason in added.skipped}
    assert reasons.keys() == {"cut.parquet", "empty.parquet", "other.parquet", "numbers.parquet"}
    assert reasons["other.parquet"] == "no column 'report', but other"
    assert reasons["numbers.parquet"] == "column 'report' is of int64, not of binary values"


def test_a_file_counts_once_under_any_name(rows, tmp_path):
    (tmp_path / "a").write_bytes(rows[:10].tobytes())
    (tmp_path / "b").write_bytes(rows[:10].tobytes())
    (tmp_path / "c").write_bytes(rows[10:20].tobytes())
    aggregate = Aggregate(KRR5)
    added = aggregate.add(tmp_path)
    assert (added.accepted, added.files) == (20, 2)
    assert added.skipped == ((str(tmp_path / "b"), f"counted already, as {tmp_path / 'a'}"),)
    again = aggregate.add(tmp_path / "c")
    assert (again.accepted, again.files, len(again.skipped)) == (0, 0, 1)
    assert aggregate.num_users == 20


def test_an_error_in_the_middle_of_a_file_changes_nothing(rows, tmp_path, monkeypatch):
    from jaxdp.reports import _aggregate

    (tmp_path / "a").write_bytes(rows.tobytes())

    def broken(path, width, digest):
        yield from _blocks(path, width, digest)
        raise OSError("the disk is gone")

    _blocks = _aggregate.blocks_of_file
    aggregate = counted(rows[:7].tobytes())
    before = aggregate.tally
    monkeypatch.setattr(_aggregate, "blocks_of_file", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        aggregate.add(tmp_path / "a")
    monkeypatch.undo()
    assert aggregate.num_users == 7
    assert same(aggregate.tally, before)
    assert aggregate.add(tmp_path / "a").accepted == NUMBER


def test_merged_parts_are_the_whole(rows, whole, tmp_path):
    parts = [counted(rows[i::3].tobytes()) for i in range(3)]
    for order in ((0, 1, 2), (2, 0, 1)):
        first, second, third = (parts[i] for i in order)
        both = first.merge(second).merge(third)
        assert (both.num_users, same(both.tally, whole.tally)) == (NUMBER, True)
    assert [part.num_users for part in parts] == [1000] * 3
    other = Aggregate(Collection(KRR(5, 1.0)))
    with pytest.raises(ValueError, match="other must be of the same collection"):
        whole.merge(other)
    (tmp_path / "a").write_bytes(rows[:10].tobytes())
    with pytest.raises(ValueError, match=r"other has counted 1 of the same files: .*a; give each"):
        counted(tmp_path / "a").merge(counted(tmp_path))


@pytest.mark.parametrize(
    "spec", [KRR(5, 1.0), Rappor(8, 1.0), Gaussian(3, 1.0, 1e-6), UnaryEncoding(40, 1.0)]
)
def test_a_saved_aggregate_is_as_before(spec, tmp_path):
    collection = Collection(spec, purpose="ä π")
    aggregate = Aggregate(collection)
    value = collection.params.value
    aggregate.add(sent(collection, drawn(collection, np.zeros((9, *value.shape), value.dtype))))
    aggregate.add(b"\1\2")
    aggregate.save(tmp_path / "state")
    loaded = Aggregate.load(tmp_path / "state")
    assert loaded.collection == collection
    assert same(loaded.tally, aggregate.tally)
    assert (loaded.num_users, loaded.refused, loaded.files) == (9, {"length": 1}, {})
    assert loaded.merge(aggregate).num_users == 18
    assert (tmp_path / "state").stat().st_size < 20_000


def test_a_damaged_state_is_refused(whole, tmp_path):
    path = tmp_path / "state"
    whole.save(path)
    content = path.read_bytes()
    for damaged in (content[:-20], b"", b"nonsense", content.replace(b"state", b"stale")):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is not the state of an Aggregate, or is damaged"):
            Aggregate.load(path)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is of another collection than"):
        Aggregate(Collection(KRR(5, 2.0)), checkpoint=path)
    with pytest.raises(FileNotFoundError):
        Aggregate.load(tmp_path / "nothing")


def test_bad_sources_are_refused(rows, tmp_path):
    aggregate = Aggregate(KRR5)
    for source in (3, None, [1, 2], [rows[0].tobytes(), 3.0]):
        with pytest.raises(TypeError, match="source must"):
            aggregate.add(source)
    with pytest.raises(FileNotFoundError, match=r"source .* does not exist"):
        aggregate.add(tmp_path / "missing")
    with pytest.raises(ValueError, match="an estimate needs reports"):
        Aggregate(KRR5).estimate()


def test_what_serves_simulation_only_is_not_collected():
    with pytest.raises(ValueError, match="spec must have reports to send; those of PrivUnit"):
        Collection(PrivUnit(3, 1.0))
    with pytest.raises(ValueError, match="spec must be of one round, got TwoRound"):
        Collection(jaxdp.pairwise.TwoRound(np.eye(3), 1.0))


def _as_numpy_has_it(collection: Collection, rows: np.ndarray) -> np.ndarray:
    """Which rows are reports, bit by bit; bool[n]."""
    layout = collection.layout
    every = np.unpackbits(rows[:, 9:], axis=1, bitorder="little")
    good = np.all(rows[:, :9] == collection.header, axis=1)
    good &= ~np.any(every[:, layout.num_bits :], axis=1)
    for first, bits, low, high in zip(
        layout.starts, layout.bits, layout.low, layout.high, strict=True
    ):
        value = every[:, first : first + bits].astype(np.int64) @ (1 << np.arange(bits))
        good &= value <= high - low
    return good


def _fuzz(number: int) -> None:
    rng = np.random.default_rng(number)
    for spec in (KRR(5, 1.0), Rappor(8, 1.0), CandidateResponse(3, 1.0), UnaryEncoding(40, 1.0)):
        collection = Collection(spec)
        params = collection.params
        zero = np.zeros((1, *params.value.shape), params.value.dtype)
        start = sent(collection, drawn(collection, zero))[0]
        rows = np.tile(start, (number, 1))
        rows[:, 9:] = rng.integers(256, size=rows[:, 9:].shape)
        flipped = rng.random(number) < 0.2
        place = rng.integers(8 * rows.shape[1], size=number)
        rows[flipped, place[flipped] // 8] ^= (1 << place[flipped] % 8).astype(np.uint8)
        good = _as_numpy_has_it(collection, rows)
        aggregate = Aggregate(collection)
        added = aggregate.add(rows.tobytes())
        assert added.accepted == good.sum()
        assert added.accepted + sum(added.refused.values()) == number
        kept = Aggregate(collection)
        kept.add(rows[good].tobytes())
        assert kept.refused == {}
        assert same(kept.tally, aggregate.tally)
        aggregate.add(rng.bytes(number))


def test_random_bytes_are_counted_or_refused():
    _fuzz(5000)


@pytest.mark.slow
def test_a_million_random_bytes_are_counted_or_refused():
    _fuzz(250_000)


def test_progress_is_shown(rows, tmp_path, capsys):
    pytest.importorskip("rich")
    (tmp_path / "a").write_bytes(rows.tobytes())
    Aggregate(KRR5).add(tmp_path, progress=True)
    assert "3,000 reports" in capsys.readouterr().err


WORKER = """
import sys, time
from jaxdp.reports import Aggregate, Collection
collection = Collection.from_json(open(sys.argv[1]).read())
aggregate = Aggregate(collection, checkpoint=sys.argv[2])
print("ready", flush=True)
aggregate.add(sys.argv[3:])
print("done", flush=True)
"""


def _write_shards(folder: pathlib.Path, number: int, rows: np.ndarray) -> list[str]:
    (folder / "collection.json").write_text(KRR5.to_json())
    paths = [folder / f"shard-{i:03}" for i in range(number)]
    for i, path in enumerate(paths):
        path.write_bytes(rows[i::number].tobytes())
    return [str(path) for path in paths]


def _start(folder: pathlib.Path, state: str, paths: list[str]) -> subprocess.Popen:
    command = [sys.executable, "-c", WORKER, str(folder / "collection.json"), str(folder / state)]
    return subprocess.Popen([*command, *paths], stdout=subprocess.PIPE, text=True)


def _wait(worker: subprocess.Popen) -> int:
    """Its exit status; all that it prints is read."""
    worker.communicate()
    return worker.returncode


def test_two_processes_merge_to_the_same_bits(rows, whole, tmp_path):
    paths = _write_shards(tmp_path, 6, rows)
    workers = [_start(tmp_path, f"state-{i}", paths[i::2]) for i in range(2)]
    assert [_wait(worker) for worker in workers] == [0, 0]
    both = Aggregate.load(tmp_path / "state-0").merge(Aggregate.load(tmp_path / "state-1"))
    assert (both.num_users, len(both.files)) == (NUMBER, 6)
    assert same(both.tally, whole.tally)


def _killed(times: int, shards: int, rows: np.ndarray, folder: pathlib.Path) -> Aggregate:
    """An aggregation of many files that is killed again and again, and then left in peace."""
    paths = _write_shards(folder, shards, rows)
    rng = np.random.default_rng(times)
    for _ in range(times):
        worker = _start(folder, "state", paths)
        assert worker.stdout is not None
        worker.stdout.readline()  # it has begun
        time.sleep(rng.uniform(0, 0.4))
        worker.send_signal(signal.SIGKILL)
        _wait(worker)
    assert _wait(_start(folder, "state", paths)) == 0
    return Aggregate.load(folder / "state")


@pytest.mark.parametrize("times", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_a_killed_aggregation_loses_nothing_and_counts_nothing_twice(times, rows, whole, tmp_path):
    aggregate = _killed(times, 300, rows, tmp_path)
    assert (aggregate.num_users, len(aggregate.files)) == (NUMBER, 300)
    assert same(aggregate.tally, whole.tally)
    assert not aggregate.refused


def test_without_a_list_of_files_kills_would_count_twice(rows, whole, tmp_path):
    (tmp_path / "a").write_bytes(rows.tobytes())
    forgetful = counted(tmp_path / "a")
    forgetful._state = dataclasses.replace(forgetful._state, files={})
    forgetful.add(tmp_path / "a")

    def check(aggregate: Aggregate) -> None:
        assert aggregate.num_users == NUMBER

    check(whole)
    with pytest.raises(AssertionError):
        check(forgetful)


def test_clients_and_servers_need_only_the_document():
    labels = ("never", "seldom", "often")
    collection = Collection(KRR(3, 20.0), labels, purpose="how often")
    text = collection.to_json()
    assert json.loads(text)["labels"] == list(labels)
    client = Client(text)
    aggregate = Aggregate(Collection.from_json(text))
    added = aggregate.add(client.report(label) for label in labels * 40)
    assert (added.accepted, added.refused) == (120, {})
    answer = aggregate.estimate()
    assert answer.labels == labels
    np.testing.assert_allclose(answer.values, 40, atol=1e-3)
