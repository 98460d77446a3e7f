"""Exact gamma draws, and normal draws in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from numpy.typing import ArrayLike

from .._spec import MAX_USERS, check_key
from .._stored import stored
from .._x64 import compiled_in_float64, one_program
from ._binomial import count_operand
from ._count import Count
from ._rejection import uniforms, until_accepted

_NEAR = 0.04  # |y| up to which the series of `log_accept` is summed
_NUM_TERMS = 12  # the first one left out is below 1e-16 of the sum


def gamma(key: jax.Array, shape: ArrayLike | Count) -> jax.Array:
    """Gamma draws of whole shape and scale 1: sums of `shape` exponentials, up to 2**53 of them.

    The density is `x**(a - 1) e**-x / (a - 1)!`; by Marsaglia and Tsang's rejection from a cubed
    normal, `d (1 + y)**3` with `d = a - 1/3` and `y = z / sqrt(9 d)`.

    *Formal guarantees.* Exact in law up to float64: uniforms of 53 bits, a normal quantile right to
    2e-15, and an acceptance probability `exp(3 d (log(1 + y) - y + y**2/2 - y**3/3))` that is
    evaluated without cancellation, so it is as good at a = 1e12 as at a = 1. A draw is a float64
    number: its spacing is 1e-16 a, against a standard deviation of sqrt(a). A draw depends on its
    own arguments and flat index only.

    *Cost.* About 200 ns a draw on one CPU core, whatever the shape is.

    Edge cases:
      ==============================  ===========================
      shape = 0                       0, the empty sum
      traced shape < 0 or too large   -1 (concrete ones raise)
      ==============================  ===========================

    Args:
      key: a stream key; it is turned into words here and must not be folded as well.
      shape: Count[...], or integers, in [0, 2**53].

    Returns:
      float[...], float64 inside a float64 block (`jaxdp._x64`) and rounded to float32 elsewhere.

    Raises:
      ValueError: a concrete `shape` is out of range.

    Example:
      >>> import jax
      >>> draw = gamma(jax.random.key(0), 10**12)
      >>> abs(float(draw) - 10**12) < 6 * 10**6
      True

    References:
      Marsaglia, Tsang (2000), A simple method for generating gamma variables.
    """
    return _gamma(check_key(key), count_operand("shape", shape))


@compiled_in_float64
def _gamma(key, shape):
    shape = shape.f64()
    index = jnp.arange(shape.size, dtype=jnp.uint32).reshape(shape.shape)
    return draw_gamma(jax.random.key_data(key), index, shape)


@jax.jit
def draw_gamma(key: jax.Array, index: jax.Array, shape: jax.Array) -> jax.Array:
    """Gamma draws as float64, inside a float64 block.

    Args:
      key: uint32[2], key data.
      index: uint32[...], the lane of each draw.
      shape: float64[...], whole numbers.

    Returns:
      float64[...]; -1 where `shape` is out of range.
    """
    valid = (shape >= 0) & (shape <= MAX_USERS)
    drawn = valid & (shape > 0)
    d = jnp.where(drawn, shape, 1.0) - 1 / 3

    def attempt(u, v):
        y = normal_quantile(u) / jnp.sqrt(9 * d)
        inside = y > -1
        y = jnp.where(inside, y, 0.0)
        return d * (1 + y) ** 3, inside & (jnp.log(1 - v) <= d * log_accept(y))

    draw = until_accepted(key, index, attempt, jnp.zeros_like(d), ~drawn)
    return jnp.where(valid, draw, -1.0)


def log_accept(y: jax.Array) -> jax.Array:
    """3 (log(1 + y) - y + y**2/2 - y**3/3) <= 0, to a relative 1e-12 or an absolute 1e-16."""
    near = jnp.abs(y) <= _NEAR
    return jnp.where(near, log_accept_near(jnp.where(near, y, 0.0)), log_accept_far(y))


def log_accept_near(y: jax.Array) -> jax.Array:
    """`log_accept` for small y, by its series; in float32 too for |y| up to 0.3."""
    series = jnp.zeros_like(y)
    for j in range(_NUM_TERMS + 3, 3, -1):  # -y**4/4 + y**5/5 - ..., over y**4
        series = (-1) ** (j + 1) / j + y * series
    return 3 * (y**4 * series)


def log_accept_far(y: jax.Array) -> jax.Array:
    """`log_accept` as it stands: where y is small its terms cancel."""
    return 3 * (jnp.log1p(y) - y * (1 - y * (0.5 - y / 3)))


@one_program
def normal_quantile(u: jax.Array) -> jax.Array:
    """The standard normal quantile at `u + 2**-54`, for `u` in [0, 1) a multiple of 2**-53.

    Exactly odd around 1/2, and never infinite: within 8.3 standard deviations.
    """
    upper = u >= 0.5
    # Not `(1 - u) - 2**-54`: XLA adds the constants up first, to 1.
    tail = jnp.where(upper, 1 - u, u) + jnp.where(upper, -(2.0**-54), 2.0**-54)
    return jnp.where(upper, -1.0, 1.0) * ndtri(tail)


@functools.partial(one_program, static_argnums=1)
def normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Standard normal draws of 53 bits, for noise that is added to totals; in a float64 block.

    Args:
      key: a stream key; it is turned into words here and must not be folded as well.
      shape: static.

    Returns:
      float64[shape].
    """
    check_key(key)
    # Both uniforms of a lane's first attempt make a draw.
    size = int(np.prod(shape))
    index = jnp.arange(-(-size // 2), dtype=jnp.uint32)
    pairs = uniforms(jax.random.key_data(key), index, np.uint32(0)).ravel()
    return stored(normal_quantile(pairs[:size])).reshape(shape)
