"""The whole histogram, through any frequency oracle."""

import dataclasses
from typing import Any

import jax.tree_util
import numpy as np

from .._queries import LinearProtocol
from .._spec import check_int
from .._x64 import compiled_in_float64
from ..random import Count
from ..randomizers._support import FrequencyOracle
from ._oracle_moments import expected_variances, worst_total


@dataclasses.dataclass(frozen=True, slots=True)
class HistogramQuery(LinearProtocol):
    """The share of the users who hold each value: a frequency oracle, normalised.

    The workload is the identity, `W h = h`, and is never stored: nothing here takes more than the
    oracle's own O(k) or O(K log K), for domains as large as the oracle can have.

    Formal guarantees:
      * Privacy: that of the oracle, `oracle.exact_epsilon()`.
      * Estimate: without bias, the oracle's estimated counts over the number of users. It is not a
        distribution: shares may be negative, and need not add up to 1. `Projected` makes it one.
      * Variance, exact for a fixed data set: the oracle's over n**2. About the distribution p of
        independent users, `(sum_x p_x V_vx + p_v (1 - p_v)) / n`, with the variance V_vx of entry v
        of the estimate of one user of value x.

    Edge cases:
      ============================  ============================================================
      oracle not of counts          TypeError
      value outside the domain      ValueError from a Population; clamped inside jit
      oracle without a tally's law  per-user simulation only, as for `LocalHashing`
      ============================  ============================================================

    Args:
      oracle: a frequency oracle, such as `KRR`, `HadamardResponse` or `SubsetSelection`.

    Raises:
      TypeError: `oracle` is not the spec of a frequency oracle.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.linear import HistogramQuery
      >>> query = HistogramQuery(jaxdp.randomizers.SubsetSelection(num_values=4, epsilon=2.0))
      >>> users = jaxdp.Population.from_histogram([600_000, 300_000, 100_000, 0])
      >>> shares = jaxdp.run(query, users, jax.random.key(0))
      >>> bool(abs(shares - [0.6, 0.3, 0.1, 0.0]).max() < 0.01)
      True
    """

    oracle: FrequencyOracle

    def __post_init__(self):
        check_oracle(self.oracle)

    @property
    def num_queries(self) -> int:
        """The size of the oracle's domain, k."""
        return self.oracle.num_values

    @property
    def num_values(self) -> int:
        """The size of the oracle's domain, k."""
        return self.oracle.num_values

    def build(self, word_bits: int = 32) -> "HistogramParams":
        """The params."""
        return HistogramParams(self.oracle.build(word_bits))

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: that of the oracle."""
        return self.oracle.exact_epsilon()

    def answers(self, histograms: np.ndarray) -> np.ndarray:
        """The histograms themselves, float64[..., k]."""
        return np.asarray(histograms, np.float64)

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact variance of each estimated share for given users, float64[k]."""
        counts = self.check_histogram(counts, inputs)
        return self.oracle.variance(counts) / counts.sum() ** 2

    def population_variance(self, probabilities, num_users: int) -> np.ndarray:
        """The exact mean squared error about p for independent users, float64[k].

        Args:
          probabilities: float[k], of each value; rounded to multiples of 2**-52.
          num_users: n.
        """
        p = self.check_distribution(probabilities)
        n = check_int("num_users", num_users, low=1)
        return (expected_variances(self.oracle, p) + p * (1 - p)) / n

    def worst_case_variance(self, num_users: int) -> float:
        """The largest variance of one share over all data sets of a size; exact."""
        return self.oracle.worst_case_variance(num_users) / num_users**2

    def worst_case_total_variance(self, num_users: int) -> float:
        """The largest sum of the variances over all data sets of a size; exact.

        The sum is linear in the histogram, so users who all hold one value attain it.
        """
        n = check_int("num_users", num_users, low=1)
        return worst_total(self.oracle) / n

    def check_population(self, population) -> None:
        """Raises ValueError unless the users' values are bins of the oracle's domain."""
        self.oracle.check_population(population)


def check_oracle(oracle: Any) -> None:
    """Raises TypeError unless `oracle` is the spec of a frequency oracle."""
    if not isinstance(oracle, FrequencyOracle):
        raise TypeError(
            "oracle must be the spec of a frequency oracle, which counts the users with each value,"
            f" such as jaxdp.randomizers.HadamardResponse(num_values, epsilon), got {oracle!r}."
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HistogramParams:
    """The params of `HistogramQuery`: a pytree.

    Users do what the oracle says. What the oracle's params lack, such as `sample_tally`, these lack
    too.

    Attributes:
      oracle: the params of the frequency oracle.
    """

    oracle: Any

    @property
    def num_words(self) -> int:
        """Those of the oracle."""
        return self.oracle.num_words

    @property
    def lazy_words(self) -> bool:
        """Whether `from_bits` reads words one by one."""
        return getattr(self.oracle, "lazy_words", False)

    def from_bits(self, words, value):
        """One user's report, the oracle's.

        Args:
          words: uint32[num_words].
          value: int32[] in [0, k).
        """
        return self.oracle.from_bits(words, value)

    def privatize(self, key, value):
        """One user's report, its words drawn from `key`; see `from_bits`."""
        return self.oracle.privatize(key, value)

    def tally(self, reports, mask):
        """The oracle's tally of the masked reports."""
        return self.oracle.tally(reports, mask)

    @property
    def sample_tally(self):
        """The oracle's: a tally drawn at once from the users' counts."""
        return self.oracle.sample_tally

    @property
    def sample_tally_iid(self):
        """The oracle's: a tally of independent users."""
        return self.oracle.sample_tally_iid

    @property
    def tally_cost(self):
        """The oracle's: nanoseconds of `sample_tally`, roughly."""
        return self.oracle.tally_cost

    def raw(self, tally):
        """The estimate: nothing is done to it afterwards."""
        return self.estimate(tally)

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated shares of the values, float[k]."""
        return self.oracle.estimate(tally) / count_users(tally)


def count_users(tally):
    """The number of users of an oracle's tally, as float64; only inside an x64 block."""
    users = tally if isinstance(tally, Count) else tally["users"]
    return users.sum().f64()
