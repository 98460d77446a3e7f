"""Directed rounding between privacy parameters and rational probability ratios."""

import decimal
import math
import numbers
from fractions import Fraction

from .._spec import check_real

_LARGEST = 20_000
_CONTEXT = decimal.Context(prec=60, Emin=-9999, Emax=9999)


def exp_lower(epsilon: float) -> Fraction:
    """A rational number at most e**epsilon, and within a relative 1e-58 of it.

    Raises:
      ValueError: epsilon is beyond 20,000, where e**epsilon has thousands of digits.
    """
    epsilon = check_real("epsilon", epsilon)
    if abs(epsilon) > _LARGEST:
        raise ValueError(
            f"epsilon must be at most {_LARGEST} (and at least -{_LARGEST}), got {epsilon!r}: "
            "probability ratios are computed with fewer digits than e**epsilon has."
        )
    value = _CONTEXT.exp(decimal.Decimal(epsilon))
    return Fraction(value) * (1 - Fraction(1, 10**58))


def log_upper(ratio: Fraction) -> float:
    """The smallest float at least ln(ratio), up to the last of 60 digits.

    If `ratio <= exp_lower(epsilon)` then the result is at most `epsilon`: epsilon is itself a float
    that is at least ln(ratio).
    """
    if not isinstance(ratio, numbers.Rational):
        raise TypeError(f"ratio must be a Fraction, got {ratio!r}.")
    if ratio <= 0:
        raise ValueError(f"ratio must be > 0, got {ratio}.")
    with decimal.localcontext(_CONTEXT):  # plain operators would round to 28 digits outside of it
        # NumPy's integers are rational too, and no Decimal takes them.
        above, below = (decimal.Decimal(int(x)) for x in (ratio.numerator, ratio.denominator))
        exact = (above / below).ln()
        # A ratio may be e**nearest but for the error of 60 digits: then no step up is due.
        nearest = float(exact)
        if decimal.Decimal(nearest) < exact - abs(exact) * decimal.Decimal(10) ** -55:
            return math.nextafter(nearest, math.inf)
        return nearest
