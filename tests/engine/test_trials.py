"""What trials say about their error is what NumPy says."""

import concurrent.futures
import json
import math

import numpy as np
import pytest

import jaxdp
from jaxdp.engine import _programs, _simulate
from jaxdp.randomizers import KRR, BinaryResponse, SubsetSelection
from tests.marks import slow


def trials_of(estimates, truth=None) -> jaxdp.Trials:
    return jaxdp.Trials(np.asarray(estimates, float), truth, "per_user", 10)


def test_statistics_are_those_of_numpy(rng):
    estimates, truth = rng.normal(size=(50, 2, 3)), rng.normal(size=(2, 3))
    trials = trials_of(estimates, truth)
    errors = estimates - truth
    np.testing.assert_array_equal(trials.errors, errors)
    np.testing.assert_allclose(trials.mean, np.mean(estimates, axis=0))
    np.testing.assert_allclose(trials.variance, np.var(estimates, axis=0, ddof=1))
    np.testing.assert_allclose(trials.bias, np.mean(errors, axis=0))
    np.testing.assert_allclose(trials.bias_stderr, np.std(errors, axis=0, ddof=1) / 50**0.5)
    np.testing.assert_allclose(trials.mse, np.mean(errors**2, axis=0))
    np.testing.assert_allclose(trials.mse_stderr, np.std(errors**2, axis=0, ddof=1) / 50**0.5)
    np.testing.assert_allclose(trials.rmse, np.sqrt(np.mean(errors**2, axis=0)))
    np.testing.assert_allclose(trials.quantiles([0.1, 0.9]), np.quantile(estimates, [0.1, 0.9], 0))
    assert trials.num_trials == 50


def test_truth_of_each_trial(rng):
    estimates, truth = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    trials = trials_of(estimates, truth)
    np.testing.assert_array_equal(trials.errors, estimates - truth)
    assert "truth" in trials.summary()


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize("with_truth", [True, False])
def test_summary_and_dict(shape, with_truth, rng):
    estimates = rng.normal(size=(20, *shape))
    trials = trials_of(estimates, np.zeros(shape) if with_truth else None)
    data = json.loads(json.dumps(trials.to_dict(), allow_nan=False))
    assert (data["num_trials"], data["num_users"], data["method"]) == (20, 10, "per_user")
    np.testing.assert_allclose(data["mean"], estimates.mean(axis=0))
    np.testing.assert_allclose(data["quantiles"]["0.5"], np.median(estimates, axis=0))
    assert ("mse" in data) == with_truth
    lines = trials.summary().splitlines()
    assert lines[0] == "20 trials of 10 users, method per_user"
    assert [line.split()[0] for line in lines[1:]] == (
        ["mean", "truth", "bias", "mse", "rmse"] if with_truth else ["mean"]
    )


def test_single_trial_has_unknown_spread():
    trials = trials_of([[1.0, 2.0]], np.array([0.0, 2.0]))
    for spread in (trials.variance, trials.bias_stderr, trials.mse_stderr):
        np.testing.assert_array_equal(spread, [math.inf, math.inf])
    np.testing.assert_array_equal(trials.mse, [1.0, 0.0])
    assert "inf" in trials.summary()


def test_bad_questions_are_refused():
    trials = trials_of([[1.0], [2.0]])
    with pytest.raises(ValueError, match="truth"):
        _ = trials.mse
    for q in ([1.1], [-0.1], [float("nan")]):
        with pytest.raises(ValueError, match="q must be"):
            trials.quantiles(q)


def test_truth_is_that_of_the_users(key):
    counts = np.array([60, 30, 10])
    population = jaxdp.Population.from_histogram(counts)
    krr = KRR(3, 1.0)
    given = jaxdp.simulate(krr, population, key, num_trials=3, truth=[1.0, 2.0, 3.0])
    np.testing.assert_array_equal(given.truth, [1.0, 2.0, 3.0])
    known = jaxdp.simulate(krr, population, key, num_trials=3)
    np.testing.assert_array_equal(known.truth, counts)
    params = jaxdp.simulate(krr.build(), population, key, num_trials=3)
    assert params.truth is None
    np.testing.assert_array_equal(params.estimates, known.estimates)


def test_truth_of_numbers(key):
    values = np.array([-0.5, 0.25, 1.0], np.float32)
    bit = BinaryResponse(1.0)
    given = jaxdp.simulate(bit, jaxdp.Population.from_values(values), key, num_trials=2)
    np.testing.assert_allclose(given.truth, 0.25)
    drawn = jaxdp.Population.from_distribution([0.5, 0.25, 0.25], 100, values)
    np.testing.assert_allclose(
        jaxdp.simulate(bit, drawn, key, num_trials=2).truth, -0.25 + 0.0625 + 0.25
    )


@pytest.mark.parametrize(
    "protocol", [KRR(4, 1.0), slow(KRR(64, 1.0)), slow(SubsetSelection(64, 1.0))], ids=str
)
def test_cores_share_the_trials_of_tallies(protocol, key, monkeypatch):
    counts = np.arange(1, protocol.num_values + 1) * 1000
    population, threads = jaxdp.Population.from_histogram(counts), []

    def simulated(cores):
        def entered(number):
            threads.append(number)
            return concurrent.futures.ThreadPoolExecutor(number)

        monkeypatch.setattr(_simulate, "_LONG", 0.0)
        monkeypatch.setattr(_programs, "num_cores", lambda: cores)
        monkeypatch.setattr(_programs, "ThreadPoolExecutor", entered)
        return jaxdp.simulate(protocol, population, key, num_trials=7, method="tally").estimates

    alone = simulated(1)
    for cores in (3, 5, 16):
        np.testing.assert_array_equal(simulated(cores), alone)
    # Of 7 trials 5 threads would have two each: 4 are enough.
    assert threads == [1, 3, 4, 7]
