"""Tallies of floats: the same bits for any mesh and block size, within the documented rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.engine import stream_tally
from jaxdp.engine._plan import logical_block
from jaxdp.engine._stream import DEFAULT_FIXED_BITS
from jaxdp.random import Count, Fixed
from tests.engine.probes import Noisy, mesh_of
from tests.marks import slow

DIMENSION = 3
BLOCK = logical_block(Noisy().num_words)


def vectors(n: int) -> np.ndarray:
    """Numbers of many magnitudes, so that another order of summation rounds differently."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, DIMENSION)) * 10.0 ** rng.uniform(-4, 3, size=(n, DIMENSION))
    return x.astype(np.float32)


def population_of(kind: str, n: int) -> jaxdp.Population:
    if kind == "array":
        return jaxdp.Population.from_values(vectors(n))
    bins = vectors(7)
    if kind == "histogram":
        return jaxdp.Population.from_histogram(np.full(7, n // 7), bins)
    return jaxdp.Population.from_distribution(np.full(7, 1 / 7), n, bins)


def test_another_order_would_round_differently():
    """Negative control: plain float32 sums of these numbers do depend on their order."""
    x = vectors(5000)
    forward, backward = (np.cumsum(a, axis=0, dtype=np.float32)[-1] for a in (x, x[::-1]))
    assert np.any(forward != backward)


@pytest.mark.parametrize(
    ("kind", "n", "meshes"),
    [
        ("array", 100, (1, 4)),
        slow("array", 2 * BLOCK + 777, (1, 2, 4, 8)),
        slow("histogram", 2 * BLOCK + 777, (8,)),
        slow("distribution", 2 * BLOCK + 777, (8,)),
    ],
)
def test_bits_do_not_depend_on_devices_or_blocks(kind, n, meshes, key):
    population = population_of(kind, n)
    expected = jaxdp.run(Noisy(), population, key)
    assert expected[-1] == population.num_users
    for block_size in (BLOCK, 4 * BLOCK, 2**17):
        found = jaxdp.run(Noisy(), population, key, block_size=block_size)
        np.testing.assert_array_equal(found, expected)
    for devices in meshes:
        found = jaxdp.run(Noisy(), population, key, mesh=mesh_of(devices))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n", [100, slow(2 * BLOCK + 777)])
def test_trials_are_the_runs_bits(n, key):
    population = population_of("array", n)
    trials = jaxdp.simulate(Noisy(), population, key, num_trials=3)
    batched = jaxdp.simulate(Noisy(), population, key, num_trials=3, trial_batch=3)
    np.testing.assert_array_equal(batched.estimates, trials.estimates)
    for t in range(3):
        alone = jaxdp.run(Noisy(), population, jax.random.fold_in(key, t))
        np.testing.assert_array_equal(trials.estimates[t], alone)


def test_sum_is_within_the_documented_rounding(key):
    """Each block sum of float32 terms moves by 2**-21 at most when it is made fixed-point."""
    n = 2 * BLOCK + 777
    population = jaxdp.Population.from_values(np.zeros((n, DIMENSION), np.float32))
    stream = jaxdp.random.stream(key, jaxdp.random.ROUND)
    words = jaxdp.random.words(stream, Count.of(0), n, DIMENSION).T
    terms = np.asarray(jax.vmap(Noisy().noise)(words), np.float64)
    blocks = -(-n // BLOCK)
    in_float32 = sum(
        2.0**-23 * np.cumsum(np.abs(terms[i * BLOCK : (i + 1) * BLOCK]), axis=0).sum(axis=0)
        for i in range(blocks)
    )
    found = jaxdp.run(Noisy(), population, key)[:DIMENSION]
    allowed = blocks * 2.0 ** -(DEFAULT_FIXED_BITS + 1) + in_float32
    assert np.all(np.abs(found - terms.sum(axis=0)) <= allowed)


def test_integral_sums_are_exact(key):
    """Whole numbers are on the grid; beyond 2**24 only the sum of a block must be a float32."""
    population = jaxdp.Population.from_histogram(
        [2**20, 2**20], np.float32([[1.0] * 3, [15.0] * 3])
    )

    class Silent(Noisy):
        def noise(self, words):
            return jnp.zeros(words.shape, jnp.float32)

    jax.tree_util.register_dataclass(Silent, data_fields=[], meta_fields=["num_words"])
    found = jaxdp.run(Silent(), population, key)
    np.testing.assert_array_equal(found, [2.0**24] * 3 + [2.0**21])


@pytest.mark.parametrize("bits", [0, 8, 20, 30])
def test_fixed_rounds_to_the_nearest_unit_and_adds_exactly(bits, rng):
    x = (rng.normal(size=500) * 1000).astype(np.float32)
    with jax.enable_x64(True):
        fixed = np.asarray(Fixed.of(jnp.asarray(x), bits).f64())
        units = Fixed.of(jnp.asarray(x), bits).units.numpy()
        assert np.all(np.abs(fixed - x.astype(np.float64)) <= 2.0 ** -(bits + 1))
        np.testing.assert_array_equal(fixed, units / 2.0**bits)
        both = Fixed.of(jnp.asarray(x), bits) + Fixed.of(jnp.asarray(x[::-1].copy()), bits)
        np.testing.assert_array_equal(both.f64(), fixed + fixed[::-1])


def test_params_choose_the_grid(key):
    """`fixed_bits` of the params sets the grid: coarse units show in the sum."""

    class Coarse(Noisy):
        fixed_bits = 0

    jax.tree_util.register_dataclass(Coarse, data_fields=[], meta_fields=["num_words"])
    population = jaxdp.Population.from_values(np.full((10, 3), 0.26, np.float32))
    tally = stream_tally(Coarse(), population, key, mesh=None, block_size=None)
    assert tally["sum"].bits == 0
    assert isinstance(tally["users"], Count)
    assert int(tally["users"]) == 10
