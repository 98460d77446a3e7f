"""How many programs the cells of a sweep compile: events of jax, counted, not times."""

import collections
import dataclasses

import jax
import pytest

from jaxdp import sweep
from jaxdp.randomizers import (
    KRR,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
    UnaryEncoding,
)
from jaxdp_experiments.kendall_flights import EXPERIMENT
from tests.marks import slow


def counted(cells, count_compilations):
    """The programs of the engine that cells compile, by name, where nothing is compiled yet."""
    jax.clear_caches()
    with count_compilations() as seen:
        for cell in cells:
            cell.rows()
    names = collections.Counter(seen.compiled)
    return {name: n for name, n in names.items() if name.endswith("_trials")}


def grid(mechanism, method, epsilons, sizes, num_values=12):
    return [
        sweep.Simulation(
            protocol=mechanism(epsilon),
            data=sweep.HistogramData([n + 9 * v for v in range(num_values)]),
            num_trials=5,
            method=method,
            labels={"epsilon": epsilon, "n": n},
        )
        for epsilon in epsilons
        for n in sizes
    ]


@pytest.mark.parametrize(
    ("mechanism", "method"),
    [
        (lambda e: KRR(12, e), "per_user"),
        (lambda e: KRR(12, e), "tally"),
        (lambda e: HadamardBit(12, e), "per_user"),
        (lambda e: UnaryEncoding(12, e), "tally"),
        (lambda e: SubsetSelection(12, e, subset_size=3), "per_user"),
    ],
    ids=["krr", "krr-tally", "hadamard-bit", "unary-tally", "subset"],
)
def test_a_grid_of_epsilons_and_users_compiles_once(mechanism, method, count_compilations):
    cells = grid(mechanism, method, (0.5, 1.0, 2.0), (100, 1000, 20_000))
    assert counted(cells, count_compilations) == {"_play_trials": 1, "_finish_trials": 1}


@pytest.mark.parametrize(
    "mechanism",
    [
        slow(lambda e: SubsetSelection(12, e, subset_size=8 - round(2 * e))),
        lambda e: HadamardResponse(12, e, num_blocks=round(2 * e)),
    ],
    ids=["subset", "hadamard-response"],
)
def test_sizes_that_depend_on_epsilon_share_the_program_of_users(mechanism, count_compilations):
    """What each has for itself is its estimate."""
    cells = grid(mechanism, "per_user", (0.5, 1.0, 2.0), (100, 1000, 20_000))
    simulate = 1 if jax.local_device_count() == 1 else 3
    assert counted(cells, count_compilations) == {"_play_trials": simulate, "_finish_trials": 3}


def test_a_shape_that_depends_on_epsilon_has_its_own_program(count_compilations):
    """The control: the range of hashes is another one for each of these."""
    cells = grid(lambda e: LocalHashing(12, e), "per_user", (1.0, 3.0), (100, 1000))
    assert counted(cells, count_compilations)["_play_trials"] == 2


def test_both_methods_share_the_estimates(count_compilations):
    """And so do parts of a cell, and devices: what makes an outcome is none of its estimate's."""
    cells = [
        cell
        for method in ("tally", "per_user")
        for cell in grid(lambda e: KRR(13, e), method, (1.0,), (200,), 13)
    ]
    assert counted(cells, count_compilations) == {"_play_trials": 2, "_finish_trials": 1}


@pytest.mark.slow
def test_programs_of_the_main_job(count_compilations):
    """54 cells: two programs for each of nine grids; on one device fewer, for powers of two."""
    settings = dataclasses.replace(EXPERIMENT.settings, num_trials=4)
    cells = EXPERIMENT.cells(settings)
    assert len(cells) == 54
    simulate = 5 if jax.local_device_count() == 1 else 9
    assert counted(cells, count_compilations) == {"_play_trials": simulate, "_finish_trials": 9}
