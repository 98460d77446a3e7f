"""The analytic Gaussian mechanism, against hundreds of decimal digits."""

import math
from decimal import Decimal

import pytest

from jaxdp.accounting import gaussian_composition, gaussian_delta, gaussian_sigma
from tests.accounting.decimal_normal import log_delta

EPSILONS = (0.0, 1e-6, 0.01, 0.3, 1.0, 5.0, 20.0, 100.0)
DELTAS = (1e-300, 1e-100, 1e-20, 1e-6, 0.01, 0.5, 0.99)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sigma_is_enough_and_no_more(epsilon):
    """delta(sigma) is below delta, by less than a relative 1e-11, and computed to 1e-12."""
    for delta in DELTAS:
        sigma = gaussian_sigma(epsilon, delta, sensitivity=2.0)
        exact = log_delta(epsilon, 2.0, sigma)
        slack = float(Decimal(delta).ln() - exact)
        assert 0 <= slack < 1e-11, (delta, slack)
        assert gaussian_delta(epsilon, 2.0, sigma) == pytest.approx(float(exact.exp()), rel=1e-12)


@pytest.mark.parametrize("ratio", [1e-3, 0.1, 1.0, 3.0, 13.0, 30.0])
def test_delta(ratio):
    """Both branches: also where delta is near 1, and where the first term underflows alone."""
    for epsilon in (0.0, 0.01, 1.0, 20.0):
        exact = float(log_delta(epsilon, ratio, 1.0).exp()) if epsilon / ratio < 38 else 0.0
        assert gaussian_delta(epsilon, ratio, 1.0) == pytest.approx(exact, rel=1e-12, abs=1e-310)


def test_golden():
    """The printed noise of Bassily's Algorithm 1 for r = 1 is calibrated to r, not to 2 r."""
    assert gaussian_sigma(1.0, 1e-6, 2.0) == pytest.approx(8.449, abs=5e-4)
    printed = math.sqrt(2 * math.log(2 / 1e-6))
    assert printed == pytest.approx(5.387, abs=5e-4)
    assert gaussian_delta(1.0, 2.0, printed) == pytest.approx(6.5e-4, abs=5e-6)
    assert gaussian_delta(1.0, 1.0, printed) < 1e-6


def test_only_the_ratio_matters():
    assert gaussian_delta(1.0, 3.0, 6.0) == gaussian_delta(1.0, 1.0, 2.0)
    one, many = gaussian_sigma(1.0, 1e-6, 1.0), gaussian_sigma(1.0, 1e-6, 1e10)
    assert many == pytest.approx(1e10 * one, rel=1e-15)


def test_extremes():
    assert gaussian_delta(1.0, 1.0, 1e200) == 0.0
    assert gaussian_delta(1e300, 1.0, 1.0) == 0.0
    assert gaussian_delta(1.0, 1e200, 1.0) == 1.0
    assert gaussian_delta(0.0, 1e-9, 1.0) == pytest.approx(1e-9 / math.sqrt(2 * math.pi))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_delta(-1.0, 1.0, 1.0), "epsilon"),
        (lambda: gaussian_delta(1.0, 0.0, 1.0), "sensitivity"),
        (lambda: gaussian_delta(1.0, 1.0, 0.0), "sigma"),
        (lambda: gaussian_delta(1.0, 1e-300, 1e300), "sigma"),
        (lambda: gaussian_delta(1.0, 1.0, float("nan")), "sigma"),
        (lambda: gaussian_sigma(1.0, 0.0, 1.0), "delta"),
        (lambda: gaussian_sigma(1.0, 1.0, 1.0), "delta"),
        (lambda: gaussian_sigma(-0.1, 1e-6, 1.0), "epsilon"),
        (lambda: gaussian_sigma(1.0, 1e-6, -1.0), "sensitivity"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_compositions_of_any_ratios_end():
    """Delta of epsilon = 0 is about the ratio over sqrt(2 pi); epsilon grows as half its square."""
    half = 1e-200 / math.sqrt(2 * math.pi)
    assert gaussian_composition([1e-200], 1.01 * half) == 0
    assert 0 < gaussian_composition([1e-200], 0.99 * half) < 1e-200
    assert gaussian_composition([1e-320], 1e-6) == 0
    assert gaussian_composition([1e150], 1e-6) == pytest.approx(5e299)
    assert gaussian_composition([1.5e308] * 2, 1e-6) == math.inf
