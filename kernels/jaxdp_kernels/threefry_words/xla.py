"""`threefry_words` on any platform: both words of every block."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .ref import LANES, TILE, StreamKey

T = TypeVar("T")

FEW_WORDS = 2
"""Words of a user up to which both halves of their blocks are made and one of them is taken."""


def threefry_words_xla(
    key: StreamKey, start: jax.Array, num_users: int, num_words: int
) -> jax.Array:
    """The words of the first users of consecutive tiles; see `threefry_words`."""
    tiles = -(-num_users // TILE)
    if num_users <= LANES:
        row = lax.broadcasted_iota(jnp.uint32, (num_words, num_users), 0) * np.uint32(LANES)
        offset = row + lax.broadcasted_iota(jnp.uint32, (num_words, num_users), 1)
        return key.blocks(start, offset)[0]
    if num_words <= FEW_WORDS:  # a choice: what reads concatenated halves is not vectorised
        user = lax.broadcasted_iota(jnp.uint32, (num_words, num_users), 1)
        row = (user >> np.uint32(11)) * np.uint32(num_words)
        row += lax.broadcasted_iota(jnp.uint32, (num_words, num_users), 0)
        offset = (row << np.uint32(10)) | (user & np.uint32(LANES - 1))
        first, second = key.blocks(start, offset)
        return jnp.where((user & np.uint32(LANES)) == 0, first, second)
    words = jnp.moveaxis(threefry_tiles(key, start, tiles, num_words, num_words), 1, 0)
    return words.reshape(num_words, tiles * TILE)[:, :num_users]


def threefry_tiles(
    key: StreamKey, start: jax.Array, tiles: int, num_words: int, num_first: int
) -> jax.Array:
    """The first words of the users of consecutive tiles, as they lie in memory.

    The blocks of a tile are consecutive: `num_words` rows of 1,024, each of which gives the rows of
    both halves of the tile's users. So counters and words are computed as vectors, and only the
    result is seen as an array of tiles, words and users. (On CPU, XLA takes up to twice as long for
    counters that are computed from three indices.)

    Args:
      key: the stream's.
      start: uint32[2], the counter of the first tile.
      tiles: static.
      num_words: words per user, static.
      num_first: how many of them are made, the first ones; static.

    Returns:
      uint32[tiles, num_first, 2048].
    """
    offset = lax.iota(jnp.uint32, tiles * num_first * LANES)
    if num_first < num_words:
        left_out = lax.iota(jnp.uint32, tiles) * np.uint32((num_words - num_first) * LANES)
        # Stored: fused with the blocks, these would be three indices again.
        offset += lax.optimization_barrier(jnp.repeat(left_out, num_first * LANES))
    halves = lax.platform_dependent(
        key, start, offset, cpu=_stored_blocks, default=StreamKey.blocks
    )
    rows = jnp.stack([half.reshape(tiles, num_first, LANES) for half in halves], axis=2)
    return rows.reshape(tiles, num_first, TILE)


def _stored_blocks(key: StreamKey, start: jax.Array, offset: jax.Array) -> tuple[jax.Array, ...]:
    """`StreamKey.blocks`, made once."""
    return separated(stored(lambda: joined(*key.blocks(start, offset)), start))


def joined(*arrays: jax.Array) -> jax.Array:
    """One array of uint32 as it is, or two as one of complex numbers; `separated` is the inverse.

    XLA for CPU has no loop with two results, and would make each alone. Nothing computes with the
    complex numbers: their parts are the bits of the arrays.
    """
    if len(arrays) == 1:
        return arrays[0]
    return lax.complex(*(lax.bitcast_convert_type(array, jnp.float32) for array in arrays))


def separated(array: jax.Array) -> tuple[jax.Array, ...]:
    """The arrays of uint32 of which `joined` made one."""
    if array.dtype == jnp.uint32:
        return (array,)
    parts = lax.real(array), lax.imag(array)
    return tuple(lax.bitcast_convert_type(part, jnp.uint32) for part in parts)


def stored(make: Callable[[], T], start: jax.Array) -> T:
    """What `make` returns, in memory; for CPU alone.

    XLA fuses what makes an array into each of its readers, and so makes it once for each; it drops
    optimization barriers early. A branch that is taken at run time is what it does not fuse across.

    Args:
      make: makes a pytree of arrays.
      start: the counter of a tile's first block, of which XLA does not know that it is a multiple
        of 1,024.
    """

    def zeros() -> T:
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(make))

    return lax.cond((start[1] & np.uint32(LANES - 1)) == 0, make, zeros)
