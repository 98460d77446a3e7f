"""What runs inside jit for hierarchical queries."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64, dot
from ..random import Count, multinomial, part_of
from ..randomizers._params import CountedParams


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HierarchicalParams(CountedParams):
    """The params of `HierarchicalQueries`: a pytree.

    Attributes:
      levels: the params of each level's frequency oracle, whose reports are counted.
      borders: uint32[H - 1], the first word of each level but the first.
      decoder: float64[m, N + H], what each node's estimated count, and each level's number of
        users, adds to the answers; N nodes in all.
      offset: float64[m].
      widths: values in a node of each level, static.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    levels: tuple[Any, ...]
    borders: jax.Array | np.ndarray
    decoder: jax.Array | np.ndarray
    offset: jax.Array | np.ndarray
    widths: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    num_values: int = dataclasses.field(metadata={"static": True})
    word_bits: int = dataclasses.field(default=32, metadata={"static": True})

    @property
    def num_words(self) -> int:
        """One word for the level, and those of the oracle that takes the most."""
        return 1 + max(level.num_words for level in self.levels)

    @property
    def num_reports(self) -> int:
        """All reports of all levels."""
        return sum(level.num_reports for level in self.levels)

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words].
          value: int32[] in [0, k); clamped into it.

        Returns:
          int32[]: the oracle's report on the user's level, plus the reports of coarser levels.
        """
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)
        report, first = self._level_report(0, words, value), 0
        for i, level in enumerate(self.levels[:-1]):
            first += level.num_reports
            finer = first + self._level_report(i + 1, words, value)
            report = jnp.where(words[0] >= self.borders[i], finer, report)
        return report

    def _level_report(self, i: int, words, value):
        level = self.levels[i]
        return level.from_bits(part_of(words, 1, level.num_words), value // self.widths[i])

    def _chances(self):
        """The realised probability of each level, float64[H]; only inside an x64 block."""
        borders = jnp.asarray(self.borders).astype(jnp.float64) / 2.0**self.word_bits
        return jnp.diff(borders, prepend=0.0, append=1.0)

    @compiled_in_float64
    def estimate(self, tally: Count):
        """The estimated answers, float[m]."""
        counts, users, first = [], [], 0
        for level in self.levels:
            own = tally[first : first + level.num_reports]
            counts.append(level.estimate(own))
            users.append(own.sum().f64())
            first += level.num_reports
        seen = jnp.concatenate([*counts, jnp.stack(users)])
        numbers = self.decoder, self.offset
        decoder, offset = (jnp.asarray(x).astype(jnp.float64) for x in numbers)
        return dot(decoder, seen) / sum(users) + offset

    def _nodes(self, counts: Count, width: int) -> Count:
        """The number of users in each node of a level, from that of each value."""
        pad = (0, -self.num_values % width)
        whole: Count = jax.tree.map(lambda limb: jnp.pad(limb, pad), counts)
        return whole.reshape(-1, width).sum(1)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """A tally drawn at once, exact in law.

        The users of each value are split over the levels by a multinomial, then each level's tally
        is drawn by its oracle.

        Args:
          key: a key; it is folded.
          counts: Count[k], the users' values.
          inputs: unused; the values are the bins.

        Returns:
          Count[num_reports].
        """
        del inputs
        split = multinomial(jax.random.fold_in(key, 0), counts, self._chances())
        tallies = [
            level.sample_tally(jax.random.fold_in(key, 1 + i), self._nodes(split[:, i], width))
            for i, (level, width) in enumerate(zip(self.levels, self.widths, strict=True))
        ]
        return jax.tree.map(lambda *limbs: jnp.concatenate(limbs), *tallies)

    @compiled_in_float64
    def sample_tally_iid(self, key, num_users: Count, weights: Count) -> Count:
        """The tally of users drawn independently from a distribution.

        Args:
          key: a key; it is folded.
          num_users: Count[].
          weights: Count[k], the probabilities of a user's values, times any constant.

        Returns:
          Count[num_reports].
        """
        split = multinomial(jax.random.fold_in(key, 0), num_users, self._chances())
        tallies = [
            level.sample_tally_iid(
                jax.random.fold_in(key, 1 + i), split[i], self._nodes(weights, width)
            )
            for i, (level, width) in enumerate(zip(self.levels, self.widths, strict=True))
        ]
        return jax.tree.map(lambda *limbs: jnp.concatenate(limbs), *tallies)

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: the levels', and a split of each value."""
        nodes = (-(-self.num_values // width) for width in self.widths)
        own = (level.tally_cost(num_users, n) for level, n in zip(self.levels, nodes, strict=True))
        return 200.0 * num_bins * len(self.levels) + sum(own)
