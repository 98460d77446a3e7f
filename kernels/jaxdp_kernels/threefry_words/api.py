"""Public face of the `threefry_words` operation."""

from typing import Literal

import jax
import jax.numpy as jnp

from .._dispatch import pick
from .ref import threefry_words_ref

IMPLEMENTATIONS = {"xla": threefry_words_ref}
"""Implementations by name. `None` stands for "xla", which runs on every platform."""


def threefry_words(
    key_data: jax.Array,
    start: jax.Array,
    num_words: int,
    implementation: Literal["xla"] | None = None,
) -> jax.Array:
    """Words `start .. start + num_words - 1` of the stream of a threefry2x32 key.

    Word `i` is `x0 ^ x1` of the threefry2x32 block at the 64-bit counter `i`. It equals element `i`
    of `jax.random.bits(key, (n,), uint32)` for any `n > i` (partitionable threefry, jax's default).

    Args:
      key_data: uint32[2], `jax.random.key_data(key)`.
      start: uint32[2], the first index as (high, low) halves; the range must not pass 2**64.
      num_words: how many words, static, below 2**32.
      implementation: "xla", or None for the same. There is no other: on a GPU jax's own words and
        these compile to the same code, fused with what reads them. A hand-written kernel would have
        to write the words to memory.

    Returns:
      uint32[num_words].

    Raises:
      ValueError: unknown implementation, or shapes and dtypes other than the above.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> key = jax.random.key(0)
      >>> words = threefry_words(jax.random.key_data(key), jnp.zeros(2, jnp.uint32), 4)
      >>> bool((words == jax.random.bits(key, (4,))).all())
      True
    """
    if key_data.shape != (2,) or key_data.dtype != jnp.uint32:
        raise ValueError(
            f"key_data must be uint32[2], got {key_data.dtype}{list(key_data.shape)}; use "
            "jax.random.key_data(key) of a threefry2x32 key."
        )
    if start.shape != (2,) or start.dtype != jnp.uint32:
        raise ValueError(
            f"start must be uint32[2] (high, low), got {start.dtype}{list(start.shape)}."
        )
    if not 0 <= num_words < 2**32:
        raise ValueError(f"num_words must be in [0, 2**32), got {num_words}.")
    return pick(IMPLEMENTATIONS, implementation)(key_data, start, num_words)
