"""What the protocols in which pairs of users report share: exact errors, given the noise."""

import abc
import functools

import jax
import numpy as np

from .._spec import check_choice, check_counts, check_int, check_probabilities
from ..accounting import basic_composition, optimal_composition
from ._exact import num_pairs
from ._pair_noise import NOISES, PairNoise
from ._pairs_params import PairParams
from ._protocol import PairwiseProtocol


class PairsProtocol(PairwiseProtocol):
    """Base class of specs in which every pair of some set sends one randomized kernel value.

    A subclass has the fields of `PairwiseProtocol` and `noise`, and says how many reports a user
    takes part in, with which privacy parameter each, and how much the choice of the pairs varies.
    """

    __slots__ = ()

    noise: str
    delta: float

    def _check_pairs(self) -> None:
        """Checks and completes what both protocols have in common."""
        self._check_statistic(depth=6)
        check_choice("noise", self.noise, NOISES)
        if self.form == "v" and np.ptp(self._diagonals(), axis=1).any():
            raise ValueError(
                "form must be 'u' for a kernel that is not constant on pairs of equal values: no "
                "pair of different users tells the kernel of a user with itself."
            )

    @property
    @abc.abstractmethod
    def pair_epsilon(self) -> float:
        """The privacy parameter of one pair's report."""

    @property
    @abc.abstractmethod
    def reports_per_user(self) -> int:
        """How many pairs a user is in, at most."""

    @property
    def randomizer(self):
        """What a pair's ideal functionality runs on the kernel value: a spec."""
        return self._pair_noise().randomizer

    def _pair_noise(self) -> PairNoise:
        return _noise(self.kernel, self.shape, self.pair_epsilon, self.noise)

    def _build_pair(self, word_bits: int) -> PairParams:
        """The params of one pair."""
        noise = self._pair_noise()
        randomizer = noise.randomizer.build(word_bits)
        return PairParams(
            randomizer, noise.inputs, noise.index, noise.levels, noise.center, noise.counted
        )

    def _diagonals(self) -> np.ndarray:
        """The kernels of two users with the same bin, float64[m, k]."""
        return np.diagonal(self.matrices(), axis1=1, axis2=2)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter at `delta` of all reports of a user, rounded up."""
        one, times = self.randomizer.exact_epsilon(word_bits), self.reports_per_user
        if self.delta == 0:
            return basic_composition([one] * times).epsilon
        return optimal_composition(one, times, self.delta).epsilon

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error for given users, float64[]: variance plus squared bias.

        Exact for linear kernels, the choice of the pairs included; for others that of the
        linearised statistic (delta method).

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        truth = self.truth(counts, inputs)
        c = check_counts(counts).ravel().astype(np.float64)
        n = int(c.sum())
        self._check_num_users(n)

        def average(matrix):
            return (c @ matrix @ c - c @ np.diagonal(matrix)) / num_pairs(n, "u")

        kernel, noise, bias = self._linearised(average, n, truth)
        centred = kernel - average(kernel)
        sums = centred @ c - np.diagonal(centred)  # of a user, over the n - 1 partners
        squares = float(average(centred**2)) * n * (n - 1) / 2
        drawn = self._drawn(n, squares, float(c @ sums**2))
        return np.asarray(drawn + average(noise) / self.num_reports(n) + bias**2)

    def population_variance(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The mean squared error about `population_truth` for independent users, float64[].

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

        def average(matrix):
            return p @ matrix @ p

        kernel, noise, bias = self._linearised(average, n, truth)
        centred = kernel - average(kernel)
        of_one, of_two = float(p @ (centred @ p) ** 2), float(average(centred**2))
        complete = 2 * (2 * (n - 2) * of_one + of_two) / (n * (n - 1))  # of the U-statistic
        drawn = self._drawn_iid(n, of_two, complete)
        return np.asarray(drawn + average(noise) / self.num_reports(n) + bias**2)

    def _linearised(self, average, num_users: int, truth):
        """The mean and the variance of what a pair's report adds to the statistic, and the bias.

        Returns:
          float64[k, k] twice, by the bins of the pair, and a number.
        """
        noise, n = self._pair_noise(), num_users
        means, index = noise.means(), noise.index
        kernels = [column[index] for column in means.T]
        found = np.array([average(kernel) for kernel in kernels])
        weight = 1.0
        if self.form == "v":
            weight = (n - 1) / n
            found = weight * found + self._diagonals()[:, 0] / n
        slopes = weight * self.kernel.slopes(found, n)
        bias = self.kernel.linked(found, n) - float(truth)
        return (means @ slopes)[index], noise.variances(slopes)[index], bias

    def _linear_range(self) -> tuple[float, float, float]:
        """Of a linear kernel the range, the largest noise, and the largest rounding of a report."""
        noise = self._pair_noise()
        means = noise.means()
        rounding = float(np.abs(means - noise.levels).max())
        return float(np.ptp(means)), float(noise.variances(np.ones(1)).max()), rounding

    def check_population(self, population) -> None:
        """Raises ValueError unless the users' values are bins, and enough for the pairs."""
        super().check_population(population)
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


@functools.lru_cache(maxsize=256)
def _noise(kernel, shape, epsilon: float, noise: str) -> PairNoise:
    return PairNoise.make(kernel.matrices(shape), epsilon, noise)
