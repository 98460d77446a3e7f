"""Agnostic learning by factorization: errors, guarantees, tails."""

import math

import numpy as np
import pytest
from scipy import integrate
from scipy import stats as laws

import jaxdp
from jaxdp import factorization, workloads
from jaxdp.learning import AgnosticLearner, RandomConcept
from jaxdp.learning._tails import report_tail
from jaxdp.randomizers import Gaussian, L2Ball, Laplace, PrivUnit, PrivUnitG
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


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_tail_of_the_gaussian_cap_is_its_generating_function(epsilon):
    """log E exp(t X) of the tilted coordinate by quadrature: below v t**2 / 2, and nearly so."""
    unit = PrivUnitG(3, epsilon, radius=2.0)
    variance, scale = report_tail(unit)
    p, q = unit.probabilities()
    gamma, size = unit.threshold, 2.0 / unit.threshold
    assert scale == 0
    ratios = []
    for t in (-4, -2, -1, -0.5, 0.5, 1, 2, 4):
        parts = [
            weight * integrate.quad(lambda x, t=t: math.exp(t * x) * laws.norm.pdf(x), *span)[0]
            for weight, span in ((p / q, (gamma, 20)), ((1 - p) / (1 - q), (-20, gamma)))
        ]
        ratios.append((math.log(sum(parts)) - t * gamma) / (t**2 / 2))
    assert max(ratios) * size**2 <= variance < 1.02 * max(ratios) * size**2


@pytest.mark.parametrize("unit", [PrivUnit(2, 1.0), L2Ball(3, 1.0), PrivUnit(2, 4.0)])
def test_tail_of_bounded_reports_holds(unit):
    """On the sphere of R^3 a coordinate is uniform: its generating function is elementary."""
    variance, scale = report_tail(unit)
    if isinstance(unit, PrivUnit):
        p, q = unit.probabilities()
        split, largest = unit.threshold, 1 / unit.threshold
        high, low = p / q, (1 - p) / (1 - q)
    else:
        split, largest = 0.0, unit.magnitude
        e = math.exp(unit.exact_epsilon())
        high, low = 2 * e / (e + 1), 2 / (e + 1)
    for t in np.linspace(-0.95, 0.95, 20) / scale:
        s = t * largest
        mass = high * (math.exp(s) - math.exp(s * split)) + low * (
            math.exp(s * split) - math.exp(-s)
        )
        log = math.log(mass / (2 * s)) - t
        assert log <= variance * t**2 / (2 * (1 - scale * abs(t))) + 1e-12


def test_tail_of_gaussian_noise_and_of_others():
    gaussian = Gaussian(2, 1.0, 1e-6)
    assert report_tail(gaussian) == (gaussian.sigma**2, 0.0)
    with pytest.raises(ValueError, match="randomizer"):
        report_tail(Laplace(1.0))


def test_population_without_labels_is_refused(key):
    learner = AgnosticLearner(CONCEPTS, 1.0)
    with pytest.raises(ValueError, match="twice"):
        jaxdp.run(learner, jaxdp.Population.from_histogram([1, 2, 3, 4]), key)
