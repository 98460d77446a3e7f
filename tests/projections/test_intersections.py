"""Dykstra's algorithm and averaged projections."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import projections as pj
from tests.marks import slow

from . import derivatives

GOLDEN = np.array([[2.0, 1.5], [1.5, 0.5]])


def ball(x):
    return pj.frobenius_ball(pj.psd(x), 2.0)


def bounded(x):
    return pj.box(x, -1.0, 1.0)


def unit_diagonal(x):
    return x + jnp.diag(1.0 - jnp.diagonal(x))


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_dykstra_finds_the_projection(precision, parallel):
    tol = {"float32": 1e-6, "float64": 1e-12}[precision]
    accuracy = {"float32": 4e-6, "float64": 1e-11}[precision]  # in float32 it ends in rounding
    with jax.enable_x64(precision == "float64"):
        x = jnp.asarray(GOLDEN, precision)
        found = pj.dykstra(x, [ball, bounded], tol=tol, parallel=parallel)
        assert bool(found.converged)
        np.testing.assert_allclose(
            np.asarray(found.point), 1.0, atol=accuracy * float(np.linalg.norm(x))
        )
        assert float(found.residual) <= tol * 3
        assert found.point.dtype == precision


def test_averages_find_another_point():
    with jax.enable_x64(True):
        found = pj.alternating_average(GOLDEN, [ball, bounded], tol=1e-9)
        expected = [[1.0, 0.827685], [0.827685, 0.685062]]
        np.testing.assert_allclose(np.asarray(found.point), expected, atol=1e-6)
        assert bool(found.converged)
        assert np.isinf(found.gap)


@pytest.mark.slow
def test_dykstra_agrees_with_newton_on_correlation_matrices(rng):
    x = rng.standard_normal((6, 6)) + np.eye(6)
    with jax.enable_x64(True):
        exact = np.asarray(pj.correlation(x).point)
        for parallel in (False, True):
            found = pj.dykstra(
                x, (pj.psd, unit_diagonal), tol=1e-8, parallel=parallel, max_steps=20_000
            )
            assert bool(found.converged)
            np.testing.assert_allclose(np.asarray(found.point), exact, atol=1e-6)
        average = pj.alternating_average(x, (pj.psd, unit_diagonal), max_steps=20_000)
        assert np.linalg.norm(np.asarray(average.point) - exact) > 1e-2


def test_the_gap_bounds_the_distance_from_outside_one_set():
    """The last set is met exactly; a half-space and a box in the plane."""

    def half_space(x):
        return x - jnp.maximum(x[0] + x[1] - 1.0, 0.0) / 2.0

    with jax.enable_x64(True):
        x = np.array([4.0, -2.0])
        found = pj.dykstra(x, (lambda x: pj.box(x, low=0.0), half_space), tol=1e-10)
        np.testing.assert_allclose(np.asarray(found.point), [1.0, 0.0], atol=1e-9)
        assert abs(float(found.gap)) <= 1e-9


def test_rest_is_not_taken_for_convergence():
    """From (−2, 1.4), box and line, the sweeps end at the corner (0, 1) for a while."""

    def line(x):
        mean = (x[0] + x[1]) / 2.0
        return jnp.stack([mean, mean])

    def wall(x):
        return jnp.stack([jnp.minimum(x[0], 0.0), x[1]])

    with jax.enable_x64(True):
        found = pj.dykstra(np.array([30.0, 1.4]), (line, wall), tol=1e-9, max_steps=5000)
        np.testing.assert_allclose(np.asarray(found.point), [0.0, 0.0], atol=1e-7)
        assert bool(found.converged)


def test_an_empty_intersection_does_not_converge():
    sets = (lambda x: pj.box(x, high=0.0), lambda x: pj.box(x, low=1.0))
    for found in (
        pj.dykstra(jnp.ones(2), sets, max_steps=50),
        pj.alternating_average(jnp.ones(2), sets, max_steps=50),
    ):
        assert not bool(found.converged)
        assert float(found.residual) >= 0.5
        assert int(found.num_steps) == 50


def test_a_point_of_every_set_is_kept():
    found = pj.dykstra(jnp.full((2, 2), 0.25), [ball, bounded])
    np.testing.assert_allclose(np.asarray(found.point), 0.25, atol=1e-6)
    assert int(found.num_steps) <= 2


def test_transformations(count_compilations):
    x = jnp.asarray(GOLDEN, jnp.float32)
    plain = pj.dykstra(x, [ball, bounded])
    with count_compilations() as seen:
        pj.dykstra(x * 0.9, [ball, bounded], tol=1e-5)
    assert not any("dykstra" in name for name in seen.compiled)

    @jax.jit
    def inside(x, bound):
        return pj.dykstra(x, [ball, lambda x: pj.box(x, -bound, bound)]).point

    np.testing.assert_allclose(inside(x, 1.0), plain.point, atol=1e-6)
    batch = jnp.stack([x, 0.1 * x])
    mapped = jax.vmap(lambda x: pj.dykstra(x, [ball, bounded]).point)(batch)
    np.testing.assert_allclose(mapped[0], plain.point, atol=1e-5)
    _, moved = jax.jvp(lambda x: pj.dykstra(x, [bounded]).point, (x,), (jnp.ones_like(x),))
    np.testing.assert_array_equal(moved, [[0.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize("first", [slow(0), 1], ids=["solver", "box"])
@pytest.mark.parametrize("parallel", [False, True])
def test_derivatives(parallel, first, rng):
    """Both modes, of sets with curvature and without, one of them a solver itself, and a batch."""

    def point(x):
        sets = [lambda x: pj.correlation(x).point, lambda x: pj.box(x, -0.6, 0.6), ball]
        options = {"tol": 1e-9, "max_steps": 20_000, "parallel": parallel}
        return pj.dykstra(x, sets[first : first + 2], **options).point

    with jax.enable_x64(True):
        x = jnp.asarray(1.5 * rng.standard_normal((2, 4, 4)))
        derivatives.check(point, x[0], step=1e-5, tol=1e-5)
        along = jax.vmap(jax.grad(lambda x: jnp.sum(point(x) ** 2)))(x)
        one = jax.grad(lambda x: jnp.sum(point(x) ** 2))(x[1])
        np.testing.assert_allclose(along[1], one, atol=1e-6)
