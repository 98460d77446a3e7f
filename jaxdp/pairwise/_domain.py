"""The finite domain of a protocol: users' values are symbols, or become symbols on a grid."""

import dataclasses
import math
from typing import Any

import numpy as np

from ._exact import check_points
from ._grid import AnyGrid, Grid
from ._kernel import Domain, domain_shape
from ._moments import Users
from ._rounding import symbols


@dataclasses.dataclass(frozen=True)
class Symbols:
    """The symbols that users' values become.

    Attributes:
      domain: the number of values, the shape of their table, or a grid for real values.
      randomized: whether real values are rounded at random to the points of the grid.
    """

    domain: Domain
    randomized: bool

    @property
    def axes(self) -> tuple[Grid, ...]:
        """The grids of the coordinates; none where values are symbols."""
        return self.domain.axes if isinstance(self.domain, AnyGrid) else ()

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """For each axis of the grid what values are compared with: float32 edges, or points."""
        if self.randomized:
            return tuple(axis.points for axis in self.axes)
        return tuple(np.asarray(axis.edges, np.float32) for axis in self.axes)

    @property
    def size(self) -> int:
        """The number of symbols."""
        if self.randomized:
            return math.prod(len(p) for p in self.points)
        return math.prod(domain_shape(self.domain))

    def users(self, counts: np.ndarray, inputs: np.ndarray | None) -> Users:
        """What the users become, from what `check_inputs` returned."""
        if inputs is None:
            index = np.arange(self.size)[:, None]
            return Users(index, np.ones(index.shape), counts.astype(np.float64))
        index, weights = symbols(self.points, inputs, randomized=self.randomized)
        return Users(index, weights, counts.astype(np.float64))

    def check_inputs(self, counts: np.ndarray, inputs: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Flat counts, and the values of their bins: float64[k, dim] with a grid, None without."""
        flat = counts.ravel()
        if self.axes:
            if inputs is None:
                raise ValueError(
                    "inputs must give the values that the bins of counts stand for, since the "
                    "protocol has a grid; make the population with values=inputs."
                )
            return flat, check_points(inputs, flat.size, len(self.axes))
        if inputs is not None:
            raise ValueError("inputs must be None without a grid: values are bins.")
        if flat.size != self.size:
            raise ValueError(
                f"counts must have {self.size} entries, one for each value, got {flat.size}."
            )
        return flat, None

    def check_population(self, population) -> None:
        """Raises ValueError unless the users' values are in the domain."""
        if not self.axes:
            population.require_bins(self.size, "num_values")
            return
        if len(self.axes) == 1:
            low, high = _limits(self.axes[0])
            population.require_reals((), low=low, high=high)
            return
        population.require_reals((len(self.axes),))
        for number, axis in enumerate(self.axes):
            low, high = _limits(axis)
            column = np.asarray(population.inputs)[:, number]
            if column.min() < low or column.max() > high:
                raise ValueError(
                    f"the population's values must be in [{low:g}, {high:g}] in coordinate "
                    f"{number}, got [{column.min():g}, {column.max():g}]; rescale or clip them, or "
                    "widen the grid."
                )


def _limits(axis: Grid) -> tuple[float, float]:
    low = -math.inf if axis.low is None else axis.low
    return low, math.inf if axis.high is None else axis.high
