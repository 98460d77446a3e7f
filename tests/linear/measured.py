"""Measured errors of an unbiased protocol against the predicted ones."""

import numpy as np

import jaxdp
from jaxdp.engine._config import Method
from tests import stats

KURTOSIS = 3.5
"""Kurtosis of an estimate: 3 with many users, else up to `b**2 / variance` for a user's share b."""


def check_prediction(spec, counts, key, *, num_trials, method: Method = "auto") -> None:
    """Asserts that estimates are unbiased and have the predicted variance, in every entry.

    With 1,000 trials and 2,000 entries it detects an offset of 0.3 standard deviations and a
    variance off by a half, with power 0.999.
    """
    counts = np.asarray(counts)
    population = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, population, key, num_trials=num_trials, method=method)
    variance = spec.variance(counts)
    random = variance > 1e-12 * variance.max()  # a constant query is answered exactly
    errors = trials.errors
    np.testing.assert_allclose(errors[:, ~random], 0, atol=1e-7)  # of thousands of users
    errors, variance = errors[:, random], variance[random]
    stats.check_mean(errors, 0.0, variance=variance)
    stats.check_variance(errors, variance, mean=0.0, kurtosis=KURTOSIS)
    shifted = errors + 0.5 * np.sqrt(variance)
    stats.must_fail(stats.check_mean, shifted, 0.0, variance=variance)
    stats.must_fail(stats.check_variance, 1.5 * errors, variance, mean=0.0, kurtosis=KURTOSIS)
