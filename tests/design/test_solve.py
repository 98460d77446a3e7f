"""Inverting errors: known roots, steps, ends."""

import math

import pytest

from jaxdp.design._solve import least_epsilon, least_users
from jaxdp.engine import Prediction


@pytest.mark.parametrize("target", [1e-3, 0.37, 1.0, 900.0])
@pytest.mark.parametrize("start", [0.01, 1.0, 20.0])
def test_a_power_is_inverted(target, start):
    epsilon, error = least_epsilon(lambda e: Prediction(0.01 / e), target, start)
    least = min(max(0.01 / target, 2.0**-10), 2.0**5)
    assert least <= epsilon <= least * 2 if least == 2.0**-10 else least * (1 + 1.1e-4)
    assert error <= target
    assert error.kind == "exact"


@pytest.mark.parametrize("users", [2, 3, 57, 9_999, 123_457, 10**9])
def test_users_are_the_least_whole_number(users):
    target = 1 / math.sqrt(users)
    found, error = least_users(lambda n: Prediction(n**-0.5, "bound"), target * (1 + 1e-12))
    assert users <= found <= users + max(1, users * 1e-4)
    assert error.kind == "bound"


def test_steps_are_found():
    epsilon, error = least_epsilon(lambda e: Prediction(1.0 if e < 0.7 else 0.1), 0.5)
    assert 0.7 <= epsilon <= 0.7 * (1 + 1e-4)
    assert error == 0.1


def test_what_is_out_of_reach_says_by_how_much():
    with pytest.raises(ValueError, match=r"needs epsilon above 32, where its error is 0\.03"):
        least_epsilon(lambda e: Prediction(1 / e), 0.01)


def test_the_largest_epsilon_of_a_mechanism_is_found():
    def error(epsilon):
        if epsilon > 22:
            raise ValueError("too large.")
        return Prediction(1 / epsilon)

    epsilon, _ = least_epsilon(error, 1 / 21)
    assert 21 <= epsilon <= 21 * (1 + 1e-4)
    with pytest.raises(ValueError, match=r"needs epsilon above 2\d.*refused above: too large"):
        least_epsilon(error, 1 / 23)


def test_the_least_epsilon_of_a_mechanism_is_found():
    def error(epsilon):
        if epsilon < 0.3:
            raise ValueError("too small.")
        return Prediction(1 / epsilon)

    assert least_epsilon(error, 100.0)[0] == pytest.approx(0.3, rel=1e-3)
