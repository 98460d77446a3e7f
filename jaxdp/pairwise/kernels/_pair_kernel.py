"""Kernels given by any function, or by a matrix."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ..._checks import By, Integer, Optional, Real
from ..._contract import field, spec
from ..._spec import FrozenArray, as_array, check_real
from ._exact import Form, num_pairs
from ._kernel import Domain, Kernel, Rule, check_matrix, domain_shape


def _function(name: str, value: object) -> Callable[..., Any]:
    if not callable(value):
        raise TypeError(
            f"{name} must be a function f(x, y), got {value!r}; for a matrix use "
            "PairKernel.from_matrix."
        )
    return value


def _range(name: str, value: object) -> tuple[float, float]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name} must be a pair of numbers, got {value!r}.")
    low, high = (check_real(name, v) for v in value)
    if not low < high:
        raise ValueError(f"{name} must increase, got {value!r}.")
    return low, high


@spec
class PairKernel(Kernel):
    """The kernel of any symmetric function f(x, y).

    On a grid, averages and extremes over a pair of bins are taken at points of them: see `Kernel`.

    Args:
      f: vectorised over NumPy arrays that broadcast; defined at the top level of a module if the
        spec is to be stored. With `dim=2` the last axis of each argument holds the coordinates.
      lipschitz: L with `|f(x, y) - f(x', y)| <= L |x - x'|` (the sum over coordinates), or None.
      value_range: (least, largest) value of f, or None; values are checked against it.
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

    f: Callable[[Any, Any], Any] = field(By(_function, (3, "none")))
    lipschitz: float | None = field(  # pyright: ignore[reportIncompatibleVariableOverride]
        Optional(Real(0.0, closed=True)), default=None
    )
    value_range: tuple[float, float] | None = field(
        Optional(By(_range, (3, (1, 0), (1,)))), default=None
    )
    dim: int = field(Integer(1, 2), default=1)  # pyright: ignore[reportIncompatibleVariableOverride]

    @staticmethod
    def from_matrix(matrix: ArrayLike) -> "MatrixKernel":
        """The kernel f(i, j) = W[i, j] on {0, .., k-1}; see `MatrixKernel`."""
        return MatrixKernel(check_matrix(matrix, "matrix"))  # pyright: ignore[reportArgumentType]

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """f(x, y), or an error when it leaves the declared range."""
        values = self.f(x, y)
        if self.value_range is not None:
            (low, high), least, most = self.value_range, np.min(values), np.max(values)
            slack = 1e-9 * (high - low)
            if least < low - slack or most > high + slack:
                raise ValueError(
                    f"value_range is ({low:g}, {high:g}), but f takes values from {least:g} to "
                    f"{most:g}; correct one of them."
                )
        return values


def _weights(name: str, value: ArrayLike) -> FrozenArray:
    return FrozenArray(check_matrix(value, name))


@spec
class MatrixKernel(Kernel):
    """The kernel f(i, j) = W[i, j] on the values {0, .., k-1}, or on the bins of a grid of k.

    Args:
      weights: float[k, k], symmetric and finite, with entries of at most 1e100.

    Raises:
      ValueError: the matrix is not square, symmetric and finite.
      TypeError: it is not an array of real numbers.

    Example:
      >>> from jaxdp.pairwise import PairKernel
      >>> PairKernel.from_matrix([[0, 1], [1, 0]]).of_counts([2, 2])
      0.6666666666666666
    """

    weights: FrozenArray = field(By(_weights, ([[0, 1], [2, 0]], [0, 1], [["a"]])))

    dim = None

    @property
    def num_bins(self) -> int:
        """k, the size of the matrix."""
        return len(self.weights.values)

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """W[x, y] of integers."""
        return self.weights.values[x, y]

    def matrices(self, domain: Domain, rule: Rule = "midpoint") -> Float[np.ndarray, "1 k k"]:
        """The matrix itself, on any domain of k bins."""
        self._check_shape(domain_shape(domain))
        return self.weights.values[None]

    def spread(self, domain: Domain) -> Float[np.ndarray, "k k"]:
        """Zero: the kernel is constant on bins."""
        return np.zeros_like(self.matrices(domain)[0])

    def of_distribution(self, p: ArrayLike, values: ArrayLike | None = None) -> float:
        """The statistic of a distribution over the bins; see `Kernel.of_distribution`."""
        if values is not None:
            raise self._no_values()
        p = np.asarray(p, np.float64)
        self._check_shape(p.shape)
        return float(p.ravel() @ self.weights.values @ p.ravel())

    def _of_table(self, counts: Int[np.ndarray, "..."], form: Form) -> float:
        flat = counts.ravel().astype(np.float64)
        total = flat @ self.weights.values @ flat
        if form == "u":
            total -= flat @ np.diagonal(self.weights.values)
        return float(total / num_pairs(int(counts.sum()), form))

    def _of_points(
        self, points: Float[np.ndarray, "m dim"], counts: Int[np.ndarray, " m"], form: Form
    ) -> float:
        raise self._no_values()

    def _no_values(self) -> ValueError:
        return ValueError(
            "values must be None: a matrix is a kernel on bins, not on what they stand for."
        )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if np.prod(shape) != self.num_bins:
            raise ValueError(
                f"num_values, the domain, must be that of the kernel's matrix, k = {self.num_bins} "
                f"bins, got shape {tuple(shape)}."
            )


def as_kernel(kernel: Kernel | ArrayLike, by_hand: bool = False, depth: int = 2) -> Kernel:
    """A kernel, or that of a matrix made symmetric, which leaves the statistic of pairs as it is.

    Args:
      kernel: a Kernel or a matrix.
      by_hand: whether factors of the matrix are given: then it must be symmetric.
      depth: how many calls up a warning points to.

    Raises:
      ValueError, TypeError: it is neither a kernel nor a matrix.
    """
    if isinstance(kernel, Kernel):
        return kernel
    matrix = as_array("kernel", kernel)
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        return PairKernel.from_matrix(check_matrix(kernel, "kernel"))  # which refuses it
    # By halves, and again by check_matrix: sums of the largest floats overflow.
    halves = matrix.astype(np.float64) / 2
    gap = 2 * np.abs(halves - halves.T).max(initial=0.0)
    if gap > 1e-9 * np.abs(matrix).max(initial=0.0):
        if by_hand:
            raise ValueError(
                "kernel must be a symmetric matrix where a factorization is given, got two "
                f"mirrored entries that differ by {gap:.3g}; average W and its transpose, and "
                "factorize that."
            )
        warnings.warn(
            f"kernel is not symmetric: two mirrored entries differ by {gap:.3g}. The mean of W and "
            "its transpose is used, which has the same statistic.",
            stacklevel=depth,
        )
        matrix = halves + halves.T  # f(x, y) and f(y, x) both occur for each pair
    return PairKernel.from_matrix(check_matrix(matrix, "kernel"))


def _kernel(name: str, value: Kernel | ArrayLike) -> Kernel:
    del name
    return as_kernel(value, depth=6)  # a warning points to who makes the spec


def _domain(
    name: str, value: int | Sequence[int] | None
) -> int | Sequence[int] | tuple[int, ...] | None:
    del name
    return tuple(value) if isinstance(value, list) else value


KERNEL = By(_kernel, ([["a"]], [[0, float("nan")], [0, 0]], [0, 1]))
"""The field `kernel`; matrices become kernels."""

NUM_VALUES = By(_domain, (-1, 1.5, "4"))
"""The field `num_values`; `PairwiseProtocol.validate` checks it."""
