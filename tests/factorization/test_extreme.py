"""Matrices that hide digits: no certificate is false, whatever the norm and the shift."""

import functools

import jax
import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads
from jaxdp.factorization import CertificateError
from tests.factorization.matrices import EXTREME, MODERATE, SHAPES, extreme

NORMS = {
    "gamma2": fz.gamma2,
    "gamma_f": fz.gamma_f,
    "signed": fz.signed,
    "gamma2 shifted": functools.partial(fz.gamma2, shift=True),
    "gamma_f shifted": functools.partial(fz.gamma_f, shift=True),
    "signed shifted": functools.partial(fz.signed, shift=True),
}
OFFSETS = (1e8, -1e10)


def symmetric(stack: np.ndarray) -> np.ndarray:
    return stack / 2 + stack.swapaxes(1, 2) / 2


@pytest.mark.parametrize("norm", NORMS)
def test_exact_norms_hold_and_converge(norm):
    stack = symmetric(EXTREME) if "signed" in norm else EXTREME
    result = NORMS[norm](stack)
    fz.certify(stack, result)
    assert np.all(result.converged), np.flatnonzero(~result.converged)
    assert np.all(result.gap <= 1e-6)


@pytest.mark.parametrize("tol", [1e-9, 0.0])
@pytest.mark.parametrize("norm", ["gamma2", "signed"])
def test_nothing_false_is_certified_at_the_limit_of_precision(norm, tol):
    stack = symmetric(EXTREME)
    result = NORMS[norm](stack, tol=tol)
    fz.certify(stack, result)
    assert np.all(result.gap <= 1e-4)


APPROXIMATE = {
    "gamma2_approx": fz.gamma2_approx,
    "gamma_f_approx": fz.gamma_f_approx,
    "zeta": lambda w, level, **kw: fz.zeta(w, weight=2.0, **kw),
}


@pytest.mark.parametrize("norm", APPROXIMATE)
def test_approximate_norms_hold_and_converge(norm):
    level = 0.1 * np.abs(EXTREME).max(axis=(1, 2))
    result = APPROXIMATE[norm](EXTREME, level, tol=1e-6)
    fz.certify(EXTREME, result)
    assert np.all(result.converged), np.flatnonzero(~result.converged)
    assert np.any(result.num_steps > 500)  # Newton's method was needed


def half_rank(search, **options):
    def found(stack, level):
        return search(stack, max(1, min(stack.shape[1:]) // 2), level, **options)

    return found


FOUND = {
    "gamma2_dual": lambda stack, level: fz.gamma2_dual(stack),
    "gamma2_approx by splitting": lambda *given: fz.gamma2_approx(*given, max_steps=400),
    "gamma2_rank": half_rank(fz.gamma2_rank, num_steps=60),
    "projected_gradient": half_rank(fz.projected_gradient, num_steps=60),
    "johnson_lindenstrauss": lambda stack, level: fz.johnson_lindenstrauss(
        stack, fz.gamma2(stack), 3
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("norm", [*NORMS, *APPROXIMATE, *FOUND])
def test_no_certificate_is_false(norm, shape):
    """112 matrices of 16 families in every shape, all norms; what should converge does."""
    if "signed" in norm and shape[0] != shape[1]:
        return
    stack = extreme(*shape)
    stack = symmetric(stack) if "signed" in norm else stack
    level = np.maximum(0.1 * np.abs(stack).max(axis=(1, 2)), 1e-320)
    if norm in NORMS:
        result = NORMS[norm](stack)
    elif norm in APPROXIMATE:
        result = APPROXIMATE[norm](stack, level, tol=1e-6)
    else:
        result = FOUND[norm](stack, level)
    fz.certify(stack, result)
    if norm in [*NORMS, *APPROXIMATE]:
        assert np.all(result.converged), np.flatnonzero(~result.converged)
    if norm in NORMS:  # one by one on the host
        for matrix, upper in zip(stack, result.upper, strict=True):
            one = NORMS[norm](matrix)
            fz.certify(matrix, one)
            assert one.converged
            np.testing.assert_allclose(one.upper, upper, rtol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["gamma2_approx", "gamma_f_approx", "zeta"])
@pytest.mark.parametrize("matrix", MODERATE)
def test_matrices_of_order_32_on_which_splitting_creeps(norm, matrix):
    matrix = MODERATE[matrix] / np.abs(MODERATE[matrix]).max()
    tol = 1e-4 if norm == "zeta" else 1e-5
    result = APPROXIMATE[norm](matrix, 0.05, tol=tol)
    assert result.converged
    fz.certify(matrix, result)
    # Under jit it is one program, and what it finds in float64 is cast at the end.
    if norm == "gamma2_approx":
        traced = jax.jit(lambda w: fz.gamma2_approx(w, 0.05, tol=1e-5).upper)(matrix)
        np.testing.assert_allclose(traced, result.upper, rtol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [*NORMS, *APPROXIMATE])
def test_extreme_matrices_against_clarabel_where_it_converges(norm):
    pytest.importorskip("cvxpy")
    from tests.factorization import reference

    stack = symmetric(EXTREME) if "signed" in norm else EXTREME
    stack = stack / np.abs(stack).max(axis=(1, 2), keepdims=True)  # Clarabel wants order one
    given = {"gamma2_approx": {"alpha": 0.1}, "gamma_f_approx": {"alpha": 0.1}}
    given |= {"zeta": {"weight": 2.0}}
    if norm in APPROXIMATE:
        result = APPROXIMATE[norm](stack, 0.1, tol=1e-6)
    else:
        result = NORMS[norm](stack)
    plain = norm.removesuffix(" shifted").removesuffix("_approx").replace("signed", "gamma2")
    constants = 0 if "shifted" not in norm else 1 if "signed" in norm else stack.shape[1]
    solved = 0
    for i, matrix in enumerate(stack):
        try:
            value = reference.least(matrix, plain, constants=constants, **given.get(norm, {}))
        except reference.Unsolved:
            continue
        solved += 1
        if "gamma_f" in norm:  # Clarabel's tolerance is one of the square
            value, lower, upper = value**2, result.lower[i] ** 2, result.upper[i] ** 2
        else:
            lower, upper = result.lower[i], result.upper[i]
        assert lower <= value * (1 + 1e-5) + 1e-6, i
        assert upper >= value * (1 - 1e-5) - 1e-6, i
        assert upper <= value * (1 + 2e-5) + 2e-6, i
    assert solved >= 60


def test_vanishing_weights_leave_no_direction_out():
    """Once an entry of 1e-9 had a weight of 1e-16, and was read as 0."""
    matrix = np.diag(10.0 ** -np.linspace(0, 9, 20))
    for tol in (1e-6, 1e-10):
        for norm in ("gamma2", "signed"):
            result = NORMS[norm](matrix, tol=tol)
            assert result.converged
            error = np.abs(result.matrix - matrix).max(axis=1) / np.diag(matrix)
            assert error.max() <= 1e-12


@pytest.mark.parametrize("norm", ["gamma2", "gamma_f", "gamma2_approx"])
def test_rows_and_columns_of_zeros_are_answered_by_zeros(norm):
    """Wide, the shape in which the left factor is a triangle; rounding left 3e-12 in its place."""
    matrix = np.random.default_rng(0).normal(size=(4, 8)) * (np.arange(8) != 5)
    matrix[0] = 0.0
    matrix[3] = matrix[1] + 0.7 * matrix[2]
    result = fz.gamma2_approx(matrix, 0.01) if norm == "gamma2_approx" else NORMS[norm](matrix)
    fz.certify(matrix, result)
    assert result.converged
    if norm != "gamma2_approx":
        assert not np.any(result.left[:, 0])
        assert not np.any(result.right[:, 5])


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_common_offset_is_free(offset):
    for norm in ("gamma2 shifted", "gamma_f shifted"):
        plain, moved = NORMS[norm](workloads.prefix(6)), NORMS[norm](workloads.prefix(6) + offset)
        fz.certify(workloads.prefix(6) + offset, moved)
        np.testing.assert_allclose(moved.upper, plain.upper, rtol=2e-6)
    matrix = workloads.lipschitz(6)
    plain, moved = fz.signed(matrix, shift=True), fz.signed(matrix + offset, shift=True)
    fz.certify(matrix + offset, moved)
    np.testing.assert_allclose(moved.upper, plain.upper, rtol=2e-6)


def test_norms_of_tiny_and_huge_matrices_are_multiples():
    """Denormal numbers too, which compiled programs take for 0."""
    matrix = workloads.prefix(6)
    scales = np.array([1e-310, 1e-200, 1.0, 1e150, 1e299])
    stack = scales[:, None, None] * matrix
    for norm in ("gamma2", "gamma_f", "gamma2 shifted"):
        result = NORMS[norm](stack)
        fz.certify(stack, result)
        np.testing.assert_allclose(result.upper / scales, result.upper[2], rtol=1e-12)
        assert np.all(result.converged)
    result = fz.gamma2_approx(stack, 0.1 * scales)
    fz.certify(stack, result)
    np.testing.assert_allclose(result.upper / scales, result.upper[2], rtol=1e-12)


def test_a_small_query_that_is_answered_by_0_is_refused():
    matrix = workloads.prefix(6).copy()
    matrix[3] *= 1e-9
    result = fz.gamma2(matrix)
    fz.certify(matrix, result)
    left = result.left.copy()
    left[:, 3] = 0.0
    wrong = type(result)(**{**vars(result), "left": left})
    with pytest.raises(CertificateError, match=r"the entry at \(3, 0\)"):
        fz.certify(matrix, wrong)
