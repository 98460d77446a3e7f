"""Planted faults: the gate sees each of them in what XLA makes of the program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ._budgets import exceeded
from ._device import compile_for, mesh_of, missing
from ._program import Measured, measure

NUM_USERS = 2**20
KEY = jax.eval_shape(lambda: jax.random.key(0))
TRIPS = jax.ShapeDtypeStruct((), jnp.int32)
BUDGET = Measured(
    users=2**16,
    blocks=1.05,  # `jax.random.bits` makes a block for each word
    unknown=0,
    kernels=3,
    outside=2,
    conditionals=0,
    atomics=0,
    collectives=0,
    mebibytes=1,
    seconds=10,
)

pytestmark = pytest.mark.skipif(missing("cuda") is not None, reason=str(missing("cuda")))


def count(counts, words):
    """Counts the last four bits of words."""
    return counts.at[(words & np.uint32(15)).astype(jnp.int32)].add(1)


def sometimes_count(counts, words):
    return lax.cond(words[0] > 7, lambda: count(counts, words), lambda: counts)


def sort_and_count(counts, words):
    return count(counts, jnp.cumsum(jnp.flip(words)))


def add_floats(counts, words):
    shares = lax.bitcast_convert_type(words, jnp.float32)
    bins = (words & np.uint32(15)).astype(jnp.int32)
    return counts + jnp.zeros(16).at[bins].add(shares).astype(jnp.int32)


def draw(key, size):
    return jax.random.bits(key, (size,), jnp.uint32)


def draw_twice(key, size):
    return draw(key, size) ^ draw(jax.random.fold_in(key, 1), size)


def tally(key, trips, *, num_blocks=16, known=True, words=draw, add=count):
    """Counts users' words, in blocks."""

    def step(block, counts):
        return add(counts, words(jax.random.fold_in(key, block), NUM_USERS // num_blocks))

    return lax.fori_loop(0, num_blocks if known else trips, step, jnp.zeros(16, jnp.int32))


FAULTS = {
    "none": ({}, set()),
    "halved-block": ({"num_blocks": 32}, {"users"}),
    "unknown-trips": ({"known": False}, {"users", "unknown"}),
    "branch": ({"add": sometimes_count}, {"kernels", "conditionals"}),
    "more-kernels": ({"add": sort_and_count}, {"kernels"}),
    "float-atomic": ({"add": add_floats}, {"kernels", "atomics"}),
    "words-twice": ({"words": draw_twice}, {"blocks", "kernels"}),
    "words-stored": ({"num_blocks": 1, "add": sort_and_count}, {"outside", "mebibytes"}),
}


@pytest.mark.parametrize(("options", "missed"), FAULTS.values(), ids=FAULTS)
def test_fault_is_seen(options, missed):
    program = compile_for("cuda", jax.jit(functools.partial(tally, **options)), KEY, TRIPS)
    assert exceeded(measure(program, NUM_USERS), BUDGET).keys() == missed


@pytest.mark.parametrize("summed", [False, True])
def test_collective_is_seen(summed):
    mesh = mesh_of("cuda", 4, names=("trials",))

    def trial(keys):
        estimate = jax.vmap(lambda key: tally(key, None))(keys)
        return lax.psum(estimate, "trials") if summed else estimate

    specs = jax.P("trials")
    trials = jax.shard_map(
        trial, mesh=mesh, in_specs=specs, out_specs=jax.P() if summed else specs, check_vma=False
    )
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 8))
    program = compile_for("cuda", jax.jit(trials), keys, where=mesh)
    assert measure(program).collectives == summed
