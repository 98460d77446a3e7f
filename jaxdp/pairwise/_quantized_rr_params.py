"""The params of QuantizedRR."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64, dot
from ..random import Count, binomial, part_of, user_words
from ..randomizers import KRRParams
from ._grid import FRACTION_BITS
from ._rounding import bin_of, flushed, lower_point, traced_search


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class QuantizedRRParams:
    """The params of `QuantizedRR`: a pytree.

    Attributes:
      channel: the randomized response of a symbol.
      matrices: float64[m, k, k], the kernels of the averages on the symbols.
      points: for each axis of the grid float32[..], its inner edges, or with randomized rounding
        all its points; empty when values are symbols.
      link: the statistic as a function of the averages, static.
      randomized: whether values are rounded at random, static.
      form: "u" or "v", static.
    """

    channel: KRRParams
    matrices: jax.Array | np.ndarray
    points: tuple[jax.Array | np.ndarray, ...]
    link: Callable = dataclasses.field(metadata={"static": True})
    randomized: bool = dataclasses.field(metadata={"static": True})
    form: str = dataclasses.field(metadata={"static": True})

    lazy_words = False

    @property
    def num_words(self) -> int:
        """One word per user, and with randomized rounding one more for each coordinate."""
        return 1 + (len(self.points) if self.randomized else 0)

    def quantize(self, words, value):
        """The symbol of one user's value.

        Args:
          words: uint32[num_words]; one after the first for each coordinate with randomized
            rounding, else unused.
          value: int32[], or float32[] or float32[dim] with a grid.

        Returns:
          int32[] in [0, k).
        """
        if not self.points:
            return value
        coordinates = self._coordinates(value)
        points = [jnp.asarray(p) for p in self.points]
        if not self.randomized:
            return bin_of(points, coordinates, traced_search)
        index = jnp.int32(0)
        for number, (axis, x) in enumerate(zip(points, coordinates, strict=True)):
            below, fraction = lower_point(axis, x, traced_search)
            word = words[1 + number] >> np.uint32(32 - FRACTION_BITS)
            up = word < fraction.astype(jnp.uint32)
            index = index * np.int32(axis.shape[0]) + below + up.astype(jnp.int32)
        return index

    def _coordinates(self, value) -> list:
        value = flushed(value.astype(jnp.float32), jnp.where)
        dim = len(self.points)
        return [value] if dim == 1 else [value[..., axis] for axis in range(dim)]

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words]; the first is the randomized response's.
          value: int32[] in [0, k), or float32[] or float32[dim] with a grid.

        Returns:
          int32[] in [0, k).
        """
        return self.channel.from_bits(part_of(words, 0, 1), self.quantize(words, value))

    def privatize(self, key, value):
        """One user's report, its words drawn from `key`; see `from_bits`."""
        words = user_words(key, 0, self.num_words)[:]
        dtype = jnp.float32 if self.points else jnp.int32
        return self.from_bits(words, jnp.asarray(value, dtype))

    def tally(self, reports, mask):
        """The number of each report among the masked ones, int32[k]."""
        return self.channel.tally(reports, mask)

    @compiled_in_float64
    def u_statistics(self, tally: Count):
        """Unbiased estimates of the averages that the statistic is a function of, float[m].

        Args:
          tally: Count[k], the number of each report.
        """
        p, q = self.channel.probabilities()
        reports, users = tally.f64(), self.channel.estimate(tally)
        n = jnp.sum(reports)
        matrices = jnp.asarray(self.matrices).astype(jnp.float64)
        rows = matrices.sum(axis=-1)
        diagonal = jnp.diagonal(matrices, axis1=-2, axis2=-1)
        own = diagonal - 2 * q * rows + q**2 * rows.sum(axis=-1, keepdims=True)
        total = dot(dot(matrices, users), users) - dot(own, reports) / (p - q) ** 2
        if self.form == "u":
            return total / (n * (n - 1))
        return (total + dot(diagonal, users)) / n**2

    @compiled_in_float64
    def estimate(self, tally: Count):
        """The estimated statistic, float[].

        Args:
          tally: Count[k], the number of each report.
        """
        return self.link(self.u_statistics(tally), jnp.sum(tally.f64()))

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """A tally drawn at once, exact in law.

        Args:
          key: a key; it is folded.
          counts: Count[m], the number of users with each value.
          inputs: with a grid the values, float32[m] or float32[m, dim].

        Returns:
          Count[k].
        """
        if self.points:
            counts = self._symbol_counts(jax.random.fold_in(key, 0), counts, inputs)
        return self.channel.sample_tally(jax.random.fold_in(key, 1), counts)

    def _symbol_counts(self, key, counts: Count, inputs) -> Count:
        """The number of users that become each symbol, Count[k]; inside an x64 block."""
        coordinates = self._coordinates(inputs)
        points = [jnp.asarray(p) for p in self.points]
        if not self.randomized:
            groups = [(bin_of(points, coordinates, traced_search), counts)]
        else:
            groups = [(jnp.zeros(counts.shape, jnp.int32), counts)]
            for number, (axis, x) in enumerate(zip(points, coordinates, strict=True)):
                below, fraction = lower_point(axis, x, traced_search)
                share = fraction.astype(jnp.float64) / 2.0**FRACTION_BITS
                axis_key, split = jax.random.fold_in(key, number), []
                for corner, (index, size) in enumerate(groups):
                    up = binomial(jax.random.fold_in(axis_key, corner), size, share)
                    index = index * np.int32(axis.shape[0]) + below
                    split += [(index, size - up), (index + 1, up)]
                groups = split
        k = self.channel.num_values
        # Exact: all partial sums are whole numbers up to 2**53.
        totals = (jax.ops.segment_sum(size.f64(), index, k) for index, size in groups)
        return Count.from_float(sum(totals, start=jnp.zeros(k, jnp.float64)))

    @compiled_in_float64
    def sample_tally_iid(self, key, num_users: Count, weights: Count) -> Count:
        """The tally of users whose values are symbols drawn from a distribution.

        Args:
          key: a key; it is folded.
          num_users: Count[].
          weights: Count[k], the probabilities of the values times 2**32.

        Returns:
          Count[k].
        """
        return self.channel.sample_tally_iid(jax.random.fold_in(key, 1), num_users, weights)

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        rounding = 10.0 if not self.randomized else 200.0 * (2 ** len(self.points) - 1)
        rounding = rounding * num_bins if self.points else 0.0
        return rounding + self.channel.tally_cost(num_users, self.channel.num_values)
