"""Prefix sums: trees and the square root of the Toeplitz matrix.

The lower bounds use uniform weights: γ2(T) ≥ ‖T‖_tr/k with the singular value decomposition of the
prefix matrix in closed form, T = Σ_j u_j·v_jᵀ/(2·sin(θ_j/2)) with θ_j = (2j − 1)π/(2k + 1), u_j(i)
∝ sin(i·θ_j), v_j(i) ∝ cos((i − 1/2)·θ_j).
"""

import numpy as np

from ..._spec import check_int
from .._inputs import check_memory
from .._result import Factorization
from ._claim import claim, uniform


def _prefix_claim(k: int, left, right) -> Factorization:
    angles = (2 * np.arange(1, k + 1) - 1) * np.pi / (2 * k + 1)
    index = np.arange(1, k + 1)[:, None]
    # Σ_i sin²(i·θ_j) = Σ_i cos²((i − 1/2)·θ_j) = (2k + 1)/4, so this is the polar factor
    # Σ_j u_j·v_jᵀ of T.
    polar = 4 / (2 * k + 1) * np.sin(index * angles) @ np.cos((index - 0.5) * angles).T
    matrix = np.tril(np.ones((k, k)))
    return claim(matrix, left, right, polar / k, uniform(k), uniform(k))


def _check_size(num_values: int) -> int:
    k = check_int("num_values", num_values, low=1)
    check_memory(8.0 * 8 * k * k, "an explicit factorization of prefix sums")
    return k


def hierarchical_prefix(num_values: int, branching: int = 2) -> Factorization:
    """Prefix sums from a tree of sums: the hierarchical histogram.

    Level t of the tree holds the sums over blocks of b^t values; a prefix of length c is the sum of
    as many blocks of each level as the digits of c in base b say.

    Formal guarantees:
      With d = number of digits of k in base b, `upper` ≤ d·√(b − 1).

    Args:
      num_values: k >= 1.
      branching: b >= 2.

    Returns:
      Factorization of the `prefix` workload; `left` selects blocks, `right` is the tree, of about
      k·b/(b − 1) rows (blocks that no prefix uses are left out).

    Example:
      >>> from jaxdp.factorization import explicit
      >>> f = explicit.hierarchical_prefix(8)
      >>> print(f.rank, round(float(f.upper), 3))
      8 3.464

    References:
      Dwork, Naor, Pitassi, Rothblum (2010); Chan, Shi, Song (2011).
    """
    k = _check_size(num_values)
    b = check_int("branching", branching, low=2)
    lengths, values = np.arange(1, k + 1), np.arange(k)
    left, right = [], []
    size = 1
    while size <= k:
        for block in range(k // size):
            # A prefix uses the whole blocks of a level after its last whole block of the next one.
            used = lengths // size > block
            used &= block >= lengths // (size * b) * b
            if used.any():
                left.append(used.astype(np.float64))
                right.append((values // size == block).astype(np.float64))
        size *= b
    return _prefix_claim(k, np.array(left), np.array(right))


def toeplitz_prefix(num_values: int) -> Factorization:
    """Prefix sums as the square of a lower triangular Toeplitz matrix, within 0.1 of optimal or so.

    T = C·C where C has the coefficients f_0 = 1, f_i = f_{i−1}·(1 − 1/(2i)) of (1 − x)^(−1/2).

    Formal guarantees:
      `upper` = Σ_{i<k} f_i² ≤ 1 + (1 + ln k)/π.

    Args:
      num_values: k >= 1.

    Returns:
      Factorization of the `prefix` workload of rank k.

    Example:
      >>> from jaxdp.factorization import explicit
      >>> print(round(float(explicit.toeplitz_prefix(8).upper), 4))
      1.7184

    References:
      Fichtenberger, Henzinger, Upadhyay (2023).
    """
    k = _check_size(num_values)
    steps = np.arange(1, k)
    coefficients = np.concatenate([[1.0], np.cumprod(1 - 1 / (2 * steps))])
    lag = np.subtract.outer(np.arange(k), np.arange(k))
    root = np.where(lag >= 0, coefficients[np.abs(lag)], 0.0)
    return _prefix_claim(k, root.T, root)
