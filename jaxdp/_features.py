"""Users who hold rows of features: checks, and exact means of products of features."""

import numpy as np

from ._spec import as_array, by_largest_remainders, check_choice, check_probabilities

_MOST_LISTED = 12  # features whose rows are listed


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


def all_rows(num_features: int) -> np.ndarray:
    """All rows of n features, bool[2**n, n], in binary order, first feature first."""
    return (np.arange(2**num_features)[:, None] >> np.arange(num_features)) % 2 == 1


def rows_of_users(
    prior, num_features: int, num_users: int, sparsity: int | None = None, name: str = "prior"
) -> tuple[np.ndarray, np.ndarray]:
    """How many users hold which rows: int64[m] and float32[m, n].

    Args:
      prior: float[2**n], shares of `all_rows` in any proportion; float[m, n], rows that are equally
        frequent; or "uniform" for all rows, of up to 12 features.
      num_features: n.
      num_users: their number.
      sparsity: the largest number of ones in a row; None for n.
      name: the argument's name in messages.
    """
    if isinstance(prior, str):
        check_choice(name, prior, ("uniform",))
    if isinstance(prior, str) or np.ndim(prior) == 1:
        if num_features > _MOST_LISTED:
            raise ValueError(
                f"{name} must be rows of features, [m, {num_features}]: the rows of more than "
                f"{_MOST_LISTED} features are not listed; draw some at random."
            )
        rows = all_rows(num_features)
        given = np.ones(len(rows)) if isinstance(prior, str) else as_array(name, prior)
        if given.shape != (len(rows),):
            raise ValueError(
                f"{name} must be rows of features, [m, {num_features}], or a share of each of the "
                f"{len(rows)} rows that there are, got shape {given.shape}."
            )
        shares = check_probabilities(given, name)
        rows = check_binary_rows(rows[shares > 0], num_features, sparsity)
        shares = shares[shares > 0]
    else:
        rows = check_binary_rows(prior, num_features, sparsity)
        if not len(rows):
            raise ValueError(f"{name} must have a row of features, got none.")
        shares = np.full(len(rows), 1 / len(rows))
    counts = np.asarray(by_largest_remainders(shares, num_users), np.int64)
    return counts, rows.astype(np.float32)
