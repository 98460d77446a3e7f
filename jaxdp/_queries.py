"""What the protocols for linear queries share: workloads, targets and predicted errors."""

import abc

import numpy as np

from ._spec import FrozenArray, check_counts, check_int, check_probabilities
from .workloads import Operator

MAX_ENTRIES = 2**28
"""Largest number of entries of a workload that is stored: 2 GiB of float64."""


class LinearProtocol(abc.ABC):
    """Base class of the specs that estimate answers `W h` to linear queries.

    `h` is the normalised histogram of n users, each of whom holds a value in {0, ..., k - 1}, and W
    is the workload, a row for each query. A subclass is a frozen, slotted dataclass, validated when
    it is made; its params have `estimate(tally) -> float[m]`.
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
    def build(self, word_bits: int = 32):
        """The params: a pytree with the functions that run inside jit."""

    @abc.abstractmethod
    def exact_epsilon(self) -> float:
        """The realised privacy parameter, at most `epsilon`."""

    @abc.abstractmethod
    def answers(self, histograms: np.ndarray) -> np.ndarray:
        """`W h` for each histogram, float64[..., m] from float64[..., k]."""

    @abc.abstractmethod
    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error of each answer for given users, float64[m].

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """

    @abc.abstractmethod
    def population_variance(self, probabilities, num_users: int) -> np.ndarray:
        """The mean squared error of each answer about `W p` for independent users, float64[m]."""

    @abc.abstractmethod
    def worst_case_variance(self, num_users: int) -> float:
        """The largest mean squared error of an answer over all data sets of a size."""

    @abc.abstractmethod
    def worst_case_total_variance(self, num_users: int) -> float:
        """The largest mean squared error, summed over the answers, over all data sets of a size."""

    def total_variance(self, counts) -> float:
        """The mean squared error summed over the answers, for given users."""
        return float(self.variance(counts).sum())

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the answers `W h` for the normalised histogram of the users, float64[m]."""
        counts = self.check_histogram(counts, inputs)
        return self.answers(counts / counts.sum())

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The answers `W p` for the distribution p that users are drawn from, float64[m]."""
        del num_users, inputs
        return self.answers(self.check_distribution(probabilities))

    def check_population(self, population) -> None:
        """Raises ValueError unless the users' values are bins of the workload's domain."""
        bins = None if population.inputs is not None else population.num_values
        if bins == self.num_queries != self.num_values:
            raise ValueError(
                f"the population has num_values = {bins}, but the workload's number of columns = "
                f"{self.num_values}; if the queries are its columns, pass its transpose."
            )
        population.require_bins(self.num_values, "the workload's number of columns")

    def check_histogram(self, counts, inputs=None) -> np.ndarray:
        """Counts as float64[k], or raises unless they fit the workload."""
        if inputs is not None:
            raise ValueError("inputs must be None: the values of a linear query are its columns.")
        counts = check_counts(counts).ravel()
        return self._check_size(counts, "counts").astype(np.float64)

    def check_distribution(self, probabilities) -> np.ndarray:
        """Probabilities as float64[k] of sum 1, or raises unless they fit the workload."""
        return self._check_size(check_probabilities(probabilities), "probabilities")

    def _check_size(self, array: np.ndarray, name: str) -> np.ndarray:
        if array.size != self.num_values:
            raise ValueError(
                f"{name} must have {self.num_values} entries, one for each column of the workload, "
                f"got {array.size}; if the queries are its columns, pass its transpose."
            )
        return array


class AdditiveProtocol(LinearProtocol):
    """Base class where an estimate is an average of independent contributions, one of each user.

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
    def contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of one user's contribution to each answer.

        Returns:
          float64[m, k] and float64[m, k]: column v for a user who holds v.
        """

    def answers(self, histograms: np.ndarray) -> np.ndarray:
        return np.asarray(histograms, np.float64) @ self.workload.values.T

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact mean squared error of each answer for given users, float64[m].

        The sum of the users' variances, over n**2, plus the squared bias.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        counts = self.check_histogram(counts, inputs)
        mean, variance = self.contributions()
        n = counts.sum()
        return variance @ counts / n**2 + ((mean - self.workload.values) @ counts / n) ** 2

    def population_variance(self, probabilities, num_users: int) -> np.ndarray:
        """The exact mean squared error about `W p` for independent users, float64[m].

        The variance of one user's contribution, sampling included, over n, plus the squared bias.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
        """
        p = self.check_distribution(probabilities)
        n = check_int("num_users", num_users, low=1)
        mean, variance = self.contributions()
        spread = np.square(mean - (mean @ p)[:, None]) @ p
        return (variance @ p + spread) / n + ((mean - self.workload.values) @ p) ** 2

    def worst_case_variance(self, num_users: int) -> float:
        """The largest mean squared error of an answer over all data sets of a size; exact."""
        return float(self._by_value(num_users).max())

    def worst_case_total_variance(self, num_users: int) -> float:
        """The largest sum of the mean squared errors over all data sets of a size; exact."""
        return float(self._by_value(num_users).sum(axis=0).max())

    def _by_value(self, num_users: int) -> np.ndarray:
        """The mean squared error of each answer where all users hold a value, float64[m, k]."""
        n = check_int("num_users", num_users, low=1)
        mean, variance = self.contributions()
        return variance / n + (mean - self.workload.values) ** 2


def check_workload(workload) -> FrozenArray:
    """Returns a workload as a float64[m, k] that is hashed by content, or raises unless it is one.

    Args:
      workload: anything that NumPy makes a matrix of, or an `Operator`.
    """
    if isinstance(workload, FrozenArray) and workload.values.dtype == np.float64:
        array = workload.values
    else:
        array = np.asarray(workload.dense() if isinstance(workload, Operator) else workload)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"workload must be a matrix of real numbers, got dtype {array.dtype}.")
    if array.ndim != 2:
        raise ValueError(
            f"workload must have shape [m, k], a row for each query, got shape {array.shape}; a "
            "single query is a matrix with one row, reshape(1, -1)."
        )
    if 0 in array.shape:
        raise ValueError(
            f"workload must have at least one query and one value, got shape {array.shape}."
        )
    if array.size > MAX_ENTRIES:
        raise ValueError(
            f"workload must have at most 2**28 entries, got shape {array.shape}; for a histogram "
            "of a large domain use HistogramQuery, which stores no matrix."
        )
    if not np.all(np.isfinite(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"workload must be finite, got {array[where]} at index {where}.")
    if isinstance(workload, FrozenArray) and array is workload.values:
        return workload
    return FrozenArray(array.astype(np.float64))
