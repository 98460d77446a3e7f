"""Exact quotients of pairs of words."""

import jax
import jax.numpy as jnp
import numpy as np

from ..random import mul_32x32


def pair(words, word_bits: int) -> tuple[jax.Array, jax.Array]:
    """Two words as the leading bits of a 64-bit number, in uint32 halves (high, low)."""
    if word_bits == 32:
        return words[0], words[1]
    high = (words[0] << np.uint32(32 - word_bits)) | (words[1] << np.uint32(32 - 2 * word_bits))
    return high, jnp.zeros_like(high)


def halves(number: int) -> list[int]:
    """An int below 2**64 as its 32-bit halves (high, low)."""
    return [number >> 32, number & 0xFFFFFFFF]


def divisor(value: int, quotients: int) -> np.ndarray:
    """What `divide` needs to know of a divisor.

    Args:
      value: the divisor d, at least 1.
      quotients: dividends are below `quotients * d`, at most 2**64; at most 2**25.

    Returns:
      uint32[4]: d in halves, a shift s, and `floor(2**(32 + s) / d)`. Dividends have at most
      32 + s bits.
    """
    shift = max((quotients * value - 1).bit_length() - 32, 1)
    return np.array([*halves(value), shift, min(2 ** (32 + shift) // value, 2**32 - 1)], np.uint32)


def divide(high: jax.Array, low: jax.Array, by: jax.Array) -> jax.Array:
    """The exact quotient of a 64-bit number in halves, uint32.

    A product with the rounded reciprocal is at most two too small: the upper 32 bits of the
    dividend lose less than 1 of the quotient, the reciprocal's rounding less than 1, and the floor
    takes the rest.

    Args:
      high: uint32[...].
      low: uint32[...].
      by: uint32[4], a `divisor`.
    """
    upper = (high << (np.uint32(32) - by[2])) | ((low >> np.uint32(1)) >> (by[2] - np.uint32(1)))
    quotient, _ = mul_32x32(upper, by[3])
    carry, product = mul_32x32(quotient, by[1])
    high, low = subtract(high, low, carry + quotient * by[0], product)
    for _ in range(2):
        more = ~less(high, low, by[0], by[1])
        quotient = quotient + more.astype(jnp.uint32)
        lower = subtract(high, low, by[0], by[1])
        high, low = jnp.where(more, lower[0], high), jnp.where(more, lower[1], low)
    return quotient


def less(a_high, a_low, b_high, b_low) -> jax.Array:
    """Whether a < b, for 64-bit numbers in halves."""
    return (a_high < b_high) | ((a_high == b_high) & (a_low < b_low))


def subtract(a_high, a_low, b_high, b_low) -> tuple[jax.Array, jax.Array]:
    """The difference a - b of 64-bit numbers in halves, modulo 2**64."""
    return a_high - b_high - (a_low < b_low).astype(jnp.uint32), a_low - b_low
