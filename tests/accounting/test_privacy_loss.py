"""Losses of several rounds, against closed forms and exact enumeration."""

import functools
import itertools
import math
from fractions import Fraction

import pytest

from jaxdp.accounting import (
    PrivacyLoss,
    channel_shuffle_delta,
    gaussian_composition,
    gaussian_delta,
    optimal_composition,
    optimal_delta,
)
from jaxdp.randomizers import KRR
from tests.accounting.test_shuffle_bracket import histograms, response, sixteenths
from tests.marks import slow


def normal(sigma: float) -> PrivacyLoss:
    return PrivacyLoss(lambda epsilon: gaussian_delta(epsilon, 1.0, sigma))


@functools.cache
def shuffled(values: int, epsilon: float, n: int) -> PrivacyLoss:
    rows = response(values, epsilon)
    return PrivacyLoss(lambda epsilon: channel_shuffle_delta(rows, n, epsilon))


@pytest.mark.parametrize("delta", [1e-3, 1e-8, 1e-15])
@pytest.mark.parametrize("rounds", [1, 12, 300])
def test_rounds_of_gaussian_noise(rounds, delta):
    exact = gaussian_composition([0.3] * rounds, delta)
    assert exact <= normal(1 / 0.3).compose(rounds).epsilon(delta) <= 1.001 * exact


def test_rounds_of_different_kinds_add_up():
    total = normal(4.0).compose(3) + normal(0.7) + normal(30.0).compose(50)
    exact = gaussian_composition([1 / 4] * 3 + [1 / 0.7] + [1 / 30] * 50, 1e-7)
    assert exact <= total.epsilon(1e-7) <= 1.001 * exact


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 9.0])
@pytest.mark.parametrize("rounds", [1, 7, 400])
def test_rounds_of_pure_reports_are_exact(epsilon, rounds):
    """Both sides of k-fold composition: delta at an epsilon, and the epsilon at a delta."""
    loss = PrivacyLoss(lambda e: optimal_delta(epsilon, 1, e)).compose(rounds)
    for delta in (1e-2, 1e-6, 1e-13):
        exact = optimal_composition(epsilon, rounds, delta).epsilon
        if exact < 99:
            assert exact * (1 - 1e-9) <= loss.epsilon(delta) <= exact * (1 + 3e-5)
    total = min(0.4 * rounds * epsilon, 90.0)
    exact = optimal_delta(epsilon, rounds, total)
    assert exact * (1 - 1e-9) <= loss.delta(total) <= exact * (1 + 1e-6) + 1e-24


def laplace_delta(epsilon: float) -> float:
    """Of Laplace noise of scale 4 and sensitivity 1."""
    return max(-math.expm1((epsilon - 0.25) / 2), 0.0)


ROUNDS = {
    "30 bits": (functools.partial(KRR(2, 0.5).shuffle_delta, 1), 30),
    "10 four-ary responses": (functools.partial(KRR(4, 1.0).shuffle_delta, 1), 10),
    "100 times normal noise": (lambda epsilon: gaussian_delta(epsilon, 1.0, 20.0), 100),
    "20 times Laplace noise": (laplace_delta, 20),
}
DP_ACCOUNTING = {  # 0.6.0, in intervals of 1e-4: the epsilons at delta = 1e-5 and 1e-8
    "30 bits": (12.986774473267113, 14.987866037376588),
    "10 four-ary responses": (9.98288321078711, 9.999983028728446),
    "100 times normal noise": (1.9930921423163235, 2.707607322929456),
    "20 times Laplace noise": (4.3185779515168985, 4.989972396346391),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_are_as_dp_accounting_says(name):
    """The grids of both are off by less; the control is a round in ten more."""
    delta_of, rounds = ROUNDS[name]
    for delta, known in zip((1e-5, 1e-8), DP_ACCOUNTING[name], strict=True):
        found = PrivacyLoss(delta_of).compose(rounds).epsilon(delta)
        assert found == pytest.approx(known, rel=3e-4)
    more = PrivacyLoss(delta_of).compose(rounds + rounds // 10)
    assert more.epsilon(1e-5) > 1.01 * DP_ACCOUNTING[name][0]


def test_what_dp_accounting_says():
    """Where it is installed."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    made = {
        "30 bits": pld.from_randomized_response(2 / (math.exp(0.5) + 1), 2),
        "10 four-ary responses": pld.from_randomized_response(4 / (math.e + 3), 4),
        "100 times normal noise": pld.from_gaussian_mechanism(20.0),
        "20 times Laplace noise": pld.from_laplace_mechanism(4.0),
    }
    for name, loss in made.items():
        found = loss.self_compose(ROUNDS[name][1]).get_epsilon_for_delta(1e-5)
        assert found == pytest.approx(DP_ACCOUNTING[name][0], rel=1e-3)


@pytest.mark.parametrize(
    ("channel", "n", "slack"),
    [
        (sixteenths([12, 4], [4, 12]), 4, 1.6),
        (sixteenths([10, 6], [8, 8], [3, 13]), 3, 1.6),
        (sixteenths([8, 4, 4], [4, 8, 4], [4, 4, 8]), 3, 1.6),
        (sixteenths([8, 5, 3], [0, 9, 7]), 3, 1.6),  # a report that proves its value
    ],
)
def test_two_shuffled_rounds_by_enumeration(channel, n, slack):
    """Above the exact delta of every data set and neighbour, in rationals, and near the largest.

    The largest of one round is not of the same data set at every epsilon, as the composition takes.
    """
    loss = PrivacyLoss(lambda epsilon: channel_shuffle_delta(channel, n, epsilon)).compose(2)
    for epsilon in (0.0, 0.2, 0.8):
        gap, worst = Fraction(math.exp(epsilon)), Fraction(0)
        for others in itertools.combinations_with_replacement(range(len(channel)), n - 1):
            laws = [histograms([row, *(channel[z] for z in others)]) for row in channel]
            for p, q in itertools.permutations(laws, 2):
                keys = itertools.product(p, p)
                excess = (p[a] * p[b] - gap * q[a] * q[b] for a, b in keys)
                worst = max(worst, sum((e for e in excess if e > 0), Fraction(0)))
        assert worst <= loss.delta(epsilon) <= slack * worst


@pytest.mark.parametrize("values", [2, slow(5)])
def test_one_round_is_what_it_was(values):
    loss, rows = shuffled(values, 1.0, 2000), response(values, 1.0)
    for epsilon in (0.0, 0.01, 0.05, 0.1):
        once = channel_shuffle_delta(rows, 2000, epsilon)
        assert once <= loss.delta(epsilon) * (1 + 1e-9)
        assert loss.delta(epsilon) <= 1.01 * once


def test_many_shuffled_rounds_are_a_gaussian_mechanism():
    """With the sum of the rounds' chi-square divergences as the square of its ratio."""
    p, q = response(5, 1.0)[0][:2]
    chi_square = 2 * (p - q) ** 2 / q / 10_000
    for rounds in (10, 1000):
        limit = gaussian_composition([math.sqrt(chi_square)] * rounds, 1e-6)
        got = shuffled(5, 1.0, 10_000).compose(rounds).epsilon(1e-6)
        assert got == pytest.approx(limit, rel=0.05)


def test_basic_composition_is_above():
    loss = PrivacyLoss(functools.partial(KRR(5, 1.0).shuffle_delta, 1000))
    once = loss.epsilon(1e-7)
    assert loss.compose(10).epsilon(1e-6) < 10 * once
    assert loss.compose(10).epsilon(1e-6) > loss.compose(9).epsilon(1e-6) > once


def test_too_small_deltas_are_caught():
    """Losses of reports that claim epsilon = 0.9 and have 1: below what is optimal."""
    claimed = PrivacyLoss(lambda e: optimal_delta(0.9, 1, e)).compose(20)
    assert claimed.epsilon(1e-6) < optimal_composition(1.0, 20, 1e-6).epsilon


def test_what_is_infinite():
    """A report that proves a value with probability 1e-4."""
    loss = PrivacyLoss(lambda epsilon: max(1e-4, optimal_delta(0.5, 1, epsilon)))
    assert loss.compose(10).epsilon(0.9e-3) == math.inf
    assert loss.compose(10).delta(50.0) == pytest.approx(1e-3, rel=1e-2)
    assert loss.renyi(2.0) == math.inf
    nothing, all_told = PrivacyLoss(lambda epsilon: 0.0), PrivacyLoss(lambda epsilon: 1.0)
    assert (nothing.delta(0.0), nothing.epsilon(1e-9), nothing.renyi(3.0)) == (0.0, 0.0, 0.0)
    assert (all_told.delta(9.0), (all_told + nothing).epsilon(0.5)) == (1.0, math.inf)
    constant = PrivacyLoss(lambda epsilon: 1e-5)
    assert constant.compose(3).delta(1.0) == pytest.approx(3e-5)


@pytest.mark.parametrize("order", [1.001, 2.0, 50.0, 1e4])
def test_renyi_of_pure_reports(order):
    """`ln(p**a q**(1 - a) + q**a p**(1 - a)) / (a - 1)` of binary response."""
    for epsilon in (0.01, 1.0, 9.0):
        loss = PrivacyLoss(lambda e, local=epsilon: optimal_delta(local, 1, e))
        logs = (-math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon)))
        parts = [order * a + (1 - order) * b for a, b in (logs, logs[::-1])]
        most = max(parts)
        exact = (most + math.log(sum(math.exp(x - most) for x in parts))) / (order - 1)
        assert exact * (1 - 1e-6) <= loss.renyi(order) <= exact * (1 + 1e-6)
        assert loss.compose(7).renyi(order) == pytest.approx(7 * loss.renyi(order))


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 64.0])
@pytest.mark.parametrize(
    ("channel", "n"),
    [(sixteenths([12, 4], [4, 12]), 6), (sixteenths([8, 4, 4], [4, 8, 4], [4, 4, 8]), 4)],
)
def test_renyi_of_shuffled_reports_by_enumeration(channel, n, order):
    loss = PrivacyLoss(lambda epsilon: channel_shuffle_delta(channel, n, epsilon))
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(len(channel)), n - 1):
        laws = [histograms([row, *(channel[z] for z in others)]) for row in channel]
        for p, q in itertools.permutations(laws, 2):
            logs = [order * math.log(p[y]) + (1 - order) * math.log(q[y]) for y in p]
            total = math.log(math.fsum(math.exp(x - max(logs)) for x in logs)) + max(logs)
            worst = max(worst, total / (order - 1))
    assert worst <= loss.renyi(order) <= 1.35 * worst


def test_renyi_of_many_users_is_that_of_noise():
    """`a chi**2 / 2`, for an order at which the tails do not count."""
    p, q = response(5, 1.0)[0][:2]
    expected = 2 * (p - q) ** 2 / q / 10_000 / 2
    for order in (1.5, 4.0, 16.0):
        got = shuffled(5, 1.0, 10_000).renyi(order)
        assert got == pytest.approx(order * expected, rel=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrivacyLoss(lambda epsilon: 2.0), "delta_of"),
        (lambda: normal(1.0).compose(0), "num_rounds"),
        (lambda: normal(1.0).delta(-1.0), "epsilon"),
        (lambda: normal(1.0).epsilon(0.0), "delta"),
        (lambda: normal(1.0).renyi(1.0), "order"),
        (lambda: normal(1.0) + 1, "unsupported operand"),
    ],
)
def test_refusals(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
