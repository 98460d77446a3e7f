"""Theorem 5.2 of Bassily (2019): the bound holds, and where the printed one does not."""

import itertools
import math
import warnings

import numpy as np
import pytest

from jaxdp.bounds._adaptive import (
    _most_often_right,
    adaptive_lower_max_error,
    adaptive_max_error,
)


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
    with pytest.raises(ValueError, match=name):
        adaptive_lower_max_error(*arguments)


def right_choices(channel, d, n, distance):
    """How often the best test of n reports tells which of the 2 d shifts of a uniform x it is."""
    x = np.array(list(itertools.product((-1, 1), repeat=d)))
    shifts = np.concatenate([np.eye(d), -np.eye(d)])
    laws = (1 + distance * shifts @ x.T) / 2**d @ channel(x)
    joint = laws
    for _ in range(n - 1):
        joint = (joint[:, :, None] * laws[:, None, :]).reshape(2 * d, -1)
    return joint.max(axis=0).sum() / (2 * d)


def of_one_bit(epsilon):
    """Reports one of the d bits, which is public, by randomized response."""
    keep = 1 / (1 + math.exp(-epsilon))

    def channel(x):
        equal = x[:, :, None] == np.array([-1, 1])
        return np.where(equal, keep, 1 - keep).reshape(len(x), -1) / x.shape[1]

    return channel


def of_the_values(epsilon):
    """Randomized response of all d bits as one value."""

    def channel(x):
        weights = np.where(np.eye(len(x)) > 0, math.exp(epsilon), 1.0)
        return weights / weights.sum(axis=1, keepdims=True)

    return channel


def most_right(d, n, epsilon, distance):
    """What the lower bound takes to be the most."""
    information = (
        n * distance**2 * min(math.sinh(epsilon / 2) ** 2 / d, math.tanh(epsilon / 2) ** 2)
    )
    return float(_most_often_right(np.array(information), 2.0 * d))


@pytest.mark.parametrize("channel", [of_one_bit, of_the_values])
def test_no_test_is_right_more_often_than_the_bound_says(channel):
    broken = 0
    for d, n, epsilon, distance in itertools.product(
        (1, 2, 3), (1, 3), (0.5, 2.0), (0.2, 0.6, 1.0)
    ):
        right = right_choices(channel(epsilon), d, n, distance)
        assert 1 / (2 * d) < right < most_right(d, n, epsilon, distance)
        # A channel that spends 3 times as much is right more often.
        spent = right_choices(channel(3 * epsilon), d, n, distance)
        broken += spent > most_right(d, n, epsilon, distance)
    assert broken > 3


def test_the_lower_bound_is_below_every_error_and_near_it():
    for n, epsilon in ((30, 0.1), (200, 1.0), (200, 5.0)):
        lower = adaptive_lower_max_error(n, 1, epsilon)
        assert lower < error_of_one(n, epsilon, 0.0) < 4 * lower
        assert adaptive_lower_max_error(n, 2, epsilon) < error_of_two(n, epsilon)
    for d in (1, 8, 512, 2**20):
        for n in (10, 10**6, 10**12):
            lower, upper = (f(n, d, 1.0) for f in (adaptive_lower_max_error, adaptive_max_error))
            assert lower < upper
            if upper < 1:
                assert upper < 11 * lower
            assert adaptive_lower_max_error(n, d, 1.0, bound=3.0) == pytest.approx(3 * lower)
    # The largest of d: more than that of one query by the root of a logarithm.
    ratios = [
        adaptive_lower_max_error(10**16, d, 1.0) / math.sqrt(d * math.log(2 * d) / 1e16)
        for d in (2**10, 2**20)
    ]
    assert ratios[0] < ratios[1] < 1.1 * ratios[0]
