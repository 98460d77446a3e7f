"""Laplace noise: the sampler word by word, the law of sums, rounding of the scale."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as distributions

import jaxdp
from jaxdp.random import Count
from jaxdp.randomizers._laplace import Laplace
from tests import stats
from tests.marks import slow

SAMPLES = 50_000


def noise_of(words: np.ndarray) -> np.ndarray:
    """The noise that each word makes, in units of the scale."""
    spec = Laplace(2.0)
    report = jax.jit(jax.vmap(spec.build().from_bits, in_axes=(0, None)))
    words = jnp.asarray(words.astype(np.uint32))[:, None]
    return np.asarray(report(words, jnp.float32(0)), np.float64) / spec.scale


def test_every_noise_is_finite_and_symmetric():
    ends = np.array([0, 1, 2, 2**23, 2**24 + 1, 2**31 - 2, 2**31 - 1], np.uint64)
    up, down = noise_of(ends), noise_of(ends + 2**31)
    np.testing.assert_array_equal(up, -down)
    np.testing.assert_allclose(up[:2], [32 * np.log(2), 32 * np.log(2) - np.log(3)], rtol=1e-6)
    assert np.all(np.isfinite(up))
    assert up[-1] >= 0


def test_moments_over_a_grid_of_words():
    """All words at a stride, shifted to its middle: quadrature of the moments of |noise|."""
    words = np.arange(2**10, 2**31, 2**11, dtype=np.uint64)
    noise = noise_of(words)
    np.testing.assert_allclose([noise.mean(), (noise**2).mean()], [1, 2], rtol=2e-5)


@pytest.mark.parametrize("dim", [None, 3])
def test_law_of_a_report(dim, key):
    spec = Laplace(0.5, bound=2.0, dim=dim)
    x = np.float32(-1.5) if dim is None else np.float32([1.5, 0.0, -0.5])
    keys = jax.random.split(key, SAMPLES)
    y = np.asarray(jax.jit(jax.vmap(spec.build().privatize, (0, None)))(keys, jnp.asarray(x)))
    z = (y - x).reshape(SAMPLES, -1) / spec.scale
    for j in range(z.shape[1]):
        stats.check_cdf(z[:, j], distributions.laplace.cdf, cells=z.shape[1])
    stats.must_fail(stats.check_cdf, z[:, 0] + 0.06, distributions.laplace.cdf)
    pairs = z[:, :-1] * z[:, 1:]
    if pairs.size:
        stats.check_mean(pairs, 0.0, variance=4.0)


@pytest.mark.parametrize("num_users", [slow(1), 7, slow(10**12)])
def test_law_of_a_sum(num_users, key):
    """One user: Laplace. Many: normal, of variance 2 b**2 n; seven: by the variance."""
    spec, draws = Laplace(1.0, bound=4.0), 20_000
    sample = jax.jit(jax.vmap(spec.build().sample_tally, in_axes=(0, None, None)))
    keys = jax.random.split(key, draws)
    tally = sample(keys, Count.of([num_users, 0]), jnp.float32([3.0, 1.0]))
    with jax.enable_x64(True):
        mean = np.asarray(jax.vmap(spec.build().estimate)(tally))
    z = (mean - 3.0) / np.sqrt(2 / num_users) / spec.scale
    law = distributions.laplace(scale=0.5**0.5) if num_users == 1 else distributions.norm
    if num_users != 7:
        stats.check_cdf(z, law.cdf)
        stats.must_fail(stats.check_cdf, z + 0.1, law.cdf)
    stats.check_mean(z, 0.0, variance=1.0)
    stats.check_variance(z, 1.0, mean=0.0, kurtosis=3 + 3 / num_users)
    stats.must_fail(stats.check_variance, 1.3 * z, 1.0, mean=0.0, kurtosis=6.0)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 1 / 3, 19.7, 1e4])
@pytest.mark.parametrize("bound", [1.0, 0.1, 3e19])
def test_scale_is_rounded_up(epsilon, bound):
    spec = Laplace(epsilon, bound)
    need = 2 * Fraction(spec.bound) / Fraction(epsilon)
    below = float(np.nextafter(np.float32(spec.scale), np.float32(0)))
    assert Fraction(below) < need <= Fraction(spec.scale)
    assert 0.9999998 * epsilon < spec.exact_epsilon() <= epsilon
    assert Fraction(spec.exact_epsilon()) >= 2 * Fraction(spec.bound) / Fraction(spec.scale)


def test_values_out_of_range_inside_jit():
    inside = jax.jit(Laplace(1.0, bound=2.0).build()._inside)
    for value, seen in ((9.0, 2.0), (-np.inf, -2.0), (np.inf, 2.0), (np.nan, 0.0), (1.5, 1.5)):
        assert inside(jnp.float32(value)) == seen
    vectors = jax.jit(Laplace(1.0, bound=2.0, dim=2).build()._inside)
    for value, seen in (
        ((3.0, -1.0), (1.5, -0.5)),
        ((np.nan, 1.0), (0.0, 1.0)),
        ((np.inf, 0.0), (2.0, 0.0)),
        ((3e38, -3e38), (1.0, -1.0)),
        ((1.0, -1.0), (1.0, -1.0)),
    ):
        np.testing.assert_allclose(vectors(jnp.float32(value)), seen, rtol=1e-6)


def test_populations_that_do_not_fit():
    with pytest.raises(ValueError, match="L1 norm of at most bound = 1, but row 1"):
        Laplace(1.0, dim=2).check_population(
            jaxdp.Population.from_values(np.float32([[0.5, 0.5], [-0.6, 0.6]]))
        )
    with pytest.raises(ValueError, match=r"in \[-1, 1\]"):
        Laplace(1.0).check_population(jaxdp.Population.from_values([1.5]))
    with pytest.raises(ValueError, match=r"2\*\*42 users"):
        Laplace(1.0).check_population(jaxdp.Population.from_histogram([2**42 + 1], [0.5]))
    with pytest.raises(ValueError, match="inputs must have shape"):
        Laplace(1.0, dim=2).truth([1, 1], [0.0, 1.0])
    with pytest.raises(ValueError, match="inputs must give"):
        Laplace(1.0).truth([1, 1])
