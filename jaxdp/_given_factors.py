"""Factors of a matrix that a caller gives instead of having them computed."""

from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from ._spec import as_float64
from .factorization import Factorization


class GivenFactors(NamedTuple):
    """The parts of a given factorization.

    Attributes:
      left: float64[l, m].
      second: `right`, float64[l, k], or `signs`, float64[l].
      shift: float64[] or float64[m]; 0 where none is given.
      alpha: the largest error of an entry that a `Factorization` was made for; None for a tuple.
    """

    left: Float[np.ndarray, "l m"]
    second: Float[np.ndarray, "..."]
    shift: Float[np.ndarray, "..."]
    alpha: float | None


def as_factorization(given: object) -> Factorization | None:
    """The `Factorization` that was given; None where arrays were."""
    return given if isinstance(given, Factorization) else None


def given_factors(given: object, second: Literal["right", "signs"] = "right") -> GivenFactors:
    """The parts of a `Factorization`, or of a tuple (left, second) or (left, second, shift).

    Raises:
      TypeError: it is neither.
    """
    alpha, result = None, as_factorization(given)
    if result is not None:
        shift = 0.0 if result.shift is None else result.shift
        alpha = float(result.alpha)
        given = (result.left, result.right if second == "right" else result.signs, shift)
    if not (isinstance(given, tuple) and len(given) in (2, 3)):
        raise TypeError(
            f"factorization must be a Factorization or a tuple (left, {second}) or (left, "
            f"{second}, shift), got {type(given).__name__}."
        )
    parts: Any = (*given, 0.0)[:3]
    left, other, shift = (as_float64("factorization", x) for x in parts)
    return GivenFactors(left, other, shift, alpha)


def check_product(
    product: Float[np.ndarray, "m k"],
    matrix: Float[np.ndarray, "m k"],
    alpha: float | None,
    what: str,
) -> None:
    """Raises ValueError unless given factors multiply to a matrix, up to alpha in every entry.

    Args:
      product: of the factors, the shift added.
      matrix: what they should make.
      alpha: None for 0; a relative 1e-6 is allowed besides.
      what: the message's name of the matrix.
    """
    error, allowed = np.abs(product - matrix).max(), alpha or 0.0
    # Not `error > allowed`: NaN has to be refused.
    if not error <= allowed + 1e-6 * np.abs(matrix).max():
        raise ValueError(
            f"factorization must be within alpha = {allowed:g} of {what}, but an entry of what it "
            f"multiplies to is off by {error:g}; give closer factors, or allow it by alpha (the "
            "tolerance of a learner)."
        )
