"""Local hashing: the field, the independence of hashes, and the laws that follow."""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.randomizers import KRR, _local_hashing
from jaxdp.randomizers._local_hashing import _POLYNOMIALS, LocalHashing
from jaxdp_kernels.randomize_and_tally import randomize_and_tally
from jaxdp_kernels.threefry_words import TILE, StreamKey
from tests import stats
from tests.marks import slow

STREAM = StreamKey.of(jax.random.key(0))
TALLY = jax.jit(randomize_and_tally)


def times(a: int, b: int, polynomial: int, degree: int) -> int:
    """The product in GF(2)[x] modulo a polynomial given without its leading term."""
    product = 0
    for i in range(degree):
        product ^= (b >> i & 1) * (a << i)
    for i in range(2 * degree - 2, degree - 1, -1):
        if product >> i & 1:
            product ^= (1 << i) ^ (polynomial << i - degree)
    return product


@pytest.mark.parametrize("degree", _POLYNOMIALS)
def test_polynomials_are_irreducible(degree):
    """Rabin: x**(2**n) = x, and x**(2**(n/2)) - x is invertible, for n a power of two."""
    polynomial = _POLYNOMIALS[degree]

    def frobenius(power):
        z = 2
        for _ in range(power):
            z = times(z, z, polynomial, degree)
        return z

    assert frobenius(degree) == 2
    a, b = polynomial | 1 << degree, frobenius(degree // 2) ^ 2
    while b:  # Euclid in GF(2)[x]
        while a.bit_length() >= b.bit_length():
            a ^= b << a.bit_length() - b.bit_length()
        a, b = b, a
    assert a == 1


def test_hash_is_a_polynomial_of_the_value(rng):
    """Buckets at 32 bits against field arithmetic on Python integers; word 0 tells the truth."""
    spec = LocalHashing(1000, 2.0, hash_range=7)
    words = rng.integers(0, 2**32, size=(300, 4), dtype=np.uint32)
    words[:, 3] = 0
    values = rng.integers(0, 1000, size=300).astype(np.int32)
    send = jax.jit(jax.vmap(spec.build().from_bits))
    sent = np.asarray(send(jnp.asarray(words), jnp.asarray(values)))
    np.testing.assert_array_equal(sent[:, :3], words[:, :3])
    product = lambda a, b: times(a, b, 0x8D, 32)  # noqa: E731
    for (a, b, c, _), v, bucket in zip(words.tolist(), values.tolist(), sent[:, 3], strict=True):
        point = product(a, product(v, v)) ^ product(b, v) ^ c
        assert bucket == min(point // (2**32 // 7), 6)


TWIN = LocalHashing(7, 1.0, hash_range=3)  # buckets of 5, 5 and 6 of 16 field elements
FUNCTIONS = np.stack(np.meshgrid(*[np.arange(16, dtype=np.uint32)] * 3), -1).reshape(-1, 3)


def test_hashes_of_three_values_are_independent():
    """All 4,096 functions of the twin: exactly. Negative control: those of four values are not."""
    words = jnp.asarray(np.pad(FUNCTIONS, ((0, 0), (0, 1))))
    send = jax.jit(jax.vmap(TWIN.build(4).from_bits, in_axes=(0, None)))
    hashes = np.stack([np.asarray(send(words, jnp.int32(v)))[:, 3] for v in range(7)])
    weights = [Fraction(5, 16), Fraction(5, 16), Fraction(6, 16)]

    def law(values):
        code = np.ravel_multi_index(tuple(hashes[list(values)].astype(int)), [3] * len(values))
        return [Fraction(n, 4096) for n in np.bincount(code, minlength=3 ** len(values)).tolist()]

    for triple in itertools.combinations(range(7), 3):
        assert law(triple) == [math.prod(w) for w in itertools.product(weights, repeat=3)]
    assert law(range(4)) != [math.prod(w) for w in itertools.product(weights, repeat=4)]


def test_every_word_of_a_small_twin():
    """All 65,536 reports of each value: supports of values and of pairs, as Fractions."""
    params = TWIN.build(4)
    axes = [np.arange(16, dtype=np.uint32)] * 4
    words = jnp.asarray(np.stack(np.meshgrid(*axes), -1).reshape(-1, 4))
    p, q = TWIN.probabilities(4)
    with_user, others = TWIN.joint_support(4)
    one = jax.jit(jax.vmap(lambda r: params.tally(r[None], jnp.ones(1, bool))["support"].lo))
    for value in (0, 3, 6):
        support = np.asarray(
            one(jax.vmap(params.from_bits, in_axes=(0, None))(words, jnp.int32(value)))
        )
        pairs = support.T @ support
        expected = np.full((7, 7), int(others * 16**4))
        expected[value, :] = expected[:, value] = int(with_user * 16**4)
        np.fill_diagonal(expected, int(q * 16**4))
        expected[value, value] = int(p * 16**4)
        np.testing.assert_array_equal(pairs, expected)


def test_response_is_private_given_the_hash():
    """Three buckets of KRR: the same thresholds, and the ratio of the twin's words, exactly."""
    assert TWIN.exact_epsilon() == KRR(3, 1.0).exact_epsilon() <= 1.0
    send = jax.jit(jax.vmap(TWIN.build(8).from_bits, in_axes=(0, None)))
    words = np.zeros((256, 4), np.uint32)
    words[:, 1], words[:, 3] = 77, np.arange(256)
    seen = [
        np.bincount(np.asarray(send(jnp.asarray(words), jnp.int32(v)))[:, 3], minlength=3)
        for v in range(7)
    ]
    assert len({tuple(s) for s in seen}) == 3  # the function tells some values apart
    worst = max(np.max(a / b) for a in seen for b in seen)
    assert worst <= math.exp(1.0)
    assert math.log(worst) == pytest.approx(TWIN.exact_epsilon(8))


@pytest.mark.parametrize("hash_range", [2, 3, slow(4), slow(8), 16, 21])
@pytest.mark.parametrize("users", [5, 500])
def test_tally_counts_the_values_of_the_reported_bucket(hash_range, users, rng):
    """By comparisons and by maps, of groups of few values and of many, against each hash."""
    spec = LocalHashing(37, 2.0, hash_range)
    params = spec.build()
    reports = rng.integers(0, 2**32, size=(users, 4), dtype=np.uint32)
    reports[:, 3] %= hash_range
    mask = rng.random(users) < 0.7
    truthful = jnp.asarray(np.where(np.arange(4) == 3, 0, reports).astype(np.uint32))
    send = jax.jit(jax.vmap(jax.vmap(params.from_bits, in_axes=(None, 0)), in_axes=(0, None)))
    hashes = send(truthful, jnp.arange(37, dtype=jnp.int32))[..., 3]
    expected = np.sum((np.asarray(hashes) == reports[:, 3:]) & mask[:, None], axis=0)
    tally = params.tally(jnp.asarray(reports), jnp.asarray(mask))
    np.testing.assert_array_equal(tally["support"].numpy(), expected)
    assert int(tally["users"]) == mask.sum()


def test_default_range_is_optimal():
    """Near e**epsilon + 1 for many values; the least sum of exact variances for few."""
    for epsilon, expected in [(0.1, 2), (0.5, 3), (1.0, 4), (2.0, 8), (3.0, 21)]:
        spec = LocalHashing(100_000, epsilon)
        assert spec.hash_range == expected == round(math.exp(epsilon)) + 1
        e = math.exp(epsilon)
        free = spec.variance([1] + [0] * 99_999)[1]
        assert abs(free / (4 * e / (e - 1) ** 2) - 1) < 0.02
    counts = np.arange(6)
    for epsilon in (0.5, 1.0, 3.0):
        sums = [LocalHashing(6, epsilon, g).variance(counts).sum() for g in range(2, 40)]
        assert LocalHashing(6, epsilon).hash_range == 2 + np.argmin(sums)


@pytest.mark.parametrize("hash_range", [3, slow(4)])
def test_a_cpu_tallies_a_block_by_parts(hash_range, rng, monkeypatch):
    """Bit for bit as a whole, also where the counter of words passes 2**32 within the block."""
    monkeypatch.setattr(_local_hashing, "_MAPPED_USERS", 2 * TILE)
    monkeypatch.setattr(_local_hashing, "_COMPARED_USERS", 2 * TILE)
    params = LocalHashing(9, 1.0, hash_range).build()
    users = 6 * TILE
    values = jnp.asarray(rng.integers(0, 9, users), jnp.int32)
    mask = jnp.asarray(rng.random(users) < 0.9)
    start = jnp.asarray([3, 2**32 - 5 * TILE], jnp.uint32)
    by_parts = jax.jit(params.kernels.tally["cpu"])
    for size, first in ((users, None), (users - 1, None), (users, jnp.uint32(7))):
        arguments = (STREAM, start, first, values[:size], mask[:size])
        found, expected = by_parts(params, *arguments), TALLY(params, *arguments)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b)
    later = jnp.asarray([3, 2**32 - 4 * TILE], jnp.uint32)
    other = by_parts(params, STREAM, later, None, values, mask)["support"].numpy()
    assert np.any(other != TALLY(params, STREAM, start, None, values, mask)["support"].numpy())


@pytest.mark.slow
def test_binary_hashing_of_a_thousand_users(key):
    """Errors of 1,000 trials, made white by the exact covariance.

    Power 0.999 for an offset of 0.4 deviations in an entry, or a sum of variances off by 13 %.
    """
    spec = LocalHashing(16, 1.0, hash_range=2)
    counts = np.array([500, 300, 200] + [0] * 13)
    trials = jaxdp.simulate(
        spec, jaxdp.Population.from_histogram(counts), key, num_trials=1000, truth=counts
    )
    assert trials.method == "per_user"
    covariance = sum(c * spec.covariance(v) for v, c in enumerate(counts.tolist()) if c)
    errors = trials.errors @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    stats.check_mean(errors, 0.0, variance=1.0)
    squares = np.sum(errors**2, axis=1)
    stats.check_mean(squares, 16.0, variance=2.2 * 16)
    stats.must_fail(stats.check_mean, errors + 0.5, 0.0, variance=1.0)
    stats.must_fail(stats.check_mean, 1.2 * squares, 16.0, variance=2.2 * 16)
