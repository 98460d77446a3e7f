"""Factorization norms as semidefinite programs for cvxpy, straight from their definitions."""

import warnings

import numpy as np
import pytest

cp = pytest.importorskip("cvxpy")


class Unsolved(Exception):
    """Clarabel found no optimum, and nothing else was asked."""


def _solve(objective, constraints, alone=False) -> float:
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError as error:
            raise Unsolved from error
    if alone and problem.status != cp.OPTIMAL:
        raise Unsolved
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


def least(matrix, norm, alpha=0.0, weight=None, constants=0):
    """A norm by Clarabel alone, which raises `Unsolved` where it does not converge.

    With one constant it is free for all entries of the matrix, with one for each row it is those.
    """
    near, left, right = _blocks(matrix.shape)
    offset = cp.reshape(cp.Variable(constants), (constants, 1), order="C") if constants else 0.0
    error = (
        cp.abs(near + offset @ np.ones((1, matrix.shape[1])) - matrix)
        if constants
        else (cp.abs(near - matrix))
    )
    if norm == "gamma_f":
        return _solve(cp.sum(left) / len(matrix), [error <= alpha, right <= 1], alone=True) ** 0.5
    t, radius = cp.Variable(), cp.Variable() if norm == "zeta" else alpha
    price = weight * radius if norm == "zeta" else 0.0
    return _solve(t + price, [error <= radius, left <= t, right <= t], alone=True)


def gamma_f(matrix):
    near, left, right = _blocks(matrix.shape)
    return _solve(cp.sum(left) / len(matrix), [near == matrix, right <= 1]) ** 0.5


def gamma2_approx(matrix, alpha):
    near, left, right = _blocks(matrix.shape)
    t = cp.Variable()
    return _solve(t, [cp.abs(near - matrix) <= alpha, left <= t, right <= t])


def gamma_f_approx(matrix, alpha):
    near, left, right = _blocks(matrix.shape)
    squared = cp.sum(left) / len(matrix)
    return _solve(squared, [cp.abs(near - matrix) <= alpha, right <= 1]) ** 0.5


def zeta(matrix, weight):
    near, left, right = _blocks(matrix.shape)
    t, error = cp.Variable(), cp.Variable()
    constraints = [cp.abs(near - matrix) <= error, left <= t, right <= t]
    return _solve(t + weight * error, constraints)


def gamma2_dual(matrix):
    near, left, right = _blocks(matrix.shape)
    return -_solve(-cp.sum(cp.multiply(matrix, near)), [left == 1, right == 1])
