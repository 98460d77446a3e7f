"""Matrices of functions that are Lipschitz in their second argument."""

import numpy as np
from jax.typing import ArrayLike

from ..._spec import check_real
from .._inputs import one_matrix
from .._result import Factorization
from ._claim import claim


def _largest_entry(matrix: np.ndarray):
    """The dual witness that proves γ2(W) ≥ max abs(W), with its weights."""
    row, col = np.unravel_index(np.argmax(np.abs(matrix)), matrix.shape)
    rows, cols = np.zeros(matrix.shape[0]), np.zeros(matrix.shape[1])
    rows[row] = cols[col] = 1.0
    return np.sign(matrix[row, col]) * np.outer(rows, cols), rows, cols


def lipschitz_tree(matrix: ArrayLike, decay: float = 5 / 6) -> Factorization:
    """The binary search tree of Lemma 17: f(i, j) telescopes along the path from the root to j.

    The values 1..k are the nodes of a balanced search tree. With ℓ(t) the depth of t,
    R_tj = decay^ℓ(t)·1[t on the path of j] and L_ti = decay^(−ℓ(t))·(f(i, t) − f(i, parent(t))),
    f(i, ⊥) = 0.

    Formal guarantees:
      Let f(i, ·) be G-Lipschitz, abs(f) ≤ G·K and k ≤ K − 1, K = 2^q. An edge at depth d ≥ 1 spans
      K/2^(d+1) values and there are 2^d of them, so for 1/√2 < decay < 1 `upper` ≤ G·K·√((1 +
      1/(4·(2·decay² − 1)))/(1 − decay²)). That is 2.32·G·K at the paper's decay 5/6 and never below
      2.29·G·K. On abs(i − j) the factors attain about 1.65·K, while γ2 is k − 1 and
      `lipschitz_thresholds` attains it.

    Args:
      matrix: float[m, k] of values f(i, j); any k, any f.
      decay: θ in (0, 1).

    Returns:
      Factorization of rank k; `lower` is the largest entry.

    Example:
      >>> from jaxdp import workloads
      >>> from jaxdp.factorization import explicit
      >>> f = explicit.lipschitz_tree(workloads.lipschitz(63))
      >>> bool(62 <= f.upper <= 1.7 * 63)
      True

    References:
      Ghazi et al. (2023), Lemma 17.
    """
    dense = one_matrix(matrix)
    decay = check_real("decay", decay, low=0.0, high=1.0)
    k = dense.shape[1]
    height = k.bit_length()
    left, right = np.zeros((k, dense.shape[0])), np.zeros((k, k))
    for node in range(1, k + 1):
        low = node & -node
        # The lowest bit of a node is its reach: its subtree is node − low + 1 .. node + low − 1.
        depth = height - 1 - (low.bit_length() - 1)
        parent = _parent(node, k)
        before = dense[:, parent - 1] if parent else 0.0
        left[node - 1] = decay**-depth * (dense[:, node - 1] - before)
        right[node - 1, node - low : min(node + low - 1, k)] = decay**depth
    return claim(dense, left, right, *_largest_entry(dense))


def _parent(node: int, num_values: int) -> int:
    """The nearest ancestor of `node` that is at most `num_values`, or 0 at the root."""
    while True:
        low = node & -node
        # One level up: the next bit becomes the lowest one. Nodes beyond k are skipped.
        node = (node & ~low) | (low << 1)
        if node <= num_values:
            return node
        if low > num_values:
            return 0


def lipschitz_thresholds(matrix: ArrayLike) -> Factorization:
    """Lipschitz functions from the thresholds of the second argument: no tree, and better.

    f(i, j) = (f(i, 1) + f(i, k))/2 + Σ_{t<k} (f(i, t + 1) − f(i, t))·s_t(j) with s_t(j) = 1/2 if t
    < j and −1/2 if not.

    Formal guarantees:
      `upper` = max_i abs(f(i, 1) + f(i, k))/2 + √(k − 1)/2·max_i √(Σ_t (f(i, t + 1) − f(i, t))²) at
      most, which is ≤ max abs(f) + G·(k − 1)/2 for G-Lipschitz f. For abs(i − j) it is k − 1 = γ2:
      optimal.

    Args:
      matrix: float[m, k] of values f(i, j); any f.

    Returns:
      Factorization of rank k; `lower` is the largest entry.

    Example:
      >>> from jaxdp import workloads
      >>> from jaxdp.factorization import explicit
      >>> float(explicit.lipschitz_thresholds(workloads.lipschitz(8)).upper)
      7.0

    References:
      Ghazi et al. (2023), Lemma 17, for the statement that γ2 = O(G·k).
    """
    dense = one_matrix(matrix)
    k = dense.shape[1]
    mean = (dense[:, 0] + dense[:, -1]) / 2
    steps = np.diff(dense, axis=1).T
    sides = np.where(np.arange(1, k)[:, None] < np.arange(1, k + 1), 0.5, -0.5)
    # (A²/w² + B²)·(w² + C²) is least at w² = A·C/B, where it is (A + B·C)².
    constant = np.abs(mean).max()
    slope, spread = np.sqrt((steps**2).sum(axis=0).max(initial=0.0)), np.sqrt((k - 1) / 4)
    weight = np.sqrt(constant * spread / slope) if constant * slope > 0 else 1.0
    left = np.concatenate([mean[None, :] / weight, steps])
    right = np.concatenate([np.full((1, k), weight), sides])
    if constant == 0 and k > 1:
        left, right = left[1:], right[1:]
    return claim(dense, left, right, *_largest_entry(dense))
