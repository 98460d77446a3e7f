"""binomial: laws from one trial to 2**53, edge cases and bad input."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as distributions

from jaxdp.random import Count, binomial, binomials
from jaxdp.random._binomial import _Hat
from jaxdp.random._log_pmf import deviance
from tests import stats
from tests.random import exact
from tests.random.laws import check_law, check_moments

DRAWS = 50_000
# Both methods, both sides of p = 1/2 and of n·p = 10; 40 and 0.24999 are close to that border.
LAWS = [
    (1, 0.3), (2, 0.5), (7, 0.9), (40, 0.24999), (40, 0.25), (100, 0.02), (100, 0.5), (1000, 0.999),
    (1000, 0.3), (10**6, 1e-6), (10**6, 3e-5), (10**6, 0.4), (10**9, 1e-9), (10**9, 0.7),
    (10**12, 1e-12), (10**12, 1e-9), (10**12, 0.5), (10**12, 1 / 3), (2**53, 1e-15), (2**53, 0.01),
]  # fmt: skip


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """int64[laws, draws]; one program for all laws."""
    n, p = np.array(LAWS).T
    key = jax.random.key(0xB1)
    shape = (len(LAWS), DRAWS)
    return binomial(key, n.astype(np.int64)[:, None], np.broadcast_to(p[:, None], shape)).numpy()


@pytest.mark.parametrize("row", range(len(LAWS)), ids=lambda row: "n={}-p={}".format(*LAWS[row]))
def test_law(draws, row):
    n, p = LAWS[row]
    check_law(draws[row], distributions.binom(n, p))
    q = 1 - p
    check_moments(draws[row], n * p, n * p * q, 3 + 1 / (n * p * q))


def test_lanes_are_independent(draws):
    """Products of neighbours and of different rows: uncorrelated."""
    n, p = np.array(LAWS).T[:, :, None]
    variance = n * p * (1 - p)
    z = ((draws - n * p) / np.sqrt(variance))[variance[:, 0] > 5]
    stats.check_mean((z[:, :-1] * z[:, 1:]).T, 0.0, variance=1.0, cells=2)
    stats.check_mean((z[:-1] * z[1:]).T, 0.0, variance=1.0, cells=2)


def test_controls(draws, key):
    """What these tests are for: float32 draws, and offsets of the size that is claimed."""
    n, p = 10**8, 0.3
    single = np.asarray(jax.random.binomial(key, n, p, (DRAWS,)), np.int64)
    law = distributions.binom(n, p)
    stats.must_fail(check_law, single, law)
    stats.must_fail(check_moments, single, n * p, n * p * (1 - p), 3.0)
    for row in (8, 13, 19):  # a mean that is off by 8 % of a standard deviation
        n, p = LAWS[row]
        off = distributions.binom(n, p + 0.08 * np.sqrt(p * (1 - p) / n))
        stats.must_fail(check_law, draws[row], off)


def test_edge_cases(key):
    n = Count.of([0, 5, 5, 2**53, 2**53, 1])
    x = binomial(key, n, [0.3, 0.0, 1.0, 1.0, 0.0, 1e-300]).numpy()
    assert x.tolist() == [0, 0, 5, 2**53, 0, 0]
    assert jax.eval_shape(binomial, key, np.ones((4, 1), np.int64), np.ones(3)).shape == (4, 3)
    assert jax.eval_shape(binomial, key, 3, 0.5).shape == ()
    assert jax.eval_shape(binomial, key, np.zeros((2, 0), np.int64), 0.5).shape == (2, 0)


def test_full_precision_of_p_in_a_32_bit_program(key):
    """float32(0.1) is off by 1.5e-9: fifteen standard deviations at n = 2**53."""
    n, p = 2**53, 0.1
    x = jax.jit(lambda key: binomial(key, np.full(1000, n), p))(key).numpy()
    check_moments(x, n * p, n * p * (1 - p), 3.0)
    stats.must_fail(check_moments, x, n * float(np.float32(p)), n * p * (1 - p), 3.0)


@pytest.mark.parametrize(
    ("n", "p", "error", "message"),
    [
        (-1, 0.5, ValueError, "n must be in"),
        (2**53 + 1, 0.5, ValueError, "n must be in"),
        (1.5, 0.5, TypeError, "integers"),
        (1, -0.1, ValueError, "p must be in"),
        (1, [0.5, 1.1], ValueError, "p must be in"),
        (1, np.nan, ValueError, "p must be in"),
        ([1, 2], [0.1, 0.2, 0.3], ValueError, "n and p must broadcast together"),
    ],
)
def test_bad_input(key, n, p, error, message):
    with pytest.raises(error, match=message):
        binomial(key, n, p)


def test_traced_bad_input_is_minus_one_and_ends(key):
    n = Count.of([-1, 4, 4, 4, 2**53 + 2])
    p = jnp.array([0.5, jnp.nan, -0.1, 1.5, 0.5], jnp.float32)
    assert jax.jit(binomial)(key, n, p).numpy().tolist() == [-1] * 5


@pytest.mark.parametrize("n", [20, 100, 10**3, 10**6, 10**9, 10**12, 2**53])
@pytest.mark.parametrize("p", [0.5, 0.3, 0.01])
def test_log_pmf(n, p):
    """Log-probabilities within 7 standard deviations, against 60 digits."""
    if n * p < 10:
        pytest.skip("sequential search serves this law")
    with jax.enable_x64(True):
        hat = _Hat.of(jnp.full(15, float(n)), jnp.full(15, p))
        mode = int(hat.center[0] + jnp.floor(hat.fraction[0] + p))
        deviations = np.linspace(-7, 7, 15) * np.sqrt(n * p * (1 - p))
        k = np.clip(mode + deviations.astype(np.int64), 0, n)
        got = hat._log_pmf(jnp.asarray(k - int(hat.center[0]), jnp.float64), deviance) - hat.mode
    exact_p = Fraction(p)
    log_mode = exact.log_binomial(mode, n, exact_p)
    expected = [float(exact.log_binomial(int(x), n, exact_p) - log_mode) for x in k]
    # The rounding of n·p moves the law by 2**-53 n p / sqrt(n p q) standard deviations.
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-12 + 2.0**-50 * np.sqrt(n))


@pytest.mark.parametrize("mean", [10, 10.7, 15, 100, 1e5])
def test_hat_dominates(mean):
    """No point above the hat is accepted, and most of those well below it are."""
    with jax.enable_x64(True):
        u = (jnp.arange(100_001) / 100_001).astype(jnp.float64)
        for p in (0.5, 0.4, 0.1, 1e-6):
            hat = _Hat.of(jnp.full_like(u, np.ceil(mean / p)), jnp.full_like(u, p))
            assert not np.any(hat.attempt(u, jnp.zeros_like(u))[1])
            low = 1 - (0.92 - 4.2 / hat.width)
            assert np.mean(hat.attempt(u, low)[1]) > 0.85


def test_several_draw_what_each_draws_alone(key):
    numbers = np.array([[10**9, 3], [0, 10**12]]), 1000, np.arange(300)
    chances = np.array([0.3, 0.7]), 0.001, 0.5
    draws = list(zip(jax.random.split(key, 3), numbers, chances, strict=True))
    for drawn, one in zip(binomials(draws), draws, strict=True):
        assert np.array_equal(drawn.numpy(), binomial(*one).numpy())
    assert binomials([]) == []
