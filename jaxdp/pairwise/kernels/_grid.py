"""Grids: how real values are cut into bins, or rounded at random to neighbouring points."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float32
from numpy.typing import ArrayLike

from ..._checked import Checked
from ..._checks import By, Optional
from ..._contract import field, spec
from ..._spec import check_epsilon, check_int, check_real

FRACTION_BITS = 24
"""A value between two points is rounded up with a probability that is a multiple of 2**-24."""

MAX_BINS = 2**16
"""Bins of one axis; a kernel is a matrix of bins by bins."""


def _float32(name: str, value: object) -> float:
    """A normal float32, or 0."""
    limits = np.finfo(np.float32)
    largest = float(limits.max)
    number = check_real(name, value, low=-largest, high=largest, open_ends=False)
    # Some processors take subnormal numbers for 0 where they compare.
    if 0 < abs(number) < limits.tiny:
        raise ValueError(f"{name} must be 0 or at least {limits.tiny:g}, got {value!r}; rescale.")
    return float(np.float32(number))


def _sequence(name: str, value: object) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a tuple, got {value!r}.")
    return value


def _edges(name: str, value: object) -> tuple[float, ...]:
    edges = tuple(_float32(name, edge) for edge in _sequence(name, value))
    if not 1 <= len(edges) < MAX_BINS:
        raise ValueError(f"{name} must make 2 to {MAX_BINS} bins, got {len(edges)} edges.")
    return edges


_END = Optional(By(_float32, (float("nan"), 1e39, 1e-40, "1")))


@spec
class Grid(Checked):
    """Bins of the real line.

    The edges `e_1 < ... < e_{k-1}` make k bins, `[low, e_1), [e_1, e_2), ..., [e_{k-1}, high]`. A
    value outside of [low, high] belongs to the nearest bin.

    Simple rounding replaces a value by its bin. *Randomized* rounding replaces it by one of the two
    neighbouring *points*, which are the k - 1 edges, low and high: from x in [a, b] to b with
    probability (x - a) / (b - a), so that the mean is x.

    Args:
      edges: increasing finite numbers; rounded to float32, in which users' values are compared.
      low: the lower end, or None for an unbounded first bin.
      high: the upper end, or None for an unbounded last bin.

    Raises:
      ValueError: the edges, or the edges with the ends, do not increase (in float32).
      TypeError: an argument is not a number.

    Example:
      >>> from jaxdp.pairwise import Grid
      >>> Grid(edges=(0.0, 15.0, 60.0)).num_bins
      4
      >>> Grid.uniform(4).edges
      (0.25, 0.5, 0.75)
    """

    edges: tuple[float, ...] = field(By(_edges, ((), (0.0, float("nan")), 0.5, None)))
    low: float | None = field(_END, default=None)
    high: float | None = field(_END, default=None)

    def validate(self) -> None:
        """Raises ValueError unless edges and ends increase."""
        everything = [e for e in (self.low, *self.edges, self.high) if e is not None]
        if any(b <= a for a, b in itertools.pairwise(everything)):
            raise ValueError(
                "edges must increase strictly in float32, from low to high, got low = "
                f"{self.low!r}, edges = {self.edges!r}, high = {self.high!r}."
            )

    @classmethod
    def uniform(cls, num_bins: int, low: float = 0.0, high: float = 1.0) -> "Grid":
        """Equal bins of [low, high].

        Args:
          num_bins: k, 2 to 2**16.
          low: the lower end.
          high: the upper end.
        """
        num_bins = check_int("num_bins", num_bins, low=2, high=MAX_BINS)
        low, high = check_real("low", low), check_real("high", high)
        if not low < high:
            raise ValueError(f"low must be below high, got low = {low!r}, high = {high!r}.")
        edges = low + (high - low) * np.arange(1, num_bins) / num_bins
        return cls(tuple(edges.tolist()), low, high)

    @property
    def axes(self) -> tuple["Grid", ...]:
        """The grids of the coordinates: this one."""
        return (self,)

    @property
    def num_bins(self) -> int:
        """The number of bins."""
        return len(self.edges) + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of bins along each axis."""
        return (self.num_bins,)

    @property
    def points(self) -> Float32[np.ndarray, " points"]:
        """The ends of all bins: the points of randomized rounding."""
        if self.low is None or self.high is None:
            raise ValueError(
                f"grid must be bounded, got low = {self.low!r}, high = {self.high!r}: the kernel "
                "has no extremes, mean or points on a bin that is not; give both ends."
            )
        return np.asarray((self.low, *self.edges, self.high), np.float32)


def _axes(name: str, value: object) -> tuple[Grid, ...]:
    axes = tuple(_sequence(name, value))
    if len(axes) != 2:
        raise ValueError(f"{name} must be two grids, got {len(axes)}; for one use Grid.")
    for axis in axes:
        if not isinstance(axis, Grid):
            raise TypeError(f"{name} must be of type Grid, got {axis!r}.")
    return axes


@spec
class ProductGrid(Checked):
    """Boxes of the plane: one grid for each coordinate, bins numbered row by row.

    Args:
      axes: two grids.

    Raises:
      ValueError: there are not two of them.
      TypeError: one is not a `Grid`.

    Example:
      >>> from jaxdp.pairwise import Grid, ProductGrid
      >>> ProductGrid((Grid.uniform(4), Grid.uniform(3))).num_bins
      12
    """

    axes: tuple[Grid, ...] = field(By(_axes, ((), (3, 3), 3, None)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of bins along each axis."""
        return tuple(axis.num_bins for axis in self.axes)

    @property
    def num_bins(self) -> int:
        """The number of bins."""
        return math.prod(self.shape)


AnyGrid = Grid | ProductGrid


def boxes(grid: AnyGrid) -> tuple[Float[np.ndarray, "k dim"], Float[np.ndarray, "k dim"]]:
    """The lower and the upper corner of every bin of a bounded grid."""
    points = [axis.points for axis in grid.axes]
    return product_rows([p[:-1] for p in points]), product_rows([p[1:] for p in points])


def bin_indices(shape: tuple[int, ...]) -> Float[np.ndarray, "k dim"]:
    """The index of every bin along each axis."""
    return product_rows([np.arange(size) for size in shape])


def product_rows(columns: Sequence[ArrayLike]) -> Float[np.ndarray, "size dim"]:
    """All combinations of one entry of each column, in row-major order."""
    # "ij" makes the last column vary fastest: row-major order
    mesh = np.meshgrid(*(np.asarray(c, np.float64) for c in columns), indexing="ij")
    return np.stack([m.ravel() for m in mesh], axis=-1)


def balanced_num_bins(num_users: int, epsilon: float, lipschitz: float) -> int:
    """The number of bins of [0, 1] that balances the errors of noise and quantisation in order.

    `k = n**(1/4) sqrt(L epsilon)`, rounded, at least 2. It equates `k**2 / (n epsilon**2)` and
    `L**2 / k**2`, each then `L / (epsilon sqrt(n))`. Constants are left out;
    `jaxdp.bounds.optimal_num_bins` has them, and suits large epsilon too.

    Args:
      num_users: n, at least 2.
      epsilon: privacy parameter, > 0.
      lipschitz: L, of the kernel in each argument or of the users' density, > 0.

    Returns:
      k.

    Example:
      >>> from jaxdp.pairwise import balanced_num_bins
      >>> balanced_num_bins(num_users=1_000_000, epsilon=1.0, lipschitz=1.0)
      32

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Corollary 1.
    """
    n = check_int("num_users", num_users, low=2)
    epsilon = check_epsilon(epsilon)
    lipschitz = check_real("lipschitz", lipschitz, low=0.0)
    # k**2 / (n epsilon**2) = L**2 / k**2: Corollary 1 without its constants
    return max(2, round(n**0.25 * math.sqrt(lipschitz * epsilon)))
