"""Normals, whole and truncated, one from each word."""

import jax.numpy as jnp
import numpy as np

from jaxdp_kernels.standard_normal import standard_normal as standard_normal
from jaxdp_kernels.standard_normal.ref import polynomial

# R(w) = P(w) / Q(w), lowest power first: near a rational function of this degree for which
# (1 - 2p) R(-log(4 p (1 - p))) has the least relative error as the normal quantile at 1 - p, for
# p from 1e-30 to 1/2: 2.1e-7, and 5e-7 in float32. All are positive, so nothing cancels.
_P = (
    1.25331438,
    0.471405089,
    0.09975826,
    0.0142767103,
    0.00138068653,
    7.13730187e-5,
    4.39955585e-7,
)
_Q = (1.0, 0.114331745, 0.0366180316, 0.00296464306, 2.86415685e-4, 5.38962377e-6, 7.573421e-9)


def unit(word):
    """A word as float32 in (0, 1]: the middle of its share of the unit interval."""
    return word.astype(jnp.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)


def truncated_normal(word, high, tail):
    """A standard normal within the upper tail of a probability, or outside of it; always finite.

    The quantile function is read from both ends, so both tails are fine, and reach as far as one
    word can tell.

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
    below = jnp.where(high, np.float32(1) - above, u * (np.float32(1) - tail))
    w = -jnp.log(np.float32(4) * above * below)
    return (below - above) * (polynomial(_P, w) / polynomial(_Q, w))
