"""Linear queries from vector reports.

Each user privatizes a vector that stands for its value; the analyst averages and decodes.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32

from .._checks import Maker, made_by
from .._contract import Draft, Independent, Kernels, Summed, TallyLaw, Through, Tree, Words, params
from .._queries import AdditiveProtocol, Encoding, R_co, Width
from .._x64 import as_float64, compiled_in_float64, dot
from ..population import Population
from ..random import Count
from ..randomizers import MeanRandomizer, MeanRound

T = TypeVar("T")

_NO_RADIUS = 1e-9  # of the ball of vectors that are all 0, in the largest entry of what is encoded
_CENTRE_WORK = 2e9  # multiplications that the search for a centre may take, seconds
_PAIR_WORK = 1e12  # and the search for the two vectors that are farthest apart

VectorMaker = Callable[..., MeanRandomizer]
"""Makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon, radius."""

RANDOMIZER = Maker("a callable such as PrivUnitG")
"""The check of a field that holds a `VectorMaker`."""


class EncodedRound(Through[T]):
    """Base of rounds in which users run an inner round on an encoding of their value."""

    @abc.abstractmethod
    def encode(self, values: Tree) -> Tree:
        """The inner round's values for one user's value, or for many along a leading axis."""

    @property
    def num_bins(self) -> int | None:
        """None: the bins of the inner round, if it has any, are encoded values."""
        return None

    def from_bits(self, words: Words, value: Tree, /) -> Tree:
        """One user's report, the inner round's on the encoded value."""
        return self.inner.from_bits(words, self.encode(value))

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """Limits of the inner round, which makes the reports."""
        return self.inner.report_limits

    @property
    def summed(self) -> Summed[T] | None:
        """What the inner round says of its tally, of encoded values."""
        summed = self.inner.summed
        if summed is None or type(self).tally is not Through.tally:
            return None
        return dataclasses.replace(
            summed,
            numbers=lambda words, held, alone: summed.numbers(words, self.encode(held), alone),
        )

    @property
    def draft(self) -> Draft | None:
        """The draft of the inner round, of encoded values."""
        draft = self.inner.draft
        if draft is None:
            return None
        return dataclasses.replace(
            draft, reports=lambda words, held: draft.reports(words, self.encode(held))
        )

    @property
    def law(self) -> TallyLaw[T] | None:
        """The law of the inner round, whose bins stand for the encoded values."""
        law = self.inner.law
        if law is None:
            return None

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> T:
            return law.draw(key, counts, self._encoded(counts, inputs))

        def draw_independent(key: jax.Array, users: Independent) -> T:
            encoded = self._encoded(users.weights, users.inputs)
            return law.independent(key, dataclasses.replace(users, inputs=encoded))

        independent = None if law.independent is None else draw_independent
        return TallyLaw(draw, law.cost, independent, law.distance)

    def _encoded(self, counts: Count, inputs: Tree) -> Tree:
        """What the bins stand for, encoded; values are the bins where there are no inputs."""
        bins = jnp.arange(counts.shape[0], dtype=jnp.int32) if inputs is None else inputs
        return self.encode(bins)

    @property
    def kernels(self) -> Kernels[T]:
        """None: those of the inner round take encoded values."""
        return Kernels()


class EmbeddedRound(EncodedRound[dict[str, Count]]):
    """Base of rounds in which users report a vector that stands for their value.

    A subclass has the leaves `inner`, the round of a randomizer of numbers or vectors, and
    `embedding`, float32[k, ...], the number or vector of each value.
    """

    inner: MeanRound
    embedding: Any  # Float32[Array, "k ..."]

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        # Before the axes of a number or vector; stacked params have axes of their own in front.
        return self.embedding.shape[-1 - len(self.inner.value_shape)]

    @property
    def value(self) -> Tree:
        """A bin."""
        return jax.ShapeDtypeStruct((), jnp.int32)

    def encode(self, values: Int32[Array, "*n"]) -> Float32[Array, "..."]:
        """The vectors of values."""
        return jnp.asarray(self.embedding)[values]

    @staticmethod
    def radius_of(vectors: Float[np.ndarray, "k l"], norm: float = 2) -> float:
        """The radius of the ball for float32 vectors: their largest norm, rounded up to float32.

        1 if all of them are 0.

        Args:
          vectors: a vector a row.
          norm: the order of the norm.
        """
        wide = vectors.astype(np.float64)
        norms = np.linalg.norm(wide, norm, axis=1)
        nearest = np.float32(norms.max())
        # Rounded up where a vector would have to be scaled into the ball, by 3e-8 or less.
        powers = np.abs(wide[norms >= norms.max() * (1 - 1e-6)]) ** norm
        sums, limit = powers.sum(axis=1), float(nearest) ** norm
        slack = 2 * powers.shape[1] * np.finfo(np.float64).eps * limit
        # Float64 holds the squares of float32 numbers, and the sign of `fsum` is that of the exact
        # sum: for the few whose sum may be off by rounding.
        close = powers[np.abs(sums - limit) <= slack]
        if sums.max() > limit + slack or any(math.fsum([*row, -limit]) > 0 for row in close):
            nearest = np.nextafter(nearest, np.float32(np.inf))
        return float(nearest) or 1.0


@params
class AnswerRound(EmbeddedRound):
    """The round of an `EncodedProtocol`: the mean of the reports is decoded to answers.

    Attributes:
      inner: the params of the randomizer of vectors.
      embedding: float32[k, l], the vector of each value.
      decoder: float64[m, l]; None for the identity.
      offset: float64[m], added to the decoded mean.
    """

    inner: MeanRound
    embedding: Float32[Array | np.ndarray, "k l"]
    decoder: Float[Array | np.ndarray, "m l"] | None
    offset: Float[Array | np.ndarray, " m"]

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, " m"]:
        """The estimated answers."""
        mean, (offset,) = self.inner.estimate(outcome), as_float64(self.offset)
        if self.decoder is not None:
            (decoder,) = as_float64(self.decoder)
            mean = dot(decoder, mean)
        return mean + offset


class EncodedProtocol(AdditiveProtocol[AnswerRound], Generic[R_co]):
    """Base of the protocols whose users report vectors by a randomizer of class R."""

    __slots__ = ()

    embeds: ClassVar[bool] = True

    @abc.abstractmethod
    def _encode(self) -> Encoding[R_co]:
        """What `encoding` keeps."""

    def encoding(self) -> Encoding[R_co]:
        """Map from values to vectors and from a mean of vectors to answers; cached."""
        return _encoding(self)

    @property
    def reporter(self) -> MeanRandomizer:
        """The randomizer of the vectors."""
        return self.encoding().randomizer

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the randomizer."""
        return self.encoding().randomizer.exact_epsilon()

    def composed_delta(self, num_reports: int, epsilon: float) -> float | None:
        """The delta of several reports, as the randomizer computes it."""
        return self.encoding().randomizer.composed_delta(num_reports, epsilon)

    def build(self, word_bits: int = 32) -> AnswerRound:
        """Builds the params, which users and the analyst run."""
        encoding = self.encoding()
        inner = encoding.randomizer.build(word_bits)
        return AnswerRound(inner, encoding.embedding, encoding.decoder, encoding.offset)

    def contributions(self) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, "m k"]]:
        return _contributions(self)

    @property
    def counts_all_users(self) -> bool:
        return self.encoding().randomizer.always_reports

    def width(self, symmetric: bool) -> Width | None:
        return _width(self, symmetric)

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are bins of the domain, and few enough to be added."""
        AdditiveProtocol.check_population(self, population)
        self.encoding().randomizer.check_total(population)


@functools.lru_cache(maxsize=64)
def _encoding(protocol: EncodedProtocol[R_co]) -> Encoding[R_co]:
    encoding = protocol._encode()
    # A randomizer may take less than a ball: `PrivUnit(padded=False)` asks for equal norms.
    encoding.randomizer.check_values("the columns that users report", encoding.embedding)
    return encoding


@functools.lru_cache(maxsize=64)
def _contributions(protocol: EncodedProtocol) -> tuple[np.ndarray, np.ndarray]:
    encoding = protocol.encoding()
    vectors, decoder = encoding.embedding.astype(np.float64), encoding.decoder
    form = encoding.randomizer.covariance_form()
    if form is not None:
        # w^T (a I + b x x^T) w for each row w of the decoder and each vector x.
        isotropic, along = form
        decoded = vectors.T if decoder is None else decoder @ vectors.T
        squares = 1.0 if decoder is None else np.sum(decoder**2, axis=1)[:, None]
        return decoded + encoding.offset[:, None], isotropic * squares + along * decoded**2
    if decoder is None and encoding.randomizer.always_reports:  # no covariances are needed
        return vectors.T + encoding.offset[:, None], encoding.randomizer.report_variances(vectors).T
    pairs = [_moments(encoding.randomizer, vector, decoder) for vector in vectors]
    means, variances = (np.stack(each, axis=1) for each in zip(*pairs, strict=True))
    return means + encoding.offset[:, None], variances


def _moments(
    randomizer: MeanRandomizer, vector: np.ndarray, decoder: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance of each entry of a decoded report, float64[m]."""
    mean, covariance = randomizer.moments(vector)
    if decoder is None:
        return mean, np.diagonal(covariance)
    return decoder @ mean, np.sum((decoder @ covariance) * decoder, axis=1)  # w^T S w by row


@functools.lru_cache(maxsize=64)
def _width(protocol: EncodedProtocol, symmetric: bool) -> Width | None:
    encoding, columns = protocol.encoding(), protocol.matrix()
    tail = encoding.randomizer.tail()
    if tail is None:
        return None
    # The noise has mean 0, so any centre may be taken off the columns: <z, c> adds nothing.
    centres = [np.zeros(len(columns))]
    if not symmetric:
        centres += [columns.mean(axis=1), encoding.offset]

    def norms(centre: np.ndarray) -> tuple[float, float]:
        moved = columns - centre[:, None]
        # <z, moved_v> for z = decoder y is the product of y with the decoder's transpose of it.
        seen = moved if encoding.decoder is None else encoding.decoder.T @ moved
        norm, radius = (float(np.linalg.norm(x, axis=0).max()) for x in (seen, moved))
        return norm, radius

    return Width(tail, *min(map(norms, centres)), protocol.contributions()[0] - columns)


def column_vectors(
    workload: Float[np.ndarray, "m k"], offset: Float[np.ndarray, " m"], norm: float = 2
) -> tuple[Float32[np.ndarray, "k m"], float]:
    """The vectors of users who report the column of their value, and a bound on their norms.

    Args:
      workload: W.
      offset: subtracted from the columns.
      norm: the order of the norm that is bounded, 1 or 2.
    """
    # Users hold float32: the bound is that of the rounded columns.
    vectors = (workload - offset[:, None]).T.astype(np.float32)
    if np.any(vectors):
        return vectors, EmbeddedRound.radius_of(vectors, norm)
    # Nothing is asked: the noise is far below what float32 tells apart.
    return vectors, float(np.float32(_NO_RADIUS * max(np.abs(workload).max(), 1.0)))


def ball_center(columns: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " m"]:
    """The centre of nearly the smallest ball that holds all columns.

    The noise of a vector grows with the radius of the ball, and the analyst adds the centre back.
    The best of 0, the mean and the middle, moved towards whichever column is farthest, by 1 / t in
    step t: within a factor of `1 + 1 / sqrt(t)` of the smallest ball (Badoiu, Clarkson 2003), and
    never worse than where it began.
    """

    def farthest(centre: np.ndarray) -> tuple[float, int]:
        norms = np.square(columns - centre[:, None]).sum(axis=0)
        return float(norms.max()), int(norms.argmax())

    middle, mean = (columns.min(axis=1) + columns.max(axis=1)) / 2, columns.mean(axis=1)
    squares = np.square(columns - mean[:, None]).sum(axis=0)
    if np.ptp(squares) <= 1e-12 * squares.max():
        return mean  # towards whichever column another centre moves, it leaves one behind
    starts = np.zeros_like(middle), mean, middle
    best = centre = min(starts, key=lambda c: farthest(c)[0])
    least, far = farthest(centre)
    for step in range(2, 2 + int(np.clip(_CENTRE_WORK / columns.size, 20, 1000))):
        centre = centre + (columns[:, far] - centre) / step
        found, far = farthest(centre)
        # A centre of long fractions is no better than a plain one that is as good but for rounding.
        if found < least * (1 - 1e-9):
            least, best = found, centre
    return best


def largest_distance(vectors: Float[np.ndarray, "k l"], radius: float) -> float:
    """The largest L2 distance of two vectors of norms of at most a radius, rounded up.

    2 radius where all are 0, and for so many that comparing all pairs would take minutes.
    """
    k, dim = vectors.shape
    if k * k * dim > _PAIR_WORK or not np.any(vectors):
        return 2 * radius
    wide = vectors.astype(np.float64)
    squares = np.square(wide).sum(axis=1)
    rows = max(2**22 // k, 1)  # the products of so many vectors with all are in memory at once
    largest = max(
        float((squares[i : i + rows, None] + squares - 2 * wide[i : i + rows] @ wide.T).max())
        for i in range(0, k, rows)
    )
    # Sums of squares, and the product, are off by a relative (l + 2) 2**-53 each.
    error = 4 * radius**2 * (dim + 4) * 2.0**-52
    return min(math.sqrt(max(largest, 0.0) + error) * (1 + 2.0**-50), 2 * radius)


def make_randomizer(maker: VectorMaker, dim: int, epsilon: float, radius: float) -> MeanRandomizer:
    """The randomizer that a callable makes of vectors in a ball.

    Raises:
      TypeError: it needs more than these three.
    """
    wanted = "made from the keywords dim, epsilon and radius alone"
    remedy = "; give other arguments first, as functools.partial(Gaussian, delta=1e-6) does"
    sizes = dict(dim=dim, epsilon=epsilon, radius=radius)
    return made_by("randomizer", maker, wanted, remedy=remedy, **sizes)
