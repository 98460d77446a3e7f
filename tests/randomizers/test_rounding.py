"""Directed rounding of exp and log, against series of Fractions."""

import math
from fractions import Fraction

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from jaxdp.randomizers._exact import exp_lower, log_upper

EPSILONS = [1e-9, 2**-20, 0.1, math.log(2), 1.0, 2.5, math.log(2**32 - 1), 22.0]


def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Rational bounds of e**x for x >= 0: a Taylor polynomial, and it with a geometric tail."""
    halvings = max(0, math.ceil(math.log2(max(float(x), 1))) + 1)
    y = x / 2**halvings
    term = total = Fraction(1)
    for n in range(1, 60):
        term = term * y / n
        total += term
    low, high = total, total + 2 * term
    for _ in range(halvings):  # rounded outwards, so that the Fractions stay short
        low = Fraction(math.floor(low**2 * 2**400), 2**400)
        high = Fraction(math.ceil(high**2 * 2**400), 2**400)
    return low, high


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exp_is_rounded_down_and_close(epsilon):
    low, high = exp_bounds(Fraction(epsilon))
    assert exp_lower(epsilon) <= low
    assert exp_lower(epsilon) >= high * (1 - Fraction(1, 10**57))


@pytest.mark.parametrize(
    "ratio",
    [
        Fraction(3, 2),
        Fraction(2**32 - 1),
        Fraction(2**31 + 1, 2**31 - 1),
        Fraction(10**9 + 1, 10**9),
    ],
)
def test_log_is_the_least_float_above(ratio):
    found = log_upper(ratio)
    assert exp_bounds(Fraction(found))[1] >= ratio
    below = math.nextafter(found, 0)
    assert exp_bounds(Fraction(below))[0] < ratio


@hypothesis.given(st.floats(1e-6, 22.0))
def test_log_of_exp_is_at_most_epsilon(epsilon):
    assert log_upper(exp_lower(epsilon)) <= epsilon


def test_log_of_one_is_zero():
    assert log_upper(Fraction(1)) == 0.0


def test_nearest_rounding_would_exceed_epsilon():
    """Negative control: for many epsilons the nearest float of e**epsilon lies above it."""
    epsilons = np.linspace(0.1, 5, 50)
    assert any(Fraction(math.exp(e)) > exp_lower(e) for e in epsilons)


def test_an_exponent_with_too_many_digits_is_named():
    assert exp_lower(20_000) > 0
    with pytest.raises(ValueError, match=r"epsilon must be at most 20000 .*got 1000000\.0"):
        exp_lower(1e6)
