"""Normals, whole and truncated, one from each word."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from jaxdp_kernels.standard_normal import standard_normal as standard_normal


def unit(word):
    """A word as float32 in (0, 1]: the middle of its share of the unit interval."""
    return word.astype(jnp.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)


def truncated_normal(word, high, tail):
    """A standard normal within the upper tail of a probability, or outside of it; always finite.

    The quantile function is read from the nearer end, so both tails are fine, and reach as far as
    one word can tell.

    Args:
      word: uint32[].
      high: bool[], whether to draw from the tail.
      tail: float32[], the probability of the tail: below one half, and at least 1e-20 or zero.

    Returns:
      float32[].
    """
    # v is 1 - u, without losing the digits of a u near 1.
    u, v = unit(word), unit(~word)
    above = u * tail + jnp.where(high, np.float32(0), v)
    below = jnp.where(high, np.float32(1), u * (np.float32(1) - tail))
    z = ndtri(jnp.minimum(above, below))
    return jnp.where(above < below, -z, z)
