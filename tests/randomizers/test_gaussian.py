"""Gaussian noise on a grid: calibration, the proven delta, reports and sums."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as distributions

from jaxdp.accounting import gaussian_delta, gaussian_sigma
from jaxdp.population import Population
from jaxdp.random import Count, NormalNoise, normal
from jaxdp.random._noise import normal_masses
from jaxdp.randomizers._gaussian import FRACTION, Gaussian, rounded_delta
from tests import stats


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 0.1])
def test_analytic_sigma_is_the_least(epsilon, delta):
    """Private for inputs 2 r apart; a little less noise is not; the grid costs 1 % at most."""
    spec = Gaussian(2, epsilon, delta, radius=3.0)
    assert (1 - 1e-4) * delta < spec.exact_delta() <= delta
    assert spec.exact_epsilon() == epsilon
    exact = gaussian_sigma(epsilon, delta, 6.0)
    assert exact < spec.sigma < 1.01 * exact
    less = spec.sigma * (1 - 1e-5)
    assert rounded_delta(epsilon, less, 3.0, spec.noise, 2) > delta


@pytest.mark.parametrize("dim", [64, 4096, 2**16])
def test_grid_is_as_fine_as_the_dimension_asks(dim):
    """The steps of the default cost less than 1 % of sigma; with coarser ones it costs more."""
    exact = gaussian_sigma(1.0, 1e-6, 2.0)
    spec = Gaussian(dim, 1.0, 1e-6)
    assert spec.sigma < 1.011 * exact
    coarse = Gaussian(64, 1.0, 1e-6, steps=128)
    assert 1.005 < coarse.sigma / exact < 1.03
    assert coarse.num_steps == 128


def test_printed_sigma_is_not_private():
    spec = Gaussian(3, 1.0, 1e-6, calibration="as_printed")
    assert round(spec.sigma, 3) == 5.387
    assert round(spec.exact_delta(), 5) == 6.5e-4
    assert 8.449 < Gaussian(3, 1.0, 1e-6).sigma < 8.47
    assert gaussian_delta(1.0, 1.0, spec.sigma) < 1e-6  # it suits the sensitivity r


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
def test_log_delta_is_concave_in_the_squared_distance(epsilon, delta):
    """What the proof of `rounded_delta` derives, on a grid, and the slope that it takes."""
    sigma = gaussian_sigma(epsilon, delta, 2.0)
    v = np.linspace(0.05, 12, 2000) * 4
    log = np.array([math.log(max(gaussian_delta(epsilon, math.sqrt(x), sigma), 1e-300)) for x in v])
    log = log[log > -600]
    assert np.all(np.diff(log, 2) < 1e-9)


@pytest.mark.parametrize("x", [1.0, 0.3, 0.501])
def test_delta_by_enumeration(x):
    """In one dimension: the exact mass by which the law of x exceeds e**epsilon times that of -x.

    It is at most the proven one, and near it for the ends; a bound without rounding is exceeded.
    """
    spec = Gaussian(1, 1.0, 1e-2, steps=64)
    y = np.arange(-1000, 1001)[:, None]
    p, q = (np.exp(spec.log_density(y, np.array([s * x]))) for s in (1, -1))
    np.testing.assert_allclose([p.sum(), q.sum()], 1, rtol=1e-9)
    found = np.maximum(p - math.e * q, 0).sum()
    assert found <= spec.exact_delta() <= 1e-2
    if x == 1.0:
        assert found > 0.95 * spec.exact_delta()


@pytest.mark.parametrize("radius", [0.76, 1.01, 0.5])
def test_delta_of_coarse_grids_by_enumeration(radius):
    """Steps of half the radius and more: rounded at random, the exact delta is within the bound."""
    noise, sigma = NormalNoise.of(64), 40.0
    masses = np.array(normal_masses(64), np.float64) / 2.0**64
    masses[0] *= 2
    law, step = np.concatenate([masses[:0:-1], masses]), sigma / 64
    low, share = int(radius // step), radius / step % 1
    rows = np.zeros((2, law.size + 2 * low + 2))
    for row, sign in zip(rows, (1, -1), strict=True):
        for level, weight in ((low, 1 - share), (low + 1, share)):
            start = low + 1 + sign * level
            row[start : start + law.size] += weight * law
    for epsilon in (0.0, 0.05, 0.1):
        found = np.maximum(rows[0] - math.exp(epsilon) * rows[1], 0).sum()
        assert found <= rounded_delta(epsilon or 1e-9, sigma, radius, noise, 1)
        assert epsilon == 0 or found > gaussian_delta(epsilon, 2 * radius, sigma) * 0.9


def test_law_of_a_report(key):
    spec, x, draws = Gaussian(3, 2.0, 1e-4, radius=5.0), np.float32([3.0, -4.0, 0.0]), 50_000
    keys = jax.random.split(key, draws)
    y = np.asarray(jax.jit(jax.vmap(spec.build().privatize, (0, None)))(keys, jnp.asarray(x)))
    z = (y * float(spec.build().unit) - x) / spec.sigma
    stats.check_cdf(z, distributions.norm.cdf)
    stats.check_mean(z[:, :2] * z[:, 1:], 0.0, variance=1.0, cells=2)
    stats.check_variance(z, 1.0, mean=0.0, kurtosis=3.0, cells=2)
    stats.must_fail(stats.check_cdf, z + 0.05, distributions.norm.cdf)
    stats.must_fail(stats.check_variance, 1.1 * z, 1.0, mean=0.0, kurtosis=3.0)


@pytest.mark.parametrize(("dim", "steps"), [(1, 2**8), (2, 2**15), (5, 2**8)])
def test_each_entry_has_its_own_words(dim, steps):
    """A word of noise moves one entry, half a word of dither rounds one."""
    spec = Gaussian(dim, 1.0, 1e-6, steps=steps)
    params = spec.build()
    x = jnp.full(dim, 0.3 / dim**0.5, jnp.float32)
    words = np.random.default_rng(0).integers(2**31, size=params.num_words, dtype=np.uint32)
    base = np.asarray(params.from_bits(jnp.asarray(words), x))
    for entry in range(dim * params.noise.levels):
        changed = words.copy()
        changed[entry] ^= 2**31
        moved = np.asarray(params.from_bits(jnp.asarray(changed), x)) != base
        assert moved.tolist() == [i == entry % dim for i in range(dim)]


def test_law_of_a_sum_of_a_billion_users(key):
    spec, draws = Gaussian(2, 1.0, 1e-6), 10_000
    counts, x = np.array([10**9, 3 * 10**8]), np.float32([[0.6, 0.8], [-1.0, 0.0]])
    sample = jax.jit(jax.vmap(spec.build().sample_tally, in_axes=(0, None, None)))
    tally = sample(jax.random.split(key, draws), Count.of(counts), jnp.asarray(x))
    with jax.enable_x64(True):
        mean = np.asarray(jax.vmap(spec.build().estimate)(tally))
    z = (mean - spec.truth(counts, x)) / np.sqrt(spec.variance(counts))
    stats.check_cdf(z, distributions.norm.cdf)
    stats.check_mean(z[:, 0] * z[:, 1], 0.0, variance=1.0)
    stats.must_fail(stats.check_cdf, 1.2 * z, distributions.norm.cdf)


@pytest.mark.slow
def test_large_dimensions(key):
    spec = Gaussian(10**5, 1.0, 1e-6)
    params = spec.build()
    report = np.asarray(params.privatize(key, np.zeros(10**5, np.float32)))
    stats.check_cdf(report / spec.num_steps, distributions.norm.cdf)


def test_values_out_of_the_ball_inside_jit():
    params = Gaussian(2, 1.0, 1e-6, radius=2.0).build()
    words = jax.random.bits(jax.random.key(0), (params.num_words,), jnp.uint32)
    report = jax.jit(params.from_bits)
    for value, seen in (
        ((3.0, -4.0), (1.2, -1.6)),
        ((3e38, 0.0), (2.0, 0.0)),
        ((np.inf, np.inf), (2**0.5, 2**0.5)),
        ((np.nan, 1.0), (0.0, 1.0)),
    ):
        gap = report(words, jnp.float32(value)) - report(words, jnp.float32(seen))
        assert np.abs(gap).max() <= 1  # a part of a step may round the other way


def test_populations_and_grids_that_do_not_fit():
    spec = Gaussian(2, 1.0, 1e-6)
    with pytest.raises(ValueError, match="L2 norm of at most radius = 1, but row 0"):
        spec.check_population(Population.from_values(np.float32([[0.8, 0.8]])))
    with pytest.raises(ValueError, match="shape"):
        spec.check_population(Population.from_values(np.float32([[0.1, 0.1, 0.1]])))
    with pytest.raises(ValueError, match="the population must have at most"):
        spec.check_population(Population.from_histogram([2**52], np.float32([[0.0, 1.0]])))
    with pytest.raises(ValueError, match="steps must be a power of two"):
        Gaussian(2, 1.0, 1e-6, steps=100)
    for diameter in (1e-320, 1e-200, 1e-21):
        with pytest.raises(ValueError, match="diameter must be at least"):
            Gaussian(3, 1.0, 1e-6, diameter=diameter)
    with pytest.raises(ValueError, match="steps must be at most"):
        Gaussian(2, 15.0, 1e-6, steps=2**15)
    with pytest.raises(ValueError, match="epsilon must be smaller"):
        Gaussian(2, 30.0, 1e-6)
    with pytest.raises(ValueError, match="steps must be larger"):
        Gaussian(2**20, 0.01, 1e-9, steps=64)


@pytest.mark.parametrize("dim", [64, 10**5, 2 * 10**5, 10**6])
def test_the_default_grid_fits_any_dimension(dim):
    """Fine enough for delta, and never finer than what `validate` accepts."""
    spec = Gaussian(dim, epsilon=1.0, delta=1e-6)
    assert spec.exact_delta() <= 1e-6
    assert spec.sigma < 1.07 * Gaussian(3, epsilon=1.0, delta=1e-6).sigma


def test_a_drawn_sum_has_the_spread_of_noise_and_of_rounding(key):
    """Sums 10**12 users, whose values lie a half, or all but nothing, of a step off the grid."""
    params, users = Gaussian(4, 1.0, 1e-6).build(), 10**12
    value = jnp.float32([0.3, 0.1234567, -0.25, 0.5])
    with jax.enable_x64(True):
        drawn = params.law.draw(key, Count.from_float(jnp.array([float(users)])), value[None])
        parts = np.asarray(params._parts(value[None]), np.float64)[0]
        z = np.asarray(normal(jax.random.fold_in(key, 0), (4,)))
    share = parts % FRACTION / FRACTION
    assert share.max() > 0.05
    variance = users * (float(params.noise.variance) + share * (1 - share))
    np.testing.assert_allclose(
        drawn["sum"].numpy() - users * parts / FRACTION, z * np.sqrt(variance), rtol=1e-6
    )
