"""Queries on vectors: a user randomizes the vector of the own value, and vectors are averaged."""

import abc
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import dot, in_float64
from ..random import Count
from ..randomizers._mean import MeanRandomizer
from ..randomizers._vector import VectorRandomizer
from ._protocol import AdditiveProtocol


@dataclasses.dataclass(frozen=True)
class Code:
    """How values become vectors, and a mean of vectors becomes answers.

    Attributes:
      columns: float32[k, l], the vector of each value.
      decoder: float64[m, l]; None for the identity.
      offset: float64[m].
      randomizer: of the vectors.

    A user with value v contributes `decoder y + offset`, y the report's vector.
    """

    columns: np.ndarray
    decoder: np.ndarray | None
    offset: np.ndarray
    randomizer: MeanRandomizer


class EncodedProtocol(AdditiveProtocol):
    """Base class of the protocols whose users report vectors."""

    __slots__ = ()

    @abc.abstractmethod
    def code(self) -> Code:
        """How values become vectors, and a mean of vectors becomes answers; cached."""

    @property
    def randomizer(self) -> MeanRandomizer:
        """What a user runs on the vector of the own value."""
        return self.code().randomizer

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: that of `randomizer`."""
        return self.randomizer.exact_epsilon()

    def build(self, word_bits: int = 32) -> "EncodedParams":
        """The params."""
        code = self.code()
        vector = code.randomizer.build(word_bits)
        kind = EncodedLawParams if hasattr(vector, "sample_tally") else EncodedParams
        return kind(vector, code.columns, code.decoder, code.offset)

    def contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of one user's contribution to each answer; exact.

        Returns:
          float64[m, k] and float64[m, k]: column v for a user who holds v.
        """
        return _contributions(self)

    def check_population(self, population) -> None:
        """Raises unless the users' values are bins of the domain, and few enough to be added."""
        super().check_population(population)
        self.randomizer.check_total(population)


@functools.lru_cache(maxsize=64)
def _contributions(protocol: EncodedProtocol) -> tuple[np.ndarray, np.ndarray]:
    code = protocol.code()
    columns = code.columns.astype(np.float64)
    decoder = np.eye(columns.shape[1]) if code.decoder is None else code.decoder
    if isinstance(code.randomizer, VectorRandomizer):
        seen = columns.T if code.decoder is None else decoder @ columns.T
        along, across = code.randomizer.second_moments()
        squares = np.square(decoder).sum(axis=1, keepdims=True)
        variance = across * code.randomizer.radius**2 * squares
        return seen + code.offset[:, None], variance + (along - across - 1) * seen**2
    means, variances = [], []
    for column in columns:
        mean, covariance = code.randomizer.moments(column)
        means.append(decoder @ mean + code.offset)
        variances.append(np.sum((decoder @ covariance) * decoder, axis=1))
    return np.stack(means, axis=1), np.stack(variances, axis=1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EncodedParams:
    """The params of the protocols whose users report vectors: a pytree.

    Attributes:
      vector: the params of the randomizer of vectors.
      columns: float32[k, l], the vector of each value.
      decoder: float64[m, l]; None for the identity.
      offset: float64[m].
    """

    vector: Any
    columns: jax.Array | np.ndarray
    decoder: jax.Array | np.ndarray | None
    offset: jax.Array | np.ndarray

    @property
    def num_words(self) -> int:
        """Those of the randomizer."""
        return self.vector.num_words

    @property
    def lazy_words(self) -> bool:
        """Whether `from_bits` reads words one by one."""
        return getattr(self.vector, "lazy_words", False)

    @property
    def fixed_bits(self) -> int:
        """The grid of the sum of reports."""
        return self.vector.fixed_bits

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words].
          value: int32[] in [0, k).
        """
        return self.vector.from_bits(words, jnp.asarray(self.columns)[value])

    def privatize(self, key, value):
        """One user's report, its words drawn from `key`; see `from_bits`."""
        return self.vector.privatize(key, jnp.asarray(self.columns)[jnp.asarray(value, jnp.int32)])

    def tally(self, reports, mask):
        """The sum of the masked reports and the number of users; as the randomizer's."""
        return self.vector.tally(reports, mask)

    @in_float64
    def estimate(self, tally):
        """The estimated answers, float[m]."""
        mean = self.vector.estimate(tally)
        if self.decoder is not None:
            mean = dot(jnp.asarray(self.decoder).astype(jnp.float64), mean)
        return mean + jnp.asarray(self.offset).astype(jnp.float64)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EncodedLawParams(EncodedParams):
    """`EncodedParams` where the law of a sum of the randomizer's reports is known."""

    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each value.
          inputs: unused; values are bins.
        """
        del inputs
        return self.vector.sample_tally(key, counts, jnp.asarray(self.columns))

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        return self.vector.tally_cost(num_users, num_bins)
