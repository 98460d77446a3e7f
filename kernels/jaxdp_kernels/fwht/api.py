"""Public face of the `fwht` operation."""

from typing import Literal

import jax
import jax.numpy as jnp

from .._dispatch import need_gpu, pick
from .xla import fwht_xla


def _triton(x: jax.Array) -> jax.Array:
    """The Triton kernel, imported where it is asked for: Pallas is slow to import."""
    need_gpu("triton")
    from .triton import fwht_triton

    return fwht_triton(x)


IMPLEMENTATIONS = {"xla": fwht_xla, "triton": _triton}
"""Implementations by name. `None` picks "xla", which runs on every platform."""

MAX_LENGTH = 2**24
"""The longest axis that is transformed."""

_DTYPES = ("float32", "float64", "int32")


def fwht(x: jax.Array, implementation: Literal["xla", "triton"] | None = None) -> jax.Array:
    """The unnormalised Walsh-Hadamard transform of the last axis.

    `y[i] = sum over j of (-1)**popcount(i & j) x[j]` in O(K log K) operations for a length K, for
    each index of the leading axes on its own. Applied twice it multiplies by K, and it is its own
    transpose.

    Edge cases:
      ========================  =======================================================
      int32                     exact modulo 2**32
      whole numbers in float32  exact if their magnitudes sum to at most 2**24
      a NaN or an infinity      reaches every entry of its transform
      length 1                  x itself
      ========================  =======================================================

    Args:
      x: float32, float64 or int32, [..., K] with K a power of two from 1 to 2**24.
      implementation: None or "xla" runs on every platform. "triton" is for GPUs, float32 and K from
        2**6 to 2**24, of 2**10 entries in all: one kernel up to 2**12, two up to 2**20, then three.
        On an H100 it takes a third of the time of "xla" at 2**10 and at 2**14, a quarter at 2**12,
        and up to 2**12 nine tenths of what its memory can do. It has no forward-mode derivative,
        and jax means to remove its backend.

    Returns:
      An array of the shape and dtype of x.

    Raises:
      ValueError: K is not such a power of two, another dtype, or an implementation that is unknown
        or not for this argument or device.

    Example:
      >>> import jax.numpy as jnp
      >>> fwht(jnp.array([1, 0, 2, 0])).tolist()
      [3, 3, -1, -1]
    """
    x = jnp.asarray(x)
    length = x.shape[-1] if x.ndim else 0
    if length < 1 or length & (length - 1) or length > MAX_LENGTH:
        raise ValueError(
            "the last axis of x must have a length that is a power of two in [1, 2**24], got shape "
            f"{list(x.shape)}; pad it with zeros."
        )
    if x.dtype.name not in _DTYPES:
        raise ValueError(f"x must have a dtype out of {_DTYPES}, got {x.dtype}; convert it.")
    return pick(IMPLEMENTATIONS, implementation)(x)
