"""Vectors of values: the coordinates that all machines use, and those that need no solver."""

import numpy as np
import pytest

from jaxdp.factorization import gamma2
from jaxdp.pairwise.vectors._quadratic_factor import QuadraticFactor, best_factor, semidefinite
from jaxdp.workloads import kendall


@pytest.mark.parametrize("rows", [5, 40])
def test_turned_coordinates_are_those_of_any_basis(rows, rng):
    """LAPACK's basis of equal scales, its order and its signs differ from machine to machine."""
    scales = np.repeat([-1.0, 0.5, 2.0], [3, 1, 4])
    given = QuadraticFactor(rng.normal(size=(rows, 8)), scales, rng.normal(size=8), 0.3)
    turn = np.zeros((8, 8))
    for part in (slice(0, 3), slice(3, 4), slice(4, 8)):
        size = part.stop - part.start
        turn[part, part] = np.linalg.qr(rng.normal(size=(size, size)))[0]
    order = rng.permutation(8)
    other = QuadraticFactor(
        (given.columns @ turn)[:, order], scales[order], (given.linear @ turn)[order], 0.3
    )
    assert np.abs(other.columns - given.columns[:, order]).max() > 0.1
    one, same = given.turned(), other.turned()
    np.testing.assert_allclose(one.matrix, given.matrix, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.columns, same.columns, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.linear, same.linear, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(one.scales, same.scales)


def test_turned_coordinates_that_no_vector_uses_are_left_out(rng):
    vectors = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 3))
    factor = QuadraticFactor(vectors, np.ones(3), np.zeros(3), 0.0).turned()
    assert factor.columns.shape == (6, 2)
    np.testing.assert_allclose(factor.matrix, vectors @ vectors.T, rtol=0, atol=1e-12)


def on_a_line(points):
    return np.abs(np.subtract.outer(points, points)) + 0.5


@pytest.mark.parametrize("shift", [False, True])
def test_what_needs_no_solver_is_as_short_as_what_one_finds(shift, rng):
    rows = rng.normal(size=(3, 6))
    rows /= np.linalg.norm(rows, axis=0)
    matrix = on_a_line(np.sort(rng.uniform(0, 3, 6))) if shift else rows.T @ rows
    known = semidefinite(matrix, shift)
    assert known is not None
    found = best_factor(matrix, shift)
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-12)
    least = gamma2(matrix, shift=shift)
    np.testing.assert_allclose([known.upper, found.norm], least.upper, rtol=2e-6)


@pytest.mark.parametrize("factor", [1.0, -0.5])
@pytest.mark.parametrize("table", [(2, 3), (4, 4)])
def test_tables_of_two_rankings_need_none(table, factor, monkeypatch):
    matrix = factor * kendall(*table)
    least = gamma2(matrix, shift=True)
    monkeypatch.setattr("jaxdp.pairwise.vectors._quadratic_factor.gamma2", None)
    found = best_factor(matrix, shift=True)
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-12)
    np.testing.assert_allclose(found.norm, least.upper, rtol=2e-6)


def test_a_table_that_is_not_quite_one_needs_one():
    matrix = kendall(2, 4)
    matrix[0, 7] = matrix[7, 0] = 0.9
    found = best_factor(matrix, shift=True)
    np.testing.assert_allclose(found.norm, gamma2(matrix, shift=True).upper, rtol=2e-6)


def test_other_matrices_need_one():
    """Their signs differ, or their largest entry is off the diagonal of what is semidefinite."""
    assert semidefinite(kendall(3, 3), shift=True) is None
    assert semidefinite(on_a_line(np.arange(6.0)), shift=False) is None
    assert semidefinite(np.diag([1.0, 2.0]), shift=True) is None
