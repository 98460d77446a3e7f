"""Random words: a pure function of (stream key, user, word)."""

import dataclasses
import enum
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from jaxdp_kernels.threefry_words import TILE, StreamKey, UserWords, threefry_words
from jaxdp_kernels.threefry_words.ref import LANES, users_words

from .._spec import Tree, check_int, check_key, is_traced
from .._x64 import one_program
from ._count import Count


class Stream(enum.IntEnum):
    """Names of the streams under a trial's key, for `stream`."""

    POPULATION = 0
    """The users' values, where these are random."""
    ASSIGN = 1
    """The assignment of users to groups."""
    PUBLIC = 2
    """Public randomness (hash functions, rotations) that users and analyst share."""
    ORDER = 4
    """Pseudorandom orders of the users."""
    DRAWS = 5
    """The draws of a random population's counts; this key is folded, never turned into words."""
    TIES = 6
    """Second words of the users' values, where first ones do not decide."""
    ROUND = 2**16
    """`ROUND + r` is the stream of the users' words in round `r`."""
    TALLY = 2**24
    """`TALLY + r` is the key of the draws of a whole tally in round `r`."""


def stream(key: jax.Array, name: int) -> jax.Array:
    """The key of one stream under a trial key.

    Args:
      key: the trial's key.
      name: a `Stream`, such as `Stream.POPULATION`, or a number made of one: `Stream.ROUND + r`.

    Returns:
      `jax.random.fold_in(key, name)`. A key is either folded or turned into words, never both.
    """
    if not is_traced(name):
        name = check_int("name", name, low=0, high=2**32 - 1)
    return jax.random.fold_in(check_key(key), jnp.asarray(name, jnp.uint32))


def words(
    key: jax.Array, first_user: Count, num_users: int, num_words: int, *, tiled: bool = False
) -> jax.Array:
    """The words of consecutive users in a stream.

    Word j of user u is half `(u >> 10) & 1` of the threefry2x32 block at the 64-bit counter
    `((u >> 11) * num_words + j) * 1024 + (u & 1023)`, whatever the blocks of users, devices or
    processes that it is made on; see `jaxdp_kernels.threefry_words`.

    Args:
      key: a stream key; not to be folded as well.
      first_user: Count[], the first user's index.
      num_users: how many users, static.
      num_words: words per user, static.
      tiled: whether `first_user` is known to be a multiple of 2,048, static. Both words of every
        block are then used, which takes half the time.

    Returns:
      uint32[num_words, num_users].

    Example:
      >>> import jax
      >>> key = jax.random.key(7)
      >>> everyone = words(key, Count.of(0), 5, 4)
      >>> bool((words(key, Count.of(3), 2, 4) == everyone[:, 3:]).all())
      True
    """
    return _words(check_key(key), first_user, num_users, num_words, tiled)


@functools.partial(one_program, static_argnums=(2, 3, 4))
def _words(key, first_user, num_users, num_words, tiled):
    if not tiled:
        return _words_at(key, first_user + Count.of(lax.iota(jnp.uint32, num_users)), num_words)
    start = tile_start(first_user, num_words)
    return threefry_words(StreamKey.of(key), start, num_users, num_words)


def tile_start(user: Count, num_words: int) -> jax.Array:
    """The counter of the first block of a user's tile, uint32[2] as (high, low) halves."""
    counter = (user >> 11).times(num_words).times(LANES)
    return jnp.stack([counter.hi.astype(jnp.uint32), counter.lo])


@dataclasses.dataclass(frozen=True, eq=False)
class BlockWords:
    """`words` of many blocks of users, of which a loop computes nothing but the words.

    Attributes:
      key: a stream key.
      stream: the same one, ready for use.
      num_users: of a block.
      num_words: per user.
      tiled: whether blocks begin at multiples of 2,048.
    """

    key: jax.Array
    stream: StreamKey
    num_users: int
    num_words: int
    tiled: bool

    @classmethod
    def of(cls, key: jax.Array, num_users: int, num_words: int, tiled: bool) -> "BlockWords":
        """The words of the users of blocks; see `words`."""
        return cls(key, StreamKey.of(check_key(key)), num_users, num_words, tiled)

    def locate(self, first_user: Count) -> Tree:
        """What `make` must know of a block that begins with a user, Count[]."""
        if not self.tiled:
            return first_user
        high, low = tile_start(first_user, self.num_words)
        return high, low

    def make(self, place: Tree) -> jax.Array:
        """The words of the users of a block, uint32[num_words, num_users]."""
        if not self.tiled:
            return words(self.key, place, self.num_users, self.num_words)
        return threefry_words(self.stream, jnp.stack(place), self.num_users, self.num_words)


def words_at(key: jax.Array, users: Count, num_words: int) -> jax.Array:
    """The words of given users in a stream; see `words`.

    Args:
      key: a stream key.
      users: Count[...], user indices in any order, repeats allowed.
      num_words: words per user, static.

    Returns:
      uint32[num_words, ...].
    """
    return _words_at(check_key(key), users, num_words)


@functools.partial(one_program, static_argnums=2)
def _words_at(key, users, num_words):
    flat = users.reshape(-1)
    found = jax.vmap(lambda user: user_words(key, user, num_words)[:], out_axes=-1)(flat)
    return found.reshape(num_words, *users.shape)


def part_of(words: jax.Array | UserWords, start: int, size: int) -> jax.Array | UserWords:
    """Words `start .. start + size - 1` of a user, for a randomizer within another.

    Args:
      words: uint32[num_words], or `UserWords`.
      start: static.
      size: static.

    Returns:
      uint32[size], or `UserWords`: the inner randomizer cannot tell them from words of its own.
    """
    if isinstance(words, UserWords):
        return words.part(start, size)
    return words[start : start + size]


def user_words(key: jax.Array, user: ArrayLike | Count, num_words: int) -> UserWords:
    """The words of one user in a stream, made as they are read.

    Args:
      key: a stream key.
      user: Count[], or an int, the user's index.
      num_words: words per user, static.

    Returns:
      `UserWords`, whose `w[j]` is word j, and `w[:]` all of them.

    Example:
      >>> import jax
      >>> key = jax.random.key(7)
      >>> bool((user_words(key, 5, 4)[1:3] == words(key, Count.of(5), 1, 4)[1:3, 0]).all())
      True
    """
    user = Count.of(user, "user")
    num_words = check_int("num_words", num_words, low=1, high=2**31 - 1)
    start = tile_start(user, num_words)
    place = user.lo & np.uint32(TILE - 1)
    return users_words(StreamKey.of(check_key(key)), start, place, num_words)
