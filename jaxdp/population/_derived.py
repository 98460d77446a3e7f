"""Populations made of another: random groups, a shuffle, matched pairs."""

import abc
import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels import register_dataclass

from .._spec import Tree
from .._x64 import compiled_in_float64
from ..random import (
    Count,
    Stream,
    multinomial,
    multivariate_hypergeometric,
    permute,
    stream,
    words_at,
)
from ..random._words import BlockWords
from ._distribution import DistributionSource
from ._source import Reader, Source, Span


@dataclasses.dataclass(frozen=True, eq=False)
class _Derived(Source):
    noun: ClassVar[str]  # what it is, for people

    base: Source
    key: jax.Array

    def draws(self, number: int) -> jax.Array:
        """A key for the draw of counts; 0 is the base's own."""
        return jax.random.fold_in(stream(self.key, Stream.DRAWS), number)

    @property
    def is_random(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.is_random

    def bind(self, key: jax.Array) -> "_Derived":
        return dataclasses.replace(self, base=self.base.bind(key))

    def bounded(self) -> Self:
        return dataclasses.replace(self, base=self.base.bounded())

    @property
    def most(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The bound of the base."""
        return self.base.most

    @property
    def size(self) -> Count:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.size

    @property
    def num_values(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.num_values

    @property
    def inputs(self) -> Tree:
        return self.base.inputs

    @property
    def kind(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"{self.noun} {self.base.kind}"

    @property
    def held(self) -> Tree:
        return self.base.held


class _Assigned(_Derived):
    """Users of whom each joins one of several parts, as its word in `Stream.ASSIGN` says.

    Indices are those of the base; users of other parts are masked.
    """

    @abc.abstractmethod
    def _joins(self, word: jax.Array) -> jax.Array:
        """Whether users with these words join this part."""

    def at(self, users: Count) -> Tree:
        return self.base.at(users)

    def members(self, users: Count) -> jax.Array:
        word = words_at(stream(self.key, Stream.ASSIGN), users, 1)[0]
        return self.base.members(users) & self._joins(word)

    def reader(
        self,
        size: int,
        first: Count,
        tiled: bool,
        wide: bool = False,
        span: Span | None = None,
    ) -> Reader:
        base = self.base.reader(size, first, tiled, wide, span)
        key = stream(self.key, Stream.ASSIGN)
        words = BlockWords.of(key, size, 1, tiled)

        def locate(start: Count) -> tuple[Any, Any]:
            return base.locate(start), words.locate(start)

        def read(place: tuple[Any, Any]) -> tuple[Tree, jax.Array]:
            values, members = base.by_user(place[0])
            return values, members & self._joins(words.make(place[1])[0])

        rest = base.rest
        if rest is not None:
            joins = self._joins(words_at(key, rest.users, 1)[0])
            rest = dataclasses.replace(rest, members=rest.members & joins)
        return Reader(locate, read, rest)

    @property
    def rows(self) -> int | None:
        return self.base.rows

    def spread(self, rows: int) -> Self:
        return dataclasses.replace(self, base=self.base.spread(rows))

    def partition_specs(self, spec: jax.P) -> Self:
        whole: Self = jax.tree.map(lambda _: jax.P(), self)
        return dataclasses.replace(whole, base=self.base.partition_specs(spec))


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class GroupSource(_Assigned):
    """One group of a random split: every user joins a group independently of all else.

    The counts of all groups come from one draw of the key, so groups are jointly right.

    Attributes:
      base: the population that was split.
      key: the trial's key.
      weights: Count[g], the groups' probabilities times 2**32.
      group: int32[], which group this is.
    """

    noun = "group of"

    weights: Count
    group: jax.Array

    def _joins(self, word: jax.Array) -> jax.Array:
        ends = _cumulative(self.weights)
        drawn = Count.of(word)
        # The groups are disjoint intervals of one word: a user joins exactly one of them.
        begin = ends[self.group] - self.weights[self.group]
        return (drawn >= begin) & (drawn < ends[self.group])

    @compiled_in_float64
    def counts(self) -> Count:
        if self.base.num_values is None:
            users = Count.of(lax.iota(jnp.uint32, self.base.counts().shape[0]))
            return Count.of(self.members(users).astype(jnp.int32))
        # One table for all groups, from a key that they share: each reads its own column, and the
        # columns add up to the counts of the base.
        table = multinomial(self.draws(1), self.base.counts(), self.weights.f64())
        return table[:, self.group]


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class ShuffledSource(_Derived):
    """The users of another source in a pseudorandom order."""

    noun = "shuffled"

    def at(self, users: Count) -> Tree:
        return self.base.at(permute(stream(self.key, Stream.ORDER), users, self.base.size))

    def counts(self) -> Count:
        return self.base.counts()


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class PairSource(_Derived):
    """Matched pairs of users: pair i joins users 2i and 2i + 1 of a pseudorandom order.

    A value is the tuple of both users' values. Of an odd number of users one stays alone.
    """

    noun = "pairs of"

    @property
    def size(self) -> Count:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of pairs."""
        return self.base.size >> 1

    @property
    def most(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Half of the bound of the base, rounded up."""
        return None if self.base.most is None else -(-self.base.most // 2)

    @property
    def num_values(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of pairs of bins; None where values are not bins."""
        k = self.base.num_values
        return None if k is None else k * k

    def at(self, users: Count) -> Tree:
        first = users + users
        key, n = stream(self.key, Stream.ORDER), self.base.size
        return tuple(self.base.at(permute(key, first + side, n)) for side in (0, 1))

    @property
    def inputs(self) -> Tree:
        k = self.base.num_values
        if k is None:
            return self.at(Count.of(lax.iota(jnp.uint32, self.counts().shape[0])))
        bins = np.indices((k, k), dtype=np.int32).reshape(2, -1)
        if self.base.inputs is None:
            return tuple(jnp.asarray(b) for b in bins)
        return tuple(jax.tree.map(lambda rows, b=b: rows[b], self.base.inputs) for b in bins)

    @compiled_in_float64
    def counts(self) -> Count:
        """The table of pairs (first value, second value), flat, Count[k * k]."""
        k = self.base.num_values
        if k is None:
            return Count.of(jnp.ones(self.base.counts().shape[0] // 2, jnp.int32))
        if isinstance(self.base, DistributionSource):
            # Two independent users are one draw from the product of p with itself.
            p = self.base.weights.f64()
            return multinomial(self.draws(2), self.size, jnp.outer(p, p).reshape(-1))
        everyone = self.base.counts()
        # A uniform matching, drawn without replacement: who comes first, who second, and then for
        # each first value who of the second ones are the partners.
        first = multivariate_hypergeometric(self.draws(3), everyone, self.size)
        second = multivariate_hypergeometric(self.draws(4), everyone - first, self.size)
        rows_key = self.draws(5)

        def match(left: Count, row):
            number, partners = row
            drawn = multivariate_hypergeometric(
                jax.random.fold_in(rows_key, number), left, partners
            )
            return left - drawn, drawn

        _, table = lax.scan(match, second, (lax.iota(jnp.uint32, k), first))
        return table.reshape(-1)


def _cumulative(weights: Count) -> Count:
    """Inclusive cumulative sums of a short Count vector whose total is at most 2**32."""
    rows = lax.iota(jnp.int32, weights.shape[0])
    lower = (rows[:, None] >= rows[None, :]).astype(jnp.uint32)
    return weights[None, :].times(lower).sum(1)
