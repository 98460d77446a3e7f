"""The round in which users send a curator their features."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._contract import Population, Round, TallyLaw, Tree, Words, Work, params, static
from .._features import check_binary_rows
from .._spec import is_traced
from .._subsets import num_subsets, rank, sizes, subsets
from .._x64 import compiled_in_float64, dot
from ..random import Count, everyone

_MOST_ADDED = 2**23
"""Users whose features are added at once: float32 counts exactly up to 2**24."""


@params
class MarginalCounts(Round[Count]):
    """Users send a curator their features; the tally counts those who have each set of them.

    Attributes:
      num_features, order, sparsity: as in `Marginals`.
    """

    num_features: int = static()
    order: int = static()
    sparsity: int | None = static()

    @property
    def num_words(self) -> int:
        """0: users do not randomize."""
        return 0

    @property
    def value(self) -> jax.ShapeDtypeStruct:
        """float32[n]."""
        return jax.ShapeDtypeStruct((self.num_features,), jnp.float32)

    @property
    def num_sets(self) -> int:
        """N, the number of sets of at most k features, the empty one included."""
        return num_subsets(self.num_features, self.order)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless users hold rows of 0 and 1, at most t of them 1."""
        population.require_reals((self.num_features,), low=0.0, high=1.0)
        if not is_traced(population.inputs):
            check_binary_rows(population.inputs, self.num_features, self.sparsity)

    def from_bits(self, words: Words | None, value: Float[Array, " n"], /) -> Bool[Array, " n"]:
        """The features: those above 1/2, of which a sparse user keeps the first t; NaN is 0."""
        del words
        has = value > 0.5
        if self.sparsity is None:
            return has
        return has & (jnp.cumsum(has.astype(jnp.int32)) <= self.sparsity)

    def tally(self, reports: Bool[Array, "m n"], mask: jax.Array | None = None, /) -> Count:
        """How many users have all the features in each set; of the empty one, all users."""
        mask = everyone(reports, mask)
        if len(reports) > _MOST_ADDED:
            half = len(reports) // 2
            return self.tally(reports[:half], mask[:half]) + self.tally(reports[half:], mask[half:])
        return Count.of(self._count(reports, mask.astype(jnp.float32)).astype(jnp.int32))

    @property
    def law(self) -> TallyLaw[Count]:
        """The counts themselves."""
        return TallyLaw(self._draw, lambda work: self.user_cost(work) * work.num_bins)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        del key
        reports = jax.vmap(lambda value: self.from_bits(None, value))(jnp.asarray(inputs))
        # Exact: all sums of counts are whole numbers up to 2**53.
        return Count.from_float(self._count(reports, counts.f64()))

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a user, roughly."""
        del work
        return 0.1 * self.num_sets

    def estimate(self, outcome: Count, /) -> Count:
        """The counts."""
        return outcome

    def _count(
        self, reports: Bool[Array, "m n"], weights: Float[Array, " m"]
    ) -> Float[Array, " N"]:
        """The sum of the weights of those who have all of each set: all but one, times one."""
        # A set is a smaller one and its last feature: one product of matrices makes the top level.
        smaller, last = self._last()
        features = jnp.concatenate([jnp.ones((len(reports), 1), bool), reports], axis=1)
        has = jnp.ones((len(reports), 1), bool)
        level, first = has, 0
        for size in range(1, self.order):
            rows = slice(first + level.shape[1], num_subsets(self.num_features, size))
            level = level[:, smaller[rows] - first] & features[:, last[rows]]
            first, has = rows.start, jnp.concatenate([has, level], axis=1)
        weighted = has.astype(weights.dtype) * weights[:, None]
        return dot(weighted.T, features.astype(weights.dtype))[smaller, last]

    def _last(self) -> tuple[np.ndarray, np.ndarray]:
        """Each set without its last feature, as an index, and 1 + that feature; 0, 0 if empty."""
        n = self.num_features
        rows, size = subsets(n, self.order), sizes(n, self.order)
        place, index = np.maximum(size - 1, 0), np.arange(len(rows))
        last = np.where(size > 0, rows[index, place], -1) + 1
        # n stands for an element that is missing, see `subsets`.
        rows[index, place] = n
        return rank(rows, n), last
