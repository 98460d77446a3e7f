"""Meshes of the kind that `jax.make_mesh` makes by default, and runs inside `jax.shard_map`."""

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


def explicit_mesh() -> jax.sharding.Mesh:
    explicit = (jax.sharding.AxisType.Explicit,)
    return jax.make_mesh((2,), ("u",), axis_types=explicit, devices=jax.devices()[:2])


@pytest.mark.parametrize("kind", POPULATIONS)
def test_mesh_of_explicit_axes(kind, key):
    alone = jaxdp.run(KRR3, POPULATIONS[kind], key, method="per_user")
    found = jaxdp.run(KRR3, POPULATIONS[kind], key, method="per_user", mesh=explicit_mesh())
    np.testing.assert_array_equal(found, alone)


def test_values_that_lie_on_explicit_axes(key):
    mesh = explicit_mesh()
    values = jnp.arange(5000, dtype=jnp.int32) % 3
    alone = jaxdp.run(KRR3, POPULATIONS["values"], key, method="per_user")
    placed = jax.device_put(values, jax.NamedSharding(mesh, jax.P("u")))
    population = jaxdp.Population.from_values(placed, num_values=3)
    found = jaxdp.run(KRR3, population, key, method="per_user", mesh=mesh)
    np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize("method", ["per_user", "tally"])
@pytest.mark.parametrize("kind", POPULATIONS)
def test_inside_shard_map(kind, method, key):
    """A trial on each device, with the check that `jax.shard_map` makes by default."""
    run = functools.partial(jaxdp.run, KRR3, POPULATIONS[kind], method=method)
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((2,), ("u",), axis_types=auto, devices=jax.devices()[:2])
    keys = jax.random.split(key, 4)
    mapped = jax.shard_map(jax.vmap(run), mesh=mesh, in_specs=jax.P("u"), out_specs=jax.P("u"))
    np.testing.assert_allclose(jax.jit(mapped)(keys), jnp.stack([run(k) for k in keys]), rtol=1e-6)


def test_inside_shard_map_equal_arguments_give_equal_results(key):
    """The check knows that a run of equal arguments does not vary over the mesh."""
    run = functools.partial(jaxdp.run, KRR3, POPULATIONS["histogram"], method="tally")
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((2,), ("u",), axis_types=auto, devices=jax.devices()[:2])
    mapped = jax.shard_map(run, mesh=mesh, in_specs=jax.P(), out_specs=jax.P())
    np.testing.assert_allclose(jax.jit(mapped)(key), run(key), rtol=1e-6)
