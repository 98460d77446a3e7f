"""Amplification by shuffling, against enumeration of the clones and of real shuffled reports."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from jaxdp.accounting import _shuffle, shuffle_amplification, shuffle_delta, shuffle_epsilon
from jaxdp.accounting._shuffle import _tail_ratio, log_binomial


def clone_delta(epsilon: float, epsilon0: float, n: int) -> float:
    """All numbers of clones of both kinds, one by one."""
    truth = math.exp(epsilon0) / (1 + math.exp(epsilon0))
    total = 0.0
    for c in range(n):
        a = np.arange(c + 2)
        with_one, without = binom.pmf(a - 1, c, 0.5), binom.pmf(a, c, 0.5)
        p = truth * with_one + (1 - truth) * without
        q = (1 - truth) * with_one + truth * without
        excess = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        total += binom.pmf(c, n - 1, math.exp(-epsilon0)) * excess
    return total


@pytest.mark.parametrize("n", [1, 2, 7, 50, 200])
def test_delta_is_that_of_the_clones(n):
    """Exact for up to 1024 numbers of clones."""
    for epsilon0 in (0.2, 1.0, 4.0):
        for share in (0.0, 0.05, 0.3, 0.9):
            exact = clone_delta(share * epsilon0, epsilon0, n)
            found = shuffle_delta(share * epsilon0, epsilon0, n)
            assert exact <= found <= exact * (1 + 1e-7)


def test_groups_of_clones_cost_little(monkeypatch):
    """In groups of six: above the exact value, and not twice as much."""
    monkeypatch.setattr(_shuffle, "_BLOCKS", 32)
    _shuffle._clones.cache_clear()
    for share in (0.02, 0.1, 0.3):
        exact = clone_delta(share * 2.0, 2.0, 200)
        assert exact * (1 + 1e-6) < shuffle_delta(share * 2.0, 2.0, 200) < 2 * exact
    _shuffle._clones.cache_clear()


@pytest.mark.parametrize(("others", "epsilon0"), [(4, 1.0), (9, 0.5), (30, 1.5)])
def test_bounds_shuffled_randomized_response(others, epsilon0):
    """One user's bit changes, `others` users hold fixed bits: the true delta is below the bound."""
    truth = math.exp(epsilon0) / (1 + math.exp(epsilon0))
    bound = shuffle_epsilon(epsilon0, others + 1, 1e-3)
    for ones in (0, others // 2, others):
        rest = np.convolve(
            binom.pmf(np.arange(ones + 1), ones, truth),
            binom.pmf(np.arange(others - ones + 1), others - ones, 1 - truth),
        )
        p = np.convolve(rest, [1 - truth, truth])  # the number of reports 1, if the bit is 1
        q = np.convolve(rest, [truth, 1 - truth])
        for first, second in ((p, q), (q, p)):
            assert np.maximum(first - math.exp(bound) * second, 0).sum() <= 1e-3


def test_closed_form_is_the_printed_one_and_looser():
    n, epsilon0, delta = 10**6, 1.0, 1e-8
    e = math.e
    factor = 8 * math.sqrt(e * math.log(4 / delta) / n) + 8 * e / n
    printed = math.log(1 + (e - 1) / (e + 1) * factor)
    assert shuffle_amplification(epsilon0, n, delta) == pytest.approx(printed, rel=1e-12)
    for n, epsilon0, delta in itertools.product((10**4, 10**7), (0.1, 1.0, 3.0), (1e-9, 1e-5)):
        if epsilon0 <= math.log(n / (16 * math.log(2 / delta))):
            closed = shuffle_amplification(epsilon0, n, delta)
            assert shuffle_epsilon(epsilon0, n, delta) < closed <= epsilon0


def test_validity_range():
    n, delta = 10**5, 1e-6
    limit = math.log(n / (16 * math.log(2 / delta)))
    assert shuffle_amplification(limit * (1 - 1e-12), n, delta) > 0
    with pytest.raises(ValueError, match="epsilon0 must be at most"):
        shuffle_amplification(limit * (1 + 1e-9), n, delta)
    with pytest.raises(ValueError, match="shuffle_epsilon"):
        shuffle_amplification(0.1, 10, delta)
    assert 0 < shuffle_epsilon(2 * limit, n, delta) <= 2 * limit


def test_inverse_and_monotone():
    epsilon = shuffle_epsilon(1.0, 10_000, 1e-6)
    assert 0.99e-6 < shuffle_delta(epsilon, 1.0, 10_000) <= 1e-6
    users = [shuffle_epsilon(1.0, n, 1e-6) for n in (1, 100, 10**4, 10**6, 10**8)]
    assert users[0] == pytest.approx(1.0, abs=1e-5)
    assert users == sorted(users, reverse=True)
    assert shuffle_delta(1.0, 1.0, 50) == 0.0
    assert shuffle_epsilon(0.1, 10**6, 0.5) == 0.0


def test_binomial_probabilities():
    for n in (1, 2, 30, 1000):
        k = np.arange(n + 1)
        for p in (0.5, 0.03):
            np.testing.assert_allclose(log_binomial(k, n, p), binom.logpmf(k, n, p), atol=1e-10)
    for c in (3, 10, 1001, 10**6):
        a = np.arange(c // 2 + 1, c // 2 + math.isqrt(c) + 1, dtype=np.float64)
        exact = binom.sf(a - 1, c, 0.5) / binom.pmf(a, c, 0.5)
        np.testing.assert_allclose(_tail_ratio(a, np.full(a.size, float(c))), exact, rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shuffle_amplification(0.0, 10**6, 1e-6), "epsilon0"),
        (lambda: shuffle_amplification(1.0, 0, 1e-6), "num_users"),
        (lambda: shuffle_amplification(1.0, 10**6, 0.0), "delta"),
        (lambda: shuffle_epsilon(1000.0, 10, 1e-6), "epsilon0"),
        (lambda: shuffle_epsilon(1.0, 10**12, 1e-6), "num_users"),
        (lambda: shuffle_epsilon(1.0, 10, 1.0), "delta"),
        (lambda: shuffle_delta(-1.0, 1.0, 10), "epsilon"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
