"""The experiments on the growth of errors, on small data of their own."""

import math

import numpy as np
import pytest

from jaxdp.accounting import gaussian_delta
from jaxdp_experiments import _scaling, cosine_scaling, marginals_scaling

MODULES = [cosine_scaling, marginals_scaling]


def test_exponents_are_those_of_powers():
    sizes = (2, 4, 8, 32)
    rows = [{"n": n, "error": 3 * n**1.5, "stderr": 0.0, "noise": float(n**2)} for n in sizes]
    assert _scaling.exponent(rows, "n") == pytest.approx((1.5, 0.0))
    assert _scaling.exponent(rows, "n", "noise") == pytest.approx((2.0, 0.0))


def test_standard_errors_of_exponents_are_those_of_their_ends():
    """Through two points the slope is a difference of logarithms, whose variances add."""
    rows = [
        {"n": 1, "error": 1.0, "stderr": 0.03},
        {"n": math.e, "error": math.e, "stderr": 0.04 * math.e},
    ]
    assert _scaling.exponent(rows, "n") == pytest.approx((1.0, 0.05))
    # a point of a single trial has the largest relative standard error of the others
    single = [rows[1], rows[0] | {"stderr": None}]
    assert _scaling.exponent(single, "n") == pytest.approx((1.0, 0.04 * math.sqrt(2)))


def test_one_trial_has_no_standard_error():
    assert _scaling.mean_and_stderr([2.0]) == (2.0, None)
    assert _scaling.mean_and_stderr([1.0, 3.0]) == (2.0, 1.0)


@pytest.mark.parametrize("module", MODULES)
def test_full_grids_are_valid(module):
    """Cells differ, and every method of every cell fits its spec."""
    cells = module.cells(module.EXPERIMENT.settings)
    assert len({cell.labels for cell in cells}) == len(cells)
    for cell in cells:
        if module is cosine_scaling:
            assert all(cell.mechanism(method).epsilon == cell.epsilon for method in cell.methods)
        else:
            assert cell.spec(cell.method).epsilon == cell.epsilon


def test_averages_take_a_logarithmic_number_of_steps():
    cell = next(c for c in cosine_scaling.cells(cosine_scaling.EXPERIMENT.settings))
    assert cell.num_vectors == 64
    steps = [cell.mechanism(method).max_steps for method in cosine_scaling.AVERAGES]
    assert steps == [6, 6, 96]


def test_the_printed_noise_is_too_little_at_large_epsilon():
    """The paper's constant is enough at 9 for a delta of 1e-6, and not at 10."""
    delta = cosine_scaling.DELTA
    at = {e: gaussian_delta(e, 0.3, cosine_scaling.printed_sigma(0.3, e)) for e in (1, 9, 10, 12)}
    assert at[1] < at[9] < delta < at[10] < at[12]


def test_hardest_vectors_have_length_one():
    rows = cosine_scaling.vectors("hardest", 64, 2.0)
    assert rows.shape == (64, 4)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(64))


def test_users_are_of_few_kinds_or_have_few_features():
    rows = marginals_scaling.users(50, 12, 3, 1)
    assert set(rows.sum(axis=1)) == {3}
    kinds, counts = np.unique(marginals_scaling.users(50, 12, None, 5), axis=0, return_counts=True)
    assert (kinds.shape, set(counts)) == ((5, 12), {10})


@pytest.mark.slow
def test_averages_are_apart_from_the_projection():
    cell = cosine_scaling.cells(cosine_scaling.EXPERIMENT.quick)[0]
    exact, second, fourth = cell.rows()
    assert exact["apart"] == 0
    assert min(second["apart"], fourth["apart"]) > 0.1
    assert 0 < exact["error"] < exact["bound"] < exact["noise"]


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_quick_versions_run(module):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    experiment = module.EXPERIMENT
    rows = [row for cell in module.cells(experiment.quick) for row in cell.rows()]
    assert all(0 < row["error"] for row in rows)
    assert len(experiment.figure(pa.Table.from_pylist(rows)).axes) in (3, 4)
