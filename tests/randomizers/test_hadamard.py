"""Hadamard response and its one-bit form: golden numbers, joint laws by enumeration, edges."""

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.random import Count
from jaxdp.randomizers._hadamard_bit import HadamardBit
from jaxdp.randomizers._hadamard_response import HadamardResponse
from tests import stats


def test_golden_variances():
    """20 users, of which 0, 10 and 20 have the value, at epsilon = 1."""
    bit = HadamardBit(4, 1.0)
    expected = [93.653888, 83.653888, 73.653888]
    found = [*bit.variance([0, 10, 10, 0])[:2], bit.variance([20, 0, 0, 0])[0]]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    response = HadamardResponse(3, 1.0, num_blocks=1)
    np.testing.assert_allclose(response.variance([0, 10, 10])[:2], expected[:2], atol=1e-6)


def test_the_papers_bound_is_exceeded():
    """Equation (23), 4 n e / (e - 1)**2, holds with equality where all have the value only."""
    n, e = 20, math.e
    printed = 4 * n * e / (e - 1) ** 2
    bit = HadamardBit(4, 1.0)
    assert abs(bit.variance([n, 0, 0, 0])[0] - printed) < 1e-6
    assert bit.variance([0, n, 0, 0])[0] > printed + n - 1e-6
    assert bit.worst_case_variance(n) == bit.variance([0, n, 0, 0])[0]


@pytest.mark.parametrize("spec", [HadamardResponse(7, 1.0, num_blocks=2), HadamardBit(5, 1.0)])
def test_a_batch_of_tallies_is_estimated_one_by_one(spec, rng):
    params = spec.build()
    tallies = rng.integers(0, 100, (2, 3, params.num_reports)).astype(np.int32)
    together = np.asarray(params.estimate(Count.of(jnp.asarray(tallies))))
    for index in np.ndindex(2, 3):
        alone = params.estimate(Count.of(jnp.asarray(tallies[index])))
        np.testing.assert_allclose(together[index], alone, rtol=1e-12)


def joint_law(spec, counts):
    """The law of the tally of few users, by enumeration of their reports."""
    channel = [[float(p) for p in row] for row in spec.channel()]
    users = np.repeat(np.arange(len(counts)), counts)
    law = defaultdict(float)
    for reports in itertools.product(range(len(channel[0])), repeat=len(users)):
        p = math.prod(channel[v][y] for v, y in zip(users, reports, strict=True))
        law[tuple(np.bincount(reports, minlength=len(channel[0])))] += p
    return law


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        (HadamardResponse(3, 1.0, num_blocks=1), (1, 2, 1)),
        (HadamardResponse(2, 2.0, num_blocks=2), (1, 2)),
        (HadamardBit(4, 1.0), (1, 1, 0, 1)),
    ],
    ids=["response", "blocks", "bit"],
)
def test_joint_law_of_the_sampled_tally(spec, counts, key):
    """Every possible tally of few users, 40,000 draws."""
    sample = jax.jit(jax.vmap(spec.build().sample_tally, in_axes=(0, None)))
    drawn = sample(jax.random.split(key, 40_000), Count.of(np.array(counts))).numpy()
    seen, law = Counter(map(tuple, drawn.tolist())), joint_law(spec, counts)
    assert set(seen) <= set(law)
    cells = sorted(law)
    table = [seen[cell] for cell in cells]
    stats.check_multinomial(table, [law[cell] for cell in cells])
    other = joint_law(type(spec)(spec.num_values, 1.3 * spec.epsilon), counts)
    if len(other) == len(law):
        stats.must_fail(stats.check_multinomial, table, [other[cell] for cell in sorted(other)])


@pytest.mark.slow
def test_variance_of_a_million_users(key):
    """n = 10**6, k = 1024 on the tally path: the closed form, and uncorrelated estimates.

    400 trials of 1,024 counts; a variance that is off by a quarter would be seen in their mean.
    """
    counts = np.random.default_rng(0).multinomial(10**6, np.arange(1, 1025) / 524_800)
    population = jaxdp.Population.from_histogram(counts)
    for spec in (HadamardBit(1024, 1.0), HadamardResponse(1024, 1.0)):
        trials = jaxdp.simulate(spec, population, key, num_trials=400, method="tally")
        z = (trials.estimates - counts) / np.sqrt(spec.variance(counts))
        chosen = z[:, ::64]
        stats.check_mean(chosen, np.zeros(16), variance=np.ones(16))
        stats.must_fail(stats.check_mean, chosen + 0.8, np.zeros(16), variance=np.ones(16))
        stats.check_variance(z.ravel()[:, None], [1.0], mean=[0.0], kurtosis=3.5)
        stats.must_fail(
            stats.check_variance, 1.1 * z.ravel()[:, None], [1.0], mean=[0.0], kurtosis=3.5
        )


@pytest.mark.parametrize("spec", [HadamardBit(300, 1.0), HadamardResponse(300, 1.0, 4)])
def test_two_words_enumerated(spec):
    """Where the row takes a word of its own: 2**20 pairs of words of 10 bits."""
    params = spec.build(word_bits=10)
    assert params.num_words == 2
    words = jnp.arange(2**10, dtype=jnp.uint32)
    pairs = jnp.stack(jnp.meshgrid(words, words), axis=-1).reshape(-1, 2)
    channel = spec.channel(10)
    for value in (0, 137, 299):
        reports = np.asarray(jax.vmap(params.from_bits, (0, None))(pairs, jnp.int32(value)))
        seen = np.bincount(reports, minlength=len(channel[0]))
        assert [Fraction(int(c), 2**20) for c in seen] == channel[value]


def test_best_blocks_are_the_best_by_exact_variance():
    """Every power of two tried, by the sum of variances with all users in one fullest block."""
    for k in (2, 3, 16, 100, 1000):
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
            everybody = np.eye(k, dtype=int)[0]
            total = {
                b: HadamardResponse(k, epsilon, b).variance(everybody).sum()
                for b in (2**i for i in range(k.bit_length()))
            }
            best = HadamardResponse(k, epsilon).num_blocks
            assert total[best] <= min(total.values()) * (1 + 1e-6)


def test_block_layout():
    """B b reports; a row above 0 for every value; B = 1 has K = 2**ceil(log2(k + 1))."""
    for k in (2, 3, 4, 7, 8, 1000):
        assert HadamardResponse(k, 1.0, 1).block_size == 2 ** math.ceil(math.log2(k + 1))
        for blocks in (1, 2):
            spec = HadamardResponse(k, 1.0, blocks)
            assert blocks * (spec.block_size - 1) >= k > blocks * (spec.block_size // 2 - 1)


def test_limits_of_epsilon():
    """The messages name the largest and the smallest one, and these can be realised."""
    for make in (lambda e: HadamardBit(8, e), lambda e: HadamardResponse(8, e, 2)):
        for bad in (60.0, 1e-12):
            with pytest.raises(ValueError, match=r"epsilon must be at"):
                make(bad)
        for epsilon in (1e-6, 0.01, 10.0, 19.0):
            assert 0 < make(epsilon).exact_epsilon() <= epsilon


def test_worst_case_is_attained_and_never_exceeded(rng):
    for spec in (HadamardResponse(6, 2.0, 2), HadamardResponse(4, 2.0, 4)):
        k, n, worst = spec.num_values, 1000, spec.worst_case_variance(1000)
        most = max(spec.variance(n * row).max() for row in np.eye(k, dtype=int))
        np.testing.assert_allclose(worst, most, rtol=1e-12)
        for _ in range(10):
            assert np.all(spec.variance(rng.multinomial(n, rng.dirichlet(np.ones(k)))) <= worst)
