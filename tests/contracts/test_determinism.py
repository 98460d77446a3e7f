"""The same bits for any block size, mesh, number of processes, and order of merging."""

import jax
import numpy as np
import pytest

import jaxdp
from tests.contracts.registry import PROTOCOLS, ids


def mesh_of(devices: int):
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((devices,), ("users",), axis_types=auto, devices=jax.devices()[:devices])


def population_of(case, kind: str) -> jaxdp.Population:
    counts = np.array(case.counts) * 71
    if kind == "values":
        array = np.repeat(case.user_values(), counts, axis=0)
        return jaxdp.Population.from_values(array, num_values=None if case.values else len(counts))
    if kind == "histogram":
        return jaxdp.Population.from_histogram(counts, case.inputs)
    p = counts / counts.sum()
    return jaxdp.Population.from_distribution(p, int(counts.sum()), case.inputs)


def check_same_bits(case, kind, key, block_sizes, devices):
    spec, population = case.make(1.0), population_of(case, kind)
    expected = jaxdp.run(spec, population, key, method="per_user")
    for block_size in block_sizes:
        found = jaxdp.run(spec, population, key, method="per_user", block_size=block_size)
        np.testing.assert_array_equal(found, expected)
    for count in devices:
        found = jaxdp.run(spec, population, key, method="per_user", mesh=mesh_of(count))
        np.testing.assert_array_equal(found, expected)


SHARES = {
    "values": ((2**16,), (2, 8)),
    "histogram": ((2**17,), (4,)),
    "distribution": ((2**15,), (1,)),
}
"""Block sizes and numbers of devices that every member is tested with, by kind of population."""


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
@pytest.mark.parametrize("kind", SHARES)
def test_bits_do_not_depend_on_devices_or_blocks(case, kind, key):
    check_same_bits(case, kind, key, *SHARES[kind])


@pytest.mark.slow
@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
@pytest.mark.parametrize("kind", SHARES)
def test_bits_do_not_depend_on_any_devices_or_blocks(case, kind, key):
    check_same_bits(case, kind, key, (2**15, 2**16, 2**17), (1, 2, 4, 8))


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_given_and_counted_users_are_the_same_users(case, key):
    """An array in the order of the bins is the histogram's population, user by user."""
    counts = np.array(case.counts)
    bins = None if case.values else len(counts)
    array = np.repeat(case.user_values(), counts, axis=0)
    given = jaxdp.Population.from_values(array, num_values=bins)
    spec = case.make(1.0)
    np.testing.assert_array_equal(
        jaxdp.run(spec, given, key, method="per_user"),
        jaxdp.run(spec, case.population(), key, method="per_user"),
    )


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_trials_are_runs_with_folded_keys(case, key):
    spec, population = case.make(1.0), case.population()
    trials = jaxdp.simulate(spec, population, key, num_trials=7, method="per_user")
    again = jaxdp.simulate(spec, population, key, num_trials=7, method="per_user", trial_batch=2)
    close = 1e-6 if case.density else 1e-12  # floats, up to how programs of other shapes round
    size = close * np.abs(trials.estimates).max()
    np.testing.assert_allclose(again.estimates, trials.estimates, rtol=close, atol=size)
    for t in (0, 6):
        alone = jaxdp.run(spec, population, jax.random.fold_in(key, t), method="per_user")
        np.testing.assert_allclose(trials.estimates[t], alone, rtol=close, atol=size)
