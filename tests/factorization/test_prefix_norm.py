"""Norms of long prefix sums against dense decompositions, and what their weights prove."""

import math

import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads
from jaxdp.factorization._resistor_chain import diagonals

NORMS = [(norm, shift) for norm in ("gamma2", "gamma_f") for shift in (False, True)]


def weighted(p, q, centred):
    """The singular value decomposition of prefix sums with weights, or minus their means."""
    prefix = np.tril(np.ones((len(p), len(p))))
    if centred:
        prefix -= (prefix @ q)[:, None] / q.sum()
    return np.linalg.svd(np.sqrt(p)[:, None] * prefix * np.sqrt(q))


def weights(length, centred, seed=0):
    rng = np.random.default_rng(seed)
    p, q = rng.uniform(0.01, 3, length), rng.uniform(0.1, 1, length)
    p[-1] *= not centred
    return p, q


def check_diagonals(function, length, centred):
    p, q = weights(length, centred)
    left, values, right = weighted(p, q, centred)
    found = function(p, q, centred=centred, accuracy=1e-12)
    y = np.divide(left**2 @ values, p, out=np.zeros(length), where=p > 0)
    assert found.error < 1e-11
    # Beside the stated error, that of the dense decomposition.
    np.testing.assert_allclose(found.y, y, rtol=found.error + 1e-12 * length)
    np.testing.assert_allclose(found.z, right.T**2 @ values / q, rtol=found.error + 1e-12 * length)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("length", [2, 15, 16, 17, 300])
def test_diagonals(length, centred):
    check_diagonals(diagonals, length, centred)


def test_diagonals_of_one_value():
    check_diagonals(diagonals, 1, False)


def test_other_weights_have_other_diagonals():
    def swapped(p, q, **options):
        return diagonals(q, p, **options)

    def moved(p, q, **options):
        return diagonals(p, q * (1 + 1e-9 * np.arange(len(q))), **options)

    for broken in (swapped, moved):
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            check_diagonals(broken, 17, False)


@pytest.mark.parametrize("centred", [False, True])
def test_both_diagonals_sum_to_the_trace_norm(centred):
    p, q = weights(5000, centred)
    found, large = diagonals(p, q, centred=centred), diagonals(2.0**80 * p, q, centred=centred)
    assert p @ found.y == pytest.approx(q @ found.z, rel=1e-12)
    np.testing.assert_allclose(large.y * 2.0**40, found.y, rtol=2e-10)
    np.testing.assert_allclose(large.z, found.z * 2.0**40, rtol=2e-10)


def check_proof(found):
    """The bounds from the weights alone, by a decomposition of the dense matrix."""
    p, q, k = found.row_weights, found.col_weights, found.num_values
    centred = found.shift is not None
    left, values, right = weighted(p, q, centred)
    matrix = workloads.prefix(k) - (0 if found.shift is None else found.shift[:, None])
    with np.errstate(divide="ignore"):
        root = np.where(p > 0, 1 / np.sqrt(p), 0.0)
    first = np.sqrt(values)[:, None] * left.T * root
    second = np.sqrt(values)[:, None] * right / np.sqrt(q)
    np.testing.assert_allclose(first.T @ second, matrix, atol=1e-11)
    lengths, others = (np.sum(factor**2, axis=0) for factor in (first, second))
    size = np.mean(lengths) if found.norm == "gamma_f" else lengths.max()
    total = q.sum() * (1.0 if found.norm == "gamma_f" else p.sum())
    trace = values.sum() / math.sqrt(total)
    assert found.lower <= trace * (1 + 1e-13)
    assert math.sqrt(size * others.max()) <= found.upper * (1 + 1e-13)
    assert found.lower == pytest.approx(trace, rel=1e-7)


@pytest.mark.parametrize("shift", [False, True])
def test_equal_weights_have_singular_values_in_closed_form(shift):
    """They bound the norm from below, by ln(k)/π and a constant in the limit."""
    for k in (7, 200):
        values = weighted(np.ones(k), np.ones(k), shift)[1]
        j = np.arange(1, k + (not shift))
        angles = j * math.pi / (2 * k) if shift else (2 * j - 1) * math.pi / (4 * k + 2)
        np.testing.assert_allclose(values[: len(j)], 0.5 / np.sin(angles), rtol=1e-10)
        assert values.sum() / k <= fz.prefix_norm(k, shift=shift).upper
    k = 10**6
    j = np.arange(1, k + (not shift))
    angles = j * math.pi / (2 * k) if shift else (2 * j - 1) * math.pi / (4 * k + 2)
    limit = (np.euler_gamma + math.log((4 if shift else 16) / math.pi)) / math.pi
    bound = np.sum(0.5 / np.sin(angles)) / k
    assert bound - math.log(k) / math.pi == pytest.approx(limit, abs=1e-5)


@pytest.mark.parametrize(("norm", "shift"), NORMS)
@pytest.mark.parametrize("k", [3, 70])
def test_agrees_with_the_solver_for_matrices(k, norm, shift):
    found = fz.prefix_norm(k, norm=norm, shift=shift)
    dense = getattr(fz, norm)(workloads.prefix(k), shift=shift)
    assert found.converged
    assert found.gap <= 1e-6
    assert found.lower <= dense.upper * (1 + 1e-9)
    assert dense.lower <= found.upper * (1 + 1e-9)
    assert found.norm == norm
    check_proof(found)


def test_bounds_hold_without_convergence():
    found = fz.prefix_norm(70, max_steps=1)
    assert not found.converged
    assert 1e-4 < found.gap < 1
    check_proof(found)


def test_few_values():
    assert fz.prefix_norm(1).upper == pytest.approx(1, abs=1e-6)
    assert fz.prefix_norm(2).upper == pytest.approx(2 / math.sqrt(3), rel=1e-6)
    assert fz.prefix_norm(2, shift=True).upper == pytest.approx(1 / 2, rel=1e-6)
    nothing = fz.prefix_norm(1, shift=True)
    assert nothing.upper == nothing.lower == nothing.gap == 0


def test_bad_arguments():
    with pytest.raises(ValueError, match="num_values must be an integer in"):
        fz.prefix_norm(0)
    with pytest.raises(ValueError, match="num_values must be an integer in"):
        fz.prefix_norm(2**40)
    with pytest.raises(ValueError, match="norm must be one of"):
        fz.prefix_norm(4, norm="zeta")
    with pytest.raises(ValueError, match="tol must be"):
        fz.prefix_norm(4, tol=1e-12)
    with pytest.raises(ValueError, match="max_steps"):
        fz.prefix_norm(4, max_steps=0)


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "shift"), NORMS)
def test_many_values(norm, shift):
    """The constant beside ln(k)/π falls, and stays above that of equal weights."""
    sizes = [2**8, 2**11, 2**14, 2**17]
    found = [fz.prefix_norm(k, norm=norm, shift=shift) for k in sizes]
    constants = [f.upper - math.log(f.num_values) / math.pi for f in found]
    assert all(f.converged for f in found)
    assert constants == sorted(constants, reverse=True)
    least = (np.euler_gamma + math.log((4 if shift else 16) / math.pi)) / math.pi
    assert least < constants[-1] < least + 0.04
