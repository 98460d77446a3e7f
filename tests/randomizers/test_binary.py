"""One-bit response: thresholds exactly, over the whole range of float32 inputs."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.random import Count
from jaxdp.randomizers import BinaryResponse
from jaxdp.randomizers._exact import exp_lower
from tests import stats

SPECS = [
    BinaryResponse(1.0),
    BinaryResponse(0.1, bound=3.0),
    BinaryResponse(1e-6),
    BinaryResponse(17.0, bound=0.7),
    BinaryResponse(2.0, bound=1e20),
    BinaryResponse(2.0, bound=1e-25),
]
each_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.epsilon:g}-{s.bound:g}")


def inputs_of(spec, rng) -> np.ndarray:
    """Sorted float32 inputs of all magnitudes within the range, with both ends and zero."""
    uniform = rng.uniform(-1, 1, size=3000)
    tiny = rng.choice([-1.0, 1.0], size=3000) * 2.0 ** -rng.uniform(0, 40, size=3000)
    ends = [-1.0, 1.0, 0.0, np.nextafter(np.float32(1), np.float32(0))]
    x = np.float32(spec.bound) * np.concatenate([uniform, tiny, ends]).astype(np.float32)
    return np.unique(x.astype(np.float32))


def thresholds(spec, x) -> np.ndarray:
    """The number of words that mean +B, as `from_bits` decides it: found by bisection."""
    report = jax.jit(jax.vmap(spec.build().from_bits))
    low, high = np.zeros(x.shape, np.int64), np.full(x.shape, 2**32, np.int64)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        plus = np.asarray(report(jnp.asarray(middle.astype(np.uint32))[:, None], jnp.asarray(x)))
        low, high = np.where(plus == 1, middle, low), np.where(plus == 1, high, middle)
    return high  # words 0 .. high - 1 mean +B


@each_spec
def test_threshold_of_every_input(spec, rng):
    x = inputs_of(spec, rng)
    threshold = thresholds(spec, x)
    shift = threshold - 2**31
    assert np.all(np.diff(shift) >= 0)
    np.testing.assert_array_equal(shift, -thresholds(spec, -x) + 2**31)
    assert np.all(shift[x == 0] == 0)
    assert np.abs(shift).max() <= int(spec.build().limit)
    channel = spec.channel(inputs=x)
    assert [row[1] for row in channel] == [Fraction(int(t), 2**32) for t in threshold]
    assert all(row[0] + row[1] == 1 for row in channel)


@each_spec
def test_realised_input_is_within_the_documented_rounding(spec, rng):
    """|x - realised x| <= 2**-24 |x| + bound 2**-31 c; none where scale x is a whole float32."""
    x = inputs_of(spec, rng)
    c = (math.exp(spec.epsilon) + 1) / (math.exp(spec.epsilon) - 1)
    realised = (spec._shift(x, 32) / 2.0**31) * spec.magnitude
    allowed = 2.0**-24 * np.abs(x.astype(np.float64)) + spec.bound * 2.0**-31 * c
    assert np.all(np.abs(realised - x) <= allowed)
    scale = Fraction(float(spec.build().scale))
    for value in x.astype(np.float64).tolist():
        shift = Fraction(value) * scale
        if shift.denominator == 1 and float(np.float32(float(shift))) == shift:
            assert spec._shift([value], 32)[0] == shift


@each_spec
def test_clamped_inputs_have_the_channel_of_the_range(spec):
    beyond = np.float32([np.inf, 2 * spec.bound, np.nextafter(np.float32(spec.bound), np.inf)])
    edge = spec._shift([spec.bound], 32)[0]
    np.testing.assert_array_equal(thresholds(spec, beyond) - 2**31, edge)
    np.testing.assert_array_equal(thresholds(spec, -beyond) - 2**31, -edge)
    np.testing.assert_array_equal(thresholds(spec, np.float32([np.nan])), 2**31)
    everything = np.float32([*beyond, *-beyond, 3e38, -3e38, np.nan])
    plus = [int(row[1] * 2**32) for row in spec.channel(inputs=everything)]
    np.testing.assert_array_equal(plus, thresholds(spec, everything))
    for wrong in (np.inf, -np.inf, np.nan, 1.1 * spec.bound):
        with pytest.raises(ValueError, match="value must be"):
            spec.moments(wrong)


@each_spec
def test_whole_range_is_used_and_private(spec):
    """The extreme thresholds keep the ratio, and with a few float32 steps more they would not."""
    limit, half = int(spec.build().limit), 2**31
    assert limit == spec._shift([spec.bound], 32)[0]
    assert limit.bit_length() <= 24 or limit % 2 ** (limit.bit_length() - 24) == 0
    assert Fraction(half + limit, half - limit) <= exp_lower(spec.epsilon)
    unit = 2 * 2 ** max(limit.bit_length() - 24, 0)
    assert Fraction(half + limit + unit, half - limit - unit) > exp_lower(spec.epsilon)
    assert spec.exact_epsilon() <= spec.epsilon


def test_powers_of_two_are_exact():
    """At epsilon = 1 the scale is a multiple of 64, so its halves are whole float32 numbers."""
    spec = BinaryResponse(1.0)
    powers = 2.0 ** -np.arange(6)
    x = np.concatenate([-powers, [0.0], powers])
    counts = np.arange(1, 14)
    realised = [2 * row[1] - 1 for row in spec.channel(inputs=x)]
    magnitude = Fraction(2**31) / Fraction(float(spec.build().scale))
    assert [r * magnitude for r in realised] == [Fraction(v) for v in x]
    variance = np.sum(counts * (spec.magnitude**2 - x**2)) / counts.sum() ** 2
    np.testing.assert_allclose(spec.variance(counts, x), variance, rtol=1e-13)


def test_edges_of_epsilon_and_bound():
    assert BinaryResponse(math.log(2**25 - 1)).exact_epsilon() > 17.3
    for epsilon in (17.33, 1e6, 1e300):
        with pytest.raises(ValueError, match=r"at most 17\.3287"):
            BinaryResponse(epsilon)
    assert BinaryResponse(1e-6).exact_epsilon() > 0.998e-6
    with pytest.raises(ValueError, match=r"at least about 9\.54e-07"):
        BinaryResponse(9e-7)
    for bound in (1e-28, 1e29):
        assert math.isfinite(BinaryResponse(1.0, bound).magnitude)
    for bound in (1e-30, 1e30):
        with pytest.raises(ValueError, match=r"bound.*1e-28 and 1e29"):
            BinaryResponse(1.0, bound)


def test_docstring_numbers():
    spec = BinaryResponse(1.0)
    c = (math.e + 1) / (math.e - 1)
    assert round(spec.worst_case_variance(num_users=1), 3) == 4.683
    np.testing.assert_allclose(spec.magnitude, c, rtol=1e-6)
    np.testing.assert_allclose(BinaryResponse(1.0, 50.0).magnitude, 50 * c, rtol=1e-6)


def test_worst_case_is_at_zero(rng):
    spec = BinaryResponse(1.0, bound=2.0)
    np.testing.assert_allclose(spec.variance([10], [0.0]), spec.worst_case_variance(10), rtol=1e-12)
    for _ in range(20):
        x = rng.uniform(-2, 2, size=4)
        assert spec.variance([4, 3, 2, 1], x) <= spec.worst_case_variance(10) * (1 + 1e-7)


@pytest.mark.slow  # by default at a trillion: `tests/engine/test_large_totals.py`
def test_sampled_tally_at_a_trillion_users(key):
    spec = BinaryResponse(1.0)
    x, counts = np.float32([-1.0, 0.25, 0.75]), np.array([10**12, 10**11, 7])
    plus = np.array([float(row[1]) for row in spec.channel(inputs=x)])
    mean, variance = np.sum(counts * plus), np.sum(counts * plus * (1 - plus))
    sample = jax.jit(jax.vmap(spec.build().sample_tally, in_axes=(0, None, None)))
    tally = sample(jax.random.split(key, 4000), Count.of(counts), jnp.asarray(x))
    assert np.all(tally["users"].numpy() == counts.sum())
    ones = (tally["sum"].numpy() + counts.sum()) // 2  # reports are -1 or 1
    centred = (ones - mean) / np.sqrt(variance)
    stats.check_mean(centred, 0.0, variance=1.0)
    stats.check_variance(centred, 1.0, mean=0.0, kurtosis=3.1)
    stats.must_fail(stats.check_mean, centred + 0.25, 0.0, variance=1.0)
    stats.must_fail(stats.check_variance, 1.5 * centred, 1.0, mean=0.0, kurtosis=3.1)


def test_inputs_must_fit_the_counts():
    with pytest.raises(ValueError, match="inputs must give"):
        BinaryResponse(1.0).variance([1, 2])
    with pytest.raises(ValueError, match="inputs must have shape"):
        BinaryResponse(1.0).truth([1, 2], [0.5])
