"""Linear queries answered from the counts of a frequency oracle."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._queries import AdditiveProtocol, check_workload
from .._x64 import compiled_in_float64, dot
from ..randomizers._support import FrequencyOracle
from ._histogram_query import HistogramParams, check_oracle
from ._oracle_moments import query_variances


@dataclasses.dataclass(frozen=True, slots=True)
class OracleQueries(AdditiveProtocol):
    """Linear queries by post-processing: a frequency oracle estimates h, and W is applied to it.

    The baseline for workloads of few or sparse queries. A query of many values adds up the noise of
    all of them: with uncorrelated counts of variance s**2 a user's share of the variance of answer
    j is `s**2 |w_j|**2`.

    Formal guarantees:
      * Privacy: that of the oracle, `oracle.exact_epsilon()`.
      * Estimate: `W h` without bias, `W c / n` of the oracle's estimated counts c.
      * Variance, exact for a fixed data set with counts c_v: `sum_v c_v w_j^T S_v w_j / n**2`, S_v
        being the covariance of the oracle's estimate of one user of value v. `contributions()` has
        the terms, in O(m k) or O(m K log K) steps and without a k x k matrix for the oracles of
        this package; for another one that has `covariance(value)`, in O(m k**3).

    Edge cases:
      ============================  ============================================================
      oracle not of counts          TypeError
      domains differ                ValueError that names both sizes
      value outside the domain      ValueError from a Population; clamped inside jit
      oracle without a tally's law  per-user simulation only, as for `LocalHashing`
      ============================  ============================================================

    Args:
      workload: W, float[m, k], a row for each query, or an `Operator`.
      oracle: a frequency oracle with `num_values = k`.

    Raises:
      ValueError: the workload is not a finite matrix, or the oracle has another domain.
      TypeError: `oracle` is not the spec of a frequency oracle.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import OracleQueries
      >>> oracle = jaxdp.randomizers.HadamardResponse(num_values=64, epsilon=1.0)
      >>> cdf = OracleQueries(jaxdp.workloads.prefix(64), oracle)
      >>> round(cdf.worst_case_variance(num_users=1000), 3)
      0.433
    """

    workload: Any  # a FrozenArray, once constructed
    oracle: FrequencyOracle

    def __post_init__(self):
        object.__setattr__(self, "workload", check_workload(self.workload))
        check_oracle(self.oracle)
        if self.oracle.num_values != self.num_values:
            raise ValueError(
                f"oracle has num_values = {self.oracle.num_values}, but the workload has "
                f"{self.num_values} columns, one for each value; both must name one domain."
            )

    def build(self, word_bits: int = 32) -> "OracleQueriesParams":
        """The params."""
        return OracleQueriesParams(self.oracle.build(word_bits), self.workload.values)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: that of the oracle."""
        return self.oracle.exact_epsilon()

    def contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the variance of one user's contribution to each answer; exact.

        Returns:
          float64[m, k], the workload itself, and float64[m, k]: column v for a user who holds v.
        """
        return self.workload.values, _variances(self)


@functools.lru_cache(maxsize=64)
def _variances(protocol: OracleQueries) -> np.ndarray:
    return query_variances(protocol.oracle, protocol.workload.values)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OracleQueriesParams(HistogramParams):
    """The params of `OracleQueries`: a pytree.

    Attributes:
      oracle: the params of the frequency oracle.
      workload: float64[m, k].
    """

    workload: jax.Array | np.ndarray

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated answers, float[m]."""
        shares = HistogramParams.estimate(self, tally)
        return dot(jnp.asarray(self.workload).astype(jnp.float64), shares)
