"""From real values to symbols: the same float32 arithmetic for one traced user and on the host.

A value is a list of coordinates, one for each axis of the grid. `search(points, x)` counts the
points at or below x. Symbols are numbered in row-major order.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ._grid import FRACTION_BITS

Search = Callable[[Any, Any], Any]


def host_search(points: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The number of points at or below each x, on the host."""
    return np.searchsorted(points, x, side="right")


def traced_search(points, x):
    """The number of points at or below x, int32; inside jit, under vmap over users."""
    method = "compare_all" if points.shape[0] <= 64 else "scan_unrolled"
    return jnp.searchsorted(points, x, side="right", method=method).astype(jnp.int32)


def flushed(x, where: Callable):
    """The number with subnormal ones made zero, as some processors do before they compare.

    Args:
      x: float32[...].
      where: `numpy.where` or `jax.numpy.where`.
    """
    return where(abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)


def bin_of(edges: Sequence[Any], coordinates: Sequence[Any], search: Search):
    """The bin that holds a value."""
    index = search(edges[0], coordinates[0])
    for axis, x in zip(edges[1:], coordinates[1:], strict=True):
        index = index * (axis.shape[0] + 1) + search(axis, x)
    return index


def lower_point(points: Any, x: Any, search: Search):
    """The point below a coordinate, and the probability of the next one, times 2**24, float32."""
    index = (search(points, x) - 1).clip(0, points.shape[0] - 2)
    low, high = points[index], points[index + 1]
    fraction = (x - low) / (high - low) * np.float32(2**FRACTION_BITS)
    return index, fraction.round().clip(np.float32(0), np.float32(2**FRACTION_BITS))


def symbols(
    points: Sequence[np.ndarray], values: np.ndarray, *, randomized: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The symbols each value may become, and with which probabilities.

    Args:
      points: for each axis the inner edges, float32, or all points when `randomized`.
      values: float[m, dim].
      randomized: whether values are rounded at random.

    Returns:
      int64[m, c] and float64[m, c], where c is 1, or 2**dim when `randomized`.
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
            weight = weight * (share if up else 1 - share)
        indices.append(index)
        weights.append(weight)
    return np.stack(indices, axis=1), np.stack(weights, axis=1)
