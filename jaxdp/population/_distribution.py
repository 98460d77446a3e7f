"""Users drawn independently from a distribution over bins."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp_kernels import register_dataclass
from jaxdp_kernels.randomize_and_tally import Drawn

from .._spec import Tree, by_largest_remainders
from .._x64 import compiled_in_float64
from ..random import AliasTable, Count, Stream, multinomial, stream, words_at
from ..random._words import BlockWords
from ._source import Reader, Source, Span, next_above, values_of

_COARSE, _FINE = 32, 62  # bits of the realised probabilities; Counts hold weights of 62 bits
_UNNOTICED = 1e-6


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class DistributionSource(Source):
    """Independent users; user i's value is a function of its word in the population's stream.

    Probabilities are realised as multiples of 2**-62 that sum to exactly 1, by an alias table of
    two words. Few users get multiples of 2**-32 and one word: their values are then within 1e-6, in
    total variation, of those of the exact probabilities, all users taken together.

    Attributes:
      weights: Count[k], the realised probabilities times 2**32 or 2**62.
      table: draws a user's bin from one word, or from two.
      size: Count[].
      values: what the bins stand for, a pytree of arrays with k rows; None for the bins.
      key: the trial's key; None while unbound.
      most: a bound of the size that programs may rely on, static; None for any size.
    """

    weights: Count
    table: AliasTable
    size: Count
    values: Tree = None
    key: jax.Array | None = None
    most: int | None = dataclasses.field(default=None, metadata={"static": True})

    is_random = True
    whole = True
    kind = "distribution"

    @classmethod
    def make(cls, probabilities: np.ndarray, num_users: int, values: Tree) -> "DistributionSource":
        """The source of float64 probabilities that sum to 1."""
        weights, bits = _integer_weights(probabilities), _COARSE
        error = np.abs(weights * 2.0**-_COARSE - probabilities / probabilities.sum()).sum() / 2
        if num_users * error > _UNNOTICED:
            weights, bits = _fine_weights(probabilities), 64
        masses = weights.astype(object) << (64 - _FINE) if bits == 64 else weights
        table = jax.tree.map(jnp.asarray, AliasTable.of(masses, bits))
        return cls(Count.of(weights), table, Count.of(num_users), values)

    @property
    def num_values(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of bins."""
        return self.weights.shape[0]

    def bind(self, key: jax.Array) -> "DistributionSource":
        return dataclasses.replace(self, key=key)

    def bounded(self) -> "DistributionSource":
        return dataclasses.replace(self, most=next_above(self.size))

    def stream(self, name: int) -> jax.Array:
        """One stream of the trial; raises an error if the population is not bound to one."""
        if self.key is None:
            raise ValueError(
                "this population is random: bind it to a trial first, as in pop.bind(key).at(...) "
                "or pop.counts(key)."
            )
        return stream(self.key, name)

    def at(self, users: Count) -> Tree:
        return self.maker.make([words_at(self.stream(name), users, 1)[0] for name in self._streams])

    def reader(
        self,
        size: int,
        first: Count,
        tiled: bool,
        wide: bool = False,
        span: Span | None = None,
    ) -> Reader:
        del first, span
        made = {name: BlockWords.of(self.stream(name), size, 1, tiled) for name in self._streams}

        def locate(start: Count) -> Tree:
            place = made[Stream.POPULATION].locate(start)  # the same one in all streams
            # Of numbers that it knows to be those of the users' words, XLA for GPUs would read some
            # in a kernel of their own, for both.
            return jax.lax.optimization_barrier(place) if wide else place

        def read(place: Tree) -> tuple[Tree, jax.Array]:
            words = [each.make(place) for each in made.values()]
            # As one tile: without this axis XLA for GPUs stores what the table says, too.
            values = self.maker.make(words if wide else [word[0] for word in words])
            return jax.tree.map(lambda x: x[0], values) if wide else values, jnp.ones(size, bool)

        def draw(place: Tree) -> Drawn:
            keys = tuple(each.stream for each in made.values())
            return Drawn(self.maker, keys, jnp.stack(place), size)

        return Reader(locate, read, draw=draw if tiled else None)

    @property
    def _streams(self) -> tuple[Stream, ...]:
        """The streams of the words that a value is made of."""
        return (Stream.POPULATION, Stream.TIES)[: self.maker.num_words]

    @property
    def maker(self) -> "DrawnBin":
        """Makes a user's value from a word, or from two."""
        return DrawnBin(self.table, self.values)

    @property
    def inputs(self) -> Tree:
        return self.values

    def probabilities(self) -> np.ndarray:
        """The realised probabilities, float64[k]."""
        return self.weights.numpy() / 2.0 ** (_COARSE if self.table.lower is None else _FINE)

    @compiled_in_float64
    def counts(self) -> Count:
        key = jax.random.fold_in(self.stream(Stream.DRAWS), 0)
        return multinomial(key, self.size, self.weights.f64())


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class DrawnBin:
    """Makes the values of users from words of their own.

    Attributes:
      table: draws a bin.
      values: what the bins stand for; None for the bins.
    """

    table: AliasTable
    values: Tree

    @property
    def num_words(self) -> int:
        """Words of a user."""
        return 1 if self.table.lower is None else 2

    def make(self, words: Sequence[jax.Array], /) -> Tree:
        """The values of users, from their words, each uint32[...]."""
        second = None if self.table.lower is None else words[1]
        return values_of(self.values, self.table.draw(words[0], second))


def _integer_weights(probabilities: np.ndarray) -> np.ndarray:
    """Integers that sum to 2**32, nearest to the probabilities by largest remainders."""
    return by_largest_remainders(probabilities / probabilities.sum(), 2**_COARSE)


def _fine_weights(probabilities: np.ndarray) -> np.ndarray:
    """Integers that sum to 2**62, next to the probabilities."""
    weights = np.floor(probabilities / probabilities.sum() * 2.0**_FINE).astype(np.int64)
    # The largest takes what is missing for the digits that floats lack, a relative 1e-15 or so.
    weights[np.argmax(weights)] += 2**_FINE - int(weights.sum())
    return weights
