"""Linear queries by Gaussian noise on the columns of the workload."""

import dataclasses
import functools
import math
from typing import Any

from .._queries import check_workload
from .._spec import check_choice, check_epsilon, check_real
from ..randomizers._gaussian import Gaussian
from ._encoded import Code, EncodedProtocol, column_code


@dataclasses.dataclass(frozen=True, slots=True)
class GaussianQueries(EncodedProtocol):
    """Every user sends the own column of the workload with Gaussian noise; reports are averaged.

    `report = W_v + sigma z`, z ~ N(0, I). In the local model any two columns are neighbours, so the
    sensitivity is 2 r, r the largest L2 norm of a column. `calibration="as_printed"` keeps the
    paper's sigma, which is too small, for study; see `Gaussian`.

    The paper projects the estimate onto the polytope of the columns where users are few
    (`projection_threshold`). That never hurts, so wrap the protocol in `Projected` always; or, for
    Algorithm 2 to the letter:
    `Projected(protocol, "polytope", below=protocol.projection_threshold())`.

    Formal guarantees:
      * Privacy: (epsilon, delta)-LDP in real arithmetic; as printed it is NOT, see `exact_delta`.
      * Bias: none, up to the rounding of the columns to float32.
      * Variance of each answer, exact and the same for all users: `sigma**2 / n`.

    Edge cases:
      ==================================  ====================================================
      all columns are 0                   noise for r = 1
      population of another domain size   ValueError: both sizes are named
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  ====================================================

    Args:
      workload: float[m, k], a query a row; or an `Operator`.
      epsilon: privacy parameter, > 0.
      delta: in (0, 1).
      calibration: "analytic" or "as_printed".

    Raises:
      ValueError: an argument is out of range, or the workload is empty or not finite.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.linear import GaussianQueries
      >>> protocol = GaussianQueries(jaxdp.workloads.prefix(4), epsilon=1.0, delta=1e-6)
      >>> round(protocol.sigma, 3)  # the largest column has norm 2
      16.899
      >>> population = jaxdp.Population.from_histogram([10**6] * 4)
      >>> jaxdp.run(protocol, population, jax.random.key(0)).round(1).tolist()
      [0.2, 0.5, 0.7, 1.0]

    References:
      Bassily (2019), Linear queries estimation with local differential privacy, Algorithms 1 and 2.
      Errata: the sensitivity is 2 r; the projection is onto the polytope of the columns.
    """

    workload: Any  # a FrozenArray, once constructed
    epsilon: float
    delta: float
    calibration: str = "analytic"

    def __post_init__(self):
        object.__setattr__(self, "workload", check_workload(self.workload))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_real("delta", self.delta, low=0.0, high=1.0))
        check_choice("calibration", self.calibration, ("analytic", "as_printed"))
        self.code()

    def code(self) -> Code:
        """A value's vector is its column."""
        return _code(self)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in each coordinate of a report."""
        return self.code().randomizer.sigma

    def projection_threshold(self) -> float:
        """The number of users below which Algorithm 2 projects.

        `d**2 log(2 / delta) / (8 epsilon**2 log J)`, for d queries and J values; inf for J = 1.
        """
        if self.num_values == 1:
            return math.inf
        dims = self.num_queries**2 * math.log(2 / self.delta)
        return dims / (8 * self.epsilon**2 * math.log(self.num_values))


@functools.lru_cache(maxsize=64)
def _code(protocol: GaussianQueries) -> Code:
    def randomizer(radius):
        return Gaussian(
            protocol.num_queries, protocol.epsilon, protocol.delta, radius, protocol.calibration
        )

    return column_code(protocol.workload.values, 0.0, 2, randomizer)
