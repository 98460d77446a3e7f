"""Users drawn independently from a distribution over bins."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import Tree
from .._x64 import compiled_in_float64
from ..random import AliasTable, Count, Stream, alias_table, multinomial, stream, words, words_at
from ._source import Reader, Source, values_of

_BITS = 32


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class DistributionSource(Source):
    """Independent users; user i's value is a function of its word in the population's stream.

    Probabilities are realised as multiples of 2**-32 that sum to exactly 1, by an alias table.

    Attributes:
      weights: Count[k], the realised probabilities times 2**32.
      table: draws a user's bin from a word.
      size: Count[].
      values: what the bins stand for, a pytree of arrays with k rows; None for the bins.
      key: the trial's key; None while unbound.
    """

    weights: Count
    table: AliasTable
    size: Count
    values: Tree = None
    key: jax.Array | None = None

    is_random = True

    @classmethod
    def make(cls, probabilities: np.ndarray, num_users: int, values: Tree) -> "DistributionSource":
        """The source of float64 probabilities that sum to 1."""
        weights = _integer_weights(probabilities)
        table = jax.tree.map(jnp.asarray, alias_table(weights, _BITS))
        return cls(Count.of(weights), table, Count.of(num_users), values)

    @property
    def num_values(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of bins."""
        return self.weights.shape[0]

    def bind(self, key: jax.Array) -> "DistributionSource":
        return dataclasses.replace(self, key=key)

    def stream(self, name: int) -> jax.Array:
        """One stream of the trial, or an error that says how to bind the population to one."""
        if self.key is None:
            raise ValueError(
                "this population is random: bind it to a trial first, as in pop.bind(key).at(...) "
                "or pop.counts(key)."
            )
        return stream(self.key, name)

    def at(self, users: Count) -> Tree:
        return self._value(words_at(self.stream(Stream.POPULATION), users, 1)[0])

    def reader(self, size: int, first: Count, tiled: bool) -> Reader:
        del first
        key = self.stream(Stream.POPULATION)

        def read(start: Count) -> tuple[Tree, jax.Array]:
            word = words(key, start, size, 1, tiled=tiled)[0]
            return self._value(word), jnp.ones(size, bool)

        return read

    def _value(self, word: jax.Array) -> Tree:
        return values_of(self.values, self.table.draw(word))

    @property
    def inputs(self) -> Tree:
        return self.values

    def probabilities(self) -> jax.Array:
        """The realised probabilities, float64[k]; only inside an x64 block."""
        return self.weights.f64() / 2.0**_BITS

    @compiled_in_float64
    def counts(self) -> Count:
        key = jax.random.fold_in(self.stream(Stream.DRAWS), 0)
        return multinomial(key, self.size, self.weights.f64())


def _integer_weights(probabilities: np.ndarray) -> np.ndarray:
    """Integers that sum to 2**32, nearest to the probabilities by largest remainders."""
    exact = probabilities / probabilities.sum() * 2.0**_BITS
    weights = np.floor(exact).astype(np.int64)
    missing = 2**_BITS - int(weights.sum())
    # The most negative differences are the largest remainders; stable, so that equal bins are
    # rounded up in their order on every platform.
    order = np.argsort(weights - exact, kind="stable")
    weights[order[:missing]] += 1
    return weights
