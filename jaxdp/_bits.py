"""Arithmetic on the bits of 32-bit words."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Int32, UInt32


def mul_32x32(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The 64-bit product of two uint32 arrays, as (high, low) uint32 halves.

    Written with 16-bit pieces: `lax.mulhi` does not compile in multi-device programs.
    """
    mask, half = np.uint32(0xFFFF), np.uint32(16)
    a_lo, a_hi, b_lo, b_hi = a & mask, a >> half, b & mask, b >> half
    low = a_lo * b_lo
    cross_a, cross_b = a_hi * b_lo, a_lo * b_hi
    # Three terms below 2**16 each: no carry is lost.
    middle = (low >> half) + (cross_a & mask) + (cross_b & mask)
    high = a_hi * b_hi + (cross_a >> half) + (cross_b >> half) + (middle >> half)
    return high, (low & mask) | (middle << half)


FRACTION = 2**16
"""The parts of a unit that `rounded` takes."""


def rounded(parts: Int32[Array, "d *n"], words: UInt32[Array, "w *n"]) -> Int32[Array, "d *n"]:
    """Numbers in parts of a unit, rounded at random to units, without bias.

    Args:
      parts: multiples of 1/`FRACTION`, below 2**31 - `FRACTION`.
      words: random ones, half as many as numbers, rounded up: each has the dithers of two.
    """
    dithers = jnp.concatenate([words & np.uint32(FRACTION - 1), words >> np.uint32(16)])
    return dithered(parts, dithers[: parts.shape[0]])


def dithered(parts: Int32[Array, "*s"], dithers: UInt32[Array, "*s"]) -> Int32[Array, "*s"]:
    """Numbers in parts of a unit, rounded to units by dithers in [0, `FRACTION`)."""
    return (parts + dithers.astype(jnp.int32)) >> np.int32(16)


def to_even(x: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """The nearest whole numbers, ties to even: `jnp.rint`, which Triton lacks."""
    low = jnp.floor(x)
    part, half = x - low, np.float32(0.5)  # exact
    odd = low != np.float32(2) * jnp.floor(low * half)
    return jnp.where((part > half) | ((part == half) & odd), low + np.float32(1), low)


def parity(x: Int[Array, "..."]) -> Int32[Array, "..."]:
    """The sum of the bits of each integer, modulo 2."""
    return (lax.population_count(x) & 1).astype(jnp.int32)
