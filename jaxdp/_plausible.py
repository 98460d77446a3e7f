"""Data sets that would explain an estimate, for the errors that depend on the data."""

import numpy as np
from jaxtyping import Float, Int64
from numpy.typing import ArrayLike

from .projections import hull, simplex

_MOST = 2**24  # entries of a matrix whose hull is searched for an explanation


def plausible_counts(estimate: ArrayLike, num_users: int) -> Int64[np.ndarray, " k"]:
    """The counts of so many users nearest to estimated ones.

    Args:
      estimate: float[k], counts or shares, up to a factor; they may be negative.
      num_users: n.
    """
    counts = np.asarray(estimate, np.float64)
    total = counts.sum()
    shares = np.asarray(simplex(counts * (1.0 / total if total > 0 else 1.0)), np.float64)
    return _whole(shares, num_users)


def explaining_counts(
    answers: ArrayLike, matrix: Float[np.ndarray, "m k"], num_users: int
) -> Int64[np.ndarray, " k"] | None:
    """Counts of so many users of whom linear queries have answers nearest to estimated ones.

    Of the many that there may be, one; None where the matrix is too large for a search.

    Args:
      answers: float[m], estimated `matrix @ histogram`.
      matrix: a row for each query.
      num_users: n.
    """
    if matrix.size > _MOST:
        return None
    found = hull(np.asarray(answers, np.float64), matrix, tol=1e-4, float64=True)
    return _whole(np.asarray(found.weights, np.float64), num_users)


def _whole(shares: np.ndarray, num_users: int) -> np.ndarray:
    """Whole numbers in proportion to shares, of a given sum: those of the largest rests are up."""
    exact = shares * (num_users / shares.sum())
    counts = np.floor(exact).astype(np.int64)
    left = num_users - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:left]] += 1
    return counts
