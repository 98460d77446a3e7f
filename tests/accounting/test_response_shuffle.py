"""Shuffled k-ary response of few users, against every data set that the others may hold."""

import itertools
import math

import numpy as np
import pytest

from jaxdp.accounting import channel_shuffle_delta, shuffle_bracket
from jaxdp.accounting._response_shuffle import ResponseShuffle, response_delta
from tests.accounting.test_shuffle_bracket import response


def row(num_values: int, truth: float, value: int) -> np.ndarray:
    law = np.full(num_values, (1 - truth) / (num_values - 1))
    law[value] = truth
    return law


def one_more(law: np.ndarray, report: np.ndarray) -> np.ndarray:
    """The law of the counts of all reports but the last kind, with one more report."""
    found = law * report[-1]
    for axis in range(law.ndim):
        found += report[axis] * np.roll(law, 1, axis)
    return found


def delta_of(num_values: int, truth: float, others: tuple[int, ...], epsilon: float) -> float:
    """The delta of a user who changes from value 0 to 1 among others with given values."""
    law = np.zeros((len(others) + 2,) * (num_values - 1))
    law.flat[0] = 1.0
    for value in others:
        law = one_more(law, row(num_values, truth, value))
    first, second = (one_more(law, row(num_values, truth, value)) for value in (0, 1))
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def worst_delta(num_values: int, truth: float, n: int, epsilon: float) -> float:
    held = itertools.combinations_with_replacement(range(num_values), n - 1)
    return max(delta_of(num_values, truth, others, epsilon) for others in held)


def truth_of(num_values: int, epsilon0: float) -> float:
    return math.exp(epsilon0) / (math.exp(epsilon0) + num_values - 1)


CASES = [(3, 2), (3, 12), (3, 24), (4, 7), (5, 5), (6, 4)]


@pytest.mark.parametrize("epsilon0", [0.3, 1.5, 4.0])
@pytest.mark.parametrize(("num_values", "n"), CASES)
def test_no_data_set_has_a_larger_delta(num_values, n, epsilon0):
    truth = truth_of(num_values, epsilon0)
    for share in (0.1, 0.4, 0.8, 0.99):
        worst = worst_delta(num_values, truth, n, share * epsilon0)
        for near in (share * epsilon0, 0.3 * epsilon0):
            assert worst <= response_delta(num_values, truth, n, near)(share * epsilon0)
        rows = response(num_values, epsilon0)
        assert worst <= channel_shuffle_delta(rows, n, share * epsilon0)


def test_a_bound_that_takes_all_others_for_third_values_is_caught():
    """Close to epsilon0 the worst that they may hold is the user's own value."""
    truth = truth_of(3, 1.5)
    wrong = ResponseShuffle(3, truth, 12, 0.6)._others(2, 11)
    assert wrong.delta(0.4) >= worst_delta(3, truth, 12, 0.4)
    assert wrong.delta(1.4) < 0.9 * worst_delta(3, truth, 12, 1.4)


@pytest.mark.parametrize("num_values", [3, 4])
@pytest.mark.parametrize("value", [0, 1, 2])
def test_others_who_all_hold_one_value_have_the_delta_of_their_data_set(num_values, value):
    n, truth = 20, truth_of(num_values, 1.0)
    bound = ResponseShuffle(num_values, truth, n, 0.3)
    for epsilon in (0.05, 0.4, 0.8):
        exact = delta_of(num_values, truth, (value,) * (n - 1), epsilon)
        found = bound._others(value, n - 1).delta(epsilon)
        # The grid of conditional means costs a little; of three values none is needed.
        assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-3) + 1e-20


@pytest.mark.parametrize("value", [0, 1, 2])
def test_it_falls_with_the_number_of_others_from_that_of_the_blanket(value):
    n, epsilon, truth = 200, 0.4, truth_of(4, 1.0)
    bound = ResponseShuffle(4, truth, n, epsilon)
    found = [bound._others(value, held).delta(epsilon) for held in (0, 5, 40, 150)]
    assert all(more < fewer for fewer, more in itertools.pairwise(found))
    uniform, blanket = 4 * (1 - truth) / 3, 0.0
    told = np.arange(n)
    chances = [
        math.comb(n - 1, m) * uniform**m * (1 - uniform) ** (n - 1 - m) for m in told.tolist()
    ]
    p, q = truth, (1 - truth) / 3
    gains = np.array([p - math.exp(epsilon) * q, q - math.exp(epsilon) * p])
    rest = q - math.exp(epsilon) * q
    logs = np.array([math.lgamma(x + 1) for x in range(n + 1)])
    for m in told.tolist():
        if chances[m] < 1e-22:
            continue
        total = m + 1
        i, j = np.meshgrid(np.arange(total + 1), np.arange(total + 1), indexing="ij")
        i, j = i[i + j <= total], j[i + j <= total]
        ways = logs[total] - logs[i] - logs[j] - logs[total - i - j]
        law = np.exp(ways - total * math.log(4) + (total - i - j) * math.log(2))
        sums = i * gains[0] + j * gains[1] + (total - i - j) * rest
        blanket += chances[m] * 4 / total * float(law @ np.maximum(sums, 0.0))
    # The grid of the third value's means is coarse where no other user holds it.
    assert blanket * (1 - 1e-9) <= found[0] <= blanket * (1.05 if value == 2 else 1 + 1e-7)


@pytest.mark.parametrize("num_values", [3, 5])
def test_some_value_is_held_by_as_many(num_values):
    """Else all n - 1 users hold values that fewer hold."""
    for n, epsilon0 in itertools.product((2, 3, 7, 50, 400), (0.1, 1.0, 5.0)):
        bound = ResponseShuffle(num_values, truth_of(num_values, epsilon0), n, 0.5 * epsilon0)
        own, other, third = bound._numbers(0.5 * epsilon0)
        assert (own - 1) + (other - 1) + (num_values - 2) * (third - 1) < n - 1
        assert 1 <= min(own, other, third) <= max(own, other, third) <= n - 1


def test_what_is_asked_again_is_not_computed_again():
    assert response_delta(3, 0.5, 50, 0.3) == response_delta(3, 0.5, 50, 0.3)


def test_brackets_of_few_users_meet_more_closely_than_the_blanket_does():
    """At 165 users with three values the blanket alone is 1.95 % off."""
    rows, delta = response(3, 0.5), 1e-15
    found = shuffle_bracket(rows, 165, delta)
    assert found.lower <= found.upper <= 1.007 * found.lower
    assert channel_shuffle_delta(rows, 165, found.upper) <= 1.02 * delta
    assert channel_shuffle_delta(rows, 165, found.lower) >= delta
