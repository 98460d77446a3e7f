"""`threefry_words` on any platform: both words of every block."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .ref import LANES, TILE, threefry2x32


def threefry_words_xla(
    key_data: jax.Array, start: jax.Array, num_users: int, num_words: int
) -> jax.Array:
    """The words of the first users of consecutive tiles; see `threefry_words`."""
    tiles = -(-num_users // TILE)
    if num_users <= LANES:
        row = lax.broadcasted_iota(jnp.uint32, (num_words, num_users), 0) * np.uint32(LANES)
        offset = row + lax.broadcasted_iota(jnp.uint32, (num_words, num_users), 1)
        return _blocks(key_data, start, offset)[0]
    if num_words == 1:  # a choice, since a sum over two concatenated halves is not vectorised
        user = lax.iota(jnp.uint32, tiles * TILE)
        offset = ((user >> np.uint32(11)) << np.uint32(10)) | (user & np.uint32(LANES - 1))
        first, second = _blocks(key_data, start, offset)
        words = jnp.where((user & np.uint32(LANES)) == 0, first, second)
        return words[None, :num_users]
    words = jnp.moveaxis(threefry_tiles(key_data, start, tiles, num_words, num_words), 1, 0)
    return words.reshape(num_words, tiles * TILE)[:, :num_users]


def threefry_tiles(
    key_data: jax.Array, start: jax.Array, tiles: int, num_words: int, num_first: int
) -> jax.Array:
    """The first words of the users of consecutive tiles, as they lie in memory.

    The blocks of a tile are consecutive: `num_words` rows of 1,024, each of which gives the rows of
    both halves of the tile's users. So counters and words are computed as vectors, and only the
    result is seen as an array of tiles, words and users. (On CPU, XLA takes up to twice as long for
    counters that are computed from three indices.)

    Args:
      key_data: uint32[2].
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
    halves = _blocks(key_data, start, offset)
    rows = jnp.stack([half.reshape(tiles, num_first, LANES) for half in halves], axis=2)
    return rows.reshape(tiles, num_first, TILE)


def _blocks(
    key_data: jax.Array, start: jax.Array, offset: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Both words of the blocks at counters `start + offset`."""
    low = start[1] + offset
    high = start[0] + (low < offset).astype(jnp.uint32)
    return threefry2x32((key_data[0], key_data[1]), (high, low))
