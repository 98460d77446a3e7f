"""Theorem 5.2 of Bassily (2019): the bound holds, and where the printed one does not."""

import math
import warnings

import numpy as np
import pytest

from jaxdp.bounds._adaptive import adaptive_max_error


def c(epsilon):
    return (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)


def error_of_one(n, epsilon, mean):
    """E|y - mean| of one query whose n users hold the same value, for r = 1, exactly."""
    size, p = c(epsilon), (1 + mean / c(epsilon)) / 2
    ones = np.arange(n + 1)
    law = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in ones]
    return np.dot(law, np.abs(size * (2 * ones / n - 1) - mean))


def error_of_two(n, epsilon):
    """E max|y_t| of two queries 0, exactly, for r = 1."""
    size, total = c(epsilon), 0.0
    for m in range(n + 1):
        means = []
        for users in (m, n - m):
            k = np.arange(users + 1)
            law = np.array([math.comb(users, i) for i in k]) / 2.0**users
            means.append((law, np.abs(2 * k / max(users, 1) - 1) * (users > 0)))
        (law, x), (other, y) = means
        largest = np.maximum(x[:, None], y[None, :])
        total += math.comb(n, m) / 2.0**n * size * (law @ largest @ other)
    return total


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("n", [1, 2, 10, 30, 200])
def test_the_bound_holds_for_any_number_of_users(n, epsilon):
    for mean in (0.0, 0.5, 1.0):
        assert error_of_one(n, epsilon, mean) <= adaptive_max_error(n, 1, epsilon)
    assert error_of_two(n, epsilon) <= adaptive_max_error(n, 2, epsilon)


def test_what_the_paper_prints_for_a_single_query_is_no_bound():
    """4 c r sqrt(d log(d) / n) is 0 for d = 1, and errors exceed r, which the proof denies."""
    assert error_of_one(1000, 1.0, 0.0) > 4 * c(1.0) * math.sqrt(1 * math.log(1) / 1000)
    assert error_of_one(1, 1.0, 0.0) > 1.0


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
def test_the_simple_bound_is_the_theorem_and_weaker(epsilon):
    for d in (1, 2, 3, 10, 1000, 10**5):
        n = 10
        while n < 8 * d * math.log(n):
            n = math.ceil(8 * d * math.log(n))
        for users in (n, n + 1, 3 * n, 1000 * n):
            simple = adaptive_max_error(users, d, epsilon, simple=True)
            assert adaptive_max_error(users, d, epsilon) <= simple
            if d > 1:
                printed = 4 * math.sqrt(c(epsilon) ** 2 * d * math.log(d) / users)
                assert simple == pytest.approx(printed)
        if d > 1:
            with pytest.warns(UserWarning, match=rf"num_users = {n - 1} .* from {n} users on"):
                adaptive_max_error(n - 1, d, epsilon, simple=True)


def test_scales_with_the_bound_and_is_never_more_than_the_range():
    assert adaptive_max_error(10**6, 64, 1.0, bound=3.0) == pytest.approx(
        3 * adaptive_max_error(10**6, 64, 1.0)
    )
    assert adaptive_max_error(5, 100, 0.5) == pytest.approx(c(0.5) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert adaptive_max_error(5, 100, 0.5, bound=2.0, simple=True) > 2 * (c(0.5) + 1)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 1, 1.0), "num_users"),
        ((10, 0, 1.0), "num_rounds"),
        ((10, 1, 0.0), "epsilon"),
        ((10, 1, 1.0, 0.0), "bound"),
    ],
)
def test_bad_arguments(arguments, name):
    for simple in (False, True):
        with pytest.raises(ValueError, match=name):
            adaptive_max_error(*arguments, simple=simple)
