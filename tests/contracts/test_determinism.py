"""The same bits for any block size, mesh, number of processes, and order of merging."""

import jax
import numpy as np
import pytest

import jaxdp
from tests.contracts.registry import PROTOCOLS, ids


def mesh_of(devices: int):
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((devices,), ("users",), axis_types=auto, devices=jax.devices()[:devices])


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
@pytest.mark.parametrize("kind", ["values", "histogram", "distribution"])
def test_bits_do_not_depend_on_devices_or_blocks(case, kind, key):
    counts = np.array(case.counts) * 71
    if kind == "values":
        array = np.repeat(case.user_values(), counts)
        bins = None if case.values else len(counts)
        population = jaxdp.Population.from_values(array, num_values=bins)
    elif kind == "histogram":
        population = jaxdp.Population.from_histogram(counts, case.inputs)
    else:
        p = counts / counts.sum()
        population = jaxdp.Population.from_distribution(p, int(counts.sum()), case.inputs)
    spec = case.make(1.0)
    expected = jaxdp.run(spec, population, key, method="per_user")
    for block_size in (2**15, 2**16, 2**17):
        found = jaxdp.run(spec, population, key, method="per_user", block_size=block_size)
        np.testing.assert_array_equal(found, expected)
    for devices in (1, 2, 4, 8):
        mesh = mesh_of(devices)
        found = jaxdp.run(spec, population, key, method="per_user", mesh=mesh)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", PROTOCOLS, ids=ids)
def test_given_and_counted_users_are_the_same_users(case, key):
    """An array in the order of the bins is the histogram's population, user by user."""
    counts = np.array(case.counts)
    bins = None if case.values else len(counts)
    array = np.repeat(case.user_values(), counts)
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
    for batch in (1, 2, 7):
        again = jaxdp.simulate(
            spec, population, key, num_trials=7, method="per_user", trial_batch=batch
        )
        np.testing.assert_allclose(again.estimates, trials.estimates, rtol=1e-12)
    for t in (0, 6):
        alone = jaxdp.run(spec, population, jax.random.fold_in(key, t), method="per_user")
        np.testing.assert_allclose(trials.estimates[t], alone, rtol=1e-12)
