"""Cosine similarities: sensitivity, exact projections, the two splits, retrieval, bad input."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.central import _convex_set
from jaxdp.central._convex_set import Intersection
from jaxdp.central._cosine_similarity import (
    CosineSet,
    CosineSimilarity,
    gram,
    neighbor_recall,
    short_entries,
)
from jaxdp.central._moment_set import MomentSet
from jaxdp.central._perturb_and_project import PerturbAndProject
from jaxdp.projections import frobenius_ball, psd
from jaxdp.projections._bounded_diagonal import bounded_diagonal
from tests.marks import slow

N = 8
COSINE = CosineSimilarity(N, 0.5, 1.0, 1e-5)


def vectors(rng, n=N, d=3):
    v = rng.standard_normal((n, d))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def test_target_does_not_depend_on_lengths(rng):
    v = vectors(rng)
    scaled = v * rng.uniform(1e-30, 1e30, (N, 1))
    np.testing.assert_allclose(gram(jnp.asarray(scaled)), v @ v.T, atol=1e-6)
    np.testing.assert_allclose(COSINE.similarities(v), v @ v.T, atol=1e-6)


@pytest.mark.parametrize("diagonal", ["one", "at_most_one"])
@pytest.mark.parametrize("noise", [0.3, 3.0])
def test_projection_agrees_with_a_conic_solver(diagonal, noise, rng):
    cp = pytest.importorskip("cvxpy")
    v = vectors(rng)
    x = v @ v.T + noise * rng.standard_normal((N, N))
    x = (x + x.T) / 2
    with jax.enable_x64(True):
        found = CosineSet(N, diagonal).project(jnp.asarray(x), tol=1e-8)
    variable = cp.Variable((N, N), PSD=True)
    sides = cp.diag(variable) == 1 if diagonal == "one" else cp.diag(variable) <= 1
    problem = cp.Problem(cp.Minimize(cp.sum_squares(variable - x)), [sides])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.SCS, eps=1e-10, max_iters=100_000)
    assert variable.value is not None
    point = np.asarray(found.point)
    size = np.linalg.norm(point)
    assert np.linalg.norm(point - variable.value) <= 1e-6 * size
    assert float(found.gap) <= (1e-6 * size) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bounded_diagonal_is_feasible_and_its_gap_is_true(precision, rng):
    v = vectors(rng)
    z = rng.standard_normal((N, N))
    x = np.stack([v @ v.T + noise * (z + z.T) / 2 for noise in (0.1, 1.0, 30.0)])
    x[0] *= 0.7  # an inactive diagonal
    with jax.enable_x64(True):
        exact = np.asarray(bounded_diagonal(x, tol=0.0).point)
    with jax.enable_x64(precision == "float64"):
        for steps in (1, 50):
            found = bounded_diagonal(jnp.asarray(x, precision), max_steps=steps)
            point = np.asarray(found.point, np.float64)
            eps = float(jnp.finfo(precision).eps)
            assert (np.diagonal(point, axis1=1, axis2=2) <= 1).all()
            assert (np.linalg.eigvalsh(point)[:, 0] >= -200 * eps).all()
            off = np.sum((point - exact) ** 2, axis=(1, 2)) / 2
            rounding = 100 * eps**2 * np.sum(x**2, axis=(1, 2)) + 1e-14
            assert (off <= np.asarray(found.gap, np.float64) * (1 + 1e-5) + rounding).all()
            if steps == 1:
                assert off[2] > 1e-6  # the claim is not empty
        assert (np.asarray(found.dual) >= 0).all()
        assert (off <= 4 * eps * np.maximum(np.sum(exact**2, axis=(1, 2)), 1)).all()
        assert np.asarray(found.converged)[:2].all()


@pytest.mark.slow
def test_bounded_diagonal_on_the_edges(rng):
    inside = 0.5 * np.eye(N)
    x = np.stack([inside, -np.eye(N), 5.0 * np.eye(N), np.zeros((N, N))])
    found = bounded_diagonal(jnp.asarray(x, jnp.float32))
    expected = np.stack([inside, np.zeros((N, N)), np.eye(N), np.zeros((N, N))])
    np.testing.assert_allclose(found.point, expected, atol=1e-6)
    assert np.asarray(found.converged).all()
    with pytest.raises(ValueError, match="finite"):
        bounded_diagonal(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="square"):
        bounded_diagonal(np.zeros((2, 3)))


@pytest.mark.slow
def test_large_matrices_are_projected_one_by_one_with_equal_results(rng):
    x = jnp.asarray(rng.standard_normal((2, 130, 130)), jnp.float32)
    together = bounded_diagonal(x, max_steps=2)
    np.testing.assert_allclose(together.point[1], bounded_diagonal(x[1], max_steps=2).point)


@pytest.mark.slow
def test_the_frobenius_split_is_the_same_set_but_not_the_same_average(rng):
    x = rng.standard_normal((N, N)) * 2
    with jax.enable_x64(True):
        x = jnp.asarray(x + x.T) / 2
        paper = CosineSet(N, "at_most_one", "frobenius")
        exact = paper.project(x, tol=1e-8).point
        by_parts = Intersection(
            (N, N), paper.parts, N, symmetric=True, center=np.eye(N) / 2, inner_radius=0.5
        ).project(x, tol=1e-7, max_steps=20_000)
        np.testing.assert_allclose(by_parts.point, exact, atol=1e-6)
        sets = [CosineSet(N, "at_most_one"), paper]
        means = [s.average(x, tol=1e-7) for s in sets]
        assert all(bool(mean.converged) for mean in means)
        # Remark 6.1 as printed, without semidefiniteness: a cube, far from the set
        cube = short_entries(x)
        np.testing.assert_allclose(frobenius_ball(cube, float(N)), cube)
        assert float(jnp.linalg.norm(psd(cube) - cube)) > 1
    exact, *points = (np.asarray(p) for p in (exact, *(mean.point for mean in means)))
    for point in points:  # of the set, and not the projection
        assert np.linalg.eigvalsh(point)[0] > -1e-5
        assert np.abs(point).max() < 1 + 1e-5
        assert np.linalg.norm(point - exact) > 0.02 * np.linalg.norm(exact)
    assert np.linalg.norm(points[0] - points[1]) > 1e-3


@pytest.mark.parametrize(
    "change",
    [
        {},
        slow({"diagonal": "at_most_one"}),
        slow({"method": "average"}),
    ],
)
def test_errors_are_below_their_bounds_and_those_of_the_noise(change, rng):
    v = vectors(rng)
    keys = jax.random.split(jax.random.key(1), 20)
    truth = (v @ v.T)[None]

    @jax.jit
    def releases(params):
        return jax.vmap(lambda key: params.release(key, v))(keys)

    for sensitivity in (0.5, 5.0):
        spec = dataclasses.replace(COSINE, sensitivity=sensitivity, **change)
        found = releases(spec.build())
        assert np.asarray(found.converged).all()
        estimate, noisy = (np.asarray(x, np.float64) for x in (found.estimate, found.noisy))
        error, noise = (np.sum((x - truth) ** 2, axis=(1, 2)).mean() for x in (estimate, noisy))
        assert error < 0.6 * noise
        assert error < spec.error_bound()
        assert estimate.max() <= 1 + np.max(found.residual) + 1e-5
        assert spec.exact_delta() <= spec.delta
        assert spec.exact_epsilon() == spec.epsilon
    assert noise > spec.error_bound()
    assert releases._cache_size() == 1


def test_recall_counts_common_neighbours(rng):
    truth, estimate = rng.standard_normal((2, 12, 12))
    shares = []
    for i in range(12):
        order = [[j for j in np.argsort(-x[i]) if j != i][:4] for x in (truth, estimate)]
        shares.append(len(set(order[0]) & set(order[1])) / 4)
    both = neighbor_recall(truth, np.stack([truth, estimate]), 4)
    np.testing.assert_allclose(both, [1.0, np.mean(shares)], rtol=1e-6)
    with pytest.raises(ValueError, match="num_neighbors must be"):
        neighbor_recall(truth, estimate, 12)
    with pytest.raises(ValueError, match="must be n x n"):
        neighbor_recall(truth, estimate[:3, :3], 2)


@pytest.mark.slow
def test_recall_improves_with_the_projection(rng):
    """Items in tight clusters: the projection finds more of the neighbours than the noise does."""
    v = vectors(rng, 5, 4).repeat(6, axis=0) + 0.05 * rng.standard_normal((30, 4))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    spec = CosineSimilarity(30, 0.15, 1.0, 1e-5, method="average", tol=1e-3)
    release = spec.release(jax.random.key(0), v)
    noisy, projected = neighbor_recall(v @ v.T, np.stack([release.noisy, release.estimate]), 5)
    assert 5 / 29 < float(noisy) < float(projected) - 0.1


def test_bad_vectors(rng, key):
    v = vectors(rng)
    with pytest.raises(ValueError, match=r"norm 1, got 2 in row 3"):
        COSINE.release(key, v * np.where(np.arange(N) == 3, 2.0, 1.0)[:, None])
    with pytest.raises(ValueError, match="got 0 in row 5"):
        COSINE.release(key, v * (np.arange(N) != 5)[:, None])
    with pytest.raises(ValueError, match=r"must be finite, got nan at index \(1, 0\)"):
        COSINE.release(key, np.where(np.arange(N)[:, None] == 1, np.nan, v))
    with pytest.raises(ValueError, match="must have shape"):
        COSINE.release(key, v[:-1])
    scaling = dataclasses.replace(COSINE, normalize=True)
    with pytest.warns(UserWarning, match="8 vectors were scaled"):
        found = scaling.release(key, 2 * v)
    np.testing.assert_allclose(found.noisy, COSINE.release(key, v).noisy, atol=1e-6)
    with pytest.raises(ValueError, match="num_items must be"):
        dataclasses.replace(COSINE, num_items=1)
    with pytest.raises(ValueError, match="diagonal must be one of"):
        dataclasses.replace(COSINE, diagonal="two")
    with pytest.raises(ValueError, match="split must be one of"):
        dataclasses.replace(COSINE, split="rows")


def test_what_does_not_fit_is_refused_with_the_bytes(monkeypatch):
    # The grid, too coarse for so many entries, is refused first; for 10**4 items it is not.
    with pytest.raises(ValueError, match=r"500000500000 entries .* not fine enough"):
        PerturbAndProject(CosineSet(10**6), 10.0, 1.0, 0.01)
    huge = PerturbAndProject(CosineSet(10**4), 10.0, 1.0, 0.01)
    monkeypatch.setattr(_convex_set, "physical_memory", lambda: 2**33)
    with pytest.raises(ValueError, match="takes about 9,600,000,000 bytes"):
        huge.build()
    monkeypatch.setattr(_convex_set, "physical_memory", lambda: 6000)
    for mechanism in (COSINE, COSINE.mechanism):
        with pytest.raises(ValueError, match=r"about 6,144 bytes, and the machine has 6,000"):
            mechanism.build()
    assert dataclasses.replace(COSINE, float64=False).build()
    with pytest.raises(ValueError, match="the machine has 6,000"):
        MomentSet(8, 2)
