"""The two factors of a workload that a Gaussian factorization mechanism uses."""

import dataclasses
import functools
from typing import Any

import numpy as np

from .._spec import FrozenArray
from ..factorization import Factorization, gamma2, gamma2_approx, gamma_f
from ._differences import factor_differences, squared_distances

_TOLERANCE = 1e-3  # relative gap of the factorizations that are searched for
_RESIDUAL = 1e-8  # relative to the largest entry, what given factors may miss a workload by
_SLACK = 1e-12  # relative, added to sensitivities for the rounding of their sums


@dataclasses.dataclass(frozen=True)
class Strategy:
    """Factors of a workload: the answers on a histogram h are `left^T (right h) + shift`.

    Attributes:
      left: float64[l, m].
      right: float64[l, k].
      shift: float64[m]; 0 where a user may be absent.
      sensitivity: the largest Euclidean distance by which one user moves `right c`, c the counts.
    """

    left: np.ndarray
    right: np.ndarray
    shift: np.ndarray
    sensitivity: float


def freeze_factorization(value: Any) -> tuple[FrozenArray, ...]:
    """A factorization as hashable arrays: (right,) or (left, right), float64."""
    if isinstance(value, Factorization):
        arrays = (value.left, value.right)
    elif isinstance(value, (tuple, list)) and all(np.ndim(part) == 2 for part in value):
        arrays = tuple(value)
    else:
        arrays = (value,)
    frozen = tuple(FrozenArray(np.asarray(array, np.float64)) for array in arrays)
    for array in frozen:
        if array.values.ndim != 2 or array.values.size == 0:
            raise ValueError(
                "factorization must be None, a Factorization, a pair (left, right) of matrices, or "
                f"one strategy matrix, got an array of shape {array.values.shape}."
            )
        if not np.all(np.isfinite(array.values)):
            raise ValueError("factorization must be finite, got NaN or inf.")
    if len(frozen) not in (1, 2):
        raise ValueError(f"factorization must have one or two matrices, got {len(frozen)}.")
    return frozen


@functools.lru_cache(maxsize=32)
def find_strategy(workload: FrozenArray, norm: str, alpha: float, replace: bool) -> Strategy:
    """The best factors in a norm of a matrix within alpha of the workload, of least gamma_2.

    Where users are replaced, rows may be shifted and what counts are distances of columns, so
    differences of columns are factored; where they are removed, columns.
    """
    matrix, found = workload.values, None
    if alpha > 0:  # in either norm: there is no solver for an approximate gamma_F
        if replace:
            exact = gamma2(matrix, shift=True, tol=_TOLERANCE)
            matrix = matrix - np.asarray(exact.shift)[:, None]
        found = gamma2_approx(matrix, alpha, tol=_TOLERANCE)
        matrix = found.matrix
    if replace:
        found = differences_of(FrozenArray(matrix), norm)
    elif found is None or norm == "gamma_f":
        found = (gamma2 if norm == "gamma2" else gamma_f)(matrix, tol=_TOLERANCE)
    return _finish(workload.values, found.left, found.right, replace)


@functools.lru_cache(maxsize=32)
def differences_of(matrix: FrozenArray, norm: str):
    """`factor_differences`, cached."""
    return factor_differences(matrix.values, norm, tol=_TOLERANCE)


@functools.lru_cache(maxsize=32)
def given_strategy(
    workload: FrozenArray, factors: tuple[FrozenArray, ...], alpha: float, replace: bool
) -> Strategy:
    """Given factors, or the least-squares left factor of a given right one; or raises.

    Raises:
      ValueError: shapes do not fit, or the factors miss the workload by more than alpha.
    """
    matrix, right = workload.values, factors[-1].values
    if right.shape[1] != matrix.shape[1]:
        raise ValueError(
            f"factorization must have {matrix.shape[1]} columns on its right, one for each column "
            f"of the workload, got shape {right.shape}."
        )
    if len(factors) == 2:
        left = factors[0].values
        shape = (right.shape[0], matrix.shape[0])
        if left.shape != shape:
            raise ValueError(
                f"factorization must have a left factor of shape {shape}, a row for each row of "
                f"the right one and a column for each query, got {left.shape}."
            )
    else:
        left = _decoder(matrix, right, replace)
    strategy = _finish(matrix, left, right, replace)
    excess = np.abs(strategy.left.T @ strategy.right + strategy.shift[:, None] - matrix).max()
    if excess > alpha + _RESIDUAL * np.abs(matrix).max():
        raise ValueError(
            f"factorization must give the workload up to alpha = {alpha:g} in every entry"
            f"{' and a constant for each row' if replace else ''}, but it misses an entry by "
            f"{excess:.3g}; raise alpha, or give more rows."
        )
    return strategy


def _decoder(matrix: np.ndarray, right: np.ndarray, replace: bool) -> np.ndarray:
    """The left factor of least noise in every answer."""
    if replace:
        matrix = matrix - matrix.mean(axis=1, keepdims=True)
        right = right - right.mean(axis=1, keepdims=True)
    return np.linalg.lstsq(right.T, matrix.T, rcond=None)[0]


def _finish(matrix: np.ndarray, left: np.ndarray, right: np.ndarray, replace: bool) -> Strategy:
    """The strategy of two factors, its rows shifted to the middle of their errors."""
    shift = np.zeros(matrix.shape[0])
    if replace:
        right = right - right.mean(axis=1, keepdims=True)
        error = matrix - left.T @ right
        shift = (error.max(axis=1) + error.min(axis=1)) / 2
    return Strategy(left, right, shift, sensitivity(right, replace))


def sensitivity(right: np.ndarray, replace: bool) -> float:
    """The largest distance of two columns, or the largest norm of one, rounded up."""
    size = squared_distances(right) if replace else np.sum(right**2, axis=0)
    return float(np.sqrt(size.max())) * (1 + _SLACK * right.shape[0])
