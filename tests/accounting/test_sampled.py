"""Subsampling before shuffling, against enumeration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdp.accounting import (
    PairLaw,
    channel_shuffle_delta,
    pair_shuffle_bracket,
    pair_shuffle_delta,
    sampled_pairs,
    sampled_shuffle_delta,
)
from jaxdp.accounting._sampled import _window
from jaxdp.randomizers import KRR
from tests.accounting.test_shuffle_bracket import exact_delta, sixteenths

CHANNELS = [
    (sixteenths([8, 4, 4], [4, 8, 4], [4, 4, 8]), 4),
    (sixteenths([10, 6], [8, 8], [3, 13]), 4),
    (sixteenths([8, 5, 3], [2, 7, 7]), 4),
]


def pairs_of(channel):
    rows = np.array(channel, float)
    least = rows.min(axis=0)
    return [PairLaw(x, y, least, rows) for x, y in itertools.permutations(rows, 2)]


def with_blanks(channel, rate):
    return [[rate * p for p in row] + [1 - rate] for row in channel]


@pytest.mark.parametrize(("channel", "n"), CHANNELS, ids=lambda x: str(x)[-30:])
@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(3, 4)])
def test_sampled_reports_by_enumeration(channel, n, rate):
    """The adversary sees the reports of those who take part, and so how many do not."""
    for delta in (0.01, 0.1):
        found = pair_shuffle_bracket(sampled_pairs(pairs_of(channel), float(rate)), n, delta)
        sampled = with_blanks(channel, rate)
        assert exact_delta(sampled, n, found.upper) <= delta
        if found.lower > 0:
            assert exact_delta(sampled, n, found.lower) > delta
    for epsilon in (0.05, 0.4):
        exact = exact_delta(with_blanks(channel, rate), n, epsilon)
        assert exact <= sampled_shuffle_delta(
            lambda m, e: channel_shuffle_delta(channel, m, e), n, float(rate), epsilon
        )
        # the control: as if fewer reports were as private as all of the users'
        if rate < 0.5 and epsilon < 0.1:
            claimed = float(rate) ** 2 * channel_shuffle_delta(channel, n, epsilon)
            assert claimed < exact


def test_the_general_bound_is_above_the_exact_one():
    plain = KRR(5, 1.0)
    for rate in (0.01, 0.1, 0.5):
        exact = sampled_pairs(plain.pair_laws(), rate)
        for epsilon in (0.005, 0.01, 0.02):
            one = pair_shuffle_delta(exact, 10**5, epsilon)
            general = sampled_shuffle_delta(plain.shuffle_delta, 10**5, rate, epsilon)
            assert one <= general
            assert general < plain.shuffle_delta(10**5, epsilon) or general < 1e-12
            # and better than the reports of those who are known to take part
            assert general < plain.shuffle_delta(math.floor(rate * 10**5), epsilon)
    assert sampled_shuffle_delta(plain.shuffle_delta, 1000, 1.0, 0.1) == plain.shuffle_delta(
        1000, 0.1
    )


def test_numbers_of_users_are_bounded():
    """By the exact binomial tails."""
    for n, rate, log_tail in ((100, 0.3, 10.0), (1000, 0.01, 20.0), (50, 0.9, 5.0)):
        masses = [math.comb(n, m) * rate**m * (1 - rate) ** (n - m) for m in range(n + 1)]
        low, high = _window(n, rate, log_tail)
        assert math.fsum(masses[:low]) <= math.exp(-log_tail)
        assert math.fsum(masses[high + 1 :]) <= math.exp(-log_tail)


@pytest.mark.parametrize("rate", [0.0, 1.5, math.nan])
def test_refusals(rate):
    with pytest.raises(ValueError, match="rate"):
        sampled_pairs(KRR(5, 1.0).pair_laws(), rate)
    with pytest.raises(ValueError, match="rate"):
        sampled_shuffle_delta(KRR(5, 1.0).shuffle_delta, 100, rate, 0.1)
