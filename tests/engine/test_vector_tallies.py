"""Tallies of vectors: exact sums, the same bits for any mesh and block size."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.random import Count
from tests.engine.probes import Noisy, mesh_of
from tests.marks import slow

DIMENSION = 3
BLOCK = 2**12


def vectors(n: int) -> np.ndarray:
    """Whole numbers of many magnitudes."""
    rng = np.random.default_rng(n)
    magnitude = 10.0 ** rng.uniform(0, 8, size=(n, DIMENSION))
    return np.rint(rng.uniform(-1, 1, size=(n, DIMENSION)) * magnitude).astype(np.float32)


def population_of(kind: str, n: int) -> jaxdp.Population:
    if kind == "array":
        return jaxdp.Population.from_values(vectors(n))
    bins = vectors(7)
    if kind == "histogram":
        return jaxdp.Population.from_histogram(np.full(7, n // 7), bins)
    return jaxdp.Population.from_distribution(np.full(7, 1 / 7), n, bins)


@pytest.mark.parametrize(
    ("kind", "n", "meshes"),
    [
        ("array", 100, (1, 4)),
        ("array", 2 * BLOCK + 777, (4,)),
        slow("array", 2 * BLOCK + 777, (1, 2, 4, 8)),
        slow("histogram", 2 * BLOCK + 777, (8,)),
        slow("distribution", 2 * BLOCK + 777, (8,)),
    ],
)
def test_bits_do_not_depend_on_devices_or_blocks(kind, n, meshes, key):
    population = population_of(kind, n)
    expected = jaxdp.run(Noisy(), population, key)
    assert expected[-1] == population.num_users
    for block_size in (2**4, BLOCK, 4 * BLOCK, 2**17):
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


def test_sums_are_those_of_numpy(key):
    """Over 4 blocks; in float32 they would be off by thousands."""
    n = 4 * BLOCK
    values = vectors(n)
    stream = jaxdp.random.stream(key, jaxdp.random.Stream.ROUND)
    words = np.asarray(jaxdp.random.words(stream, Count.of(0), n, DIMENSION))
    terms = values.astype(np.int64) + ((words >> 8).astype(np.int64) - 2**23).T
    found = jaxdp.run(Noisy(), jaxdp.Population.from_values(values), key, block_size=BLOCK)
    np.testing.assert_array_equal(found, [*terms.sum(axis=0), n])
    assert np.any(terms.astype(np.float32).cumsum(axis=0, dtype=np.float32)[-1] != found[:3])
