"""One round over all users: words, reports, tallies, merged exactly."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels.randomize_and_tally import randomize_and_tally

from ..population import Population
from ..random import TILE, Count, Fixed, from_limbs, limbs, merge
from ..random._words import tile_start
from ._plan import Plan, make_plan

DEFAULT_FIXED_BITS = 20


def stream_tally(
    params: Any,
    population: Population,
    key: jax.Array,
    *,
    mesh: jax.sharding.Mesh | None,
    block_size: int | None,
) -> Any:
    """The tally of one non-interactive round, user by user.

    Args:
      params: a randomizer's or protocol's params. The tally of one block must fit: an integer leaf
        is int32, so a user may add at most 2**31 / (users in a block) to it; a float leaf must be
        finite, and its total below 2**(63 - bits) for the `fixed_bits` (20 by default) of the
        params.
      population: the users, bound to the trial.
      key: the round's stream key, used for words only.
      mesh: devices to split the users over, along all its axes; None for one device.
      block_size: users in a block; None for the default.

    Returns:
      The tally, with Count leaves for integers and Fixed leaves for floats: the same bits whatever
      the mesh and the blocks.
    """
    with jax.enable_x64(False):  # the same program for callers of either precision
        num_devices = 1 if mesh is None else mesh.size
        zero = _zero_tally(params, population, key)
        exact = not any(isinstance(x, Fixed) for x in jax.tree.leaves(zero, is_leaf=_is_exact))
        plan = make_plan(population, params.num_words, num_devices, exact, block_size)
        if plan.rows is not None:
            population = Population(population.source.spread(plan.rows * num_devices))
        num_blocks = plan.num_blocks(population, num_devices)
        if mesh is None:
            first = jnp.uint32(0)
            return _device_tally(params, population, key, zero, num_blocks, first, plan)
        return _mesh_tally(params, population, key, zero, num_blocks, plan, mesh)


def _block_tally(params, key, start, values, mask, tiled: bool):
    """The block sums of consecutive users from `start` on."""
    return randomize_and_tally(
        params,
        jax.random.key_data(key),
        tile_start(start, params.num_words),
        None if tiled else start.lo & np.uint32(TILE - 1),
        values,
        mask,
    )


def _device_tally(params, population, key, zero, num_blocks, device, plan: Plan):
    """The tally of one device's users."""
    first = plan.device_start(device, num_blocks)
    read = population.source.reader(plan.block, first, plan.tiled)
    row = lax.iota(jnp.uint32, plan.block)

    def step(number, total):
        start = first + Count.of(jnp.asarray(number, jnp.int32)).times(plan.block)
        values, members = read(start)
        mask = members & (row < plan.users_left(start, population, first))
        sums = _block_tally(params, key, start, values, mask, plan.tiled)
        return merge(total, _exactly(params, sums))

    return lax.fori_loop(0, num_blocks, step, zero)


def _mesh_tally(params, population, key, zero, num_blocks, plan: Plan, mesh):
    """The tally over a mesh: every device runs its share, and the limbs are summed."""
    axes = mesh.axis_names
    spec = Population(population.source.partition_specs(jax.P(axes)))

    def share(params, population, key, num_blocks):
        device = lax.axis_index(axes).astype(jnp.uint32)
        tally = _device_tally(params, population, key, zero, num_blocks, device, plan)

        def add(count):
            return from_limbs(*(lax.psum(limb, axes) for limb in limbs(count)))

        return jax.tree.map(add, tally, is_leaf=lambda x: isinstance(x, Count))

    whole = jax.shard_map(
        share,
        mesh=mesh,
        in_specs=(jax.P(), spec, jax.P(), jax.P()),
        out_specs=jax.P(),
        check_vma=False,
    )
    return whole(params, population, key, jnp.asarray(num_blocks, jnp.int32))


def _fixed_bits(params) -> int:
    return getattr(params, "fixed_bits", DEFAULT_FIXED_BITS)


def _exactly(params, sums):
    """Block sums as Counts and Fixeds, which merge exactly in any order."""

    def convert(leaf):
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return Count.of(leaf)
        return Fixed.of(leaf, _fixed_bits(params))

    return jax.tree.map(convert, sums)


def _zero_tally(params, population, key):
    """An empty tally, of the structure that a block's tally has."""

    def block(params, population, key):
        users = Count.of(lax.iota(jnp.uint32, 16))
        mask = jnp.zeros(16, bool)
        return _block_tally(params, key, Count.zeros(), population.source.at(users), mask, False)

    shapes = jax.eval_shape(block, params, population, key)
    return _exactly(params, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))


def _is_exact(x) -> bool:
    return isinstance(x, (Count, Fixed))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ValueCounts:
    """Params whose reports are the values: for the true counts of a random population."""

    num_values: int = dataclasses.field(metadata={"static": True})
    num_words: int = dataclasses.field(default=0, metadata={"static": True})

    lazy_words = False

    def from_bits(self, words, value):
        """The value."""
        del words
        return value

    def tally(self, reports, mask):
        """The counts, int32[k]."""
        return jax.ops.segment_sum(mask.astype(jnp.int32), reports, self.num_values)
