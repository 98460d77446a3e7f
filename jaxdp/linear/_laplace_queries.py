"""Linear queries by Laplace noise on the columns of the workload."""

from typing import Any

import numpy as np

from .._checks import Epsilon
from .._contract import field, spec
from .._queries import WORKLOAD
from ..randomizers import Laplace
from ._encoded import EncodedProtocol, Encoding, column_vectors


@spec
class LaplaceQueries(EncodedProtocol[Laplace]):
    """Every user sends its answers to all queries with Laplace noise; reports are averaged.

    A report is `W_v - c` with noise of the scale `b = 2 B / epsilon` in every coordinate, B being
    the largest L1 norm of a column minus c, on the grid of `Laplace` and cut to [-B, B]. The
    analyst adds c back: 0, or for each query the middle or the median of its answers over the
    domain, whichever makes B least. The textbook baseline: its error grows with the L1 norm of the
    columns, where other protocols have the L2 norm.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, bit by bit; see `Laplace`.
      * Bias: none, up to the rounding of the columns to float32.
      * Variance of each answer: exact in `variance` and the other predictions; `2 b**2 / n` at
        most, up to the grid, and less where cutting saves some.

    Edge cases:
      ==================================  ====================================================
      all columns equal                   noise for B = 1e-9 of their largest entry
      population of another domain size   ValueError: both sizes are named
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  ====================================================

    Args:
      workload: float[m, k], a query a row; or an `Operator`.
      epsilon: privacy parameter, > 0.

    Raises:
      ValueError: an argument is out of range, or the workload is empty or not finite.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import LaplaceQueries
      >>> protocol = LaplaceQueries(jaxdp.workloads.prefix(4), epsilon=1.0)
      >>> round(protocol.worst_case_variance(1), 2)  # columns are within 1.5 of (1/2, 1/2, 1/2, 1)
      12.53

    References:
      Dwork, McSherry, Nissim, Smith (2006), Calibrating noise to sensitivity in private data
      analysis.
    """

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())

    def validate(self) -> None:
        """Raises ValueError where no noise serves epsilon."""
        self.encoding()

    def _encode(self) -> Encoding[Laplace]:
        """A value's vector is its column, minus a constant for each query."""
        workload = self.workload.values
        middle = (workload.min(axis=1) + workload.max(axis=1)) / 2
        median = np.quantile(workload, 0.5, axis=1, method="lower")  # a value that is taken
        offset = min(
            (np.zeros_like(middle), middle, median),
            key=lambda c: np.abs(workload - c[:, None]).sum(axis=0).max(),
        )
        vectors, bound = column_vectors(workload, offset, 1)
        return Encoding(vectors, None, offset, Laplace(self.epsilon, bound, self.num_queries))
