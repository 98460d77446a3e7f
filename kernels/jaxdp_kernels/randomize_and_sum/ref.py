"""The definition of `randomize_and_sum`, in plain JAX: each user's words and integers, and sums."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from ..randomize_and_tally.ref import Tree, tiles_users
from ..threefry_words import FlatWords, StreamKey


class Summing(Protocol):
    """A pytree that holds the parameters of a randomizer whose reports are added."""

    @property
    def num_words(self) -> int:
        """Words that a user is given, static."""
        ...

    @property
    def summed(self) -> Any:
        """What users add, with the attributes below; None of a randomizer that does not say it.

        Attributes:
          numbers: `(words, values, alone) -> int32[n, m]`, of n users, from `FlatWords`.
          size: m, static.
          alone: `(words) -> tree of [n]`: the numbers of a user that are not of one entry.
        """
        ...


def randomize_and_sum_ref(
    randomizer: Summing,
    key: StreamKey,
    start: jax.Array,
    values: Tree,
    members: jax.Array,
    row: int,
) -> jax.Array:
    """The sums of rows of users; see `randomize_and_sum`."""
    values, counts = users_of(values, members, row)
    words = FlatWords(key, start, counts.shape[0], randomizer.num_words)
    made = randomizer.summed.numbers(words, values, randomizer.summed.alone(words))
    return rows_sums(jnp.where(counts[:, None], made, 0), row)


def num_rows(users: int, row: int) -> int:
    """How many rows are made of so many users."""
    return -(-users // row)


def users_of(values: Tree, members: jax.Array, row: int) -> tuple[Tree, jax.Array]:
    """The values and the membership, bool[n], of n users who fill whole rows.

    Args:
      values: as in `randomize_and_sum`.
      members: as there.
      row: as there.
    """
    if members.ndim == 1 and members.dtype == jnp.uint32:
        values, members = tiles_users(values, members)
    number = jax.tree.leaves(values)[0].shape[0]
    if members.ndim == 0:
        members = lax.iota(jnp.uint32, number) < members
    if absent := num_rows(number, row) * row - number:
        values, members = jax.tree.map(
            lambda leaf: jnp.pad(leaf, [(0, absent)] + [(0, 0)] * (leaf.ndim - 1)),
            (values, members),
        )
    return values, members


def rows_sums(numbers: jax.Array, row: int) -> jax.Array:
    """The sums of rows of `row` users each, int32[rows, m], of int32[n, m]."""
    number, size = numbers.shape
    return jnp.sum(numbers.reshape(number // row, row, size), axis=1, dtype=jnp.int32)
