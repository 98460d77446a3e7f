"""Subset selection: golden numbers, sets from words, and the law of whole tallies."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from jaxdp.random import Count
from jaxdp.randomizers import KRR, _subset_selection
from jaxdp.randomizers._exact import exp_lower
from jaxdp.randomizers._subset_selection import SubsetSelection
from tests import stats


def test_golden_variance():
    """1,000 users, 100 of them with the value, k = 8, epsilon = 1, d = 2: 2687.2661."""
    spec = SubsetSelection(8, 1.0)
    assert spec.subset_size == 2
    assert abs(spec.variance([100, 900, 0, 0, 0, 0, 0, 0])[0] - 2687.2661) < 1e-4


@pytest.mark.parametrize(
    ("epsilon", "expected"), [(0.5, 15.41), (1.0, 3.610), (2.0, 0.6971), (4.0, 0.0584)]
)
def test_variance_of_another_value_at_128_values(epsilon, expected):
    spec = SubsetSelection(128, epsilon)
    assert abs(spec.build().subset_size - 128 / (math.exp(epsilon) + 1)) < 1
    assert abs(spec.variance(np.eye(128, dtype=int)[0])[1] / expected - 1) < 1e-3


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5, 5.0])
def test_default_size_has_the_least_sum_of_variances(epsilon):
    counts = np.arange(12)
    sums = [SubsetSelection(12, epsilon, d).variance(counts).sum() for d in range(1, 12)]
    assert SubsetSelection(12, epsilon).subset_size == 1 + np.argmin(sums)


@hypothesis.given(k=st.integers(2, 300), share=st.floats(0, 1), epsilon=st.floats(0.01, 12.0))
def test_channel_spends_what_a_word_allows(k, share, epsilon):
    """The smallest m with (2**32 - m (k - d)) / (m d) <= e**epsilon; one less would not do."""
    d = 1 + round(share * (k - 2))
    spec = SubsetSelection(k, epsilon, d)
    threshold = int(spec.build().threshold)
    m, rest = divmod(2**32 - threshold, k - d)
    assert rest == 0
    assert Fraction(threshold, m * d) <= exp_lower(epsilon)
    assert Fraction(2**32 - (m - 1) * (k - d), (m - 1) * d) > exp_lower(epsilon)
    p, q = spec.probabilities()
    silent = 1 - (p + (k - 1) * q) / d
    assert 0 <= silent <= Fraction(k * d, 2**32)
    assert spec.exact_epsilon() <= epsilon


def test_one_value_is_randomized_response():
    subset, krr = SubsetSelection(9, 1.0, 1), KRR(9, 1.0)
    assert subset.probabilities() == krr.probabilities()
    assert subset.build().threshold == krr.build().threshold
    assert subset.exact_epsilon() == krr.exact_epsilon()


def enumerated(spec, word_bits: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """All words of a small twin, and the reports of each value."""
    axes = [np.arange(2**word_bits, dtype=np.uint32)] * spec.subset_size
    words = np.stack(np.meshgrid(*axes), -1).reshape(-1, spec.subset_size)
    send = jax.jit(jax.vmap(spec.build(word_bits).from_bits, in_axes=(0, None)))
    values = range(spec.num_values)
    return words, [np.asarray(send(jnp.asarray(words), jnp.int32(v)))[:, 0] for v in values]


@pytest.mark.parametrize(("k", "d"), [(4, 1), (7, 3), (6, 4)])
def test_every_word_of_a_small_twin(k, d):
    """Words of 4 bits: the channel as Fractions, the empty set of silent users included."""
    spec = SubsetSelection(k, 1.0, d)
    words, reports = enumerated(spec, 4)
    columns = spec.reports()[:, 0].tolist()
    for report, row in zip(reports, spec.channel(4), strict=True):
        seen = Counter(report.tolist())
        assert set(seen) <= set(columns)
        assert [Fraction(seen[c], len(words)) for c in columns] == row
    silent = [row[-1] for row in spec.channel(4)]
    assert (
        d == 1
        or silent == [1 - math.prod(1 - Fraction(16 % m, 16) for m in range(k - d + 1, k))] * k
    )


def worst_ratio(reports: list[list]) -> float:
    """The largest ratio of the probabilities of a report under two values."""
    laws = [Counter(r) for r in reports]
    return max(a[y] / b[y] if b[y] else math.inf for a in laws for b in laws for y in a)


def test_true_value_in_the_same_position_is_caught():
    """Negative control: sets sent as lists that begin with the own value are not private."""
    spec = SubsetSelection(7, 1.0, 3)
    _, reports = enumerated(spec, 4)
    assert worst_ratio([r.tolist() for r in reports]) <= exp_lower(1.0)

    def own_first(report: int, value: int) -> tuple[int, ...]:
        members = [v for v in range(7) if report >> v & 1]
        return tuple(sorted(members, key=lambda v: (v != value, v)))

    lists = [[own_first(y, v) for y in r.tolist()] for v, r in enumerate(reports)]
    assert worst_ratio(lists) > 1000


def test_packed_sets_are_those_of_floyds_algorithm(rng):
    """70 values in three words, against the algorithm on Python sets."""
    spec = SubsetSelection(70, 1.0, 19)
    params = spec.build()
    words = rng.integers(0, 2**32, size=(200, 19), dtype=np.uint32)
    words[0] = 0
    words[1, 3] = 2**32 - 1  # above every multiple: silent
    values = rng.integers(0, 70, size=200).astype(np.int32)
    send = jax.jit(jax.vmap(params.from_bits))
    sent = np.asarray(send(jnp.asarray(words), jnp.asarray(values)))
    for row, value, report in zip(words.tolist(), values.tolist(), sent.tolist(), strict=True):
        others = [v for v in range(70) if v != value]
        threshold = int(params.threshold)
        labels = set() if row[0] < threshold else {(row[0] - threshold) % 51}
        for word, last in zip(row[1:], range(51, 69), strict=True):
            label = word % (last + 1)
            labels.add(last if label in labels else label)
        expected = {others[i] for i in labels} | ({value} if row[0] < threshold else set())
        if any(w >= 2**32 - 2**32 % m for w, m in zip(row[1:], range(52, 70), strict=True)):
            expected = set()
        packed = sum(word << 32 * i for i, word in enumerate(report))
        assert {v for v in range(96) if packed >> v & 1} == expected
    assert sent[1].tolist() == [0, 0, 0]
    mask = rng.random(200) < 0.5
    tally = params.tally(jnp.asarray(sent), jnp.asarray(mask))
    bits = np.unpackbits(sent.view(np.uint8), axis=1, bitorder="little")[mask, :70]
    np.testing.assert_array_equal(tally["support"].numpy(), bits.sum(axis=0))
    assert int(tally["users"]) == mask.sum()


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 3])
def test_sampled_tally_of_few_users_is_the_law_of_the_channel(window, key, monkeypatch):
    """Every tally of users of the values 0, 1, 1, some of them silent, in 20,000 draws."""
    monkeypatch.setattr(_subset_selection, "_WINDOW", window)  # rows are 0, 1 and 2 values to take
    spec, draws = SubsetSelection(4, 1.5, 2), 20_000
    params, columns = spec.build(4), spec.reports()[:, 0]
    bits = (columns[:, None] >> np.arange(4, dtype=np.uint32)) & 1
    law: dict[tuple[int, ...], Fraction] = {}
    channel = spec.channel(4)
    for y in itertools.product(range(len(columns)), repeat=3):
        chance = channel[0][y[0]] * channel[1][y[1]] * channel[1][y[2]]
        tally = tuple(bits[list(y)].sum(axis=0).tolist())
        law[tally] = law.get(tally, Fraction(0)) + chance
    sample = jax.jit(jax.vmap(params.sample_tally, in_axes=(0, None)))
    drawn = sample(jax.random.split(key, draws), Count.of([1, 2, 0, 0]))
    assert np.all(drawn["users"].numpy() == 3)
    seen = Counter(map(tuple, drawn["support"].numpy().tolist()))
    assert set(seen) <= set(law)
    counts, chances = [seen[t] for t in law], [float(p) for p in law.values()]
    swapped = [float(law[t[1], t[0], *t[2:]]) for t in law]
    stats.check_multinomial(counts, chances)
    stats.must_fail(stats.check_multinomial, counts, swapped)


def standard_errors(spec, counts, key, trials: int) -> np.ndarray:
    """Errors of sampled tallies in standard deviations, float64[trials, k]."""
    params = spec.build()
    draw = jax.jit(jax.vmap(lambda k: params.estimate(params.sample_tally(k, Count.of(counts)))))
    found = np.asarray(draw(jax.random.split(key, trials)), np.float64)
    return (found - counts) / np.sqrt(spec.variance(counts))


def check_standard_errors(spec, counts, errors) -> None:
    """The mean of each entry, and of the sum of squares, whose spread is 2 |correlation|**2.

    Power 0.999 for a mean off by 1.2 standard deviations in one entry of a hundred trials, and for
    variances off by `15 |correlation| / (k sqrt(trials))`.
    """
    k = len(counts)
    total = sum(c * spec.covariance(v) for v, c in enumerate(counts) if c)
    scale = np.sqrt(np.diag(total))
    correlation = np.sum((total / np.outer(scale, scale)) ** 2)
    assert correlation < 1.5 * k
    stats.check_mean(errors, 0.0, variance=1.0)
    squares = np.sum(errors**2, axis=1)
    stats.check_mean(squares, k, variance=2.1 * correlation)
    stats.must_fail(stats.check_mean, errors + 1.5, 0.0, variance=1.0)
    stats.must_fail(stats.check_mean, 1.15 * squares, k, variance=2.1 * correlation)


def test_sampled_tally_in_several_windows(key, monkeypatch):
    """Users of 19 rows, three rows at a time; some values nobody has."""
    monkeypatch.setattr(_subset_selection, "_WINDOW", 3)
    spec, counts = SubsetSelection(24, 0.5, 18), np.array([900, 300, 0, 0, 100, 1] * 4)
    check_standard_errors(spec, counts, standard_errors(spec, counts, key, 300))


@pytest.mark.slow
def test_sampled_tally_of_a_billion_users(key):
    spec, counts = SubsetSelection(32, 2.0), np.zeros(32, int)
    counts[:3] = 10**9, 10**6, 1
    check_standard_errors(spec, counts, standard_errors(spec, counts, key, 200))


@pytest.mark.slow
def test_sampled_tally_of_a_million_users_and_a_thousand_values(key, rng):
    spec = SubsetSelection(1024, 1.0)
    counts = rng.multinomial(10**6, rng.dirichlet(np.ones(1024)))
    check_standard_errors(spec, counts, standard_errors(spec, counts, key, 120))


def test_edges_and_limits():
    with pytest.raises(ValueError, match=r"epsilon.*at most .* num_values = 8 and subset_size = 2"):
        SubsetSelection(8, 22.0, 2)
    with pytest.raises(ValueError, match=r"epsilon.*at least about"):
        SubsetSelection(1000, 1e-7)
    with pytest.raises(ValueError, match=r"num_values = 32768.*would send nothing"):
        SubsetSelection(2**15, 1.0)
    assert SubsetSelection(2**20, 12.0).build().subset_size < 10
