"""Semidefinite matrices, whose norm is on their diagonal."""

import numpy as np
from jax.typing import ArrayLike

from .._factors import principal_axes
from .._inputs import check_symmetric, one_matrix
from .._result import Factorization
from ._claim import claim

_ROUNDING = 1e-13  # of an eigenvalue, for each row of a matrix with a diagonal of ones


def semidefinite(matrix: ArrayLike) -> Factorization:
    """W = ±Aᵀ·A for a positive or negative semidefinite matrix: γ2 is its largest diagonal entry.

    That no factors are shorter follows from that entry alone: it is the product of two columns. One
    eigendecomposition takes the place of a solver. Distances on a line, for instance, are negative
    semidefinite minus the middle of their range: Σ_t w_t·(1 − s_t·s_tᵀ)/2 with signs s_t.

    Args:
      matrix: float[k, k], symmetric and semidefinite.

    Returns:
      Factorization with `signs` all +1 or all −1, and as many rows as the matrix has rank.

    Raises:
      ValueError: the matrix is not symmetric, or has eigenvalues of both signs.

    Example:
      >>> import numpy as np
      >>> from jaxdp.factorization import explicit
      >>> distances = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
      >>> f = explicit.semidefinite(distances - 2)
      >>> round(float(f.upper), 6), f.rank, f.signs.tolist()
      (2.0, 4, [-1.0, -1.0, -1.0, -1.0])

    References:
      Ghazi et al. (2023), Section 3, for factors with signs.
    """
    dense = check_symmetric(one_matrix(matrix))
    sign = -1.0 if np.trace(dense) < 0 else 1.0
    diagonal = sign * np.diagonal(dense)
    # Rows of very different sizes keep their precision beside a diagonal of ones.
    root = np.sqrt(np.maximum(diagonal, 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    rounding = _ROUNDING * len(dense)
    cosines = sign * dense * inverse[:, None] * inverse
    stray = np.abs(dense[root == 0]).max(initial=0.0)
    definite = diagonal.min() >= 0 and stray == 0 and np.abs(cosines).max() <= 1 + rounding
    values, vectors = np.linalg.eigh(cosines if definite else -np.eye(1))
    if values[0] < -rounding:
        raise ValueError(
            "matrix must be positive or negative semidefinite; it has eigenvalues of both signs."
        )
    rows = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * root
    used = values > rounding
    rows = rows[used] if used.any() else rows[:1]
    rows = principal_axes(rows).T @ rows
    place = np.zeros(len(dense))
    place[np.argmax(diagonal)] = 1.0
    signs = np.full(len(rows), sign)
    return claim(dense, rows, sign * rows, sign * np.diag(place), place, place, signs)
