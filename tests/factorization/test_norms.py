"""Every norm against semidefinite programs, closed forms and identities."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdp import factorization as fz
from jaxdp import workloads
from jaxdp.factorization import _interior
from tests.factorization.matrices import STACKS
from tests.marks import slow

SOLVERS = {
    "gamma2": lambda w: fz.gamma2(w, tol=1e-7),
    "gamma_f": lambda w: fz.gamma_f(w, tol=1e-7),
    "gamma2_approx": lambda w: fz.gamma2_approx(w, 0.2, tol=2e-6),
    "gamma_f_approx": lambda w: fz.gamma_f_approx(w, 0.2, tol=2e-6),
    "zeta": lambda w: fz.zeta(w, weight=1.5, tol=2e-6),
    "gamma2_dual": lambda w: fz.gamma2_dual(w, tol=1e-7),
}
LEVELS = {"gamma2_approx": (0.2,), "gamma_f_approx": (0.2,), "zeta": (1.5,)}


def comparisons():
    """Every norm on every shape; a shape is a compilation, so most of the others are slow."""
    quick = {(norm, "square") for norm in SOLVERS}
    for norm in SOLVERS:
        for shape in STACKS:
            marks = [] if (norm, shape) in quick else [pytest.mark.slow]
            yield pytest.param(norm, shape, marks=marks)


@pytest.mark.parametrize(("norm", "shape"), list(comparisons()))
def test_agrees_with_a_semidefinite_program(norm, shape):
    pytest.importorskip("cvxpy")
    from tests.factorization import reference

    stack = STACKS[shape]
    stack = stack / np.abs(stack).max(axis=(1, 2), keepdims=True)  # Clarabel wants order one
    result = SOLVERS[norm](stack)
    assert np.all(result.converged)
    fz.certify(stack, result)
    expected = [getattr(reference, norm)(w, *LEVELS.get(norm, ())) for w in stack]
    np.testing.assert_allclose(result.upper, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.lower, expected, rtol=1e-5, atol=1e-6)


def cosecants(k):
    return float(np.mean(1 / np.sin((2 * np.arange(1, k + 1) - 1) * np.pi / (2 * k))))


def cotangents(k):
    return float(np.mean(np.abs(1 / np.tan((2 * np.arange(1, k + 1) - 1) * np.pi / (2 * k)))))


CLOSED = {
    "identity": (workloads.identity(16), 1.0),
    "ones": (np.ones((16, 16)), 1.0),
    "hadamard": (workloads.parity(4, 4), 4.0),
    "parities": (np.pad(workloads.parity(4, 1), ((0, 11), (0, 0))), math.sqrt(5)),
    "gini diversity": (workloads.gini_diversity(16), 2 - 2 / 16),
    "centred identity": (workloads.identity(16) - 1 / 16, 1 - 1 / 16),
    "thresholds": (workloads.thresholds(16), cosecants(16)),
    "sign": (workloads.sign(16), cotangents(16)),
    "kendall": (workloads.kendall(4, 4), cotangents(4) ** 2),
    "auc": (workloads.auc(8), cotangents(8)),
    "distance": (workloads.lipschitz(16), 15.0),
    "prefix": (workloads.prefix(16), 1.70448025),
    "conjunctions": (workloads.marginal(4, 4), (2 / math.sqrt(3)) ** 4),
}


def test_closed_forms_of_gamma2():
    matrices, values = zip(*CLOSED.values(), strict=True)
    result = fz.gamma2(np.stack(matrices), tol=1e-8)
    np.testing.assert_allclose(result.upper, values, rtol=2e-8)
    np.testing.assert_allclose(result.lower, values, rtol=2e-8)


@pytest.mark.parametrize(
    ("k", "gamma2", "squared"), [(24, 1.821335, None), slow(64, 2.11136666, 4.409397)]
)
def test_prefix_sums_match_published_values(k, gamma2, squared):
    assert math.isclose(fz.gamma2(workloads.prefix(k)).upper, gamma2, rel_tol=3e-6)
    if squared is not None:
        assert math.isclose(fz.gamma_f(workloads.prefix(k)).upper ** 2, squared, rel_tol=3e-6)


@pytest.mark.slow
def test_large_matrices_are_decomposed_through_the_gram_matrix(monkeypatch, rng):
    """With a threshold of 1, on a shape that no other test has; the bounds are certified."""
    calls = []
    decompose = _interior._decompose_by_gram
    monkeypatch.setattr(_interior, "_GRAM_SIZE", 1)
    monkeypatch.setattr(
        _interior, "_decompose_by_gram", lambda *a: calls.append(a) or decompose(*a)
    )
    normal, spread = rng.normal(size=(9, 7)), np.exp(3 * rng.normal(size=(9, 1)))
    thin = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 7))
    stack = np.stack([normal, normal * spread, thin, normal[[0, 0, 1, 1, 2, 3, 4, 5, 5]]])
    result = fz.gamma2(stack)
    assert calls
    assert np.all(result.converged)
    assert np.all(fz.certify(stack, result).gap <= 1.1e-6)


def test_the_quadrature_of_the_curvature():
    x = np.geomspace(1e-5, 1.0, 2000)
    value = x * (np.exp(-np.outer(x, _interior.RATES)) @ _interior.MASSES)
    assert 0.08 < np.abs(value - 1).max() < 0.082


@pytest.mark.parametrize("shape", [(5, 5), (6, 4), (3, 6)])
def test_the_curvature_is_the_second_derivative(shape, rng):
    """By differences of the trace norm, a matrix of rank 2 and one of full rank; 8 % for RATES."""
    m, k = shape
    thin = rng.normal(size=(m, 2)) @ rng.normal(size=(2, k))
    for matrix in (rng.normal(size=shape), thin):
        p, q = rng.uniform(0.2, 1, m), rng.uniform(0.2, 1, k)
        spectrum = _interior._spectrum((matrix,), p, q, False, False, gram=False)
        found, _ = _interior._curvature(spectrum, "both")

        def norm(change, matrix=matrix, p=p, q=q):
            rows, cols = p * (1 + change[: len(p)]), q * (1 + change[len(p) :])
            return np.linalg.norm(np.sqrt(rows)[:, None] * matrix * np.sqrt(cols), "nuc")

        (block,) = spectrum.blocks
        for _ in range(3):
            relative, h = rng.normal(size=m + k), 1e-3
            second = (norm(h * relative) - 2 * norm(0 * relative) + norm(-h * relative)) / h**2
            u, v = relative[:m], relative[m:]
            a = (block.left.T * u) @ block.left - (block.right.T * v) @ block.right
            s = block.values
            sizes = np.outer(s, s) / np.maximum(np.add.outer(s, s), 1e-300)
            assert second == pytest.approx(-np.sum(sizes * a**2) / 2, rel=1e-4)
            assert second == pytest.approx(-relative @ found @ relative, rel=0.1)


@pytest.mark.slow
def test_approximate_norm_of_prefix_sums_matches_published_values():
    prefix = np.stack([workloads.prefix(8)] * 3)
    result = fz.gamma2_approx(prefix, np.array([0.1, 0.25, 0.4]), tol=1e-6)
    np.testing.assert_allclose(result.upper, [1.299822, 0.989912, 0.690479], rtol=3e-6)


def test_signed_factor_has_norm_gamma2(rng):
    square = rng.normal(size=(6, 6))
    thin = rng.normal(size=(6, 2))
    stack = np.stack(
        [
            square + square.T,
            thin @ thin.T,
            -thin @ thin.T,
            workloads.lipschitz(6),
            workloads.gini_diversity(6),
            workloads.kendall(2, 3),
            np.zeros((6, 6)),
        ]
    )
    result = fz.signed(stack)
    assert np.all(result.converged)
    fz.certify(stack, result)
    np.testing.assert_allclose(result.upper, fz.gamma2(stack + 0.0).upper, rtol=3e-6)
    np.testing.assert_allclose(np.sum(result.left**2, axis=-2).max(axis=-1), result.upper)
    np.testing.assert_array_equal(result.right, result.signs[..., None] * result.left)
    for matrix in (stack[1], stack[2]):  # semidefinite: the largest diagonal entry
        assert math.isclose(fz.signed(matrix).upper, np.abs(np.diag(matrix)).max(), rel_tol=2e-6)


@pytest.mark.slow  # a shape is a compilation
@pytest.mark.parametrize(
    ("k", "expected"),
    [(2, 0.5), (4, 0.747072), (16, 1.186661), (64, 1.617532), (256, 2.05096)],
)
def test_prefix_sums_modulo_constants(k, expected):
    result = fz.gamma2(workloads.prefix(k), shift=True)
    assert result.converged
    fz.certify(workloads.prefix(k), result)
    np.testing.assert_allclose(result.upper, expected, rtol=6e-6)
    np.testing.assert_allclose(result.dual.sum(axis=1), 0, atol=1e-12)


@pytest.mark.slow
def test_row_constants_are_free():
    matrix = workloads.prefix(8)
    stack = np.stack([matrix + np.arange(8.0)[:, None], 3 * np.ones((8, 8)), matrix.T])
    result = fz.gamma2(stack, shift=True)
    fz.certify(stack, result)
    np.testing.assert_allclose(result.upper[:2], [0.970058, 0.0], rtol=2e-6)
    mean_squared = fz.gamma_f(stack, shift=True)
    fz.certify(stack, mean_squared)
    assert np.all(mean_squared.lower <= result.upper)
    uniform = np.broadcast_to(workloads.identity(8) / 8, (3, 8, 8))  # a witness of plain gamma2
    forged = dataclasses.replace(result, dual=uniform, lower=np.trace(stack, axis1=1, axis2=2) / 8)
    with pytest.raises(fz.CertificateError, match="lower is claimed"):
        fz.certify(stack, forged)


@pytest.mark.slow
def test_one_constant_is_free_for_quadratic_forms(rng):
    square = rng.normal(size=(8, 8))
    cases = {
        "distance": (workloads.lipschitz(8), 3.5),
        "gini diversity": (workloads.gini_diversity(8), 1 - 1 / 8),
        "identity": (np.eye(8), 1 - 1 / 8),
        "constant": (np.full((8, 8), -2.0), 0.0),
        "random": (square + square.T, None),
    }
    stack = np.stack([matrix for matrix, _ in cases.values()])
    result = fz.signed(stack, shift=True)
    assert np.all(result.converged)
    fz.certify(stack, result)
    np.testing.assert_allclose(result.upper[:4], [v for _, v in cases.values()][:4], atol=1e-9)
    others = result.shift[-1] + np.array([-0.3, -0.01, 0.0, 0.01, 0.3])
    near = fz.gamma2(stack[-1] - others[:, None, None]).upper
    assert np.all(near >= result.lower[-1] * (1 - 1e-9))
    np.testing.assert_allclose(near[2], result.upper[-1], rtol=2e-6)


@pytest.mark.slow
def test_full_workloads_need_no_more_than_their_parts(rng):
    """γ_F ≤ γ2, ζ ≤ γ2 and γ2(W; α) ≤ γ2(W) and it is zero once α covers W."""
    stack = STACKS["square"]
    exact = fz.gamma2(stack)
    for smaller in (fz.gamma_f(stack), fz.gamma2_approx(stack, 0.1), fz.zeta(stack, weight=1.0)):
        assert np.all(smaller.lower <= exact.upper * (1 + 1e-9))
    largest = np.abs(stack).max(axis=(1, 2))
    covered = fz.gamma2_approx(stack, largest)
    np.testing.assert_array_equal(covered.upper, np.zeros(len(stack)))
    np.testing.assert_array_equal(covered.gap, np.zeros(len(stack)))


@pytest.mark.slow
def test_a_high_price_makes_zeta_exact():
    stack = STACKS["square"]
    mass = np.abs(fz.gamma2(stack).dual).sum(axis=(1, 2)).max()
    result = fz.zeta(stack, weight=1.01 * mass, tol=1e-5)
    np.testing.assert_allclose(result.upper, fz.gamma2(stack).upper, rtol=2e-5)


@pytest.mark.slow
def test_a_constant_matrix_is_the_best_coarse_approximation():
    """For prefix sums it is 1/2 everywhere: found exactly, and at once where alpha allows."""
    prefix = workloads.prefix(24)
    priced, close = fz.zeta(prefix, weight=2.0), fz.gamma2_approx(prefix, 0.6)
    np.testing.assert_allclose([priced.upper, priced.alpha, close.upper], [1.5, 0.5, 0.4])
    assert close.num_steps == 0
    fz.certify(prefix, priced)
    fz.certify(prefix, close)


def test_zeta_from_users_is_zeta_from_the_weight():
    by_users = fz.zeta(workloads.prefix(6), num_users=9, epsilon=0.5)
    by_weight = fz.zeta(workloads.prefix(6), weight=1.5)
    np.testing.assert_array_equal(by_users.upper, by_weight.upper)


draws = st.integers(0, 2**31).map(np.random.default_rng)


def values(*matrices):
    result = fz.gamma2(np.stack(matrices))
    assert np.all(result.converged)
    return result.upper


@settings(max_examples=15)
@given(draws)
def test_invariances_of_gamma2(rng):
    w = rng.normal(size=(5, 5)) * np.exp(rng.normal(size=5))
    other = rng.normal(size=(5, 5))
    rows, cols = rng.permutation(5), rng.permutation(5)
    signs = 2.0 * rng.integers(0, 2, 5) - 1
    part = w.copy()
    part[rng.integers(0, 5)] = 0.0
    part[:, rng.integers(0, 5)] = 0.0
    base, scaled, permuted, flipped, transposed, second, total, less = values(
        w, -3.5 * w, w[rows][:, cols], signs[:, None] * w, w.T, other, w + other, part
    )
    same = dict(rtol=3e-6)
    np.testing.assert_allclose(scaled, 3.5 * base, **same)
    np.testing.assert_allclose([permuted, flipped, transposed], base, **same)
    assert total <= (base + second) * (1 + 1e-6)
    assert less <= base * (1 + 1e-6)
    assert np.abs(w).max() <= base * (1 + 1e-9)
    shorter = min(np.linalg.norm(w, axis=0).max(), np.linalg.norm(w, axis=1).max())
    assert base <= shorter * (1 + 3e-6)


@pytest.mark.slow
@settings(max_examples=6)
@given(draws)
def test_gamma2_is_multiplicative_over_kronecker_products(rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    product = fz.gamma2(np.kron(a, b)).upper
    np.testing.assert_allclose(product, fz.gamma2(a).upper * fz.gamma2(b).upper, rtol=3e-6)


@pytest.mark.slow
@settings(max_examples=8)
@given(draws)
def test_the_dual_norm_is_dual(rng):
    """⟨W, U⟩ ≤ γ2(W)·γ2*(U), with equality at the dual witness."""
    w, u = rng.normal(size=(2, 5, 4))
    f = fz.gamma2(w)
    assert np.sum(w * u) <= f.upper * fz.gamma2_dual(u).upper * (1 + 1e-9)
    at_witness = fz.gamma2_dual(f.dual)
    np.testing.assert_allclose(at_witness.upper, 1.0, rtol=3e-6)
    grothendieck = np.abs(u @ (2.0 * (np.arange(16)[:, None] >> np.arange(4) & 1).T - 1)).sum(0)
    assert grothendieck.max() <= fz.gamma2_dual(u).upper * (1 + 1e-9)
    assert fz.gamma2_dual(u).lower <= 1.783 * grothendieck.max()


@pytest.mark.slow
@settings(max_examples=6)
@given(draws)
def test_the_approximate_norm_falls_with_alpha(rng):
    w = np.stack([rng.normal(size=(5, 5))] * 4)
    result = fz.gamma2_approx(w, np.array([0.0, 0.1, 0.3, 0.7]), tol=1e-5)
    assert np.all(np.diff(result.upper) <= 1e-5 * result.upper[0])
    assert np.all(np.abs(result.matrix - w).max(axis=(1, 2)) <= result.alpha + 1e-9)
    np.testing.assert_allclose(result.upper[0], fz.gamma2(w[0]).upper, rtol=3e-5)
