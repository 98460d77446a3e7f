"""Brackets of shuffled channels, against exact enumeration, published numbers and each other."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from jaxdp.accounting import (
    PairLaw,
    ShuffleBracket,
    _hidden_sums,
    pair_shuffle_bracket,
    pair_shuffle_delta,
    shuffle_bracket,
    shuffle_epsilon,
)
from jaxdp.accounting._binary_shuffle import attained_binary_delta, proven_binary_delta
from jaxdp.accounting._hidden_sums import positive_part, tail_bound
from jaxdp.accounting._shuffle_channel import _hidden
from jaxdp.randomizers import KRR, HadamardBit, HadamardResponse, SubsetSelection
from tests.marks import slow


def response(num_values: int, epsilon: float) -> list[list[float]]:
    """k-ary randomized response."""
    e = math.exp(epsilon)
    return [
        [(e if x == y else 1) / (e + num_values - 1) for y in range(num_values)]
        for x in range(num_values)
    ]


def histograms(rows: list[list[Fraction]]) -> dict[tuple[int, ...], Fraction]:
    """The exact law of the histogram of one report of each row."""
    size = len(rows[0]) if rows else 0
    law = {(0,) * size: Fraction(1)} if rows else {(): Fraction(1)}
    for row in rows:
        longer: dict[tuple[int, ...], Fraction] = {}
        for counts, p in law.items():
            for y, q in enumerate(row):
                key = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                longer[key] = longer.get(key, Fraction(0)) + p * q
        law = longer
    return law


def exact_delta(channel: list[list[Fraction]], n: int, epsilon: float) -> Fraction:
    """The largest hockey-stick divergence over all neighbouring data sets of n users."""
    gap, values = Fraction(math.exp(epsilon)), range(len(channel))
    worst = Fraction(0)
    for others in itertools.combinations_with_replacement(values, n - 1):
        laws = [histograms([channel[v], *(channel[z] for z in others)]) for v in values]
        for x, y in itertools.permutations(values, 2):
            excess = (p - gap * laws[y][key] for key, p in laws[x].items())
            worst = max(worst, sum((e for e in excess if e > 0), Fraction(0)))
    return worst


def sixteenths(*rows: list[int]) -> list[list[Fraction]]:
    return [[Fraction(p, 16) for p in row] for row in rows]


ENUMERATED = [
    (sixteenths([12, 4], [3, 13]), 8),
    (sixteenths([10, 6], [8, 8], [3, 13]), 5),
    (sixteenths([8, 4, 4], [4, 8, 4], [4, 4, 8]), 4),
    (sixteenths([10, 3, 3], [3, 10, 3], [3, 3, 10]), 3),
    (sixteenths([9, 4, 3], [2, 9, 5]), 6),
    (sixteenths([8, 5, 3], [0, 9, 7]), 4),  # a report that proves its value
    (sixteenths([7, 3, 3, 3], [3, 7, 3, 3], [3, 3, 7, 3], [3, 3, 3, 7]), 3),
    (sixteenths([9, 3, 2, 2], [1, 1, 7, 7], [4, 4, 4, 4]), 3),
]


@pytest.mark.parametrize(("channel", "n"), ENUMERATED, ids=lambda x: str(x)[-40:])
def test_brackets_hold_what_enumeration_finds(channel, n):
    """In rational arithmetic, over all pairs of neighbouring data sets."""
    for delta in (1e-3, 0.05):
        found = shuffle_bracket(channel, n, delta)
        if math.isfinite(found.upper):
            assert exact_delta(channel, n, found.upper) <= delta
        else:
            assert exact_delta(channel, n, 50.0) > delta
        if found.lower > 0:
            assert exact_delta(channel, n, found.lower) > delta
        if len(channel[0]) == 2:
            assert found.upper <= 1.001 * found.lower


@pytest.mark.parametrize("n", [1, 2, 7, 60])
@pytest.mark.parametrize(("low", "high"), [(0.3, 0.7), (0.1, 0.5), (0.02, 0.98), (0.4, 0.45)])
def test_two_kinds_of_reports_over_all_compositions(low, high, n):
    for epsilon in (0.0, 0.05, 0.4, 1.5):
        worst, gap = 0.0, math.exp(epsilon)
        for c in range(n):
            law = np.ones(1)
            for p in [high] * c + [low] * (n - 1 - c):
                law = np.convolve(law, [1 - p, p])
            one, two = np.convolve(law, [1 - high, high]), np.convolve(law, [1 - low, low])
            for first, second in ((one, two), (two, one)):
                worst = max(worst, np.maximum(first - gap * second, 0).sum())
        assert attained_binary_delta(epsilon, low, high, n) <= worst + 1e-15
        assert worst - 1e-15 <= proven_binary_delta(epsilon, low, high, n)
        assert proven_binary_delta(epsilon, low, high, n) <= worst * (1 + 1e-9) + 1e-15


def test_intervals_of_compositions_cost_little():
    """With 20,000 users, ten compositions are taken together."""
    for epsilon0, epsilon in ((1.0, 0.0244), (2.0, 0.0594), (4.0, 0.209)):
        high = 1 / (1 + math.exp(-epsilon0))
        proven = proven_binary_delta(epsilon, 1 - high, high, 20_000)
        assert attained_binary_delta(epsilon, 1 - high, high, 20_000) <= proven
        assert proven <= 1.01 * attained_binary_delta(epsilon, 1 - high, high, 20_000)


def multinomial_part(values: list[float], weights: list[float], n: int) -> float:
    """`E[(sum of n)_+]` by all counts of three atoms, the last one being 0."""
    total = 0.0
    for i in range(n + 1):
        for j in range(n - i + 1):
            log = math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(j + 1)
            log += i * math.log(weights[0]) + j * math.log(weights[1]) - math.lgamma(n - i - j + 1)
            log += (n - i - j) * math.log(1 - weights[0] - weights[1])
            total += math.exp(log) * max(i * values[0] + j * values[1], 0.0)
    return total


@pytest.mark.parametrize("n", [1, 5, 40, 300])
@pytest.mark.parametrize(
    ("values", "weights"),
    [
        ([1.0, -1.05], [0.3, 0.3]),
        ([0.8, -1.7], [0.1, 0.2]),
        ([3.0, -90.0], [0.01, 0.01]),
        ([0.01, -0.013], [0.45, 0.5]),
        ([1e5, -3e9], [1e-6, 1e-6]),
    ],
)
def test_positive_parts_are_bracketed(values, weights, n):
    exact = multinomial_part(values, weights, n)
    scale = sum(abs(v) * w for v, w in zip(values, weights, strict=True))
    arguments = np.array(values), np.array(weights), scale, n
    found = positive_part(*arguments)
    assert found.lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= found.upper <= tail_bound(*arguments)
    assert found.upper <= 1.02 * found.lower


def test_stages_agree(monkeypatch):
    """Sums of blocks, rounded once more, against one sum of all."""
    values, weights = np.array([1.2, -1.37, -0.01]), np.array([0.2, 0.2, 0.5])
    staged = positive_part(values, weights, 1.0, 4099)
    monkeypatch.setattr(_hidden_sums, "_ONE_STAGE", 5000)
    once = positive_part(values, weights, 1.0, 4099)
    assert max(staged.lower, once.lower) <= min(staged.upper, once.upper)
    assert staged.upper / once.lower < 1.03 > once.upper / staged.lower


def test_values_that_are_known():
    """The blanket's and the exact values of three channels at n = 20,000, delta = 1e-6."""
    n, delta = 20_000, 1e-6
    for epsilon0, exact, blanket in ((1, 0.0244, 0.0297), (2, 0.0594, 0.0789), (4, 0.209, 0.281)):
        found = shuffle_bracket(response(2, epsilon0), n, delta)
        assert found.lower <= found.upper <= 1.001 * found.lower
        assert found.upper == pytest.approx(exact, rel=3e-3)
        rows = np.array(response(2, epsilon0))
        pair = PairLaw(rows[0], rows[1], rows.min(axis=0), rows)
        assert pair_shuffle_bracket([pair], n, delta).upper == pytest.approx(blanket, rel=3e-3)
    # without randomness: e**epsilon0 >= n is no help, and many values are
    assert shuffle_bracket(response(64, 1.0), n, delta).upper == pytest.approx(0.0062, rel=1e-2)
    assert shuffle_bracket(response(64, 4.0), n, delta).upper == pytest.approx(0.187, rel=1e-2)
    assert shuffle_epsilon(1.0, n, delta) == pytest.approx(0.0365, rel=1e-2)


def test_formulas_of_the_papers():
    """The blanket of k-ary response by counts of its reports, and the largest divergence."""
    n, values, epsilon0, epsilon = 300, 5, 1.0, 0.1
    rows = np.array(response(values, epsilon0))
    p, q = rows[0, :2]
    # Balle et al. (2019), Lemma 5.3: M ~ Bin(n, gamma) uniform reports, of which the user's two
    # values are some; gamma = k q.
    gamma, total = values * q, 0.0
    gap = math.exp(epsilon)
    gains = np.array([p - gap * q, q - gap * p, q - gap * q]) * values  # over 1 / k
    for m in range(1, n + 1):
        chance = math.comb(n, m) * gamma**m * (1 - gamma) ** (n - m)
        if chance < 1e-14:
            continue
        i, j = np.meshgrid(np.arange(m + 1), np.arange(m + 1), indexing="ij")
        fits = i + j <= m
        i, j = i[fits], j[fits]
        logs = np.array([math.lgamma(x + 1) for x in range(m + 1)])
        law = np.exp(
            logs[m]
            - logs[i]
            - logs[j]
            - logs[m - i - j]
            - (i + j) * math.log(values)
            + (m - i - j) * math.log1p(-2 / values)
        )
        sums = i * gains[0] + j * gains[1] + (m - i - j) * gains[2]
        total += chance * float(law @ np.maximum(sums, 0.0))
    pair = PairLaw(*np.array(rows)[:2], np.full(values, q), np.array(rows)[2:3])
    found = pair_shuffle_delta([pair], n, epsilon)
    assert total / (gamma * n) <= found <= 1.01 * total / (gamma * n)
    # Shvets (2026): the divergence of two rows is at most (e**epsilon0 - 1)**2 / e**epsilon0, which
    # binary response attains.
    most = math.expm1(epsilon0) ** 2 / math.exp(epsilon0)
    binary = np.array(response(2, epsilon0))
    assert _hidden(binary[0], binary[1], binary[1]).divergence == pytest.approx(most, rel=1e-9)
    assert _hidden(rows[0], rows[1], rows[1]).divergence < most


def test_response_of_three_and_more_is_known_to_one_percent():
    """Worst near epsilon0 = 0.5; the blanket alone is 1.95 % off there for three values."""
    epsilons = (0.05, 0.3, 0.5, 0.7, 1.0, 1.4, 5.0, 12.0)
    for values, epsilon0, delta in itertools.product(
        (3, 4, 6, 7, 10), epsilons, (1e-4, 1e-8, 1e-15)
    ):
        n = math.ceil(100 * math.exp(epsilon0))
        found = shuffle_bracket(response(values, epsilon0), n, delta)
        assert found.index_ratio == 1
        assert found.lower <= found.upper <= 1.01 * found.lower


def random_case(rng: np.random.Generator) -> tuple[list, int, float, float]:
    """A channel, n, delta, and the channel's epsilon0."""
    epsilon0 = float(np.exp(rng.uniform(math.log(0.01), math.log(12))))
    kind, values = int(rng.integers(5)), int(rng.integers(2, 7))
    named = (KRR, SubsetSelection, HadamardBit, HadamardResponse)
    if kind < 4 and epsilon0 < 10:
        channel = named[kind](max(values, 3), epsilon0).channel()
        assert channel is not None
    else:
        outputs = int(rng.integers(2, 7))
        tilted = rng.dirichlet(np.ones(outputs)) * np.exp(
            epsilon0 / 2 * rng.uniform(0, 1, (values, outputs))
        )
        channel = (tilted / tilted.sum(axis=1, keepdims=True)).tolist()
    table = np.array(channel, float)
    local = math.log((table.max(axis=0) / table.min(axis=0)).max())
    return channel, int(10 ** rng.uniform(0, 6)), float(10 ** rng.uniform(-15, -3)), local


@pytest.mark.parametrize("number", [40, slow(460)])
def test_random_channels(number):
    """Never crossed, at most the generic bound, and as close as the indices allow.

    The index ratio is the limit for many users; it is compared where n e**-epsilon0 >= 1000 and
    delta is far below the delta at epsilon = 0.
    """
    rng = np.random.default_rng(number)
    compared = 0
    for _ in range(number):
        channel, n, delta, local = random_case(rng)
        found = shuffle_bracket(channel, n, delta)
        assert 0 <= found.lower <= found.upper <= local * (1 + 1e-9)
        assert found.upper <= shuffle_epsilon(local, n, delta) * 1.001
        assert found.index_ratio >= 1
        if n * math.exp(-local) >= 1000 and delta < found.upper / 1000:
            compared += 1
            assert found.upper <= 1.02 * found.index_ratio * found.lower
    assert compared > number / 6


@pytest.mark.parametrize("values", [2, 4])
def test_more_users_are_more_private(values):
    users = (1, 10**3, 10**5, 10**7, 10**10)
    found = [shuffle_bracket(response(values, 2.0), n, 1e-9) for n in users]
    assert found[0].upper == pytest.approx(2.0, rel=1e-3)
    for fewer, more in itertools.pairwise(found):
        assert more.upper < fewer.lower


def test_a_channel_that_breaks_its_promise_is_caught():
    """Reports of epsilon0 = 1.5 that claim 1: data sets show more than what 1 would allow."""
    n, delta = 10_000, 1e-6
    assert shuffle_bracket(response(2, 1.5), n, delta).lower > shuffle_epsilon(1.0, n, delta)
    assert shuffle_bracket(response(2, 1.0), n, delta).upper < shuffle_epsilon(1.0, n, delta)


def test_pairs_and_channels_agree():
    rows = response(5, 2.0)
    p, q = rows[0][0], rows[0][1]
    pair = PairLaw([p, q, q, 2 * q], [q, p, q, 2 * q], [q, q, q, 2 * q], [[q, q, p, 2 * q]])
    one, two = (
        pair_shuffle_bracket([pair], 1000, 1e-6),
        shuffle_bracket(rows, 1000, 1e-6),
    )
    assert dataclasses.astuple(one) == pytest.approx(dataclasses.astuple(two), rel=1e-3)


def test_columns_in_proportion_are_one_kind_of_report():
    """Two bits, one of them a coin, are binary."""
    coin = [[p / 2, p / 2, q / 2, q / 2] for p, q in response(2, 1.0)]
    one, two = shuffle_bracket(coin, 500, 1e-6), shuffle_bracket(response(2, 1.0), 500, 1e-6)
    assert dataclasses.astuple(one) == pytest.approx(dataclasses.astuple(two), rel=1e-9)


def test_reports_that_prove_a_value_count_in_delta():
    rows = [[0.5 - 1e-7, 0.5, 1e-7], [0.25, 0.75, 0.0], [0.4, 0.6, 0.0]]
    assert math.isinf(shuffle_bracket(rows, 1000, 0.9e-7).upper)
    found = shuffle_bracket(rows, 1000, 1e-6)
    assert 0 < found.lower <= found.upper < 1
    assert shuffle_bracket([[0.5, 0.3, 0.2]] * 2, 10, 1e-9) == ShuffleBracket(0.0, 0.0, 1.0)


def test_equal_laws_have_equal_keys():
    """The order of reports, and splitting one into two in proportion, make no difference."""
    first, second, least = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.1, 0.2, 0.2]])
    split = [np.array([x[2], x[0] / 3, x[1], 2 * x[0] / 3]) for x in (first, second, least)]
    assert _hidden(first, second, least).key == _hidden(*split).key
    assert _hidden(first, second, least).key != _hidden(second, first, least).key


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shuffle_bracket([[1.0]], 10, 1e-6), "at least two rows"),
        (lambda: shuffle_bracket([[0.5, 0.5], [0.5, 0.6]], 10, 1e-6), "of sum 1"),
        (lambda: shuffle_bracket([[0.5, 0.5], [1.0]], 10, 1e-6), "the same length"),
        (lambda: shuffle_bracket(np.full((600, 600), 1 / 600), 10, 1e-6), "pair_shuffle_bracket"),
        (lambda: shuffle_bracket(response(3, 1.0), 0, 1e-6), "num_users"),
        (lambda: shuffle_bracket(response(3, 1.0), 10, 1.0), "delta"),
        (lambda: pair_shuffle_bracket([], 10, 0.1), "at least one pair"),
        (lambda: pair_shuffle_bracket([([1], [1])], 10, 0.1), "PairLaw"),
        (lambda: pair_shuffle_bracket([PairLaw([1], [1], [1, 0], [[1]])], 10, 0.1), "same classes"),
        (lambda: pair_shuffle_bracket([PairLaw([1], [1], [1], [[2]])], 10, 0.1), "of sum 1"),
        (
            lambda: pair_shuffle_bracket(
                [PairLaw([0.5, 0.5], [0.2, 0.8], [0.4, 0.5], [[0.5, 0.5]])], 10, 0.1
            ),
            "`least`",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
