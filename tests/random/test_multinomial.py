"""multinomial: joint laws, totals up to 2**53, edge cases and bad input."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp.random import Count, multinomial, multinomials
from tests import stats
from tests.marks import slow
from tests.random.laws import check_moments


@pytest.mark.parametrize(("n", "weights"), [(3, (0.5, 0.0, 0.1, 0.2, 0.3)), slow(6, (1e-3, 1.0))])
def test_joint_law(key, n, weights):
    """All outcomes, by enumeration; a permutation of the weights is caught."""
    outcomes = [x for x in itertools.product(range(n + 1), repeat=len(weights)) if sum(x) == n]

    def law(weights):
        p = np.array(weights) / sum(weights)
        ways = np.array([math.factorial(n) / math.prod(map(math.factorial, x)) for x in outcomes])
        return ways * np.prod(p ** np.array(outcomes), axis=1)

    draws = multinomial(key, np.full(20_000, n), np.array(weights)).numpy()
    index = {x: i for i, x in enumerate(outcomes)}
    seen = np.bincount([index[tuple(x)] for x in draws.tolist()], minlength=len(outcomes))
    stats.check_multinomial(seen, law(weights))
    stats.must_fail(stats.check_multinomial, seen, law(weights[::-1]))


@pytest.fixture(scope="module")
def tables() -> np.ndarray:
    """int64[trials, cells]: 10**12 users over 100 cells of weights 1, ..., 100."""
    keys = jax.random.split(jax.random.key(0x3D), 400)
    weights = np.arange(1.0, 101.0)
    return jax.jit(jax.vmap(lambda key: multinomial(key, 10**12, weights)))(keys).numpy()


@pytest.mark.slow
def test_large_law(tables):
    """Checks the joint law of the cells, summed over trials, and the moments of each cell."""
    assert np.all(tables.sum(1) == 10**12)
    p = np.arange(1.0, 101.0) / 5050
    stats.check_multinomial(tables.sum(0), p)
    for cell in (0, 50, 99):
        variance = 1e12 * p[cell] * (1 - p[cell])
        check_moments(tables[:, cell], 1e12 * p[cell], variance, 3.01, cells=3)


def test_controls(tables):
    """Weights that are off by 2e-5 in one cell, and float32 draws, are caught."""
    p = np.arange(1.0, 101.0) / 5050
    off = p.copy()
    off[[3, 77]] += np.array([2e-5, -2e-5]) * p[77]
    stats.must_fail(stats.check_multinomial, tables.sum(0), off)
    single = np.random.default_rng(0).normal(p * 10**12, np.sqrt(p * 10**12), tables.shape)
    variance = 1e12 * p[99] * (1 - p[99])
    rounded = single.astype(np.float32)[:, 99] * 1.0
    coarse = np.round(rounded / 2**19) * 2**19
    stats.must_fail(check_moments, coarse, 1e12 * p[99], variance, 3.01)


@pytest.mark.slow
def test_many_cells(key):
    """More cells than users, and a number of cells that is no power of two."""
    x = multinomial(key, 1000, np.ones(5000)).numpy()
    assert x.sum() == 1000
    # 1000 users share cells 1000^2 / (2·5000) = 100 times, a sum of nearly independent events.
    pairs = (x * (x - 1) // 2).sum()
    stats.check_mean([pairs], 1000 * 999 / 2 / 5000, variance=99.88, scale=3.0)


def test_several_draw_what_each_draws_alone(key):
    """Of one cell, of cells that are no power of two, of rows, and of the deepest tree."""
    tables = np.random.default_rng(0).uniform(size=(2, 5)), np.ones(70), [2.5], [0.0, 1.0, 3.0]
    totals = np.array([10**9, 17]), 10**12, 7, np.full((2, 2), 50)
    draws = list(zip(jax.random.split(key, 4), totals, tables, strict=True))
    for together in (multinomials(draws), jax.jit(lambda: multinomials(draws))()):
        for drawn, one in zip(together, draws, strict=True):
            assert np.array_equal(drawn.numpy(), multinomial(*one).numpy())
    assert multinomials([]) == []


def test_edge_cases(key):
    assert multinomial(key, 7, [2.5]).numpy().tolist() == [7]
    n = Count.of([0, 2**53, 5])
    weights = np.array([[0.0, 0.0, 0.0], [0.0, 1e-300, 0.0], [1e300, 1e300, 0.0]])
    x = multinomial(key, n, weights).numpy()
    assert x[0].tolist() == [0, 0, 0]
    assert x[1].tolist() == [0, 2**53, 0]
    assert (x[2].sum(), x[2, 2]) == (5, 0)


@pytest.mark.parametrize(
    ("n", "weights", "message"),
    [
        (-1, [1.0], "n must be in"),
        (2**53 + 1, [1.0], "n must be in"),
        (1, [1.0, -1e-9], "weights must be in"),
        (1, [1.0, 1e301], "weights must be in"),
        (1, [1.0, np.nan], "weights must be in"),
        (1, [0.0, 0.0], "weights must not be all 0"),
        (1, 1.0, "weights must have"),
        (1, [], "weights must have"),
        ([1, 2], np.ones((3, 2)), "n and weights must broadcast together"),
    ],
)
def test_bad_input(key, n, weights, message):
    with pytest.raises(ValueError, match=message):
        multinomial(key, n, weights)


def test_traced_bad_input_is_minus_one_and_ends(key):
    n = Count.of([4, 4, 4, -4, 4])
    weights = jnp.array([[1, jnp.nan], [1, -1], [0, 0], [1, 1], [1, jnp.inf]], jnp.float32)
    assert np.all(jax.jit(multinomial)(key, n, weights).numpy() == -1)
