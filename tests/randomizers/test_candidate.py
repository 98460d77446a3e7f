"""Candidate response: exact privacy by counting words, the law of the reported candidate."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.randomizers import CandidateResponse, PrivUnitG
from jaxdp.randomizers._candidate import Ranks, _part
from jaxdp.randomizers._exact import exp_lower
from tests import stats
from tests.marks import slow


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 8.0, 30.0])
@pytest.mark.parametrize(("size", "high"), [(4, 1), (4, 2), (64, 23), (4096, 700)])
def test_counts_of_words_are_private(size, high, epsilon):
    """Counts how many of the 2**64 pairs of words lead to each place; the threshold is largest."""
    ranks = Ranks.of(epsilon, size, high)
    near = [ranks.threshold * n for n in ranks.words_of(np.arange(high), high).tolist()]
    rest, others = 2**32 - ranks.threshold, size - high
    far = [rest * n for n in ranks.words_of(np.arange(others), others).tolist()]
    assert sum(near) + sum(far) == 2**64
    low, most = min(far), max(near)
    assert most <= exp_lower(epsilon) * low
    assert ranks.worst_ratio() <= exp_lower(epsilon)
    more = most // ranks.threshold * (ranks.threshold + 1)
    less = low // (2**32 - ranks.threshold) * (2**32 - ranks.threshold - 1)
    assert more > exp_lower(epsilon) * less


@pytest.mark.parametrize("size", [1, 3, 5, 255, 2**16])
def test_places_are_even(size):
    """At the first and the last word of every place, with the stated number of words between."""
    ranks = Ranks(2**17, size, 0)
    counts = ranks.words_of(np.arange(size), size)
    starts = np.concatenate([[0], np.cumsum(counts)])
    assert starts[-1] == 2**32
    first, last = starts[:-1].astype(np.uint32), (starts[1:] - 1).astype(np.uint32)
    place = jax.jit(jax.vmap(lambda word: _part(word, size)))
    np.testing.assert_array_equal(place(jnp.asarray(first)), np.arange(size))
    np.testing.assert_array_equal(place(jnp.asarray(last)), np.arange(size))


def test_every_index_is_reported_for_its_place(rng):
    """For a seed and a value: all places lead to all indices once, and back to their place."""
    spec = CandidateResponse(3, 2.0, num_candidates=16, num_high=5)
    params, value = spec.build(), jnp.float32([0.4, -0.2, 0.1])
    report_of, place_of = jax.jit(params.from_bits), jax.jit(params.place_of)
    seed = np.uint32(rng.integers(2**32))
    found = []
    for near, size in ((True, 5), (False, 11)):
        starts = -(-np.arange(size, dtype=np.int64) * 2**32 // size)
        for place, word in enumerate(starts):
            side = 0 if near else 2**32 - 1
            words = jnp.asarray(np.array([seed, side, word], np.uint32))
            report = report_of(words, value)
            found.append(int(report[1]))
            assert tuple(map(int, place_of(report, value))) == (near, place)
    assert sorted(found) == list(range(16))
    vectors = np.asarray(params.summands(jnp.stack([jnp.uint32([seed, i]) for i in range(16)])))
    np.testing.assert_array_equal(vectors[::2], -vectors[1::2])


def test_near_candidates_are_near(rng):
    spec = CandidateResponse(4, 2.0, num_candidates=32, num_high=6)
    params, x = spec.build(), np.float32([1.0, 0.0, 0.0, 0.0])  # on the sphere: no last coordinate
    seed = np.uint32(rng.integers(2**32))
    reports = jnp.stack([jnp.uint32([seed, i]) for i in range(32)])
    products = np.asarray(params.summands(reports))[:, 0]
    near = np.asarray(jax.vmap(lambda r: params.place_of(r, jnp.asarray(x))[0])(reports))
    np.testing.assert_array_equal(np.flatnonzero(near), np.sort(np.argsort(-products)[:6]))


def test_log_density_is_within_epsilon(key):
    spec = CandidateResponse(4, 1.5)
    keys = jax.random.split(key, 2000)
    x = np.array([[0.6, 0.0, -0.8, 0.0], [0.0, 0.1, 0.0, 0.0]])
    reports = jax.jit(jax.vmap(spec.build().privatize, (0, None)))(keys, jnp.float32(x[0]))
    one, two = (spec.log_density(reports, v) for v in x)
    gap = np.abs(one - two)
    assert gap.max() <= spec.exact_epsilon() + 1e-12
    assert gap.max() > 1.4
    stats.check_proportion((one > np.median(one)).sum(), 2000, 1.0, at_most=True)


@pytest.mark.parametrize(
    ("epsilon", "size", "factor"),
    [
        (1.0, 64, 1.013),
        (1.0, 256, 1.003),
        (1.0, 1024, 1.001),
        (4.0, 256, 1.014),
        (8.0, 4096, 1.008),
    ],
)
def test_variance_against_priv_unit_g(epsilon, size, factor):
    best = PrivUnitG(64, epsilon).worst_case_variance(1)
    found = CandidateResponse(64, epsilon, num_candidates=size).worst_case_variance(1)
    assert abs(found / best - factor) < 6e-4


@pytest.mark.parametrize(("size", "high"), [(16, 3), slow(64, 32), slow(256, 40)])
def test_moments_of_a_report(size, high, key):
    """All of it, candidates included, against the law of the coordinate by quadrature."""
    draws, x = 40_000, np.float32([0.6, 0.0, -0.3])
    spec = CandidateResponse(3, 3.0, num_candidates=size, num_high=high)
    params = spec.build()
    keys = jax.random.split(key, draws)
    reports = jax.jit(jax.vmap(params.privatize, (0, None)))(keys, jnp.asarray(x))
    y = np.asarray(params.decode(reports), np.float64)
    mean, covariance = spec.moments(x)
    spread = np.diag(covariance)
    stats.check_mean(y, mean, variance=spread)
    stats.check_variance(y, spread, mean=mean, kurtosis=4.0)
    weights = np.diag([1.0, 0.0, -0.5]) + 0.2
    q = np.einsum("ni,ij,nj->n", y - mean, weights, y - mean)
    fourth = spec.self_moments(x[None].astype(np.float64), weights)
    stats.check_variance(q, fourth.fourth[0], kurtosis=20.0)
    stats.must_fail(stats.check_mean, y + 0.05 * np.sqrt(spread), mean, variance=spread)


def test_tail_bounds_the_moment_generating_function():
    """At each t: log E exp(t (X - E X)) by quadrature of the law, well within the bound."""
    spec = CandidateResponse(3, 2.0, num_candidates=64)
    scale = spec.radius / spec._law().raw[1]
    proxy = spec.tail().variance / scale**2
    assert spec.tail().scale == 0
    assert 1.0 < proxy < 1.5
    variance = spec._law().raw[2] - spec._law().raw[1] ** 2
    assert proxy >= max(variance, 1.0)


def test_private_key_words_do_not_make_candidates(key):
    """Two users with one seed have the same candidates whatever else their words are."""
    params = CandidateResponse(2, 1.0, num_candidates=16).build()
    words = np.array([[7, 0, 0], [7, 2**32 - 1, 0]], np.uint32)
    reports = [params.from_bits(jnp.asarray(w), jnp.float32([0.1, 0.2])) for w in words]
    assert int(reports[0][0]) == int(reports[1][0]) == 7
    assert int(reports[0][1]) != int(reports[1][1])
    assert math.isclose(float(params.unit), float(params.unit))
