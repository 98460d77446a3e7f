"""The statistical checks themselves: false alarms, power, negative controls.

False alarms are not sampled but summed: a check runs on every possible outcome of a small
experiment, and the exact probability of the outcomes that it rejects must stay below the level.
"""

import functools
import itertools
import math
from collections.abc import Iterable

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, multinomial, multivariate_hypergeom

from jaxdp.testing import _statistics as base
from tests import _bounds, stats
from tests.marks import slow

LEVELS = [1e-9, slow(1e-4), 1e-2, slow(0.3)]


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    monkeypatch.setattr(base, "ALPHA", request.param)
    return request.param


def rejects(check, *args, **kwargs):
    try:
        check(*args, **kwargs)
    except stats.CheckFailed:
        return True
    return False


def rejected_mass(check, outcomes: Iterable[tuple[tuple, float]], **kwargs):
    """The total probability of the outcomes (arguments, probability) that the check rejects."""
    return sum(mass for args, mass in outcomes if rejects(check, *args, **kwargs))


def two_point(n, p, *law, values=(0.0, 1.0)):
    """Every multiset of n draws from two values, the second having probability p.

    Those of probability below 1e-16 are left out: they could not add up to a thousandth of a level.
    """
    for ones, mass in enumerate(binom.pmf(np.arange(n + 1), n, p)):
        if mass > 1e-16:
            yield (np.repeat(values, [n - ones, ones]), *law), mass


def compositions(n, k):
    for bars in itertools.combinations(range(n + k - 1), k - 1):
        yield np.diff([-1, *bars, n + k - 1]) - 1


# ---- false alarms -----------------------------------------------------------------------------


@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize("p", [0.0, 1e-9, 1e-3, 0.3, 0.5, 1.0])
def test_proportion_false_alarms(level, p, at_most):
    n = 80
    outcomes = [((x, n, p), binom.pmf(x, n, p)) for x in range(n + 1)]
    assert rejected_mass(stats.check_proportion, outcomes, at_most=at_most) <= level
    if not at_most:
        stats.must_fail(stats.check_proportion, 80 if p < 0.5 else 0, n, p)


@pytest.mark.parametrize(
    ("successes", "trials", "p", "tail"),
    [  # P(X >= successes), summed with 60 digits
        (3297, 10**4, 0.3, 7.079477176032383e-11),
        (503100, 10**6, 0.5, 2.840802635966436e-10),
        (14, 10**9, 1e-9, 4.5198521924975805e-12),
        (1202, 10**12, 1e-9, 3.219440515849587e-10),
        (1006999, 10**12, 1e-6, 1.3692435543909634e-12),
    ],
)
def test_proportion_tails_are_exact_at_any_size(monkeypatch, successes, trials, p, tail):
    monkeypatch.setattr(base, "ALPHA", 2 * tail * (1 - 1e-8))
    stats.check_proportion(successes, trials, p)
    monkeypatch.setattr(base, "ALPHA", 2 * tail * (1 + 1e-8))
    stats.must_fail(stats.check_proportion, successes, trials, p)


@pytest.mark.parametrize(("n", "p"), [(12, [0.2, 0.3, 0.5]), (9, [0.01, 0.04, 0.25, 0.7])])
def test_multinomial_false_alarms(level, n, p):
    outcomes = [((c, p), multinomial.pmf(c, n, p)) for c in compositions(n, len(p))]
    assert rejected_mass(stats.check_multinomial, outcomes) <= level
    assert rejected_mass(stats.check_multinomial, outcomes) > 0 or level < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), [((5, 8), [0.1, 0.3, 0.6]), ((30, 40), [0.2, 0.8])])
def test_same_distribution_false_alarms(level, n, p):
    pairs = itertools.product(*(list(compositions(m, len(p))) for m in n))
    outcomes = [
        ((a, b), multinomial.pmf(a, n[0], p) * multinomial.pmf(b, n[1], p)) for a, b in pairs
    ]
    mass = rejected_mass(stats.check_same_distribution, outcomes)
    assert mass <= level
    assert mass > 0 or n == (5, 8)


def test_cdf_false_alarms_for_a_law_with_atoms(level):
    p = 0.3
    outcomes = two_point(100, p, lambda x: np.where(x < 1, 1 - p, 1.0))
    mass = rejected_mass(stats.check_cdf, outcomes, cdf_left=lambda x: np.where(x < 1, 0.0, 1 - p))
    assert 0 < mass <= level


def test_cdf_false_alarms_for_a_continuous_law(rng, monkeypatch):
    monkeypatch.setattr(base, "ALPHA", 0.05)
    alarms = sum(rejects(stats.check_cdf, rng.random(200), lambda x: x) for _ in range(1000))
    monkeypatch.undo()
    stats.check_proportion(alarms, 1000, 0.05, at_most=True)
    stats.must_fail(stats.check_proportion, alarms, 1000, 0.001)  # the bound is almost tight


@pytest.mark.parametrize(("n", "m"), [(6, 6), (5, 7)])
def test_two_samples_false_alarms(level, n, m):
    positions = range(n + m)
    subsets = list(itertools.combinations(positions, n))
    outcomes = [((a, sorted({*positions} - {*a})), 1 / len(subsets)) for a in subsets]
    mass = rejected_mass(stats.check_two_samples, outcomes)
    assert mass <= level
    assert mass > 0 or level < 0.3


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("mode", ["catoni", "bernstein", "empirical"])
def test_mean_false_alarms(level, p, mode):
    assumptions = {
        "catoni": dict(variance=p * (1 - p)),
        "bernstein": dict(variance=p * (1 - p), scale=max(p, 1 - p) / 3),
        "empirical": dict(bounds=(0, 1)),
    }[mode]
    n = 20_000 if mode == "empirical" else 300  # which is cautious in small samples
    mass = rejected_mass(stats.check_mean, two_point(n, p, p), **assumptions)
    assert mass <= level
    assert mass > 0 or (mode, level) == ("empirical", 1e-9)


@pytest.mark.parametrize("p", [0.02, 0.1, 0.3])
def test_variance_false_alarms(level, p):
    variance, n = p * (1 - p), 300
    law = dict(kurtosis=1 / variance - 3, mean=p)
    outcomes = list(two_point(n, p, variance))
    assert 0 < rejected_mass(stats.check_variance, outcomes, **law) <= level
    assert rejected_mass(stats.check_variance, outcomes, **law, at_most=True) <= level
    below = [((x, 1.3 * v), mass) for (x, v), mass in outcomes]
    assert rejected_mass(stats.check_variance, below, **law, at_most=True) <= level


def test_variance_false_alarms_with_unknown_mean(level):
    p, pairs = 0.1, 200
    different = binom.pmf(np.arange(pairs + 1), pairs, 2 * p * (1 - p))
    outcomes = [
        ((np.concatenate([np.tile([0, 1], d), np.zeros(2 * (pairs - d))]), p * (1 - p)), mass)
        for d, mass in enumerate(different)
    ]
    kurtosis = 1 / (p * (1 - p)) - 3
    assert 0 < rejected_mass(stats.check_variance, outcomes, kurtosis=kurtosis) <= level


def assert_bounds(bounds_and_masses):
    """P(bound <= b) <= b for every b: what makes a bound a valid test at every level."""
    bounds, masses = np.array(sorted(bounds_and_masses)).T
    assert np.all(np.cumsum(masses) <= np.exp(bounds) * (1 + 1e-9))


@pytest.mark.parametrize("p", [[0.5, 0.5], [0.01, 0.99], [0.1, 0.2, 0.7], [0.25] * 4])
def test_agrawal_bound(p):
    cells = compositions(14, len(p))
    assert_bounds((base.agrawal(c, np.array(p))[1], multinomial.pmf(c, 14, p)) for c in cells)


@pytest.mark.parametrize("pool", [[10, 10], [1, 19], [3, 4, 13], [5, 5, 5, 5]])
def test_agrawal_bound_without_replacement(pool):
    pool = np.array(pool)
    for draws in (3, 10):
        cells = [c for c in compositions(draws, pool.size) if np.all(c <= pool)]
        assert_bounds(
            (base.agrawal(c, pool / 20)[1], multivariate_hypergeom.pmf(c, pool, draws))
            for c in cells
        )


def test_hypergeometric_bound():
    total, marked, draws = 2000, 300, 700
    seen = np.arange(106, 200)
    bound = np.exp(_bounds.hypergeometric(seen, total, marked, draws))
    weights = [math.comb(marked, x) * math.comb(total - marked, draws - x) for x in range(301)]
    exact = np.array([sum(weights[x:]) / math.comb(total, draws) for x in seen])
    assert np.all(bound >= exact * (1 - 1e-9))
    assert np.all((bound <= 1.1 * exact) | (exact > 1e-5))
    assert math.isclose(exact[50], hypergeom.sf(seen[50] - 1, total, marked, draws), rel_tol=1e-6)


def test_hypergeometric_bound_does_not_cancel_at_large_counts():
    seen = np.arange(1120, 1400)  # of 2000 marked among 2e12: in the limit Binomial(2000, 1/2)
    bound = np.exp(_bounds.hypergeometric(seen, 2e12, 2000, 1e12))
    ratio = bound / binom.sf(seen - 1, 2000, 0.5)
    assert np.all((ratio > 1 - 1e-6) & (ratio < 1.05))


@pytest.mark.parametrize("n", [10**3, 10**6, 10**9, 10**12])
def test_counts_of_every_size(rng, n):
    p = np.arange(1, 65) ** 2 / np.sum(np.arange(1, 65) ** 2)
    q = p * (1 + np.where(np.arange(64) % 2, 1, -1) * min(0.5, 50 * n**-0.5))
    counts, others = rng.multinomial(n, p), rng.multinomial(n // 3, p)
    stats.check_multinomial(counts, p)
    stats.check_same_distribution(counts, others)
    if n > 10**3:
        stats.must_fail(stats.check_multinomial, counts, q / q.sum())
        moved = rng.multinomial(n, q / q.sum())
        stats.must_fail(stats.check_same_distribution, counts, moved)


# ---- power ------------------------------------------------------------------------------------


def assert_power(check, outcomes, too_close, **kwargs):
    """The stated offset is detected as often as stated, and one of `too_close` is not."""
    assert 1 - rejected_mass(check, outcomes, **kwargs) <= 1 - stats.POWER + 1e-9
    assert 1 - rejected_mass(check, too_close, **kwargs) > 1 - stats.POWER


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), [(1000, 0.3), (2000, 1e-3), (1000, 0.97)])
def test_proportion_power(n, p):
    d = stats.detectable_proportion(n, p)
    outcomes, too_close = (
        [((x, n, p), binom.pmf(x, n, p + offset)) for x in range(n + 1)] for offset in (d, 0.97 * d)
    )
    assert_power(stats.check_proportion, outcomes, too_close)


def test_proportion_power_is_the_familiar_one():
    d = stats.detectable_proportion(10**8, 0.3)
    assert math.isclose(10**8, 84.6 * 0.3 * 0.7 / d**2, rel_tol=0.01)
    assert stats.detectable_proportion(5, 0.9) == math.inf


@pytest.mark.slow
def test_difference_power(rng):
    n, m, p = 10**5, 10**6, np.array([0.2, 0.3, 0.5])
    d = stats.detectable_difference(n, m, 0.2, cells=3)
    draws = 1000

    def misses(offset):
        a = rng.multinomial(n, p, draws)
        b = rng.multinomial(m, p + offset * np.array([1, -1, 0]), draws)
        return sum(
            not rejects(stats.check_same_distribution, *pair) for pair in zip(a, b, strict=True)
        )

    stats.check_proportion(misses(d), draws, 1 - stats.POWER, at_most=True)
    assert misses(d / 2) > draws / 2


@pytest.mark.parametrize("m", [None, 2000, 3000])
def test_cdf_power(rng, m):
    n, draws = 2000, 300
    d = stats.detectable_cdf(n, m)

    def misses(distance):  # a law at this distance from the uniform one, reached at 1/2
        count = 0
        for _ in range(draws):
            moved = (rng.random(n) + (rng.random(n) > 0.5 + distance)) / 2
            if m is None:
                count += not rejects(stats.check_cdf, moved, lambda x: x)
            else:
                count += not rejects(stats.check_two_samples, moved, rng.random(m))
        return count

    stats.check_proportion(misses(d), draws, 1 - stats.POWER, at_most=True)
    assert misses(d / 2) > draws / 2


@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("mode", ["catoni", "bernstein", "empirical"])
def test_mean_power(p, mode):
    n, variance = 1500, p * (1 - p)
    assumptions = dict(bounds=(-0.5, 1.5)) if mode == "empirical" else dict(variance=variance)
    known = dict(bounds=(-0.5, 1.5)) if mode == "empirical" else {}
    if mode == "bernstein":
        assumptions["scale"] = known["scale"] = max(p, 1 - p) / 3
    d = stats.detectable_mean(n, variance, **known)
    for sign in (1, -1):
        outcomes, too_close = (
            two_point(n, p, p, values=(sign * offset, 1 + sign * offset)) for offset in (d, d / 2)
        )
        assert_power(stats.check_mean, outcomes, too_close, **assumptions)


@pytest.mark.parametrize("p", [0.2, 0.4])
def test_variance_power(p):
    n, variance = 1500, p * (1 - p)
    law = dict(kurtosis=1 / variance - 3, mean=0)
    d = stats.detectable_variance(n, law["kurtosis"])
    for ratio, near in ((1 + d, 1 + d / 3), (1 - d, 1 - d / 3)):
        outcomes, too_close = (
            two_point(n, p, variance, values=(-p * r**0.5, (1 - p) * r**0.5)) for r in (ratio, near)
        )
        assert_power(stats.check_variance, outcomes, too_close, **law)


def test_variance_power_with_unknown_mean(rng):
    n, draws = 4000, 300
    d = stats.detectable_variance(n, 3, known_mean=False)
    samples = (1 + d) ** 0.5 * rng.normal(size=(draws, n)) + 17
    misses = sum(not rejects(stats.check_variance, x, 1, kurtosis=3) for x in samples)
    stats.check_proportion(misses, draws, 1 - stats.POWER, at_most=True)


def test_too_few_samples_detect_nothing():
    assert stats.detectable_mean(90, 1.0) == math.inf
    assert stats.detectable_variance(400, 15) == math.inf


# ---- behaviour --------------------------------------------------------------------------------


def test_entries_share_the_level(rng):
    samples = rng.normal(size=(1000, 3, 4))
    stats.check_mean(samples, np.zeros((3, 4)), variance=1)
    d = stats.detectable_mean(1000, 1, cells=12)
    samples[:, 1, 2] += d
    with pytest.raises(
        stats.CheckFailed, match=r"1 of 12 entries fail. The worst, \[6\]: observed"
    ):
        stats.check_mean(samples, np.zeros((3, 4)), variance=1)
    edge = np.zeros(400) + 6.9 / 20  # rejected alone, accepted as one of many
    stats.must_fail(stats.check_mean, edge, 0, variance=1, scale=0)
    stats.check_mean(edge, 0, variance=1, scale=0, cells=10**6)
    stats.check_mean(np.tile(edge[:, None], 1000), 0, variance=1, scale=0)


def test_one_huge_trial_is_enough_for_bernstein(rng):
    n, p = 10**9, 0.3
    estimate = rng.binomial(n, p) / n
    law = dict(variance=p * (1 - p) / n, scale=0.7 / 3 / n)
    stats.check_mean(estimate, p, **law)
    stats.must_fail(stats.check_mean, estimate + stats.detectable_mean(1, **law), p, **law)


def test_thresholds_are_those_of_the_formulas():
    """To 0.5 %, where a wrong number of sides would show as 1.6 %."""
    n, two_sided, one_sided = 10**6, math.log(2 / base.ALPHA), math.log(1 / base.ALPHA)

    def flips_at(threshold, check):
        check(0.995 * threshold)
        stats.must_fail(check, 1.005 * threshold)

    def mean(offset):
        stats.check_mean(np.full(n, offset), 0, variance=1)

    def distance(offset):
        stats.check_cdf((np.arange(n) + 0.5) / n + offset, lambda x: np.minimum(x, 1))

    def squares(excess, **options):
        signs = np.tile([1, -1], n // 2)
        scale = 1 if "mean" in options else 2  # neighbours are two standard deviations apart
        samples = signs * np.sqrt((1 + excess) / scale)
        stats.check_variance(samples, 1, **options)

    flips_at(math.sqrt(2 * two_sided / n), mean)
    flips_at(math.sqrt(two_sided / (2 * n)), distance)
    flips_at(math.sqrt(2 * 2 * two_sided / n), functools.partial(squares, kurtosis=3, mean=0))
    flips_at(math.sqrt(2 * 2 * two_sided / (n / 2)), functools.partial(squares, kurtosis=3))
    at_most = functools.partial(squares, mean=0, at_most=True)
    flips_at(math.sqrt(2 * 2 * one_sided / n), functools.partial(at_most, kurtosis=3))
    flips_at(math.sqrt(2 * 1 * one_sided / n), functools.partial(at_most, kurtosis=1.5))


def test_heavy_tails_are_no_false_alarm(rng):
    samples = rng.standard_t(2.5, size=(10**5, 4))  # variance 5, no fourth moment
    stats.check_mean(samples, 0, variance=5)
    stats.must_fail(stats.check_mean, samples, 0.3, variance=5)


def test_unsigned_counts_do_not_wrap():
    stats.check_proportion(np.uint32(0), np.uint32(10), 0.5)
    stats.must_fail(stats.check_proportion, np.uint32(0), np.uint32(100), 0.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_samples_that_are_not_finite_fail(bad):
    samples = np.array([*np.linspace(0, 1, 500), bad])
    stats.must_fail(stats.check_mean, samples, 0.5, variance=1)
    stats.must_fail(stats.check_variance, samples, 0.1, kurtosis=3)
    stats.must_fail(stats.check_cdf, samples, lambda x: x)
    stats.must_fail(stats.check_two_samples, samples, samples)
    stats.must_fail(stats.check_proportion, bad, 10, 0.5)


def test_samples_outside_of_their_bounds_fail():
    stats.must_fail(stats.check_mean, np.full(500, 0.5), 0.5, bounds=(0.6, 1))


def test_impossible_cell_must_be_empty():
    stats.check_multinomial([5, 5, 0], [0.5, 0.5, 0])
    stats.must_fail(stats.check_multinomial, [10**6, 10**6, 1], [0.5, 0.5, 0])


def test_misuse_is_an_error_and_no_verdict():
    with pytest.raises(ValueError, match="sum 1"):
        stats.check_multinomial([1, 2], [0.5, 0.6])
    with pytest.raises(ValueError, match="or bounds"):
        stats.check_mean(np.zeros(500), 0)
    with pytest.raises(ValueError, match="needs 86 samples here, got 50"):
        stats.check_mean(np.zeros(50), 0, variance=1)
    with pytest.raises(ValueError, match="compare constants"):
        stats.check_mean(np.zeros(500), 0, variance=0)


def test_must_fail_fails_on_a_check_that_passes():
    with pytest.raises(AssertionError, match="check_proportion accepted data"):
        stats.must_fail(stats.check_proportion, 5, 10, 0.5)
    with pytest.raises(ValueError, match="or bounds"):
        stats.must_fail(stats.check_mean, np.zeros(500), 0)
