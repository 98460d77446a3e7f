"""L2Ball: constants, the law of a report, and the sub-Gaussian constant."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from jaxdp.randomizers._l2_ball import L2Ball
from tests import stats
from tests.randomizers.test_priv_unit import check_covariance


def test_golden_magnitude():
    np.testing.assert_allclose(L2Ball(4, 1.0).magnitude, 5.09869511, rtol=1e-7)
    np.testing.assert_allclose(L2Ball(1, 1.0).magnitude, 1 / math.tanh(0.5), rtol=1e-7)


def test_epsilon_is_spent_until_float32_ends():
    for epsilon in (1e-4, 0.01, 1.0, 10.0):
        assert epsilon * (1 - 1e-4) <= L2Ball(3, epsilon).exact_epsilon() <= epsilon
    assert 17.3 < L2Ball(3, 30.0).exact_epsilon() < 17.4
    np.testing.assert_allclose(L2Ball(3, 30.0).magnitude, 2.0, rtol=2e-7)


def test_threshold_and_side():
    """The report is V or -V, on the side of the input exactly for the words below the threshold."""
    params = L2Ball(2, 1.0, radius=2.0).build()
    words = jnp.array(
        [[w, 3 * 2**30, 2**29, 0] for w in (0, 2**31 - 1, 2**31, 2**32 - 1)], jnp.uint32
    )

    def vector(words, value):
        return params.from_bits(words, value).astype(jnp.float32) / params.grid

    report = jax.vmap(vector, (0, None))
    sides = np.sign(report(words, jnp.array([0.0, 0.0])) @ np.array([1.0, 0.0], np.float32))
    np.testing.assert_array_equal(sides, [1, 1, -1, -1])
    value = jnp.array([0.0, -1.0])  # half the radius
    limit = int(params.limit)
    for word, side in ((2**31 + limit // 2 - 1, 1), (2**31 + limit // 2, -1)):
        found = vector(words[0].at[0].set(np.uint32(word)), value)
        assert np.sign(found @ value) == side
    np.testing.assert_allclose(np.linalg.norm(report(words, value), axis=1), 1, rtol=1e-3)
    same = params.from_bits(words[0], jnp.array([0.0, -2.0]))
    for outside in ([0.0, -5.0], [0.0, -1e30], [0.0, -np.inf]):
        np.testing.assert_array_equal(params.from_bits(words[0], jnp.array(outside)), same)
    at_zero = params.from_bits(words[0], jnp.zeros(2))
    np.testing.assert_array_equal(params.from_bits(words[0], jnp.array([np.nan, 1.0])), at_zero)


@pytest.mark.parametrize("dim", [2, 3, 50])
def test_sub_gaussian_scale(dim):
    """`E exp(<Y, v>**2 / s**2)` by quadrature; it is even in Y, so the input does not matter."""
    ball = L2Ball(dim, 1.0, radius=3.0)
    s, length = ball.sub_gaussian_scale(), 3.0 * ball.magnitude
    norm = special.beta(0.5, (dim - 1) / 2)

    def moment(s):
        def integrand(angle):
            grown = math.exp((length * math.sin(angle) / s) ** 2)
            return math.cos(angle) ** (dim - 2) / norm * grown

        half, _ = integrate.quad(integrand, 0, math.pi / 2)
        return 2 * half

    assert 1.4 < moment(s) <= 2.0
    assert moment(s * 0.7) > 2.0


@pytest.mark.slow
def test_vector_across_a_zero_input_is_uniform(key):
    """Angles of 100,000 reports of the zero vector; detects a distance of 0.012."""
    params = L2Ball(2, 3.0).build()
    reports = jax.vmap(params.privatize, (0, None))(jax.random.split(key, 100_000), np.zeros(2))
    angles = np.arctan2(*np.asarray(reports, np.float64).T)
    stats.check_cdf(angles, lambda a: (a + math.pi) / (2 * math.pi))
    stats.must_fail(stats.check_cdf, np.abs(angles), lambda a: (a + math.pi) / (2 * math.pi))


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 3, 4, 8, 64, 512])
def test_covariance(dim, key):
    value = np.zeros(dim, np.float32)
    value[0], value[-1] = 0.6, -0.7
    check_covariance(L2Ball(dim, 2.0), value, key, 10**6)
