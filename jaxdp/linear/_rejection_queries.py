"""Linear queries by Bassily's Gaussian rejection sampling."""

import functools
import math
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import Choice, Epsilon, Integer, Optional
from .._contract import Tree, field, spec
from .._prediction import Prediction
from .._queries import WORKLOAD
from .._spec import check_int
from ..randomizers import GaussianRejection
from ..randomizers._gaussian_rejection_law import ratio_error
from ._encoded import EncodedProtocol, Encoding, ball_center, column_vectors

_FEWEST = 120  # users for which the paper analyses its algorithm


@spec
class RejectionQueries(EncodedProtocol[GaussianRejection]):
    """Users accept or reject a Gaussian vector by their workload column; the analyst averages.

    A report is a normal vector that does not depend on the user, accepted with a probability that
    grows with its likelihood under the user's vector: its column minus c, the centre of a small
    ball that holds the columns, which the analyst adds back; see `GaussianRejection`. `"repaired"`
    is pure and unbiased. `"as_printed"` is the paper's, neither of the two, for study, with c = 0;
    its estimate is the average over the users who did not drop out.

    The estimate is raw. The paper projects it onto the polytope of the columns where users are few
    (`projection_threshold`); wrap the protocol in `Projected` to do so always.

    Formal guarantees, repaired:
      * Privacy: pure epsilon-LDP.
      * Bias: none, up to float32 rounding.
      * Variance: exact in `variance` and the other predictions; entry j of one report has
        `a + b (W_jv - c_j)**2` with a, b of `GaussianRejection`.
    As printed:
      * Privacy: NOT pure LDP, `exact_epsilon()` is inf.
      * `variance` and `population_variance` are the exact mean squared errors, bias included; the
        two worst cases are proven bounds.

    Edge cases:
      ==================================  ====================================================
      as printed, fewer than 120 users    warns: the paper's analysis starts there
      as printed, epsilon above 4 log 2   ValueError: a probability would exceed 1
      all columns equal                   noise for r = 1e-9 of their largest entry
      population of another domain size   ValueError: both sizes are named
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  ====================================================

    Args:
      workload: float[m, k], a query a row; or an `Operator`.
      epsilon: privacy parameter in [1e-4, 20].
      variant: "repaired" or "as_printed".
      num_users: n, of which the printed sigma depends; None for the repaired variant.

    Raises:
      ValueError: an argument is out of range, or the workload is empty or not finite.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import RejectionQueries
      >>> protocol = RejectionQueries(jaxdp.workloads.identity(4), epsilon=1.0)
      >>> protocol.exact_epsilon() <= 1.0
      True
      >>> 7 < protocol.worst_case_variance(num_users=1) < 8
      True

    References:
      Bassily (2019), Linear queries estimation with local differential privacy, Algorithms 3 and 4.
      Errata: see `GaussianRejection`.
    """

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())
    variant: str = field(Choice("repaired", "as_printed"), default="repaired")
    num_users: int | None = field(Optional(Integer(1)), default=None)

    def validate(self) -> None:
        """Raises ValueError where the randomizer does not suit; warns of few users."""
        self.encoding()
        if not self._pure and (self.num_users or 0) < _FEWEST:
            warnings.warn(
                f"num_users = {self.num_users}: the analysis of Algorithm 4 needs at least "
                f"{_FEWEST} users.",
                stacklevel=4,
            )

    @property
    def _pure(self) -> bool:
        return self.variant == "repaired"

    def _encode(self) -> Encoding[GaussianRejection]:
        """A value's vector is its column, minus the centre."""
        columns = self.workload.values
        offset = ball_center(columns) if self._pure else np.zeros(len(columns))
        vectors, radius = column_vectors(columns, offset)
        randomizer = GaussianRejection(
            self.num_queries, self.epsilon, radius, self.variant, self.num_users
        )
        return Encoding(vectors, None, offset, randomizer)

    def projection_threshold(self, num_users: int) -> float:
        """The number of users below which Algorithm 4 projects.

        `d**2 log(n) / (4 epsilon**2 log J)`, for d queries and J values; inf for J = 1. It is what
        `Projected` takes as `below`. As printed, users who dropped out are not counted.

        Args:
          num_users: n.
        """
        n = check_int("num_users", num_users, low=1)
        if self.num_values == 1:
            return math.inf
        dims = self.num_queries**2 * math.log(n)
        return dims / (4 * self.epsilon**2 * math.log(self.num_values))

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, " m"]:
        if self._pure:
            return EncodedProtocol.variance(self, counts, inputs)
        counts = self.check_histogram(counts, inputs)
        present = counts > 0
        accepted, mean, spread = (x[present] for x in _accepted(self))
        target = self.workload.values @ counts / counts.sum()
        return ratio_error(counts[present], accepted, mean - target, spread, target)

    def population_variance(
        self, probabilities: ArrayLike, num_users: int
    ) -> Float[np.ndarray, " m"]:
        if self._pure:
            return EncodedProtocol.population_variance(self, probabilities, num_users)
        n = check_int("num_users", num_users, low=1)
        p = self.check_distribution(probabilities)
        accepted, means, spread = _accepted(self)
        share = p * accepted / (p @ accepted)  # the law of the value, given an accepted report
        mean = share @ means
        spread = share @ spread + share @ (means - mean) ** 2
        target = self.workload.values @ p
        one = np.array([float(n)]), np.array([p @ accepted])
        return ratio_error(*one, (mean - target)[None], spread[None], target)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error of an answer over all data sets of a size.

        Repaired: exact. As printed: the bound of `GaussianRejection`.
        """
        if self._pure:
            return EncodedProtocol.worst_case_variance(self, num_users)
        return self.encoding().randomizer.worst_case_variance(num_users)

    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """The largest sum of the mean squared errors over all data sets of a size.

        Repaired: exact. As printed: the bound of `GaussianRejection`, all noise added up.
        """
        if self._pure:
            return EncodedProtocol.worst_case_total_variance(self, num_users)
        randomizer = self.encoding().randomizer
        accepted = randomizer.kept_law(randomizer.radius).probability
        # E[1/M; M >= 1] <= 2 / ((n + 1) p) for the number M of accepted reports
        noise = 2 * randomizer.sigma**2 / ((num_users + 1) * accepted)
        total = randomizer.worst_case_variance(num_users) + (self.num_queries - 1) * noise
        return Prediction(total, "bound")


@functools.lru_cache(maxsize=16)
def _accepted(
    protocol: RejectionQueries,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k m"], Float[np.ndarray, "k m"]]:
    """As printed, for each value: Pr[accepted], and the mean and variance of an accepted report."""
    encoding = protocol.encoding()
    randomizer, columns = encoding.randomizer, encoding.embedding.astype(np.float64)
    norms = np.minimum(np.linalg.norm(columns, axis=1), randomizer.radius)
    laws = {norm: randomizer.kept_law(norm) for norm in set(norms.tolist())}
    accepted, mean, variance = np.array([laws[norm] for norm in norms.tolist()]).T
    # Acceptance depends on the part along the column alone; across it a report is normal.
    unit = columns / np.maximum(norms, 1e-30)[:, None]
    across = randomizer.sigma**2
    spread = across + (variance - across)[:, None] * unit**2
    return accepted, mean[:, None] * unit, spread
