"""Flattened answers of sparse users: the certificate of the projection, and what it reports."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp._subsets import joined
from jaxdp.central import Marginals
from jaxdp.central._flattened import project_flattened
from jaxdp.projections import dykstra, psd

N, T = 6, 2


def noisy_answers(rng):
    singles = np.full(N, 1 / N)
    pairs = np.zeros(N * (N - 1) // 2)
    exact = np.concatenate([[1.0], singles, pairs])
    return exact + np.concatenate([[0.0], 0.5 * rng.standard_normal(len(exact) - 1)])


def test_gap_bounds_the_distance_from_the_exact_projection(rng):
    project = jax.jit(project_flattened, static_argnums=(1, 2, 3, 4))
    with jax.enable_x64(True):
        answers = jnp.asarray(noisy_answers(rng))
        found = {s: project(answers, N, 2, "marginals", T, s) for s in (1, 3, 10, 4000)}
    exact = found[4000]
    assert bool(exact.converged)
    assert float(exact.gap) < 1e-9
    for steps, early in found.items():
        distance = float(np.sum((np.asarray(early.point) - np.asarray(exact.point)) ** 2))
        assert distance <= (float(early.gap) ** 0.5 + float(exact.gap) ** 0.5) ** 2
        assert int(early.num_steps) <= steps
        if steps == 1:
            assert distance > 1e-3  # the claim is not empty
            assert not bool(early.converged)


def test_releases_report_the_certificate():
    rows = np.eye(N, dtype=np.float32)
    users = jaxdp.Population.from_histogram([20] * N, rows)
    spec = Marginals(N, 2, 0.2, 1e-6, sparsity=T, method="flattened", max_steps=2)
    release = spec.release(users, jax.random.key(0))
    assert not bool(release.converged)
    assert int(release.num_steps) == 2
    assert 0 < float(release.gap) < np.inf


@pytest.mark.slow
def test_the_matrix_is_the_nearest_of_both_sets(rng):
    """Against Dykstra's algorithm on the sets as the docstring states them."""
    answers = noisy_answers(rng)
    matrix = answers[joined(N, 1, "marginals")]
    trace = float(1 + T)

    def short(x):
        over = jnp.maximum(jnp.trace(x) - trace, 0.0)
        return x - over / len(x) * jnp.eye(len(x), dtype=x.dtype)

    def small(x):
        size = jnp.sort(jnp.abs(x).ravel())[::-1]
        excess = (jnp.cumsum(size) - trace**2) / jnp.arange(1.0, x.size + 1)
        threshold = jnp.maximum(jnp.max(excess), 0.0)
        return jnp.sign(x) * jnp.maximum(jnp.abs(x) - threshold, 0.0)

    with jax.enable_x64(True):
        found = project_flattened(jnp.asarray(answers), N, 2, "marginals", T, 4000)
        point = dykstra(matrix, (psd, short, small), tol=1e-9, max_steps=20_000).point
    both = np.asarray(point)
    singles = (2 * both[0, 1:] + np.diag(both)[1:]) / 3
    pairs = both[1:, 1:][np.triu_indices(N, 1)]
    expected = np.clip(np.concatenate([[1.0], singles, pairs]), 0, 1)
    np.testing.assert_allclose(found.point, expected, atol=1e-5)
