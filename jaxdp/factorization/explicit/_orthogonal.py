"""Matrices with an orthogonal structure: I, rows of Hadamard matrices, 1 − I."""

import numpy as np
from jax.typing import ArrayLike

from ..._spec import check_int
from .._inputs import check_matrix
from .._result import Factorization
from ._claim import claim, uniform


def identity(num_values: int) -> Factorization:
    """I = Iᵀ·I, with γ2(I) = 1: optimal.

    Args:
      num_values: k >= 1.

    Returns:
      Factorization of the identity with upper = lower = 1.

    Example:
      >>> from jaxdp.factorization import explicit
      >>> float(explicit.identity(5).upper)
      1.0
    """
    eye = np.eye(check_int("num_values", num_values, low=1))
    weights = uniform(len(eye))
    return claim(eye, eye, eye, eye / len(eye), weights, weights, np.ones(len(eye)))


def orthogonal_rows(matrix: ArrayLike) -> Factorization:
    """W = I·W for ±1 matrices with orthogonal rows: γ2(W) = √m, optimal.

    Such are all sets of m parities, the rows of a Hadamard matrix: answering them one by one, each
    from a norm-1 coordinate of the user's vector, cannot be improved on.

    Args:
      matrix: float[m, k] of ±1 with orthogonal rows.

    Returns:
      Factorization with upper = √m = lower up to rounding.

    Raises:
      ValueError: entries other than ±1, or rows that are not orthogonal.

    Example:
      >>> from jaxdp import workloads
      >>> from jaxdp.factorization import explicit
      >>> float(explicit.orthogonal_rows(workloads.parity(3, 1)).upper)
      2.0

    References:
      Edmonds, Nikolov, Ullman (2020), Section 3.6.
    """
    dense = check_matrix(matrix)
    m, k = dense.shape[-2:]
    if dense.ndim != 2 or not np.all(np.abs(dense) == 1):
        raise ValueError("matrix must be one matrix of ±1.")
    if not np.array_equal(dense @ dense.T, k * np.eye(m)):
        raise ValueError("matrix must have orthogonal rows.")
    # √(m·k)·dual = W/√k has orthonormal rows, so γ2*(dual) ≤ 1, and ⟨W, dual⟩ = √m.
    dual = dense / (k * np.sqrt(m))
    return claim(dense, np.eye(m), dense, dual, uniform(m), uniform(k))


def gini_diversity(num_values: int) -> Factorization:
    """The matrix 1 − I, signed: γ2 = 2 − 2/k, optimal.

    1 − I = P − N with P = (1 − 1/k)·(all ones) and N = I − 1/k, both positive semidefinite, and the
    diagonal of P + N is constant, so that A = (√(1 − 1/k)·1ᵀ; I − 1/k) with signs (+1, −1, ..., −1)
    attains it. Ghazi et al. bound it by 2.

    Args:
      num_values: k >= 1.

    Returns:
      Factorization with `signs`, of rank k + 1; `right` = signs[:, None]·`left`.

    Example:
      >>> from jaxdp.factorization import explicit
      >>> round(float(explicit.gini_diversity(4).upper), 12)
      1.5

    References:
      Ghazi et al. (2023), Section 5.
    """
    k = check_int("num_values", num_values, low=1)
    ones, eye = np.ones((k, k)), np.eye(k)
    left = np.concatenate([np.sqrt(1 - 1 / k) * ones[:1], eye - ones / k])
    signs = np.concatenate([[1.0], -np.ones(k)])
    # k·dual = 2/k − I is a reflection, of spectral norm 1, and ⟨1 − I, dual⟩ = 2 − 2/k.
    dual = (2 * ones / k - eye) / k if k > 1 else np.zeros((1, 1))
    return claim(ones - eye, left, signs[:, None] * left, dual, uniform(k), uniform(k), signs)
