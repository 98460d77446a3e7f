"""k-ary randomized response: golden numbers, the edges of epsilon, every claim of its docstring."""

import math
from fractions import Fraction

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from jaxdp.random import Count
from jaxdp.randomizers import KRR
from jaxdp.randomizers._exact import exp_lower
from tests import stats


def test_golden_variance():
    """1,000 users, 100 of them with the value, k = 8, epsilon = 1: 3302.0409."""
    counts = [100, 900, 0, 0, 0, 0, 0, 0]
    assert abs(KRR(8, 1.0).variance(counts)[0] - 3302.0409) < 1e-4


def test_variance_is_the_formula_of_the_ideal_channel(rng):
    """p = e**epsilon q; a word of 32 bits moves it by less than a millionth."""
    for k, epsilon in [(2, 0.5), (8, 1.0), (100, 3.0)]:
        counts = rng.integers(0, 100, size=k)
        n, q = counts.sum(), 1 / (math.exp(epsilon) + k - 1)
        p = math.exp(epsilon) * q
        expected = (counts * p * (1 - p) + (n - counts) * q * (1 - q)) / (p - q) ** 2
        np.testing.assert_allclose(KRR(k, epsilon).variance(counts), expected, rtol=2e-6)


@hypothesis.given(k=st.integers(2, 2000), epsilon=st.floats(0.002, 22.0))
def test_channel_spends_what_a_word_allows(k, epsilon):
    """The smallest m with (2**32 - (k - 1) m) / m <= e**epsilon, where there is one."""
    try:
        krr = KRR(k, epsilon)
    except ValueError:
        lowest, highest = math.log1p(k * k / 2**32), math.log(2**32 - k + 1)
        assert epsilon < 1.01 * lowest or epsilon > highest
        return
    p, q = krr.probabilities()
    m = q * 2**32
    assert m.denominator == 1
    assert p + (k - 1) * q == 1
    assert p > q
    assert p / q <= exp_lower(epsilon)
    assert m == 1 or (2**32 - (k - 1) * (m - 1)) / (m - 1) > exp_lower(epsilon)
    assert krr.exact_epsilon() <= epsilon
    assert krr.build().threshold == 2**32 - (k - 1) * m


@pytest.mark.parametrize("k", [2, 3, 1000, 2**16, 2**20])
def test_edges_of_epsilon(k):
    """From about k**2 / 2**32 to ln(2**32 - k + 1); the messages name both."""
    highest = math.log(2**32 - k + 1)
    assert KRR(k, highest).probabilities()[1] <= Fraction(2, 2**32)
    with pytest.raises(ValueError, match=rf"epsilon.*at most {highest:.6g}"):
        KRR(k, math.nextafter(highest, math.inf))
    lowest = math.log1p(k * k / 2**32)
    assert KRR(k, 1.5 * lowest).exact_epsilon() > 0
    with pytest.raises(ValueError, match=r"epsilon.*at least"):
        KRR(k, 0.2 * lowest)


def test_loss_to_the_granularity_of_a_word():
    """About k**2 / 2**32 of epsilon at most, for small epsilon."""
    for k in (2, 10, 100, 1000):
        for epsilon in (0.01, 0.1, 1.0):
            loss = epsilon - KRR(k, epsilon).exact_epsilon()
            assert 0 <= loss <= 1.1 * (k + math.exp(epsilon)) ** 2 / 2**32


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (3, 0.1), (7, 4.0), (1000, 10.0)])
def test_borders_of_the_words(k, epsilon):
    """The words on both sides of the border of the truth, and the last ones, in order."""
    params = KRR(k, epsilon).build()
    keep = int(params.threshold)
    words = np.array([0, keep - 1, keep, keep + 1, keep + k - 2, keep + k - 1, 2**32 - 1])
    report = jax.vmap(jax.vmap(params.from_bits, in_axes=(0, None)), in_axes=(None, 0))
    values = np.array([0, 1, k - 1], np.int32)
    found = report(jnp.asarray(words.astype(np.uint32))[:, None], jnp.asarray(values))
    for value, row in zip(values.tolist(), np.asarray(found), strict=True):
        offsets = [0, 0] + [1 + (w - keep) % (k - 1) for w in words[2:].tolist()]
        np.testing.assert_array_equal(row, [(value + offset) % k for offset in offsets])
        assert np.all(row[2:] != value)


def test_worst_case_is_attained_and_never_exceeded(rng):
    for k, epsilon in [(2, 1.0), (5, 1.0), (5, 6.0)]:
        krr, n = KRR(k, epsilon), 1000
        nobody, everybody = np.eye(k, dtype=int)[-1] * n, np.eye(k, dtype=int)[0] * n
        attained = max(krr.variance(nobody)[0], krr.variance(everybody)[0])
        np.testing.assert_allclose(krr.worst_case_variance(n), attained, rtol=1e-12)
        for _ in range(20):
            counts = rng.multinomial(n, rng.dirichlet(np.ones(k)))
            assert np.all(krr.variance(counts) <= krr.worst_case_variance(n) * (1 + 1e-12))


def test_docstring_numbers():
    assert KRR(4, 1.0).variance([600, 300, 100, 0]).round(2).tolist() == [
        2296.44,
        1947.25,
        1714.46,
        1598.07,
    ]


def test_law_of_one_report(key):
    """100,000 users of one value: the row of the channel; two hundredths more would be seen."""
    krr = KRR(5, 1.0)
    words = jax.random.bits(key, (100_000, 1), jnp.uint32)
    reports = jax.vmap(krr.build().from_bits, in_axes=(0, None))(words, jnp.int32(3))
    row = np.array([float(p) for p in krr.channel()[3]])
    moved = row + np.array([0.02, 0, 0, -0.02, 0])
    seen = np.bincount(np.asarray(reports), minlength=5)
    stats.check_multinomial(seen, row)
    stats.must_fail(stats.check_multinomial, seen, moved)


@pytest.mark.slow  # by default at a trillion: `tests/engine/test_large_totals.py`
def test_sampled_tally_at_a_trillion_users(key):
    """Mean and variance of each report's count: those of independent users with the channel."""
    krr = KRR(3, 1.0)
    counts = np.array([10**12, 10**6, 0])
    p, q = map(float, krr.probabilities())
    mean = counts * p + (counts.sum() - counts) * q
    variance = counts * p * (1 - p) + (counts.sum() - counts) * q * (1 - q)
    sample = jax.jit(jax.vmap(krr.build().sample_tally, in_axes=(0, None)))
    tally = sample(jax.random.split(key, 4000), Count.of(counts)).numpy()
    assert np.all(tally.sum(axis=1) == counts.sum())
    centred = (tally - mean) / np.sqrt(variance)
    stats.check_mean(centred, np.zeros(3), variance=np.ones(3))
    stats.check_variance(centred, np.ones(3), mean=np.zeros(3), kurtosis=3.1)
    stats.must_fail(stats.check_mean, centred + 0.25, np.zeros(3), variance=np.ones(3))
    stats.must_fail(stats.check_variance, 1.5 * centred, np.ones(3), mean=np.zeros(3), kurtosis=3.1)


def test_sampled_tally_of_few_users_is_the_law_of_the_channel(key):
    """Every possible tally of three users of one value, 20,000 draws of it."""
    krr, draws, n = KRR(3, 1.0), 20_000, 3
    counts = np.array([0, n, 0])
    sample = jax.jit(jax.vmap(krr.build().sample_tally, in_axes=(0, None)))
    tally = sample(jax.random.split(key, draws), Count.of(counts)).numpy()
    row = [float(p) for p in krr.channel()[int(np.argmax(counts))]]
    tables = [(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)]
    law = [
        math.factorial(n) * math.prod(p**c / math.factorial(c) for p, c in zip(row, t, strict=True))
        for t in tables
    ]
    seen = [int(np.sum(np.all(tally == t, axis=1))) for t in tables]
    assert sum(seen) == draws
    stats.check_multinomial(seen, law)
    stats.must_fail(stats.check_multinomial, seen, law[::-1])
