"""Perturb and project: certified projections, the law of the noise, error bounds, bad input."""

import dataclasses
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.bounds import gaussian_complexity
from jaxdp.central._convex_set import Intersection
from jaxdp.central._cosine_similarity import CosineSet
from jaxdp.central._perturb_and_project import PerturbAndProject
from jaxdp.projections import box, frobenius_ball, l2_ball, psd
from jaxdp.projections._bounded_diagonal import bounded_diagonal

N = 8


def ball(x):
    return frobenius_ball(psd(x), 2.0)


def bounded(x):
    return box(x, -1.0, 1.0)


def short(x):
    return jnp.where(jnp.eye(x.shape[-1], dtype=bool), jnp.minimum(x, 1.0), x)


def positive(x):
    return box(x, 0.0, 1.0)


def far(x):
    return box(x, 2.0, 3.0)


def half_plane(angle):
    normal = jnp.array([math.cos(angle), math.sin(angle)])

    def project(x):
        unit = normal.astype(x.dtype)
        return x + jnp.maximum(1.0 - jnp.sum(unit * x), 0.0) * unit

    return project


GOLDEN = Intersection(
    (2, 2), (ball, bounded), 2.0, symmetric=True, center=np.eye(2) / 2, inner_radius=0.5
)
SHORT = Intersection(
    (N, N), (psd, short), float(N), symmetric=True, center=np.eye(N) / 2, inner_radius=0.5
)
MECHANISM = PerturbAndProject(CosineSet(N), 0.5, 1.0, 1e-5)


def vectors(rng, n=N, d=3):
    v = rng.standard_normal((n, d))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def test_golden_projection_and_the_average_that_is_not_it():
    x = jnp.array([[2.0, 1.5], [1.5, 0.5]])
    with jax.enable_x64(True):
        exact = GOLDEN.project(x.astype(jnp.float64), tol=1e-9, max_steps=5000)
        mean = GOLDEN.average(x.astype(jnp.float64), tol=1e-9)
    np.testing.assert_allclose(exact.point, np.ones((2, 2)), atol=2e-8)
    assert bool(exact.converged)
    assert float(exact.gap) < 1e-13
    np.testing.assert_allclose(mean.point, [[1, 0.827685], [0.827685, 0.685062]], atol=1e-5)
    assert bool(mean.converged)
    assert float(mean.gap) == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_gap_bounds_the_distance_from_the_projection(noise, rng):
    v = vectors(rng)
    x = v @ v.T + noise * rng.standard_normal((N, N))
    with jax.enable_x64(True):
        x = jnp.asarray(x + x.T) / 2
        exact = np.asarray(bounded_diagonal(x, tol=0.0).point)
        size = np.linalg.norm(exact)
        for steps in (1, 3, 10, 3000):
            found = SHORT.project(x, tol=1e-7, max_steps=steps)
            point = np.asarray(found.point)
            distance = np.linalg.norm(point - exact)
            assert distance <= math.sqrt(float(found.gap)) + 1e-12 * np.linalg.norm(x)
            assert np.linalg.eigvalsh(point)[0] >= -1e-12
            assert np.diagonal(point).max() <= 1 + 1e-12
            if steps == 1:
                assert distance > 1e-3 * size  # the claim is not empty
        assert bool(found.converged)
        assert distance <= 2e-7 * size


def test_three_sets_agree_with_a_conic_solver(rng):
    cp = pytest.importorskip("cvxpy")
    w = jnp.asarray(rng.standard_normal(6)) / 3

    def half_space(x):
        unit = w.astype(x.dtype)
        return x - jnp.maximum(jnp.sum(unit * x) - 0.1, 0.0) / jnp.sum(unit**2) * unit

    x = 2 * rng.standard_normal(6) + 2 * np.asarray(w)
    inner = min(0.1 / float(jnp.linalg.norm(w)), 0.5)
    near = Intersection(
        (6,), (bounded, half_space, l2_ball), 1.0, center=np.zeros(6), inner_radius=inner
    )
    with jax.enable_x64(True):
        found = near.project(jnp.asarray(x), tol=1e-8, max_steps=5000)
    p = cp.Variable(6)
    sets = [cp.abs(p) <= 1, np.asarray(w, np.float64) @ p <= 0.1, cp.norm2(p) <= 1]
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cp.Problem(cp.Minimize(cp.sum_squares(p - x)), sets).solve(solver=cp.CLARABEL, **tight)
    assert p.value is not None
    assert np.linalg.norm(np.asarray(found.point) - p.value) <= 1e-6 * np.linalg.norm(p.value)
    assert bool(found.converged)


def test_empty_intersections_are_reported():
    with pytest.raises(ValueError, match=r"'positive' and 'far' are 1\.41 apart"):
        Intersection((2,), (positive, far), 10.0)
    three = [half_plane(k * 2 * math.pi / 3) for k in range(3)]
    for pair in (three[:2], three[1:], three[::2]):
        Intersection((2,), pair, 10.0)
    with pytest.raises(ValueError, match="common point"):
        Intersection((2,), three, 10.0)
    # they touch in one point, where averages arrive only slowly
    Intersection((2,), (l2_ball, half_plane(0.0)), 1.0)


def below(angle, most):
    normal = jnp.array([math.cos(angle), math.sin(angle)])

    def project(x):
        unit = normal.astype(x.dtype)
        return x - jnp.maximum(jnp.sum(unit * x) - most, 0.0) * unit

    return project


BARE = (l2_ball, below(0.3, 0.5), below(1.2, 0.4))


def test_the_gap_is_infinite_where_nothing_is_proven():
    """A point near each of three sets, and far from their intersection: only a center tells."""
    bare = Intersection((2,), BARE, 1.0)
    centered = dataclasses.replace(bare, center=np.zeros(2), inner_radius=0.4)
    with jax.enable_x64(True):
        x = jnp.array([3.0, 4.0])
        exact = centered.project(x, tol=1e-12, max_steps=10_000)
        assert bool(exact.converged)
        for steps in (3, 12, 40, 10_000):
            for convex_set in (bare, centered):
                found = convex_set.project(x, tol=1e-12, max_steps=steps)
                distance = float(jnp.sum((found.point - exact.point) ** 2))
                assert distance <= float(found.gap) + 2 * float(exact.gap) + 1e-15
                if steps == 3:
                    assert distance > 1e-3  # the claim is not empty
                    assert math.isfinite(float(found.gap)) == (convex_set is centered)
        assert float(found.gap) < 1e-12


@pytest.mark.slow
def test_complexity_without_certificates_is_what_the_radius_says(key):
    bare = Intersection((2,), BARE, 1.0)
    found = gaussian_complexity(bare, key, num_samples=2, max_steps=3)
    assert found.upper == pytest.approx(-found.lower)
    whole = dataclasses.replace(bare, center=np.zeros(2), inner_radius=0.4)
    proven = gaussian_complexity(whole, key, num_samples=2)
    assert -found.upper < proven.lower < proven.upper < found.upper


@pytest.mark.slow
def test_releases_in_batches_equal_single_ones(rng, key):
    """The float64 block holds for what is batched after it was traced, too."""
    mechanism = dataclasses.replace(MECHANISM, method="average")
    target = jnp.asarray(vectors(rng) @ vectors(rng).T, jnp.float32)
    target = target + target.T
    keys = jax.random.split(key, 2)

    @jax.jit
    def one(key):
        return mechanism.release(key, target)

    nested = jax.vmap(jax.vmap(one))(keys[:, None])
    for i, key_of_one in enumerate(keys):
        single = one(key_of_one)
        np.testing.assert_allclose(nested.estimate[i, 0], single.estimate, atol=2e-6)
        np.testing.assert_allclose(nested.noisy[i, 0], single.noisy, atol=2e-6)
    assert single.estimate.dtype == jnp.float32


def test_epsilons_share_one_compilation(rng, key):
    target = jnp.zeros((N, N))
    specs = [dataclasses.replace(MECHANISM, epsilon=e) for e in (0.5, 1.0)]
    params = [spec.build() for spec in specs]
    assert jax.tree.structure(params[0]) == jax.tree.structure(params[1])
    release = jax.jit(lambda params, key: params.release(key, target).noisy)
    first, second = (np.asarray(release(p, key)) for p in params)
    assert release._cache_size() == 1
    np.testing.assert_allclose(first / specs[0].sigma, second / specs[1].sigma, rtol=1e-5)


def test_error_bound_is_the_least_of_three():
    strong = dataclasses.replace(MECHANISM, sensitivity=5.0)
    complexity = CosineSet(N).complexity_bound()
    assert strong.error_bound() == min(strong.sigma * complexity, 4.0 * N**2)
    assert strong.error_bound(complexity=1.0) == strong.sigma
    # the noise itself, where it is small
    weak = dataclasses.replace(MECHANISM, sensitivity=1e-3)
    assert weak.error_bound() == pytest.approx(weak.sigma**2 * N * (N + 1) / 2)
    # no bound by the complexity holds for averages
    average = dataclasses.replace(MECHANISM, method="average", sensitivity=1.0)
    both = min(average.sigma**2 * N * (N + 1) / 2, 4.0 * N**2)
    assert average.error_bound() == pytest.approx(both)
    with pytest.raises(ValueError, match="complexity must be"):
        strong.error_bound(0.0)


def test_bad_sets_and_targets(key):
    with pytest.raises(TypeError, match="set must be a ConvexSet"):
        PerturbAndProject("psd", 1.0, 1.0, 1e-5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"center must lie in all sets.*'far'"):
        Intersection((2,), (far,), 10.0, center=np.zeros(2), inner_radius=0.1)
    with pytest.raises(ValueError, match="center must have shape"):
        Intersection((2,), (far,), 10.0, center=np.zeros(3), inner_radius=0.1)
    with pytest.raises(ValueError, match="together"):
        Intersection((2,), (far,), 10.0, center=np.full(2, 2.5))
    with pytest.raises(ValueError, match=r"shape must be \(n, n\)"):
        Intersection((2, 3), (bounded,), 10.0, symmetric=True)
    with pytest.raises(ValueError, match="projections must hold"):
        Intersection((2,), (), 10.0)
    with pytest.raises(ValueError, match="must keep the shape"):
        Intersection((2,), (jnp.sum,), 10.0)
    with pytest.raises(TypeError, match="functions of an array"):
        Intersection((2,), (1,), 10.0)  # pyright: ignore[reportArgumentType]
    target = np.eye(N)
    with pytest.raises(ValueError, match="target must have shape"):
        MECHANISM.release(key, target[:2])
    hole, skew = target.copy(), target.copy()
    hole[1, 2], skew[0, 3] = np.nan, 0.5
    with pytest.raises(ValueError, match=r"target must be finite, got nan at index \(1, 2\)"):
        MECHANISM.release(key, hole)
    with pytest.raises(ValueError, match=r"symmetric, got 0.5 at \(0, 3\)"):
        MECHANISM.release(key, skew)
    with pytest.raises(TypeError, match="key"):
        MECHANISM.release(0, target)  # pyright: ignore[reportArgumentType]


def test_values_that_are_not_finite_never_spread_inside_jit(key):
    params = MECHANISM.build()
    target = jnp.eye(N).at[0, 1].set(jnp.nan).at[2, 2].set(jnp.inf)
    clean = jnp.eye(N).at[2, 2].set(0.0)
    np.testing.assert_array_equal(params.perturb(key, target), params.perturb(key, clean))
