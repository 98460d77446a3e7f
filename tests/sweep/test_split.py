"""Cells of many trials: in parts, by any process, and the same bytes as whole ones."""

import concurrent.futures
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp import sweep
from jaxdp.pairwise import KendallTau, QuantizedRR
from jaxdp.sweep import _cell, _split
from jaxdp.sweep._cell import trials_of
from jaxdp.sweep._clean import orphans
from jaxdp.sweep._fingerprint import fingerprint
from jaxdp.sweep._store import Store
from tests.sweep import parts
from tests.sweep.files import contents
from tests.sweep.test_shared import kill_at_random, start


def kinds():
    """A number, bins with labels, and a matrix of answers; drawn tallies and users one by one."""
    table = sweep.HistogramData([[30, 10], [20, 40]])
    tau = QuantizedRR(KendallTau(), 1.0, num_values=(2, 2))
    named = sweep.HistogramData({"a": 50, "b": 30, "c": 20})
    found = [(tau, table, "tally"), (jaxdp.randomizers.KRR(3, 1.0), named, "per_user")]
    return [
        sweep.Simulation(
            protocol=protocol, data=data, num_trials=30, method=method, labels={"method": method}
        )
        for protocol, data, method in found
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    assert sweep.run(kinds(), out, split=None).computed == 2
    return contents(out)


@pytest.mark.parametrize("split", [1, 7, 15, 29, 30])
def test_a_split_cell_has_the_bytes_of_a_whole_one(split, whole, tmp_path):
    found = sweep.run(kinds(), tmp_path, split=split)
    assert (found.computed, found.reused) == (2, 0)
    assert contents(tmp_path) == whole
    assert sweep.run(kinds(), tmp_path, split=split) == sweep.Outcome(0, 2)
    assert sweep.run(kinds(), tmp_path, split=split, force=True).computed == 2
    assert contents(tmp_path) == whole


@pytest.mark.parametrize(("split", "error"), [(0, ValueError), (2.5, TypeError)])
def test_bad_splits(split, error, tmp_path):
    with pytest.raises(error, match="split"):
        sweep.run(kinds(), tmp_path, split=split)


def test_an_executor_computes_the_parts(whole, tmp_path):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert sweep.run(kinds(), tmp_path, pool, split=7).computed == 2
    assert contents(tmp_path) == whole


def test_parts_of_other_trials_make_other_bytes(whole, tmp_path, monkeypatch):
    """The control: what is compared would tell."""

    def shifted(cell, first, number):
        return trials_of(cell, first + 1 if first else first, number)

    monkeypatch.setattr(_cell, "trials_of", shifted)
    sweep.run(kinds(), tmp_path, split=15)
    found = contents(tmp_path)
    assert found.keys() == whole.keys()
    assert sum(found[name] != whole[name] for name in whole) == 2


def test_trials_of_a_range(key):
    users = jaxdp.Population.from_distribution([0.5, 0.3, 0.2], num_users=50)
    krr = jaxdp.randomizers.KRR(3, 1.0)
    every = jaxdp.simulate(krr, users, key, num_trials=20, truth="sample")
    some = jaxdp.simulate(krr, users, key, num_trials=4, first_trial=13, truth="sample")
    np.testing.assert_array_equal(some.estimates, every.estimates[13:17])
    np.testing.assert_array_equal(some.truth, every.truth[13:17])
    last = jaxdp.simulate(krr, users, key, num_trials=2, first_trial=2**32 - 2).estimates[1]
    own = jaxdp.run(krr, users, jax.random.fold_in(key, 2**32 - 1))
    np.testing.assert_allclose(last, own, rtol=1e-12)
    with pytest.raises(ValueError, match="first_trial"):
        jaxdp.simulate(krr, users, key, num_trials=2, first_trial=2**32 - 1)


@pytest.mark.parametrize("split", [1, 4])
@pytest.mark.parametrize("kind", ["of all", "of each", "none"])
def test_parts_are_joined_with_their_truth(kind, split, monkeypatch):
    """One truth of all trials, one of each, or none, and estimates of any shape."""
    cell = kinds()[0]
    rng = np.random.default_rng(0)
    estimates = rng.normal(size=(30, 2, 3))
    truth = {"of all": estimates[0], "of each": 2 * estimates, "none": None}[kind]

    def some(cell, first, number):
        own = truth[first : first + number] if kind == "of each" else truth
        return jaxdp.Trials(estimates[first : first + number], own, "tally", 9)

    monkeypatch.setattr(_cell, "trials_of", some)
    starts = range(0, 30, split)
    pieces = [_cell.Part(whole=cell, first=first, number=split).rows() for first in starts]
    found = _cell.joined(pieces)
    assert (found.method, found.num_users, found.labels) == ("tally", 9, None)
    np.testing.assert_array_equal(found.estimates, estimates)
    assert found.estimates.flags.c_contiguous
    if truth is None:
        assert found.truth is None
    else:
        np.testing.assert_array_equal(found.truth, truth)


def test_what_is_there_of_a_cell_is_kept(tmp_path, whole, monkeypatch):
    """Parts that a killed process leaves are not computed again, but for a damaged one."""
    store, cell = Store(tmp_path), kinds()[0]
    pieces = _split.Split(store, {fingerprint(cell): cell}, 7)
    store.folder.make()
    made = {}
    for name in pieces.of(fingerprint(cell))[:3]:
        made[name] = store.encode(pieces.all[name], pieces.all[name].rows())
        store.save(name, made[name], "someone")
    damaged = list(made)[1]
    (tmp_path / "cells" / f"{damaged}.parquet").write_bytes(made[damaged][:-9])
    begun = []

    def noted(cell, first, number):
        begun.append(first)
        return trials_of(cell, first, number)

    monkeypatch.setattr(_cell, "trials_of", noted)
    assert sweep.run(kinds()[:1], tmp_path, split=7).computed == 1
    assert begun == [18, 24, 6]
    name = f"cells/{fingerprint(cell)}.parquet"
    assert contents(tmp_path)[name] == whole[name]
    # And what was left after the cell was put together is removed.
    store.save(damaged, made[damaged], "someone")
    sweep.run(kinds()[:1], tmp_path, split=7)
    assert list(contents(tmp_path / "cells")) == [f"{fingerprint(cell)}.parquet"]


def test_clean_spares_the_parts_of_unfinished_cells(tmp_path):
    store, cell = Store(tmp_path), kinds()[0]
    sweep.run([cell], tmp_path, split=7)
    pieces = _split.Split(store, {fingerprint(cell): cell}, 7)
    for name in pieces.of(fingerprint(cell))[:2]:
        store.save(name, store.encode(pieces.all[name], pieces.all[name].rows()), "someone")
    assert len(orphans(store)) == 2
    store.remove(fingerprint(cell))
    assert orphans(store) == []


def test_a_cell_of_which_a_part_fails(tmp_path, monkeypatch):
    def failing(cell, first, number):
        if first == 18:
            raise ArithmeticError("no such trials")
        return trials_of(cell, first, number)

    with monkeypatch.context() as patch:
        patch.setattr(_cell, "trials_of", failing)
        found = sweep.run(kinds(), tmp_path, split=7)
        assert (found.computed, [label for label, _ in found.failures]) == (
            0,
            ["method=tally, trials=18-23", "method=per_user, trials=18-23"],
        )
        assert sweep.status(tmp_path).failed != ()
    assert sweep.run(kinds(), tmp_path, split=7).computed == 2


def test_processes_that_split_differently_share_a_folder(tmp_path, whole):
    """Each computes its own parts, and whoever has all of them puts the cell together."""
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        runs = [
            threads.submit(sweep.run, kinds(), tmp_path, split=split, shard=(split % 2, 2))
            for split in (4, 7)
        ]
        assert sum(run.result().computed for run in runs) == 2
    assert contents(tmp_path) == whole


def test_processes_share_the_parts_of_a_cell(tmp_path):
    sweep.run(parts.cells(), tmp_path / "whole", name="parts")
    running = [start(tmp_path / "out", shard, 2, "parts") for shard in range(2)]
    assert sum(int(process.communicate(timeout=120)[0]) for process in running) == 2
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


MEASURED = """
import sys, jax
from jaxdp import sweep
from tests.sweep.test_split import kinds
sweep.run(kinds(), sys.argv[1], split=None)
print(jax.local_device_count())
"""


@pytest.mark.parametrize("devices", [1, 4])
def test_the_bytes_do_not_depend_on_the_devices_that_share_the_trials(devices, whole, tmp_path):
    """Those of eight are the ones to compare with: 30 trials, of which each has its share."""
    assert jax.local_device_count() == 8
    flag = f"--xla_force_host_platform_device_count={devices}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {flag}"
    command = [sys.executable, "-c", MEASURED, str(tmp_path)]
    found = subprocess.run(
        command, env=os.environ | {"XLA_FLAGS": flags}, check=True, stdout=subprocess.PIPE
    )
    assert int(found.stdout) == devices
    assert contents(tmp_path) == whole


@pytest.mark.parametrize(("kills", "shards"), [(3, 2), pytest.param(30, 4, marks=pytest.mark.slow)])
def test_killed_processes_lose_and_double_no_part(kills, shards, tmp_path, rng):
    sweep.run(parts.cells(), tmp_path / "whole", name="parts")
    kill_at_random(tmp_path / "killed", rng, kills, shards, "parts", most=3.0)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
