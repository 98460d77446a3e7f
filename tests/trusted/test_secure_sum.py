"""Secure sums: the exact law of the sum, its privacy, predicted errors, sizes of numbers."""

import dataclasses
import functools
import math

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.central import FactorizationMechanism
from jaxdp.random import NormalNoise
from jaxdp.trusted import SecureSum, _secure_sum
from jaxdp.workloads import prefix
from tests import stats

COUNTS = np.array([200, 100, 0, 100, 300, 100, 100, 100])


def law_of_sum(noise, n):
    """The probabilities of the sum of n users' noise, around 0."""
    numbers = np.arange(-noise.reach, noise.reach + 1)
    law = np.exp(noise.log_mass(numbers))
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, law)
    return total / total.sum()


def shifted_delta(law, shift, epsilon):
    """The hockey-stick divergence of a law and the same one a few steps further."""
    far = np.concatenate([np.zeros(shift), law])
    near = np.concatenate([law, np.zeros(shift)])
    return max(
        math.fsum(np.maximum(a - math.exp(epsilon) * b, 0.0)) for a, b in ((near, far), (far, near))
    )


def test_the_sum_of_rounded_normals_is_as_private_as_a_normal():
    """The lemma, at every shift, for noise so coarse that it could be wrong."""
    noise = NormalNoise.of(2**6)
    for n in (1, 2, 5):
        law, sigma = law_of_sum(noise, n), noise.steps * math.sqrt(n)
        for epsilon in (0.0, 0.5, 2.0):
            for shift in (1, 40, 150):
                proven = jaxdp.accounting.gaussian_delta(epsilon, shift, sigma)
                assert shifted_delta(law, shift, epsilon) <= proven * (1 + 1e-6) + 1e-13


def attained(spec):
    """The delta of one entry's sum with n users, for the two columns farthest apart."""
    params = spec.build()
    parts = np.asarray(params.whole, np.int64) * 2**16 + np.asarray(params.share)
    assert len(parts) == 1
    low, high = int(parts.min()), int(parts.max())
    law = law_of_sum(params.noise, spec.num_users)
    # Both columns are rounded by the same dither here: a test that knew it would see no less.
    found = 0.0
    shift, more = divmod(high - low, 2**16)
    for further, weight in ((shift, 1 - more / 2**16), (shift + 1, more / 2**16)):
        found += weight * shifted_delta(law, further, spec.epsilon)
    return found


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_delta_is_what_the_sum_of_all_noise_gives(epsilon):
    spec = SecureSum([[0.0, 1.0]], epsilon, 1e-4, num_users=20)
    assert 0.97 * spec.exact_delta() < attained(spec) <= spec.exact_delta() <= 1e-4


def test_less_noise_is_seen(monkeypatch):
    """The control: with nine tenths of the noise the same delta is exceeded."""
    spec = SecureSum([[0.0, 1.0]], 0.5, 1e-4, num_users=21)
    honest = _secure_sum._plan(spec)
    parts = np.rint(honest.parts / 0.9).astype(np.int64)
    less = dataclasses.replace(honest, parts=parts, step=0.9 * honest.step)
    monkeypatch.setattr(_secure_sum, "_plan", lambda spec: less)
    assert attained(spec) > 1e-4


@functools.lru_cache(maxsize=4)
def simulated(method):
    spec = SecureSum(prefix(8), 1.0, 1e-6, num_users=1000)
    users = jaxdp.Population.from_histogram(COUNTS)
    return spec, jaxdp.simulate(spec, users, jax.random.key(3), num_trials=2000, method=method)


@pytest.mark.parametrize("method", ["per_user", "tally"])
def test_errors_are_as_predicted(method):
    spec, trials = simulated(method)
    predicted = spec.variance(COUNTS)[:-1]  # the last answer is 1, for everyone
    estimates, truth = trials.estimates[:, :-1], trials.truth[:-1]
    for i in range(7):
        stats.check_mean(estimates[:, i], truth[i], variance=predicted[i])
        stats.check_variance(estimates[:, i], predicted[i], kurtosis=3.1, mean=truth[i])
    stats.must_fail(
        stats.check_variance, estimates[:, 0], predicted[0] / 1.6, kurtosis=3.1, mean=truth[0]
    )


def test_both_paths_have_one_law():
    (_, one), (_, two) = simulated("per_user"), simulated("tally")
    stats.check_two_samples(one.estimates[:, 3], two.estimates[:, 3])
    stats.must_fail(stats.check_two_samples, one.estimates[:, 3], 1.3 * two.estimates[:, 3])


@pytest.mark.parametrize(("n", "epsilon"), [(1, 1.0), (19, 1.0), (10**6, 0.1), (10**6, 4.0)])
def test_it_costs_what_a_curator_costs(n, epsilon):
    spec = SecureSum(prefix(8), epsilon, 1e-6, num_users=n)
    curator = FactorizationMechanism(prefix(8), epsilon, 1e-6)
    assert 0.99 < spec.worst_case_variance(n) / curator.worst_case_variance(n) < 1.01
    assert spec.exact_delta() <= 1e-6


def test_sums_fit_their_modulus():
    spec, _ = simulated("per_user")
    params = spec.build()
    largest = max(np.abs(np.asarray(params.whole)).max() + 1, 1) * 1000
    room = 2 ** (spec.modulus_bits - 1)
    assert room / 2 < largest + 13 * 64 * math.sqrt(1000) < room


def test_the_largest_numbers_are_summed_exactly():
    params = SecureSum(prefix(4), 1.0, 1e-6, num_users=1000).build()
    reports = np.array([[2**30, -(2**30), 7]], np.int32).repeat(2**12, axis=0)
    assert params.tally(reports)["sum"].numpy().tolist() == [2**42, -(2**42), 7 * 2**12]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workload": [[1.0, 1.0]]}, "columns that differ"),
        ({"delta": 1e-15}, "delta must be at least"),
        ({"num_users": 0}, "num_users"),
        ({"epsilon": 1e-9}, "epsilon must be larger"),
        ({"factorization": np.eye(3)}, "factor"),
    ],
)
def test_bad_arguments_are_named(change, message):
    given = {"workload": prefix(4), "epsilon": 1.0, "delta": 1e-6, "num_users": 1000} | change
    with pytest.raises(ValueError, match=message):
        SecureSum(**given).build()


def test_too_few_users_are_refused():
    spec = SecureSum(prefix(4), 1.0, 1e-6, num_users=1000)
    users = jaxdp.Population.from_histogram([100] * 4)
    with pytest.raises(ValueError, match="fewer than num_users"):
        jaxdp.run(spec, users, jax.random.key(0))
