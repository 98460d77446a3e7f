"""Labelled examples as values of a domain: (x, +1) is the value x, (x, -1) the value k + x."""

import functools

import numpy as np
from jaxtyping import Int32, Int64
from numpy.typing import ArrayLike

from .._checks import By
from .._queries import check_workload
from .._spec import FrozenArray, check_counts, check_int
from ..workloads import Operator, signed_examples


def labelled(points: ArrayLike, labels: ArrayLike, num_points: int) -> Int32[np.ndarray, " n"]:
    """The values of users who hold labelled examples, for `Population.from_values`.

    Args:
      points: int[n] in [0, num_points), the columns of the concept matrix.
      labels: [n] of +1 and -1.
      num_points: k.

    Returns:
      Values in [0, 2 k): x for (x, +1) and k + x for (x, -1).

    Raises:
      ValueError, TypeError: points or labels are out of range, or their shapes differ.

    Example:
      >>> from jaxdp.learning import labelled
      >>> labelled([0, 2, 2], [1, 1, -1], num_points=3).tolist()
      [0, 2, 5]
    """
    k = check_int("num_points", num_points, low=1, high=2**30)
    points, labels = np.asarray(points), np.asarray(labels)
    if not np.issubdtype(points.dtype, np.integer):
        raise TypeError(f"points must be integers, got dtype {points.dtype}.")
    if points.ndim != 1 or labels.shape != points.shape:
        raise ValueError(
            f"points and labels must be vectors of one length, got shapes {points.shape} and "
            f"{labels.shape}."
        )
    if points.size and not 0 <= points.min() <= points.max() < k:
        raise ValueError(
            f"points must be in [0, num_points = {k}), got {points.min()} to {points.max()}."
        )
    if labels.dtype.kind not in "if" or not np.all(np.abs(labels) == 1):
        raise ValueError("labels must be +1 or -1; map 0/1 labels by 2 y - 1.")
    return (points + k * (labels < 0)).astype(np.int32)


def labelled_histogram(positive: ArrayLike, negative: ArrayLike) -> Int64[np.ndarray, " 2k"]:
    """The histogram of labelled examples, for `Population.from_histogram`.

    Args:
      positive: int[k], the number of examples (x, +1).
      negative: int[k], the number of examples (x, -1).

    Raises:
      ValueError, TypeError: they are not counts, or of different lengths.

    Example:
      >>> from jaxdp.learning import labelled_histogram
      >>> labelled_histogram([3, 0], [1, 2]).tolist()
      [3, 0, 1, 2]
    """
    positive, negative = np.asarray(positive), np.asarray(negative)
    if positive.ndim != 1 or positive.shape != negative.shape:
        raise ValueError(
            "positive and negative must be vectors of one length, got shapes "
            f"{positive.shape} and {negative.shape}."
        )
    return check_counts(np.concatenate([positive, negative]), "positive and negative")


def check_concepts(value: ArrayLike | Operator | FrozenArray) -> FrozenArray:
    """Returns a concept matrix as float64[m, k], or raises unless all its entries are +1 or -1."""
    try:  # the same checks, under the name of this argument
        concepts = check_workload(value)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("workload", "concepts")) from None
    if not np.all(np.abs(concepts.values) == 1):
        where = tuple(int(i) for i in np.argwhere(np.abs(concepts.values) != 1)[0])
        raise ValueError(
            f"concepts must have entries +1 and -1, a row for each concept, got "
            f"{concepts.values[where]:g} at index {where}; map 0/1 concepts by 2 c - 1."
        )
    return concepts


CONCEPTS = By(
    lambda _, value: check_concepts(value), ("D", [1.0], [[0.0, 1.0]], [[float("nan")]], [[]])
)
"""The check of a field that holds a concept matrix."""


@functools.lru_cache(maxsize=64)
def loss_matrix(concepts: FrozenArray) -> FrozenArray:
    """The losses as linear queries, [m, 2 k]: 1 where c(x) differs from y."""
    # c(x) y is 1 where they agree and -1 elsewhere.
    return FrozenArray((1 - signed_examples(concepts.values)) / 2)
