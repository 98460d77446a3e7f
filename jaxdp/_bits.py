"""Arithmetic on the bits of 32-bit words."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Int32


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


def parity(x: Int[Array, "..."]) -> Int32[Array, "..."]:
    """The sum of the bits of each integer, modulo 2."""
    return (lax.population_count(x) & 1).astype(jnp.int32)
