"""The finite domain of a protocol: users' values are symbols, or become symbols on a grid.

Real values become symbols by the same float32 arithmetic for one traced user and on the host. A
value is a list of coordinates, one for each axis of the grid; `search(points, x)` counts the points
at or below x. Symbols are numbered in row-major order.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Int32

from ..._contract import Tree
from ..._spec import is_traced
from ...population import Population
from ..kernels._exact import check_points
from ..kernels._grid import FRACTION_BITS, AnyGrid, Grid
from ..kernels._kernel import Domain, domain_shape
from ._moments import Users

A = TypeVar("A", np.ndarray, jax.Array)
Search = Callable[[A, A], A]


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
    def points(self) -> tuple[Float32[np.ndarray, " points"], ...]:
        """For each axis of the grid what values are compared with: inner edges, or points."""
        if self.randomized:
            return tuple(axis.points for axis in self.axes)
        return tuple(np.asarray(axis.edges, np.float32) for axis in self.axes)

    @property
    def limits(self) -> Float32[np.ndarray, "axes 2"]:
        """The least and the largest value on each axis, as users hold them in float32."""
        ends = [(axis.low, axis.high) for axis in self.axes]
        infinite = [
            (-math.inf if low is None else low, math.inf if high is None else high)
            for low, high in ends
        ]
        return np.array(infinite, np.float32).reshape(-1, 2)

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

    def check_inputs(
        self, counts: np.ndarray, inputs: Tree
    ) -> tuple[np.ndarray, Float[np.ndarray, "k dim"] | None]:
        """Flat counts, and the values of their bins; None without a grid."""
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

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are in the domain."""
        if self.axes:
            check_limits(population, self.limits)
        else:
            population.require_bins(self.size, "num_values")


def check_limits(population: Population, limits: Float32[np.ndarray, "dim 2"]) -> None:
    """Raises ValueError unless each coordinate of the users' values is between its limits."""
    if len(limits) == 1:
        low, high = map(float, limits[0])
        population.require_reals((), low=low, high=high)
        return
    population.require_reals((len(limits),))
    if is_traced(population.inputs):
        return
    values = np.asarray(population.inputs)
    for number, (low, high) in enumerate(limits):
        least, most = values[:, number].min(), values[:, number].max()
        if least < low or most > high:
            raise ValueError(
                f"the population's values must be in [{low:g}, {high:g}] in coordinate {number}, "
                f"got [{least:g}, {most:g}]; rescale or clip them, or widen the grid."
            )


def host_search(points: Float[np.ndarray, " p"], x: np.ndarray) -> Int[np.ndarray, "..."]:
    """The number of points at or below each x, on the host."""
    return np.searchsorted(points, x, side="right")


def traced_search(points: Float[Array, " p"], x: Float[Array, "..."]) -> Int32[Array, "..."]:
    """The number of points at or below x; inside jit, under vmap over users."""
    # Comparing with every point vectorises; a search takes over where there are many.
    method = "compare_all" if points.shape[0] <= 64 else "scan_unrolled"
    return jnp.searchsorted(points, x, side="right", method=method).astype(jnp.int32)


def flushed(x: A, where: Callable[..., A]) -> A:
    """The float32 number with subnormal ones made zero, as some processors do before they compare.

    Args:
      x: float32[...].
      where: `numpy.where` or `jax.numpy.where`.
    """
    return where(abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)


def coordinates_of(value: Float[Array, "..."], dim: int) -> list[Float32[Array, "..."]]:
    """The coordinates of a value, traced: on the last axis where there are two."""
    value = flushed(value.astype(jnp.float32), jnp.where)
    return [value] if dim == 1 else [value[..., axis] for axis in range(dim)]


def bin_of(edges: Sequence[A], coordinates: Sequence[A], search: Search[A]) -> A:
    """The bin that holds a value."""
    index = search(edges[0], coordinates[0])
    for axis, x in zip(edges[1:], coordinates[1:], strict=True):
        index = index * (axis.shape[0] + 1) + search(axis, x)  # row-major: edges are one fewer
    return cast(A, index)


def lower_point(points: A, x: A, search: Search[A]) -> tuple[A, A]:
    """The point below a coordinate, and the probability of the next one, times 2**24, float32."""
    # A value beyond the ends is rounded to them: its fraction is clipped to 0 or 1.
    index = (search(points, x) - 1).clip(0, points.shape[0] - 2)
    low, high = points[index], points[index + 1]
    fraction = (x - low) / (high - low) * np.float32(2**FRACTION_BITS)
    rounded = fraction.round().clip(np.float32(0), np.float32(2**FRACTION_BITS))
    return cast(A, index), cast(A, rounded)


def symbols(
    points: Sequence[np.ndarray], values: Float[np.ndarray, "m dim"], *, randomized: bool
) -> tuple[Int[np.ndarray, "m c"], Float[np.ndarray, "m c"]]:
    """The symbols each value may become, and with which probabilities.

    Args:
      points: for each axis the inner edges, float32, or all points when `randomized`.
      values: those of the users.
      randomized: whether values are rounded at random: c is 2**dim then, else 1.
    """
    coordinates = list(flushed(np.asarray(values, np.float32).T, np.where))
    if not randomized:
        index = bin_of(points, coordinates, host_search)
        return index[:, None], np.ones((len(index), 1))
    lower = [lower_point(p, x, host_search) for p, x in zip(points, coordinates, strict=True)]
    indices, weights = [], []
    for corner in itertools.product((0, 1), repeat=len(points)):
        index, weight = np.zeros(len(values), np.int64), np.ones(len(values))
        for up, axis, (below, fraction) in zip(corner, points, lower, strict=True):
            index = index * len(axis) + below + up
            share = fraction.astype(np.float64) / 2**FRACTION_BITS
            weight = weight * (share if up else 1 - share)  # axes are rounded independently
        indices.append(index)
        weights.append(weight)
    return np.stack(indices, axis=1), np.stack(weights, axis=1)
