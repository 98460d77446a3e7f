"""Totals beyond 2**31 and 2**40 are exact, on both paths."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.random import Count
from jaxdp.randomizers import KRR
from tests import stats
from tests.engine.probes import Heavy, Visits, mesh_of
from tests.marks import slow


def test_merging_is_exact_across_the_limbs(rng):
    pieces = rng.integers(0, 2**45, size=(50, 3))
    pieces[:, 0] = 2**32 - 1
    total = Count.zeros((3,))
    for piece in pieces:
        total = jaxdp.merge(total, Count.of(piece))
    np.testing.assert_array_equal(total.numpy(), pieces.sum(axis=0))
    scanned, _ = jax.lax.scan(
        lambda a, b: (jaxdp.merge(a, b), None), Count.zeros((3,)), Count.of(pieces)
    )
    np.testing.assert_array_equal(scanned.numpy(), pieces.sum(axis=0))


@pytest.mark.parametrize("devices", [None, 2])
@pytest.mark.parametrize(("n", "power"), [(80_001, 31), (2**25 + 5, 40)])
def test_per_user_sums_outgrow_32_bits(n, power, devices, key):
    """Users of bin 1 add 2**16 each: a block of them stays below 2**31, all of them do not."""
    ones = n - n // 3
    assert 2**16 * ones > 2**power
    population = jaxdp.Population.from_histogram([n // 3, ones])
    mesh = None if devices is None else mesh_of(devices)
    assert int(jaxdp.run(Heavy(), population, key, mesh=mesh)) == 2**16 * ones


@pytest.mark.slow
def test_per_user_path_visits_more_than_two_to_the_31_users(key):
    n = 2**31 + 12_345
    population = jaxdp.Population.from_histogram([n - 5, 5])
    np.testing.assert_array_equal(jaxdp.run(Visits(2), population, key), [n - 5, 5])
    estimate = jaxdp.run(KRR(2, 1.0), population, key, method="per_user")
    np.testing.assert_allclose(estimate.sum(), n, rtol=1e-12)


@pytest.mark.slow
def test_tallies_drawn_at_once_hold_every_user(key):
    sample = jax.jit(KRR(4, 1.0).build().sample_tally)
    for n in (1, 2**31 + 7, 2**40 + 7, 10**12, 2**53):
        counts = Count.of(np.array([n // 2, 0, n - n // 2, 0]))
        tally = sample(key, counts)
        assert int(tally.sum()) == n
        assert np.all(tally.numpy() >= 0)


@pytest.mark.parametrize("kind", ["histogram", slow("distribution")])
def test_law_at_a_trillion_users(kind, key):
    """Mean and variance of the estimates at n = 10**12 are those of the formula."""
    counts = np.array([10**12 - 10**9 - 4, 10**9, 4, 0])
    krr = KRR(4, 1.0)
    n = int(counts.sum())
    if kind == "histogram":
        population, variance = jaxdp.Population.from_histogram(counts), krr.variance(counts)
    else:
        population = jaxdp.Population.from_distribution(counts / n, n)
        law = population.probabilities()
        p, q = map(float, krr.probabilities())
        report = q + (p - q) * law
        variance = n * report * (1 - report) / (p - q) ** 2
    trials = jaxdp.simulate(krr, population, key, num_trials=4000)
    assert trials.method == "tally"
    centred = trials.errors / np.sqrt(variance)
    stats.check_mean(centred, np.zeros(4), variance=np.ones(4), cells=2)
    stats.check_variance(centred, np.ones(4), mean=np.zeros(4), kurtosis=3.1, cells=2)
    stats.must_fail(stats.check_mean, centred + 0.25, np.zeros(4), variance=np.ones(4), cells=2)
    stats.must_fail(
        stats.check_variance, 1.5 * centred, np.ones(4), mean=np.zeros(4), kurtosis=3.1, cells=2
    )
