"""Users who hold rows of features: checks, and exact means of products of features."""

import numpy as np

from ._spec import as_array


def check_rows(inputs, num_features: int) -> np.ndarray:
    """Rows as an array of shape [rows, n], or raises ValueError."""
    if inputs is None or np.ndim(inputs) != 2 or np.shape(inputs)[1] != num_features:
        raise ValueError(
            f"inputs must have shape [rows, {num_features}], a row of features each, got "
            f"{None if inputs is None else np.shape(inputs)}."
        )
    return as_array("inputs", inputs)


def check_binary_rows(inputs, num_features: int, sparsity: int | None) -> np.ndarray:
    """Rows of 0 and 1 as bool[rows, n], or raises ValueError naming the first wrong one.

    Args:
      inputs: float[rows, n].
      num_features: n.
      sparsity: the largest number of ones in a row; None for n.
    """
    rows = check_rows(inputs, num_features)
    wrong = np.flatnonzero(~np.all((rows == 0) | (rows == 1), axis=1))
    if wrong.size:
        raise ValueError(f"features must be 0 or 1, got {rows[wrong[0]]} in row {wrong[0]}.")
    rows = rows == 1
    if sparsity is not None:
        wrong = np.flatnonzero(rows.sum(axis=1) > sparsity)
        if wrong.size:
            raise ValueError(
                f"sparsity must be at least the features of every user: row {wrong[0]} has "
                f"{rows[wrong[0]].sum()}, more than {sparsity}; raise it, or drop features of that "
                "user."
            )
    return rows


def mean_products(weights: np.ndarray, rows: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """The weighted sums over the rows of the product of the features in each set, float64[N].

    Args:
      weights: float64[rows].
      rows: bool[rows, n] or float64[rows, n].
      sets: int[N, w], features; n stands for none.
    """
    if len(rows) != len(weights):
        raise ValueError(f"inputs must have a row for each of {len(weights)} counts.")
    # A column of ones, for the elements that a set lacks.
    features = np.concatenate([rows, np.ones((len(rows), 1), rows.dtype)], axis=1)
    found = np.empty(len(sets))
    for start in range(0, len(sets), 256):
        # A few sets at a time: the products of all would take N·rows·w numbers.
        some = slice(start, start + 256)
        found[some] = weights @ features[:, sets[some]].prod(axis=2)
    return found
