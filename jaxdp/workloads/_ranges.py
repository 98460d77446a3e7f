"""Queries on an ordered domain: points, totals, prefixes, ranges."""

import numpy as np

from .._spec import check_int
from ._dense import check_dense


def identity(num_values: int) -> np.ndarray:
    """The histogram queries: one point query a value, float64[num_values, num_values].

    As a pair matrix 1[x = x'] it gives the collision probability, whose −log is the Rényi-2
    entropy.

    Args:
      num_values: k >= 1.

    Returns:
      The identity matrix.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.identity(2)
      array([[1., 0.],
             [0., 1.]])
    """
    k = check_int("num_values", num_values, low=1)
    check_dense(f"num_values = {k}", (k, k), "linear.HistogramQuery, which stores no matrix")
    return np.eye(k)


def total(num_values: int) -> np.ndarray:
    """The single query that every user answers with 1, float64[1, num_values].

    Args:
      num_values: k >= 1.

    Returns:
      A row of ones.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.total(3)
      array([[1., 1., 1.]])
    """
    k = check_int("num_values", num_values, low=1)
    check_dense(f"num_values = {k}", (1, k))
    return np.ones((1, k))


def prefix(num_values: int) -> np.ndarray:
    """The empirical distribution function: query t counts the values <= t.

    Args:
      num_values: k >= 1.

    Returns:
      float64[k, k], ones on and below the diagonal. γ2 grows like ln(k)/π + 0.8.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.prefix(3)
      array([[1., 0., 0.],
             [1., 1., 0.],
             [1., 1., 1.]])

    References:
      Edmonds, Nikolov, Ullman (2020), Corollary 4.
    """
    k = check_int("num_values", num_values, low=1)
    check_dense(f"num_values = {k}", (k, k), "Operator.prefix, which stores no matrix")
    return np.tril(np.ones((k, k)))


def all_range(num_values: int) -> np.ndarray:
    """All range queries: one row for each pair a <= b, counting the values in [a, b].

    Args:
      num_values: k >= 1.

    Returns:
      float64[k·(k + 1)/2, k], ordered by a, then b.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.all_range(2)
      array([[1., 0.],
             [1., 1.],
             [0., 1.]])
    """
    k = check_int("num_values", num_values, low=1)
    shape = k * (k + 1) // 2, k
    check_dense(f"num_values = {k}", shape, "Operator.all_range, which stores no matrix")
    first, last = np.triu_indices(k)
    values = np.arange(k)
    return ((first[:, None] <= values) & (values <= last[:, None])).astype(np.float64)


def width_range(num_values: int, width: int) -> np.ndarray:
    """All ranges of one width: row a counts the values in [a, a + width).

    Args:
      num_values: k >= 1.
      width: 1 <= width <= k.

    Returns:
      float64[k − width + 1, k].

    Example:
      >>> from jaxdp import workloads
      >>> workloads.width_range(3, 2)
      array([[1., 1., 0.],
             [0., 1., 1.]])
    """
    k = check_int("num_values", num_values, low=1)
    width = check_int("width", width, low=1, high=k)
    check_dense(f"num_values = {k} with width = {width}", (k - width + 1, k))
    offset = np.arange(k) - np.arange(k - width + 1)[:, None]
    return ((offset >= 0) & (offset < width)).astype(np.float64)


def rademacher(num_queries: int, num_values: int, seed: int) -> np.ndarray:
    """Independent uniform signs: a workload that is as hard as any of its size.

    Args:
      num_queries: m >= 1.
      num_values: k >= 1.
      seed: of NumPy's default generator, an integer >= 0.

    Returns:
      float64[m, k] of ±1. For m = k, γ2 is about (8/3π)·√k.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.rademacher(2, 3, seed=0).shape
      (2, 3)
    """
    shape = check_int("num_queries", num_queries, low=1), check_int("num_values", num_values, low=1)
    seed = check_int("seed", seed, low=0)
    check_dense(f"num_queries = {shape[0]} with num_values = {shape[1]}", shape)
    return 2.0 * np.random.default_rng(seed).integers(0, 2, shape) - 1.0
