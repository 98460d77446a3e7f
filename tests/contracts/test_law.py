"""Statistical contracts: unbiased, of the predicted variance, and one law on both paths."""

import functools
import os
import zlib
from typing import Any

import jax
import numpy as np
import pytest

import jaxdp
from tests import stats
from tests.contracts.registry import EXEMPLARS, PATHS, PROTOCOLS, ids


def trials_of(case) -> int:
    """Trials of a simulation: half of them where reports are floats, which take longer."""
    return 2000 if case.density else 4000


@functools.lru_cache(maxsize=4)  # a member's tests follow one another
def simulated(case, method):
    """Trials on one path, shared by the tests of a member's law."""
    name = f"{case.name} {method}" + os.environ.get("JAXDP_TEST_SEED", "")
    key = jax.random.key(zlib.crc32(name.encode()))
    return jaxdp.simulate(
        case.make(1.0), case.population(), key, num_trials=trials_of(case), method=method
    )


@pytest.mark.parametrize(("case", "method"), PATHS)
def test_unbiased_with_the_predicted_variance(case, method):
    """Mean and variance of 4,000 or 2,000 trials.

    Power 0.999 to see an offset of 0.13 (or 0.18) standard deviations, a variance off by a quarter
    (or a third).
    """
    spec, trials = case.make(1.0), simulated(case, method)
    counts = case.population().counts().numpy()
    variance = spec.variance(counts, case.inputs)
    estimates = trials.estimates.reshape(trials_of(case), -1)
    assert trials.truth is not None
    truth, variance = np.ravel(trials.truth), variance.ravel()
    noisy = variance > 0
    assert np.all(estimates[:, ~noisy] == truth[~noisy])  # such as the share of all users
    estimates, truth, variance = estimates[:, noisy], truth[noisy], variance[noisy]
    if case.unbiased:
        stats.check_mean(estimates, truth, variance=variance)
    options: Any = dict(mean=truth, kurtosis=KURTOSIS, at_most=not case.exact)
    stats.check_variance(estimates, variance, **options)
    stats.must_fail(
        stats.check_mean, estimates + 0.25 * np.sqrt(variance), truth, variance=variance
    )
    errors = estimates - truth
    if not case.exact:  # as large as they may be
        errors = errors * np.sqrt(variance / np.square(errors).mean(axis=0))
    stats.must_fail(stats.check_variance, truth + 1.5 * errors, variance, **options)


KURTOSIS = 6.0


@pytest.mark.parametrize("case", [c for c in PROTOCOLS if c.has_law], ids=ids)
def test_two_paths_one_law(case):
    """Every linear statistic below has one distribution on both paths.

    Detects a Kolmogorov distance of about 0.12, or 0.16 with half of the trials, with power 0.999.
    """
    n = trials_of(case)
    one, two = (simulated(case, m).estimates.reshape(n, -1) for m in ("per_user", "tally"))
    weights = np.random.default_rng(0).normal(size=(one.shape[1], 4))
    joint = [np.concatenate([x @ weights, x.max(1, keepdims=True)], axis=1) for x in (one, two)]
    stats.check_two_samples(*joint)
    stats.must_fail(stats.check_two_samples, joint[0], joint[1] + 0.5 * joint[1].std(axis=0))


def _draws_iid(case, method) -> bool:
    """Whether the member has a law of its own for independent users."""
    return method == "tally" and hasattr(case.make(1.0).build(), "sample_tally_iid")


INDEPENDENT = [
    param
    for param in PATHS
    if param.values[0].unbiased and (param.values[0] in EXEMPLARS or _draws_iid(*param.values))
]


@pytest.mark.parametrize(("case", "method"), INDEPENDENT)
def test_independent_users_have_the_population_truth(case, method, key):
    """Users drawn from a distribution: the mean estimate is the population's statistic.

    Without `sample_tally_iid` it is the law of `test_unbiased_with_the_predicted_variance` on
    another population, so the exemplars suffice there.
    """
    p = np.asarray(case.counts) / sum(case.counts)
    population = jaxdp.Population.from_distribution(p, 1000, case.inputs)
    spec = case.make(1.0)
    if not hasattr(spec, "population_truth"):
        pytest.fail("a protocol owes its users population_truth")
    trials = jaxdp.simulate(spec, population, key, num_trials=trials_of(case), method=method)
    errors = trials.errors.reshape(trials_of(case), -1)
    spread = errors.var(axis=0) * 1.3
    stats.check_mean(errors, np.zeros(errors.shape[1]), variance=spread)
    stats.must_fail(
        stats.check_mean, errors + 0.3 * np.sqrt(spread), np.zeros(errors.shape[1]), variance=spread
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tally", "per_user"])
@pytest.mark.parametrize("case", [c for c in EXEMPLARS if c.name == "binary"], ids=ids)
def test_sample_truth_follows_the_users_at_hand(case, method, key):
    """Errors about the drawn users have mean zero and leave the sampling error out."""
    p = np.asarray(case.counts) / sum(case.counts)
    population = jaxdp.Population.from_distribution(p, 1000, case.inputs)
    spec = case.make(4.0)
    trials = jaxdp.simulate(spec, population, key, num_trials=300, method=method, truth="sample")
    truth = np.asarray(trials.truth)
    assert truth.shape == trials.estimates.shape
    assert truth.std(axis=0).max() > 0
    spread = trials.errors.var(axis=0).reshape(-1)
    assert spread.sum() < trials.estimates.var(axis=0).sum()
    if case.unbiased:
        zero = np.zeros(spread.size)
        stats.check_mean(trials.errors.reshape(300, -1), zero, variance=1.5 * spread)
