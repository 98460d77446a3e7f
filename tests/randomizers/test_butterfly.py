"""Halves and the butterfly: the bounds behind the fast path, and laws by enumeration."""

import math
import zlib
from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.randomizers import _hadamard_halving as halving
from tests import stats

STORED = 3600646677  # of draws for a key, which are part of the interface


def exact_ratios(n, draws):
    """R = Pr[Binomial(n, 1/2) = k] / Pr[the rounded normal is k], by quadrature in long double."""
    real = np.longdouble
    nodes, weights = (x / real(2) for x in np.polynomial.legendre.leggauss(20))
    with localcontext() as context:
        context.prec = 40
        pmf = [real(str(Decimal(math.comb(n, k)) / Decimal(2) ** n)) for k in draws]
    variance = real(n) / 4 - real(1) / 12
    at = (real(1) * np.array(draws) - real(n) / 2)[:, None] + nodes
    cell = (weights * np.exp(-at * at / (2 * variance))).sum(1) / np.sqrt(
        8 * np.arctan(real(1)) * variance
    )
    z2 = (real(1) * np.array(draws) - real(n) / 2) ** 2 / variance
    return np.array(pmf) / cell, z2


def test_ratio_bound_and_squeeze():
    """M bounds R, and 1 - R / M is below what the fast path accepts by; both are nearly sharp."""
    sizes, draws, expected = [], [], []
    for n in (65, 66, 67, 100, 1001, 5000):
        reach = int(4.5 * math.sqrt(n))
        near = range(max(0, n // 2 - reach), min(n, n // 2 + reach) + 1)
        ratio, z2 = exact_ratios(n, near)
        bound = 1 + (0.5 + 1 / n) / n
        assert np.all(ratio <= bound)
        assert np.all(1 - ratio / bound <= ((z2 - 3) ** 2 / 12 + 2 / n) / n)
        assert ratio.max() > 1 + 0.4 / n
        draws.extend(near)
        sizes.extend([n] * len(near))
        expected.extend(np.log(ratio).astype(float))
    with jax.enable_x64(True):
        at = (jnp.array(draws, jnp.float64), jnp.array(sizes, jnp.float64))
        log_ratio = jax.jit(halving._log_ratio)(*at)
    np.testing.assert_allclose(log_ratio, expected, atol=2e-12)


def test_halves_of_few_and_of_many(key):
    """Cell by cell at 1, 31, 64 (coins) and 65, 200 (rejection), by moments up to 2**53.

    30,000 draws detect a cell that is off by 11 standard errors.
    """
    sizes = [1, 31, 64, 65, 200, 10**6, 10**12, 2**53]
    draws = 30_000
    with jax.enable_x64(True):
        n = jnp.repeat(jnp.array(sizes, jnp.float64), draws)
        drawn = np.asarray(jax.jit(halving.halve)(key, n)).reshape(len(sizes), draws)
    for size, row in zip(sizes[:5], drawn, strict=False):
        law = np.array([math.comb(size, k) / 2**size for k in range(size + 1)])
        seen = np.bincount(row.astype(int), minlength=size + 1)
        stats.check_multinomial(seen, law)
        moved = [math.comb(size, k) * 0.47**k * 0.53 ** (size - k) for k in range(size + 1)]
        stats.must_fail(stats.check_multinomial, seen, moved)
    large = (drawn[3:] - np.array(sizes[3:])[:, None] / 2) / np.sqrt(np.array(sizes[3:]) / 4)[
        :, None
    ]
    ones, zeros = np.ones(len(large)), np.zeros(len(large))
    stats.check_mean(large.T, zeros, variance=ones)
    stats.check_variance(large.T, ones, mean=zeros, kurtosis=3.1)
    stats.must_fail(stats.check_variance, 1.2 * large.T, ones, mean=zeros, kurtosis=3.1)


def test_halves_are_edges_and_their_own(key):
    """0 gives 0; a lane's draw depends on its n and place alone."""
    with jax.enable_x64(True):
        n = jnp.array([0.0, 1e5, 7.0, 3e9] * 8)
        halve = jax.jit(halving.halve)
        drawn, other = np.asarray(halve(key, n)), np.asarray(halve(key, n.at[4:].set(70.0)))
    assert np.all(drawn[::4] == 0)
    assert np.all((drawn >= 0) & (drawn <= np.asarray(n)))
    np.testing.assert_array_equal(other[:4], drawn[:4])


def test_halves_for_a_key_are_the_stored_ones():
    """No law tells which lanes of a normal are tested: one in 2n."""
    with jax.enable_x64(True):
        n = jnp.resize(jnp.array([1.0, 64, 65, 66, 100, 3000, 1e6, 2.0**53]), (8192,))
        drawn = np.asarray(jax.jit(halving.halve)(jax.random.key(7), n))
    assert zlib.crc32(drawn.astype(np.int64).tobytes()) == STORED
