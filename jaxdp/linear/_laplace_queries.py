"""Linear queries by Laplace noise on the columns of the workload."""

import dataclasses
import functools
from typing import Any

import numpy as np

from .._queries import check_workload
from .._spec import check_epsilon
from ..randomizers._laplace import Laplace
from ._encoded import Code, EncodedProtocol, column_code


@dataclasses.dataclass(frozen=True, slots=True)
class LaplaceQueries(EncodedProtocol):
    """Every user sends the own answers to all queries with Laplace noise; reports are averaged.

    `report = W_v - c + b (E - E')` in every coordinate, with `b = 2 B / epsilon` and B the largest
    L1 norm of a column less c. The analyst adds c back: 0, or for each query the middle or the
    median of its answers over the domain, whichever makes B least. The textbook baseline: its error
    grows with the L1 norm of the columns, where other protocols have the L2 norm.

    Formal guarantees:
      * Privacy: pure epsilon-LDP in real arithmetic; see `Laplace`.
      * Bias: none, up to the rounding of the columns to float32.
      * Variance of each answer, exact and the same for all users: `2 b**2 / n`.

    Edge cases:
      ==================================  ====================================================
      all columns equal                   noise for B = 1
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
      >>> protocol.worst_case_variance(num_users=1)  # columns are within 1.5 of (1/2, 1/2, 1/2, 1)
      18.0

    References:
      Dwork, McSherry, Nissim, Smith (2006), Calibrating noise to sensitivity in private data
      analysis.
    """

    workload: Any  # a FrozenArray, once constructed
    epsilon: float

    def __post_init__(self):
        object.__setattr__(self, "workload", check_workload(self.workload))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        self.code()

    def code(self) -> Code:
        """A value's vector is its column, less a constant for each query."""
        return _code(self)


@functools.lru_cache(maxsize=64)
def _code(protocol: LaplaceQueries) -> Code:
    workload = protocol.workload.values
    middle = (workload.min(axis=1) + workload.max(axis=1)) / 2
    median = np.quantile(workload, 0.5, axis=1, method="lower")  # a value that is taken
    offset = min(
        (np.zeros_like(middle), middle, median),
        key=lambda c: np.abs(workload - c[:, None]).sum(axis=0).max(),
    )

    def randomizer(bound):
        return Laplace(protocol.epsilon, bound, protocol.num_queries)

    return column_code(workload, offset, 1, randomizer)
