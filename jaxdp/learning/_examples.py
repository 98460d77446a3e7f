"""Concept matrices, and their losses on labelled examples as linear queries."""

import functools

import numpy as np
from numpy.typing import ArrayLike

from .._checks import By
from .._queries import check_workload
from .._spec import FrozenArray
from ..workloads import Operator, signed_examples


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
