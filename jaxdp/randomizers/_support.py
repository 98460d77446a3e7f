"""What frequency oracles share."""

import abc
from fractions import Fraction

import jax
import numpy as np

from .._spec import check_int
from .._x64 import compiled_in_float64
from ._params import RandomizerParams
from ._randomizer import Randomizer, check_bins, check_law


class FrequencyOracle(Randomizer):
    """Base of the specs that count how many users have each of `num_values` values."""

    __slots__ = ()

    num_values: int

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the counts themselves, float64[k]."""
        del inputs
        return check_bins(counts, self.num_values).astype(np.float64)

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The expected counts of independent users, float64[k]."""
        del inputs
        return check_law(probabilities, self.num_values) * num_users

    def check_population(self, population) -> None:
        """Raises unless the users' values are bins of this domain."""
        population.require_bins(self.num_values, "num_values")


class LinearOracle(FrequencyOracle):
    """Base of the specs that know the variances of the estimate from one user."""

    __slots__ = ()

    @abc.abstractmethod
    def _user_variances(self) -> np.ndarray:
        """The variances of the estimate from one user, float64[k, k], a column for each value."""

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact variance of each estimated count, float64[k].

        Args:
          counts: int[k], the number of users with each value.
          inputs: unused; the values are the bins.
        """
        del inputs
        return self._user_variances() @ check_bins(counts, self.num_values)

    def worst_case_variance(self, num_users: int) -> float:
        """The largest variance of one estimated count over all data sets of `num_users`; exact.

        The variance is linear in the counts, so it is largest where all users have one value.
        """
        n = check_int("num_users", num_users, low=1)
        return n * float(self._user_variances().max())


class SupportOracle(FrequencyOracle):
    """Base of the specs of frequency oracles whose reports support sets of values.

    A report supports the user's own value with probability p, and each other value with probability
    q. So the number of reports that support v has mean `c_v p + (n - c_v) q`.
    """

    __slots__ = ()

    @abc.abstractmethod
    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """The realised (p, q) of supporting one's own value, and of supporting another one."""

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact variance of each estimated count, float64[k].

        Args:
          counts: int[k], the number of users with each value.
          inputs: unused; the values are the bins.
        """
        del inputs
        counts = check_bins(counts, self.num_values)
        own, other, gap = self._spreads()
        return (counts * own + (counts.sum() - counts) * other) / gap**2

    def worst_case_variance(self, num_users: int) -> float:
        """The largest variance of one estimated count over all data sets of `num_users`; exact.

        The variance is linear in c_v, so it is largest at c_v = 0 or at c_v = n.
        """
        n = check_int("num_users", num_users, low=1)
        own, other, gap = self._spreads()
        return n * max(own, other) / gap**2

    def _spreads(self) -> tuple[float, float, float]:
        """Returns p (1 - p), q (1 - q) and p - q."""
        p, q = self.probabilities()
        return float(p * (1 - p)), float(q * (1 - q)), float(p - q)


class SupportParams(RandomizerParams):
    """Base of the params of a `SupportOracle` whose tally is the support of each value."""

    @abc.abstractmethod
    def probabilities(self) -> tuple[jax.Array, jax.Array]:
        """The realised (p, q) as float64; only inside an x64 block."""

    @compiled_in_float64
    def estimate(self, tally):
        """Unbiased counts of the users' values, float[k].

        Args:
          tally: {"support": Count[k], "users": Count[]}.
        """
        p, q = self.probabilities()
        support, users = tally["support"].f64(), tally["users"].f64()
        return (support - users[..., None] * q) / (p - q)
