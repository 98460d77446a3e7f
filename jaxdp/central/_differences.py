"""The factorization norms of all differences of two columns of a matrix.

Replacing one user moves the answers by a difference of two columns of the workload, W (e_x - e_y).
So the norm of the workload of all differences is what the replacement of a user costs, and rows may
be shifted freely. Its k (k - 1)/2 columns need not be stored: weights q on pairs are a graph whose
Laplacian B diag(q) B^T stands for them.
"""

import dataclasses

import numpy as np

_POWER = 1.5  # exponent of the multiplicative updates of the weights
_FLOOR = 1e-9  # of the weights, relative to uniform ones
_ROUNDING = 1e-14  # relative: differences below this are none
_RANK = 1e-11  # singular values below this share of the largest one are zero


@dataclasses.dataclass(frozen=True)
class Differences:
    """Factors of the differences of columns, and the two bounds that they prove.

    Attributes:
      left: float64[l, m].
      right: float64[l, k]: W - left^T right has constant rows.
      upper: float64: the size of left (its largest column norm, or the root of their mean square)
        times the largest distance of two columns of right.
      lower: float64, at most the norm.
    """

    left: np.ndarray
    right: np.ndarray
    upper: float
    lower: float


def factor_differences(
    matrix: np.ndarray, norm: str, *, tol: float = 1e-3, max_steps: int = 300
) -> Differences:
    """Factors of the differences of the columns of a matrix, within `tol` of the best if possible.

    With p and q probability weights on rows and pairs, F(p, q) = tr S for the square root S of
    `D_p^(1/2) W B D_q B^T W^T D_p^(1/2)` is concave, and its maximum is the norm: gamma_2, or
    gamma_F where p is uniform. Every F(p, q) is a lower bound, and its S gives factors. The weights
    move by `p_i *= Y_i^w`, `q_e *= Z_e^w`, with Y_i and Z_e the squared norms and distances that
    the factors have at i and e, relative to their means: at the optimum none is above the mean.

    Args:
      matrix: float64[m, k].
      norm: "gamma2" or "gamma_f".
      tol: relative gap at which to stop.
      max_steps: upper limit on the number of steps.
    """
    m, k = matrix.shape
    size = np.abs(matrix).max()
    matrix = matrix - matrix.mean(axis=1, keepdims=True)
    if np.abs(matrix).max() <= _ROUNDING * size:
        return Differences(np.zeros((0, m)), np.zeros((0, k)), 0.0, 0.0)
    rows = np.full(m, 1 / m)
    pairs = (1 - np.eye(k)) / (k * (k - 1) / 2)
    row_floor, pair_floor = _FLOOR * rows, _FLOOR * pairs
    lower, best = 0.0, Differences(np.zeros((0, m)), np.zeros((0, k)), np.inf, 0.0)
    for _ in range(max_steps):
        values, vectors = np.linalg.eigh(np.diag(pairs.sum(axis=1)) - pairs)
        edges = vectors * np.sqrt(np.maximum(values, 0))
        weighted = np.sqrt(rows)[:, None] * matrix
        basis, sizes, _ = np.linalg.svd(weighted @ edges, full_matrices=False)
        kept = sizes > _RANK * sizes[0]
        basis, roots = basis[:, kept], np.sqrt(sizes[kept])
        value = sizes.sum()
        left = (basis * roots).T / np.sqrt(rows)
        right = (basis / roots).T @ weighted
        row_ratio = np.sum(left**2, axis=0) / value
        pair_ratio = squared_distances(right) / value
        size = row_ratio.max() if norm == "gamma2" else 1.0
        upper = value * np.sqrt(size * pair_ratio.max())
        lower = max(lower, value)
        if upper < best.upper:
            best = Differences(left, right, float(upper), 0.0)
        if best.upper <= (1 + tol) * lower:
            break
        pairs = np.maximum(pairs * pair_ratio**_POWER, pair_floor)
        pairs /= pairs.sum() / 2
        if norm == "gamma2":
            rows = np.maximum(rows * row_ratio**_POWER, row_floor)
            rows /= rows.sum()
    return dataclasses.replace(best, lower=float(min(lower, best.upper)))


def squared_distances(columns: np.ndarray) -> np.ndarray:
    """The squared distance of every two columns, float64[k, k] of float64[l, k]."""
    centred = columns - columns.mean(axis=1, keepdims=True)
    squares = np.sum(centred**2, axis=0)
    found = squares[:, None] + squares[None, :] - 2 * (centred.T @ centred)
    return np.maximum(found, 0.0)
