"""Chi-square draws in float32, from a few words whatever the degrees of freedom."""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float32

from .._contract import Words
from ..random import standard_normal
from ..random._gamma import log_accept
from ..random._normal import unit

ROUNDS = 15
"""Proposals that are all refused with probability < 2**-64: one is kept with at least 0.951."""


def chi_square_words(degrees: int) -> int:
    """The words of `chi_square`: two for each proposal."""
    return 2 * ROUNDS if degrees > 1 else 1


def chi_square(words: Words, first: int, degrees: int) -> Float32[Array, ""]:
    """The squared norm of a standard normal vector in R^degrees.

    Twice a gamma of shape `degrees / 2`, by Marsaglia and Tsang's rejection from a cubed normal, as
    `jaxdp.random.gamma` does in float64; of one degree, the square of a normal.

    Args:
      words: uint32[..], of which `chi_square_words(degrees)` from `first` on are read as needed.
      first: static.
      degrees: at least 1, static.

    Returns:
      float32[] > 0, but for underflow; `degrees - 2/3` where every proposal was refused.
    """
    if degrees == 1:
        return jnp.square(standard_normal(words[first]))
    # Marsaglia and Tsang's d = a - 1/3 for the shape a.
    d = np.float32(degrees / 2 - 1 / 3)

    def propose(state):
        number, _, _ = state
        y = standard_normal(words[first + 2 * number]) * np.float32(1 / math.sqrt(9 * d))
        inside = y > -1
        y = jnp.where(inside, y, np.float32(0))
        u = unit(words[first + 1 + 2 * number])
        kept = inside & (jnp.log(u) <= d * log_accept(y))
        return number + np.int32(1), jnp.where(kept, y, np.float32(0)), kept

    def refused(state):
        number, _, kept = state
        return ~kept & (number < np.int32(ROUNDS))

    start = propose((jnp.int32(0), jnp.float32(0), jnp.asarray(False)))
    _, y, _ = lax.while_loop(refused, propose, start)
    return 2 * d * (1 + y) ** 3
