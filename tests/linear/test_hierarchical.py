"""Trees of intervals, and queries answered from their nodes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.data import load_flights
from jaxdp.linear import HierarchicalQueries, OracleQueries
from jaxdp.linear._tree import consistent_parts, interval_parts, level_widths, num_nodes
from jaxdp.randomizers import (
    KRR,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
    UnaryEncoding,
)
from jaxdp.workloads import identity, prefix
from tests.linear.measured import check_prediction
from tests.marks import slow

TREES = [(2, 2), (8, 2), (9, 2), (13, 3), (7, 7), (30, 4)]


def incidence(k, branching):
    """Which node of each level holds which value, [N, k]."""
    rows = [
        np.arange(k)[None] // w == np.arange(num_nodes(k, w))[:, None] for w in widths(k, branching)
    ]
    return np.concatenate(rows).astype(float)


def widths(k, branching):
    return level_widths(k, branching)


@pytest.mark.parametrize(("k", "branching"), TREES)
def test_consistent_parts_are_least_squares(k, branching, rng):
    costs = [rng.uniform(0.5, 2, num_nodes(k, w)) for w in widths(k, branching)]
    queries = rng.normal(size=(3, k))
    parts, constant = consistent_parts(queries, branching, costs)
    nodes, weights = incidence(k, branching), 1 / np.concatenate(costs)
    inverse = np.linalg.inv(nodes.T * weights @ nodes)
    ones = np.ones(k)
    expected = queries @ inverse @ ones / (ones @ inverse @ ones)
    np.testing.assert_allclose(constant, expected, atol=1e-12)
    fitted = (queries - expected[:, None]) @ inverse @ nodes.T * weights
    np.testing.assert_allclose(np.concatenate(parts, axis=1), fitted, atol=1e-12)


@pytest.mark.parametrize(("k", "branching"), TREES)
def test_interval_parts_are_few(k, branching):
    depth = len(widths(k, branching))
    ranges = np.array(
        [[i <= v < j for v in range(k)] for i, j in itertools.combinations(range(k + 1), 2)]
    )
    parts, constant = interval_parts(ranges.astype(float), branching, depth)
    whole = np.concatenate(parts, axis=1) @ incidence(k, branching) + constant[:, None]
    np.testing.assert_array_equal(whole, ranges)
    used = np.count_nonzero(np.concatenate(parts, axis=1), axis=1)
    assert used.max() <= 2 * (branching - 1) * depth
    np.testing.assert_array_equal(constant, ranges.all(axis=1))


@pytest.mark.parametrize("consistency", [True, False])
@pytest.mark.parametrize("oracle", [KRR, HadamardBit])
def test_contributions_by_enumeration(consistency, oracle, rng):
    """Every report of every level, with its exact probability."""
    queries = rng.normal(size=(3, 5))
    spec = HierarchicalQueries(
        queries, 1.0, branching=2, oracle=oracle, consistency=consistency, level_weights=(1, 2, 5)
    )
    params = spec.build()
    num_reports = sum(params.sizes)
    law = np.zeros((5, num_reports))
    first = 0
    for chance, width in zip(spec.level_probabilities(), spec.widths, strict=True):
        channel = oracle(num_nodes(5, width), 1.0).channel()
        channel = np.array([[float(p) for p in row] for row in channel])
        law[:, first : first + channel.shape[1]] = chance * channel[np.arange(5) // width]
        first += channel.shape[1]
    np.testing.assert_allclose(law.sum(axis=1), 1, rtol=1e-12)
    single = jaxdp.random.Count.of(np.eye(num_reports, dtype=np.int64))
    with jax.enable_x64(True):
        answers = np.asarray(jax.vmap(params.estimate)(single))
    mean = law @ answers
    second = law @ answers**2
    np.testing.assert_allclose(mean.T, queries, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(spec.contributions()[1], (second - mean**2).T, rtol=1e-9)


def test_reports_that_are_not_counted_one_by_one():
    """Sets of values: the reports of all levels but the drawn one are zeros."""
    spec = HierarchicalQueries(
        prefix(5), 2.0, branching=2, oracle=UnaryEncoding, level_weights=(1, 2, 5)
    )
    params = spec.build()
    words = jax.random.bits(jax.random.key(0), (1000, params.num_words), jnp.uint32)
    drawn, reports = jax.vmap(params.from_bits)(words, jnp.full(1000, 3, jnp.int32))
    chances = spec.level_probabilities()
    assert np.abs(np.bincount(drawn, minlength=3) / 1000 - chances).max() < 0.08
    for level, report in enumerate(reports):
        assert not np.any(report[np.asarray(drawn) != level])
        assert np.any(report[np.asarray(drawn) == level])
    sizes = [int(tally["users"]) for tally in params.tally((drawn, reports))]
    np.testing.assert_array_equal(sizes, np.bincount(drawn, minlength=3))


@pytest.mark.parametrize("method", ["per_user", slow("tally")])
@pytest.mark.parametrize("oracle", [UnaryEncoding, slow(SubsetSelection)])
def test_any_oracle_serves(oracle, method, key):
    """The predicted errors are those of simulations; a bound on the kurtosis of 2,000 users."""
    spec = HierarchicalQueries(prefix(5), 2.0, branching=2, oracle=oracle, level_weights=(1, 2, 5))
    check_prediction(spec, [800, 0, 600, 200, 400], key, num_trials=2000, method=method)


def test_levels_without_a_law_run_user_by_user(key):
    spec = HierarchicalQueries(prefix(5), 1.0, branching=2, oracle=LocalHashing)
    assert spec.build().law is None
    users = jaxdp.Population.from_histogram([3, 1, 4, 1, 5])
    assert jaxdp.run(spec, users, key).shape == (5,)


def test_reports_by_enumeration():
    """All pairs of 8-bit words: the level's chances and channels, exactly."""
    spec = HierarchicalQueries(np.eye(3), 1.0, branching=2, oracle=KRR, level_weights=(1, 2))
    params = spec.build(word_bits=8)
    words = jnp.asarray(list(itertools.product(range(256), repeat=2)), jnp.uint32)
    first = 0
    for value in range(3):
        values = jnp.full(len(words), value, jnp.int32)
        seen = np.bincount(jax.vmap(params.from_bits)(words, values), minlength=5)
        first = 0
        for number, width in zip(spec._words(8), spec.widths, strict=True):
            level = KRR(num_nodes(3, width), 1.0)
            for report, p in enumerate(level.channel(word_bits=8)[value // width]):
                assert seen[first + report] == number * p * 256
            first += level.num_values


def test_the_variance_of_a_node():
    """Bell et al.: a node's count at a level of chance 1 / a has variance `a c**2 n - count`."""
    oracle = HadamardBit(4, 1.0)
    spec = HierarchicalQueries(
        np.repeat(np.eye(4), 2, axis=1),
        1.0,
        branching=2,
        oracle=HadamardBit,
        consistency=False,
        level_weights=(1, 1, 1),
    )
    counts = np.array([30, 10, 0, 0, 5, 5, 40, 10])
    chance = spec.level_probabilities()[1]
    nodes = counts.reshape(4, 2).sum(axis=1)
    c2 = oracle.variance([0, 0, 0, 1])[0]
    expected = (c2 * 100 / chance - nodes) / 100**2
    np.testing.assert_allclose(spec.variance(counts), expected, rtol=1e-12)


def test_one_level_is_the_oracle():
    """With consistency its estimates are made to add up to 1, which helps every query here."""
    plain, consistent = (
        HierarchicalQueries(
            prefix(6), 1.0, branching=6, oracle=HadamardResponse, consistency=consistency
        )
        for consistency in (False, True)
    )
    oracle = OracleQueries(prefix(6), HadamardResponse(6, 1.0))
    counts = np.array([5, 0, 3, 9, 1, 1])
    np.testing.assert_allclose(plain.variance(counts)[:-1], oracle.variance(counts)[:-1])
    assert np.all(consistent.variance(counts) < oracle.variance(counts))
    for spec in (plain, consistent):
        assert spec.variance(counts)[-1] < 1e-15  # all users


@pytest.mark.parametrize("consistency", [True, False])
def test_the_best_branching_is_kept(consistency):
    workload = prefix(60)
    free = HierarchicalQueries(workload, 1.0, consistency=consistency)
    totals = [
        HierarchicalQueries(
            workload, 1.0, branching=b, consistency=consistency
        ).worst_case_total_variance(1)
        for b in (2, 3, 4, 5, 6, 8, 12, 16, 60)
    ]
    assert free.worst_case_total_variance(1) < 1.1 * min(totals)
    again = HierarchicalQueries(
        workload, 1.0, free.branching, consistency=consistency, level_weights=free.level_weights
    )
    assert again == free
    assert again.worst_case_total_variance(1) == free.worst_case_total_variance(1)


def test_consistency_and_level_weights_pay():
    """Prefix sums, 128 values, epsilon 1; McKenna et al. (2020) report 5,466 for a hierarchy."""
    workload = prefix(128)
    best = HierarchicalQueries(workload, 1.0)
    even = HierarchicalQueries(workload, 1.0, branching=2, level_weights=(1,) * 7)
    plain = HierarchicalQueries(workload, 1.0, consistency=False)
    totals = [spec.worst_case_total_variance(1) for spec in (best, even, plain)]
    assert totals[0] < 2_300
    assert totals[0] < 0.9 * totals[1]
    assert totals[1] < 0.5 * totals[2]


def test_the_identity_needs_the_finest_level_only():
    spec = HierarchicalQueries(identity(16), 1.0, branching=2)
    assert spec.level_probabilities()[-1] > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("consistency", [True, False])
def test_distribution_of_arrival_delays(consistency, key):
    """1,359 values: the predicted error of every point of the distribution function."""
    counts = load_flights()["arr_delay_hist"]
    spec = HierarchicalQueries(
        prefix(counts.size), 1.0, oracle=HadamardResponse, consistency=consistency
    )
    check_prediction(spec, counts, key, num_trials=1000)
