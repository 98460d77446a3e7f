"""One bit on one random concept: exact, by enumeration."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp import workloads
from jaxdp.learning import RandomConcept
from jaxdp.random import Count
from jaxdp.randomizers._exact import exp_lower

CONCEPTS = workloads.intervals(2)  # three concepts: words do not divide evenly
LEARNER = RandomConcept(CONCEPTS, 1.0)


def test_all_pairs_of_8_bit_words_are_the_channel():
    params = LEARNER.build(word_bits=8)
    axes = np.meshgrid(*[np.arange(256, dtype=np.uint32)] * 2)
    every_pair = jnp.asarray(np.stack(axes, axis=-1).reshape(-1, 2))
    reports = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    for value, row in enumerate(LEARNER.channel(word_bits=8)):
        seen = np.bincount(np.asarray(reports(every_pair, jnp.int32(value))), minlength=6)
        assert [Fraction(int(count), 2**16) for count in seen] == row


def test_channel_is_private_and_stochastic():
    for word_bits in (8, 32):
        channel = LEARNER.channel(word_bits)
        assert all(sum(row) == 1 for row in channel)
        worst = max(max(column) / min(column) for column in zip(*channel, strict=True))
        assert worst <= exp_lower(1.0)
        assert LEARNER.exact_epsilon(word_bits) <= 1
    shares = [channel[0][2 * c] + channel[0][2 * c + 1] for c in range(3)]
    assert max(abs(share - Fraction(1, 3)) for share in shares) < Fraction(1, 2**32)


def test_estimate_and_its_variance_are_exact():
    """Mean and variance of one user's estimate over the channel's reports."""
    params = LEARNER.build()
    with jax.enable_x64(True):
        decoded = np.stack([params.estimate(Count.of(row)) for row in np.eye(6, dtype=np.int32)])
    law = np.array([[float(p) for p in row] for row in LEARNER.channel()])
    mean, variance = LEARNER.contributions()
    np.testing.assert_allclose(law @ decoded, mean.T, atol=1e-14)
    second = law @ decoded**2
    np.testing.assert_allclose(second - (law @ decoded) ** 2, variance.T, rtol=1e-12)
    counts = np.array([3, 1, 4, 2])
    np.testing.assert_allclose(LEARNER.variance(counts), variance @ counts / 100, rtol=1e-12)


def test_values_outside_the_domain_count_as_the_edge():
    params = LEARNER.build()
    words = jnp.asarray(np.random.default_rng(0).integers(0, 2**32, (50, 2), np.uint32))
    reports = jax.jit(jax.vmap(params.from_bits, in_axes=(0, None)))
    for outside, edge in ((-7, 0), (9, 3)):
        np.testing.assert_array_equal(
            reports(words, jnp.int32(outside)), reports(words, jnp.int32(edge))
        )
