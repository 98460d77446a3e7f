"""Unary encodings: golden numbers, thresholds, and both laws."""

import math
from fractions import Fraction
from typing import Literal

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from jaxdp.random import Count
from jaxdp.randomizers import Rappor
from jaxdp.randomizers._exact import exp_lower
from jaxdp.randomizers._unary_encoding import UnaryEncoding
from jaxdp_kernels.randomize_and_tally import randomize_and_tally
from jaxdp_kernels.threefry_words import StreamKey
from tests import stats
from tests.marks import slow

KINDS: tuple[Literal["optimal", "symmetric"], ...] = ("optimal", "symmetric")


def test_golden_variance():
    """1,000 users, 100 of them with the value, k = 8, epsilon = 1: 3782.6944."""
    counts = [100, 900, 0, 0, 0, 0, 0, 0]
    assert abs(UnaryEncoding(8, 1.0).variance(counts)[0] - 3782.6944) < 1e-4


def test_variance_is_that_of_the_ideal_channel():
    """One user without the value: 4E / (E - 1)**2, and sqrt(E) / (sqrt(E) - 1)**2."""
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for kind, e, factor in zip(KINDS, (epsilon, epsilon / 2), (4, 1), strict=True):
            expected = factor * math.exp(e) / math.expm1(e) ** 2
            found = UnaryEncoding(128, epsilon, kind).variance(np.eye(128, dtype=int)[0])[1]
            np.testing.assert_allclose(found, expected, rtol=1e-6)


@hypothesis.given(kind=st.sampled_from(KINDS), epsilon=st.floats(1e-6, 22.0))
def test_thresholds_spend_what_a_word_allows(kind, epsilon):
    """The smallest q that keeps the ratio; one less would not."""

    def ratio(q):
        p = Fraction(1, 2) if kind == "optimal" else 1 - q
        return p * (1 - q) / (q * (1 - p))

    spec = UnaryEncoding(3, epsilon, kind)
    p, q = spec.probabilities()
    assert p == (Fraction(1, 2) if kind == "optimal" else 1 - q)
    assert ratio(q) <= exp_lower(epsilon)
    assert q == Fraction(1, 2**32) or ratio(q - Fraction(1, 2**32)) > exp_lower(epsilon)
    assert spec.exact_epsilon() <= epsilon
    assert spec.build().thresholds.tolist() == [p * 2**32, q * 2**32]


@pytest.mark.parametrize(("kind", "highest"), [("optimal", 22.1807), ("symmetric", 44.3614)])
def test_edges_of_epsilon(kind, highest):
    assert UnaryEncoding(2, highest - 1e-4, kind).probabilities()[1] <= Fraction(2, 2**32)
    with pytest.raises(ValueError, match=rf"epsilon.*at most {highest}.*'{kind}'"):
        UnaryEncoding(2, highest + 1e-4, kind)
    assert UnaryEncoding(2, 4e-9, kind).exact_epsilon() > 0
    with pytest.raises(ValueError, match=r"epsilon.*at least about"):
        UnaryEncoding(2, 2e-10, kind)


@pytest.mark.parametrize(("kind", "k"), [("optimal", 3), ("symmetric", 4)])
def test_every_word_of_a_small_twin(kind, k):
    """Words of four bits, a word for each of four lanes: all 65,536 cases are the channel."""
    spec = UnaryEncoding(k, 1.0, kind)
    words = np.stack(np.meshgrid(*[np.arange(16, dtype=np.uint32)] * 4), -1).reshape(-1, 4)
    send = jax.jit(jax.vmap(spec.build(4).from_bits, in_axes=(0, None)))
    for value, row in enumerate(spec.channel(4)):
        sent = np.asarray(send(jnp.asarray(words), jnp.int32(value)))[:, 0]
        seen = np.bincount(sent, minlength=2**k).tolist()
        assert [Fraction(n, 16**4) for n in seen] == row
    assert spec.reports()[:, 0].tolist() == list(range(2**k))


@pytest.mark.parametrize(("k", "word_bits"), [(2, 32), (16, 32), (17, 32), (70, 32), (5, 8)])
def test_digits_of_numbers_lie_across_words(k, word_bits, rng):
    """Bit v is 1 where number v is below its threshold; the digits are taken in order."""
    params = UnaryEncoding(k, 1.0).build(word_bits)
    lanes = {2: 2, 16: 16, 17: 32, 70: 96, 5: 8}[k]
    assert params.num_words == lanes
    words = rng.integers(0, 2**word_bits, size=(50, lanes), dtype=np.uint32)
    digits = (words[..., None] >> np.arange(word_bits, dtype=np.uint32)) & 1
    digits = digits.reshape(50, word_bits, lanes)  # the lowest bits of the first word come first
    numbers = (digits.astype(np.uint64) << np.arange(word_bits, dtype=np.uint64)[::-1, None]).sum(1)
    values = np.arange(50, dtype=np.int32) % k
    sent = np.asarray(jax.vmap(params.from_bits)(jnp.asarray(words), jnp.asarray(values)))
    user, other = params.thresholds
    below = numbers[:, :k] < np.where(np.arange(k) == values[:, None], user, other)
    assert sent.shape == (50, -(-k // 32))
    unpacked = np.unpackbits(sent.view(np.uint8), axis=1, bitorder="little")
    np.testing.assert_array_equal(unpacked[:, :k], below)
    assert not unpacked[:, k:].any()


@pytest.mark.parametrize(
    "spec",
    [
        slow(UnaryEncoding(9, 1.0)),
        slow(UnaryEncoding(70, 1.0, kind="symmetric")),
        UnaryEncoding(40, 1.0),
        Rappor(9, 2.0, num_bits=40, num_cohorts=4, num_rounds=2, p=0.2, q=0.9),
        slow(Rappor(9, 2.0, num_bits=40, num_cohorts=4, num_rounds=1, p=0.2, q=0.9)),
        slow(Rappor(9, 2.0, num_bits=16, num_cohorts=32)),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("platform", "n"), [("cpu", 5000), ("cuda", 4096)])
def test_few_planes_make_the_definitions_tally(spec, platform, n, key, rng):
    """Bit for bit, with users beyond the domain and out of the mask, over a carry.

    So few planes that on a CPU many words are made anew, some groups having several.
    """
    params = spec.build()
    values = jnp.asarray(rng.integers(-1, spec.num_values + 1, n), jnp.int32)
    mask = jnp.asarray(rng.random(n) < 0.7)
    start = jnp.asarray([0, 2**32 - 1024 * params.num_words], jnp.uint32)
    arguments = params, StreamKey.of(key), start, None, values, mask
    found = jax.jit(lambda *a: a[0].kernels.tally[platform](*a))(*arguments)
    expected = jax.jit(randomize_and_tally)(*arguments)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)


def test_values_outside_the_domain_are_clamped(key):
    send = UnaryEncoding(4, 1.0).build().from_bits
    words = jax.random.bits(key, (4,), jnp.uint32)
    for outside, edge in ((9, 3), (-1, 0)):
        np.testing.assert_array_equal(send(words, jnp.int32(outside)), send(words, jnp.int32(edge)))


def test_worst_case_is_attained_and_never_exceeded(rng):
    for kind in KINDS:
        for epsilon in (0.3, 2.0, 6.0):
            spec, n = UnaryEncoding(5, epsilon, kind), 1000
            attained = spec.variance(np.eye(5, dtype=int)[0] * n).max()
            np.testing.assert_allclose(spec.worst_case_variance(n), attained, rtol=1e-12)
            counts = rng.multinomial(n, rng.dirichlet(np.ones(5)))
            assert np.all(spec.variance(counts) <= spec.worst_case_variance(n) * (1 + 1e-12))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_sampled_tally_of_a_million_users_and_a_thousand_values(kind, key, rng):
    """n = 10**6, k = 1024: all standardised estimates of 400 trials, which are independent.

    Power 0.999 for a mean off by 0.02 standard deviations, and a variance by 3 %.
    """
    spec = UnaryEncoding(1024, 1.0, kind)
    counts = rng.multinomial(10**6, rng.dirichlet(np.ones(1024)))
    params = spec.build()
    sample = jax.jit(lambda k: params.estimate(params.sample_tally(k, Count.of(counts))))
    found = np.asarray(jax.lax.map(sample, jax.random.split(key, 400)), np.float64)
    centred = ((found - counts) / np.sqrt(spec.variance(counts))).reshape(-1, 1)
    stats.check_mean(centred, 0.0, variance=1.0)
    stats.check_variance(centred, 1.0, mean=0.0, kurtosis=3.1)
    stats.must_fail(stats.check_mean, centred + 0.02, 0.0, variance=1.0)
    stats.must_fail(stats.check_variance, 1.03 * centred, 1.0, mean=0.0, kurtosis=3.1)
