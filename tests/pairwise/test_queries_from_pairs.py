"""Linear queries from pairs: the reduction behind the lower bound, exactly and by simulation."""

import functools

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.pairwise import (
    CollisionEntropy,
    GiniDiversity,
    GiniMeanDifference,
    PairKernel,
    QuantizedRR,
)
from jaxdp.pairwise.oracles._oracle_statistic import OracleStatistic
from jaxdp.pairwise.oracles._queries_from_pairs import QueriesFromPairs, factors
from jaxdp.randomizers import KRR, HadamardResponse
from tests import stats

COUNTS = np.array([50, 20, 30])
MATRIX = np.array([[0.5, 1.0, -1.0], [1.0, -0.2, 2.0], [-1.0, 2.0, 0.0]])


def protocol_of(epsilon=2.0):
    return OracleStatistic(PairKernel.from_matrix(MATRIX), KRR(3, epsilon))


@pytest.mark.parametrize("form", ["u", "v"])
def test_statistics_of_more_users_give_the_queries(form):
    """The identity that the reduction rests on, without privacy."""
    kernel, n = PairKernel.from_matrix(MATRIX), int(COUNTS.sum())
    first, second = factors(form, n)
    for value in range(3):
        both = kernel.of_counts(COUNTS + n * np.eye(3, dtype=int)[value], form=form)
        own = kernel.of_counts(COUNTS, form=form)
        answer = first * both - second * (own + MATRIX[value, value])
        assert answer == pytest.approx((MATRIX @ COUNTS)[value] / n)


@functools.lru_cache(maxsize=4)
def simulated(num_reports, method):
    users = jaxdp.Population.from_histogram(COUNTS)
    spec = QueriesFromPairs(protocol_of(), num_reports)
    return jaxdp.simulate(spec, users, jax.random.key(7), num_trials=2000, method=method)


@pytest.mark.slow
@pytest.mark.parametrize("num_reports", [1, 2])
def test_answers_are_unbiased_and_within_the_predicted_error(num_reports):
    """Exactly predicted with two reports, at most predicted with one."""
    spec, trials = QueriesFromPairs(protocol_of(), num_reports), simulated(num_reports, "tally")
    predicted = spec.variance(COUNTS)
    assert trials.truth is not None
    assert trials.truth == pytest.approx(MATRIX @ COUNTS / 100)
    stats.check_mean(trials.estimates, trials.truth, variance=predicted)
    if num_reports == 2:
        stats.check_variance(trials.estimates, predicted, kurtosis=6, mean=trials.truth)
    stats.must_fail(
        stats.check_variance, trials.estimates, predicted / 3, kurtosis=6, mean=trials.truth
    )
    assert np.all(trials.errors.var(axis=0) < 1.3 * predicted)
    stats.must_fail(
        stats.check_mean,
        trials.estimates + 0.3 * np.sqrt(predicted),
        trials.truth,
        variance=predicted,
    )


def test_one_report_for_both_estimates_costs_less_than_half_the_budget():
    """What the lower bound gains by not splitting the budget as the theorem does."""
    split = QueriesFromPairs(protocol_of(epsilon=0.5))
    whole = QueriesFromPairs(protocol_of(epsilon=1.0), num_reports=1)
    assert whole.exact_epsilon() == pytest.approx(split.exact_epsilon(), rel=1e-6)
    assert np.all(2 * whole.variance(COUNTS) < split.variance(COUNTS))


def test_worst_cases_are_bounds(rng):
    spec = QueriesFromPairs(OracleStatistic(GiniMeanDifference(), HadamardResponse(4, 1.0)))
    for n in (2, 40):
        counts = rng.multinomial(n, rng.dirichlet(np.ones(4)))
        assert spec.variance(counts).max() <= spec.worst_case_variance(n)
        assert spec.total_variance(counts) <= spec.worst_case_total_variance(n)
    p = np.array([0.1, 0.2, 0.3, 0.4])
    sampling = (spec.population_variance(p, 40) - spec.worst_case_variance(40)) * 40
    assert sampling == pytest.approx(spec.matrix() ** 2 @ p - (spec.matrix() @ p) ** 2)


@pytest.mark.slow
def test_both_paths_have_one_law():
    one, two = (simulated(2, method).estimates for method in ("per_user", "tally"))
    stats.check_two_samples(one, two)
    stats.must_fail(stats.check_two_samples, one, two + 0.5 * two.std(axis=0))


def test_bad_input():
    with pytest.raises(TypeError, match="protocol must be the spec of a non-interactive"):
        QueriesFromPairs(KRR(3, 1.0))
    with pytest.raises(ValueError, match="protocol must estimate a mean"):
        QueriesFromPairs(OracleStatistic(CollisionEntropy(), KRR(3, 1.0)))
    with pytest.raises(TypeError, match="OracleStatistic"):
        QueriesFromPairs(QuantizedRR(GiniDiversity(), 1.0, 3))
    with pytest.raises(ValueError, match="num_reports"):
        QueriesFromPairs(OracleStatistic(GiniDiversity(), KRR(3, 1.0)), num_reports=3)
    spec = QueriesFromPairs(protocol_of())
    with pytest.raises(ValueError, match="at least 2 users"):
        spec.check_population(jaxdp.Population.from_histogram([1, 0, 0]))
