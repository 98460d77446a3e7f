"""All frequency oracles at two sizes: the spread of their counts is the predicted one."""

import functools

import numpy as np
import pytest

import jaxdp
from jaxdp.randomizers import (
    KRR,
    AffineHashing,
    AffineSubsets,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    ProjectiveGeometryResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from tests import stats

ORACLES = {
    "krr": KRR,
    "hadamard-response": HadamardResponse,
    "hadamard-bit": HadamardBit,
    "projective-geometry": ProjectiveGeometryResponse,
    "subset-selection": SubsetSelection,
    "optimised-unary": UnaryEncoding,
    "symmetric-unary": functools.partial(UnaryEncoding, kind="symmetric"),
    "local-hashing": LocalHashing,
    "affine-hashing": AffineHashing,
    "affine-subsets": AffineSubsets,
    "binary-hashing": functools.partial(LocalHashing, hash_range=2),
    "rappor": functools.partial(Rappor, num_bits=16),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_a_thousand_users_and_eight_values(name, key):
    """Value 0 has 100 users. Power 0.999 for an offset of 0.2 deviations, a variance off by 0.3."""
    spec = ORACLES[name](num_values=8, epsilon=1.0)
    counts = np.array([100, 300, 0, 200, 50, 150, 80, 120])
    population = jaxdp.Population.from_histogram(counts)
    estimates = jaxdp.simulate(spec, population, key, num_trials=4000).estimates
    variance = spec.variance(counts)
    check_mean = functools.partial(stats.check_mean, mean=counts, variance=variance)
    check_variance = functools.partial(
        stats.check_variance, variance=variance, mean=counts, kurtosis=3.5
    )
    check_mean(estimates)
    check_variance(estimates)
    stats.must_fail(check_mean, estimates + 0.25 * np.sqrt(variance))
    stats.must_fail(check_variance, counts + 1.2 * (estimates - counts))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trials"),
    [("krr", 100), ("projective-geometry", 100), ("local-hashing", 8), ("binary-hashing", 8)],
)
def test_a_million_users_and_a_thousand_values(name, trials, key, rng):
    """Errors of all counts and trials in deviations: normal, and all but uncorrelated.

    Power 0.999 for a variance off by 0.2 at least. Of the other oracles, the tests of their own.
    """
    spec = ORACLES[name](num_values=1024, epsilon=1.0)
    counts = rng.multinomial(10**6, rng.dirichlet(np.ones(1024)))
    population = jaxdp.Population.from_histogram(counts)
    estimates = jaxdp.simulate(spec, population, key, num_trials=trials).estimates
    errors = ((estimates - counts) / np.sqrt(spec.variance(counts))).reshape(-1, 1)
    check = functools.partial(stats.check_variance, variance=1.0, mean=0.0, kurtosis=3.1)
    stats.check_mean(errors, 0.0, variance=1.0)
    check(errors)
    stats.must_fail(stats.check_mean, errors + 0.2, 0.0, variance=1.0)
    stats.must_fail(check, 1.12 * errors)
