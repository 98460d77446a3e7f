"""What the exact samplers share: uniforms of a lane, rejection, and sequential search.

A *lane* is one draw: a uint32 index under a key. The uniforms of its attempt `t` are the threefry
blocks at the counters `(2t, index)` and `(2t + 1, index)`, so a draw depends on its own arguments
only, and neither on how many lanes run beside it nor on vmap, jit or scan.

Everything here runs inside a float64 block (`jaxdp._x64`).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels.threefry_words.ref import threefry2x32

SEARCH_LIMIT = 64
"""Largest result of `search`: a mean below 10 exceeds it with a probability below 2**-80."""


def uniforms(key: jax.Array, index: jax.Array, attempt: jax.Array | np.uint32) -> jax.Array:
    """Two independent uniforms of 53 bits for one attempt of every lane.

    They are one array, made by one evaluation of threefry: half the code to compile of two.

    Args:
      key: uint32[2], key data.
      index: uint32[...], the lanes.
      attempt: uint32[], below 2**31.

    Returns:
      float64[2, ...]: multiples of 2**-53 in [0, 1).
    """
    half = jnp.arange(2, dtype=jnp.uint32).reshape((2,) + (1,) * index.ndim)
    shape = (2, *index.shape)
    high, low = threefry2x32(
        (key[0], key[1]),
        (jnp.broadcast_to(attempt * np.uint32(2) + half, shape), jnp.broadcast_to(index, shape)),
    )
    return fraction(high, low)


def fraction(high: jax.Array, low: jax.Array) -> jax.Array:
    """The uniform of 53 bits, float64[...], that two words uint32[...] stand for."""
    # 27 and 26 bits: what float64 holds exactly.
    whole = (high >> np.uint32(5)).astype(jnp.float64) * 2.0**26
    return (whole + (low >> np.uint32(6)).astype(jnp.float64)) * 2.0**-53


def until_accepted(
    key: jax.Array,
    index: jax.Array,
    attempt: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]],
    draw: jax.Array,
    accepted: jax.Array,
) -> jax.Array:
    """Repeats independent attempts until every lane has accepted one.

    Args:
      key: uint32[2], key data.
      index: uint32[...], the lanes.
      attempt: maps the two `uniforms` of an attempt to (proposal, accept), of all lanes.
      draw: float64[...], results of the lanes that are accepted already; overwritten elsewhere.
      accepted: bool[...]; the other lanes begin with attempt 0.

    Returns:
      float64[...], for each lane its first accepted proposal.
    """

    def again(state):
        number, points, draw, accepted = state
        proposal, accept = attempt(*points)
        draw = jnp.where(accepted, draw, proposal)
        number = number + np.uint32(1)
        return number, uniforms(key, index, number), draw, accepted | accept

    # The uniforms are made one attempt ahead: as carried values they are computed once, where XLA
    # would else repeat all rounds of threefry in each of the fusions that use them.
    start = (jnp.zeros((), jnp.uint32), uniforms(key, index, np.uint32(0)), draw, accepted)
    return lax.while_loop(lambda state: ~jnp.all(state[-1]), again, start)[-2]


def search(
    u: jax.Array,
    pmf: jax.Array,
    ratio: Callable[[jax.Array], jax.Array],
    active: jax.Array,
) -> jax.Array:
    """The inverse of a distribution function on 0, 1, 2, ... at `u`, by sequential search.

    Args:
      u: float64[...], uniforms in [0, 1).
      pmf: float64[...], the probability of 0.
      ratio: maps x, float64[], to pmf(x + 1) / pmf(x) of all lanes; 0 beyond the support.
      active: bool[...], the lanes to search; their mean is below 10.

    Returns:
      float64[...], at most `SEARCH_LIMIT`; 0 where not active.
    """

    def step(state):
        x, result, pmf, below, active = state
        below = below + pmf
        pmf = pmf * ratio(x)
        # Rounding alone leads past the support of a lane, where its pmf is 0.
        active = active & (u >= below) & (pmf > 0)
        return x + 1, jnp.where(active, x + 1, result), pmf, below, active

    zero = jnp.zeros_like(u)
    start = (jnp.zeros(()), zero, pmf, zero, active)

    def unfinished(state):
        return (state[0] < SEARCH_LIMIT) & jnp.any(state[-1])

    return lax.while_loop(unfinished, step, start)[1]
