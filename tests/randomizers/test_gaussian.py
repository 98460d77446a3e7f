"""Gaussian noise: calibration to the local sensitivity, the sampler and the sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as distributions

import jaxdp
from jaxdp.accounting import gaussian_delta
from jaxdp.random import Count
from jaxdp.randomizers._gaussian import Gaussian
from tests import stats


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 0.1])
def test_analytic_sigma_is_the_least(epsilon, delta):
    """Private for inputs 2 r apart, and not with one float32 step less noise."""
    spec = Gaussian(2, epsilon, delta, radius=3.0)
    assert (1 - 1e-5) * delta < spec.exact_delta() <= delta
    assert spec.exact_epsilon() == epsilon
    less = float(np.nextafter(np.float32(spec.sigma), np.float32(0)))
    assert gaussian_delta(epsilon, 6.0, less) > delta


def test_printed_sigma_is_not_private():
    spec = Gaussian(3, 1.0, 1e-6, calibration="as_printed")
    assert round(spec.sigma, 3) == 5.387
    assert round(spec.exact_delta(), 5) == 6.5e-4
    assert round(Gaussian(3, 1.0, 1e-6).sigma, 3) == 8.449
    assert gaussian_delta(1.0, 1.0, spec.sigma) < 1e-6  # it suits the sensitivity r


def test_delta_is_that_of_the_density():
    """The mass by which the law of x exceeds e**epsilon times that of -x, on their line."""
    spec, x = Gaussian(1, 1.0, 1e-2), np.array([1.0])
    y = np.linspace(-60, 60, 400_001)[:, None]
    excess = np.exp(spec.log_density(y, x)) - np.exp(1.0 + spec.log_density(y, -x))
    found = np.maximum(excess, 0).sum() * (y[1, 0] - y[0, 0])
    np.testing.assert_allclose(found, spec.exact_delta(), rtol=1e-6)


def test_law_of_a_report(key):
    spec, x, draws = Gaussian(3, 2.0, 1e-4, radius=5.0), np.float32([3.0, -4.0, 0.0]), 50_000
    keys = jax.random.split(key, draws)
    y = np.asarray(jax.jit(jax.vmap(spec.build().privatize, (0, None)))(keys, jnp.asarray(x)))
    z = (y - x) / spec.sigma
    stats.check_cdf(z, distributions.norm.cdf)
    stats.check_mean(z[:, :2] * z[:, 1:], 0.0, variance=1.0, cells=2)
    stats.check_variance(z, 1.0, mean=0.0, kurtosis=3.0, cells=2)
    stats.must_fail(stats.check_cdf, z + 0.05, distributions.norm.cdf)
    stats.must_fail(stats.check_variance, 1.1 * z, 1.0, mean=0.0, kurtosis=3.0)


def test_law_of_a_sum_of_a_trillion_users(key):
    spec, draws = Gaussian(2, 1.0, 1e-6), 10_000
    counts, x = np.array([10**12, 3 * 10**11]), np.float32([[0.6, 0.8], [-1.0, 0.0]])
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
    report = spec.build().privatize(key, np.zeros(10**5, np.float32))
    assert np.all(np.isfinite(report))
    stats.check_cdf(np.asarray(report) / spec.sigma, distributions.norm.cdf)


def test_values_out_of_the_ball_inside_jit():
    words = jax.random.bits(jax.random.key(0), (2,), jnp.uint32)
    params = Gaussian(2, 1.0, 1e-6, radius=2.0).build()
    report = jax.jit(params.from_bits)
    at = report(words, jnp.zeros(2))
    for value, seen in (
        ((3.0, -4.0), (1.2, -1.6)),
        ((3e38, 0.0), (2.0, 0.0)),
        ((np.inf, np.inf), (2**0.5, 2**0.5)),
        ((np.nan, 1.0), (0.0, 1.0)),
        ((0.3, 0.4), (0.3, 0.4)),
    ):
        np.testing.assert_allclose(report(words, jnp.float32(value)) - at, seen, atol=1e-5)


def test_populations_that_do_not_fit():
    spec = Gaussian(2, 1.0, 1e-6)
    with pytest.raises(ValueError, match="L2 norm of at most radius = 1, but row 0"):
        spec.check_population(jaxdp.Population.from_values(np.float32([[0.8, 0.8]])))
    with pytest.raises(ValueError, match="shape"):
        spec.check_population(jaxdp.Population.from_values(np.float32([[0.1, 0.1, 0.1]])))
    with pytest.raises(ValueError, match=r"2\*\*42 users"):
        spec.check_population(jaxdp.Population.from_histogram([2**43], np.float32([[0.0, 1.0]])))
