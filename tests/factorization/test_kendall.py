"""Kendall's kernel in the sectors of its symmetries, against the solver for any matrix."""

import dataclasses

import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads

TABLES = [(2, 2), (2, 3), (3, 2), (3, 3), (4, 4), (4, 5), (5, 5), (6, 4), (8, 7)]


@pytest.mark.parametrize("table", TABLES)
def test_factors_and_witness_are_those_of_the_matrix(table):
    found = fz.kendall(*table)
    certificate = fz.certify(workloads.kendall(*table), found)
    assert found.converged
    assert certificate.gap <= 1e-6
    assert certificate.residual <= 1e-12


@pytest.mark.parametrize("table", [(2, 3), (3, 3), (6, 4)])
def test_no_other_solver_finds_less(table):
    found = fz.kendall(*table)
    dense = fz.gamma2(workloads.kendall(*table), shift=True)
    assert found.lower <= dense.upper * (1 + 1e-9)
    assert dense.lower <= found.upper * (1 + 1e-9)


@pytest.mark.parametrize("table", [(4, 4), (4, 5), (5, 5)])
def test_one_vector_serves_the_form(table):
    """Each coordinate of `left` is a multiple of that of `right`, and a constant."""
    found = fz.kendall(*table)
    slopes, vectors = np.asarray(found.left), np.asarray(found.right)
    off = vectors - vectors.mean(axis=1, keepdims=True)
    scales = np.sum(slopes * off, axis=1) / np.sum(off**2, axis=1)
    linear = slopes.mean(axis=1) - scales * vectors.mean(axis=1)
    np.testing.assert_allclose(slopes, scales[:, None] * vectors + linear[:, None], atol=1e-9)
    rows = linear @ vectors
    matrix = vectors.T @ (scales[:, None] * vectors) + rows[:, None] + rows
    np.testing.assert_allclose(matrix, workloads.kendall(*table), atol=1e-9)


def test_bounds_hold_without_convergence():
    found = fz.kendall(6, 6, max_steps=1)
    certificate = fz.certify(workloads.kendall(6, 6), found)
    assert not found.converged
    assert 1e-3 < certificate.gap < 1
    with pytest.raises(fz.CertificateError, match="lower"):
        fz.certify(workloads.kendall(6, 6), dataclasses.replace(found, lower=found.upper, gap=0.0))


def test_bad_arguments():
    with pytest.raises(ValueError, match="num_rows must be an integer"):
        fz.kendall(1, 4)
    with pytest.raises(ValueError, match="num_cols must be an integer"):
        fz.kendall(4, 1)
    with pytest.raises(ValueError, match="tol must be"):
        fz.kendall(4, 4, tol=-1.0)
    with pytest.raises(ValueError, match="max_steps"):
        fz.kendall(4, 4, max_steps=0)
    with pytest.raises(ValueError, match="memory"):
        fz.kendall(1000, 1000)
