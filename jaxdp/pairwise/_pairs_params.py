"""The params of the protocols in which pairs of users report a randomized kernel value."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._x64 import compiled_in_float64, dot
from ..population import Population
from ..random import PUBLIC, Count, merge, stream
from ..randomizers._params import RandomizerParams
from ._pair_sources import EveryPairSource, MatchingSource


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairParams(RandomizerParams):
    """What one pair runs, and what reports of pairs say: a pytree.

    Attributes:
      randomizer: the params of the randomizer of a pair's value.
      inputs: the randomizer's input for each level of the kernel; int32[s], float32[s] or
        float32[s, m].
      index: int32[k, k], the level of each pair of bins.
      levels: float64[s, m], the levels.
      center: float64[m], what is added to the randomizer's estimate, if that is a mean.
      counted: whether it estimates how many pairs have each level, static.
    """

    randomizer: Any
    inputs: jax.Array | np.ndarray
    index: jax.Array | np.ndarray
    levels: jax.Array | np.ndarray
    center: jax.Array | np.ndarray
    counted: bool = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self) -> int:
        """Words per pair: those of the randomizer."""
        return self.randomizer.num_words

    def from_bits(self, words, value):
        """The report of one pair, what the ideal functionality gives out.

        Args:
          words: uint32[num_words].
          value: the two users' bins, a tuple of two int32[] in [0, k); clamped into it.
        """
        index = jnp.asarray(self.index)
        held = (jnp.clip(jnp.asarray(v, jnp.int32), 0, index.shape[-1] - 1) for v in value)
        return self.randomizer.from_bits(words, jnp.asarray(self.inputs)[index[tuple(held)]])

    def tally(self, reports, mask):
        """The randomizer's tally of the masked reports."""
        return self.randomizer.tally(reports, mask)

    @compiled_in_float64
    def averages(self, tally):
        """Unbiased estimates of the kernels' means over the pairs, float[m].

        Args:
          tally: the randomizer's tally.
        """
        found = self.randomizer.estimate(tally)
        if self.counted:
            levels = jnp.asarray(self.levels).astype(jnp.float64)
            return dot(levels.T, found / jnp.sum(found))
        return found.reshape(-1) + jnp.asarray(self.center).astype(jnp.float64)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """The tally of given pairs drawn at once, exact in law: that of the randomizer.

        Args:
          key: a key; it is folded.
          counts: Count[k * k], the table of the pairs' values, flat.
          inputs: unused; values are bins.
        """
        del inputs
        size = self.inputs.shape[0]
        # Exact: all partial sums are whole numbers up to 2**53.
        totals = jax.ops.segment_sum(counts.f64(), jnp.asarray(self.index).reshape(-1), size)
        return self.randomizer.sample_tally(key, Count.from_float(totals), jnp.asarray(self.inputs))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class PairOutcome:
    """What all pairs reported; a pytree.

    Attributes:
      tally: the randomizer's tally over all pairs of all rounds.
      users: Count[], the number of users.
    """

    tally: Any
    users: Count


@dataclasses.dataclass(frozen=True)
class _PairsParams:
    """Base of the params of protocols over pairs.

    Attributes:
      pair: the params of one pair.
      diagonal: float64[m], the kernels of a user with itself; used with the form "v" only.
      link: the statistic as a function of the averages, static.
      form: "u" or "v", static.
    """

    pair: PairParams
    diagonal: jax.Array | np.ndarray
    link: Callable = dataclasses.field(metadata={"static": True})
    form: str = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self) -> int:
        """Words per pair."""
        return self.pair.num_words

    def from_bits(self, words, value):
        """The report of one pair, given by its cell in the table of pairs.

        Args:
          words: uint32[num_words].
          value: int32[] in [0, k * k), the cell, row by row.
        """
        k = np.int32(self.pair.index.shape[-1])
        return self.pair.from_bits(words, (value // k, value % k))

    @property
    def sample_tally(self):
        """That of one round, given its pairs."""
        return self.pair.sample_tally

    @compiled_in_float64
    def u_statistics(self, outcome: PairOutcome):
        """Unbiased estimates of the averages that the statistic is a function of, float[m]."""
        found = self.pair.averages(outcome.tally)
        if self.form == "u":
            return found
        n = outcome.users.f64()
        return ((n - 1) * found + jnp.asarray(self.diagonal).astype(jnp.float64)) / n

    @compiled_in_float64
    def estimate(self, outcome: PairOutcome):
        """The estimated statistic, float[]."""
        return self.link(self.u_statistics(outcome), outcome.users.f64())


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairSamplingParams(_PairsParams):
    """The params of `PairSampling`: a pytree.

    Attributes:
      num_permutations: int32[], P; another one does not recompile.
    """

    num_permutations: jax.Array | np.ndarray

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds, in proportion to the per-user path's: a round draws k**2 hypergeometrics.

        A pair of the per-user path takes two images of a permutation, some fifty times what a word
        does.
        """
        del num_users
        return 20.0 * num_bins**2

    def play(self, key, population: Population, collect) -> PairOutcome:
        """Runs the matchings one after the other; each is public randomness of its own.

        Args:
          key: the trial's key.
          population: the users.
          collect: runs a round; see `jaxdp.engine`.
        """
        public = stream(key, PUBLIC)

        def matching(number):
            number = number.astype(jnp.uint32)
            source = MatchingSource(population.source, jax.random.fold_in(public, number))
            return collect(self.pair, Population(source), number)

        def step(number, total):
            return merge(total, matching(number))

        first = jnp.int32(0)
        shapes = jax.eval_shape(matching, first)
        zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        rounds = jnp.asarray(self.num_permutations, jnp.int32)
        return PairOutcome(lax.fori_loop(first, rounds, step, zero), population.size)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AllPairsParams(_PairsParams):
    """The params of `AllPairs`: a pytree."""

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """0: there are half as many pairs as the square of the number of users."""
        del num_users, num_bins
        return 0.0

    def play(self, key, population: Population, collect) -> PairOutcome:
        """Runs all pairs in one round.

        Args:
          key: the trial's key.
          population: the users.
          collect: runs a round; see `jaxdp.engine`.
        """
        source = EveryPairSource(population.source, key)
        return PairOutcome(collect(self.pair, Population(source), 0), population.size)
