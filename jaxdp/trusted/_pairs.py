"""What the protocols in which pairs of users report share: noise, params, exact errors."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32
from numpy.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._checks import Choice, Real
from .._contract import Interactive, Round, TallyLaw, Tree, Work, params, static
from .._spec import check_counts, check_int, check_probabilities
from .._x64 import as_float64, compiled_in_float64, dot
from ..accounting import basic_composition, optimal_composition
from ..linear import EmbeddedRound, EncodedRound
from ..pairwise import Kernel, PairwiseProtocol
from ..population import Population
from ..random import Count
from ..randomizers import KRR, BinaryResponse, DiscreteLaplace, Laplace, Randomizer

NOISE = Choice("laplace", "discrete_laplace", "binary", "krr")
"""The field `noise`, how a pair randomizes its value."""

DELTA = Real(0.0, 1 - 2.0**-53, closed=True)
"""The field `delta`, of approximate privacy."""

MAX_INTEGERS = 2**11

P_co = TypeVar("P_co", bound=Interactive[Any], covariant=True)


@dataclasses.dataclass(frozen=True)
class PairNoise:
    """The randomizer of a pair's values, and what its reports say of them.

    The kernels take s different values on the pairs of bins, the *levels*: numbers, or vectors
    where a statistic is made of several averages.

    Attributes:
      randomizer: what a pair runs, on its entry of `inputs`.
      inputs: the randomizer's input for each level, int32[s], float32[s] or float32[s, m].
      levels: float64[s, m], in increasing order; of "discrete_laplace" all integers in the range.
      index: int32[k, k], the level of each pair of bins.
      center: float64[m], what is added to the randomizer's estimate, a mean; None where it
        estimates how many pairs have each level.
      means: float64[s, m], the mean of a report of each level: the level, but for its rounding.
      variances: from slopes float64[m] to the variance of `slopes` times a report of each level,
        float64[s].
    """

    randomizer: Randomizer[Any]
    inputs: np.ndarray
    levels: np.ndarray
    index: np.ndarray
    center: np.ndarray | None
    means: np.ndarray
    variances: Callable[[np.ndarray], np.ndarray]


@functools.lru_cache(maxsize=256)
def pair_noise(kernel: Kernel, shape: tuple[int, ...], epsilon: float, noise: str) -> PairNoise:
    """The noise of a kind, for a kernel on a table of bins and a pair's privacy parameter."""
    levels, index = _levels(kernel.matrices(shape), noise)
    bins, m = np.arange(len(levels), dtype=np.int32), levels.shape[1]
    if noise == "krr":
        oracle = KRR(len(levels), epsilon)

        def counted(slopes: np.ndarray) -> np.ndarray:
            scores = levels @ slopes
            scores = scores - scores.mean()  # what is constant in a report has no variance
            return oracle.query_variances(scores[None])[0]

        return PairNoise(oracle, bins, levels, index, None, levels, counted)
    if noise == "discrete_laplace":
        integers = DiscreteLaplace(int(levels[0, 0]), int(levels[-1, 0]), epsilon)
        spread = integers.report_variances()
        return PairNoise(
            integers,
            bins,
            levels,
            index,
            np.zeros(1),
            levels,
            lambda slopes: slopes[0] ** 2 * spread,
        )
    # Numbers about the middle of their range: noise is for the least bound.
    center = (levels.min(axis=0) + levels.max(axis=0)) / 2
    inputs = (levels - center).astype(np.float32)
    bound = EmbeddedRound.radius_of(inputs, norm=1)
    if noise == "binary":
        numbers = BinaryResponse(epsilon, bound)
    else:
        numbers = Laplace(epsilon, bound, None if m == 1 else m)
    inputs = inputs[:, 0] if m == 1 else inputs
    each = [numbers.moments(value) for value in inputs]
    means = np.array([mean for mean, _ in each]).reshape(levels.shape) + center
    covariances = np.array([covariance for _, covariance in each]).reshape(-1, m, m)

    def averaged(slopes: np.ndarray) -> np.ndarray:
        return covariances @ slopes @ slopes

    return PairNoise(numbers, inputs, levels, index, center, means, averaged)


def _levels(
    matrices: Float[np.ndarray, "m k k"], noise: str
) -> tuple[Float[np.ndarray, "s m"], Int32[np.ndarray, "k k"]]:
    """The levels and the index of each pair of bins, or an error where a noise cannot take them."""
    m, k = matrices.shape[:2]
    levels, index = np.unique(matrices.reshape(m, -1).T + 0.0, axis=0, return_inverse=True)
    index = index.reshape(k, k).astype(np.int32)
    if len(levels) < 2:
        raise ValueError(
            f"kernel must take at least two different values, but is {levels[0, 0]:g} on all pairs."
        )
    if m > 1 and noise in ("binary", "discrete_laplace"):
        raise ValueError(
            f"noise must be 'krr' or 'laplace' for a statistic made of {m} averages, got {noise!r}."
        )
    if noise == "discrete_laplace":
        low, high = levels[0, 0], levels[-1, 0]
        if np.any(levels != np.rint(levels)) or high - low >= MAX_INTEGERS:
            raise ValueError(
                f"noise must be 'laplace', 'binary' or 'krr' for this kernel, got {noise!r}, which "
                f"is for kernels with integer values in a range of fewer than {MAX_INTEGERS}; "
                "to use it, scale and round the kernel."
            )
        index = (matrices[0] - low).astype(np.int32)
        levels = np.arange(low, high + 1)[:, None]
    return levels, index


@params
class PairParams(EncodedRound[Any]):
    """What one pair runs, and what reports of pairs say: a pytree.

    Attributes:
      inner: the params of the randomizer of a pair's value.
      inputs: the randomizer's input for each level of the kernel.
      index: int32[k, k], the level of each pair of bins.
      levels: float64[s, m], the levels.
      center: float64[m], what is added to the randomizer's estimate, a mean; None where it
        estimates how many pairs have each level.
    """

    inner: Round[Any]
    inputs: Array | np.ndarray
    index: Int32[Array | np.ndarray, "k k"]
    levels: Float[Array | np.ndarray, "s m"]
    center: Float[Array | np.ndarray, " m"] | None

    @property
    def value(self) -> Tree:
        """The two users' bins."""
        return (jax.ShapeDtypeStruct((), jnp.int32),) * 2

    def encode(self, values: tuple[Int32[Array, "*n"], Int32[Array, "*n"]]) -> jax.Array:
        """The inputs for the bins of pairs; bins outside the domain are clamped into it."""
        index = jnp.asarray(self.index)
        first, second = (jnp.clip(v, 0, index.shape[0] - 1) for v in values)
        return jnp.asarray(self.inputs)[index[first, second]]

    @property
    def law(self) -> TallyLaw[Any] | None:
        """The law of the inner round, for given numbers of pairs of each level."""
        law = self.inner.law
        if law is None:
            return None

        @compiled_in_float64
        def draw(key: jax.Array, counts: Count, inputs: Tree) -> Any:
            del inputs
            flat, size = jnp.asarray(self.index).reshape(-1), self.inputs.shape[0]
            return law.draw(key, counts.segment_sum(flat, size), jnp.asarray(self.inputs))

        def cost(work: Work) -> float:
            levels = dataclasses.replace(work, num_bins=self.inputs.shape[0])
            return work.draws(5.0 * work.num_bins) + law.cost(levels)  # the table of pairs first

        return TallyLaw(draw, cost, distance=law.distance)

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a pair: two images of a permutation take some hundred times a word."""
        # Few pairs fill no block, and take as long as one.
        share = max(2.0**14 / max(work.num_users, 1.0), 1.0)
        return share * (self.inner.user_cost(work) + work.words(200.0))

    @compiled_in_float64
    def estimate(self, outcome: Tree, /) -> Float[Array, " m"]:
        """Unbiased estimates of the kernels' means over the pairs."""
        reported = self.inner.estimate(outcome)
        if self.center is None:
            (levels,) = as_float64(self.levels)
            return dot(levels.T, reported / jnp.sum(reported))
        return reported.reshape(-1) + as_float64(self.center)[0]


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class PairOutcome:
    """The reports of all pairs, combined; a pytree.

    Attributes:
      tally: the randomizer's tally over all pairs of all rounds.
      users: Count[], the number of users.
    """

    tally: Any
    users: Count


@params
class PairsParams(Interactive[PairOutcome]):
    """Base of the params of protocols over pairs.

    Attributes:
      pair: the round of the pairs.
      diagonal: float64[m], the kernels of a user with itself; used with the form "v" only.
      link: the statistic as a function of the averages, static.
      form: "u" or "v", static.
    """

    pair: PairParams
    diagonal: Float[Array | np.ndarray, " m"]
    link: Callable[..., jax.Array] = static()
    form: str = static()

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins of the kernels' domain."""
        population.require_bins(self.pair.index.shape[-1], "num_values")

    @compiled_in_float64
    def u_statistics(self, outcome: PairOutcome) -> Float[Array, " m"]:
        """Unbiased estimates of the averages that the statistic is a function of."""
        averages = self.pair.estimate(outcome.tally)
        if self.form == "u":
            return averages
        n, (diagonal,) = outcome.users.f64(), as_float64(self.diagonal)
        return ((n - 1) * averages + diagonal) / n  # of n**2 pairs n are of a user with itself

    @compiled_in_float64
    def estimate(self, outcome: PairOutcome, /) -> Float[Array, ""]:
        """The estimated statistic."""
        return self.link(self.u_statistics(outcome), outcome.users.f64())


class PairsProtocol(PairwiseProtocol[P_co]):
    """Base of the specs in which every pair of some set sends one randomized kernel value.

    A subclass has the fields of `PairwiseProtocol` and `noise`, and says how many reports a user
    takes part in, with which privacy parameter each, and how much the choice of the pairs varies.
    """

    __slots__ = ()

    noise: str
    delta: float

    def validate(self) -> None:
        """Raises unless the kernel fits the domain, and goes with the noise and the form."""
        PairwiseProtocol.validate(self)
        if self.form == "v" and np.ptp(self._diagonals(), axis=1).any():
            raise ValueError(
                "form must be 'u' for a kernel that is not constant on pairs of equal values: no "
                "pair of different users reveals the kernel of a user with itself."
            )
        self._pair_noise()  # whose constructor checks the rest

    @property
    @abc.abstractmethod
    def pair_epsilon(self) -> float:
        """The privacy parameter of one pair's report."""

    @property
    @abc.abstractmethod
    def reports_per_user(self) -> int:
        """How many pairs a user is in, at most."""

    @property
    def randomizer(self) -> Randomizer[Any]:
        """What a pair's ideal functionality runs on the kernel value: a spec."""
        return self._pair_noise().randomizer

    def _pair_noise(self) -> PairNoise:
        return pair_noise(self.kernel, self.shape, self.pair_epsilon, self.noise)

    def _build_pair(self, word_bits: int) -> PairParams:
        """The params of one pair."""
        noise = self._pair_noise()
        inner = noise.randomizer.build(word_bits)
        return PairParams(inner, noise.inputs, noise.index, noise.levels, noise.center)

    def _diagonals(self) -> Float[np.ndarray, "m k"]:
        """The kernels of two users with the same bin."""
        return np.diagonal(self.matrices(), axis1=1, axis2=2)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter at `delta` of all reports of a user, rounded up."""
        one, times = self.randomizer.exact_epsilon(word_bits), self.reports_per_user
        if self.delta == 0:
            return basic_composition([one] * times).epsilon
        return optimal_composition(one, times, self.delta).epsilon

    def exact_delta(self) -> float:
        """The delta at which `exact_epsilon()` holds."""
        return self.delta

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The mean squared error for given users: variance plus squared bias.

        Exact for linear kernels, the choice of the pairs included; for others that of the
        linearised statistic (delta method).

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        truth = self.truth(counts, inputs)
        c = check_counts(counts).ravel().astype(np.float64)
        n = check_int("num_users", int(c.sum()), low=2)
        self._check_num_users(n)

        def average(matrix: np.ndarray) -> float:
            return float(c @ matrix @ c - c @ np.diagonal(matrix)) / (n * (n - 1))

        kernel, noise, bias = self._linearised(average, n, truth)
        centred = kernel - average(kernel)
        # Of pairs of different users; the kernel's mean over them is 0.
        sums = centred @ c - np.diagonal(centred)  # of a user, over the n - 1 partners
        squares = float(average(centred**2)) * n * (n - 1) / 2
        drawn = self._drawn(n, squares, float(c @ sums**2))
        return np.asarray(drawn + average(noise) / self.num_reports(n) + bias**2)

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The mean squared error about `population_truth` for independent users.

        Sampling is included. Exact for linear kernels; for others the delta method.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """
        truth = self.population_truth(probabilities, num_users, inputs)
        p = check_probabilities(probabilities)
        n = check_int("num_users", num_users, low=2)
        self._check_num_users(n)

        def average(matrix: np.ndarray) -> float:
            return float(p @ matrix @ p)

        kernel, noise, bias = self._linearised(average, n, truth)
        centred = kernel - average(kernel)
        of_one, of_two = float(p @ (centred @ p) ** 2), float(average(centred**2))
        # Hoeffding (1948): Var U = 2 (2 (n - 2) zeta_1 + zeta_2) / (n (n - 1))
        complete = 2 * (2 * (n - 2) * of_one + of_two) / (n * (n - 1))
        drawn = self._drawn_iid(n, of_two, complete)
        return np.asarray(drawn + average(noise) / self.num_reports(n) + bias**2)

    def _linearised(
        self, average: Callable[[np.ndarray], float], num_users: int, truth: np.ndarray
    ) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, "k k"], float]:
        """The mean and the variance of what a pair's report adds to the statistic, and the bias."""
        noise, n = self._pair_noise(), num_users
        averages = np.array([average(column[noise.index]) for column in noise.means.T])
        weight = 1.0
        if self.form == "v":
            weight = (n - 1) / n
            averages = weight * averages + self._diagonals()[:, 0] / n
        slopes = weight * self.kernel.slopes(averages, n)
        bias = self.kernel.linked(averages, n) - float(truth)
        return (noise.means @ slopes)[noise.index], noise.variances(slopes)[noise.index], bias

    def _linear_range(self) -> tuple[float, float, float]:
        """The range of a linear kernel, the largest noise, and the largest rounding of a report."""
        noise = self._pair_noise()
        rounding = float(np.abs(noise.means - noise.levels).max())
        return float(np.ptp(noise.means)), float(noise.variances(np.ones(1)).max()), rounding

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins, and enough for the pairs."""
        PairwiseProtocol.check_population(self, population)
        population.pairs(jax.random.key(0))  # raises for a group of a split
        self._check_num_users(population.num_users)

    @abc.abstractmethod
    def num_reports(self, num_users: int) -> int:
        """How many reports there are in all."""

    @abc.abstractmethod
    def _check_num_users(self, num_users: int) -> None:
        """Raises ValueError unless the protocol is for so many users."""

    @abc.abstractmethod
    def _drawn(self, num_users: int, squares: float, rows: float) -> float:
        """The variance that the choice of the pairs adds, for given users.

        Args:
          num_users: n.
          squares: the sum over the pairs of the squared kernel, which has mean zero over them.
          rows: the sum over the users of the squared sum of the kernel over their pairs.
        """

    @abc.abstractmethod
    def _drawn_iid(self, num_users: int, of_two: float, complete: float) -> float:
        """The same and the variance of sampling, for independent users.

        Args:
          num_users: n.
          of_two: the variance of the kernel of two users.
          complete: the variance of the U-statistic of all pairs.
        """
