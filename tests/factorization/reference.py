"""Factorization norms as semidefinite programs for cvxpy, straight from their definitions."""

import warnings

import pytest

cp = pytest.importorskip("cvxpy")


def _solve(objective, constraints) -> float:
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        problem.solve(solver=cp.CLARABEL)
    if problem.status != cp.OPTIMAL:  # degenerate for an interior-point method: rows that are free
        problem.solve(solver=cp.SCS, eps_abs=1e-8, eps_rel=1e-8, max_iters=200_000)
    assert problem.status == cp.OPTIMAL, problem.status
    return float(problem.value)


def _blocks(shape):
    """A positive semidefinite [[A, W̃], [W̃ᵀ, B]]: W̃ and the diagonals of A and B."""
    m, k = shape
    block = cp.Variable((m + k, m + k), PSD=True)
    return block[:m, m:], cp.diag(block)[:m], cp.diag(block)[m:]


def gamma2(matrix):
    near, left, right = _blocks(matrix.shape)
    t = cp.Variable()
    return _solve(t, [near == matrix, left <= t, right <= t])


def gamma_f(matrix):
    near, left, right = _blocks(matrix.shape)
    return _solve(cp.sum(left) / len(matrix), [near == matrix, right <= 1]) ** 0.5


def gamma2_approx(matrix, alpha):
    near, left, right = _blocks(matrix.shape)
    t = cp.Variable()
    return _solve(t, [cp.abs(near - matrix) <= alpha, left <= t, right <= t])


def zeta(matrix, weight):
    near, left, right = _blocks(matrix.shape)
    t, error = cp.Variable(), cp.Variable()
    constraints = [cp.abs(near - matrix) <= error, left <= t, right <= t]
    return _solve(t + weight * error, constraints)


def gamma2_dual(matrix):
    near, left, right = _blocks(matrix.shape)
    return -_solve(-cp.sum(cp.multiply(matrix, near)), [left == 1, right == 1])
