"""Queries on bit vectors: parities and marginals.

The value x in [0, 2**num_bits) stands for the bits x_j = (x >> j) & 1. Subsets are ordered by size,
then lexicographically; the empty subset comes first.
"""

import itertools
import math

import numpy as np

from .._spec import check_bool, check_int
from ._dense import check_dense


def _bits(num_bits: int) -> np.ndarray:
    """The bits of all values, int64[2**num_bits, num_bits]."""
    return (np.arange(2**num_bits)[:, None] >> np.arange(num_bits)) & 1


def _subsets(num_bits: int, order: int):
    for size in range(order + 1):
        yield from itertools.combinations(range(num_bits), size)


def _check(num_bits: int, order: int, literals: int = 1) -> tuple[int, int]:
    """The arguments, or raises where the sets, times literals**|S|, are too many rows."""
    num_bits = check_int("num_bits", num_bits, low=1, high=30)
    order = check_int("order", order, low=0, high=num_bits)
    num_rows = sum(math.comb(num_bits, size) * literals**size for size in range(order + 1))
    check_dense(
        f"num_bits = {num_bits} with order = {order}",
        (max(num_rows, num_bits), 2**num_bits),  # the bits themselves are listed too
        "a smaller order, or Operator.parity, which stores no matrix",
    )
    return num_bits, order


def parity(num_bits: int, order: int) -> np.ndarray:
    """Parities of up to `order` bits: q_S(x) = Π_{j in S} (1 − 2·x_j) for `|S| <= order`.

    Args:
      num_bits: d in [1, 30].
      order: largest size of S, in [0, d].

    Returns:
      float64[Σ_{i <= order} C(d, i), 2**d] of ±1: rows of a Hadamard matrix. γ2 is the square root
      of the number of rows.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.parity(2, 1)
      array([[ 1.,  1.,  1.,  1.],
             [ 1., -1.,  1., -1.],
             [ 1.,  1., -1., -1.]])

    References:
      Edmonds, Nikolov, Ullman (2020), Corollary 5.
    """
    num_bits, order = _check(num_bits, order)
    signs = 1.0 - 2.0 * _bits(num_bits)
    return np.array([signs[:, list(s)].prod(axis=1) for s in _subsets(num_bits, order)])


def marginal(num_bits: int, order: int, *, negations: bool = False) -> np.ndarray:
    """Conjunctions of up to `order` bits: q_S(x) = Π_{j in S} x_j for `|S| <= order`.

    With `negations` every literal may be negated: q_{S,y}(x) = Π_{j in S} 1[x_j = y_j] for all y in
    {0, 1}^S, the full marginal tables.

    Args:
      num_bits: d in [1, 30].
      order: largest size of S, in [0, d].
      negations: whether negated literals are included.

    Returns:
      float64[Σ_{i <= order} C(d, i)·(2^i if negations else 1), 2**d] of 0 and 1.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.marginal(2, 2)
      array([[1., 1., 1., 1.],
             [0., 1., 0., 1.],
             [0., 0., 1., 1.],
             [0., 0., 0., 1.]])
      >>> workloads.marginal(3, 2, negations=True).shape
      (19, 8)

    References:
      Edmonds, Nikolov, Ullman (2020), Corollary 6 and Section 3.6.
    """
    literals = 2 if check_bool("negations", negations) else 1
    num_bits, order = _check(num_bits, order, literals)
    bits = _bits(num_bits)
    rows = [
        np.all(bits[:, list(s)] == np.array(y, int), axis=1)
        for s in _subsets(num_bits, order)
        for y in itertools.product((0, 1) if negations else (1,), repeat=len(s))
    ]
    return np.array(rows, np.float64)
