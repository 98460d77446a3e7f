"""Queries on vectors: a user randomizes the vector of the own value, and vectors are averaged."""

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._queries import AdditiveProtocol
from .._x64 import compiled_in_float64, dot
from ..random import Count
from ..randomizers._gaussian import Gaussian
from ..randomizers._gaussian_rejection import GaussianRejection
from ..randomizers._laplace import Laplace
from ..randomizers._mean import MeanRandomizer
from ..randomizers._vector import VectorRandomizer


@dataclasses.dataclass(frozen=True)
class Code:
    """How values become vectors, and a mean of vectors becomes answers.

    Attributes:
      columns: float32[k, l], the vector of each value.
      decoder: float64[m, l]; None for the identity.
      offset: float64[m].
      randomizer: the `MeanRandomizer` of the vectors.

    A user with value v contributes `decoder y + offset`, y the report's vector.
    """

    columns: np.ndarray
    decoder: np.ndarray | None
    offset: np.ndarray
    randomizer: Any


def column_code(workload: np.ndarray, offset, norm: float, randomizer) -> Code:
    """The code of a protocol whose users report the column of their value, less an offset.

    Args:
      workload: float64[m, k].
      offset: float64[m] or 0.
      norm: the order of the norm of the columns that the randomizer bounds, 1 or 2.
      randomizer: maps that bound to the randomizer.
    """
    offset = np.broadcast_to(np.asarray(offset, np.float64), workload.shape[:1])
    columns = (workload - offset[:, None]).T.astype(np.float32)
    return Code(columns, None, offset, randomizer(radius_of(columns, norm)))


def make_randomizer(
    maker: Callable[..., MeanRandomizer], dim: int, epsilon: float, radius: float
) -> MeanRandomizer:
    """The randomizer that a callable makes of vectors in a ball.

    Raises:
      TypeError: it needs more than these three.
    """
    sizes = dict(dim=dim, epsilon=epsilon, radius=radius)
    try:
        inspect.signature(maker).bind(**sizes)
    except TypeError as error:
        name = getattr(maker, "__name__", repr(maker))
        raise TypeError(
            f"randomizer must be made from the keywords dim, epsilon and radius alone, got {name}: "
            f"{error}; give other arguments first, as functools.partial(Gaussian, delta=1e-6) does."
        ) from None
    return maker(**sizes)


def radius_of(columns: np.ndarray, norm: float = 2) -> float:
    """The largest norm of the rows of a float32 array, rounded up; 1 if all are 0."""
    largest = float(np.linalg.norm(columns.astype(np.float64), norm, axis=1).max())
    nearest = np.float32(largest)
    if nearest < largest:
        nearest = np.nextafter(nearest, np.float32(np.inf))
    return float(nearest) or 1.0


class EncodedProtocol(AdditiveProtocol):
    """Base class of the protocols whose users report vectors."""

    __slots__ = ()

    @abc.abstractmethod
    def code(self) -> Code:
        """How values become vectors, and a mean of vectors becomes answers; cached."""

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: that of the randomizer."""
        return self.code().randomizer.exact_epsilon()

    def exact_delta(self) -> float:
        """The smallest delta at which `exact_epsilon()` holds; 0 of a pure randomizer."""
        return getattr(self.code().randomizer, "exact_delta", float)()

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
        self.code().randomizer.check_total(population)


@functools.lru_cache(maxsize=64)
def _contributions(protocol: EncodedProtocol) -> tuple[np.ndarray, np.ndarray]:
    code = protocol.code()
    columns = code.columns.astype(np.float64)
    symmetric = covariance_form(code.randomizer)
    if symmetric is not None:
        isotropic, along = symmetric
        seen = columns.T if code.decoder is None else code.decoder @ columns.T
        squares = 1.0 if code.decoder is None else np.sum(code.decoder**2, axis=1)[:, None]
        return seen + code.offset[:, None], isotropic * squares + along * seen**2
    decoder = np.eye(columns.shape[1]) if code.decoder is None else code.decoder
    means, variances = [], []
    for column in columns:
        mean, covariance = code.randomizer.moments(column)
        means.append(decoder @ mean + code.offset)
        variances.append(np.sum((decoder @ covariance) * decoder, axis=1))
    return np.stack(means, axis=1), np.stack(variances, axis=1)


def covariance_form(randomizer: MeanRandomizer) -> tuple[float, float] | None:
    """The (a, b) for which an unbiased report of x has covariance `a I + b x x^T`, if there are."""
    if isinstance(randomizer, VectorRandomizer):
        along, across = randomizer.second_moments()
        return across * randomizer.radius**2, along - across - 1
    if isinstance(randomizer, Gaussian | Laplace):
        return randomizer.worst_case_variance(1), 0.0
    if isinstance(randomizer, GaussianRejection) and randomizer.variant == "repaired":
        kept = randomizer.kept_law(randomizer.radius)
        square, mass = randomizer.sigma**2, kept.probability
        scale = mass / (mass * kept.mean) ** 2  # of E[y y^T] over kept reports, for radius 1
        isotropic = square * scale
        return isotropic * randomizer.radius**2, (
            kept.variance + kept.mean**2
        ) * scale - isotropic - 1
    return None


class VectorParams:
    """Base class of the params of users whose reports are vectors.

    Attributes:
      vector: the params of the randomizer of vectors.
    """

    vector: Any

    @property
    def lazy_words(self) -> bool:
        """Whether `from_bits` reads words one by one."""
        return getattr(self.vector, "lazy_words", False)

    @property
    def fixed_bits(self) -> int:
        """The grid of the sum of reports."""
        return self.vector.fixed_bits


class VectorCodeParams(VectorParams):
    """Base class of the params of users who report the vector of their value.

    Attributes:
      vector: the params of the randomizer of vectors.
      columns: float32[k, l], the vector of each value.
    """

    columns: jax.Array | np.ndarray

    @property
    def num_words(self) -> int:
        """Those of the randomizer."""
        return self.vector.num_words

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


class VectorCodeLawParams(VectorCodeParams):
    """`VectorCodeParams` whose tally is that of the randomizer, where its law is known."""

    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law: a few scalars for a user, vectors for a value.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each value.
          inputs: unused; values are bins.

        Returns:
          As `tally`, of Fixed and Count.
        """
        del inputs
        return self.vector.sample_tally(key, counts, jnp.asarray(self.columns))

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        return self.vector.tally_cost(num_users, num_bins)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EncodedParams(VectorCodeParams):
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

    def tally(self, reports, mask):
        """The sum of the masked reports and the number of users; as the randomizer's."""
        return self.vector.tally(reports, mask)

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated answers, float[m]."""
        mean = self.vector.estimate(tally)
        if self.decoder is not None:
            mean = dot(jnp.asarray(self.decoder).astype(jnp.float64), mean)
        return mean + jnp.asarray(self.offset).astype(jnp.float64)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EncodedLawParams(VectorCodeLawParams, EncodedParams):
    """`EncodedParams` where the law of a sum of the randomizer's reports is known."""
