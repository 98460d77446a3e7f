"""What follows from the marginals of at most k features: tables, conjunctions, consistency."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from .._spec import check_int
from .._subsets import children, joined, rank, with_each


@dataclasses.dataclass(frozen=True)
class MarginalsConsistency:
    """How far answers are from those of some data set; all are >= 0 for real ones.

    Attributes:
      smallest_cell: the smallest entry of a table of k features.
      smallest_eigenvalue: of the moment matrix of level floor(k / 2), in marginals.
      smallest_slack: the least `t y_U - sum_i y_(U + i)` with `|U|` < k; None without a sparsity.
    """

    smallest_cell: float
    smallest_eigenvalue: float
    smallest_slack: float | None


def place_of(features: Sequence[int], num_features: int, order: int) -> int:
    """The place of a set of features among the answers; raises unless it is one of at most k."""
    high = num_features - 1
    chosen = sorted(check_int("features", i, low=0, high=high) for i in features)
    if len(set(chosen)) < len(chosen) or len(chosen) > order:
        raise ValueError(
            f"features must be at most {order} distinct numbers, got {tuple(features)}."
        )
    return int(rank(np.array(chosen, np.int64), num_features)) if chosen else 0


def table_of(
    marginals: np.ndarray, features: Sequence[int], num_features: int, order: int
) -> np.ndarray:
    """The table of some features, float64[..., 2, ..., 2] of float64[..., N]."""
    width = len(features)
    chosen = [
        [feature for j, feature in enumerate(features) if (code >> (width - 1 - j)) & 1]
        for code in range(2**width)
    ]
    places = [place_of(some, num_features, order) for some in chosen]
    return _cells(marginals[..., places].reshape(*marginals.shape[:-1], *[2] * width), width)


def consistency_of(
    marginals: np.ndarray, num_features: int, order: int, sparsity: int | None
) -> MarginalsConsistency:
    """How far marginals are from those of some data set."""
    n, k = num_features, order
    if marginals.ndim != 1:
        raise ValueError(f"answers must have shape [N], got {marginals.shape}.")
    tables = marginals[children(n, k)[k]]
    cells = _cells(tables.reshape(-1, *[2] * k), k)
    slack = None
    if sparsity is not None:
        groups = with_each(n, k - 1)
        slack = float(np.min(marginals[groups] @ np.r_[sparsity, -np.ones(n)]))
    lowest = float(np.linalg.eigvalsh(marginals[joined(n, k // 2, "marginals")])[0])
    return MarginalsConsistency(float(cells.min()), lowest, slack)


def _cells(tables: np.ndarray, width: int) -> np.ndarray:
    """Cells from marginals on the last axes: entry 0 of an axis loses entry 1."""
    cells = np.array(tables)
    for axis in range(cells.ndim - width, cells.ndim):
        low = np.moveaxis(cells, axis, 0)
        low[0] -= low[1]
    return cells
