"""All pairs of users: every pair once, exact errors by enumeration, the budget of n - 1 reports."""

import functools
import itertools
import math

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.bounds._pairs import all_pairs_mse
from jaxdp.pairwise import GiniDiversity, GiniMeanDifference, KendallTau, PairKernel
from jaxdp.random import Count
from jaxdp.randomizers import Laplace
from jaxdp.trusted import AllPairs
from jaxdp.trusted._pair_sources import EveryPairSource, _players
from tests import stats

THREE = PairKernel.from_matrix([[0.0, 0.5, 2.0], [0.5, -1.0, 0.5], [2.0, 0.5, 2.0]])


def test_every_pair_is_there_once():
    """And the rounds of the tournament are matchings."""
    for num_users in (2, 3, 8, 9):
        users = _players(Count.of(np.arange(36)), Count.of(num_users))
        found = np.stack([player.numpy() for player in users])[:, : math.comb(num_users, 2)]
        assert {tuple(sorted(pair)) for pair in found.T.tolist()} == set(
            itertools.combinations(range(num_users), 2)
        )
        games = num_users // 2
        for start in range(0, found.shape[1], games):
            assert len(set(found[:, start : start + games].ravel().tolist())) == 2 * games


def test_the_table_counts_the_pairs(key):
    for counts in ([3, 0, 1, 2], [2**25, 2**25 - 1, 0, 0]):
        counts = np.array(counts)
        source = EveryPairSource(jaxdp.Population.from_histogram(counts).source, key)
        table = source.counts().numpy().reshape(4, 4)
        expected = np.triu(np.outer(counts, counts), 1) + np.diag(counts * (counts - 1) // 2)
        np.testing.assert_array_equal(table, expected)
        assert int(source.size) == table.sum() == math.comb(counts.sum(), 2)


@pytest.mark.parametrize("values", [(0, 1, 2), (0, 1, 1, 2)])
def test_variance_by_enumeration(values):
    """Every vector of reports: unbiased, of exactly the predicted error."""
    protocol = AllPairs(THREE, 8.0, len(values), noise="krr", delta=0.0)
    p, q = map(float, protocol.randomizer.probabilities())
    matrix = protocol.matrices()[0]
    levels = np.unique(matrix)
    scores = (levels - q * levels.sum()) / (p - q)
    held = [matrix[a, b] for a, b in itertools.combinations(values, 2)]
    mean = square = 0.0
    for reports in itertools.product(range(len(levels)), repeat=len(held)):
        chance = math.prod(p if levels[r] == v else q for r, v in zip(reports, held, strict=True))
        estimate = np.mean(scores[list(reports)])
        mean, square = mean + chance * estimate, square + chance * estimate**2
    counts = np.bincount(values, minlength=3)
    assert mean == pytest.approx(protocol.truth(counts), abs=1e-12)
    assert protocol.variance(counts) == pytest.approx(square - mean**2, rel=1e-9)
    assert protocol.variance(counts) <= protocol.worst_case_variance(len(values))


def test_population_variance_by_enumeration():
    p = np.array([0.2, 0.5, 0.3])
    protocol = AllPairs(THREE, 3.0, 4, noise="krr")
    target = protocol.population_truth(p, 4)
    total = 0.0
    for values in itertools.product(range(3), repeat=4):
        counts = np.bincount(values, minlength=3)
        error = protocol.variance(counts) + (protocol.truth(counts) - target) ** 2
        total += np.prod(p[list(values)]) * error
    assert protocol.population_variance(p, 4) == pytest.approx(total, rel=1e-9)


def test_the_error_of_laplace_noise():
    """It does not depend on the users, and is below the bound, for noise whose ends are not cut."""
    for method in ("optimal", "advanced"):
        protocol = AllPairs(GiniDiversity(), 1.0, 500, 4, composition=method)
        report = Laplace(protocol.pair_epsilon, 0.5).variance([1], [0.5])
        expected = 2 * report / (500 * 499)
        assert 0.4 * all_pairs_mse(500, 1.0, 1e-8, method=method) < expected
        assert expected < all_pairs_mse(500, 1.0, 1e-8, method=method)
        assert protocol.worst_case_variance(500) == pytest.approx(expected, rel=1e-6)
        assert protocol.variance([125] * 4) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("noise", ["laplace", "binary", "krr", "discrete_laplace"])
def test_the_budget_is_kept(noise):
    for epsilon, delta in itertools.product((0.5, 4.0), (0.0, 1e-8)):
        protocol = AllPairs(GiniMeanDifference(), epsilon, 300, 3, noise=noise, delta=delta)
        assert 0.99 * epsilon < protocol.exact_epsilon() <= epsilon
        assert protocol.exact_delta() <= delta
    shares = [
        AllPairs(GiniMeanDifference(), 1.0, 300, 3, delta=d, composition=c).pair_epsilon
        for c, d in (("basic", 0.0), ("advanced", 1e-8), ("optimal", 1e-8))
    ]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(1 / 299)


COUNTS = (5, 0, 7, 3)


@functools.cache
def simulated(method):
    protocol = AllPairs(GiniMeanDifference(), 12.0, sum(COUNTS), 4, noise="krr")
    population = jaxdp.Population.from_histogram(COUNTS)
    key = jax.random.key(len(method))
    return protocol, jaxdp.simulate(protocol, population, key, num_trials=2000, method=method)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["per_user", "tally"])
def test_simulated_errors_are_the_predicted_ones(method):
    """An offset of 0.18 standard deviations, a variance off by a third: power 0.999."""
    protocol, trials = simulated(method)
    variance, estimates = protocol.variance(COUNTS), trials.estimates[:, None]
    stats.check_mean(estimates, trials.truth, variance=variance)
    stats.check_variance(estimates, variance, mean=trials.truth, kurtosis=4.0)
    off = 0.3 * np.sqrt(variance)
    stats.must_fail(stats.check_mean, estimates + off, trials.truth, variance=variance)
    stats.must_fail(stats.check_variance, estimates, variance / 2, mean=trials.truth, kurtosis=4.0)


@pytest.mark.slow
def test_both_paths_have_one_law():
    one, two = (simulated(method)[1].estimates[:, None] for method in ("per_user", "tally"))
    stats.check_two_samples(one, two)
    stats.must_fail(stats.check_two_samples, one, two + 0.5 * two.std())


@pytest.mark.slow
def test_plug_in_statistics(key):
    """tau_b by k-RR on all three kernels; 2,000 trials see a variance off by a third."""
    counts = 400 * np.array([[300, 100, 50], [20, 180, 350]])
    protocol = AllPairs(KendallTau(variant="b"), 4.0, 400_000, (2, 3), noise="krr")
    assert protocol.worst_case_variance(400_000) == math.inf
    population = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(protocol, population, key, num_trials=2000, method="tally")
    estimates = trials.estimates[:, None]
    variance = protocol.variance(counts)
    stats.check_variance(estimates, variance, mean=trials.truth, kurtosis=4.0)
    stats.must_fail(stats.check_variance, estimates, 2 * variance, mean=trials.truth, kurtosis=4.0)


BAD = {
    "num_users": lambda: AllPairs(THREE, 1.0, 1),
    "num_users-many": lambda: AllPairs(THREE, 1.0, 2**26 + 1),
    "num_users-counts": lambda: AllPairs(THREE, 1.0, 5).variance([2, 2, 2]),
    "num_users-population": lambda: AllPairs(THREE, 1.0, 5).check_population(
        jaxdp.Population.from_histogram([2, 2, 2])
    ),
    "delta": lambda: AllPairs(THREE, 1.0, 5, delta=-1e-8),
    "delta-advanced": lambda: AllPairs(THREE, 1.0, 5, delta=0.0, composition="advanced"),
    "delta-basic": lambda: AllPairs(THREE, 1.0, 5, composition="basic"),
    "composition": lambda: AllPairs(THREE, 1.0, 5, composition="best"),
    "noise": lambda: AllPairs(THREE, 1.0, 5, noise="none"),
    "epsilon": lambda: AllPairs(THREE, math.nan, 5),
    "form": lambda: AllPairs(THREE, 1.0, 5, form="v"),
}


@pytest.mark.parametrize("label", BAD)
def test_bad_input(label):
    with pytest.raises((ValueError, TypeError), match=label.partition("-")[0]):
        BAD[label]()
