"""Sets of matrices: optimality in both precisions, degenerate spectra, derivatives, cvxpy."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import projections as pj

from . import derivatives

PRECISIONS = {"float32": 1e-6, "float64": 1e-10}


def top_eigenvalue(d):
    return np.linalg.eigvalsh((d + np.swapaxes(d, -1, -2)) / 2)[..., -1]


def small_part_of_the_cone(d):
    """Matrices of trace at most 10: rounding of x − p must not count for infinity."""
    return 10 * np.maximum(top_eigenvalue(d), 0)


SETS = {
    "psd": (pj.psd, small_part_of_the_cone),
    "spectraplex": (pj.spectraplex, top_eigenvalue),
    "trace at most": (
        lambda x: pj.spectraplex(x, at_most=True),
        lambda d: np.maximum(top_eigenvalue(d), 0),
    ),
    "nuclear": (pj.nuclear_ball, lambda d: np.linalg.norm(d, 2, axis=(-2, -1))),
    "frobenius": (pj.frobenius_ball, lambda d: np.linalg.norm(d, axis=(-2, -1))),
}


def matrices(rng):
    x = rng.standard_normal((6, 5, 5))
    x[1] = np.eye(5)
    x[2] = -3 * np.eye(5)
    x[3] = 1e3 * np.eye(5) + x[3] + x[3].T
    x[4] = 0.01 * x[4]
    x[5] = np.outer(x[5, 0], x[5, 1])
    return x


def violation(x, p, support):
    """Largest ⟨x − p, c − p⟩ over the points c of a set, relative: 0 at the projection."""
    x, p = np.asarray(x, np.float64), np.asarray(p, np.float64)
    inner = np.sum((x - p) * p, axis=(-2, -1))
    return (support(x - p) - inner) / (1 + np.sum(x**2, axis=(-2, -1)))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_variational_inequality(name, precision, rng):
    project, support = SETS[name]
    with jax.enable_x64(precision == "float64"):
        x = jnp.asarray(matrices(rng), precision)
        p = project(x)
        assert p.dtype == precision
        assert np.abs(violation(x, p, support)).max() <= PRECISIONS[precision]
        np.testing.assert_allclose(project(p), p, atol=10 * PRECISIONS[precision] * 1e3)
        other = project(x + 0.1 * jnp.roll(x, 1, axis=0))
        assert violation(x, other, support).max() > 1e-4
        if name in ("psd", "spectraplex"):
            np.testing.assert_array_equal(p, jnp.swapaxes(p, -1, -2))


def test_traces_and_norms(rng):
    x = jnp.asarray(matrices(rng), jnp.float32)
    equal = np.asarray(pj.spectraplex(x, 2.0))
    np.testing.assert_allclose(np.trace(equal, axis1=1, axis2=2), 2.0, rtol=1e-5)
    most = np.asarray(pj.spectraplex(x, 2.0, at_most=True))
    assert (np.trace(most, axis1=1, axis2=2) <= 2.0001).all()
    np.testing.assert_allclose(most[2], 0.0, atol=1e-6)
    wide = pj.nuclear_ball(x[:, :2])
    assert (np.linalg.norm(np.asarray(wide), "nuc", axis=(-2, -1)) <= 1.0001).all()
    np.testing.assert_array_equal(pj.nuclear_ball(x, 1e5), x)


@pytest.mark.slow
def test_derivatives_exist_where_eigenvalues_coincide(rng):
    with jax.enable_x64(True):
        x = jnp.asarray(matrices(rng)[[0, 3]])
        for project in (
            pj.psd,
            pj.spectraplex,
            pj.nuclear_ball,
            lambda x: pj.nuclear_ball(x[:, :3]),
        ):
            derivatives.check(project, x)
        for project in (pj.correlation, pj.bounded_diagonal):
            derivatives.check(lambda x, project=project: project(x).point, x)
        tied = jnp.stack([jnp.eye(3), -jnp.eye(3), jnp.zeros((3, 3)), 5 * jnp.eye(3)])
        for project in (pj.psd, pj.spectraplex, pj.nuclear_ball):
            _, moved = jax.jvp(project, (tied,), (jnp.ones_like(tied),))
            assert np.isfinite(moved).all()
        # At the identity the projection onto the cone is the symmetric part.
        direction = jnp.asarray(rng.standard_normal((3, 3)))
        _, moved = jax.jvp(pj.psd, (jnp.eye(3),), (direction,))
        np.testing.assert_allclose(moved, (direction + direction.T) / 2, atol=1e-12)


@pytest.mark.parametrize("project", [pj.correlation, pj.bounded_diagonal])
def test_second_derivatives_are_refused(project):
    """The primitive behind the first ones would count what they depend on for constants."""
    slope = jax.grad(lambda x: jnp.sum(project(x).point ** 2))
    for outer in (jax.jacfwd, jax.grad):
        with pytest.raises(TypeError, match="no second derivatives"):
            outer(lambda x: slope(x)[0, 1])(jnp.eye(3))


def noisy_correlation(rng, n, noise):
    v = rng.standard_normal((n, n))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    return v @ v.T + noise * rng.standard_normal((n, n))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_correlation_is_feasible_and_its_gap_is_true(precision, rng):
    x = np.stack([noisy_correlation(rng, 12, noise) for noise in (0.1, 1.0, 30.0)])
    with jax.enable_x64(True):
        exact = np.asarray(pj.correlation(x, tol=0.0).point)
    with jax.enable_x64(precision == "float64"):
        found = pj.correlation(jnp.asarray(x, precision))
        point = np.asarray(found.point, np.float64)
        assert np.asarray(found.converged).all()
        np.testing.assert_array_equal(np.diagonal(point, axis1=1, axis2=2), 1.0)
        assert (np.linalg.eigvalsh(point)[:, 0] >= -20 * jnp.finfo(precision).eps * 12).all()
        distance = np.sum((point - exact) ** 2, axis=(1, 2)) / 2
        rounding = 100 * float(jnp.finfo(precision).eps) ** 2 * np.sum(x**2, axis=(1, 2))
        assert (distance <= np.asarray(found.gap, np.float64) + rounding + 1e-14).all()

        rough = pj.correlation(jnp.asarray(x, precision), max_steps=1)
        distance = np.sum((np.asarray(rough.point) - exact) ** 2, axis=(1, 2)) / 2
        assert (distance[1:] > 1e-6).all()
        assert (distance <= np.asarray(rough.gap) * (1 + 1e-5) + 1e-6).all()
        assert not np.asarray(rough.converged)[2]

        warm = pj.correlation(jnp.asarray(x, precision), dual=found.dual)
        assert np.asarray(warm.num_steps).max() <= 2 < np.asarray(found.num_steps).max()


@pytest.mark.slow
def test_correlation_in_float64_within_a_32_bit_program(rng):
    x = jnp.asarray(noisy_correlation(rng, 12, 1.0), jnp.float32)
    found = jax.jit(lambda x: pj.correlation(x, float64=True))(x)
    assert found.point.dtype == jnp.float32
    with jax.enable_x64(True):
        exact = pj.correlation(x.astype(jnp.float64)).point
    np.testing.assert_allclose(np.asarray(found.point), np.asarray(exact), atol=1e-6)


@pytest.mark.slow
def test_correlation_keeps_correlation_matrices(rng):
    x = jnp.asarray(noisy_correlation(rng, 12, 0.0), jnp.float32)
    found = pj.correlation(x)
    np.testing.assert_allclose(np.asarray(found.point), np.asarray(x), atol=1e-5)
    assert float(pj.correlation(jnp.array([[3.0]])).point[0, 0]) == 1.0


def test_correlation_agrees_with_a_conic_solver(rng):
    cp = pytest.importorskip("cvxpy")
    n = 16
    x = noisy_correlation(rng, n, 1.0)
    x = (x + x.T) / 2
    variable = cp.Variable((n, n), PSD=True)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(variable - x)), [cp.diag(variable) == 1])
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-13)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it stopped short of 1e-13
        problem.solve(solver=cp.CLARABEL, **tight)
    with jax.enable_x64(True):
        point = np.asarray(pj.correlation(x).point)
    assert np.linalg.norm(point - variable.value) <= 1e-6 * np.linalg.norm(point)
