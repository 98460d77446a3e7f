"""`threefry_words` on any platform: both words of every block."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .ref import LANES, TILE, threefry2x32


def threefry_words_xla(
    key_data: jax.Array, start: jax.Array, num_users: int, num_words: int
) -> jax.Array:
    """The words of the first users of consecutive tiles; see `threefry_words`.

    The blocks of a tile are consecutive: `num_words` rows of 1,024, each of which gives the rows of
    both halves of the tile's users. So counters and words are computed as vectors, and only the
    result is seen as an array of tiles, words and users. (On CPU, XLA takes up to twice as long for
    counters that are computed from three indices.)
    """
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
    halves = _blocks(key_data, start, lax.iota(jnp.uint32, tiles * num_words * LANES))
    rows = jnp.stack([half.reshape(-1, LANES) for half in halves], axis=1)
    words = jnp.moveaxis(rows.reshape(tiles, num_words, TILE), 1, 0)
    return words.reshape(num_words, tiles * TILE)[:, :num_users]


def _blocks(key_data: jax.Array, start: jax.Array, offset: jax.Array):
    """Both words of the blocks at counters `start + offset`."""
    low = start[1] + offset
    high = start[0] + (low < offset).astype(jnp.uint32)
    return threefry2x32((key_data[0], key_data[1]), (high, low))
