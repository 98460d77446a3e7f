"""The whole histogram by Hadamard response, projected onto the simplex."""

import functools
import math
from typing import Any

import numpy as np

from .._checks import Choice, Epsilon, Integer
from .._contract import Params, field, spec
from .._prediction import Kind
from ..randomizers import HadamardResponse
from ._histogram_query import HistogramQuery
from ._projected import ProjectedProtocol

POSTPROCESS = ("simplex", "norm_sub", "clip", "none")


@spec
class ProjectedHadamard(ProjectedProtocol):
    """Projected Hadamard response: the share of the users who hold each value, for any domain.

    Algorithm 5 of Bassily: a user reports one of the `K = 2**ceil(log2(k + 1))` columns of a
    Hadamard matrix (`HadamardResponse` with one block), a transform of the counts of the reports
    estimates all shares without bias, and the nearest distribution is returned. A user takes
    O(log k) steps, the analyst O(n + K log K).

    Formal guarantees:
      * Privacy: pure epsilon-LDP, by `HadamardResponse`.
      * Raw estimate: params have `raw(tally)`, without bias; its variances are
        `(n c**2 - c_v) / n**2` with `c = (e**epsilon + 1) / (e**epsilon - 1)`. With
        `postprocess="none"` it is the estimate, and all predictions are exact.
      * "simplex" (or "norm_sub", another name for the same point): on every data set
        `E |estimate - h|**2 <= min((k c**2 - 1) / n, c sqrt(2 log(k) / n), 2)`, a bound that hardly
        depends on k where users are few. The predictions are this bound, of each share and of
        their sum; `expected_error` simulates the error for a prior.
      * "clip" to [0, 1]: the variance of a raw share bounds its mean squared error.

    The second term is for the noise z of the raw estimate: the projection w of h + z onto a convex
    set that contains h has `|w - h|**2 <= <z, w - h>`. Since `<z, w>` is at most the largest entry
    of z, and `<z, h>` has mean 0, `E |w - h|**2 <= E max_v z_v`. Each z_v is the mean of n
    independent numbers that take two values with difference 2 c, so that Hoeffding's lemma makes it
    sub-Gaussian with variance c**2 / n. For independent users h is the distribution.

    Edge cases:
      ===========================  =============================================================
      epsilon too large or small   ValueError, as of `HadamardResponse`
      value outside the domain     ValueError from a Population; clamped inside jit
      ===========================  =============================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**24 - 1.
      epsilon: privacy parameter, > 0.
      postprocess: "simplex", "norm_sub", "clip" or "none".

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.linear import ProjectedHadamard
      >>> protocol = ProjectedHadamard(num_values=1000, epsilon=1.0)
      >>> users = jaxdp.Population.from_histogram([900, 100] + 998 * [0])
      >>> shares = jaxdp.run(protocol, users, jax.random.key(0))
      >>> bool((shares >= 0).all()), round(float(shares.sum()), 6)
      (True, 1.0)
      >>> round(protocol.worst_case_total_variance(num_users=1000), 3)
      0.254

    References:
      Bassily (2019), Linear queries estimation with local differential privacy, Algorithm 5, Fact
      4.1 and Theorem 4.2. Fact 4.1 has 4 c**2 where c**2 is enough, and Theorem 4.2
      `(256 c**2 log(k) / n)**(1/4)` where `(2 c**2 log(k) / n)**(1/4)` is; its proof that the
      projection onto the L1 ball is further away than that onto the simplex is not needed.
    """

    num_values: int = field(Integer(2))  # pyright: ignore[reportIncompatibleMethodOverride]
    epsilon: float = field(Epsilon())
    postprocess: str = field(Choice(*POSTPROCESS), default="simplex")

    below = None
    tol = 1e-6  # not used: these projections are exact

    def validate(self) -> None:
        """Raises ValueError where the oracle cannot be built."""
        self.oracle.validate()

    @property
    def oracle(self) -> HadamardResponse:
        """The oracle that users run."""
        return HadamardResponse(self.num_values, self.epsilon, num_blocks=1)

    @property
    def histogram(self) -> HistogramQuery:
        """The protocol without the projection."""
        return HistogramQuery(self.oracle)

    @property
    def protocol(self) -> HistogramQuery:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The same, as of `Projected`."""
        return self.histogram

    @property
    def onto(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The set onto which the raw estimate is projected; see `postprocess`."""
        return self.postprocess

    def build(self, word_bits: int = 32) -> Params[Any]:
        """The params of the histogram, or of its projection."""
        if self.postprocess == "none":
            return self.histogram.build(word_bits)
        return ProjectedProtocol.build(self, word_bits)

    @property
    def variance_kind(self) -> Kind:
        """A bound, but for the estimate that is not projected."""
        return "exact" if self.postprocess == "none" else "bound"

    def _is_raw(self, num_users: float) -> bool:
        del num_users
        return self.postprocess == "none"

    def _width_bound(self, num_users: float, histogram: np.ndarray | None = None) -> float:
        """`c sqrt(2 log(k) / n)`, whatever the histogram, and never more than 2."""
        del histogram
        if self.postprocess == "clip":
            return np.inf
        return min(_largest_entry(self.oracle, num_users), 2.0)

    def _drawn_width_bound(self, num_users: float) -> float:
        return self._width_bound(num_users)


@functools.lru_cache(maxsize=1024)
def _largest_entry(oracle: HadamardResponse, num_users: float) -> float:
    """`c sqrt(2 log(k) / n)`, at least the mean of the largest entry of the noise."""
    inside, outside = oracle.probabilities()
    gain = float((inside + outside) / (inside - outside))  # c, as built
    return gain * math.sqrt(2 * math.log(oracle.num_values) / num_users)
