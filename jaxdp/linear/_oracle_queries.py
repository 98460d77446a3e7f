"""Linear queries answered from the counts of a frequency oracle."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._contract import Params, Round, Through, Tree, field, params, spec
from .._queries import ORACLE, WORKLOAD, AdditiveProtocol, users_of
from .._x64 import compiled_in_float64, dot
from ..randomizers import FrequencyOracle


@spec
class OracleQueries(AdditiveProtocol[Params[Any]]):
    """Linear queries by post-processing: a frequency oracle estimates h, and W is applied to it.

    The baseline for workloads of few or sparse queries. A query of many values adds up the noise of
    all of them: with uncorrelated counts of variance s**2 a user's share of the variance of answer
    j is `s**2 |w_j|**2`.

    Formal guarantees:
      * Privacy: the oracle's, `oracle.exact_epsilon()`.
      * Estimate: `W h` without bias, `W c / n` of the oracle's estimated counts c.
      * Variance, exact for a fixed data set with counts c_v: `sum_v c_v w_j^T S_v w_j / n**2`, S_v
        being the covariance of the oracle's estimate of one user of value v. `contributions()` has
        the terms, in O(m k) or O(m K log K) steps and without a k x k matrix for the oracles of
        this package; for another one that gives only `covariance(value)`, in O(m k**3).

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

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray
    oracle: FrequencyOracle = field(ORACLE)

    def validate(self) -> None:
        """Raises ValueError unless the workload and the oracle have one domain."""
        if self.oracle.num_values != self.num_values:
            raise ValueError(
                f"oracle has num_values = {self.oracle.num_values}, but the workload has "
                f"{self.num_values} columns, one for each value; both must name one domain."
            )

    def build(self, word_bits: int = 32) -> "OracleQueriesParams":
        """Builds the params, which users and the analyst run."""
        return OracleQueriesParams(self.oracle.build(word_bits), self.workload.values)

    @property
    def reporter(self) -> FrequencyOracle:
        """The oracle."""
        return self.oracle

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the oracle."""
        return self.oracle.exact_epsilon()

    def contributions(self) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, "m k"]]:
        return self.workload.values, _variances(self)


@functools.lru_cache(maxsize=64)
def _variances(protocol: OracleQueries) -> Float[np.ndarray, "m k"]:
    return protocol.oracle.query_variances(protocol.workload.values)


@params
class OracleQueriesParams(Through[Tree]):
    """The params of `OracleQueries`: a pytree.

    Attributes:
      inner: the params of the frequency oracle.
      workload: float64[m, k].
    """

    inner: Round[Tree]
    workload: Float[Array | np.ndarray, "m k"]

    def extreme_reports(self, queries: np.ndarray | None = None) -> Tree | None:
        """The oracle's, for the queries on its counts that the answers are."""
        workload = np.asarray(self.workload)
        return self.inner.extreme_reports(workload if queries is None else queries @ workload)

    @compiled_in_float64
    def estimate(self, outcome: Tree, /) -> Float[Array, " m"]:
        """The estimated answers."""
        shares = self.inner.estimate(outcome) / users_of(outcome)
        return dot(jnp.asarray(self.workload).astype(jnp.float64), shares)
