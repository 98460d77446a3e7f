"""Public face of the `threefry_words` operation."""

from typing import Literal

import jax
import jax.numpy as jnp

from .._dispatch import pick
from .ref import TILE, StreamKey
from .xla import threefry_words_xla

IMPLEMENTATIONS = {"xla": threefry_words_xla}
"""Implementations by name. `None` stands for "xla", which runs on every platform."""


def threefry_words(
    key: StreamKey,
    start: jax.Array,
    num_users: int,
    num_words: int,
    implementation: Literal["xla"] | None = None,
) -> jax.Array:
    """The random words of consecutive users in a stream.

    A block of threefry2x32 gives two words, and both are used: users 1,024 apart share a block.
    Word j of user u is half `(u >> 10) & 1` of the block at the 64-bit counter
    `((u >> 11) * num_words + j) * 1024 + (u & 1023)`. So tiles of 2,048 users have blocks of their
    own, any number of words per user leaves no half over, and neither words nor users are
    interleaved in memory.

    Args:
      key: the stream's, such as `StreamKey.of(jax.random.key(0))`.
      start: uint32[2], the counter `(u >> 11) * num_words * 1024` of the first user u, a multiple
        of 2,048, as (high, low) halves. The counters must not pass 2**64.
      num_users: how many users, static; those of the last tile need not be all.
      num_words: words per user, static.
      implementation: "xla", or None for the same. There is no other: on a GPU these words fuse with
        what reads them. A hand-written kernel would have to write the words to memory.

    Returns:
      uint32[num_words, num_users].

    Raises:
      ValueError: unknown implementation, or shapes, dtypes and sizes other than the above.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> key = StreamKey.of(jax.random.key(0))
      >>> words = threefry_words(key, jnp.zeros(2, jnp.uint32), num_users=3, num_words=2)
      >>> words.shape
      (2, 3)
    """
    data = key.data
    if data.shape != (3,) or data.dtype != jnp.uint32:
        raise ValueError(
            f"key.data must be uint32[3], got {data.dtype}{list(data.shape)}; use StreamKey.of of "
            "a threefry2x32 key."
        )
    if start.shape != (2,) or start.dtype != jnp.uint32:
        raise ValueError(
            f"start must be uint32[2] (high, low), got {start.dtype}{list(start.shape)}."
        )
    if num_users < 0 or num_words < 0 or (num_users + TILE) * num_words >= 2**33:
        raise ValueError(
            "num_users and num_words must be at least 0, their product below 2**33, got "
            f"{num_users} and {num_words}; make the words of fewer users at once."
        )
    return pick(IMPLEMENTATIONS, implementation)(key, start, num_users, num_words)
