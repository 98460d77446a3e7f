"""Pair matrices W[x, x'] = f(x, x') of U-statistics."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from .._spec import as_array, check_choice, check_int
from ._dense import check_dense


def sign(num_values: int, *, ties: str = "zero") -> np.ndarray:
    """The comparison matrix sgn(i − j).

    Args:
      num_values: k >= 1.
      ties: `"zero"` sets the diagonal to 0, `"plus"` to +1. The latter is the transpose of U_k of
        Ghazi et al.

    Returns:
      float64[k, k].

    Example:
      >>> from jaxdp import workloads
      >>> workloads.sign(2)
      array([[ 0., -1.],
             [ 1.,  0.]])
    """
    k = check_int("num_values", num_values, low=1)
    check_dense(f"num_values = {k}", (k, k))
    values = np.arange(k)
    check_choice("ties", ties, ("zero", "plus"))
    matrix = np.sign(np.subtract.outer(values, values)).astype(np.float64)
    if ties == "plus":
        np.fill_diagonal(matrix, 1.0)
    return matrix


def kendall(num_rows: int, num_cols: int, *, ties: str = "zero") -> np.ndarray:
    """Kendall's τ on an a×b grid: sgn(y − y')·sgn(z − z') for x = (y, z).

    The value (y, z) has the index y·b + z. With ties `"zero"` a pair that agrees in y or in z
    counts 0: this is the numerator of tau_a and tau_b. With `"plus"`, the convention of Ghazi et
    al., sgn(0) = 1 on both axes. The matrix is then not symmetric, but its quadratic form hᵀWh
    exceeds that for `"zero"` by hᵀh exactly: what else is left over is antisymmetric.

    Args:
      num_rows: a >= 1.
      num_cols: b >= 1.
      ties: `"zero"` or `"plus"`.

    Returns:
      float64[a·b, a·b], the Kronecker product of two `sign` matrices.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.kendall(2, 2)[0]
      array([0., 0., 0., 1.])

    References:
      Ghazi et al. (2023), Section 5.
    """
    a, b = check_int("num_rows", num_rows, low=1), check_int("num_cols", num_cols, low=1)
    check_dense(f"num_rows = {a} with num_cols = {b}", (a * b, a * b))
    return np.kron(sign(num_rows, ties=ties), sign(num_cols, ties=ties)) + 0.0  # no -0.0


def auc(num_scores: int) -> np.ndarray:
    """Pairs of scored and labelled examples: sgn(s − s')·sgn(y − y') with y in {0, 1}.

    The value (s, y) has the index 2·s + y. With n₊ and n₋ users of each label, the sum T over all
    ordered pairs gives AUC = 1/2 + T/(4·n₊·n₋), tied scores counting one half.

    Args:
      num_scores: k >= 1.

    Returns:
      float64[2·k, 2·k].

    Example:
      >>> from jaxdp import workloads
      >>> workloads.auc(2)[3]  # score 1, label 1
      array([1., 0., 0., 0.])
    """
    return kendall(check_int("num_scores", num_scores, low=1, high=2**13), 2)


def gini_diversity(num_values: int) -> np.ndarray:
    """Gini's diversity index: 1[x != x'], the matrix 1 − I. γ2 = 2 − 2/k.

    Args:
      num_values: k >= 1.

    Returns:
      float64[k, k].

    Example:
      >>> from jaxdp import workloads
      >>> workloads.gini_diversity(2)
      array([[0., 1.],
             [1., 0.]])
    """
    k = check_int("num_values", num_values, low=1)
    check_dense(f"num_values = {k}", (k, k))
    return 1.0 - np.eye(k)


def lipschitz(
    num_values: int, function: Callable[[np.ndarray], ArrayLike] | None = None
) -> np.ndarray:
    """A function of the distance on the grid 0, ..., k − 1: `f(|i − j|)`.

    Args:
      num_values: k >= 1.
      function: f, applied to a float64 array; the identity by default, which is Gini's mean
        difference.

    Returns:
      float64[k, k], symmetric.

    Raises:
      ValueError: f does not return one finite number for each distance.

    Example:
      >>> from jaxdp import workloads
      >>> workloads.lipschitz(3)
      array([[0., 1., 2.],
             [1., 0., 1.],
             [2., 1., 0.]])
    """
    k = check_int("num_values", num_values, low=1)
    check_dense(f"num_values = {k}", (k, k))
    distances = np.arange(k, dtype=np.float64)
    values = distances if function is None else _call(function, distances)
    return values[np.abs(np.subtract.outer(np.arange(k), np.arange(k)))]


def from_function(
    function: Callable[[np.ndarray, np.ndarray], ArrayLike],
    rows: ArrayLike,
    cols: ArrayLike | None = None,
) -> np.ndarray:
    """The matrix f(rows_i, cols_j) of any function on a grid.

    Args:
      function: f, called once with arrays of shape [m, 1] and [1, k].
      rows: [m].
      cols: [k]; `rows` by default.

    Returns:
      float64[m, k].

    Raises:
      ValueError: f does not return finite numbers of shape [m, k], or a grid is not a vector.

    Example:
      >>> import numpy as np
      >>> from jaxdp import workloads
      >>> workloads.from_function(np.maximum, [0.0, 0.5])
      array([[0. , 0.5],
             [0.5, 0.5]])
    """
    rows = as_array("rows", rows)
    cols = rows if cols is None else as_array("cols", cols)
    for name, grid in (("rows", rows), ("cols", cols)):
        if grid.dtype.kind not in "biuf":
            raise TypeError(f"{name} must be real numbers, got dtype {grid.dtype}.")
        if grid.ndim != 1 or grid.size == 0:
            raise ValueError(f"{name} must be a non-empty vector, got shape {grid.shape}.")
    check_dense(f"rows of {rows.size} and cols of {cols.size}", (rows.size, cols.size))
    return _call(function, rows[:, None], cols[None, :])


def _call(function, *arguments) -> np.ndarray:
    if not callable(function):
        raise TypeError(f"function must be a function of arrays, got {function!r}.")
    shape = np.broadcast_shapes(*(a.shape for a in arguments))
    try:
        values = np.asarray(function(*arguments), np.float64)
    except (TypeError, ValueError) as error:
        shapes = " and ".join(str(a.shape) for a in arguments)
        raise TypeError(
            f"function must take arrays, here of shape {shapes}, and return numbers: {error}"
        ) from error
    if values.shape != shape or not np.all(np.isfinite(values)):
        raise ValueError(
            f"function must return finite numbers of shape {shape}, got shape {values.shape}"
            + ("." if values.shape != shape else " with NaN or inf.")
        )
    return values
