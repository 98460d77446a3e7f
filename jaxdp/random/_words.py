"""Random words: a pure function of (stream key, user, word)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp_kernels.threefry_words import threefry2x32, threefry_words

from .._spec import check_key
from .._x64 import one_program
from ._count import Count

POPULATION = 0
"""Stream of the users' values, where these are random."""
ASSIGN = 1
"""Stream of the assignment of users to groups."""
PUBLIC = 2
"""Stream of public randomness (hash functions, rotations) that users and analyst share."""
PERMANENT = 3
"""Stream of a user's permanent randomness, kept over rounds."""
ORDER = 4
"""Stream of pseudorandom orders of the users."""
DRAWS = 5
"""Key of the draws of a random population's counts; folded, never turned into words."""
ROUND = 2**16
"""`ROUND + r` is the stream of the users' words in round `r`."""
TALLY = 2**24
"""`TALLY + r` is the key of the draws of a whole tally in round `r`."""


def stream(key: jax.Array, name: int) -> jax.Array:
    """The key of one stream under a trial key.

    Args:
      key: the trial's key.
      name: one of this module's constants, such as `POPULATION` or `ROUND + r`.

    Returns:
      `jax.random.fold_in(key, name)`. A key is either folded or turned into words, never both.
    """
    return jax.random.fold_in(check_key(key), np.uint32(name))


def words(key: jax.Array, first_user: Count, num_users: int, num_words: int) -> jax.Array:
    """The words of consecutive users in a stream.

    Word `j` of user `i` is threefry2x32 at the 64-bit counter `i * num_words + j`, so the words of
    users `0 .. n-1` equal `jax.random.bits(key, (n, num_words))`, whatever the blocks, devices or
    processes they were made on.

    Args:
      key: a stream key; not to be folded as well.
      first_user: Count[], the first user's index.
      num_users: how many users, static.
      num_words: words per user, static.

    Returns:
      uint32[num_users, num_words].

    Example:
      >>> import jax
      >>> key = jax.random.key(7)
      >>> mine = words(key, Count.of(3), 2, 4)
      >>> bool((mine == jax.random.bits(key, (5, 4))[3:]).all())
      True
    """
    return _words(check_key(key), first_user, num_users, num_words)


@functools.partial(one_program, static_argnums=(2, 3))
def _words(key, first_user, num_users, num_words):
    start = first_user.times(num_words)
    flat = threefry_words(
        jax.random.key_data(key),
        jnp.stack([start.hi.astype(jnp.uint32), start.lo]),
        num_users * num_words,
    )
    return flat.reshape(num_users, num_words)


def words_at(key: jax.Array, users: Count, num_words: int) -> jax.Array:
    """The words of given users in a stream; see `words`.

    Args:
      key: a stream key.
      users: Count[...], user indices in any order, repeats allowed.
      num_words: words per user, static.

    Returns:
      uint32[..., num_words].
    """
    return _words_at(check_key(key), users, num_words)


@functools.partial(one_program, static_argnums=2)
def _words_at(key, users, num_words):
    data = jax.random.key_data(key)
    start = users.times(num_words)
    word = jnp.arange(num_words, dtype=jnp.uint32).reshape((1,) * users.ndim + (num_words,))
    counter = start[..., None] + Count.of(word)
    x0, x1 = threefry2x32((data[0], data[1]), (counter.hi.astype(jnp.uint32), counter.lo))
    return x0 ^ x1
