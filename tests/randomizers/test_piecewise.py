"""The piecewise mechanism: its density, its rounding, and its sampler piece by piece."""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.randomizers import BinaryResponse
from jaxdp.randomizers._exact import exp_lower
from jaxdp.randomizers._piecewise import Piecewise
from tests import stats

EPSILONS = [1e-6, 0.01, 1.0, 1 / 3, 5.0, 20.0, 40.0]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)


def near_piece(spec, x: float) -> tuple[float, float]:
    c = float(spec.reach)
    middle, half = (c + 1) / 2 * x, (c - 1) / 2 * spec.bound
    return middle - half, middle + half


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("x", [-2.0, 0.3, 2.0])
def test_density_has_the_moments_that_are_claimed(epsilon, x):
    """Mass, mean and second moment, integrated piece by piece (exact for polynomials)."""
    spec = Piecewise(epsilon, bound=2.0)
    end, near = float(spec.reach) * 2, near_piece(spec, x)
    edges = np.array([-end, *near, end])
    assert np.all(np.diff(edges) > -1e-9 * end)
    moments = np.zeros(3)
    for low, high in itertools.pairwise(edges):
        y = low + (high - low) * (1 + NODES) / 2
        inside = np.exp(spec.log_density([(low + high) / 2], x)) if high - low > 1e-6 else 0.0
        moments += [np.sum(inside * WEIGHTS * y**k) * (high - low) / 2 for k in range(3)]
    mean, variance = spec.moments(x)
    expected = [1.0, float(mean), float(variance + mean**2)]
    np.testing.assert_allclose(moments, expected, rtol=1e-9, atol=1e-9 * end)
    assert mean == x
    assert spec.log_density([end * 1.001], x) == -np.inf


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_realised_ratio_is_the_largest_allowed(epsilon):
    spec = Piecewise(epsilon)
    p, q = spec.probabilities()
    assert p + q == 1
    assert (p / q) ** 2 <= exp_lower(epsilon)
    more = p + Fraction(1, 2**32)
    assert more == 1 or (more / (1 - more)) ** 2 > exp_lower(epsilon)
    assert (1 - 4e-3) * epsilon < spec.exact_epsilon() <= epsilon
    c = spec.reach
    assert p / (c - 1) / (q / (c + 1)) == (p / q) ** 2  # the densities, exactly
    assert p * (c + 1) - q * (c - 1) == 2  # no bias, exactly


def test_variance_of_the_paper():
    for epsilon in (0.5, 1.0, 4.0):
        s = math.exp(epsilon / 2)
        x = 0.7
        paper = x**2 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
        np.testing.assert_allclose(Piecewise(epsilon).moments(x)[1], paper, rtol=1e-7)


def test_crossing_with_the_one_bit_response():
    for epsilon, better in ((1.28, False), (1.30, True)):
        here = Piecewise(epsilon).worst_case_variance(1)
        assert (here < BinaryResponse(epsilon).worst_case_variance(1)) == better


def test_worst_case_is_at_the_ends(rng):
    spec = Piecewise(2.0, bound=3.0)
    np.testing.assert_allclose(spec.variance([4, 6], [3.0, -3.0]), spec.worst_case_variance(10))
    for x in rng.uniform(-3, 3, size=20):
        assert spec.variance([10], [x]) < spec.worst_case_variance(10)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("x", [-1.0, 0.25, 1.0])
def test_sampler_by_piece(epsilon, x):
    """The first word picks the piece at an integer; the second one sweeps all of it, evenly."""
    spec = Piecewise(epsilon)
    params = spec.build()
    report = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    low, high = near_piece(spec, x)
    sweep = np.append(np.arange(0, 2**32, 2**20, dtype=np.uint64), 2**32 - 1).astype(np.uint32)
    end, slack = float(spec.reach), 1e-6 * float(spec.reach)
    first = int(params.near)
    for word, near in ((0, True), (first - 1, True), (first, False), (2**32 - 1, False)):
        words = np.stack([np.full_like(sweep, word), sweep], axis=1)
        y = np.asarray(report(jnp.asarray(words), jnp.float32(x)), np.float64)
        assert np.all(np.abs(y) <= end + slack)
        share = np.arange(len(sweep)) / (len(sweep) - 1)
        if near:
            np.testing.assert_allclose(y, low + share * (high - low), atol=2 * slack)
        else:
            length = end + low  # of the left part of the rest
            place = share * (end + 1)
            expected = np.where(place < length, place - end, place - length + high)
            np.testing.assert_allclose(y, expected, atol=2 * slack)


def test_law_of_a_report(key):
    spec, x, draws = Piecewise(1.0, bound=2.0), 0.5, 50_000
    keys = jax.random.split(key, draws)
    y = jax.jit(jax.vmap(spec.build().privatize, in_axes=(0, None)))(keys, jnp.float32(x))
    low, high = near_piece(spec, x)
    p, q = map(float, spec.probabilities())
    end, bound = float(spec.reach) * 2, 2.0
    outside, inside = q / (end + bound), p / (high - low)

    def cdf(t):
        near = np.clip(t, low, high) - low
        return inside * near + outside * (np.clip(t, -end, end) + end - near)

    stats.check_cdf(y, cdf)
    stats.must_fail(stats.check_cdf, np.asarray(y) * 1.05 + 0.1, cdf)


def test_values_out_of_range_inside_jit():
    params = Piecewise(1.0, bound=2.0).build()
    words = jnp.asarray(np.random.default_rng(0).integers(2**32, size=(64, 2), dtype=np.uint32))
    report = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    for outside, edge in ((9.0, 2.0), (-np.inf, -2.0), (np.inf, 2.0), (np.nan, 0.0)):
        np.testing.assert_array_equal(
            report(words, jnp.float32(outside)), report(words, jnp.float32(edge))
        )
