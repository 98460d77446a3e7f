"""Workers make the draws that attempts in step make, and a squeeze accepts what they would."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.random import Count, binomial
from jaxdp.random import _binomial as binomials
from jaxdp.random import _hypergeometric as hypergeometrics
from jaxdp.random._rejection import FEW, draw_by_workers, draw_in_step


def binomial_law(rng, size):
    rare = rng.random(size) < 0.5
    n = np.floor(10 ** np.where(rare, rng.uniform(0, 2, size), rng.uniform(3, 12, size)))
    return binomials.Law(jnp.asarray(n), jnp.asarray(rng.uniform(0, 0.5, size)))


def hypergeometric_law(rng, size):
    total = np.floor(10 ** rng.uniform(0, 12, size))
    half = (np.floor(total / 2 * rng.random(size)) for _ in range(2))
    return hypergeometrics.Law(jnp.asarray(total), *map(jnp.asarray, half))


@pytest.mark.parametrize("law_of", [binomial_law, hypergeometric_law])
@pytest.mark.parametrize("size", [1, FEW, 4 * 4096 + 1])
def test_workers_draw_the_same(law_of, size, rng):
    with jax.enable_x64(True):
        halves = rng.integers(2**32, size=(2, size), dtype=np.uint32)
        keys = (jnp.asarray(halves[0]), jnp.asarray(halves[1]))
        lanes = keys, jnp.arange(size, dtype=jnp.uint32), law_of(rng, size)
        expected = jax.jit(draw_in_step)(*lanes)
        assert np.array_equal(jax.jit(draw_by_workers)(*lanes), expected)


def test_a_batch_is_more_lanes(key):
    """Batches large enough for workers, of draws too few for them."""
    n, keys = Count.of(np.arange(1, 101) ** 5), jax.random.split(key, 6)
    expected = np.stack([binomial(k, n, 0.3).numpy() for k in keys])
    got = jax.vmap(jax.jit(lambda k: binomial(k, n, 0.3)))(keys)
    assert np.array_equal(got.numpy(), expected)
    got = jax.vmap(jax.vmap(lambda k: binomial(k, n, 0.3)))(keys.reshape(2, 3))
    assert np.array_equal(got.numpy().reshape(6, -1), expected)


@pytest.mark.parametrize("mean", [10, 11.6, 133, 1e4, 1e9])
def test_squeeze_has_room(mean):
    """All of the box is accepted, and would be were it higher by 0.4 %."""
    with jax.enable_x64(True):
        u = jnp.linspace(0.07, 0.93, 100_001, dtype=jnp.float64)
        for p in (0.5, 0.3, 0.01, 1e-6):
            hat = binomials._Hat.of(jnp.full_like(u, np.ceil(mean / p)), jnp.full_like(u, p))
            height = 0.92 - 4.2 / hat.width
            assert np.all(hat.attempt(u, 1 - 1.004 * height)[1])
            assert np.mean(hat.squeeze(u, 1 - 0.999 * height) >= 0) > 0.99
