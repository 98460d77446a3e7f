"""The definition of `randomize_and_tally`, in plain JAX: each user's words, report, tally."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._pytree import register_dataclass
from ..threefry_words.ref import (
    TILE,
    StreamKey,
    UserWords,
    first_words,
    user_axes,
    users_words,
)

_MOST_COPIES = 2**10  # of a histogram on a GPU, which has
_COPIED = 2**20  # not more bins than these, all copies together,
_FEWEST_IN_BIN = 2**4  # and no more than so many reports for each

Tree = Any
"""A pytree of arrays: of users' values, of their reports, of the sums of reports."""


@dataclasses.dataclass(frozen=True)
class Draft:
    """A quick way to the reports of nearly all users.

    Attributes:
      num_words: how many of a user's words it reads, the first ones; static.
      reports: from these words, uint32[num_words, n], and n values to n reports of int32, with the
        users along the last axis: those of `Randomizer.from_bits`, or with UNSURE in them, and then
        that makes them. (Over all users at once: `jax.vmap` of a table look-up would transpose its
        indices.)
      complete: whether no report is ever unsure, so that UNSURE may be a report; static.
    """

    UNSURE: ClassVar[np.int32] = np.int32(-(2**31))
    """What stands in an entry of a report that needs other words."""

    num_words: int
    reports: Callable[[jax.Array, Tree], Tree]
    complete: bool = False


@dataclasses.dataclass(frozen=True)
class Counted:
    """Says that a tally is made of how often each report occurs.

    It is about `Randomizer.tally`: reports are int32 in [0, num_reports), and `tally(counts)` is
    what `Randomizer.tally` makes of reports with these counts. So a kernel may count them itself.

    Attributes:
      num_reports: distinct reports, static.
      tally: from int32[num_reports], the number of each report, to the tally.
    """

    num_reports: int
    tally: Callable[[jax.Array], Tree]


class Randomizer(Protocol):
    """A local randomizer: a pytree with the number of a user's words, its channel, its sums."""

    @property
    def num_words(self) -> int:
        """Words of a user, static."""
        ...

    @property
    def lazy_words(self) -> bool:
        """Whether a user reads so few of its words that they are made one at a time; static."""
        ...

    @property
    def draft(self) -> Draft | None:
        """A quicker way to most reports, where there is one."""
        ...

    @property
    def counted(self) -> Counted | None:
        """What becomes of the counts of reports, where the tally is made of them alone."""
        ...

    def from_bits(self, words: jax.Array | UserWords, value: Tree, /) -> Tree:
        """One user's report, from its words, indexed like uint32[num_words], and its value."""
        ...

    def tally(self, reports: Tree, mask: jax.Array, /) -> Tree:
        """The sums of the reports of the users in the mask."""
        ...

    def merge(self, first: Tree, second: Tree, /) -> Tree:
        """The tally of the users of two tallies."""
        ...


class Maker(Protocol):
    """Makes a user's value from words alone: a pytree."""

    @property
    def num_words(self) -> int:
        """Words of a value, static."""
        ...

    def make(self, words: Sequence[jax.Array], /) -> Tree:
        """One user's value, from its words, each uint32[]."""
        ...


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """Values of consecutive users that are made of words, in place of an array of them.

    Attributes:
      maker: a `Maker`.
      keys: for each word of a value, the stream in which it is a user's only one.
      start: uint32[2], the counter there of the first block of the tile of the first user, who
        begins it.
      number: how many users, static.
    """

    maker: Any
    keys: tuple[StreamKey, ...]
    start: jax.Array
    number: int = dataclasses.field(metadata={"static": True})

    def at(self, users: jax.Array) -> Tree:
        """The values of users, uint32[n], counted from the first one."""
        words = [first_words(users_words(key, self.start, users, 1), 1)[0] for key in self.keys]
        return jax.vmap(self.maker.make)(words)


def count_reports(reports: jax.Array, mask: jax.Array, num_reports: int) -> jax.Array:
    """How often each of some reports occurs, int32[num_reports].

    Args:
      reports: int[n], in [0, num_reports); fewer than 2**31.
      mask: bool[n], which of them count.
      num_reports: static.
    """
    if num_reports == 2:  # one comparison is faster than a scatter
        ones = jnp.sum(mask & (reports == 1), dtype=jnp.int32)
        return jnp.stack([jnp.sum(mask, dtype=jnp.int32) - ones, ones])
    bins = min(_COPIED, reports.shape[0] // _FEWEST_IN_BIN)
    copies = min(2 ** (max(bins // num_reports, 1).bit_length() - 1), _MOST_COPIES)
    count = functools.partial(count_in_copies, num_reports=num_reports)
    if copies == 1:
        return count(reports, mask)
    return lax.platform_dependent(
        reports, mask, cuda=functools.partial(count, copies=copies), default=count
    )


def count_in_copies(
    reports: jax.Array, mask: jax.Array, num_reports: int, copies: int = 1
) -> jax.Array:
    """`count_reports` in copies of the histogram, which users take in turn and which are added up.

    Threads of a GPU that add to one number wait for each other: 15 times as long as all else takes,
    for 256 reports and one copy.

    Args:
      reports: as there.
      mask: as there.
      num_reports: as there.
      copies: a power of two, static.
    """
    place = reports
    if copies > 1:
        turn = lax.iota(jnp.int32, reports.shape[0]) & np.int32(copies - 1)
        place = reports.astype(jnp.int32) * np.int32(copies) + turn
    counts = jax.ops.segment_sum(mask.astype(jnp.int32), place, num_reports * copies)
    if copies == 1:
        return counts
    return jnp.sum(counts.reshape(num_reports, copies), axis=1, dtype=jnp.int32)


def tiles_users(values: Tree, numbers: jax.Array) -> tuple[Tree, jax.Array]:
    """The values of users and who of them counts, from those of tiles.

    Args:
      values: a pytree of arrays [tiles, ...], the value of all users of a tile.
      numbers: uint32[tiles], how many of a tile's first users count.

    Returns:
      A pytree of arrays [tiles * 2048, ...], and bool[tiles * 2048].
    """
    users = numbers.shape[0] * TILE

    def spread(leaf: jax.Array) -> jax.Array:
        rows = jnp.broadcast_to(leaf[:, None], (leaf.shape[0], TILE, *leaf.shape[1:]))
        return rows.reshape(users, *leaf.shape[1:])

    lane = lax.broadcasted_iota(jnp.uint32, (numbers.shape[0], TILE), 1)
    return jax.tree.map(spread, values), (lane < numbers[:, None]).reshape(users)


def randomize_and_tally_ref(
    randomizer: Randomizer,
    key: StreamKey,
    start: jax.Array,
    first: jax.Array | None,
    values: Tree,
    mask: jax.Array,
) -> Tree:
    """The tally of the reports of consecutive users; see `randomize_and_tally`."""
    users = lax.iota(jnp.uint32, mask.shape[0])
    users = users if first is None else users + first
    return randomizer.tally(users_reports(randomizer, key, start, users, values), mask)


def users_reports(
    randomizer: Randomizer, key: StreamKey, start: jax.Array, users: jax.Array, values: Tree
) -> Tree:
    """The reports of users at any places after the first of a tile, each with words of its own."""
    words = users_words(key, start, users, randomizer.num_words)

    def report(words: UserWords, value: Tree) -> Tree:
        return randomizer.from_bits(words if randomizer.lazy_words else words[:], value)

    return jax.vmap(report, in_axes=(user_axes(randomizer.num_words), 0))(words, values)
