"""Answers from the distribution that makes the reports of a frequency oracle most likely."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from .._checks import Choice, Instance
from .._contract import (
    Cost,
    Params,
    Round,
    Through,
    Tree,
    Work,
    field,
    params,
    round_of,
    spec,
    static,
)
from .._prediction import Prediction
from .._queries import LinearProtocol, fit_cost, num_counted_reports
from .._spec import check_int
from .._x64 import compiled_in_float64, dot
from ..reports import expectation_maximization, maximum_likelihood
from ._histogram_query import HistogramQuery
from ._oracle_queries import OracleQueries
from ._post_processed import PostProcessed, ranges
from ._projected import Projected

FITS = ("newton", "em", "ems")
_LINEAR = Instance(LinearProtocol, "a linear protocol")
_ORACLE = Instance((HistogramQuery, OracleQueries), "a HistogramQuery or OracleQueries")


@spec
class MaximumLikelihood(PostProcessed):
    """A frequency oracle's queries, answered from the most likely distribution of the values.

    Users report to the oracle; the analyst fits a distribution to all their reports, and answers
    `W p` of it. It uses what an unbiased estimate discards, and a fit is never negative.

    ==========  ===================================================================================
    `fit`       distribution
    ==========  ===================================================================================
    `"newton"`  the most likely one, to a proven gap: `jaxdp.reports.maximum_likelihood`
    `"em"`      expectation maximization from the uniform one, ended early: often better for ordered
                values, and far slower
    `"ems"`     the same, smoothed over neighbouring values at each step, for ordered values
    ==========  ===================================================================================

    Formal guarantees:
      * Privacy: the oracle's; the fit is post-processing.
      * Bias: biased towards the uniform distribution, rare values being never below 0.
      * Mean squared errors have no closed form: `expected_error` simulates them for a prior, and
        `variance` and the other predictions are the squared ranges of the answers.

    Edge cases:
      ===============================  =======================================================
      reports that are not counted     ValueError: the likelihood is no function of the tally;
                                       project the estimate (`Projected`) instead
      one report for each value (KRR)  close to `Projected`
      ===============================  =======================================================

    Args:
      protocol: a `HistogramQuery` or `OracleQueries`, of an oracle whose tally counts each report,
        such as `HadamardResponse`, `KRR`, `AffineHashing` or `DiscreteLaplace`.
      fit: see the table.

    Raises:
      ValueError: the oracle's reports are not counted, or `fit` is unknown.
      TypeError: `protocol` is another one.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import HistogramQuery, MaximumLikelihood
      >>> raw = HistogramQuery(jaxdp.randomizers.HadamardResponse(16, 1.0))
      >>> fitted = MaximumLikelihood(raw).expected_error("zipf", num_users=1000, num_trials=50)
      >>> fitted.kind, bool(fitted < raw.worst_case_total_variance(1000) / 16)
      ('simulated', True)

    References:
      Kairouz, Bonawitz, Ramage (2016), Discrete distribution estimation under local privacy; Li et
      al. (2020), Estimating numerical distributions under local differential privacy, for "ems".
    """

    protocol: LinearProtocol[Params[Any]] = field(_ORACLE)
    fit: str = field(Choice(*FITS), default="newton")

    def validate(self) -> None:
        """Raises ValueError unless the oracle's reports are counted."""
        if not has_likelihood(self.protocol):
            raise ValueError(
                "protocol must have an oracle whose tally counts each report, got "
                f"{self.protocol!r}; project its estimate instead: Projected(protocol)."
            )

    def build(self, word_bits: int = 32) -> "MaximumLikelihoodParams":
        """Builds the params, which users and the analyst run."""
        inner: Any = self.protocol.build(word_bits)
        workload = None if self.protocol.is_histogram else self.protocol.matrix()
        return MaximumLikelihoodParams(inner.inner, workload, self.fit)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, " m"]:
        """A proven bound on the mean squared error of each answer: the square of its range.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        self.check_histogram(counts, inputs)
        return self._squared_ranges

    def population_variance(
        self, probabilities: ArrayLike, num_users: int
    ) -> Float[np.ndarray, " m"]:
        """The same bound on the error about `W p`.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
        """
        self.check_distribution(probabilities)
        check_int("num_users", num_users, low=1)
        return self._squared_ranges

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest squared range of an answer: a bound."""
        check_int("num_users", num_users, low=1)
        return Prediction(self._squared_ranges.max(), "bound")

    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """A bound on the sum of the mean squared errors over all data sets of a size."""
        check_int("num_users", num_users, low=1)
        total = self._squared_ranges.sum()
        # Two distributions are at most sqrt(2) apart.
        return Prediction(min(total, 2.0) if self.protocol.is_histogram else total, "bound")

    @property
    def _squared_ranges(self) -> np.ndarray:
        low, high = ranges(self.protocol)
        return np.square(high - low)


def has_likelihood(protocol: LinearProtocol[Any]) -> bool:
    """Whether a protocol's answers can be those of a most likely distribution."""
    if not isinstance(protocol, (HistogramQuery, OracleQueries)):
        return False
    return num_counted_reports(protocol.oracle.built) is not None


def post_processed(protocol: LinearProtocol[Any]) -> dict[str, PostProcessed]:
    """A protocol with what is known of its answers applied to them, in the ways there are.

    Args:
      protocol: with an unbiased estimate.

    Returns:
      By name: "projected", the nearest answers that some histogram has; "likelihood", those of the
      distribution that makes the reports most likely, where reports are counted. None of an
      interactive protocol.

    Raises:
      TypeError: `protocol` is no linear protocol.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import HistogramQuery, post_processed
      >>> list(post_processed(HistogramQuery(jaxdp.randomizers.KRR(4, 1.0))))
      ['projected', 'likelihood']
    """
    protocol = _LINEAR("protocol", protocol)
    if round_of(protocol.built) is None:
        return {}
    found: dict[str, PostProcessed] = {"projected": Projected(protocol)}
    if has_likelihood(protocol):
        found["likelihood"] = MaximumLikelihood(protocol)
    return found


@params
class MaximumLikelihoodParams(Through[Tree]):
    """The params of `MaximumLikelihood`: a pytree.

    Attributes:
      inner: the params of the frequency oracle.
      workload: float64[m, k]; None for the histogram.
      fit: as of the spec; static.
    """

    inner: Round[Tree]
    workload: Float[Array | np.ndarray, "m k"] | None
    fit: str = static()

    @compiled_in_float64
    def estimate(self, outcome: Tree, /) -> Float[Array, " m"]:
        """The answers of the fitted distribution."""
        if self.fit == "newton":
            fitted = maximum_likelihood(self.inner, outcome)
        else:
            fitted = expectation_maximization(self.inner, outcome, smooth=self.fit == "ems")
        if self.workload is None:
            return fitted.probabilities
        return dot(jnp.asarray(self.workload).astype(jnp.float64), fitted.probabilities)

    def cost(self, work: Work) -> Cost:
        """Adds the fit to the oracle."""
        fitting = fit_cost(self.inner, newton=self.fit == "newton")
        return Through.cost(self, work) + Cost(fitting, fitting)
