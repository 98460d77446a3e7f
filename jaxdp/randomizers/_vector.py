"""What the randomizers of vectors in an L2 ball share: checks, moments, the grid of reports."""

import abc
import math
from collections.abc import Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32
from numpy.typing import ArrayLike

from .._checks import By, Integer
from .._contract import Population, TallyLaw, Tree, Words, Work
from .._prediction import Prediction
from .._spec import check_epsilon, check_int
from .._x64 import compiled_in_float64
from ..accounting import PairLaw
from ..random import Count, normal, part_of
from ._mean import MeanRandomizer, MeanRound, SelfMoments, check_norms, check_scale
from ._pair_laws import cap_pair_law
from ._sphere import MAX_EPSILON, MIN_EPSILON, WORDS, Solution

MAX_DIM = 2**20
GRID = 2**10
"""Steps of the grid of reports for the root mean square of an entry; see `VectorRound`."""

_ROUNDING = 1e-12  # of second moments, relative


def _check_epsilon(name: str, value: object) -> float:
    """A privacy parameter for which 32 bits of a word are enough."""
    epsilon = check_epsilon(value, name)
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise ValueError(
            f"{name} must be in [{MIN_EPSILON:g}, {MAX_EPSILON:g}], got {value!r}: beyond these a "
            "word of 32 bits is too coarse for its probabilities."
        )
    return epsilon


DIM = Integer(1, MAX_DIM)
EPSILON = By(_check_epsilon, (1e-5, 31.0, 0, -1.0, float("nan"), float("inf"), "1", None, True))
RADIUS = By(check_scale, (0.0, -1.0, 1e30, float("nan"), "1"))

P_co = TypeVar("P_co", bound="MeanRound", covariant=True)
V_co = TypeVar("V_co", bound="VectorRound", covariant=True)


class VectorRandomizer(MeanRandomizer[P_co]):
    """Base of the specs of unbiased randomizers of vectors in the L2 ball of a radius.

    A report leads to a vector Y; for an input `x = radius rho u`, `|u| = 1`, its mean is x and its
    covariance `radius**2 (across I + (along - across - 1) rho**2 u u^T)`, where (along, across) are
    the second moments of Y / radius along and across the direction of an input of norm `radius`.

    Reports are on a grid. A report that is computed in floats and rounded to it, at random and
    without bias, has up to `unit**2 / 4` more variance, less than 1e-6 of it, which is not counted
    here; it is private in real arithmetic and serves simulation, not release. `CandidateResponse`
    is the one to release.
    """

    __slots__ = ()

    dim: int
    epsilon: float
    radius: float

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of a value, (dim,)."""
        return (self.dim,)

    @abc.abstractmethod
    def second_moments(self) -> tuple[float, float]:
        """The second moments (along, across) of a decoded report of an input of norm 1, radius 1.

        `E[Y Y^T] = along u u^T + across (I - u u^T)` for the unit input u.
        """

    @property
    def largest_value(self) -> float:
        """The largest norm of a value, which is the radius."""
        return self.radius

    def covariance_form(self) -> tuple[float, float]:
        """`radius**2 across`, and `along - across - 1`."""
        along, across = self.second_moments()
        slope = along - across - 1
        # What rounding leaves of 0 is 0: the noise is the same in all directions, and for all users
        return across * self.radius**2, slope if abs(slope) > _ROUNDING * along else 0.0

    def moments(self, value: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """The exact mean float64[dim] and covariance float64[dim, dim] of one decoded report.

        Args:
          value: float[dim], the user's vector.
        """
        value = self.check_value(value)
        along, across = self.second_moments()
        covariance = across * self.radius**2 * np.eye(self.dim)
        return value, covariance + (along - across - 1) * np.outer(value, value)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact variance of each entry of the estimated mean, float64[dim].

        Args:
          counts: int[k], the number of users with each vector.
          inputs: float[k, dim], the vectors; needed, since the bins alone say nothing of them.
        """
        counts, inputs = self.check_inputs(counts, inputs)
        along, across = self.second_moments()
        n = float(counts.sum())
        squares = counts @ np.square(inputs)
        return across * self.radius**2 / n + (along - across - 1) * squares / n**2

    def reported_variance(self, outcome: Tree, num_users: int) -> np.ndarray:
        """A bound on the variance of each entry, from the estimated mean.

        The variance is `a + b q` over n for the mean square q of the entry, which is at least the
        square of its mean, and at most the squared radius.
        """
        constant, slope = self.covariance_form()
        squares = np.square(np.clip(self.built.estimate(outcome), -self.radius, self.radius))
        squares = squares if slope < 0 else np.full(self.dim, self.radius**2)
        return (constant + slope * squares) / num_users

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest variance of an entry of the estimated mean over all data sets; exact."""
        n = check_int("num_users", num_users, low=1)
        along, across = self.second_moments()
        # Linear in the mean square of an entry, so largest at an end of its range [0, radius**2].
        return Prediction(self.radius**2 * max(across, along - 1) / n)

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are vectors in the ball."""
        population.require_ball(self.dim, self.radius)
        self.check_total(population)

    def check_range(self, name: str, values: np.ndarray) -> None:
        """Raises unless vectors are in the ball."""
        check_norms(name, values, "radius", self.radius)


class CapRandomizer(VectorRandomizer[V_co]):
    """Base class of the specs whose reports are tilted towards a cap; see `_sphere`."""

    __slots__ = ()

    @abc.abstractmethod
    def _solution(self) -> Solution:
        """The cap that is built."""

    @abc.abstractmethod
    def _cap_dim(self) -> int | None:
        """The dimension of the space of the cap; None where the law is Gaussian."""

    def probabilities(self) -> tuple[float, float]:
        """(p, q): how often a report comes from the cap, and how often it would by chance."""
        solution = self._solution()
        return solution.threshold / WORDS, solution.cap.mass

    def pair_laws(self) -> tuple[PairLaw, ...]:
        """Opposite vectors, whose caps are disjoint: no pair hides less; see `cap_pair_law`."""
        p, q = self.probabilities()
        return (cap_pair_law(p / q, (1 - p) / (1 - q), q, self._cap_dim() is None),)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up; at most `epsilon`."""
        require_words(word_bits)
        return self._solution().epsilon


class PaddedCapRandomizer(CapRandomizer[V_co]):
    """Base class of the specs that report from a cap around the padded vector (x, last)."""

    __slots__ = ()

    @property
    def threshold(self) -> float:
        """gamma, which is also the mean m of V along u."""
        return self._solution().cap.gamma

    def log_density(self, reports: ArrayLike, value: ArrayLike) -> np.ndarray:
        """The log-density of reports relative to the law without a cap, which has two values.

        Args:
          reports: int[n, dim + 1]; int[n, dim] where vectors are not padded.
          value: float[dim].

        Returns:
          float64[n].
        """
        value = self.check_value(value)
        head = value / self.radius
        unit = np.append(head, math.sqrt(max(1 - float(head @ head), 0.0)))
        unit = unit[: np.shape(reports)[-1]]
        p, q = self.probabilities()
        inside = np.asarray(reports, np.float64) @ unit >= self.threshold * self.build().grid
        return np.where(inside, math.log(p / q), math.log((1 - p) / (1 - q)))

    def self_moments(self, means: np.ndarray, weights: np.ndarray) -> SelfMoments:
        """The moments of `z^T D z`, exact; see `padded_self_moments`."""
        cap, dim = self._solution().cap, self._cap_dim()
        inside, whole = [cap.mass, cap.moment], [1.0, 0.0]
        # By parts, E[X**j; X >= gamma] = ((j - 1) E[X**(j-2); ..] + (dim - 1) h gamma**(j-1))
        # / (j + dim - 2) on the sphere in R^dim; for the Gaussian law without the factors of dim.
        for j in (2, 3, 4):
            edge = cap.moment * cap.gamma ** (j - 1)
            below, at_edge = (j - 1, 1) if dim is None else (j - 1, dim - 1)
            divisor = 1 if dim is None else j + dim - 2
            inside.append((below * inside[j - 2] + at_edge * edge) / divisor)
            whole.append(below * whole[j - 2] / divisor)
        p = self.probabilities()[0]
        near, far = p / cap.mass, (1 - p) / (1 - cap.mass)
        raw = [far * w + (near - far) * i for w, i in zip(whole, inside, strict=True)]
        scale = self.radius / self.threshold
        return padded_self_moments(raw, dim, scale, means / self.radius, weights)


def padded_self_moments(
    raw: Sequence[float], dim: int | None, scale: float, units: np.ndarray, weights: np.ndarray
) -> SelfMoments:
    """The moments of `z^T D z` for the noise z of the report `scale (X u + R V)` of a vector.

    V is uniform across the unit vector u of the padded vector and independent of X, `R**2 = 1 -
    X**2`; or V is Gaussian and R = 1.

    Args:
      raw: E[X**j] for j = 0, .., 4.
      dim: of the space of u; None for the Gaussian law.
      scale: what a report is multiplied by.
      units: float64[k, d], the heads of the unit vectors.
      weights: D, symmetric float64[d, d].
    """
    _, m, m2, m3, m4 = raw
    square, cube = m2 - m**2, m3 - 3 * m * m2 + 2 * m**3  # of x = X - m
    fourth = m4 - 4 * m * m3 + 6 * m**2 * m2 - 3 * m**4
    # With w2 = E V_1**2 and w4 = E V_1**2 V_2**2: w2 E[R**2], w2 E[x R**2], w2 E[x**2 R**2] and
    # w4 E[R**4].
    if dim is None:
        across, skew, both, quartic = 1.0, 0.0, square, 1.0
    else:
        d = dim - 1
        across, skew = (1 - m2) / d, -(m3 - m * m2) / d
        both = (square - (m4 - 2 * m * m3 + m**2 * m2)) / d
        quartic = (1 - 2 * m2 + m4) / (d * (d + 2))
    # Odd powers of V have mean 0, and E (V^T D V)**2 = w4 (2 tr D**2 + (tr D)**2), with D across u,
    # whose tr D**2 is size - 2 bent + axial**2.
    turned = units @ weights
    axial, bent = np.sum(turned * units, axis=1), np.sum(turned**2, axis=1)
    size, trace = np.sum(weights**2), np.trace(weights) - axial  # trace of D across u
    side = turned - axial[:, None] * units  # D u across u
    third = (cube * axial + skew * trace)[:, None] * units + 2 * skew * side
    mean = square * axial + across * trace
    variance = fourth * axial**2 + both * (4 * (bent - axial**2) + 2 * axial * trace)
    variance = variance + quartic * (2 * (size - 2 * bent + axial**2) + trace**2) - mean**2
    return SelfMoments(scale**3 * third, scale**4 * variance)


class VectorRound(MeanRound):
    """Base of the params of vector randomizers whose reports add up as random vectors do.

    A report leads to a vector V of integers, of which the first `dim` are used: `grid` steps stand
    for 1 in a unit vector. Their sum is drawn at once from scalars, see `_vector_sums`.

    Attributes:
      radius: float32[], of the ball.
      unit: float64[], what 1 in a report stands for.
      dim: static.
    """

    radius: Float32[Array | np.ndarray, ""]
    dim: int

    @abc.abstractmethod
    def _sum(self, key: jax.Array, counts: Count, inputs: jax.Array) -> Float[Array, " d"]:
        """The sum of the vectors V of given users over the grid, float64; the key is folded."""

    @abc.abstractmethod
    def _sum_cost(self, work: Work) -> float:
        """Nanoseconds of `_sum`, roughly."""

    @property
    def largest_value(self) -> Float[Array | np.ndarray, ""]:
        """The largest norm of a value, which is the radius."""
        return self.radius

    @property
    def inverse_radius(self) -> Float32[Array, ""]:
        """1 over the radius."""
        return np.float32(1) / jnp.asarray(self.radius)

    @property
    def grid(self) -> int:
        """Steps of the grid for 1 in V: V is a unit vector, unless a subclass says otherwise."""
        return sphere_grid(self.dim)

    @property
    def largest_report(self) -> int:
        """The grid: an entry of a unit vector is at most 1."""
        return self.grid + 1

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of a value, (dim,)."""
        return (self.dim,)

    @property
    def lazy_words(self) -> bool:
        """True: words fuse into the normals that are made of them."""
        return True

    def summands(self, reports: Int32[Array, "*n m"]) -> Int32[Array, "*n d"]:
        """The coordinates that are used."""
        return reports[..., : self.dim]

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """Draws the sum of the vectors: a few scalars for a user, a vector for a distinct input."""
        return TallyLaw(self._draw, self._sum_cost, distance=self._distance)

    @property
    def _distance(self) -> float:
        # Rounding errors have variances in [0, 1/4]; drawn with 1/6, each entry is off by at most
        # 1/6 of a grid of 2**20 steps for the variance that the vectors have anyhow.
        return math.sqrt(self.dim) / GRID**2

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        users, total = counts.sum(), self._sum(key, counts, inputs) * float(self.grid)
        rounding = normal(jax.random.fold_in(key, 2), (self.dim,)) * jnp.sqrt(users.f64() / 6)
        return {"sum": Count.from_float(jnp.rint(total + rounding)), "users": users}


class FloatVectorRound(VectorRound):
    """Base of the params of vector randomizers that compute their reports in floats.

    `vector` makes a float vector V; the report is `floor(grid V + u)` with one uniform u for all
    entries. The grid has 2**10 steps for the root mean square of an entry, so rounding adds less
    than 1e-6 to a variance; a sum that is drawn at once gets normal noise of the mean variance of
    rounding, 1/6, in its place.
    """

    @property
    @abc.abstractmethod
    def vector_words(self) -> int:
        """Words that `vector` may read."""

    @abc.abstractmethod
    def vector(self, words: Words, value: Float[Array, " d"]) -> Float32[Array, " m"]:
        """The float vector V of a user; the value is projected to the ball, NaN counts as 0."""

    @property
    def num_words(self) -> int:
        """The words of the vector, and one for rounding."""
        return self.vector_words + 1

    @property
    def mean_words(self) -> float:
        """How many words a user reads on average, roughly, of those of `vector`; for costs."""
        return self.vector_words

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a user, roughly: normals cost three times what words do."""
        return work.words(20.0 + 3.0 * self.mean_words)

    def from_bits(self, words: Words, value: Float[Array, " d"], /) -> Int32[Array, " m"]:
        """One user's report, `vector` on the grid."""
        vector = self.vector(part_of(words, 0, self.vector_words), value)
        return to_grid(
            vector * np.float32(self.grid), words[self.vector_words], self.largest_report
        )


def sphere_grid(dim: int) -> int:
    """Steps of the grid for 1 in a unit vector, whose entries have mean squares of 1 / dim."""
    # A power of two, so that scaling by it is exact.
    return GRID * 2 ** math.ceil(math.log2(dim + 1) / 2)


def to_grid(steps: Float[Array, " m"], word: jax.Array, largest: int) -> Int32[Array, " m"]:
    """Numbers rounded up or down at random, without bias; one word decides for all of them."""
    # 24 bits, which float32 holds exactly.
    dither = (word >> np.uint32(8)).astype(jnp.float32) * np.float32(2**-24)
    rounded = jnp.floor(steps + dither)
    return jnp.clip(rounded, -np.float32(largest), np.float32(largest)).astype(jnp.int32)


def require_words(word_bits: int) -> None:
    """Raises unless words have 32 bits: samplers of floats have no enumerable twin."""
    if word_bits != 32:
        raise ValueError(
            f"word_bits must be 32 for a randomizer of float vectors, got {word_bits!r}: its law "
            "is checked by its density and its moments, not by enumeration."
        )
