"""The definition of `randomize_and_tally`, in plain JAX: each user's words, report, tally."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..threefry_words.ref import StreamKey, UserWords, user_axes, users_words

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
