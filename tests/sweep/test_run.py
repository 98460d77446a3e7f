"""Running and storing: executors, resuming, damage, failures, locks."""

import concurrent.futures
import contextlib
import dataclasses
import errno
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys

import pytest

import jaxdp
from jaxdp import sweep
from jaxdp.pairwise import KendallTau, QuantizedRR
from jaxdp.sweep._fingerprint import fingerprint
from jaxdp.sweep._store import Store

from .files import contents
from .naps import Nap

NAPS = [Nap(0.0), Nap(1.0), Nap(2.0)]
ROOT = pathlib.Path(__file__).parents[2]


def simulations():
    """A cell for each path of the engine."""
    data = sweep.HistogramData([[300, 100], [200, 400]])
    tau = QuantizedRR(KendallTau(), 1.0, num_values=(2, 2))
    return [
        sweep.Simulation(
            protocol=protocol, data=data, num_trials=30, method=method, labels={"method": method}
        )
        for protocol, method in ((tau, "tally"), (jaxdp.randomizers.KRR(4, 1.0), "per_user"))
    ]


EXECUTORS = {
    "threads": lambda: concurrent.futures.ThreadPoolExecutor(3),
    "processes": lambda: concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn")
    ),
}


@pytest.fixture(scope="module")
def without_executor(tmp_path_factory):
    out = tmp_path_factory.mktemp("alone")
    sweep.run(simulations(), out)
    return contents(out)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_executors_give_the_same_bytes(executor, without_executor, tmp_path):
    """In this process and its threads under the flags of the tests, in another under none."""
    with EXECUTORS[executor]() as pool:
        outcome = sweep.run(simulations(), tmp_path, pool)
    assert outcome.computed == 2
    assert contents(tmp_path) == without_executor


def test_finished_cells_are_reused(tmp_path):
    assert sweep.run(NAPS[:2], tmp_path).computed == 2
    outcome = sweep.run(NAPS, tmp_path)
    assert (outcome.computed, outcome.reused, outcome.failures) == (1, 2, ())
    assert sweep.run(NAPS, tmp_path, force=True).computed == 3
    assert sweep.collect(tmp_path)["root"].to_pylist() == [0.0, 1.0, 2.0**0.5]


def test_collect_follows_the_last_run(tmp_path):
    sweep.run(NAPS, tmp_path)
    sweep.run([NAPS[2], NAPS[0]], tmp_path)
    assert sweep.collect(tmp_path)["value"].to_pylist() == [2.0, 0.0]


def test_collect_merges_columns_of_different_types(tmp_path):
    cell = simulations()[1]
    sweep.run([cell, dataclasses.replace(cell, target=1.0)], tmp_path)
    assert sweep.collect(tmp_path)["target"].to_pylist() == 4 * [None] + 4 * [1.0]


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"", lambda b: b + b"x"])
def test_damaged_files_are_computed_again(damage, tmp_path):
    sweep.run(NAPS, tmp_path)
    whole = contents(tmp_path)
    path = tmp_path / "cells" / f"{fingerprint(NAPS[1])}.parquet"
    path.write_bytes(damage(path.read_bytes()))
    assert sweep.collect(tmp_path)["value"].to_pylist() == [0.0, 2.0]
    outcome = sweep.run(NAPS, tmp_path)
    assert (outcome.computed, outcome.reused) == (1, 2)
    assert contents(tmp_path) == whole


def test_no_changed_byte_changes_a_result(tmp_path):
    """Every third byte, one at a time: the file is refused, or still says the same."""
    sweep.run(NAPS[:1], tmp_path)
    store, name = Store(tmp_path), fingerprint(NAPS[0])
    path = tmp_path / "cells" / f"{name}.parquet"
    whole, table = path.read_bytes(), store.load(name)
    refused = 0
    for place in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[place] ^= 0x15
        path.write_bytes(bytes(changed))
        found = store.load(name)
        refused += found is None
        assert found is None or found.equals(table), place
    assert refused > len(whole) / 6


def test_a_failing_cell_leaves_the_others_alone(tmp_path):
    cells = [NAPS[0], Nap(-1.0), NAPS[1]]
    for executor in (None, concurrent.futures.ThreadPoolExecutor(2)):
        with executor or contextlib.nullcontext():
            outcome = sweep.run(cells, tmp_path, executor)
        ((label, trace),) = outcome.failures
        assert label == "value=-1.0"
        assert "ArithmeticError: no root of -1.0" in trace
        assert sweep.collect(tmp_path).num_rows == 2


def test_a_worker_that_dies_leaves_finished_cells(tmp_path):
    class Broken(concurrent.futures.ThreadPoolExecutor):
        def submit(self, function, cell):
            if cell.value == 2.0:
                future = concurrent.futures.Future()
                future.set_exception(concurrent.futures.BrokenExecutor("worker gone"))
                return future
            return super().submit(function, cell)

    with Broken(1) as pool:
        outcome = sweep.run(NAPS, tmp_path, pool)
    assert [label for label, _ in outcome.failures] == ["value=2.0"]
    assert sweep.run(NAPS, tmp_path).reused == 2


def test_an_interrupt_keeps_what_is_finished(tmp_path):
    class Interrupt(Nap):
        def rows(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep.run([NAPS[0], Interrupt(9.0), NAPS[1]], tmp_path)
    assert sweep.run(NAPS[:2], tmp_path).reused == 1


def test_an_interrupt_of_a_script_is_one_line(tmp_path):
    script = f"""
import signal
import threading
from jaxdp import sweep
from benchmarks._nap import Nap
signal.signal(signal.SIGINT, signal.default_int_handler)
timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
sweep.run([Nap(0, 0.0)], {str(tmp_path)!r})
timer.start()
sweep.run([Nap(0, 0.0), Nap(1, 20.0)], {str(tmp_path)!r})
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode
    assert done.stderr == "\ninterrupted; finished cells are kept: run it again to go on\n"


@pytest.mark.parametrize(
    ("cells", "named"), [([], "cells"), ([NAPS[0], NAPS[0]], "equal"), ([KeyError("x")], "JSON")]
)
def test_bad_cells(cells, named, tmp_path):
    with pytest.raises((ValueError, TypeError), match=named):
        sweep.run(cells, tmp_path)


def test_collect_needs_results(tmp_path):
    with pytest.raises(ValueError, match=r"experiment\.json"):
        sweep.collect(tmp_path)
    with pytest.raises(ValueError, match=r"experiment\.json"):
        sweep.collect(tmp_path / "nowhere")
    sweep.run([Nap(-1.0)], tmp_path)
    with pytest.raises(ValueError, match="no cell"):
        sweep.collect(tmp_path)
    (tmp_path / "experiment.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        sweep.collect(tmp_path)


@pytest.mark.parametrize("stop", ["write", "fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(stop, tmp_path, monkeypatch):
    """At every step of an atomic write, the file is either the old one or the new one."""
    sweep.run(NAPS, tmp_path)
    store, whole = Store(tmp_path), contents(tmp_path)

    def fail(*args, **kwargs):
        raise OSError("disk full")

    if stop == "write":
        monkeypatch.setattr("builtins.open", fail)
    else:
        monkeypatch.setattr(f"os.{stop}", fail)
    with pytest.raises(OSError, match="disk full"):
        store.save(fingerprint(NAPS[0]), b"other", "worker", force=True)
    monkeypatch.undo()
    assert contents(tmp_path) == whole
    sweep.run(NAPS, tmp_path, force=True)
    assert contents(tmp_path) == whole


def test_a_full_disk_ends_the_sweep_and_leaves_nothing_behind(tmp_path, monkeypatch):
    computed = []

    class Counted(Nap):
        def rows(self):
            computed.append(self.value)
            return super().rows()

    write = os.fsync

    def full_after_two(file):
        if len(computed) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file)

    monkeypatch.setattr("os.fsync", full_after_two)
    cells = [Counted(float(value)) for value in range(9)]
    with pytest.raises(OSError, match=r"value=2\.0 cannot be stored.*No space left.*run it again"):
        sweep.run(cells, tmp_path)
    monkeypatch.undo()
    assert computed == [0.0, 1.0, 2.0]
    assert not [name for name in contents(tmp_path) if name.endswith(".tmp")]
    assert sweep.run(cells, tmp_path).reused == 2


def test_cells_without_jax_are_run_without_jax(tmp_path):
    """So that as many processes as one likes can share a sweep of something else."""
    script = f"""
import sys
from jaxdp import sweep
from benchmarks._nap import Nap
print(sweep.run([Nap(1, 0.0), Nap(2, 0.0)], {str(tmp_path)!r}).computed, "jax" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["2", "False"]


def test_labels_may_be_a_dict(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Doubled(Nap):
        @property
        def labels(self):
            return {"twice": 2 * self.value}

    sweep.run([Doubled(1.0), Doubled(4.0)], tmp_path)
    assert sweep.collect(tmp_path)["twice"].to_pylist() == [2.0, 8.0]


def test_a_file_of_another_cell_is_refused(tmp_path):
    sweep.run(NAPS, tmp_path)
    store, names = Store(tmp_path), [fingerprint(cell) for cell in NAPS]
    first, second = (tmp_path / "cells" / f"{name}.parquet" for name in names[:2])
    second.write_bytes(first.read_bytes())
    assert store.load(names[1]) is None
    assert sweep.run(NAPS, tmp_path).computed == 1


@pytest.mark.parametrize(
    "change", [{"cells": ["../../x"]}, {"experiment": "../../x"}, {"experiment": "/x"}]
)
def test_a_manifest_leads_nowhere_else(change, tmp_path):
    out = tmp_path / "a" / "b"
    sweep.run(NAPS, out, name="naps")
    path = out / "experiment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match="damaged"):
        sweep.collect(out)
    with pytest.raises(ValueError, match="name"):
        sweep.run(NAPS, out, name="../../x")
