"""Optimized channels: the search, its objective and gradient, decoders, and golden numbers."""

import json
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp._form import spec_from_json, spec_to_json
from jaxdp.linear import OptimizedStrategy
from jaxdp.linear._strategy_descent import _project, _variances, optimize, worst_prior
from jaxdp.randomizers import KRR
from jaxdp.workloads import prefix

MCKENNA = {16: 89.9, 32: 267.0, 64: 714.0, 128: 1896.0}
"""Worst-case total variance of the authors' code, prefix sums, epsilon = 1, the best of seeds."""


@pytest.fixture(scope="module")
def found() -> OptimizedStrategy:
    return OptimizedStrategy(prefix(16), 1.0, num_steps=800)


def direct(workload, channel, prior):
    """T by its definition: V from pinv, and the variance of V_y for each value."""
    law = prior @ channel
    root = np.sqrt(law)
    decoder = workload @ np.linalg.pinv((channel / root).T) / root
    return np.square(decoder).sum(axis=0) @ channel.T - np.square(workload).sum(axis=0)


def random_channel(rng, k, m):
    channel = 1 + rng.uniform(size=(k, m))
    return channel / channel.sum(axis=1, keepdims=True)


def test_variances_and_gradient_are_those_of_the_definition(rng):
    """The gradient by central differences, along directions that keep the sums of columns."""
    workload, channel = rng.normal(size=(7, 5)), random_channel(rng, 5, 11)
    prior = rng.dirichlet(np.ones(5))
    gram = workload.T @ workload
    with jax.enable_x64(True):
        args = (jnp.asarray(x) for x in (channel.T, prior, gram, np.zeros((5, 5))))
        variances, gradient, _ = map(np.asarray, _variances(*args))
    np.testing.assert_allclose(variances, direct(workload, channel, prior), rtol=1e-4)
    for _ in range(4):
        step = rng.normal(size=channel.shape)
        step = 1e-6 * (step - step.mean(axis=1, keepdims=True))
        ends = [prior @ direct(workload, channel + s * step, prior) for s in (1, -1)]
        slope = (ends[0] - ends[1]) / 2
        assert abs(np.sum(gradient.T * step) - slope) < 1e-3 * abs(slope)
        assert abs(np.sum(gradient.T[:, ::-1] * step) - slope) > 1e-2 * abs(slope)


def test_the_prior_is_a_saddle_point(rng):
    """At the worst prior the largest variance is the mean one, and another prior has less."""
    workload, channel = prefix(5), random_channel(rng, 5, 11)
    prior = worst_prior(channel, workload.T @ workload)
    variances = direct(workload, channel, prior)
    assert variances.max() < prior @ variances * (1 + 1e-4)
    for _ in range(10):
        other = rng.dirichlet(np.ones(5))
        assert other @ direct(workload, channel, other) < variances.max() * (1 + 1e-4)
        assert direct(workload, channel, other).max() > variances.max() * (1 - 1e-4)


@pytest.mark.parametrize("reach", [0.05, 1.001])
def test_columns_sum_to_one(reach, rng):
    """Also from a column whose entries all lie at 0 or 1."""
    sizes, scale = rng.dirichlet(np.ones(20)) * 0.6, np.e
    with jax.enable_x64(True):
        share = jnp.asarray(np.round(rng.uniform(size=(20, 6)) * [1, 1, 1, 10, 10, 10]) % 2)
        start = _project(jnp.clip(share, 0, 1), sizes, scale, reach=1.001, rounds=60)
        moved = start + jnp.asarray(rng.uniform(-0.01, 0.01, start.shape))
        share = np.asarray(_project(moved, sizes, scale, reach=reach, rounds=40))
    assert share.min() >= 0
    assert share.max() <= 1
    np.testing.assert_allclose(sizes @ (1 + (scale - 1) * share), 1, atol=1e-9)


@pytest.mark.slow
def test_one_bit_gets_randomized_response():
    """Warner's is optimal there: variance e**epsilon / (e**epsilon - 1)**2 of the one share."""
    least = np.e / (np.e - 1) ** 2
    bit = OptimizedStrategy([[0, 0, 1, 1]], 1.0, num_outputs=8, num_steps=1000)
    assert least * (1 - 1e-6) < bit.worst_case_total_variance(1) < least * 1.01


@pytest.mark.slow
def test_better_than_the_authors_code(found):
    """Prefix sums of 16 values: 76.4 with more steps, the authors reach 89.9."""
    assert found.worst_case_total_variance(1) < 0.9 * MCKENNA[16]
    assert 0.999 < found.exact_epsilon() <= 1.0
    assert found.num_outputs == found.randomizer.num_reports == 64


@pytest.mark.slow
@pytest.mark.parametrize("k", [32, 64, 128])
def test_better_than_the_authors_code_at_other_sizes(k):
    total = OptimizedStrategy(prefix(k), 1.0).worst_case_total_variance(1)
    assert total < min(MCKENNA[k], 1650)


@pytest.mark.slow
def test_large_epsilon_is_no_worse_than_randomized_response(found):
    """The descent stops short there, and keeps what it started from."""
    del found  # compiled for this shape
    oracle = KRR(16, 10.0)
    workload = prefix(16)
    response = max(np.trace(workload @ oracle.covariance(v) @ workload.T) for v in range(16))
    total = OptimizedStrategy(workload, 10.0, num_steps=20).worst_case_total_variance(1)
    assert total < response * (1 + 1e-4)


@pytest.mark.slow
def test_predictions_are_those_of_the_enumerated_reports(found):
    """Means and variances of one user's contribution from the exact channel."""
    channel = np.array(found.randomizer.channel(), np.float64)
    decoder = found.decoder()
    means, variances = found.contributions()
    np.testing.assert_allclose(means, found.workload.values, atol=1e-9)
    for value in (0, 7, 15):
        law = channel[value]
        spread = np.square(decoder - (decoder @ law)[:, None]) @ law
        np.testing.assert_allclose(variances[:, value], spread, rtol=1e-9, atol=1e-12)
    worst = variances.sum(axis=0)
    assert worst.max() < found.prior() @ worst * 1.001


def test_no_other_unbiased_decoder_is_better(found, rng):
    law, prior, decoder = found.randomizer.weights() / 2.0**32, found.prior(), found.decoder()
    least = np.sum(np.square(decoder) @ (prior @ law))
    null = np.linalg.svd(law)[2][16:]
    for _ in range(5):
        other = decoder + 0.1 * rng.normal(size=(16, 48)) @ null
        assert np.sum(np.square(other) @ (prior @ law)) > least


def test_the_same_channel_written_out(found):
    """Equal predictions; it survives JSON and pickle, and nothing is searched."""
    fixed = found.optimized()
    np.testing.assert_array_equal(fixed.contributions()[1], found.contributions()[1])
    again = spec_from_json(json.loads(json.dumps(spec_to_json(fixed))))
    assert again == fixed
    assert pickle.loads(pickle.dumps(fixed)) == fixed
    assert found == OptimizedStrategy(prefix(16), 1.0, num_steps=800, progress=True)
    assert fixed != found


@pytest.mark.slow
def test_an_objective_is_what_is_lowered(found):
    """For users who mostly hold one value, the channel for them has less variance there."""
    users = np.array([90] + [1] * 15)
    aimed = OptimizedStrategy(prefix(16), 1.0, num_steps=800, objective=users)
    assert aimed.total_variance(users) < 0.95 * found.total_variance(users)
    np.testing.assert_allclose(aimed.prior(), users / users.sum())
    assert aimed.worst_case_total_variance(1) > found.worst_case_total_variance(1)


@pytest.mark.slow
def test_steps_are_reported():
    seen = []
    optimize(np.diag([0.0, 0, 1, 1]), 1.0, 8, None, 120, 0, seen.append)
    assert sum(seen) == 120
    assert len(seen) > 10


def test_too_few_reports_are_refused_with_the_rank():
    with pytest.raises(ValueError, match=r"channel must determine.*rank"):
        OptimizedStrategy(prefix(4), 1.0, channel=[[3, 5], [5, 3], [4, 4], [4, 4]])


@pytest.mark.slow
def test_a_single_query_takes_two_reports(key):
    """Rank one: most of the channel's directions carry nothing, and the answer is unbiased."""
    query = OptimizedStrategy([[0.0, 1.0, 0.5, 0.25]], 1.0, num_outputs=8, num_steps=300)
    means, _ = query.contributions()
    np.testing.assert_allclose(means, query.workload.values, atol=1e-6)
    c = (np.e + 1) / (np.e - 1)
    assert query.worst_case_variance(1) < c**2 / 4 * 1.001  # one bit for the interval [0, 1]
    population = jaxdp.Population.from_histogram([10**9] * 4)
    answer = jaxdp.run(query, population, key)
    assert abs(answer[0] - 0.4375) < 1e-3
