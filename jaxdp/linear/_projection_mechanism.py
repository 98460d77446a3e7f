"""The projection mechanism for linear queries."""

from typing import Any

import numpy as np

from .._checks import Boolean, Epsilon, Real
from .._contract import field, spec
from .._queries import WORKLOAD
from ..randomizers import MeanRandomizer, PrivUnitG
from ._encoded import (
    RANDOMIZER,
    EncodedProtocol,
    Encoding,
    VectorMaker,
    ball_center,
    column_vectors,
    make_randomizer,
)
from ._projected import ProjectedProtocol


@spec
class ProjectionMechanism(ProjectedProtocol):
    """The projection mechanism: users report randomized columns, the mean is projected on the hull.

    A user with value v sends a randomized `W_v - u`, u a point with all columns in a small ball
    around it (`shift`), and the mean of the reports plus u is projected onto the hull of the
    columns. For the sum of squared errors of many queries and few users, it is the protocol of
    least worst error up to `sqrt(log k)`.

    Formal guarantees:
      * Privacy: the randomizer's, pure epsilon-LDP for `PrivUnitG`.
      * `E |answers - W h|**2 <= C**2 sqrt(2 s log(k) / n)` on every data set, C the radius of the
        ball and s a little more than the variance of a report of the unit ball in one direction
        (for `PrivUnitG`; others have a term in 1/n). The predictions are this proven bound or that
        of the raw estimate, whichever is less; see `Projected`.

    Edge cases:
      ==================================  ====================================================
      all columns equal                   noise for C = 1; the answer is that column
      population of another domain size   ValueError: both sizes are named
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  ====================================================

    Args:
      workload: float[m, k], a query a row; or an `Operator`.
      epsilon: privacy parameter.
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius, such as `PrivUnitG`, `PrivUnit`, `functools.partial(Gaussian, delta=1e-6)`.
      shift: whether to centre the columns; u = 0 without.
      tol: as of `Projected`.

    Raises:
      ValueError: an argument is out of range, or the workload is empty or not finite.
      TypeError: an argument is of the wrong kind, or is traced, or `randomizer` needs more.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.linear import ProjectionMechanism
      >>> protocol = ProjectionMechanism(jaxdp.workloads.parity(6, 3), epsilon=1.0)
      >>> population = jaxdp.Population.from_histogram([100] * 64)
      >>> jaxdp.run(protocol, population, jax.random.key(0)).shape
      (42,)

    References:
      Ghazi et al. (2023), Theorem 19 (in its proof `<Z, mu - W h>` is not at most the largest
      `<Z, w>`, w of the polytope, but its mean is); Blasiok, Bun, Nikolov, Steinke (2019), Towards
      instance-optimal private query release.
    """

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)
    shift: bool = field(Boolean(), default=True)
    tol: float = field(Real(0.0, 1.0), default=1e-6)

    onto = "hull"
    below = None

    def validate(self) -> None:
        """Raises unless the randomizer can be made."""
        self.protocol.validate()

    @property
    def protocol(self) -> "ColumnQueries":  # pyright: ignore[reportIncompatibleVariableOverride]
        """The protocol whose unbiased estimate is projected."""
        return ColumnQueries(self.workload, self.epsilon, self.randomizer, self.shift)


@spec
class ColumnQueries(EncodedProtocol[MeanRandomizer]):
    """Every user sends its column of the workload, randomized; reports are averaged.

    What `ProjectionMechanism` projects, with the same arguments, privacy, edge cases and errors
    raised.

    Formal guarantees:
      * Privacy: the randomizer's, pure epsilon-LDP for `PrivUnitG`.
      * Bias: none, up to the rounding of the columns to float32.
      * Variance: exact in `variance` and the other predictions; for `PrivUnitG` that of each answer
        is at most `C**2 sigma**2 / n`, sigma**2 the variance of a report of the unit ball and C the
        radius of a ball around the columns.

    Example:
      >>> import jaxdp
      >>> from jaxdp.linear import ColumnQueries, ProjectionMechanism
      >>> raw = ColumnQueries(jaxdp.workloads.prefix(4), epsilon=1.0)
      >>> raw == ProjectionMechanism(raw.workload, epsilon=1.0).protocol
      True
    """

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray
    epsilon: float = field(Epsilon())
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)
    shift: bool = field(Boolean(), default=True)

    def validate(self) -> None:
        """Raises unless the randomizer can be made."""
        self.encoding()

    def _encode(self) -> Encoding[MeanRandomizer]:
        """A value's vector is its column, minus the center of a ball around all columns."""
        workload = self.workload.values
        offset = ball_center(workload) if self.shift else np.zeros(len(workload))
        vectors, radius = column_vectors(workload, offset)
        randomizer = make_randomizer(self.randomizer, len(workload), self.epsilon, radius)
        return Encoding(vectors, None, offset, randomizer)
