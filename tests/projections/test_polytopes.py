"""Hulls of columns: certified gaps, both methods, cvxpy, warm starts, degenerate vertices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import projections as pj
from jaxdp.projections import PolytopeProjection

from . import derivatives

SETS = {"hull": pj.hull, "symmetric": pj.symmetric_polytope}
METHODS = ("fista", "frank_wolfe")
TOL = {"float32": 1e-6, "float64": 1e-12}


@pytest.fixture
def problem(rng):
    """Points outside, on the boundary and inside of the hull of 15 points in 6 dimensions."""
    a = rng.standard_normal((6, 15))
    y = 1.5 * rng.standard_normal((8, 6))
    y[4:6] *= 0.05
    y[6] = a[:, 3]
    y[7] *= 30
    return y, a


def true_gap(y, a, found: PolytopeProjection, symmetric):
    """The gap by its definition, in float64."""
    weights = np.asarray(found.weights, np.float64)
    point = weights @ a.T
    correlation = (point - y) @ a
    least = -np.abs(correlation).max(axis=1) if symmetric else correlation.min(axis=1)
    return np.sum((point - y) * point, axis=1) - least


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("precision", TOL)
def test_the_gap_is_met_and_true(name, method, precision, problem):
    y, a = problem
    with jax.enable_x64(precision == "float64"):
        tol = TOL[precision]
        found = SETS[name](
            jnp.asarray(y, precision), jnp.asarray(a, precision), tol=tol, method=method
        )
        y, a = np.asarray(jnp.asarray(y, precision), np.float64), a.astype(precision)
        assert found.point.dtype == precision
        scale = np.sum(y**2, axis=1)
        if method == "fista" or precision == "float64":
            assert np.asarray(found.converged).all()
            assert (np.asarray(found.gap) <= tol * scale).all()
        else:  # where |y| is small its steps are lost in the rounding of the vertices
            largest = np.sum(a**2, axis=0).max()
            assert (np.asarray(found.gap) <= tol * (scale + largest)).all()
        rounding = 30 * float(jnp.finfo(precision).eps) * (1 + scale)
        gap = true_gap(y, np.asarray(a, np.float64), found, name != "hull")
        assert (np.abs(gap - np.asarray(found.gap)) <= rounding).all()
        weights = np.asarray(found.weights, np.float64)
        total = np.abs(weights).sum(axis=1)
        assert (total <= 1 + 1e-6).all()
        if name == "hull":
            assert (weights >= 0).all()
            np.testing.assert_allclose(total, 1.0, rtol=1e-6)


@pytest.mark.parametrize("name", SETS)
def test_both_methods_agree_with_a_conic_solver(name, problem):
    cp = pytest.importorskip("cvxpy")
    y, a = problem
    with jax.enable_x64(True):
        points = [
            np.asarray(SETS[name](y, a, tol=1e-13, method=method).point) for method in METHODS
        ]
        rough = SETS[name](y, a, tol=1e-2)
    weights = cp.Variable(a.shape[1])
    target = cp.Parameter(a.shape[0])
    hull = [weights >= 0, cp.sum(weights) == 1]
    constraints = hull if name == "hull" else [cp.norm1(weights) <= 1]
    task = cp.Problem(cp.Minimize(cp.sum_squares(a @ weights - target)), constraints)
    for i, row in enumerate(y):
        target.value = row
        tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
        task.solve(solver=cp.CLARABEL, **tight)
        exact = a @ weights.value
        for point in points:
            assert np.linalg.norm(point[i] - exact) <= 1e-6 * (1 + np.linalg.norm(row))
        # What the gap promises of a solution that is not one yet.
        distance = np.sum((np.asarray(rough.point)[i] - exact) ** 2)
        assert distance <= float(rough.gap[i]) + 1e-10


def test_the_gap_of_a_wrong_point_is_large(problem):
    y, a = problem
    found = pj.hull(y, a, max_steps=1)
    assert not np.asarray(found.converged)[[0, 1, 2, 3]].any()
    assert (np.asarray(found.num_steps) <= 1).all()


@pytest.mark.slow
def test_warm_starts_and_other_points_do_not_matter(problem):
    y, a = problem
    first = pj.hull(y, a)
    again = pj.hull(y, a, weights=first.weights, tol=2e-6)
    assert 10 * np.sum(again.num_steps) < np.sum(first.num_steps)
    for method in METHODS:
        together = pj.hull(y, a, method=method)
        alone = pj.hull(y[7], a, method=method)
        np.testing.assert_allclose(alone.point, together.point[7], rtol=1e-5)
        assert abs(int(alone.num_steps) - int(together.num_steps[7])) <= 2


@pytest.mark.parametrize("name", SETS)
def test_degenerate_vertices(name):
    project = SETS[name]
    y, four = jnp.array([0.5, 2.0]), jnp.ones((1, 4))
    same = project(y, jnp.ones((2, 1)) * four)
    np.testing.assert_allclose(same.point, [1.0, 1.0], rtol=1e-6)
    zero = project(y, 0.0 * jnp.ones((2, 1)) * four)
    np.testing.assert_array_equal(zero.point, 0.0)
    axis = project(y, jnp.array([[2.0], [0.0]]) * four)
    np.testing.assert_allclose(axis.point, [2.0, 0.0] if name == "hull" else [0.5, 0], atol=1e-6)
    origin = project(jnp.zeros(2), jnp.tile(jnp.eye(2), (1, 2)))
    np.testing.assert_allclose(origin.point, [0.5, 0.5] if name == "hull" else [0, 0], atol=1e-6)
    for found in (same, zero, axis, origin):
        assert bool(found.converged)


def test_a_common_offset_is_harmless(problem):
    """Against the exact projection of what is left of the points in float32, 2**12 away."""
    y, a = (jnp.asarray(x, jnp.float32) + jnp.float32(2**12) for x in problem)
    moved = pj.hull(y, a, tol=1e-14)
    with jax.enable_x64(True):
        wide = (np.asarray(x, np.float64) for x in (y, a))
        exact = pj.hull(*wide, tol=1e-18, method="frank_wolfe").point
    np.testing.assert_allclose(moved.point, np.asarray(exact), rtol=5e-7)


@pytest.mark.slow
def test_derivatives(problem):
    y, a = problem
    with jax.enable_x64(True):
        for project in SETS.values():

            def point(y, project=project):
                return project(y, a, tol=1e-18, max_steps=3000).point

            derivatives.check(point, y[:6], step=1e-4)
            for derivative in (jax.grad, jax.jacfwd):
                with pytest.raises(TypeError, match="a, the vertices of a polytope, has no"):
                    derivative(lambda a, project=project: project(y, a).point.sum())(jnp.asarray(a))


def test_transformations(problem, count_compilations):
    y, a = (jnp.asarray(x, jnp.float32) for x in problem)
    plain = pj.hull(y, a)
    mapped = jax.jit(jax.vmap(pj.hull, in_axes=(0, None)))(y, a)
    np.testing.assert_allclose(mapped.point, plain.point, atol=1e-2)
    many = pj.hull(y.reshape(2, 4, 6), a)
    np.testing.assert_allclose(many.point.reshape(8, 6), plain.point, atol=1e-4)
    with count_compilations() as seen:
        pj.hull(y + 1.0, a, tol=1e-5, max_steps=77)
    assert not any("solve" in name for name in seen.compiled)
    held = jax.jit(lambda y: pj.hull(y, a).point)(y)  # vertices that a trace closes over
    np.testing.assert_allclose(held, plain.point, atol=1e-2)
    wide = pj.hull(y, a, tol=1e-11, method="frank_wolfe", float64=True)
    assert wide.point.dtype == jnp.float32
    assert np.asarray(wide.converged).all()
