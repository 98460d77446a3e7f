"""The result of an explicit construction."""

import numpy as np

from .._factors import balance
from .._result import Factorization, relative_gap


def claim(matrix, left, right, dual, rows, cols, signs=None) -> Factorization:
    """Balances the factors of `matrix` and states the two bounds that they and `dual` prove."""
    left, right, upper = balance(left, right)
    lower = np.minimum(np.sum(matrix * dual), upper)
    with np.errstate(all="ignore"):
        gap = relative_gap(lower, upper)
    return Factorization(
        left=left,
        right=right,
        upper=np.asarray(upper),
        lower=np.asarray(lower),
        gap=np.asarray(gap),
        converged=np.asarray(gap <= 1e-12),
        num_steps=np.asarray(0, np.int32),
        dual=dual,
        row_weights=np.asarray(rows),
        col_weights=np.asarray(cols),
        alpha=np.zeros(()),
        weight=np.zeros(()),
        signs=signs,
    )


def uniform(size: int) -> np.ndarray:
    """The uniform probability vector."""
    return np.full(size, 1.0 / size)
