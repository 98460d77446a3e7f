"""The definition of `threefry_words`, in plain JAX.

The rounds are written out, so XLA fuses them into whatever consumes the words. On CPU that
is several times faster than `jax.random.bits`, whose lowering there is a rolled loop; on GPU the
two compile to the same code.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._pytree import register_dataclass

LANES = 1024
"""Users `LANES` apart in a tile share blocks: one takes the first halves, one the second."""

TILE = 2 * LANES
"""Users of a tile: the least that uses both halves of every block."""

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = np.uint32(0x1BD11BDA)


def threefry2x32(
    key: tuple[jax.Array, jax.Array], counter: tuple[jax.Array, jax.Array], rounds: int = 20
) -> tuple[jax.Array, jax.Array]:
    """The threefry2x32 block function.

    Args:
      key: two uint32 arrays.
      counter: two uint32 arrays; all four broadcast together.
      rounds: static; 20 is what JAX and most libraries take.

    Returns:
      Two uint32 arrays: the block's two output words.

    References:
      Salmon, Moraes, Dror, Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
    """
    return _block((*key, _parity(*key)), counter, rounds)


def _parity(first: jax.Array, second: jax.Array) -> jax.Array:
    """The third word of a key's schedule."""
    return first ^ second ^ _PARITY


# Written into its callers, but traced once for each shape: its 120 operations are a quarter of what
# there is to trace in the programs of most protocols.
@functools.partial(jax.jit, static_argnames="rounds", inline=True)
def _block(
    schedule: tuple[jax.Array, ...], counter: tuple[jax.Array, jax.Array], rounds: int
) -> tuple[jax.Array, jax.Array]:
    x0 = counter[0] + schedule[0]
    x1 = counter[1] + schedule[1]
    for number in range(1, rounds + 1):
        rotation = _ROTATIONS[(number - 1) % 8]
        x0 = x0 + x1
        x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
        x1 = x1 ^ x0
        if number % 4 == 0:
            group = number // 4
            x0 = x0 + schedule[group % 3]
            x1 = x1 + schedule[(group + 1) % 3] + np.uint32(group)
    return x0, x1


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class StreamKey:
    """The key of a stream of words, and the number of rounds of threefry2x32 that make them.

    20 rounds are the standard. 13 take two thirds of the time, and serve simulations only: the
    authors of threefry knew of no statistical flaw of threefry2x32 with 13 rounds or more
    (Random123, `threefry.h`, September 2011), but 13 rounds of threefry2x64, which pass BigCrush,
    failed a longer test of weight distributions two months later.

    Attributes:
      data: uint32[3], the key's schedule: `jax.random.key_data` of a threefry2x32 key, and a third
        word made of both. (A loop over users on a GPU would make it anew in a kernel of its own.)
      rounds: static.

    References:
      Salmon, Moraes, Dror, Shaw (2011), Parallel random numbers: as easy as 1, 2, 3; and their
      library, https://github.com/DEShawResearch/random123.
    """

    data: jax.Array
    rounds: int = dataclasses.field(default=20, metadata={"static": True})

    @classmethod
    def of(cls, key: jax.Array, rounds: int = 20) -> "StreamKey":
        """The stream of a typed threefry2x32 key."""
        data = jax.random.key_data(key)
        return cls(jnp.append(data, _parity(data[0], data[1])), rounds)

    def blocks(
        self, start: jax.Array | tuple[jax.Array, jax.Array], offset: jax.Array | np.ndarray
    ) -> tuple[jax.Array, jax.Array]:
        """Both words of the blocks at counters `start + offset`.

        Args:
          start: 64-bit counters, as (high, low) halves, uint32[2, ...].
          offset: uint32, of a shape that broadcasts with the halves.
        """
        low = start[1] + offset
        high = start[0] + (low < offset).astype(jnp.uint32)
        schedule = (self.data[0], self.data[1], self.data[2])
        return _block(schedule, (high, low), self.rounds)


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class UserWords:
    """The words of one user, `w[j]`, computed when they are indexed.

    It stands for the user's column of `threefry_words`, and holds the same bits. A sampler with
    rejection, whose address space is much larger than what it reads, takes its words so.

    Attributes:
      key: the stream's.
      high: uint32[], the upper half of the 64-bit counter of the user's word 0.
      low: uint32[], the lower half.
      second: bool[], whether the user takes the second words of its blocks.
      num_words: words per user, static.
    """

    key: StreamKey
    high: jax.Array
    low: jax.Array
    second: jax.Array
    num_words: int = dataclasses.field(metadata={"static": True})

    def __getitem__(self, index: int | slice | jax.Array | np.ndarray) -> jax.Array:
        """uint32, of the shape of the index: an int or int32 array in range, or a static slice."""
        if isinstance(index, slice):
            index = np.arange(*index.indices(self.num_words))
        # Constants stay NumPy's: a loop over users on a GPU would make them anew in a kernel.
        index = index if isinstance(index, jax.Array) else np.asarray(index)
        offset = index.astype(np.uint32) * np.uint32(LANES)
        x0, x1 = self.key.blocks((self.high, self.low), offset)
        return jnp.where(self.second, x1, x0)

    def part(self, start: int, size: int) -> "UserWords":
        """Words `start .. start + size - 1` as a user's own, for a randomizer within another."""
        offset = np.uint32(start * LANES)
        low = self.low + offset
        high = self.high + (low < offset).astype(jnp.uint32)
        return UserWords(self.key, high, low, self.second, size)


def users_words(key: StreamKey, start: jax.Array, users: jax.Array, num_words: int) -> UserWords:
    """The words of users at these places after the first user of a tile; see `threefry_words`.

    Args:
      key: the stream's.
      start: uint32[2], the counter of the tile's first block, as (high, low) halves.
      users: uint32[n], the users' numbers, counted from the first of the tile.
      num_words: words per user, static.

    Returns:
      One `UserWords` for each user, their leaves but `key` with a leading axis.
    """
    # users >> 11 tiles lie before a user's, of num_words rows of 1,024 blocks each.
    tile = (users >> np.uint32(11)) * np.uint32(num_words * LANES)
    offset = tile + (users & np.uint32(LANES - 1))
    low = start[1] + offset
    high = start[0] + (low < offset).astype(jnp.uint32)
    second = (users & np.uint32(LANES)) != 0
    return UserWords(key, high, low, second, num_words)


def first_blocks(pairs: jax.Array, num_words: int | jax.Array) -> jax.Array:
    """How far the first blocks of pairs of users are from that of the first tile.

    Args:
      pairs: uint32[n]; pair p of a tile is its users p and `p + LANES`, who share their blocks.
      num_words: words per user, an int or uint32[].
    """
    tile = (pairs >> np.uint32(10)) * (num_words * np.uint32(LANES))
    return tile + (pairs & np.uint32(LANES - 1))


def pairs_users(leaf: jax.Array) -> jax.Array:
    """Cuts users, [n, ...], into the first and second ones of pairs, [2, m, ...].

    A last tile that is not whole is filled with zeros.
    """
    if absent := -leaf.shape[0] % TILE:
        leaf = jnp.pad(leaf, [(0, absent)] + [(0, 0)] * (leaf.ndim - 1))
    leaf = jnp.moveaxis(leaf.reshape(-1, 2, LANES, *leaf.shape[1:]), 1, 0)
    return leaf.reshape(2, -1, *leaf.shape[3:])


def user_axes(num_words: int) -> UserWords:
    """The axes along which `jax.vmap` takes one user of `users_words`."""
    return UserWords(None, 0, 0, 0, num_words)  # pyright: ignore[reportArgumentType]


def first_words(users: UserWords, number: int) -> jax.Array:
    """The first words of the users of `users_words`, uint32[number, n]."""
    axes = user_axes(users.num_words)
    return jax.vmap(lambda user: user[0:number], in_axes=(axes,), out_axes=-1)(users)


def threefry_words_ref(
    key: StreamKey, start: jax.Array, num_users: int, num_words: int
) -> jax.Array:
    """The words of the first users of consecutive tiles; see `threefry_words`."""
    users = users_words(key, start, lax.iota(jnp.uint32, num_users), num_words)
    return first_words(users, num_words)
