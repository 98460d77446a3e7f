"""What malicious users can do is known exactly, and simulations show it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.linear import HistogramQuery, OracleQueries
from jaxdp.pairwise import GiniDiversity, OracleStatistic, TwoRound
from jaxdp.random import merge, standard_normal
from jaxdp.randomizers import (
    KRR,
    BinaryResponse,
    CandidateResponse,
    Gaussian,
    HadamardResponse,
    Laplace,
    LocalHashing,
    Memoised,
    PrivUnit,
    Rappor,
    UnaryEncoding,
)
from jaxdp.reports import Aggregate, Attacked, Collection, influence
from tests.reports.made import bins, drawn, sent
from tests.stats import check_mean, must_fail

QUERIES = np.array([[1, 1, 0, 0], [0, 1, -1, 2], [0.5, -1, 0.5, 0]])


def test_reports_of_malicious_users_move_counts_so_far():
    spec = KRR(5, 1.0)
    collection = Collection(spec)
    honest = sent(collection, drawn(collection, bins(collection, 900)))
    before = Aggregate(collection)
    before.add(honest)
    low, high = influence(spec, 100, 1000)
    moved = []
    for report in range(5):
        after = Aggregate(collection)
        after.add(honest)
        after.add(sent(collection, np.full(100, report, np.int32)))
        moved.append(after.estimate().values - before.estimate().values)
    np.testing.assert_allclose(low, np.min(moved, axis=0), atol=1e-6)
    np.testing.assert_allclose(high, np.max(moved, axis=0), atol=1e-6)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda oracle: oracle,
        HistogramQuery,
        lambda oracle: OracleQueries(QUERIES, oracle),
        lambda oracle: Memoised(KRR(4, 2.0), oracle),
    ],
)
def test_of_bits_the_extremes_are_those_of_all_reports(wrap):
    spec = wrap(UnaryEncoding(4, 1.0))
    params = spec.built
    every = np.arange(16, dtype=np.uint32)[:, None]
    one = jax.vmap(lambda report: params.tally(report[None]))(jnp.asarray(every))
    alone = np.asarray(jax.vmap(params.estimate)(one))
    low, high = influence(spec, 1, 1)
    np.testing.assert_allclose(low, alone.min(axis=0))
    np.testing.assert_allclose(high, alone.max(axis=0))


def test_of_cohorts_the_extremes_are_those_of_all_reports():
    spec = Rappor(3, 1.0, num_bits=4, num_hashes=1, num_cohorts=2, num_rounds=2)
    params = spec.built
    every = np.array(list(itertools.product(range(2), range(16), range(16))), np.uint32)
    one = jax.vmap(lambda report: params.tally(report[None]))(jnp.asarray(every))
    alone = np.asarray(jax.vmap(params.estimate)(one))
    low, high = influence(spec, 1, 1)
    np.testing.assert_allclose(low, alone.min(axis=0))
    np.testing.assert_allclose(high, alone.max(axis=0))
    queries = OracleQueries(np.array([[1, -1, 0], [2, 1, 1]]), spec)
    low, high = influence(queries, 1, 1)
    answers = alone @ queries.workload.values.T
    np.testing.assert_allclose(low, answers.min(axis=0))
    np.testing.assert_allclose(high, answers.max(axis=0))


def test_means_move_by_the_share_of_malicious_users():
    spec = BinaryResponse(1.0, bound=3.0)
    low, high = influence(spec, 10, 1000)
    np.testing.assert_allclose([low, high], [-0.01 * spec.magnitude, 0.01 * spec.magnitude])
    low, high = influence(Laplace(1.0, dim=2), 0, 7)
    np.testing.assert_array_equal([low, high], np.zeros((2, 2)))


def test_of_candidates_the_extremes_are_those_of_a_normal_of_a_word():
    spec = CandidateResponse(3, 1.0, radius=2.0)
    params = spec.built
    low, high = influence(spec, 20, 1000)
    largest = round(6.3379574 * 2**10)
    np.testing.assert_allclose(high, np.full(3, 0.02 * float(params.unit) * largest))
    np.testing.assert_array_equal(low, -high)
    ends = np.concatenate([np.arange(2**20), 2**32 - 1 - np.arange(2**20)]).astype(np.uint32)
    steps = np.abs(_steps(jnp.asarray(ends)))
    assert steps.max() == steps[0] == steps[2**20] == largest == params.largest_report


_steps = jax.jit(lambda words: jnp.rint(standard_normal(words) * np.float32(2**10)))


@pytest.mark.slow
def test_no_word_has_a_larger_normal():
    largest = jax.jit(lambda first: jnp.max(jnp.abs(_steps(first + jnp.arange(2**22, dtype="u4")))))
    found = [int(largest(np.uint32(first))) for first in range(0, 2**32, 2**22)]
    assert max(found) == CandidateResponse(3, 1.0).built.largest_report


def test_what_is_not_known_is_refused():
    statistic = OracleStatistic(GiniDiversity(), HadamardResponse(4, 1.0))
    hashes = OracleQueries(QUERIES, LocalHashing(4, 1.0))
    for protocol in (statistic, hashes, PrivUnit(3, 1.0), TwoRound(np.eye(3), 1.0)):
        with pytest.raises(ValueError, match="protocol must be of one round with known extreme"):
            influence(protocol, 1, 2)
    with pytest.raises(TypeError, match="protocol must be a spec"):
        influence(KRR(3, 1.0).build(), 1, 2)
    with pytest.raises(ValueError, match="num_malicious must be"):
        influence(KRR(3, 1.0), 3, 2)
    with pytest.raises(ValueError, match="num_users must be smaller"):
        influence(Gaussian(2, 1.0, 1e-6), 2**52, 2**53)


@pytest.mark.parametrize("method", ["per_user", "tally"])
def test_a_simulated_attack_moves_the_mean_so_far(method):
    counts = np.array([3000, 2000, 1000])
    spec, malicious = KRR(3, 1.0), 300
    attacked = Attacked(spec, 2, malicious)
    population = jaxdp.Population.from_histogram(counts)
    key = jax.random.key(3)
    trials = jaxdp.simulate(attacked, population, key, num_trials=400, method=method)
    one = np.asarray(spec.built.estimate(spec.built.tally(jnp.array([2]))))
    variance = attacked.protocol.variance(counts)
    check_mean(trials.errors - malicious * one, 0.0, variance=variance)
    must_fail(check_mean, trials.errors, 0.0, variance=variance)
    honest = jaxdp.simulate(spec, population, key, num_trials=400, method=method)
    shift = np.broadcast_to(malicious * one, trials.estimates.shape)
    np.testing.assert_allclose(trials.estimates - honest.estimates, shift, atol=1e-6)


def test_a_report_is_one_of_the_protocol():
    for protocol, report in itertools.chain(
        ((KRR(3, 1.0), r) for r in (3, -1, (0, 1))),
        ((UnaryEncoding(40, 1.0), r) for r in (0, (0, 256), (0, 0, 0))),
    ):
        with pytest.raises(ValueError, match="report must"):
            Attacked(protocol, report, 5)
    attacked = Attacked(UnaryEncoding(40, 1.0), (7, 255), 5)
    params = attacked.built
    assert merge(params.planted, params.planted)["users"].numpy() == 10
    with pytest.raises(ValueError, match="protocol must be of one round with reports to send"):
        Attacked(PrivUnit(3, 1.0), (0, 0, 0), 5)
