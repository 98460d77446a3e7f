"""Meshes of both kinds of axes, inside of jit and outside, and runs inside `jax.shard_map`."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.randomizers import KRR

KRR3 = KRR(3, 1.0)
POPULATIONS = {
    "values": jaxdp.Population.from_values(np.arange(5000) % 3, num_values=3),
    "histogram": jaxdp.Population.from_histogram([1000, 2000, 2000]),
}
Axis = jax.sharding.AxisType


def two_devices(axes: Axis) -> jax.sharding.Mesh:
    return jax.make_mesh((2,), ("u",), axis_types=(axes,), devices=jax.devices()[:2])


@pytest.mark.parametrize("kind", POPULATIONS)
def test_mesh_of_explicit_axes(kind, key):
    alone = jaxdp.run(KRR3, POPULATIONS[kind], key, method="per_user")
    found = jaxdp.run(
        KRR3, POPULATIONS[kind], key, method="per_user", mesh=two_devices(Axis.Explicit)
    )
    np.testing.assert_array_equal(found, alone)


def test_values_that_lie_on_explicit_axes(key):
    mesh = two_devices(Axis.Explicit)
    values = jnp.arange(5000, dtype=jnp.int32) % 3
    alone = jaxdp.run(KRR3, POPULATIONS["values"], key, method="per_user")
    placed = jax.device_put(values, jax.NamedSharding(mesh, jax.P("u")))
    population = jaxdp.Population.from_values(placed, num_values=3)
    found = jaxdp.run(KRR3, population, key, method="per_user", mesh=mesh)
    np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize("axes", [Axis.Auto, Axis.Explicit])
@pytest.mark.parametrize("context", [False, True], ids=["", "set_mesh"])
def test_inside_jit_on_values_that_lie_on_a_mesh(axes, context, key):
    """Whose types tell the compiler how they lie, or leave it to it."""
    mesh = two_devices(axes)
    values = jax.device_put(np.arange(5000) % 3, jax.NamedSharding(mesh, jax.P("u")))
    alone = jaxdp.run(KRR3, POPULATIONS["values"], key, method="per_user")

    @jax.jit
    def run(values, key):
        population = jaxdp.Population.from_values(values, num_values=3)
        return jaxdp.run(KRR3, population, key, method="per_user", mesh=mesh)

    with jax.set_mesh(mesh) if context else contextlib.nullcontext():
        np.testing.assert_allclose(run(values, key), alone, rtol=1e-6)


def test_under_a_mesh_of_explicit_axes(key):
    """Whatever is made there, the key and the params included, and whoever reads it later."""
    mesh, values = two_devices(Axis.Explicit), np.arange(5000, dtype=np.int32) % 3
    expected = jaxdp.run(KRR3, POPULATIONS["values"], key, method="per_user")
    with jax.set_mesh(mesh):
        placed = jax.device_put(values, jax.P("u"))
        population = jaxdp.Population.from_values(placed, num_values=3)
        same = jax.random.wrap_key_data(jax.random.key_data(key))
        found = jaxdp.run(KRR3.build(), population, same, method="per_user", mesh=mesh)
        trials = jaxdp.simulate(KRR3, population, same, num_trials=1, method="per_user", mesh=mesh)
        np.testing.assert_array_equal(population.counts().numpy(), [1667, 1667, 1666])
        np.testing.assert_array_equal(population.at(jnp.array([4, 4999])), values[[4, 4999]])
        np.testing.assert_array_equal(population.block(7, 5)[0], values[7:12])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(trials.truth, [1667, 1667, 1666])
    np.testing.assert_array_equal(
        trials.estimates[0],
        jaxdp.run(KRR3, population, jax.random.fold_in(key, 0), method="per_user"),
    )


@pytest.mark.parametrize("method", ["per_user", "tally"])
@pytest.mark.parametrize("kind", POPULATIONS)
def test_inside_shard_map(kind, method, key):
    """A trial on each device, with the check that `jax.shard_map` makes by default."""
    run = functools.partial(jaxdp.run, KRR3, POPULATIONS[kind], method=method)
    mesh = two_devices(Axis.Auto)
    keys = jax.random.split(key, 4)
    mapped = jax.shard_map(jax.vmap(run), mesh=mesh, in_specs=jax.P("u"), out_specs=jax.P("u"))
    np.testing.assert_allclose(jax.jit(mapped)(keys), jnp.stack([run(k) for k in keys]), rtol=1e-6)


def test_inside_shard_map_equal_arguments_give_equal_results(key):
    """The check knows that a run of equal arguments does not vary over the mesh."""
    run = functools.partial(jaxdp.run, KRR3, POPULATIONS["histogram"], method="tally")
    mesh = two_devices(Axis.Auto)
    mapped = jax.shard_map(run, mesh=mesh, in_specs=jax.P(), out_specs=jax.P())
    np.testing.assert_allclose(jax.jit(mapped)(key), run(key), rtol=1e-6)
