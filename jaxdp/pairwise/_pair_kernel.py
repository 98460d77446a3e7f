"""Kernels given by any function, or by a matrix."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._spec import FrozenArray, check_int, check_real
from ._exact import Form, num_pairs
from ._grid import AnyGrid, boxes, product_rows
from ._kernel import Kernel, check_matrix, domain_shape

_NODES = {1: 16, 2: 6}  # per coordinate, for averages
_MESH = {1: 17, 2: 5}  # per coordinate, for extremes
_NO_VALUES = "values must be None: a matrix is a kernel on bins, not on what they stand for."


@dataclasses.dataclass(frozen=True, slots=True)
class PairKernel(Kernel):
    """The kernel of any symmetric function f(x, y).

    On a grid, averages over a pair of bins take 16 Gauss-Legendre nodes per coordinate (6 in the
    plane): exact for polynomials of degree up to 31 (11) in each coordinate, and within
    `pi L w / 32` for an L-Lipschitz f in one coordinate and bins of width w. Extremes are those on
    a mesh that includes the corners, 17 values per coordinate (5 in the plane): exact where f is
    monotone in each coordinate on each bin; given `lipschitz`, `spread` adds what a mesh can miss.

    Args:
      f: vectorised over NumPy arrays that broadcast; defined at the top level of a module if the
        spec is to be stored. With `dim=2` the last axis of each argument holds the coordinates.
      lipschitz: L with `|f(x, y) - f(x', y)| <= L |x - x'|` (the sum over coordinates), or None.
      value_range: (least, largest) value of f, or None; matrices are checked against it.
      dim: the number of coordinates of a value, 1 or 2.

    Raises:
      ValueError: an argument is out of range.
      TypeError: f is not callable, or another argument is not a number.

    Example:
      >>> from jaxdp.pairwise import PairKernel
      >>> half_squared = PairKernel(lambda x, y: (x - y) ** 2 / 2)
      >>> half_squared.of_values([1.0, 2.0, 4.0])  # the sample variance
      2.3333333333333335
    """

    f: Callable[[Any, Any], Any]
    lipschitz: float | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    value_range: tuple[float, float] | None = None
    dim: int = 1  # pyright: ignore[reportIncompatibleVariableOverride]

    def __post_init__(self):
        if not callable(self.f):
            raise TypeError(
                f"f must be a function f(x, y), got {self.f!r}; for a matrix use "
                "PairKernel.from_matrix."
            )
        if self.lipschitz is not None:
            lipschitz = check_real("lipschitz", self.lipschitz, low=0.0, open_ends=False)
            object.__setattr__(self, "lipschitz", lipschitz)
        if self.value_range is not None:
            if not isinstance(self.value_range, (tuple, list)) or len(self.value_range) != 2:
                raise TypeError(f"value_range must be a pair of numbers, got {self.value_range!r}.")
            low, high = (check_real("value_range", v) for v in self.value_range)
            if not low < high:
                raise ValueError(f"value_range must increase, got {self.value_range!r}.")
            object.__setattr__(self, "value_range", (low, high))
        object.__setattr__(self, "dim", check_int("dim", self.dim, low=1, high=2))

    @staticmethod
    def from_matrix(matrix: Any) -> "MatrixKernel":
        """The kernel f(i, j) = W[i, j] on {0, .., k-1}; see `MatrixKernel`."""
        return MatrixKernel(matrix)

    def __call__(self, x, y):
        """f(x, y)."""
        return self.f(x, y)

    def _on(self, points, f):
        return self._checked(super(PairKernel, self)._on(points, f))

    def _checked(self, values: np.ndarray) -> np.ndarray:
        """The values of f, or an error when they leave the declared range."""
        if self.value_range is not None:
            low, high = self.value_range
            slack = 1e-9 * (high - low)
            if values.min() < low - slack or values.max() > high + slack:
                raise ValueError(
                    f"value_range is ({low:g}, {high:g}), but f takes values from "
                    f"{values.min():g} to {values.max():g}; correct one of them."
                )
        return values

    def _sampled(self, grid: AnyGrid, nodes: np.ndarray):
        """The values of f at nodes of [0, 1] placed in each pair of bins: rows float64[k, s, s]."""
        low, high = boxes(grid)
        unit = product_rows([nodes] * self.dim)
        points = low[:, None] + unit * (high - low)[:, None]
        if self.dim == 1:
            points = points[..., 0]
        for own in points:
            values = np.asarray(self.f(own[None, :, None], points[:, None]), np.float64)
            if values.shape != (len(points), len(unit), len(unit)):
                raise ValueError(f"f must be vectorised, got a result of shape {values.shape}.")
            yield self._checked(values)

    def _extremes(self, grid):
        found = self._sampled(grid, np.linspace(0, 1, _MESH[self.dim]))
        least, most = zip(*((v.min((1, 2)), v.max((1, 2))) for v in found), strict=True)
        return np.stack(least), np.stack(most)

    def _average(self, grid):
        nodes, weights = np.polynomial.legendre.leggauss(_NODES[self.dim])
        weights = product_rows([weights / 2] * self.dim).prod(axis=1)
        values = self._sampled(grid, (nodes + 1) / 2)
        return np.stack([np.einsum("jst,s,t->j", v, weights, weights) for v in values])

    def spread(self, domain):
        """Delta, as for every kernel; where `lipschitz` is known, an upper bound on it.

        It then also bounds the squared distance of f from the midpoint rule, whose own extremes are
        those of the mesh.
        """
        delta = super(PairKernel, self).spread(domain)
        if self.lipschitz is None or not isinstance(domain, AnyGrid):
            return delta
        low, high = boxes(domain)
        width = np.sum(high - low, axis=1)
        missed = self.lipschitz * width / (2 * (_MESH[self.dim] - 1))
        return (np.sqrt(delta) + missed[:, None] + missed) ** 2


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixKernel(Kernel):
    """The kernel f(i, j) = W[i, j] on the values {0, .., k-1}, or on the bins of a grid of k.

    Args:
      weights: float[k, k], symmetric and finite.

    Raises:
      ValueError: the matrix is not square, symmetric and finite.
      TypeError: it is not an array of real numbers.

    Example:
      >>> from jaxdp.pairwise import PairKernel
      >>> PairKernel.from_matrix([[0, 1], [1, 0]]).of_counts([2, 2])
      0.6666666666666666
    """

    weights: FrozenArray

    dim = None

    def __post_init__(self):
        weights = self.weights.values if isinstance(self.weights, FrozenArray) else self.weights
        object.__setattr__(self, "weights", FrozenArray(check_matrix(weights, "matrix")))

    def __call__(self, x, y):
        """W[x, y] of integers."""
        return self.weights.values[x, y]

    def matrices(self, domain, rule="midpoint"):
        """The matrix itself, on any domain of k bins."""
        self._check_shape(domain_shape(domain))
        return self.weights.values[None]

    def spread(self, domain):
        """Zero: the kernel is constant on bins."""
        return np.zeros_like(self.matrices(domain)[0])

    def of_distribution(self, p, values=None):
        """The statistic of a distribution over the bins; see `Kernel.of_distribution`."""
        if values is not None:
            raise ValueError(_NO_VALUES)
        p = np.asarray(p, np.float64)
        self._check_shape(p.shape)
        return float(p.ravel() @ self.weights.values @ p.ravel())

    def _of_table(self, counts, form: Form):
        flat = counts.ravel().astype(np.float64)
        total = flat @ self.weights.values @ flat
        if form == "u":
            total -= flat @ np.diagonal(self.weights.values)
        return float(total / num_pairs(int(counts.sum()), form))

    def _of_points(self, points, counts, form):
        raise ValueError(_NO_VALUES)

    def _check_shape(self, shape):
        k = self.weights.values.shape[0]
        if np.prod(shape) != k:
            raise ValueError(
                f"the domain must have the matrix's k = {k} bins, got shape {tuple(shape)}."
            )


def symmetric_kernel(kernel: Any, by_hand: bool = False, depth: int = 4) -> Any:
    """A kernel, or a matrix made symmetric, which leaves the statistic of all pairs as it is.

    Args:
      kernel: a Kernel or a matrix.
      by_hand: whether factors of the matrix are given: then it must be symmetric.
      depth: how many calls up the warning points to.
    """
    if isinstance(kernel, Kernel):
        return kernel
    matrix = np.asarray(kernel)
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        return kernel  # refused by the kernel's constructor
    matrix = matrix.astype(np.float64)
    gap = np.abs(matrix - matrix.T).max() if matrix.size else 0.0
    if not gap > 1e-9 * np.abs(matrix).max():
        return kernel
    if by_hand:
        raise ValueError(
            f"kernel must be a symmetric matrix where a factorization is given, got two mirrored "
            f"entries that differ by {gap:.3g}; average W and its transpose, and factorize that."
        )
    warnings.warn(
        f"kernel is not symmetric: two mirrored entries differ by {gap:.3g}. The mean of W and its "
        "transpose is used, which has the same statistic.",
        stacklevel=depth,
    )
    return (matrix + matrix.T) / 2
