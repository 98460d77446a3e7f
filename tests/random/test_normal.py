"""Truncated normals: the law, the tails, and no word that leads out of the numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from jaxdp.random._normal import truncated_normal
from tests import stats

TAILS = (0.4999, 0.3, 1e-3, 6e-8, 1e-12, 0.0)


def exact(words, high: bool, tail: float) -> np.ndarray:
    """The quantiles in float64, from the nearer end."""
    u = (words.astype(np.float64) + 0.5) / 2.0**32
    if high:
        return -special.ndtri(u * tail)
    below, above = u * (1 - tail), (1 - u) + u * tail
    return np.where(below < above, special.ndtri(below), -special.ndtri(above))


@pytest.mark.parametrize("tail", TAILS)
def test_quantiles(tail, rng):
    edges = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])
    words = np.concatenate([edges, rng.integers(0, 2**32, 10_000)]).astype(np.uint32)
    for high in (False, True)[: 1 + (tail > 0)]:
        found = truncated_normal(jnp.asarray(words), jnp.asarray(high), jnp.float32(tail))
        expected = exact(words, high, float(np.float32(tail)))
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=3e-7)


def test_law(key):
    """One million draws of a mixture; detects a Kolmogorov distance of 0.0052 with power 0.999."""
    words = jax.random.bits(key, (2, 10**6), jnp.uint32)
    tail = jnp.float32(0.2)
    high = words[0] < np.uint32(2**31)
    draws = np.asarray(jax.jit(truncated_normal)(words[1], high, tail))
    edge = -special.ndtri(float(tail))

    def cdf(x):
        low, up = special.ndtr(x) / 0.8, (special.ndtr(x) - 0.8) / 0.2
        return 0.5 * np.clip(low, 0, 1) + 0.5 * np.clip(up, 0, 1)

    assert draws[np.asarray(high)].min() >= edge - 1e-5
    assert draws[~np.asarray(high)].max() <= edge + 1e-5
    stats.check_cdf(draws, cdf)
    stats.must_fail(stats.check_cdf, draws + 0.02, cdf)


def finite_blocks(function) -> bool:
    """Whether a function of a word is finite for all 2**32 words."""

    def block(number):
        words = (number << np.uint32(22)) | jnp.arange(2**22, dtype=jnp.uint32)
        return jnp.all(jnp.isfinite(function(words)))

    every = jax.jit(lambda: jax.lax.map(block, jnp.arange(2**10, dtype=jnp.uint32)))
    return bool(every().all())


@pytest.mark.slow
def test_no_word_leads_to_an_infinity():
    """Each map is of one word, so all of its values can be looked at.

    Those of `standard_normal` are, in its own tests.
    """
    for tail in (0.4999, 6e-8, 1e-12):
        for high in (False, True):
            args = jnp.asarray(high), jnp.float32(tail)
            assert finite_blocks(lambda words, args=args: truncated_normal(words, *args))
    assert not finite_blocks(lambda words: 1 / words.astype(jnp.float32))
