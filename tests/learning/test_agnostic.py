"""Agnostic learning by factorization: errors, guarantees, tails."""

import functools

import numpy as np
import pytest

import jaxdp
from jaxdp import factorization, workloads
from jaxdp.learning import AgnosticLearner, RandomConcept
from jaxdp.randomizers import PrivUnit, PrivUnitG, ProjUnit
from tests import stats

CONCEPTS = workloads.thresholds(4)
NOISY = np.array([9, 9, 1, 1, 1, 1, 9, 9]) / 40  # the second concept, a tenth of the labels wrong


def test_variance_is_that_of_theorem_24():
    """gamma_2(D)**2 sigma**2 / (4 n) for the worst loss; gamma_2 in closed form."""
    norm = np.mean(1 / np.sin((2 * np.arange(1, 5) - 1) * np.pi / 8))
    for randomizer, sigma in (
        (PrivUnitG, 6.330042),
        (PrivUnit, PrivUnit(4, 1.0).worst_case_variance(1)),
    ):
        learner = AgnosticLearner(CONCEPTS, 1.0, randomizer=randomizer)
        expected = norm**2 * sigma / 4 / 100
        assert learner.worst_case_variance(100) == pytest.approx(expected, rel=1e-5)
    exact = AgnosticLearner(CONCEPTS, 1.0)
    assert exact.bias == 0
    assert exact.exact_epsilon() <= 1


def test_given_factors_are_used():
    identity = AgnosticLearner(CONCEPTS, 1.0, factorization=(CONCEPTS.T, np.eye(4)))
    assert identity.worst_case_variance(1) == pytest.approx(4 * 6.330042 / 4, rel=1e-5)
    solved = factorization.gamma2(CONCEPTS)
    assert AgnosticLearner(CONCEPTS, 1.0, factorization=solved).worst_case_variance(
        1
    ) == pytest.approx(AgnosticLearner(CONCEPTS, 1.0).worst_case_variance(1), rel=1e-5)


@pytest.mark.slow
def test_tolerance_trades_noise_for_bias():
    exact = AgnosticLearner(CONCEPTS, 1.0)
    rough = AgnosticLearner(CONCEPTS, 1.0, tolerance=0.5)
    few = AgnosticLearner(CONCEPTS, 1.0, num_users=20)
    assert 0.2 < rough.bias <= 0.25 + 1e-6
    assert rough.tail().variance < 0.7 * exact.tail().variance
    assert few.worst_case_variance(20) < 0.9 * exact.worst_case_variance(20)
    with pytest.raises(ValueError, match=r"bias.*tolerance"):
        rough.min_users(0.4, 0.2)
    np.testing.assert_allclose(
        np.abs(rough.contributions()[0] - rough.workload.values).max(), rough.bias
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [AgnosticLearner, RandomConcept])
def test_theorem_24_holds(make, key):
    """With `min_users` at most a share beta of the runs fails; with a 400th of them more do."""
    alpha, beta = 0.2, 0.1
    learner = make(CONCEPTS, 2.0)
    true = learner.population_truth(NOISY, 1)
    users = learner.min_users(alpha, beta)
    failures = {}
    for n in (users, users // 400):
        population = jaxdp.Population.from_distribution(NOISY, n)
        trials = jaxdp.simulate(learner, population, key, num_trials=500)
        excess = learner.excess_risk(trials.estimates, NOISY)
        chosen = trials.estimates.argmin(axis=1)
        wrong = np.abs(trials.estimates.min(axis=1) - true[chosen]) > beta
        failures[n] = np.sum((excess > alpha) | wrong)
        assert excess.mean() < learner.expected_excess_risk_bound(n)
    stats.check_proportion(failures[users], 500, beta, at_most=True)
    stats.must_fail(stats.check_proportion, failures[users // 400], 500, beta, at_most=True)


def test_bounds_fit_together():
    learner = AgnosticLearner(CONCEPTS, 1.0)
    n = learner.min_users(0.1, 0.2)
    assert learner.deviation(n, 0.2) <= 0.05 < learner.deviation(n - 1, 0.2)
    assert learner.excess_risk_bound(n, 0.2) == 2 * learner.deviation(n, 0.2)
    assert learner.min_users(0.5, 0.05) == learner.min_users(0.1, 0.05)
    baseline = RandomConcept(CONCEPTS, 1.0)
    n = baseline.min_users(0.1, 0.2)
    assert baseline.deviation(n, 0.2) <= 0.05 < baseline.deviation(n - 1, 0.2)
    assert learner.expected_excess_risk_bound(n) < learner.excess_risk_bound(n, 0.5)


def test_no_guarantee_without_a_tail():
    no_tail = functools.partial(ProjUnit, num_projected=2)
    with pytest.raises(ValueError, match="randomizer must be one with a known tail"):
        AgnosticLearner(CONCEPTS, 1.0, randomizer=no_tail).min_users(0.1, 0.1)


def test_population_without_labels_is_refused(key):
    learner = AgnosticLearner(CONCEPTS, 1.0)
    with pytest.raises(ValueError, match="twice"):
        jaxdp.run(learner, jaxdp.Population.from_histogram([1, 2, 3, 4]), key)
