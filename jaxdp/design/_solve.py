"""Inverting predictions: the least epsilon, or number of users, with a given error."""

import math
from collections.abc import Callable

from .._prediction import Prediction

_EPSILONS = 2.0**-10, 2.0**5
_USERS = 2, 2**42  # sums of vectors are kept in 63 bits
_FACTORS = 2.0**-60, 2.0**60
_NEAR = 0.01  # to the largest epsilon that a mechanism takes, relative


def least_epsilon(
    error: Callable[[float], Prediction],
    target: float,
    start: float = 1.0,
    tol: float = 1e-4,
    name: str = "epsilon",
) -> tuple[float, Prediction]:
    """The least epsilon in [2**-10, 2**5] with at most this error, and the error.

    Args:
      error: falls with epsilon; raises ValueError where no mechanism can be built.
      target: > 0.
      start: a guess.
      tol: the epsilon is larger than the least one by at most this share.
      name: of what is too small, for an error message.

    Raises:
      ValueError: no epsilon is large enough.
    """
    return _least(name, error, target, start, *_EPSILONS, tol)


def least_users(
    error: Callable[[int], Prediction], target: float, start: int = 10_000, tol: float = 1e-4
) -> tuple[int, Prediction]:
    """The least number of users from 2 to 2**42 with at most this error, and the error.

    Args:
      error: falls with the users; raises ValueError for too few or too many.
      target: > 0.
      start: a guess.
      tol: the number is larger than the least one by at most this share, or by 1.

    Raises:
      ValueError: no number of users is large enough.
    """
    users, found = _least("users", lambda n: error(math.ceil(n)), target, start, *_USERS, tol)
    return math.ceil(users), found


def least_factor(error: Callable[[float], Prediction], tol: float = 1e-4) -> float:
    """The least factor in [2**-60, 2**60] for which a quantity that falls with it is at most 1.

    Args:
      error: of the factor; raises ValueError where the factor is too small to be asked for.
      tol: the factor is larger than the least one by at most this share.

    Raises:
      ValueError: no factor is large enough.
    """
    return _least("a factor", error, 1.0, 1.0, *_FACTORS, tol)[0]


def _least(
    name: str,
    error: Callable[[float], Prediction],
    target: float,
    start: float,
    low: float,
    high: float,
    tol: float,
) -> tuple[float, Prediction]:
    """Doubles or halves until the target is between two numbers, then draws a line between them."""
    above, below, found, over = start, start / 2, error(start), math.inf
    ceiling, why = high, ""
    while found > target:
        below, over = above, found
        if below >= ceiling / (1 + _NEAR):
            raise ValueError(f"needs {name} above {below:.4g}, where its error is {found:.3g}{why}")
        above = min(2 * below, math.sqrt(below * ceiling) if why else ceiling)
        try:
            found = error(above)
        except ValueError as reason:  # too large a number for this mechanism
            ceiling, above, why = above, below, f", and it is refused above: {reason}"
    best = found
    if math.isinf(over):  # the guess was enough
        while below >= low:
            try:
                found = error(below)
            except ValueError:  # too small a number to build or predict anything
                break
            if found > target:
                over = found
                break
            above, below, best = below, below / 2, found
        else:
            return above, best
    line = True
    while (width := above / below) > 1 + tol:
        middle = math.sqrt(above * below)
        # The logarithm of an error is about linear in that of a number. Aim past the root at the
        # end that is further from it, so that both come near; or at the middle after a poor aim.
        if line and 0 < best < over < math.inf:
            root = below * width ** (math.log(over / target) / math.log(over / best))
            past = 1 + tol / 2 if root < middle else 1 / (1 + tol / 2)
            middle = root * past if below < root * past < above else middle
        try:
            found = error(middle)
        except ValueError:
            below, over = middle, math.inf
            continue
        if found <= target:
            above, best = middle, found
        else:
            below, over = middle, found
        line = not line or above / below < math.sqrt(width)
    return above, best
