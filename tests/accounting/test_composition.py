"""Composition theorems, against sums in rational arithmetic and against each other."""

import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdp.accounting import (
    Guarantee,
    advanced_composition,
    basic_composition,
    gaussian_delta,
    optimal_composition,
    optimal_delta,
    parallel_composition,
    split_epsilon,
)


def brute_delta(odds: Fraction, rounds: int, total: Fraction) -> Fraction:
    """delta of randomized responses with odds e**epsilon, at e**e' = total: all outcomes."""
    lie = 1 / (1 + odds)
    truth = 1 - lie
    terms = (
        math.comb(rounds, j)
        * max(0, truth ** (rounds - j) * lie**j - total * lie ** (rounds - j) * truth**j)
        for j in range(rounds + 1)
    )
    return Fraction(sum(terms))


@pytest.mark.parametrize("rounds", [1, 2, 3, 8, 61])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0])
def test_optimal_delta_is_that_of_all_outcomes(rounds, epsilon):
    odds = Fraction(math.exp(epsilon))
    for share in (0.0, 0.1, 1 / 3, 0.5, 0.9, 0.999):
        total = share * rounds * epsilon
        exact = float(brute_delta(odds, rounds, Fraction(math.exp(total))))
        found = optimal_delta(epsilon, rounds, total)
        assert exact * (1 - 1e-12) - 1e-15 <= found <= exact * (1 + 1e-9) + 1e-12
        if 1e-9 < exact < 0.9:
            inverse = optimal_composition(epsilon, rounds, found).epsilon
            assert total * (1 - 1e-9) <= inverse <= total + 1e-4
            assert optimal_delta(epsilon, rounds, inverse) <= found * (1 + 1e-9)


def test_optimal_composition_at_the_steps():
    """Kairouz, Oh and Viswanath's list: ((k - 2 i) epsilon, delta_i)."""
    epsilon, rounds = 0.7, 6
    for i in range(rounds // 2 + 1):
        delta_i = (
            sum(
                math.comb(rounds, j)
                * (math.exp((rounds - j) * epsilon) - math.exp((rounds - 2 * i + j) * epsilon))
                for j in range(i)
            )
            / (1 + math.exp(epsilon)) ** rounds
        )
        total = (rounds - 2 * i) * epsilon
        assert optimal_delta(epsilon, rounds, total) == pytest.approx(delta_i, abs=1e-13)


def test_optimal_is_best_and_tends_to_the_gaussian_limit():
    """Never above the other theorems; for many rounds the total is that of Gaussian noise."""
    for epsilon, rounds in ((0.01, 10), (0.1, 100), (0.5, 1000), (3.0, 4)):
        for slack in (1e-9, 1e-3):
            best = optimal_composition(epsilon, rounds, slack).epsilon
            assert best <= basic_composition([epsilon] * rounds).epsilon
            assert best <= advanced_composition(epsilon, rounds, slack).epsilon
    rounds = 10**6
    epsilon = 1.0 / math.sqrt(rounds)
    assert optimal_delta(epsilon, rounds, 2.0) == pytest.approx(
        gaussian_delta(2.0, 1.0, 1.0), rel=0.01
    )


def test_optimal_at_the_edges():
    assert optimal_composition(0.3, 1, 0.0) == Guarantee(0.3, 0.0)
    assert optimal_composition(0.3, 10, 0.0).epsilon == pytest.approx(3.0, rel=1e-14)
    assert optimal_composition(0.3, 10, 0.0).epsilon >= 3.0
    assert optimal_composition(0.01, 2, 0.5) == Guarantee(0.0, 0.5)
    assert optimal_delta(0.3, 10, 3.1) == 0.0
    assert optimal_delta(800.0, 3, 0.0) == 1.0
    assert optimal_composition(800.0, 3, 1e-9).epsilon <= 2400.0001
    assert optimal_composition(1.0, 50, 1e-300).epsilon == pytest.approx(50, rel=1e-12)


def test_advanced_is_the_printed_formula():
    total = advanced_composition(0.2, 50, 1e-5, delta=1e-8)
    spread = math.sqrt(2 * 50 * math.log(1e5)) * 0.2
    assert total.epsilon == pytest.approx(spread + 50 * 0.2 * (math.exp(0.2) - 1), rel=1e-14)
    assert total.delta == pytest.approx(50e-8 + 1e-5, rel=1e-14)
    assert total.delta >= Fraction(1e-8) * 50 + Fraction(1e-5)


def test_condition_of_the_simplified_bound():
    """Bell et al.'s per-round budget is too large where their condition alone holds."""
    for rounds, slack in ((40, 0.1), (200, 1e-3)):
        factor = 1 + math.sqrt(2 * math.log(1 / slack))
        printed = math.sqrt(rounds) * math.log(2)
        per_round = printed / (math.sqrt(rounds) * factor)
        assert advanced_composition(per_round, rounds, slack).epsilon > printed
        ours = factor * math.log(2)
        per_round = ours / (math.sqrt(rounds) * factor)
        assert advanced_composition(per_round, rounds, slack).epsilon <= ours


@pytest.mark.parametrize("method", ["basic", "advanced", "optimal"])
def test_split_is_the_inverse(method):
    for rounds in (1, 2, 7, 100):
        each = split_epsilon(1.0, rounds, 1e-6, method)
        totals = {
            "basic": lambda e, k=rounds: basic_composition([e] * k),
            "advanced": lambda e, k=rounds: advanced_composition(e, k, 1e-6),
            "optimal": lambda e, k=rounds: optimal_composition(e, k, 1e-6),
        }
        assert totals[method](each).epsilon <= 1.0
        assert totals[method](each * (1 + 1e-9)).epsilon > 1.0
    assert split_epsilon(1.0, 100) == pytest.approx(0.01)


def test_basic_rounds_up():
    values = [0.1] * 10
    total = basic_composition(values).epsilon
    assert total >= sum(map(Fraction, values))
    assert total <= math.nextafter(1.0, 2)
    assert basic_composition(0.5, 1e-6) == Guarantee(0.5, 1e-6)
    assert basic_composition(np.array([0.5, 0.25]), [0.75, 0.5]) == Guarantee(0.75, 1.0)


def test_parallel():
    assert parallel_composition([0.5, 2.0, 1.0]) == Guarantee(2.0, 0.0)
    assert parallel_composition([0.5, 0.25], [0.0, 0.1]) == Guarantee(0.5, 0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: basic_composition([]), "epsilons"),
        (lambda: basic_composition([0.5, -0.1]), "epsilons"),
        (lambda: basic_composition([0.5, 0.5, 0.5], [0.1, 0.2]), "deltas"),
        (lambda: parallel_composition([0.5], [1.5]), "deltas"),
        (lambda: advanced_composition(0.0, 2, 0.1), "epsilon"),
        (lambda: advanced_composition(0.1, 0, 0.1), "num_rounds"),
        (lambda: advanced_composition(0.1, 2, 0.0), "delta_slack"),
        (lambda: optimal_composition(0.1, 2, 1.0), "delta_slack"),
        (lambda: optimal_composition(0.1, 10**8, 0.1), "num_rounds"),
        (lambda: optimal_delta(0.1, 2, -1.0), "total_epsilon"),
        (lambda: split_epsilon(1.0, 3, 0.1, "best"), "method"),
        (lambda: split_epsilon(1.0, 3, 0.0, "advanced"), "delta_slack"),
        (lambda: split_epsilon(1.0, 3, 1.0), "delta_slack"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_string_is_not_a_list_of_numbers():
    with pytest.raises(TypeError, match="epsilons"):
        basic_composition("0.5")
