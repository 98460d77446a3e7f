"""A kernel of degree 2 that jaxdp does not have, written from its public names."""

import numpy as np

from jaxdp.engine import checks, field, spec
from jaxdp.pairwise import Grid, Kernel, ProductGrid


@spec
class CorrelationIntegral(Kernel):
    """The share of pairs of users whose values are at most `radius` apart.

    Its growth with the radius is the correlation dimension of the data.

    Args:
      radius: r >= 0.

    References:
      Grassberger, Procaccia (1983), Characterization of strange attractors.
    """

    radius: float = field(checks.Real(0.0, closed=True), default=1.0)

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """1 where `|x - y| <= r`, else 0."""
        return (abs(x - y) <= self.radius).astype(np.float64)

    def extremes(self, grid: Grid | ProductGrid) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest value on each pair of bins; exact."""
        low, high = _ends(grid)
        nearest = np.maximum(np.maximum(low[:, None] - high, low - high[:, None]), 0.0)
        farthest = np.maximum(high[:, None] - low, high - low[:, None])
        return self(farthest, np.zeros(())), self(nearest, np.zeros(()))

    def average(self, grid: Grid | ProductGrid) -> np.ndarray:
        """The mean over each pair of bins: a share of the area of a box; exact."""
        low, high = _ends(grid)
        a, b, c, d = low[:, None], high[:, None], low, high

        def below(distance: float) -> np.ndarray:
            """The area of `x - y <= distance`, by its corners."""
            one, two, three, four = (
                np.maximum(distance - at, 0.0) ** 2 / 2 for at in (a - d, b - d, a - c, b - c)
            )
            return one - two - three + four

        return (below(self.radius) - below(-self.radius)) / ((b - a) * (d - c))


def _ends(grid: Grid | ProductGrid) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper end of each bin."""
    points = grid.axes[0].points.astype(np.float64)
    return points[:-1], points[1:]
