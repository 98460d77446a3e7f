"""Exact sums of products of counts, and the checks the kernels share."""

from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ..._checks import Choice
from ..._spec import as_array

Form = Literal["u", "v"]
FORM = Choice("u", "v")

_LIMB = 27


def exact_dot(a: Int[np.ndarray, "..."], b: Int[np.ndarray, "..."]) -> int:
    """The exact sum of a * b over all entries, for integers of absolute value below 2**53."""
    # Two limbs of 27 bits for each factor: no product and no sum leaves int64.
    total, mask = 0, (1 << _LIMB) - 1
    a, b = (np.asarray(x, np.int64) for x in (a, b))
    for i, left in enumerate((a & mask, a >> _LIMB)):
        for j, right in enumerate((b & mask, b >> _LIMB)):
            product = left * right
            high, low = int((product >> _LIMB).sum()), int((product & mask).sum())
            total += ((high << _LIMB) + low) << (_LIMB * (i + j))
    return total


def num_pairs(num_users: int, form: str) -> int:
    """The number of ordered pairs a statistic averages over, n (n - 1) or n**2."""
    if form == "v":
        return num_users**2
    if num_users < 2:
        raise ValueError(
            f"a U-statistic needs at least 2 users, got {num_users}; form='v' also counts the pair "
            "of a user with itself."
        )
    return num_users * (num_users - 1)


def check_points(values: ArrayLike, num_rows: int, dim: int | None) -> Float[np.ndarray, "m d"]:
    """Returns users' values, a row for each, or raises unless they are finite."""
    points = as_array("values", values)
    if not (np.issubdtype(points.dtype, np.integer) or np.issubdtype(points.dtype, np.floating)):
        raise TypeError(f"values must be of integers or floats, got dtype {points.dtype}.")
    points = points.astype(np.float64)
    if points.ndim == 1 and dim in (None, 1):
        points = points[:, None]
    if points.ndim != 2 or points.shape[0] != num_rows or dim not in (None, points.shape[1]):
        shape = f"[{num_rows}]" if dim == 1 else f"[{num_rows}, {dim or 'd'}]"
        raise ValueError(f"values must have shape {shape}, got {np.shape(values)}.")
    if not np.all(np.isfinite(points)):
        raise ValueError("values must be finite, got NaN or inf; drop those rows.")
    return points


def grouped(
    points: Float[np.ndarray, "m d"], counts: Int[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, "g d"], Int[np.ndarray, " g"]]:
    """The distinct rows in increasing order, and the number of users at each."""
    order = np.lexsort(points.T[::-1])
    points, counts = points[order], counts[order]
    first = np.ones(len(points), bool)
    first[1:] = np.any(points[1:] != points[:-1], axis=1)
    labels = np.cumsum(first) - 1
    return points[first], group_counts(labels, counts, labels[-1] + 1)


def group_counts(
    labels: Int[np.ndarray, " m"], counts: Int[np.ndarray, " m"], size: int | np.integer
) -> Int[np.ndarray, " g"]:
    """The sum of the counts with each label; exact, for the total is below 2**53."""
    return np.bincount(labels, weights=counts, minlength=size).astype(np.int64)
