"""The whole histogram, through any frequency oracle."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from .._contract import Params, Round, Through, Tree, field, params, spec
from .._prediction import Prediction
from .._queries import ORACLE, LinearProtocol, users_of
from .._spec import check_int
from .._x64 import compiled_in_float64
from ..population import Population
from ..randomizers import FrequencyOracle


@spec
class HistogramQuery(LinearProtocol[Params[Any]]):
    """The share of the users who hold each value: a frequency oracle, normalised.

    The workload is the identity, `W h = h`, and is never stored: nothing here takes more than the
    oracle's own O(k) or O(K log K), for domains as large as the oracle can have.

    Formal guarantees:
      * Privacy: the oracle's, `oracle.exact_epsilon()`.
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

    oracle: FrequencyOracle = field(ORACLE)

    @property
    def num_queries(self) -> int:
        """The size of the oracle's domain, k."""
        return self.oracle.num_values

    @property
    def num_values(self) -> int:
        """The size of the oracle's domain, k."""
        return self.oracle.num_values

    def build(self, word_bits: int = 32) -> "HistogramParams":
        """Builds the params, which users and the analyst run."""
        return HistogramParams(self.oracle.build(word_bits))

    @property
    def reporter(self) -> FrequencyOracle:
        """The oracle."""
        return self.oracle

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the oracle."""
        return self.oracle.exact_epsilon()

    def answers(self, histograms: Float[np.ndarray, "*n k"]) -> Float[np.ndarray, "*n k"]:
        """The histograms themselves."""
        return np.asarray(histograms, np.float64)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, " k"]:
        """The exact variance of each estimated share for given users."""
        counts = self.check_histogram(counts, inputs)
        return self.oracle.variance(counts) / counts.sum() ** 2

    def population_variance(
        self, probabilities: ArrayLike, num_users: int
    ) -> Float[np.ndarray, " k"]:
        """The exact mean squared error about p for independent users.

        Args:
          probabilities: float[k], of each value; rounded to multiples of 2**-52.
          num_users: n.
        """
        p = self.check_distribution(probabilities)
        n = check_int("num_users", num_users, low=1)
        # p_v (1 - p_v) is the variance of the indicator of one random user's value.
        return (self.oracle.expected_variances(p) + p * (1 - p)) / n

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest variance of one share over all data sets of a size; exact."""
        return Prediction(self.oracle.worst_case_variance(num_users) / num_users**2)

    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """The largest sum of the variances over all data sets of a size; exact."""
        return Prediction(self.oracle.worst_case_total_variance(num_users) / num_users**2)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins of the oracle's domain."""
        self.oracle.check_population(population)


@params
class HistogramParams(Through[Tree]):
    """The params of `HistogramQuery`: a pytree.

    Attributes:
      inner: the params of the frequency oracle.
    """

    inner: Round[Tree]

    def extreme_reports(self, queries: np.ndarray | None = None) -> Tree | None:
        """The oracle's, for a share grows with its count."""
        return self.inner.extreme_reports(queries)

    def raw(self, outcome: Tree) -> Float[Array, " k"]:
        """The estimate: nothing is done to it afterwards."""
        return self.estimate(outcome)

    @compiled_in_float64
    def estimate(self, outcome: Tree, /) -> Float[Array, " k"]:
        """The estimated shares of the values."""
        return self.inner.estimate(outcome) / users_of(outcome)
