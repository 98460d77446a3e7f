"""Laplace noise on a grid: rounding, the law of reports and of sums, what it stands for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.population import Population
from jaxdp.random import Count
from jaxdp.randomizers import _levels
from jaxdp.randomizers._laplace import Laplace
from tests import stats
from tests.marks import slow

SAMPLES = 50_000


def reports_of(spec, x, key, number=SAMPLES):
    keys = jax.random.split(key, number)
    return np.asarray(jax.jit(jax.vmap(spec.build().privatize, (0, None)))(keys, jnp.asarray(x)))


@pytest.mark.parametrize("x", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("epsilon", [0.5, 6.0])
def test_law_of_a_report(epsilon, x, key):
    """All reports against the channel, and not that of another input."""
    spec = Laplace(epsilon, steps=16)
    counts = np.bincount(reports_of(spec, np.float32(x), key) + 16, minlength=33)
    row, other = np.array(spec.channel(inputs=[x, -1.0]), np.float64)
    stats.check_multinomial(counts, row)
    stats.must_fail(stats.check_multinomial, counts, other)


def test_vectors_stay_in_the_ball_and_are_rounded_without_bias(rng):
    """All dithers: levels of L1 norm J at most, whose mean is the input to 2**-16 levels."""
    spec = Laplace(1.0, dim=7, bound=2.0)
    for scale in (1.0, 0.3, 0.01):
        x = rng.normal(size=7).astype(np.float32)
        x *= np.float32(scale * 2 / np.abs(x).sum())
        steps = spec._steps(x)
        dithers = np.arange(2**16, dtype=np.int32)
        levels = np.asarray(jax.vmap(steps.levels)(jnp.asarray(dithers)))
        assert np.abs(levels).sum(axis=1).max() <= spec.num_levels
        np.testing.assert_allclose(levels.mean(axis=0) * spec._unit, x, atol=spec._unit * 2**-15)


def test_moments_of_a_vector_report(key):
    """Means, variances, and the covariance that the shared dither makes, with coarse levels."""
    spec, x = Laplace(24.0, dim=3, steps=4), np.float32([0.4, -0.35, 0.2])
    y = np.asarray(spec.build().decode(jnp.asarray(reports_of(spec, x, key))), np.float64)
    mean, covariance = spec.moments(x)
    spread = np.diag(covariance)
    stats.check_mean(y, mean, variance=spread)
    stats.check_variance(y, spread, mean=mean, kurtosis=20.0)
    both = (y[:, 0] - mean[0]) * (y[:, 1] - mean[1])
    stats.check_mean(both, covariance[0, 1], variance=20 * spread[0] * spread[1])
    assert abs(covariance[0, 1]) > 0.05 * spread[0]
    stats.must_fail(stats.check_mean, both, 0.0, variance=20 * spread[0] * spread[1])
    np.testing.assert_allclose(spec.variance([1], x[None]), spread)


def test_log_density_is_the_channels():
    spec = Laplace(2.0, steps=8)
    x = [-0.33, 0.0, 1.0]
    channel = np.log(np.array(spec.channel(inputs=x), np.float64))
    for value, row in zip(x, channel, strict=True):
        np.testing.assert_allclose(spec.log_density(spec.reports(), value), row, rtol=1e-12)


def test_log_density_of_vectors_adds_up_to_one():
    spec = Laplace(2.0, dim=2, steps=3)
    grid = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 2), axis=-1).reshape(-1, 2)
    for value in ([0.3, -0.4], [0.0, 0.0], [0.0, 1.0]):
        density = np.exp(spec.log_density(grid, value))
        np.testing.assert_allclose(density.sum(), 1, rtol=1e-12)
        mean, covariance = spec.moments(value)
        decoded = np.asarray(spec.build().decode(jnp.asarray(grid)), np.float64)
        np.testing.assert_allclose(density @ decoded, mean, atol=1e-5)
        centred = decoded - mean
        found = np.einsum("r,ri,rj->ij", density, centred, centred)
        np.testing.assert_allclose(found, covariance, rtol=1e-5, atol=1e-5)
        others = [spec.log_density(grid, [sign, 0.0]) for sign in (1.0, -1.0)]
        assert np.abs(others[0] - others[1]).max() <= spec.exact_epsilon() + 1e-12


@pytest.mark.parametrize("num_users", [7, slow(10**12)])
@pytest.mark.parametrize("dim", [None, 3])
def test_law_of_a_sum(num_users, dim, key):
    spec, draws = Laplace(2.0, bound=4.0, dim=dim, steps=16), 4000
    # Of so many users the rounding to 2**-16 levels would be seen: all of them lie on that grid.
    fine = 52429 * 0.25 / 2**16  # next to 0.2
    x = np.float32([3.0, 1.1]) if dim is None else np.float32([[1.5, -1.0, fine], [0.0, 0.0, 4.0]])
    counts = np.array([num_users, 5])
    sample = jax.jit(jax.vmap(spec.build().sample_tally, in_axes=(0, None, None)))
    tally = sample(jax.random.split(key, draws), Count.of(counts), jnp.asarray(x))
    with jax.enable_x64(True):
        mean = np.asarray(jax.vmap(spec.build().estimate)(tally))
    variance, truth = spec.variance(counts, x), spec.truth(counts, x)
    stats.check_mean(mean, truth, variance=variance)
    stats.check_variance(mean, variance, mean=truth, kurtosis=4.0)
    stats.must_fail(stats.check_mean, mean + 0.2 * np.sqrt(variance), truth, variance=variance)
    stats.must_fail(stats.check_variance, 1.3 * mean, variance, mean=1.3 * truth, kurtosis=4.0)


def test_entries_of_several_blocks(key):
    """More levels of entries than are counted at a time: each entry keeps its own mean."""
    d, draws = 160, 300
    spec = Laplace(2.0, dim=d)
    assert d * (2 * spec.num_levels + 1) > _levels._CELLS
    x = np.zeros((2, d), np.float32)
    x[0, ::40], x[1, 1::32] = [0.5, -0.25, 0.125, -0.125], 0.2
    counts = np.array([10**6, 10**5])
    trials = jaxdp.simulate(
        spec, Population.from_histogram(counts, x), key, num_trials=draws, method="tally"
    )
    variance, truth = spec.variance(counts, x), spec.truth(counts, x)
    stats.check_mean(trials.estimates, truth, variance=variance)
    stats.check_variance(trials.estimates, variance, mean=truth, kurtosis=4.0)
    moved = np.roll(trials.estimates, 1, axis=1)
    stats.must_fail(stats.check_mean, moved, truth, variance=variance)


def test_more_inputs_than_levels(key):
    """Users of one level are counted together, whatever their inputs."""
    spec = Laplace(2.0, steps=4)
    x = np.linspace(-1, 1, 41).astype(np.float32)
    population = Population.from_histogram(np.full(41, 3), x)
    trials = jaxdp.simulate(spec, population, key, num_trials=2000, method="tally")
    variance = spec.variance(np.full(41, 3), x)
    stats.check_mean(trials.estimates, x.mean(dtype=np.float64), variance=variance)
    stats.check_variance(trials.estimates, variance, mean=x.mean(dtype=np.float64), kurtosis=4.0)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 12.0, 30.0])
def test_variance_is_never_above_that_of_laplace_noise(epsilon):
    """Up to the rounding of inputs, a quarter of a level squared; at 0 it is well below."""
    spec = Laplace(epsilon, bound=3.0)
    laplace, rounding = 2 * spec.scale**2, spec._unit**2 / 4
    assert spec.worst_case_variance(1) <= laplace + rounding
    share = float(spec.variance([1], [0.0])) / laplace
    assert abs(share - (1 - np.exp(-epsilon / 2) / 2)) < 0.02
    assert 0.99 * epsilon < spec.exact_epsilon() <= epsilon


def test_worst_case_is_attained():
    spec = Laplace(1.0, bound=2.0, steps=8)
    x = np.linspace(-2, 2, 100_001)
    spread = spec.moments(x)[1]
    worst = spec.worst_case_variance(1)
    assert spread.max() <= worst * (1 + 1e-12)
    assert spread.max() > worst * (1 - 1e-6)


@pytest.mark.parametrize("dim", [None, 2])
def test_values_out_of_range_are_scaled_into_it(dim):
    words = jnp.asarray(np.random.default_rng(0).integers(2**32, size=(64, 5), dtype=np.uint32))
    params = Laplace(1.0, bound=2.0, dim=dim).build()
    report = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    pairs = (
        [(9.0, 2.0), (-np.inf, -2.0), (np.inf, 2.0), (np.nan, 0.0)]
        if dim is None
        else [
            ((3.0, -1.0), (1.5, -0.5)),
            ((np.nan, 1.0), (0.0, 1.0)),
            ((np.inf, 0.0), (2.0, 0.0)),
            ((3e38, -3e38), (1.0, -1.0)),
        ]
    )
    for outside, edge in pairs:
        np.testing.assert_array_equal(
            report(words, jnp.float32(outside)), report(words, jnp.float32(edge))
        )


def test_populations_that_do_not_fit():
    with pytest.raises(ValueError, match="L1 norm of at most bound = 1, but row 1"):
        Laplace(1.0, dim=2).check_population(
            Population.from_values(np.float32([[0.5, 0.5], [-0.6, 0.6]]))
        )
    with pytest.raises(ValueError, match=r"in \[-1, 1\]"):
        Laplace(1.0).check_population(Population.from_values([1.5]))
    with pytest.raises(ValueError, match="inputs must have shape"):
        Laplace(1.0, dim=2).truth([1, 1], [0.0, 1.0])
    with pytest.raises(ValueError, match="inputs must give"):
        Laplace(1.0).truth([1, 1])
