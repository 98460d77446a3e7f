"""Chi-square draws in float32, from two words whatever the degrees of freedom."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32

from .._contract import Words
from ..random import standard_normal
from ..random._gamma import log_accept_far, log_accept_near
from ..random._normal import unit

_MANY = 60.0  # 6.3 / sqrt(9 d) is 0.27


def propose_chi_square(
    words: Words, first: int, degrees: int
) -> tuple[Float32[Array, ""], Bool[Array, ""]]:
    """A proposal of the squared norm of a standard normal vector in R^degrees.

    Twice a gamma of shape `degrees / 2`, by Marsaglia and Tsang's rejection from a cubed normal, as
    `jaxdp.random.gamma` does in float64; of one degree, the square of a normal.

    Args:
      words: uint32[..], of which two are read.
      first: the first of them, static.
      degrees: at least 1, static.

    Returns:
      float32[] > 0, but for underflow, and bool[], whether it is accepted: with a probability of
      0.951 at least.
    """
    normal = standard_normal(words[first])
    if degrees == 1:
        return jnp.square(normal), jnp.asarray(True)
    # Marsaglia and Tsang's d = a - 1/3 for the shape a.
    d = np.float32(degrees / 2 - 1 / 3)
    y = normal * np.float32(1 / math.sqrt(9 * d))
    inside = y > -1
    y = jnp.where(inside, y, np.float32(0))
    # No word stands for a normal above 6.3: of many degrees y is small, and of few d is.
    log_accept = log_accept_near if d >= _MANY else log_accept_far
    accepted = inside & (jnp.log(unit(words[first + 1])) <= d * log_accept(y))
    return 2 * d * (1 + y) ** 3, accepted
