"""Linear queries by Gaussian noise on the columns of the workload."""

import math
from typing import Any

import numpy as np

from .._checks import Choice, Epsilon, Real
from .._contract import field, spec
from .._queries import WORKLOAD
from ..randomizers import Gaussian
from ._encoded import (
    EncodedProtocol,
    Encoding,
    ball_center,
    column_vectors,
    largest_distance,
)


@spec
class GaussianQueries(EncodedProtocol[Gaussian]):
    """Every user sends its column of the workload with Gaussian noise; reports are averaged.

    A report is `W_v - c + sigma z`, z ~ N(0, I), on the grid of `Gaussian`; the analyst adds c
    back, the centre of a small ball that holds the columns. In the local model any two columns are
    neighbours, so the sensitivity is their largest L2 distance D: between r and 2 r, where r is the
    largest norm of a column, or less where the columns have much in common.
    `calibration="as_printed"` keeps the paper's sigma, which is too small, for study, and c = 0;
    see `Gaussian`.

    The paper projects the estimate onto the polytope of the columns where users are few
    (`projection_threshold`). That never hurts, so wrap the protocol in `Projected` always; or, for
    Algorithm 2 to the letter:
    `Projected(protocol, "polytope", below=protocol.projection_threshold())`.

    Formal guarantees:
      * Privacy: (epsilon, delta)-LDP; as printed it is NOT where columns are far apart, see
        `exact_delta`.
      * Bias: none, up to the rounding of the columns to float32.
      * Variance of each answer, the same for all users: `sigma**2 / n`, and the rounding to the
        grid, up to 1 % of it.

    Edge cases:
      ==================================  ====================================================
      all columns equal                   noise for D = 2e-9 of their largest entry
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
      >>> round(protocol.sigma, 3)  # two columns are sqrt(3) apart
      7.324
      >>> population = jaxdp.Population.from_histogram([10**6] * 4)
      >>> jaxdp.run(protocol, population, jax.random.key(0)).round(1).tolist()
      [0.2, 0.5, 0.7, 1.0]

    References:
      Bassily (2019), Linear queries estimation with local differential privacy, Algorithms 1 and 2.
      Errata: the sensitivity is D; the projection is onto the polytope of the columns.
    """

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())
    delta: float = field(Real(0.0, 1.0))
    calibration: str = field(Choice("analytic", "as_printed"), default="analytic")

    def validate(self) -> None:
        """Raises ValueError where no noise serves epsilon and delta."""
        self.encoding()

    def _encode(self) -> Encoding[Gaussian]:
        """A value's vector is its column, minus the centre."""
        columns, printed = self.workload.values, self.calibration == "as_printed"
        offset = np.zeros(len(columns)) if printed else ball_center(columns)
        vectors, radius = column_vectors(columns, offset)
        given = self.num_queries, self.epsilon, self.delta, radius, self.calibration
        randomizer = Gaussian(*given, diameter=largest_distance(vectors, radius))
        return Encoding(vectors, None, offset, randomizer)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in each coordinate of a report."""
        return self.encoding().randomizer.sigma

    def projection_threshold(self) -> float:
        """The number of users below which Algorithm 2 projects.

        `d**2 log(2 / delta) / (8 epsilon**2 log J)`, for d queries and J values; inf for J = 1.
        """
        if self.num_values == 1:
            return math.inf
        dims = self.num_queries**2 * math.log(2 / self.delta)
        return dims / (8 * self.epsilon**2 * math.log(self.num_values))
