"""The result of an explicit construction."""

import jax
import numpy as np

from .._factors import balance
from .._result import Factorization


def claim(matrix, left, right, dual, rows, cols, signs=None) -> Factorization:
    """Balances the factors of `matrix` and states the two bounds that they and `dual` prove."""
    with jax.enable_x64(True):
        left, right, upper = (np.asarray(x) for x in balance(left, right))
    lower = np.minimum(np.sum(matrix * dual), upper)
    gap = upper / lower - 1.0 if lower > 0 else np.asarray(np.inf if upper > 0 else 0.0)
    return Factorization(
        left=left,
        right=right,
        upper=upper,
        lower=lower,
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
