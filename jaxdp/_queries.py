"""What the protocols for linear queries share: workloads, targets and predicted errors."""

import abc
import dataclasses
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Array, Float, Float32
from numpy.typing import ArrayLike

from ._checks import By, Instance
from ._contract import Params, Round, Spec, Tree
from ._plausible import explaining_counts, plausible_counts
from ._prediction import Prediction
from ._spec import FrozenArray, as_array, check_counts, check_int, check_probabilities, frozen
from .population import Population
from .randomizers import CountedRound, FrequencyOracle, MeanRandomizer, Tail
from .workloads import Operator

MAX_ENTRIES = 2**28
"""Largest number of entries of a workload that is stored: 2 GiB of float64."""

_LARGEST = 1e100  # of an entry: float64 has its powers
_MOST_LISTED = 2**12  # values of a domain whose columns are found by asking for their answers


ORACLE = Instance(
    FrequencyOracle,
    "the spec of a frequency oracle, which counts the users with each value, such as "
    "jaxdp.randomizers.HadamardResponse(num_values, epsilon)",
)
"""The check of a field that holds a frequency oracle."""

P_co = TypeVar("P_co", bound=Params[Any], covariant=True)
R_co = TypeVar("R_co", bound=MeanRandomizer, covariant=True)


@dataclasses.dataclass(frozen=True)
class Encoding(Generic[R_co]):
    """Map from values to vectors and from a mean of vectors to answers.

    A user with value v contributes `decoder y + offset`, y its decoded report.

    Attributes:
      embedding: the vector of each value.
      decoder: None for the identity.
      offset: added to the decoded mean.
      randomizer: of the vectors.
    """

    embedding: Float32[np.ndarray, "k l"]
    decoder: Float[np.ndarray, "m l"] | None
    offset: Float[np.ndarray, " m"]
    randomizer: R_co


class Width(NamedTuple):
    """What bounds how far noise can point towards the columns of a workload.

    Attributes:
      tail: of the noise of one user's report.
      norm: the largest norm of a column (minus a centre, if allowed) as the reports see it.
      radius: the largest norm of the same columns themselves.
      bias: float64[m, k], of one user's contribution, by the user's value.
    """

    tail: Tail
    norm: float
    radius: float
    bias: np.ndarray


class LinearProtocol(Spec[P_co]):
    """Base of the specs that estimate answers `W h` to linear queries.

    `h` is the normalised histogram of n users, each of whom holds a value in {0, ..., k - 1}, and W
    is the workload, a row for each query. The params estimate float[m].
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def num_queries(self) -> int:
        """m, the number of answers."""

    @property
    @abc.abstractmethod
    def num_values(self) -> int:
        """k, the number of values a user may hold."""

    @abc.abstractmethod
    def answers(self, histograms: Float[np.ndarray, "*n k"]) -> Float[np.ndarray, "*n m"]:
        """`W h` for each histogram."""

    def matrix(self) -> Float[np.ndarray, "m k"]:
        """The workload, W.

        Raises:
          ValueError: the domain is so large that the protocol does not store it.
        """
        if self.num_values > _MOST_LISTED:
            raise ValueError(
                f"protocol must store its workload, or have at most {_MOST_LISTED} values, for its "
                f"columns to be listed; {type(self).__name__} has {self.num_values}."
            )
        return self.answers(np.eye(self.num_values)).T

    @property
    def is_histogram(self) -> bool:
        """Whether the answers are the histogram itself."""
        if self.num_queries != self.num_values:
            return False
        # No other W maps a vector of random numbers to itself, but with probability 0.
        probe = np.random.default_rng(0).normal(size=self.num_values)
        return np.array_equal(self.answers(probe), probe)

    @property
    def answers_bins(self) -> bool:
        """Whether the answers are the histogram itself."""
        return self.is_histogram

    @property
    def counts_all_users(self) -> bool:
        """Whether the estimate is of all users, rather than of those who do not drop out."""
        return True

    def encoding(self) -> Encoding[Any] | None:
        """Map from users' values to vectors; None if users do not report vectors."""
        return None

    def width(self, symmetric: bool) -> Width | None:
        """Bound on the products of the noise with the columns; None if no tail is known.

        Args:
          symmetric: whether the negatives of the columns count as well.
        """
        del symmetric
        return None

    @abc.abstractmethod
    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, " m"]:
        """The mean squared error of each answer for given users.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """

    @abc.abstractmethod
    def population_variance(
        self, probabilities: ArrayLike, num_users: int
    ) -> Float[np.ndarray, " m"]:
        """The mean squared error of each answer about `W p` for independent users."""

    @abc.abstractmethod
    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error of an answer over all data sets of a size."""

    @abc.abstractmethod
    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error, summed over the answers, over all data sets of a size."""

    def total_variance(self, counts: ArrayLike) -> Prediction:
        """The mean squared error summed over the answers, for given users."""
        return Prediction(self.variance(counts).sum(), self.variance_kind)

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, " m"] | None:
        """The mean squared errors of users whose answers are nearest to the estimated ones.

        None where the workload is too large for such users to be searched.
        """
        answers = np.asarray(self.built.estimate(outcome))
        if self.is_histogram:
            return self.variance(plausible_counts(answers, num_users))
        if self.num_values > _MOST_LISTED:
            return None
        counts = explaining_counts(answers, self.matrix(), num_users)
        return None if counts is None else self.variance(counts)

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, " m"]:
        """The target: the answers `W h` for the normalised histogram of the users."""
        counts = self.check_histogram(counts, inputs)
        return self.answers(counts / counts.sum())

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, " m"]:
        """The answers `W p` for the distribution p that users are drawn from."""
        del num_users, inputs
        return self.answers(self.check_distribution(probabilities))

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins of the workload's domain."""
        bins = None if population.inputs is not None else population.num_values
        # The likeliest mistake gets a message of its own: a workload that is transposed.
        if bins == self.num_queries != self.num_values:
            raise ValueError(
                f"the population has num_values = {bins}, but the workload's number of columns = "
                f"{self.num_values}; if the queries are its columns, pass its transpose."
            )
        population.require_bins(self.num_values, "the workload's number of columns")

    def check_histogram(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """Counts as float64[k], or raises unless they fit the workload."""
        if inputs is not None:
            raise ValueError("inputs must be None: the values of a linear query are its columns.")
        counts = check_counts(counts).ravel()
        return self._check_size(counts, "counts").astype(np.float64)

    def check_distribution(self, probabilities: ArrayLike) -> np.ndarray:
        """Probabilities as float64[k] of sum 1, or raises unless they fit the workload."""
        return self._check_size(check_probabilities(probabilities), "probabilities")

    def _check_size(self, array: np.ndarray, name: str) -> np.ndarray:
        if array.size != self.num_values:
            raise ValueError(
                f"{name} must have {self.num_values} entries, one for each column of the workload, "
                f"got {array.size}; if the queries are its columns, pass its transpose."
            )
        return array


class AdditiveProtocol(LinearProtocol[P_co]):
    """Base of the protocols whose estimate averages independent contributions, one of each user.

    A user's contribution depends on the user's value alone, so the moments of one user's
    contribution predict every error exactly. The largest errors over data sets are those of users
    who all hold the same value: the error is convex in the histogram.
    """

    __slots__ = ()

    workload: FrozenArray

    @property
    def num_queries(self) -> int:
        return self.workload.values.shape[0]

    @property
    def num_values(self) -> int:
        return self.workload.values.shape[1]

    @abc.abstractmethod
    def contributions(self) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, "m k"]]:
        """The mean and the variance of one user's contribution to each answer; exact.

        Returns:
          Two tables with a column for each value of the user.
        """

    def answers(self, histograms: Float[np.ndarray, "*n k"]) -> Float[np.ndarray, "*n m"]:
        return np.asarray(histograms, np.float64) @ self.workload.values.T

    def matrix(self) -> Float[np.ndarray, "m k"]:
        return self.workload.values

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, " m"]:
        """The exact mean squared error of each answer for given users.

        The sum of the users' variances, over n**2, plus the squared bias.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        counts = self.check_histogram(counts, inputs)
        mean, variance = self.contributions()
        n = counts.sum()
        # Users are independent of each other: variances add up, biases add up before the square.
        return variance @ counts / n**2 + ((mean - self.workload.values) @ counts / n) ** 2

    def population_variance(
        self, probabilities: ArrayLike, num_users: int
    ) -> Float[np.ndarray, " m"]:
        """The exact mean squared error about `W p` for independent users.

        The variance of one user's contribution, sampling included, over n, plus the squared bias.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
        """
        p = self.check_distribution(probabilities)
        n = check_int("num_users", num_users, low=1)
        mean, variance = self.contributions()
        spread = np.square(mean - (mean @ p)[:, None]) @ p  # of the mean, by the draw of the value
        return (variance @ p + spread) / n + ((mean - self.workload.values) @ p) ** 2

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error of an answer over all data sets of a size; exact."""
        return Prediction(self._by_value(num_users).max())

    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """The largest sum of the mean squared errors over all data sets of a size; exact."""
        return Prediction(self._by_value(num_users).sum(axis=0).max())

    def _by_value(self, num_users: int) -> np.ndarray:
        """The mean squared error of each answer where all users hold a value, float64[m, k]."""
        n = check_int("num_users", num_users, low=1)
        mean, variance = self.contributions()
        # Where all hold one value noise averages out, and what is off in the mean does not.
        return variance / n + (mean - self.workload.values) ** 2


def users_of(tally: Tree) -> Float[Array, ""]:
    """The number of users of an oracle's tally; only inside an x64 block.

    Args:
      tally: a Count of each report, or a dict whose entry "users" is a Count[].
    """
    users = tally["users"] if isinstance(tally, dict) else tally
    return users.sum().f64()


def num_counted_reports(round: Round[Any]) -> int | None:
    """Number of distinct reports where the tally counts each of them; None for other tallies."""
    return round.num_reports if isinstance(round, CountedRound) else None


def fit_cost(round: Round[Any], newton: bool) -> float:
    """Nanoseconds of a fit of a distribution to a tally, by Newton's method or EM, roughly."""
    return round.fit_cost(newton) if isinstance(round, CountedRound) else 0.0


def check_workload(
    workload: ArrayLike | Operator | FrozenArray, name: str = "workload"
) -> FrozenArray:
    """Returns a workload as a float64[m, k] that is hashed by content, or raises unless it is one.

    Args:
      workload: anything that NumPy makes a matrix of, or an `Operator`.
      name: the argument's name in messages.
    """
    array = as_array(name, workload)  # pyright: ignore[reportArgumentType]
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be a matrix of real numbers, got dtype {array.dtype}.")
    if array.ndim != 2:
        raise ValueError(
            f"{name} must have shape [m, k], a row for each query, got shape {array.shape}; a "
            "single query is a matrix with one row, reshape(1, -1)."
        )
    if 0 in array.shape:
        raise ValueError(
            f"{name} must have at least one query and one value, got shape {array.shape}."
        )
    if array.size > MAX_ENTRIES:
        raise ValueError(
            f"{name} must have at most 2**28 entries, got shape {array.shape}; for a histogram "
            "of a large domain use HistogramQuery, which stores no matrix."
        )
    if not np.all(np.isfinite(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[where]} at index {where}.")
    if np.max(np.abs(array)) > _LARGEST:
        raise ValueError(
            f"{name} must have entries of at most {_LARGEST:g}, got {np.max(np.abs(array)):g}; "
            "divide it by a constant."
        )
    return frozen(array.astype(np.float64, copy=False), workload)


WORKLOAD = By(lambda _, value: check_workload(value), ("W", [1.0], [[float("nan")]], [[]]))
"""The check of a field that holds a workload."""
