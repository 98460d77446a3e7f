"""Contracts of continuous randomizers: the density, its ratios, and the moments of one report."""

import functools
import itertools
import os
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import stats
from tests.contracts.registry import RANDOMIZERS, ids

SAMPLES = 20_000
CONTINUOUS = [case for case in RANDOMIZERS if case.density]
PURE = [case for case in CONTINUOUS if not hasattr(case.make(1.0), "exact_delta")]


@functools.lru_cache(maxsize=16)  # the tests of a case share them
def sampled_reports(case) -> list[np.ndarray]:
    """Reports of every input of a case at epsilon = 1."""
    name = case.name + os.environ.get("JAXDP_TEST_SEED", "")
    key = jax.random.key(zlib.crc32(name.encode()))
    params = case.make(1.0).build()
    sample = jax.jit(jax.vmap(params.privatize, in_axes=(0, None)))
    keys = jax.random.split(key, (len(case.values), SAMPLES))
    pairs = zip(keys, case.user_values(), strict=True)
    return [np.asarray(sample(k, jnp.asarray(value))) for k, value in pairs]


def log_ratios(spec, reports, value, other) -> np.ndarray:
    return spec.log_density(reports, value) - spec.log_density(reports, other)


@pytest.mark.parametrize("case", PURE, ids=ids)
def test_density_ratios_are_bounded_and_the_budget_is_spent(case):
    """No report's density ratio exceeds exact_epsilon, for any two inputs, and some attains it."""
    spec, samples = case.make(1.0), sampled_reports(case)
    assert 0.999 < spec.exact_epsilon() <= 1.0
    values = case.user_values()
    worst = max(
        np.abs(log_ratios(spec, y, values[i], values[j])).max()
        for y in samples
        for i, j in itertools.combinations(range(len(values)), 2)
    )
    assert 0.9 < worst <= spec.exact_epsilon() + 1e-5


@pytest.mark.parametrize("case", CONTINUOUS, ids=ids)
def test_density_is_that_of_the_sampler(case):
    """Under reports of x the density ratio of x' to x has mean 1; clipped from above, at most 1.

    The mean is 1 for every bounded function g: E_x[g(y) f_x'(y) / f_x(y)] = E_x'[g(y)]; tested for
    g = 1 where ratios are bounded, and for the sign of each coordinate between samples of x and x'.
    """
    spec, samples, values = case.make(1.0), sampled_reports(case), case.user_values()
    pure = case in PURE
    for i, j in itertools.permutations(range(len(values)), 2):
        ratio = np.exp(log_ratios(spec, samples[i], values[j], values[i]))
        if pure:
            bounds = (np.exp(-1.0) * 0.999, np.exp(1.0) * 1.001)
            stats.check_mean(ratio[:, None], 1.0, bounds=bounds)
        low = np.minimum(ratio, 1.0)
        high = np.minimum(1 / np.exp(log_ratios(spec, samples[j], values[j], values[i])), 1.0)
        # E_x[min(1, f_x'/f_x)] = E_x'[min(1, f_x/f_x')]: both are the overlap of the two laws
        half = SAMPLES // 2
        difference = low[:half] - high[:half]
        stats.check_mean(difference[:, None], 0.0, bounds=(-1.0, 1.0))
    distinct = np.exp(log_ratios(spec, samples[0], values[-1], values[0]))
    wrong = np.minimum(distinct, 1.0)[: SAMPLES // 2] - 1.0
    stats.must_fail(stats.check_mean, wrong[:, None], 0.0, bounds=(-1.0, 1.0))


@pytest.mark.parametrize("case", CONTINUOUS, ids=ids)
def test_variance_is_that_of_the_moments(case):
    """For a single user the mean squared error is the spread plus the squared bias."""
    spec = case.make(1.0)
    for index, value in enumerate(case.user_values()):
        alone = np.zeros(len(case.counts), np.int64)
        alone[index] = 1
        mean, covariance = spec.moments(value)
        spread = np.diag(covariance) if np.ndim(covariance) == 2 else covariance
        expected = spread + (np.asarray(mean) - value) ** 2
        np.testing.assert_allclose(spec.variance(alone, case.inputs), expected, rtol=1e-9)
        assert np.all(expected <= spec.worst_case_variance(1) * (1 + 1e-9))
        if case.unbiased:
            np.testing.assert_allclose(mean, value, atol=1e-6 * (1 + np.abs(value).max()))
