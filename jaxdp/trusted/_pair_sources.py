"""Pairs of users as the users of a population: matched at random, or all there are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp_kernels import register_dataclass

from .._contract import Tree
from .._x64 import compiled_in_float64
from ..population import HistogramSource, PairSource
from ..random import Count


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class MatchingSource(PairSource):
    """The pairs of one of several matchings of the same users.

    Its table of pairs is drawn given the counts of the users, also where those are random, so that
    the tables of several matchings, and the users' counts, are jointly right.
    """

    @compiled_in_float64
    def counts(self) -> Count:
        """The table of pairs (first value, second value), flat, Count[k * k]."""
        everyone = self.base.counts()
        users = HistogramSource(everyone, everyone, self.base.size)
        return PairSource(users, self.key).counts()


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class EveryPairSource(PairSource):
    """All pairs of different users, each once, in the order of a round-robin tournament.

    With an odd number M of places on a circle, round r joins the places r + s and r - s modulo M,
    s = 1 .. (M - 1) / 2. The users are the places if their number is odd; otherwise the last user
    has none, and is joined to place r.
    """

    @property
    def size(self) -> Count:  # pyright: ignore[reportIncompatibleVariableOverride]
        n = self.base.size  # below 2**32
        return n.times(n.lo - np.uint32(1)) >> 1

    @property
    def most(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All pairs of as many users as the bound of the base."""
        n = self.base.most
        return None if n is None else n * (n - 1) // 2

    def at(self, users: Count) -> tuple[Tree, Tree]:
        return tuple(self.base.at(player) for player in _players(users, self.base.size))

    def counts(self) -> Count:
        """The table of pairs, flat, Count[k * k]; a pair is counted at its lower value's row."""
        held = self.base.counts()  # each below 2**32
        k = held.shape[0]
        below = np.triu(np.ones((k, k), bool), 1)
        # c_v c_w pairs of bins v < w, and c_v (c_v - 1) / 2 within a bin
        products = held[:, None].times(held.lo[None, :])
        equal = held.times(jnp.where(held.lo > 0, held.lo - np.uint32(1), np.uint32(0))) >> 1
        diagonal = np.eye(k, dtype=bool)

        def place(product: jax.Array, tied: jax.Array) -> jax.Array:
            zero = jnp.zeros((), product.dtype)
            return jnp.where(below, product, jnp.where(diagonal, tied[:, None], zero))

        return jax.tree.map(place, products, equal).reshape(-1)


@compiled_in_float64
def _players(pairs: Count, num_users: Count) -> tuple[Count, Count]:
    """The two users of each pair of the tournament, by its number."""
    n, number = num_users.f64(), pairs.f64()
    even = jnp.floor(n / 2) * 2 == n
    # `places` rounds of `games` pairs each: n - 1 of n / 2, or n of (n - 1) / 2
    places, games = jnp.where(even, n - 1, n), jnp.floor(n / 2)
    round = jnp.floor(number / games)
    round = jnp.where(round * games > number, round - 1, round)  # the quotient was rounded up
    step = number - round * games + jnp.where(even, 0.0, 1.0)

    def place(x: jax.Array) -> jax.Array:
        return jnp.where(x < 0, x + places, jnp.where(x >= places, x - places, x))

    alone = even & (step == 0)
    first, second = place(round + step), jnp.where(alone, n - 1, place(round - step))
    return Count.from_float(first), Count.from_float(second)
