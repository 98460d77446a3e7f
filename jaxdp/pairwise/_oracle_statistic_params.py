"""The params of OracleStatistic."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64, dot
from ..linear._histogram_query import HistogramParams, count_users


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OracleStatisticParams(HistogramParams):
    """The params of `OracleStatistic`: a pytree.

    Users do what the oracle says. What the oracle's params lack, such as `sample_tally`, these lack
    too.

    Attributes:
      oracle: the params of the frequency oracle.
      matrices: float64[m, k, k], the kernels of the averages on the values, rows of mean 0.
      linear: float64[m, k], what was subtracted from both arguments of the kernels.
      constant: float64[m], what was subtracted besides.
      own: float64[m, ..], the expected `y^T W y` of a user, by report or by value.
      link: the statistic as a function of the averages, static.
      form: "u" or "v", static.
      by_report: whether `own` is by report, static.
    """

    matrices: jax.Array | np.ndarray
    linear: jax.Array | np.ndarray
    constant: jax.Array | np.ndarray
    own: jax.Array | np.ndarray
    link: Callable = dataclasses.field(metadata={"static": True})
    form: str = dataclasses.field(metadata={"static": True})
    by_report: bool = dataclasses.field(metadata={"static": True})

    def _own_total(self, tally, users):
        """The sum of `y^T W y` over the users, or an estimate of it, float64[m]."""
        own = jnp.asarray(self.own).astype(jnp.float64)
        return dot(own, tally.f64() if self.by_report else users)

    def _counts(self, tally):
        """The oracle's own tally."""
        return tally

    @compiled_in_float64
    def u_statistics(self, tally):
        """Unbiased estimates of the averages that the statistic is a function of, float[m].

        Args:
          tally: the oracle's tally.
        """
        users = self.oracle.estimate(self._counts(tally))
        n = count_users(self._counts(tally))
        matrices, linear, constant = (
            jnp.asarray(x).astype(jnp.float64) for x in (self.matrices, self.linear, self.constant)
        )
        total = dot(dot(matrices, users), users) - self._own_total(tally, users)
        shifted = 2 * dot(linear, users) / n + constant
        if self.form == "u":
            return total / (n * (n - 1)) + shifted
        diagonal = jnp.diagonal(matrices, axis1=-2, axis2=-1)
        return (total + dot(diagonal, users)) / n**2 + shifted

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated statistic, float[].

        Args:
          tally: the oracle's tally.
        """
        return self.link(self.u_statistics(tally), count_users(self._counts(tally)))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PairedStatisticParams(OracleStatisticParams):
    """Params for an oracle whose tally does not give the moments of reports: pairs are tallied too.

    The tally is {"oracle": the oracle's tally, "pairs": int32[k, k], how many reports support both
    values}.
    """

    def tally(self, reports, mask):
        """The oracle's tally of the masked reports, and the pairs of values they support."""

        def support(report):
            return self.oracle.tally(report[None], jnp.ones(1, bool))["support"]

        sets = jnp.where(mask[:, None], jax.vmap(support)(reports), 0).astype(jnp.float32)
        # Exact: no more than 2**24 users a block.
        pairs = jnp.matmul(sets.T, sets, precision="highest").astype(jnp.int32)
        return {"oracle": self.oracle.tally(reports, mask), "pairs": pairs}

    def _counts(self, tally):
        return tally["oracle"]

    def _own_total(self, tally, users):
        p, q = self.oracle.probabilities()
        matrices = jnp.asarray(self.matrices).astype(jnp.float64)
        support = self._counts(tally)["support"].f64()
        rows = matrices.sum(axis=-1)
        both = dot(matrices.reshape(len(matrices), -1), tally["pairs"].f64().reshape(-1))
        constant = count_users(self._counts(tally)) * q**2 * rows.sum(axis=-1)
        return (both - 2 * q * dot(rows, support) + constant) / (p - q) ** 2
