"""Degenerate matrices, bad input, batching and transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads
from tests.marks import slow

SOLVERS = {
    "gamma2": fz.gamma2,
    "gamma_f": fz.gamma_f,
    "gamma2_approx": lambda w: fz.gamma2_approx(w, 0.1),
    "zeta": lambda w: fz.zeta(w, weight=2.0),
    "gamma2_dual": fz.gamma2_dual,
}

BASE = np.array([[1.0, 2, 0], [-1, 1, 3], [2, 2, 1]])
DEGENERATE = {
    "zero": np.zeros((3, 3)),
    "zero rows": BASE * [[0], [1], [0]],
    "zero columns": BASE * [0, 1, 0],
    "rank one": np.outer([1.0, -2, 3], [1.0, 1, 4]),
    "repeated": BASE[[0, 0, 1]] * [[1], [-1], [1]],
    "huge": 1e150 * BASE,
    "tiny": 1e-150 * BASE,
    "integers": BASE.astype(int),
    "booleans": BASE > 0,
    "one entry": np.array([[-2.0]]),
    "wide": np.arange(1.0, 41.0).reshape(1, 40),
    "tall": np.arange(1.0, 41.0).reshape(40, 1),
}


SHAPES = ("one entry", "wide", "tall")  # each a compilation


@pytest.mark.parametrize(
    ("norm", "name"),
    [
        (n, d) if n == "gamma2" or d not in SHAPES else slow(n, d)
        for n in SOLVERS
        for d in DEGENERATE
    ],
)
def test_degenerate_matrices_are_answered_and_certified(norm, name):
    matrix = DEGENERATE[name]
    scale = float(np.abs(matrix).max()) or 1.0
    if norm == "gamma2_approx":  # an absolute tolerance
        matrix = matrix / scale
    result = SOLVERS[norm](matrix)
    assert result.converged
    for leaf in jax.tree.leaves(result):
        assert not np.any(np.isnan(leaf))
    fz.certify(matrix, result)


BAD = [
    (lambda: fz.gamma2([[1.0, np.nan]]), ValueError, r"matrix must be finite, got nan at index"),
    (lambda: fz.gamma_f([[np.inf]]), ValueError, "matrix must be finite"),
    (lambda: fz.gamma2(1.0), ValueError, "shape"),
    (lambda: fz.gamma2([1.0, 2.0]), ValueError, "shape"),
    (lambda: fz.gamma2(np.zeros((0, 3))), ValueError, "at least one row"),
    (lambda: fz.gamma2(np.zeros((3, 0))), ValueError, "at least one row"),
    (lambda: fz.gamma2([[1j]]), TypeError, "matrix must be a real array"),
    (lambda: fz.gamma2([["a"]]), TypeError, "matrix"),
    (lambda: fz.gamma2(np.eye(2), tol=-1.0), ValueError, "tol"),
    (lambda: fz.gamma2(np.eye(2), shift=np.ones(2)), TypeError, "shift must be"),
    (lambda: fz.gamma_f(np.ones((2, 3)), shift=np.ones(2)), TypeError, "shift must be"),
    (lambda: fz.gamma2_approx(np.eye(2), -0.1), ValueError, "alpha must be"),
    (lambda: fz.gamma2_approx(np.eye(2), np.nan), ValueError, "alpha must be"),
    (lambda: fz.zeta(np.eye(2)), ValueError, "zeta needs"),
    (lambda: fz.zeta(np.eye(2), 10), ValueError, "zeta needs"),
    (lambda: fz.zeta(np.eye(2), 10, weight=2.0), ValueError, "zeta needs"),
    (lambda: fz.zeta(np.eye(2), 10, 1.0, weight=2.0), ValueError, "zeta needs"),
    (lambda: fz.zeta(np.eye(2), weight=0.0), ValueError, "weight must be"),
    (lambda: fz.zeta(np.eye(2), 0, 1.0), ValueError, "num_users must be"),
    (lambda: fz.zeta(np.eye(2), 10, -1.0), ValueError, "epsilon must be"),
    (lambda: fz.signed([[0.0, 1.0], [-1.0, 0.0]]), ValueError, "must equal its transpose"),
    (lambda: fz.signed(np.ones((2, 3))), ValueError, "square"),
    (lambda: fz.gamma2(np.broadcast_to(1.0, (200_000, 200))), ValueError, "bytes"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("norm", [n if n == "gamma2" else slow(n) for n in SOLVERS])
def test_a_stack_is_solved_like_its_parts(norm):
    parts = [workloads.thresholds(3) + 1, np.array([[1.0, 2, 3], [0, -1, 2], [2, 2, 1]])]
    stack = np.stack([parts, [np.zeros((3, 3)), parts[0].T]])
    batched = SOLVERS[norm](stack)
    assert batched.upper.shape == (2, 2)
    fz.certify(stack, batched)
    for index in np.ndindex(2, 2):
        one = SOLVERS[norm](stack[index])
        np.testing.assert_allclose(batched.upper[index], one.upper, rtol=3e-4, atol=1e-12)


def test_tolerances_may_differ_in_a_stack():
    stack = np.stack([[BASE, BASE], [BASE.T, BASE.T]])
    result = fz.gamma2_approx(stack, np.array([0.1, 0.3]))
    for i, alpha in enumerate([0.1, 0.3]):
        one = fz.gamma2_approx(BASE, alpha)
        np.testing.assert_allclose(result.upper[:, i], one.upper, rtol=2e-4)


@pytest.mark.parametrize("norm", [n if n == "gamma2" else slow(n) for n in SOLVERS])
def test_jit_agrees_with_the_eager_call(norm):
    eager = SOLVERS[norm](BASE)
    assert eager.upper.dtype == np.float64
    traced = jax.jit(SOLVERS[norm])(jnp.array(BASE, jnp.float32))
    assert traced.upper.dtype == jnp.float32
    np.testing.assert_allclose(traced.upper, eager.upper, rtol=1e-6)
    fz.certify(BASE, traced, rtol=1e-4)


@pytest.mark.slow
def test_shifted_norms_under_jit():
    symmetric = BASE + BASE.T
    for solver in (fz.gamma2, fz.signed):
        eager = solver(symmetric, shift=True)
        traced = jax.jit(lambda w, f=solver: f(w, shift=True))(jnp.array(symmetric, jnp.float32))
        np.testing.assert_allclose(traced.upper, eager.upper, rtol=3e-6)
        fz.certify(symmetric, traced, rtol=1e-4)


@pytest.mark.slow
def test_vmap_agrees_with_the_eager_call():
    mapped = jax.vmap(fz.gamma2)(jnp.array(BASE, jnp.float32)[None])
    np.testing.assert_allclose(mapped.upper[0], fz.gamma2(BASE).upper, rtol=1e-6)


def test_under_x64_results_of_jit_are_float64():
    with jax.enable_x64(True):
        result = jax.jit(fz.gamma2)(jnp.array(BASE))
        assert result.upper.dtype == jnp.float64
    fz.certify(BASE, jax.tree.map(np.asarray, result))


def test_a_step_limit_leaves_honest_bounds():
    matrix = BASE
    for result in (
        fz.gamma2(matrix, max_steps=2, tol=0.0),
        fz.gamma2_approx(matrix, 0.1, max_steps=3, tol=0.0),
        fz.gamma2_dual(matrix, max_steps=2, tol=0.0),
    ):
        assert not result.converged
        assert result.num_steps > 0
        assert result.gap > 0
        fz.certify(matrix, result)


def test_a_matrix_of_a_new_shape_compiles_nothing(count_compilations):
    with count_compilations() as seen:
        for k in range(5, 40):
            matrix = workloads.prefix(k)
            for shift in (False, True):
                assert fz.gamma2(matrix, shift=shift).converged
                assert fz.gamma_f(matrix[2:], shift=shift).converged
                assert fz.signed(matrix + matrix.T, shift=shift).converged
            assert fz.gamma2_approx(matrix[:-1], 0.1).converged
            assert fz.gamma_f_approx(matrix, 0.1).converged
            assert fz.zeta(matrix, weight=2.0).converged
            assert fz.gamma2_dual(matrix).converged
    assert not seen.traced


def test_the_host_finds_what_a_program_finds(rng):
    """To rounding, and in as many steps: they are one solver."""
    matrix = rng.normal(size=(7, 9))
    for solve in (*SOLVERS.values(), lambda w: fz.gamma2(w, shift=True)):
        host, compiled = solve(matrix), solve(matrix[None])
        assert host.num_steps == compiled.num_steps[0]
        for name in ("upper", "lower"):
            found = getattr(compiled, name)[0]
            np.testing.assert_allclose(getattr(host, name), found, rtol=1e-8)
