"""Log-probabilities in decimal arithmetic: what `jaxdp.random` computes in float64."""

import decimal
import functools
import math
from decimal import Decimal
from fractions import Fraction

CONTEXT = decimal.Context(prec=60)


@functools.cache
def log_factorial(x: int) -> Decimal:
    """log x! by Stirling's series at x + 1 >= 50, and by the product below."""
    with decimal.localcontext(CONTEXT):
        if x < 50:
            return Decimal(math.factorial(x)).ln()
        z = Decimal(x + 1)
        total = (z - Decimal("0.5")) * z.ln() - z
        total += (2 * Decimal("3.14159265358979323846264338327950288419716939937510582")).ln() / 2
        for j, bernoulli in enumerate(_BERNOULLI, start=1):
            number = Decimal(bernoulli.numerator) / Decimal(bernoulli.denominator)
            total += number / (2 * j * (2 * j - 1) * z ** (2 * j - 1))
        return total


def log_binomial(k: int, n: int, p: Fraction) -> Decimal:
    """log Binomial(n, p)(k) up to a constant that depends on n alone."""
    with decimal.localcontext(CONTEXT):
        odds = p / (1 - p)
        log_odds = (Decimal(odds.numerator) / Decimal(odds.denominator)).ln()
        return k * log_odds - log_factorial(k) - log_factorial(n - k)


def log_hypergeometric(k: int, good: int, bad: int, draws: int) -> Decimal:
    """log Hypergeometric(good, bad, draws)(k)."""
    with decimal.localcontext(CONTEXT):
        choices = [(good, k), (bad, draws - k), (good + bad, draws)]
        logs = [log_factorial(n) - log_factorial(j) - log_factorial(n - j) for n, j in choices]
        return logs[0] + logs[1] - logs[2]


def _bernoulli_numbers(count: int) -> list[Fraction]:
    """B_2, B_4, ..., B_2count."""
    values = [Fraction(1)]
    for m in range(1, 2 * count + 1):
        values.append(-sum(math.comb(m + 1, j) * values[j] for j in range(m)) / (m + 1))
    return values[2::2]


_BERNOULLI = _bernoulli_numbers(20)
