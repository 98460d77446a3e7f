"""Pairs of users as the users of a population: matched at random, or all there are."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64
from ..population._derived import PairSource, _Derived
from ..population._source import HistogramSource
from ..random import Count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class MatchingSource(PairSource):
    """The pairs of one of several matchings of the same users.

    Its table of pairs is drawn given the users' own counts, also where those are random, so that
    the tables of several matchings, and the users' counts, are jointly right.
    """

    @compiled_in_float64
    def counts(self) -> Count:
        """The table of pairs (first value, second value), flat, Count[k * k]."""
        everyone = self.base.counts()
        users = HistogramSource(everyone, everyone, self.base.size)
        return PairSource(users, self.key).counts()


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class EveryPairSource(_Derived):
    """All pairs of different users, each once, in the order of a round-robin tournament.

    With an odd number M of places on a circle, round r joins the places r + s and r - s modulo M,
    s = 1 .. (M - 1) / 2. The users are the places if their number is odd; otherwise the last user
    has none, and is joined to place r.
    """

    @property
    def size(self) -> Count:  # pyright: ignore[reportIncompatibleVariableOverride]
        n = self.base.size
        twice = n.times(n.lo - np.uint32(1))
        low = (twice.lo >> np.uint32(1)) | (twice.hi.astype(jnp.uint32) << np.uint32(31))
        return Count(twice.hi >> 1, low)

    @property
    def num_values(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        k = self.base.num_values
        return None if k is None else k * k

    def at(self, users: Count) -> Any:
        return tuple(self.base.at(player) for player in _players(users, self.base.size))

    @property
    def inputs(self) -> Any:
        return PairSource(self.base, self.key).inputs

    def counts(self) -> Count:
        """The table of pairs, flat, Count[k * k]; a pair is counted at its lower value's row."""
        held = self.base.counts()  # each below 2**32
        k = held.shape[0]
        below = np.triu(np.ones((k, k), bool), 1)
        products = held[:, None].times(held.lo[None, :])
        twice = held.times(jnp.where(held.lo > 0, held.lo - np.uint32(1), np.uint32(0)))
        equal = Count(
            twice.hi >> 1,
            (twice.lo >> np.uint32(1)) | (twice.hi.astype(jnp.uint32) << np.uint32(31)),
        )
        own = np.eye(k, dtype=bool)

        def place(product, tied):
            zero = jnp.zeros((), product.dtype)
            return jnp.where(below, product, jnp.where(own, tied[:, None], zero))

        return jax.tree.map(place, products, equal).reshape(-1)


@compiled_in_float64
def _players(pairs: Count, num_users: Count) -> tuple[Count, Count]:
    """The two users of each pair of the tournament, by its number."""
    n, number = num_users.f64(), pairs.f64()
    even = jnp.floor(n / 2) * 2 == n
    places, games = jnp.where(even, n - 1, n), jnp.floor(n / 2)
    round = jnp.floor(number / games)
    round = jnp.where(round * games > number, round - 1, round)  # the quotient was rounded up
    step = number - round * games + jnp.where(even, 0.0, 1.0)

    def place(x):
        return jnp.where(x < 0, x + places, jnp.where(x >= places, x - places, x))

    alone = even & (step == 0)
    first, second = place(round + step), jnp.where(alone, n - 1, place(round - step))
    return Count.from_float(first), Count.from_float(second)
