"""gamma and normal draws: laws from one exponential to 2**53 of them, edge cases, bad input."""

import decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as distributions

from jaxdp.random import Count
from jaxdp.random._gamma import gamma, log_accept, normal, normal_quantile
from tests import stats

DRAWS = 50_000
SHAPES = [1, 2, 10, 10**3, 10**6, 10**12]


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """float64[shapes, draws]; one program for all shapes."""
    shape = np.broadcast_to(np.array(SHAPES)[:, None], (len(SHAPES), DRAWS))
    with jax.enable_x64(True):
        return np.asarray(gamma(jax.random.key(0x6A), shape))


def check_gamma(x: np.ndarray, shape: int) -> None:
    """Distribution function, mean and variance; detects 7 % of a standard deviation."""
    stats.check_cdf(x, distributions.gamma(shape).cdf)
    z = (x - shape) / np.sqrt(shape)
    stats.check_mean(z, 0.0, variance=1.0)
    stats.check_variance(z, 1.0, mean=0.0, kurtosis=3 + 6 / shape)


@pytest.mark.parametrize("row", range(len(SHAPES)), ids=lambda row: f"{SHAPES[row]:g}")
def test_law(draws, row):
    shape = SHAPES[row]
    check_gamma(draws[row], shape)
    stats.must_fail(check_gamma, draws[row] + 0.08 * np.sqrt(shape), shape)
    stats.must_fail(check_gamma, shape + 1.15 * (draws[row] - shape), shape)


def test_lanes_are_independent(draws):
    shape = np.array(SHAPES)[:, None]
    z = (draws - shape) / np.sqrt(shape)
    stats.check_mean((z[:, :-1] * z[:, 1:]).T, 0.0, variance=1.0, cells=2)
    stats.check_mean((z[:-1] * z[1:]).T, 0.0, variance=1.0, cells=2)
    stats.must_fail(stats.check_mean, (z * (z + 0.1)).T, 0.0, variance=1.0)


def test_acceptance_against_60_digits():
    y = np.concatenate([s * np.logspace(-9, -0.01, 50) for s in (-1, 1)] + [[0.04, 0.0401, 4.0]])
    with jax.enable_x64(True):
        found = np.asarray(log_accept(jnp.asarray(y)))
    with decimal.localcontext(prec=60):
        exact = [decimal.Decimal(value) for value in y.tolist()]
        expected = [float(3 * ((1 + v).ln() - v + v**2 / 2 - v**3 / 3)) for v in exact]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=0)


def test_normal_draws(key):
    with jax.enable_x64(True):
        x = np.asarray(normal(key, (3, 20_001)))
        ends = np.asarray(normal_quantile(jnp.asarray([0.0, 1 - 2.0**-53, 0.5, 0.5 - 2.0**-53])))
    assert x.shape == (3, 20_001)
    stats.check_cdf(x.ravel(), distributions.norm.cdf)
    stats.check_mean(x[0] * x[1], 0.0, variance=1.0)
    stats.must_fail(stats.check_cdf, x.ravel() + 0.06, distributions.norm.cdf)
    np.testing.assert_allclose(ends[:2], [-8.2924, 8.2924], rtol=1e-4)
    assert ends[1] == -ends[0]
    assert ends[2] == -ends[3] > 0


def test_edge_cases(key):
    with jax.enable_x64(True):
        x = np.asarray(gamma(key, [0, 1, 2**53]))
    assert x.dtype == np.float64
    assert x[0] == 0
    assert x[1] > 0
    assert abs(x[2] / 2**53 - 1) < 1e-6
    assert jax.eval_shape(gamma, key, np.ones((4, 0), np.int64)).shape == (4, 0)
    narrow = jax.jit(gamma)(key, Count.of([0, 1, 10**6, -1, 2**53 + 2]))
    assert narrow.dtype == np.float32
    np.testing.assert_array_equal(narrow[jnp.array([0, 3, 4])], [0, -1, -1])


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        (-1, ValueError, "shape must be in"),
        (2**53 + 1, ValueError, "shape must be in"),
        (1.5, TypeError, "integers"),
    ],
)
def test_bad_input(key, shape, error, message):
    with pytest.raises(error, match=message):
        gamma(key, shape)
