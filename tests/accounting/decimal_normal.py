"""The Gaussian mechanism's delta in hundreds of decimal digits, with nothing but `decimal`."""

import decimal
from decimal import Decimal

CONTEXT = decimal.Context(prec=450, Emin=-999999, Emax=999999)


def lower_tail(x: Decimal) -> Decimal:
    """Phi(x): 1/2 plus phi(x) times the sum of x**(2j+1) / (2j+1)!!, for |x| up to 40."""
    term, total, j = x, x, 1
    while abs(term) > abs(total) * Decimal(10) ** -440:
        term *= x * x / (2 * j + 1)
        total += term
        j += 1
    return Decimal("0.5") + total * (-x * x / 2).exp() / (2 * exact_pi()).sqrt()


def exact_pi() -> Decimal:
    """pi, by Machin's formula."""
    if not hasattr(exact_pi, "value"):
        exact_pi.value = 4 * (4 * _arctan_of_inverse(5) - _arctan_of_inverse(239))
    return exact_pi.value


def _arctan_of_inverse(m: int) -> Decimal:
    power, total, j = Decimal(1) / m, Decimal(0), 0
    while abs(power) > Decimal(10) ** -448:
        total += power / (2 * j + 1)
        power /= -m * m
        j += 1
    return total


def log_delta(epsilon: float, sensitivity: float, sigma: float) -> Decimal:
    """ln(delta), exact for these floats to 100 digits or more."""
    with decimal.localcontext(CONTEXT):
        e, ratio = Decimal(epsilon), Decimal(sensitivity) / Decimal(sigma)
        first = lower_tail(ratio / 2 - e / ratio)
        return (first - e.exp() * lower_tail(-ratio / 2 - e / ratio)).ln()
