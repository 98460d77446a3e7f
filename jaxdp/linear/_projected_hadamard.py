"""The whole histogram by Hadamard response, projected onto the simplex."""

import dataclasses
import functools
import math

import numpy as np

from .._queries import LinearProtocol
from .._spec import check_choice
from ..randomizers import HadamardResponse
from ._histogram_query import HistogramQuery
from ._projected import Projected

POSTPROCESS = ("simplex", "norm_sub", "clip", "none")


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectedHadamard(LinearProtocol):
    """Projected Hadamard response: the share of the users who hold each value, for any domain.

    Algorithm 5 of Bassily: a user reports one of the `K = 2**ceil(log2(k + 1))` columns of a
    Hadamard matrix (`HadamardResponse` with one block), a transform of the counts of the reports
    estimates all shares without bias, and the nearest distribution is returned. A user takes
    O(log k) steps, the analyst O(n + K log K).

    Formal guarantees:
      * Privacy: pure epsilon-LDP, that of `HadamardResponse`.
      * Raw estimate: params have `raw(tally)`, without bias; its variances are
        `(n c**2 - c_v) / n**2` with `c = (e**epsilon + 1) / (e**epsilon - 1)`. With
        `postprocess="none"` it is the estimate, and all predictions are exact.
      * "simplex" (or "norm_sub", another name for the same point): on every data set
        `E |estimate - h|**2 <= min((k c**2 - 1) / n, c sqrt(2 log(k) / n), 2)`, a bound that hardly
        depends on k where users are few. The predictions are this bound, of each share and of
        their sum.
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

    num_values: int = dataclasses.field()  # not the property of the base class
    epsilon: float
    postprocess: str = "simplex"

    def __post_init__(self):
        oracle = HadamardResponse(self.num_values, self.epsilon, num_blocks=1)
        object.__setattr__(self, "num_values", oracle.num_values)
        object.__setattr__(self, "epsilon", oracle.epsilon)
        check_choice("postprocess", self.postprocess, POSTPROCESS)

    @property
    def histogram(self) -> HistogramQuery:
        """The protocol without the projection."""
        return HistogramQuery(HadamardResponse(self.num_values, self.epsilon, num_blocks=1))

    @property
    def num_queries(self) -> int:
        """The size of the domain, k."""
        return self.num_values

    def build(self, word_bits: int = 32):
        """The params: those of the histogram, or of its `Projected`."""
        if self.postprocess == "none":
            return self.histogram.build(word_bits)
        return Projected(self.histogram, onto=self.postprocess).build(word_bits)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter, at most `epsilon`."""
        return self.histogram.exact_epsilon()

    def answers(self, histograms: np.ndarray) -> np.ndarray:
        """The histograms themselves, float64[..., k]."""
        return np.asarray(histograms, np.float64)

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error of each share, float64[k]: a bound, exact with "none".

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        raw = self.histogram.variance(counts, inputs)
        return self._each(raw, float(np.sum(counts)))

    def population_variance(self, probabilities, num_users: int) -> np.ndarray:
        """The mean squared error about p for independent users: a bound, exact with "none"."""
        raw = self.histogram.population_variance(probabilities, num_users)
        return self._each(raw, num_users)

    def total_variance(self, counts) -> float:
        """The sum of the mean squared errors for given users: a bound, exact with "none"."""
        return self._total(self.histogram.total_variance(counts), float(np.sum(counts)))

    def worst_case_variance(self, num_users: int) -> float:
        """The largest mean squared error of a share over data sets: a bound, exact with "none"."""
        if self._is_projected:
            return min(1.0, self.worst_case_total_variance(num_users))
        raw = self.histogram.worst_case_variance(num_users)
        return raw if self.postprocess == "none" else min(1.0, raw)

    def worst_case_total_variance(self, num_users: int) -> float:
        """The largest sum of mean squared errors over data sets: a bound, exact with "none"."""
        return self._total(self.histogram.worst_case_total_variance(num_users), num_users)

    def check_population(self, population) -> None:
        """Raises ValueError unless the users' values are bins of the domain."""
        self.histogram.check_population(population)

    @property
    def _is_projected(self) -> bool:
        return self.postprocess in ("simplex", "norm_sub")

    def _total(self, raw: float, num_users: float) -> float:
        if not self._is_projected:
            return raw
        return min(raw, _largest_entry(self.histogram, num_users), 2.0)

    def _each(self, raw: np.ndarray, num_users: float) -> np.ndarray:
        if self.postprocess == "none":
            return raw
        if self.postprocess == "clip":
            return np.minimum(raw, 1.0)
        return np.full(raw.shape, min(1.0, self._total(float(raw.sum()), num_users)))


@functools.lru_cache(maxsize=1024)
def _largest_entry(histogram: HistogramQuery, num_users: float) -> float:
    """`c sqrt(2 log(k) / n)`, at least the mean of the largest entry of the noise."""
    own, other = histogram.oracle.probabilities()  # pyright: ignore[reportAttributeAccessIssue]
    gain = float((own + other) / (own - other))
    return gain * math.sqrt(2 * math.log(histogram.num_values) / num_users)
