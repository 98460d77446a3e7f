"""Sums of reports drawn at once: lanes, merges and vectors against what they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxdp
from jaxdp._contract import Work
from jaxdp.random import Count
from jaxdp.randomizers._chi_square import propose_chi_square
from jaxdp.randomizers._l2_ball import L2Ball
from jaxdp.randomizers._priv_unit import PrivUnit
from jaxdp.randomizers._priv_unit_g import PrivUnitG
from jaxdp.randomizers._proj_unit import ProjUnit
from jaxdp.randomizers._vector_sums import sum_parts
from tests import stats
from tests.marks import slow

HISTOGRAMS = (
    [5, 0, 3000, 1],
    [1],
    [0, 1, 0],
    [2048, 2049],
    [0, 0, 10_000],
    list(range(3000)),
)


@pytest.mark.slow
@pytest.mark.parametrize("counts", HISTOGRAMS, ids=lambda c: f"{len(c)}x{sum(c)}")
def test_every_user_is_in_one_lane_of_its_input(counts, key):
    """Users that all stand for T = (index of the input) + 1 and R = 0 add up exactly.

    Half of all attempts are refused.
    """
    with jax.enable_x64(True):
        extra = jnp.arange(1, len(counts) + 1, dtype=jnp.float32)
        attempt = lambda w, extra: (extra, jnp.float32(0), w[0] % 2 == 0)  # noqa: E731
        args = key, Count.of(np.array(counts)), attempt, 1, extra
        along, lengths = jax.jit(lambda k: sum_parts(k, *args[1:], 2))(key)
        np.testing.assert_array_equal(along, np.array(counts) * np.arange(1, len(counts) + 1))
        np.testing.assert_array_equal(lengths, np.zeros(len(counts)))
        _, lengths = jax.jit(lambda k: sum_parts(k, *args[1:], None))(key)
        np.testing.assert_array_equal(lengths, np.sqrt(np.array(counts)))


@pytest.mark.parametrize("dim", [1, slow(2), slow(5)])
def test_merged_lengths(dim, key, rng):
    """The norm of a sum of unit vectors of uniform directions; detects a distance of 0.24.

    The groups of 1, 2, 3 and 5,000 users go through merges within a lane and between lanes.
    """
    counts = np.array([1, 2, 3, 5000])

    def lengths(key):
        attempt = lambda w, extra: (jnp.float32(0), jnp.float32(1), w[0] >> 31 == 0)  # noqa: E731
        return sum_parts(key, Count.of(counts), attempt, 1, None, dim)[1]

    trials = 1000
    with jax.enable_x64(True):
        found = jax.jit(lambda keys: jax.lax.map(lengths, keys))(jax.random.split(key, trials))
        found = np.asarray(found)
    np.testing.assert_allclose(found[:, 0], 1, rtol=1e-6)
    direct = np.empty((trials, 3))
    for column, count in enumerate((2, 3)):
        v = rng.normal(size=(trials, count, dim))
        v /= np.linalg.norm(v, axis=2, keepdims=True)
        direct[:, column] = np.linalg.norm(v.sum(axis=1), axis=1)
    direct[:, 2] = np.linalg.norm(rng.normal(size=(trials, dim)), axis=1) * np.sqrt(5000 / dim)
    noise = 1e-4 * rng.random((trials, 3))  # on the line the lengths are integers
    if dim == 1:
        parity = np.rint(found[:, 3]) % 2
        np.testing.assert_array_equal(parity, 0)
        noise[:, 2] += 2 * rng.random(trials) - 1
    stats.check_two_samples(np.round(found[:, 1:], 3) + noise, np.round(direct, 3) + noise)
    stats.must_fail(stats.check_two_samples, found[:, 1:] * 1.3, direct)


def chi_squares(degrees, key):
    """Accepted proposals of 200,000, as float64."""
    words = jax.random.bits(key, (200_000, 3), jnp.uint32)
    draw = jax.jit(jax.vmap(lambda w: propose_chi_square(w, 1, degrees)))
    samples, accepted = map(np.asarray, draw(words))
    # Marsaglia and Tsang's worst case is the shape 1.
    assert accepted.mean() > 0.949
    return samples[accepted].astype(np.float64)


@pytest.mark.parametrize("degrees", [1, 2, 3, 119, 121, 1000])
def test_chi_square(degrees, key):
    """Power 0.999 to see a shift by 0.02 standard deviations; from 121 on by another formula."""
    samples, law = chi_squares(degrees, key), scipy.stats.chi2(degrees)
    stats.check_cdf(samples, law.cdf)
    stats.must_fail(stats.check_cdf, samples + 0.05 * law.std(), law.cdf)


def test_chi_square_of_many_degrees(key):
    """In float32 too a squared norm in R**(2**20) is right: it differs little from its mean."""
    degrees = 2**20
    samples, law = chi_squares(degrees, key), scipy.stats.chi2(degrees)
    stats.check_cdf(samples, lambda x: law.cdf(x + 0.07), cdf_left=lambda x: law.cdf(x - 0.07))
    stats.must_fail(
        stats.check_cdf,
        samples + 0.05 * law.std(),
        lambda x: law.cdf(x + 0.07),
        cdf_left=lambda x: law.cdf(x - 0.07),
    )


def proj_unit(dim, epsilon):
    """A `ProjUnit` of a quarter of the dimensions."""
    return ProjUnit(dim, epsilon, dim // 4)


@pytest.mark.slow
def test_a_single_report_of_proj_unit_drawn_at_once(key):
    """The law of one user's report on both paths, where no sum hides its shape.

    Detects a Kolmogorov distance of 0.13 with power 0.999.
    """
    spec = ProjUnit(3, 3.0, num_projected=2)
    population = jaxdp.Population.from_histogram([1], np.array([[0.8, 0.0, -0.3]], np.float32))
    one, two = (
        jaxdp.simulate(spec, population, key, num_trials=3000, method=m).estimates
        for m in ("per_user", "tally")
    )
    weights = np.random.default_rng(0).normal(size=(3, 4))
    joint = [np.c_[y @ weights, np.linalg.norm(y, axis=1)] for y in (one, two)]
    stats.check_two_samples(*joint)
    stats.must_fail(stats.check_two_samples, joint[0], 1.4 * joint[1])


@pytest.mark.parametrize("make", [slow(L2Ball), slow(PrivUnit), PrivUnitG, slow(proj_unit)])
def test_given_users_have_a_tally_too(make, key):
    """Vectors one by one and in many dimensions: each is its own input."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 40)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    spec, population = make(40, 20.0), jaxdp.Population.from_values(x)
    trials = jaxdp.simulate(spec, population, key, num_trials=200, method="tally")
    variance = spec.variance(np.ones(300, np.int64), x)
    stats.check_mean(trials.estimates, x.mean(axis=0), variance=variance)
    shifted = trials.estimates + np.sqrt(variance)
    stats.must_fail(stats.check_mean, shifted, x.mean(axis=0), variance=variance)
    cost = spec.build().law.cost
    assert cost(Work(300, 300)) > cost(Work(300, 3))
