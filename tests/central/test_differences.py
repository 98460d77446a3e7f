"""The factorization norms of all differences of two columns."""

import itertools

import numpy as np
import pytest

from jaxdp import factorization, workloads
from jaxdp.central._factorization_mechanism import factor_differences, squared_distances

NORMS = ("gamma2", "gamma_f")
SOLVERS = {"gamma2": factorization.gamma2, "gamma_f": factorization.gamma_f}


def all_differences(matrix):
    pairs = itertools.combinations(range(matrix.shape[1]), 2)
    return np.stack([matrix[:, x] - matrix[:, y] for x, y in pairs], axis=1)


@pytest.mark.parametrize("norm", NORMS)
def test_norm_is_that_of_the_matrix_of_differences(norm, rng):
    """The bounds bracket what an independent solver finds for the k (k - 1)/2 columns."""
    for matrix in (workloads.prefix(6), rng.normal(size=(6, 6))):
        found = factor_differences(matrix, norm, tol=1e-4, max_steps=1000)
        known = SOLVERS[norm](all_differences(matrix), tol=1e-6)
        assert found.lower <= known.upper * (1 + 1e-9)
        assert known.lower <= found.upper * (1 + 1e-9)
        assert found.upper <= found.lower * (1 + 1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_factors_attain_the_upper_bound(norm, rng):
    matrix = rng.normal(size=(4, 9))
    found = factor_differences(matrix, norm)
    rest = matrix - found.left.T @ found.right
    np.testing.assert_allclose(rest, rest[:, :1] * np.ones(9), atol=1e-8)
    norms = np.linalg.norm(found.left, axis=0)
    size = norms.max() if norm == "gamma2" else np.sqrt(np.mean(norms**2))
    distances = [np.linalg.norm(d) for d in all_differences(found.right).T]
    np.testing.assert_allclose(size * max(distances), found.upper, rtol=1e-9)


def test_closed_forms(rng):
    """Histograms: the centred identity, by symmetry. One query: its range."""
    for norm in NORMS:
        identity = factor_differences(np.eye(8), norm)
        np.testing.assert_allclose(identity.upper, np.sqrt(2 * (1 - 1 / 8)), rtol=1e-9)
        np.testing.assert_allclose(identity.lower, identity.upper, rtol=1e-9)
        query = rng.normal(size=(1, 7))
        assert factor_differences(query, norm).upper == pytest.approx(np.ptp(query), rel=1e-3)


def test_rows_may_be_shifted_scaled_repeated(rng):
    matrix = rng.normal(size=(3, 5))
    plain = factor_differences(matrix, "gamma2")
    moved = factor_differences(1e6 * (matrix + 100 * rng.normal(size=(3, 1))), "gamma2")
    assert moved.upper == pytest.approx(1e6 * plain.upper, rel=2e-3)
    doubled = factor_differences(np.repeat(matrix, 2, axis=0), "gamma2")
    assert doubled.upper == pytest.approx(plain.upper, rel=2e-3)


def test_factors_are_not_those_that_lapack_happens_to_choose(monkeypatch, rng):
    """Singular vectors have any sign, and any basis where singular values are equal."""
    svd = np.linalg.svd

    def another(matrix, full_matrices):
        left, values, right = svd(matrix, full_matrices=full_matrices)
        turn = np.diag(rng.choice([-1.0, 1.0], len(values)))
        equal = values > values[0] * (1 - 1e-6)
        turn[np.ix_(equal, equal)] = np.linalg.qr(rng.normal(size=(equal.sum(),) * 2))[0]
        return left @ turn, values, turn.T @ right

    for matrix in (workloads.prefix(5), np.eye(6)):
        found = factor_differences(matrix, "gamma2")
        with monkeypatch.context() as changed:
            changed.setattr(np.linalg, "svd", another)
            other = factor_differences(matrix, "gamma2")
        np.testing.assert_allclose(other.left, found.left, atol=1e-9)
        np.testing.assert_allclose(other.right, found.right, atol=1e-9)


def test_equal_columns_have_no_differences():
    for matrix in (np.ones((3, 1)), np.full((2, 4), 0.1), np.zeros((1, 2))):
        found = factor_differences(matrix, "gamma2")
        assert (found.lower, found.upper, found.right.shape) == (0, 0, (0, matrix.shape[1]))


def test_squared_distances(rng):
    columns = rng.normal(size=(3, 6)) + 1e8
    expected = np.sum((columns[:, :, None] - columns[:, None, :]) ** 2, axis=0)
    np.testing.assert_allclose(squared_distances(columns), expected, rtol=1e-6, atol=1e-6)
