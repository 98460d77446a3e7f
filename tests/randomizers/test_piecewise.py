"""The piecewise mechanism: its window, the law of its reports, and the paper's variance."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.random import Count
from jaxdp.randomizers import BinaryResponse
from jaxdp.randomizers._exact import exp_lower
from jaxdp.randomizers._piecewise import Piecewise
from tests import stats

EPSILONS = [1e-6, 0.01, 1.0, 1 / 3, 5.0, 20.0, 40.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_masses_are_private_and_spend_epsilon(epsilon):
    spec = Piecewise(epsilon)
    window, masses = spec.window(), spec.window().masses()
    assert sum(masses) == 2**64
    assert len(masses) == window.cells == window.near + 2 * spec.num_levels
    assert max(masses) <= exp_lower(epsilon) * min(masses)
    assert set(masses[: window.near]) == {window.high}
    assert (1 - 2e-2) * epsilon < spec.exact_epsilon() <= epsilon
    if epsilon <= 20:
        assert spec.exact_epsilon() > (1 - 1e-8) * epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("x", [-2.0, 0.3, 2.0])
def test_channel_has_the_moments_that_are_claimed(epsilon, x):
    spec = Piecewise(epsilon, bound=2.0)
    (row, _) = np.array(spec.channel(inputs=[x, 0.0]), np.float64)
    reports = spec.reports() * spec._unit
    mean, variance = spec.moments(x)
    np.testing.assert_allclose(row @ reports, mean, atol=2**-16 * spec._level)
    np.testing.assert_allclose(row @ (reports - x) ** 2, variance, rtol=1e-6)
    np.testing.assert_allclose(np.exp(spec.log_density(spec.reports(), x)), row, rtol=1e-12)


def test_variance_of_the_paper():
    """Within 2 % at 128 levels; nearer with more."""
    for epsilon in (0.5, 1.0, 4.0):
        s = math.exp(epsilon / 2)
        x = 0.7
        paper = x**2 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
        np.testing.assert_allclose(Piecewise(epsilon).moments(x)[1], paper, rtol=2e-2)
        np.testing.assert_allclose(Piecewise(epsilon, steps=2**13).moments(x)[1], paper, rtol=3e-4)


def test_crossing_with_the_one_bit_response():
    for epsilon, better in ((1.27, False), (1.31, True)):
        here = Piecewise(epsilon).worst_case_variance(1)
        assert (here < BinaryResponse(epsilon).worst_case_variance(1)) == better


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 14.0])
def test_worst_case_is_attained(epsilon):
    spec = Piecewise(epsilon, bound=3.0, steps=16)
    spread = spec.moments(np.linspace(-3, 3, 100_001))[1]
    worst = spec.worst_case_variance(1)
    assert spread.max() <= worst * (1 + 1e-12)
    assert spread.max() > worst * (1 - 1e-6)


@pytest.mark.parametrize("x", [-1.0, 0.26, 1.0])
def test_law_of_a_report(x, key):
    spec, draws = Piecewise(2.0, steps=16), 50_000
    keys = jax.random.split(key, draws)
    y = np.asarray(jax.jit(jax.vmap(spec.build().privatize, (0, None)))(keys, jnp.float32(x)))
    cells = spec.window().cells
    counts = np.bincount((y + cells - 1) // 2, minlength=cells)
    row, other = np.array(spec.channel(inputs=[x, x * 0.8]), np.float64)
    stats.check_multinomial(counts, row)
    stats.must_fail(stats.check_multinomial, counts, other)


@pytest.mark.parametrize("num_users", [7, 10**12])
def test_law_of_a_sum(num_users, key):
    spec, draws = Piecewise(2.0, bound=4.0, steps=16), 4000
    x, counts = np.float32([3.0, 1.1]), np.array([num_users, 5])
    sample = jax.jit(jax.vmap(spec.build().sample_tally, in_axes=(0, None, None)))
    tally = sample(jax.random.split(key, draws), Count.of(counts), jnp.asarray(x))
    with jax.enable_x64(True):
        mean = np.asarray(jax.vmap(spec.build().estimate)(tally))
    variance, truth = spec.variance(counts, x), spec.truth(counts, x)
    stats.check_mean(mean, truth, variance=variance)
    stats.check_variance(mean, variance, mean=truth, kurtosis=4.0)
    stats.must_fail(stats.check_mean, mean + 0.2 * np.sqrt(variance), truth, variance=variance)
    stats.must_fail(stats.check_variance, 1.3 * mean, variance, mean=1.3 * truth, kurtosis=4.0)


def test_values_out_of_range_inside_jit():
    params = Piecewise(1.0, bound=2.0).build()
    words = jnp.asarray(np.random.default_rng(0).integers(2**32, size=(64, 3), dtype=np.uint32))
    report = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    for outside, edge in ((9.0, 2.0), (-np.inf, -2.0), (np.inf, 2.0), (np.nan, 0.0)):
        np.testing.assert_array_equal(
            report(words, jnp.float32(outside)), report(words, jnp.float32(edge))
        )


@pytest.mark.parametrize("steps", [16, 21, 2**13])
def test_squares_are_whole_in_two_halves(steps):
    spec = Piecewise(14.0, steps=steps)
    reports = spec.reports()[[0, -1, 5, 7, 0]]
    tally = spec.build().tally(jnp.asarray(reports), jnp.array([True, True, True, False, True]))
    upper, lower = map(int, tally["squares"].numpy())
    kept = reports[[0, 1, 2, 4]].astype(int)
    base = 2**spec.built.half_bits
    assert upper * base + lower == np.sum(kept**2)
    assert max(lower, upper) < 4 * base
    assert np.abs(spec.reports()).max() < base == spec.built.largest_added
    assert int(tally["sum"]) == np.sum(kept)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("x", [[0.0, 0.1], [-2.0, 1.9], [0.2, 2.0]])
def test_the_squares_tell_the_variance(epsilon, x):
    """From the mean tally, to within the largest variance of rounding to a level."""
    spec, n = Piecewise(epsilon, bound=2.0, steps=64), 10**6
    reports, base = spec.reports().astype(float), 2**spec.built.half_bits
    row = np.array(spec.channel(inputs=x), np.float64).mean(axis=0)
    upper, lower = (Count.of(round(n * float(row @ part))) for part in np.divmod(reports**2, base))
    squares = jax.tree.map(lambda *x: jnp.stack(x), upper, lower)
    total = Count.of(round(n * float(row @ reports)))
    outcome = {"sum": total, "users": Count.of(n), "squares": squares}
    variance = float(spec.variance([n // 2, n // 2], x))
    excess = spec.reported_variance(outcome, n) - variance
    assert -1e-6 * variance <= excess <= (spec._level / 2) ** 2 / n + 1e-6 * variance


def test_a_variance_is_that_of_some_users():
    """However far noise takes the squares."""
    spec, n = Piecewise(1.0), 100
    least, most = (float(spec.variance([n], [x])) for x in (0.0, 1.0))
    for upper in (0, 10**9):
        squares = Count.of(np.array([upper, 0]))
        outcome = {"sum": Count.of(0), "users": Count.of(n), "squares": squares}
        found = float(spec.reported_variance(outcome, n))
        assert found == pytest.approx(most if upper else least, rel=1e-4)
