"""Projective geometry response: difference sets, exact quotients, golden numbers, the order."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.engine import Draft
from jaxdp.random import Count
from jaxdp.randomizers import _projective_geometry_points as points
from jaxdp.randomizers._projective_geometry import ProjectiveGeometryResponse, divide, divisor
from tests import stats


@pytest.mark.parametrize("order", [2, 3, 4, 5, 8, 9, 16, 27, 31])
@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_shifts_of_the_difference_set_are_the_hyperplanes(order, dimension):
    """Any two shifts share (Q**(t-2) - 1) / (Q - 1) points: a symmetric design."""
    size = points.num_points(order, dimension)
    inside = np.zeros(size)
    inside[points.difference_set(order, dimension)] = 1
    shared = np.rint(np.fft.irfft(np.abs(np.fft.rfft(inside)) ** 2, size)).astype(int)
    assert shared[0] == inside.sum() == points.num_points(order, dimension - 1)
    assert np.all(shared[1:] == points.num_points(order, dimension - 2))


def test_prime_powers_and_factors():
    assert points.prime_powers(32) == [
        2,
        3,
        4,
        5,
        7,
        8,
        9,
        11,
        13,
        16,
        17,
        19,
        23,
        25,
        27,
        29,
        31,
        32,
    ]
    assert points.prime_factors(2**3 * 3 * 49) == [2, 3, 7]
    assert points.prime_factors(8191) == [8191]


@pytest.mark.parametrize(
    ("value", "quotients"),
    [
        (2**40 - 12345, 2**24),
        (3, 100),
        (2**62 + 1, 3),
        (2**33 - 1, 7),
        (2**28 + 7, 2**20),
        (2**57, 127),
    ],
)
def test_quotients_are_exact(value, quotients, rng):
    """Random dividends, and both sides of the borders of the first and the last quotients."""
    last = quotients - 1
    some = [int(x) for x in rng.integers(0, quotients * value, 300, dtype=np.uint64)]
    edges = [q * value + r for q in (0, 1, last // 2, last) for r in (0, 1, value - 1)]
    dividends = some + edges
    high = np.array([u >> 32 for u in dividends], np.uint32)
    low = np.array([u & 0xFFFFFFFF for u in dividends], np.uint32)
    by = jnp.asarray(divisor(value, quotients))
    found = np.asarray(jax.vmap(divide, (0, 0, None))(high, low, by))
    np.testing.assert_array_equal(found, [u // value for u in dividends])


@pytest.mark.parametrize(
    ("num_values", "epsilon"), [(128, 1.0), (6, 17.0), (1000, 1e-5), (20_000, 2.0)]
)
def test_the_first_word_decides_where_no_border_is_near(num_values, epsilon, rng):
    """Random words, and those at and around the borders of all that a pair of words can mean."""
    spec = ProjectiveGeometryResponse(num_values, epsilon)
    params = spec.build()
    high, low = spec._weights(32)
    beyond = low * spec.num_points
    borders = [low * int(i) for i in rng.integers(0, spec.num_points, 500)]
    inside = len(params.hyperplane)
    borders += [beyond + (high - low) * int(i) for i in rng.integers(0, inside, 500)]
    near = [b + x for b in borders for x in (-(2**33), -(2**32), -1, 0, 2**32, 2**33)]
    numbers = [min(max(x, 0), 2**64 - 1) for x in near]
    numbers += [int(x) for x in rng.integers(0, 2**64, 50_000, dtype=np.uint64)]
    words = jnp.asarray(np.array([[x >> 32, x & 0xFFFFFFFF] for x in numbers], np.uint32))
    values = jnp.asarray(rng.integers(0, num_values, len(numbers)), jnp.int32)
    report = np.asarray(jax.jit(jax.vmap(params.from_bits))(words, values))
    assert params.draft is not None
    quick = np.asarray(jax.jit(params.draft.reports)(words[:, :1].T, values))
    sure = quick != Draft.UNSURE
    np.testing.assert_array_equal(quick[sure], report[sure])
    assert np.mean(~sure[-50_000:]) < 2e-3
    assert not np.all(sure[: len(near)])
    assert ProjectiveGeometryResponse(6, 1.0, order=3).build(8).draft is None


def test_pairs_of_words_beside_every_border_lead_to_their_points():
    """The last word in which two pairs differ decides: laws could not tell a fault there."""
    spec = ProjectiveGeometryResponse(6, 1.0, order=2)
    params, points = spec.build(), spec.num_points
    high, low = (int(weight * 2**64) for weight in sorted(set(spec.channel()[0]), reverse=True))
    hyperplane = [int(y) for y in params.hyperplane]
    borders = [low * y for y in range(points + 1)]
    borders += [low * points + (high - low) * y for y in range(1, len(hyperplane) + 1)]
    assert borders[-1] <= 2**64
    pairs = sorted(
        {b + step for b in borders for step in (-1, 0, 1) if 0 <= b + step < borders[-1]}
    )
    for value in range(6):

        def point(pair, value=value):
            if pair < low * points:
                return pair // low
            return (hyperplane[(pair - low * points) // (high - low)] - value) % points

        words = np.array([divmod(pair, 2**32) for pair in pairs], np.uint32)
        found = jax.vmap(params.from_bits, (0, None))(words, np.int32(value))
        assert found.tolist() == [point(pair) for pair in pairs]


def test_golden_variances():
    """k = 128, of a user without the value, at epsilon = 0.5, 1 and 2."""
    nobody = [1] + [0] * 127
    for epsilon, expected in [(0.5, 15.73), (1.0, 3.664), (2.0, 0.7121)]:
        found = ProjectiveGeometryResponse(128, epsilon).variance(nobody)[1]
        assert abs(found / expected - 1) < 1e-3


def test_the_order_is_the_best_by_exact_variance():
    for k in (2, 5, 40):
        for epsilon in (0.5, 1.0, 2.0, 4.0):
            alone = np.eye(k, dtype=int)[0]
            total = {
                q: ProjectiveGeometryResponse(k, epsilon, q).variance(alone).sum()
                for q in points.prime_powers(2 * k)
            }
            best = ProjectiveGeometryResponse(k, epsilon)
            assert best.variance(alone).sum() <= min(total.values()) * (1 + 1e-9)


def test_what_two_words_lose():
    """Next to nothing, from few points to 300,000, and at both ends of epsilon."""
    for k, epsilon in [(3, 0.01), (128, 1.0), (4096, 6.0), (2**16, 2.0), (100, 12.0)]:
        spec = ProjectiveGeometryResponse(k, epsilon)
        assert 0.9999 * epsilon < spec.exact_epsilon() <= epsilon
        high, low = spec._weights(32)
        total, inside, _ = spec._sizes()
        assert inside * high + (total - inside) * low == 2**64


def test_law_of_reports_of_a_large_space(key):
    """200,000 users of one value, 5,461 points: how many are in its hyperplane, and where."""
    spec = ProjectiveGeometryResponse(4096, 1.0)
    params = spec.build()
    words = jax.random.bits(key, (200_000, 2), jnp.uint32)
    reports = np.asarray(jax.jit(jax.vmap(params.from_bits, (0, None)))(words, jnp.int32(4000)))
    hyperplane = (points.difference_set(spec.order, spec.dimension) - 4000) % spec.num_points
    inside = int(np.isin(reports, hyperplane).sum())
    p = float(spec.probabilities()[0])
    stats.check_multinomial([inside, reports.size - inside], [p, 1 - p])
    stats.must_fail(stats.check_multinomial, [inside, reports.size - inside], [p - 0.02, 1.02 - p])
    rank = np.searchsorted(np.sort(hyperplane), reports[np.isin(reports, hyperplane)])
    bins = np.bincount(rank * 16 // hyperplane.size, minlength=16)
    sizes = np.bincount(np.arange(hyperplane.size) * 16 // hyperplane.size, minlength=16)
    stats.check_multinomial(bins, sizes / hyperplane.size)


@pytest.mark.slow
def test_estimate_at_a_trillion_users_is_that_of_the_supports(key):
    """The correlation by FFT is rounded to the whole numbers that it stands for."""
    spec = ProjectiveGeometryResponse(12, 1.0, order=3)
    params = spec.build()
    tally = params.sample_tally(key, Count.of(np.arange(12) * 10**11))
    reports = tally.numpy()
    hyperplane = points.difference_set(3, spec.dimension)
    support = [int(reports[(hyperplane - v) % spec.num_points].sum()) for v in range(12)]
    p, q = spec.probabilities()
    expected = [float((s - q * int(reports.sum())) / (p - q)) for s in support]
    with jax.enable_x64(True):
        found = np.asarray(params.estimate(tally))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-2)
    spread = math.sqrt(spec.worst_case_variance(66 * 10**11))
    assert np.all(np.abs(found - np.arange(12) * 1e11) < 10 * spread)
