"""How one round's users are cut into blocks."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from ..population import Population
from ..random import TILE, Count

WORDS_PER_BLOCK = 2**20
_MOST_TILED_WORDS = 2**24  # words of a tile of users; of more words, blocks are smaller


@dataclasses.dataclass(frozen=True)
class Plan:
    """Blocks of one round on one device.

    Attributes:
      block: users in the compiled body, static.
      rows: users of one device's share of an array, static; None when users are made on the fly.
      tiled: whether every block begins at a multiple of 2,048 users, static.
    """

    block: int
    rows: int | None
    tiled: bool

    def num_blocks(self, population: Population, num_devices: int) -> jax.Array | int:
        """Blocks a device runs; traced where the number of users is."""
        if self.rows is not None:
            return -(-self.rows // self.block)
        whole = _divide_up(population.size, self.block)
        return (whole + np.int32(num_devices - 1)) // np.int32(num_devices)

    def device_start(self, device: jax.Array, num_blocks: jax.Array | int) -> Count:
        """The first user of a device."""
        if self.rows is not None:
            return Count.of(device).times(self.rows)
        blocks = Count.of(device).times(jnp.asarray(num_blocks, jnp.int32).astype(jnp.uint32))
        return blocks.times(self.block)

    def users_left(self, start: Count, population: Population, first: Count) -> jax.Array:
        """How many users of a block belong to the device, uint32[] in [0, block].

        Args:
          start: Count[], the block's first user.
          population: the users.
          first: Count[], the device's first user.
        """
        left = _clip(population.size - start, self.block)
        if self.rows is None or self.rows % self.block == 0:
            return left
        return jnp.minimum(left, _clip(first + Count.of(self.rows) - start, self.block))


def _clip(count: Count, high: int) -> jax.Array:
    """A Count[] clipped to [0, high], as uint32[]."""
    small = jnp.where(count.hi > 0, np.uint32(high), jnp.minimum(count.lo, np.uint32(high)))
    return jnp.where(count.hi < 0, np.uint32(0), small)


def _divide_up(size: Count, by: int) -> jax.Array:
    """ceil(size / by) as int32 for a power of two `by` from 2 to 2**31, if it is below 2**31."""
    shift = by.bit_length() - 1
    size = size + Count.of(by - 1)
    high = size.hi.astype(jnp.uint32) << np.uint32(32 - shift)
    return (high | (size.lo >> np.uint32(shift))).astype(jnp.int32)


def make_plan(
    population: Population,
    num_words: int,
    num_devices: int,
    block_size: int | None,
) -> Plan:
    """The plan of a round.

    Args:
      population: the users.
      num_words: words per user.
      num_devices: devices the users are split over.
      block_size: users in a block, or None for the default: as many as 2**20 words serve for
        arrays, and 2**14 for users made on the fly, which compile once for any number of them.
    """
    rows = population.source.rows
    block = block_size or _default_block(num_words, rows is not None)
    if rows is None:
        return Plan(block, None, block % TILE == 0)
    share = -(-rows // num_devices)
    if num_devices > 1:
        share = -(-share // TILE) * TILE  # so that each device's users begin with a tile
    num_blocks = -(-share // block)
    # As many blocks as are needed, but of equal size: the last one is then nearly full.
    even = -(-share // num_blocks)
    unit = TILE if even > TILE else 1
    block = even if num_blocks == 1 else min(-(-even // unit) * unit, block)
    return Plan(block, share, share <= block or block % TILE == 0)


def _default_block(num_words: int, given: bool) -> int:
    """Users in a block by default: fewer of those that are made on the fly."""
    words = WORDS_PER_BLOCK if given else WORDS_PER_BLOCK // 64
    block = max(2 ** (max(words // max(num_words, 1), 1).bit_length() - 1), 2**4)
    return max(block, TILE) if TILE * num_words <= _MOST_TILED_WORDS else block


def check_num_users(num_users: int, num_words: int, block_size: int | None) -> None:
    """Raises ValueError where users are too many to be visited block by block."""
    block = block_size or _default_block(num_words, given=False)
    most = 2**30 * block  # blocks are counted by an int32
    if num_users > most:
        raise ValueError(
            f"method='per_user' would visit {num_users} users one by one, which is more than "
            f"{most}; use method='tally'."
        )


def check_block_size(block_size: int | None) -> None:
    """Raises ValueError unless a block size is a power of two from 2**4 to 2**24."""
    if block_size is None:
        return
    if not isinstance(block_size, int) or isinstance(block_size, bool):
        raise TypeError(f"block_size must be an int or None, got {block_size!r}.")
    power = block_size > 0 and math.log2(block_size).is_integer()
    if not power or not 2**4 <= block_size <= 2**24:
        raise ValueError(
            f"block_size must be a power of two in [2**4, 2**24], got {block_size}; leave it out "
            "for a good default."
        )
