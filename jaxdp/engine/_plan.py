"""How one round's users are cut into blocks, as it suits the platform.

A CPU is quickest on blocks that stay in its caches, and runs any number of them: of users who are
made on the fly one program serves any number. On an accelerator a block must keep 270,000 threads
busy for longer than the launch of its kernels takes, and a loop whose length the compiler does not
know sends its condition to the host each time: there `Source.bounded` tells it.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._contract import Round
from ..population import Population
from ..random import TILE, Count

_CPU_WORDS = 2**20  # words of a block of given users; a 64th of users made on the fly
_CPU_USERS = 2**18  # of a block, at most
_WORDS = 2**24  # on accelerators, for as few users as
_USERS = 2**20  # while they have no more words than
_MOST_WORDS = 2**27
_LAZY_WORDS = 16  # what a user reads of words that are made one at a time, roughly
_FUSED_WORDS = 2**30  # where one kernel makes reports and counts them
_MOST_TILED_WORDS = 2**24  # words of a tile of users; of more words, blocks are smaller


@dataclasses.dataclass(frozen=True)
class Plan:
    """Blocks of one round on one device.

    Attributes:
      block: users in the compiled body, static.
      share: users of one device, static; None where the program serves any number of users.
      tiled: whether every block begins at a multiple of 2,048 users, static.
      wide: whether blocks are for a machine of many threads, static.
      fused: whether one kernel makes the reports of a block and counts them, static.
      drawn: whether it makes the users' values, too, static.
      adds: whether the loop adds integers alone where a round says which; for GPUs, static.
      given: whether the users' values are in memory, static.
    """

    block: int
    share: int | None
    tiled: bool
    wide: bool = False
    fused: bool = False
    drawn: bool = False
    adds: bool = False
    given: bool = False

    @property
    def implementation(self) -> Literal["xla", "pairs", "wide"]:
        """The one of `jaxdp_kernels.randomize_and_tally` to be called."""
        if self.wide:
            return "wide"
        return "pairs" if self.given else "xla"

    def num_blocks(self, population: Population, num_devices: int) -> jax.Array | int:
        """Blocks a device runs; traced where the program serves any number of users."""
        if self.share is not None:
            return -(-self.share // self.block)
        whole = _divide_up(population.size, self.block)
        return (whole + np.int32(num_devices - 1)) // np.int32(num_devices)

    def device_start(self, device: jax.Array, num_blocks: jax.Array | int) -> Count:
        """The first user of a device."""
        if self.share is not None:
            return Count.of(self.share).times(device)
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
        if self.share is None or self.share % self.block == 0:
            return left
        return jnp.minimum(left, _clip(first + Count.of(self.share) - start, self.block))


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
    round: Round[Any],
    num_devices: int,
    block_size: int | None,
    platform: str,
    fused: bool = False,
    drawn: bool = False,
) -> Plan:
    """The plan of a round.

    Args:
      population: the users.
      round: what they run.
      num_devices: devices the users are split over.
      block_size: users in a block, or None for the platform's.
      platform: "cpu", "gpu" or "tpu".
      fused: whether the round has one kernel for reports and their counts.
      drawn: whether this kernel makes the users' values, too.
    """
    source = population.source
    block = block_size or _default_block(round, source.rows is not None, platform)
    if fused and block_size is None:
        # The kernel stores nothing for a user: it takes an array as it lies, without a copy, and
        # one value for all users of a tile.
        most = 2 ** ((_FUSED_WORDS // max(round.num_words, 1)).bit_length() - 1)
        users = 0 if source.most is None else -(-source.most // num_devices)
        if source.rows is not None or drawn or source.reads_tiles(min(most, users), users):
            block = most
    if source.most is None:
        tiled = block % TILE == 0
        return Plan(block, None, tiled, platform != "cpu", fused and tiled, drawn and tiled)
    share = -(-source.most // num_devices)
    if num_devices > 1:
        share = -(-share // TILE) * TILE  # so that each device's users begin with a tile
    num_blocks = max(-(-share // block), 1)
    # As many blocks as are needed, but of equal size: the last one is then nearly full.
    even = max(-(-share // num_blocks), 1)
    unit, wide = TILE if even > TILE else 1, platform != "cpu"
    if num_blocks > 1 or (wide and source.rows is None):
        even = min(-(-even // unit) * unit, block)
    tiled = num_blocks == 1 or even % TILE == 0
    adds = platform == "gpu" and tiled
    given = source.rows is not None
    return Plan(even, share, tiled, wide, fused and tiled, drawn and tiled, adds, given)


def _default_block(round: Round[Any], given: bool, platform: str) -> int:
    """Users in a block by default, a power of two."""
    num_words = round.num_words if round.draft is None else round.draft.num_words
    if platform == "cpu":
        # A kernel of the CPU's own cuts its block itself.
        made = _CPU_WORDS // (16 if "cpu" in round.kernels.tally else 64)
        words, fewest = _CPU_WORDS if given else made, 2**4
        if round.counted is not None:
            # Each block makes and adds a count of every report: many reports ask for many users.
            fewest = min(2 * round.counted.num_reports, _CPU_WORDS // max(num_words, 1))
    else:
        num_words = min(num_words, _LAZY_WORDS) if round.lazy_words else num_words
        words, fewest = _WORDS, min(_USERS, _MOST_WORDS // max(num_words, 1))
    block = max(words // max(num_words, 1), fewest, 2**4)
    most = _CPU_USERS
    if platform != "cpu":  # of vectors a block is stored
        most = max(_MOST_WORDS // _entries(round), TILE)
    block = min(block, most)
    block = 2 ** (block.bit_length() - 1)
    return max(block, TILE) if TILE * num_words <= _MOST_TILED_WORDS else block


def _entries(round: Round[Any]) -> int:
    """Numbers of a user's value, or of what it adds, whichever has more."""
    summed = round.summed
    value = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(round.value))
    return max(value, 1 if summed is None else summed.size)


def check_num_users(
    num_users: int, rounds: Sequence[Round[Any]], block_size: int | None, platform: str
) -> None:
    """Raises ValueError where users are too many to be visited block by block."""
    blocks = [block_size or _default_block(round, False, platform) for round in rounds]
    most = 2**30 * min(blocks, default=2**14)  # blocks are counted by an int32
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
