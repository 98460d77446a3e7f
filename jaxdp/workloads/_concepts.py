"""Concept classes: matrices of ±1, one row a concept, one column a point; `parity` gives another.

A class C of concepts c: X → ±1 turns learning into linear queries: on labelled examples (x, y) the
correlation of c with the labels is the answer of the query c(x)·y, see `signed_examples`.
"""

import numpy as np

from .._spec import as_float64, check_int
from ._bits import _bits, marginal
from ._dense import check_dense
from ._ranges import all_range, prefix


def thresholds(num_values: int) -> np.ndarray:
    """Thresholds on an ordered domain: concept t is +1 on values <= t.

    Args:
      num_values: k >= 1.

    Returns:
      float64[k, k] of ±1.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.thresholds(2)
      array([[ 1., -1.],
             [ 1.,  1.]])
    """
    return 2.0 * prefix(num_values) - 1.0


def intervals(num_values: int) -> np.ndarray:
    """Intervals on an ordered domain: concept (a, b) is +1 on [a, b].

    Args:
      num_values: k >= 1.

    Returns:
      float64[k·(k + 1)/2, k] of ±1, ordered by a, then b.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.intervals(2)
      array([[ 1., -1.],
             [ 1.,  1.],
             [-1.,  1.]])
    """
    return 2.0 * all_range(num_values) - 1.0


def rectangles(num_rows: int, num_cols: int) -> np.ndarray:
    """Axis-aligned rectangles on a grid: +1 inside [a, b] × [c, d]; (y, z) has the index y·b + z.

    Args:
      num_rows: size of the first axis, >= 1.
      num_cols: size of the second axis, >= 1.

    Returns:
      float64[number of rectangles, num_rows·num_cols] of ±1.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.rectangles(2, 2).shape
      (9, 4)
    """
    rows, cols = (
        check_int(name, size, low=1)
        for name, size in (("num_rows", num_rows), ("num_cols", num_cols))
    )
    shape = rows * (rows + 1) * cols * (cols + 1) // 4, rows * cols
    check_dense(f"num_rows = {rows} with num_cols = {cols}", shape)
    return 2.0 * np.kron(all_range(num_rows), all_range(num_cols)) - 1.0


def conjunctions(num_bits: int, order: int, *, negations: bool = True) -> np.ndarray:
    """Conjunctions of at most `order` literals: +1 where all of them hold.

    Args:
      num_bits: d in [1, 30].
      order: largest number of literals, in [0, d].
      negations: whether literals may be negated.

    Returns:
      float64[number of conjunctions, 2**d] of ±1, ordered as in `marginal`.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.conjunctions(1, 1)
      array([[ 1.,  1.],
             [ 1., -1.],
             [-1.,  1.]])
    """
    return 2.0 * marginal(num_bits, order, negations=negations) - 1.0


def decision_stumps(num_bits: int) -> np.ndarray:
    """Single bits and their negations: +1 where x_j = 1 (first d rows), and where x_j = 0.

    Args:
      num_bits: d in [1, 30].

    Returns:
      float64[2·d, 2**d] of ±1.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.decision_stumps(1)
      array([[-1.,  1.],
             [ 1., -1.]])
    """
    num_bits = check_int("num_bits", num_bits, low=1, high=30)
    check_dense(f"num_bits = {num_bits}", (2 * num_bits, 2**num_bits))
    stumps = 2.0 * _bits(num_bits).T - 1.0
    return np.concatenate([stumps, -stumps])


def signed_examples(concepts: np.ndarray) -> np.ndarray:
    """The queries c(x)·y on labelled examples: a concept matrix D becomes (D, −D).

    Column x is the example (x, +1), column k + x the example (x, −1).

    Args:
      concepts: float[m, k] of ±1.

    Returns:
      float64[m, 2·k]: a symmetric workload in the sense of Definition 16.

    Example:
      >>> import numpy as np
      >>> from jaxdp import workloads
      >>> workloads.signed_examples(np.array([[1.0, -1.0]]))
      array([[ 1., -1., -1.,  1.]])

    References:
      Edmonds, Nikolov, Ullman (2020), Section 4.
    """
    concepts = as_float64("concepts", concepts)
    if concepts.ndim != 2 or not np.all(np.abs(concepts) == 1):
        raise ValueError("concepts must be a matrix of ±1; map 0/1 concepts by 2·c − 1.")
    return np.concatenate([concepts, -concepts], axis=1)
