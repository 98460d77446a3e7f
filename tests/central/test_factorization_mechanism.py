"""The Gaussian factorization mechanism: privacy, errors, sample sizes, optimality."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from scipy import integrate
from scipy import stats as laws

import jaxdp
from jaxdp import factorization, workloads
from jaxdp.central import FactorizationMechanism
from jaxdp.factorization import explicit
from jaxdp.random import Count
from tests import stats

W = workloads.prefix(6)
COUNTS = np.array([100, 50, 20, 0, 5, 60])
MECHANISMS = {
    "max": FactorizationMechanism(W, 1.0, 1e-6),
    "mean": FactorizationMechanism(W, 1.0, 1e-6, norm="gamma_f"),
    "approximate": FactorizationMechanism(W, 0.5, 1e-5, alpha=0.2),
    "tree": FactorizationMechanism(W, 2.0, 1e-9, factorization=explicit.hierarchical_prefix(6)),
    "counts": FactorizationMechanism(W, 1.0, 1e-6, factorization=np.eye(6)),
    "removal": FactorizationMechanism(W, 1.0, 1e-6, adjacency="add_remove"),
    "removal-mean": FactorizationMechanism(W, 1.0, 1e-6, norm="gamma_f", adjacency="add_remove"),
}


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add_remove"])
def test_an_approximate_workload_for_the_mean_error(adjacency):
    """Within alpha, with less noise than the exact one or than the factors for the worst answer."""
    queries = W * np.array([[1, 0.9, 0.8, 0.4, 0.3, 0.2]]).T  # not all of one size

    def mechanism(**options):
        return FactorizationMechanism(queries, 1.0, 1e-6, adjacency=adjacency, **options)

    def noise(found):
        return np.sqrt(np.mean(found.noise_deviations() ** 2))

    mean = mechanism(norm="gamma_f", alpha=0.2)
    error = np.abs(mean.contributions()[0] - queries).max()
    assert 0.1 < error <= 0.2 + 1e-6
    assert noise(mean) < 0.9 * noise(mechanism(norm="gamma_f"))
    assert noise(mean) < 0.99 * noise(mechanism(alpha=0.2))


def test_noise_for_half_the_sensitivity_is_not_private():
    """Negative control: the noise for the largest norm, instead of the largest distance."""
    mechanism = MECHANISMS["counts"]
    short = FactorizationMechanism(W, 1.0, 1e-6, factorization=np.eye(6), adjacency="add_remove")
    weak = jaxdp.accounting.gaussian_delta(1.0, mechanism.sensitivity, short.sigma)
    assert weak > 10 * mechanism.delta


def estimate(mechanism, noise):
    """The answers for COUNTS with given noise, in steps."""
    params = mechanism.build()
    with jax.enable_x64(True):
        return np.asarray(params.estimate(params.perturb(Count.of(COUNTS), Count.of(noise))))


@pytest.mark.parametrize("name", MECHANISMS)
def test_without_noise_answers_are_those_of_the_approximation(name):
    """Within alpha of W, and up to the rounding to whole steps, 2**-13 of the noise at most."""
    mechanism = MECHANISMS[name]
    found = estimate(mechanism, np.zeros(len(mechanism.right), int))
    mean, variance = mechanism.contributions()
    rounding = 2.0**-13 * mechanism.noise_deviations() / COUNTS.sum() + 1e-12
    assert np.all(np.abs(found - mean @ COUNTS / COUNTS.sum()) <= rounding)
    assert np.abs(mean - W).max() <= mechanism.alpha + 1e-8
    assert not variance.any()


def test_noise_is_one_number_a_row_of_the_factors():
    """A thousand steps move the answers by as many steps of a column."""
    mechanism = MECHANISMS["tree"]
    noise = np.zeros(len(mechanism.right), int)
    noise[1] = 1000
    moved = estimate(mechanism, noise) - estimate(mechanism, 0 * noise)
    expected = 1000 * mechanism.step * mechanism.left[1] / COUNTS.sum()
    np.testing.assert_allclose(moved, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.slow
def test_errors_of_a_biased_mechanism(key):
    """Mean squared errors include the bias; power 0.999 to see a third more."""
    mechanism = MECHANISMS["approximate"]
    population = jaxdp.Population.from_histogram(COUNTS)
    trials = jaxdp.simulate(mechanism, population, key, num_trials=4000)
    variance = mechanism.variance(COUNTS)
    truth = mechanism.truth(COUNTS)
    some = slice(0, 5)  # the sixth answer is 1 for everyone
    found, claimed = trials.estimates[:, some], variance[some]
    stats.check_variance(found, claimed, mean=truth[some], kurtosis=6.0)
    stats.must_fail(stats.check_variance, found, 0.6 * claimed, mean=truth[some], kurtosis=6.0)
    noise = (mechanism.noise_deviations() / COUNTS.sum()) ** 2
    mean, _ = mechanism.contributions()
    np.testing.assert_allclose(
        variance, noise + ((mean - W) @ COUNTS / COUNTS.sum()) ** 2, rtol=1e-12
    )


@pytest.mark.parametrize("name", MECHANISMS)
def test_worst_cases_are_attained_by_one_value(name):
    mechanism = MECHANISMS[name]
    errors = np.stack([mechanism.variance(50 * row) for row in np.eye(6, dtype=int)])
    assert mechanism.worst_case_variance(50) == pytest.approx(errors.max())
    assert mechanism.worst_case_total_variance(50) == pytest.approx(errors.sum(axis=1).max())
    assert mechanism.total_variance(COUNTS) <= mechanism.worst_case_total_variance(235)


def test_drawn_users_add_their_variance():
    p = COUNTS / COUNTS.sum()
    mechanism = MECHANISMS["max"]
    sampling = (W @ p - (W @ p) ** 2) / 200
    noise = (mechanism.noise_deviations() / 200) ** 2
    found = mechanism.population_variance(p, 200)
    np.testing.assert_allclose(found, sampling + noise, atol=1e-9)


def test_both_paths_have_the_same_answers(key):
    """Nobody but the curator draws, from a stream of its own."""
    population = jaxdp.Population.from_histogram(COUNTS)
    found = [jaxdp.run(MECHANISMS["max"], population, key, method=m) for m in ("per_user", "tally")]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("metric", ["max", "rmse", "worst_rmse"])
@pytest.mark.parametrize("name", ["max", "approximate"])
def test_min_users_is_where_the_error_is_reached(name, metric):
    mechanism = MECHANISMS[name]

    def error(n):
        if metric == "max":
            return mechanism.expected_max_error(n)
        if metric == "rmse":
            return math.sqrt(mechanism.worst_case_total_variance(n) / 6)
        return math.sqrt(mechanism.worst_case_variance(n))

    n = mechanism.min_users(0.25, metric)
    assert n > 10
    assert error(n) <= 0.25 * (1 + 1e-9) < error(n - 1) * (1 + 1e-6)


def test_min_users_refuses_what_the_bias_rules_out():
    with pytest.raises(ValueError, match=r"error.*alpha"):
        MECHANISMS["approximate"].min_users(0.1)


def test_largest_error_is_below_its_bound():
    """The expectation of the largest of independent errors, by quadrature; and a bias on top."""
    identity = np.eye(6)
    mechanism = FactorizationMechanism(identity, 1.0, 1e-6, factorization=(identity, identity))
    largest, _ = integrate.quad(lambda x: 1 - (2 * laws.norm.cdf(x) - 1) ** 6, 0, 12)
    exact = largest * mechanism.sigma / 235
    assert 0.6 * mechanism.expected_max_error(235) < exact < mechanism.expected_max_error(235)
    biased = MECHANISMS["approximate"]
    assert biased.expected_max_error(10**9) == pytest.approx(0.2, rel=1e-3)


def test_optimal_factors_are_a_constant_from_the_lower_bound():
    """The ratio is the same function of (epsilon, delta) for every workload."""
    first = MECHANISMS["max"].optimality()
    assert 1 < first < 10
    for mechanism in (
        MECHANISMS["mean"],
        MECHANISMS["removal"],
        MECHANISMS["removal-mean"],
        FactorizationMechanism(workloads.all_range(3), 1.0, 1e-6),
    ):
        assert mechanism.optimality() == pytest.approx(first, rel=3e-3)
    counts = dataclasses.replace(MECHANISMS["counts"])
    assert counts.optimality() > 1.1 * first
    shifted = factorization.gamma2(W, shift=True)
    assert FactorizationMechanism(W, 1.0, 1e-6, factorization=shifted).optimality() > 1.01 * first


@pytest.mark.slow
def test_optimality_is_against_theorem_28():
    """For a symmetric workload it is the lower bound of `jaxdp.bounds`."""
    symmetric = factorization.symmetrize(workloads.prefix(3))
    for norm in ("gamma2", "gamma_f"):
        mechanism = FactorizationMechanism(symmetric, 0.5, 1e-6, norm=norm)
        error = math.sqrt(
            mechanism.worst_case_variance(1)
            if norm == "gamma2"
            else mechanism.worst_case_total_variance(1) / 3
        )
        users = jaxdp.bounds.central_lower_bound(symmetric, 0.5, 1e-6, error, norm=norm)
        assert mechanism.optimality() == pytest.approx(1 / users, rel=3e-3)


def test_least_squares_is_the_best_decoder():
    """No other left factor of a tree has less noise in any answer, and most have more."""
    tree = explicit.hierarchical_prefix(6)
    strategy = np.concatenate([tree.right, np.eye(6)])
    best = FactorizationMechanism(W, 2.0, 1e-9, factorization=strategy)
    left = np.concatenate([tree.left, np.zeros((6, 6))])
    other = FactorizationMechanism(W, 2.0, 1e-9, factorization=(left, strategy))
    assert np.all(best.noise_deviations() <= other.noise_deviations() * (1 + 1e-9))
    assert best.noise_deviations().max() < 0.9 * other.noise_deviations().max()


def test_a_workload_that_tells_nothing_is_answered_exactly(key):
    mechanism = FactorizationMechanism([[1.0, 1.0], [0.5, 0.5]], 1.0, 1e-6)
    assert (mechanism.sensitivity, mechanism.sigma, mechanism.exact_delta()) == (0, 0, 0)
    assert mechanism.optimality() == 1
    population = jaxdp.Population.from_histogram([3, 5])
    np.testing.assert_allclose(jaxdp.run(mechanism, population, key), [1, 0.5])


def test_specs_with_factors_are_values():
    import json

    from jaxdp._form import spec_from_json, spec_to_json

    for mechanism in MECHANISMS.values():
        copy = spec_from_json(json.loads(json.dumps(spec_to_json(mechanism))))
        assert copy == mechanism
        assert hash(copy) == hash(mechanism)


def test_population_of_another_size_is_refused(key):
    with pytest.raises(ValueError, match="columns"):
        jaxdp.run(MECHANISMS["max"], jaxdp.Population.from_histogram([1, 2]), key)
