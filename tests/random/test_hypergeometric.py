"""hypergeometric and multivariate_hypergeometric: laws, edge cases and bad input."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as distributions

from jaxdp.random import Count, hypergeometric, multivariate_hypergeometric
from jaxdp.random._hypergeometric import _Hat
from jaxdp.random._log_pmf import deviance
from tests import stats
from tests.random import exact
from tests.random.laws import check_law, check_moments

DRAWS = 40_000
LAWS = [
    (1, 1, 1), (3, 4, 2), (5, 20, 21), (40, 60, 25), (60, 40, 75), (1000, 10, 500), (30, 2000, 700),
    (500, 500, 500), (10**4, 10**6, 2000), (10**6, 10**4, 10**6), (10**6, 10**6, 10**5),
]  # fmt: skip
# Where scipy's distribution function takes too long: moments only.
HUGE_LAWS = [
    (10**12, 10**12, 10**12), (10**12, 3 * 10**11, 10**7), (10**12, 10**6, 10**7),
    (10**12, 30, 5 * 10**11), (2**52, 2**52, 2**52), (2**53 - 2**40, 2**40, 2**52),
]  # fmt: skip


def moments(good: int, bad: int, draws: int) -> tuple[float, float]:
    """Mean and variance."""
    total = good + bad
    mean = draws * good / total
    return mean, mean * (bad / total) * ((total - draws) / (total - 1))


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """int64[laws, draws]; one program for all laws."""
    laws = np.array(LAWS + HUGE_LAWS)[:, :, None]
    good, bad, number = (np.broadcast_to(laws[:, i], (len(laws), DRAWS)) for i in range(3))
    return hypergeometric(jax.random.key(0x49), good, bad, number).numpy()


@pytest.mark.parametrize("row", range(len(LAWS)), ids=lambda row: str(LAWS[row]))
def test_law(draws, row):
    good, bad, number = LAWS[row]
    check_law(draws[row], distributions.hypergeom(good + bad, good, number))


@pytest.mark.parametrize("row", range(len(HUGE_LAWS)), ids=lambda row: str(HUGE_LAWS[row]))
def test_huge_law(draws, row):
    good, bad, number = HUGE_LAWS[row]
    rarer, sample = min(good, bad), min(number, good + bad - number)
    x = draws[len(LAWS) + row]
    x = x if number == sample else good - x  # how many of `sample` ...
    x = x if good == rarer else sample - x  # ... are of the rarer kind
    mean, variance = moments(rarer, good + bad - rarer, sample)
    # A hypergeometric variable is a sum of independent indicators: 3 + 1 / variance.
    check_moments(x, mean, variance, 3 + 1 / variance)


def test_controls(draws):
    """Draws with replacement, and a law with one good one less, are caught."""
    good, bad, number = LAWS[7]
    binomial = distributions.binom(number, good / (good + bad))
    stats.must_fail(check_law, draws[7], binomial)
    good, bad, number = LAWS[3]
    stats.must_fail(check_law, draws[3], distributions.hypergeom(good + bad, good - 1, number))


def test_edge_cases(key):
    good = np.array([0, 0, 5, 5, 2**52, 7, 0])
    bad = np.array([0, 5, 0, 5, 2**52, 3, 2**53])
    number = np.array([0, 3, 3, 10, 2**53, 0, 2**40])
    expected = [0, 0, 3, 5, 2**52, 0, 0]
    assert hypergeometric(key, good, bad, number).numpy().tolist() == expected


@pytest.mark.slow
def test_multivariate_law(key):
    """The joint law of all tables, by enumeration."""
    shape, number = (1, 0, 2, 1, 3), 3
    tables = [t for t in itertools.product(*(range(c + 1) for c in shape)) if sum(t) == number]
    ways = np.array([math.prod(map(math.comb, shape, t)) for t in tables])
    x = multivariate_hypergeometric(key, np.array(shape), np.full(20_000, number)).numpy()
    index = {t: i for i, t in enumerate(tables)}
    seen = np.bincount([index[tuple(row)] for row in x.tolist()], minlength=len(tables))
    stats.check_multinomial(seen, ways / math.comb(sum(shape), number))


def test_multivariate_totals(key):
    counts = np.array([2**50, 0, 3, 10**12, 17, 0, 2**51])
    x = multivariate_hypergeometric(key, counts, [0, 1, 10**15, int(counts.sum())]).numpy()
    assert np.array_equal(x.sum(1), [0, 1, 10**15, counts.sum()])
    assert np.all((x >= 0) & (x <= counts))
    assert np.array_equal(x[3], counts)


@pytest.mark.parametrize(
    ("good", "bad", "number", "message"),
    [
        (-1, 5, 2, "good must be in"),
        (5, 2**53 + 1, 2, "bad must be in"),
        (5, 5, 11, "draws must be at most good"),
        (2**53, 1, 2, "must be at most 2"),
        ([5, 5], [5, 5, 5], 2, "good and bad and draws must broadcast together"),
    ],
)
def test_bad_input(key, good, bad, number, message):
    with pytest.raises(ValueError, match=message):
        hypergeometric(key, good, bad, number)


def test_multivariate_bad_input(key):
    with pytest.raises(ValueError, match="draws must be at most the sum of counts"):
        multivariate_hypergeometric(key, [1, 2], 4)
    with pytest.raises(ValueError, match="counts must be in"):
        multivariate_hypergeometric(key, [1, -2], 0)
    with pytest.raises(ValueError, match="counts must have an axis of kinds"):
        multivariate_hypergeometric(key, 2, 0)
    with pytest.raises(ValueError, match="draws and counts must broadcast together"):
        multivariate_hypergeometric(key, np.ones((3, 2), int), [1, 1])


def test_traced_bad_input_is_minus_one_and_ends(key):
    good, bad, number = (Count.of(x) for x in ([5, -1, 2**53], [5, 5, 1], [11, 2, 3]))
    assert jax.jit(hypergeometric)(key, good, bad, number).numpy().tolist() == [-1] * 3
    table = jax.jit(multivariate_hypergeometric)(key, Count.of([1, 2]), Count.of([4, 3])).numpy()
    assert table.tolist() == [[-1, -1], [1, 2]]


@pytest.mark.parametrize("total", [60, 10**3, 10**6, 10**9, 10**12, 2**53])
@pytest.mark.parametrize(("good_share", "drawn_share"), [(0.5, 0.5), (0.4, 0.45), (0.1, 0.3)])
def test_log_pmf(total, good_share, drawn_share):
    """Log-probabilities within 7 standard deviations, against 60 digits."""
    good, number = int(total * good_share), int(total * drawn_share)
    if good * number < 10 * total:
        pytest.skip("sequential search serves this law")
    with jax.enable_x64(True):
        hat = _Hat.of(*(jnp.full(16, float(x)) for x in (total, good, number)))
        center = int(hat.center[0])
        spread = np.sqrt(moments(good, total - good, number)[1])
        deviations = (np.linspace(-7, 7, 15) * spread).astype(np.int64)
        k = np.clip(center + deviations, 0, min(good, number))
        log_pmf = hat._log_pmf(jnp.asarray([*(k - center), 0], jnp.float64), deviance)
        got = log_pmf[:-1] - log_pmf[-1]
    log_center = exact.log_hypergeometric(center, good, total - good, number)
    expected = [
        float(exact.log_hypergeometric(int(x), good, total - good, number) - log_center) for x in k
    ]
    np.testing.assert_allclose(got, expected, rtol=0, atol=4e-12 + 2.0**-49 * np.sqrt(total))


@pytest.mark.parametrize("total", [45, 100, 10**6])
def test_rectangle_covers_the_region(total):
    """No accepted point of the ratio of uniforms has |y - 1/2| > 1/2 or x > 1."""
    with jax.enable_x64(True):
        slope = jnp.linspace(-40, 40, 100_001, dtype=jnp.float64)  # (y - 1/2) / x
        for share, drawn in [(0.5, 0.5), (0.5, 0.3), (0.3, 0.4), (0.1, 0.5), (0.01, 0.2)]:
            good, number = np.floor(total * share), np.floor(total * drawn)
            if good * number < 10 * total:
                continue
            hat = _Hat.of(*(jnp.full_like(slope, x) for x in (total, good, number)))
            offset = jnp.floor(hat.width * slope + (hat.fraction + 0.5))
            draw = hat.center + offset
            inside = (draw >= 0) & (draw <= min(good, number))
            log_pmf = hat._log_pmf(jnp.where(inside, offset, 0.0), deviance) - hat.mode
            x = jnp.where(inside, jnp.exp(log_pmf / 2), 0.0)
            assert np.max(x) <= 1 + 1e-12
            assert np.max(x * jnp.abs(slope)) <= 0.5
