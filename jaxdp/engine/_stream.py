"""One round over all users: words, reports, tallies, merged exactly."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels.randomize_and_tally import randomize_and_tally
from jaxdp_kernels.threefry_words import StreamKey

from .._contract import Round, TallyLaw, params, static
from ..population import Population
from ..random import TILE, Count, histogram, merge
from ..random._words import tile_start
from ._plan import Plan, make_plan

T = TypeVar("T")


def stream_tally(
    round: Round[T],
    users: Population,
    key: StreamKey,
    *,
    mesh: jax.sharding.Mesh | None,
    block_size: int | None,
) -> T:
    """The tally of one round, user by user.

    Args:
      round: what the users run.
      users: the users, bound to the trial.
      key: the round's stream.
      mesh: devices to split the users over, along all its axes; None for one device.
      block_size: users in a block; None for the default.

    Returns:
      The tally: the same bits whatever the mesh and the blocks.
    """
    with jax.enable_x64(False):  # the same program for callers of either precision
        num_devices = 1 if mesh is None else mesh.size
        shapes = jax.eval_shape(_tally_of_nobody, round, users, key)
        zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        made = round.num_words if round.draft is None else round.draft.num_words
        plan = make_plan(users, made, num_devices, block_size)
        if plan.rows is not None:
            users = Population(users.source.spread(plan.rows * num_devices))
        num_blocks = plan.num_blocks(users, num_devices)
        if mesh is None:
            return _device_tally(round, users, key, zero, num_blocks, jnp.uint32(0), plan)
        return _mesh_tally(round, users, key, zero, num_blocks, plan, mesh)


def _device_tally(round, users, key, zero, num_blocks, device, plan: Plan):
    """The tally of one device's users."""
    first = plan.device_start(device, num_blocks)
    read = users.source.reader(plan.block, first, plan.tiled)
    row = lax.iota(jnp.uint32, plan.block)

    def step(number, total):
        start = first + Count.of(jnp.asarray(number, jnp.int32)).times(plan.block)
        values, members = read(start)
        mask = members & (row < plan.users_left(start, users, first))
        return merge(total, _block_tally(round, key, start, values, mask, plan.tiled))

    return lax.fori_loop(0, num_blocks, step, zero)


def _block_tally(round: Round[T], key: StreamKey, start: Count, values, mask, tiled: bool) -> T:
    """The tally of consecutive users from `start` on: by the platform's kernel, or the default."""
    arguments = (
        round,
        key,
        tile_start(start, round.num_words),
        None if tiled else start.lo & np.uint32(TILE - 1),
        values,
        mask,
    )
    kernels = round.kernels.tally
    if not kernels:
        return randomize_and_tally(*arguments)
    return lax.platform_dependent(*arguments, default=randomize_and_tally, **kernels)


def _mesh_tally(round, users, key, zero, num_blocks, plan: Plan, mesh):
    """The tally over a mesh: every device runs its share, and the limbs are summed."""
    axes = mesh.axis_names
    split = Population(users.source.partition_specs(jax.P(axes)))

    def share(round, users, key, num_blocks):
        device = lax.axis_index(axes).astype(jnp.uint32)
        tally = _device_tally(round, users, key, zero, num_blocks, device, plan)

        def add(count: Count) -> Count:
            return count.summed(lambda limb: lax.psum(limb, axes))

        return jax.tree.map(add, tally, is_leaf=lambda x: isinstance(x, Count))

    whole = jax.shard_map(
        share,
        mesh=mesh,
        in_specs=(jax.P(), split, jax.P(), jax.P()),
        out_specs=jax.P(),
        check_vma=False,
    )
    return whole(round, users, key, jnp.asarray(num_blocks, jnp.int32))


def _tally_of_nobody(round, users, key):
    """A tally of 16 users who do not count: for its structure."""
    values = users.source.at(Count.of(lax.iota(jnp.uint32, 16)))
    return _block_tally(round, key, Count.zeros(), values, jnp.zeros(16, bool), False)


@params
class Census(Round[Count]):
    """A round in which users report their values: true counts, for a curator or a truth."""

    num_values: int = static()

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.num_values

    @property
    def num_words(self) -> int:
        """None."""
        return 0

    @property
    def law(self) -> TallyLaw[Count]:
        """The counts themselves."""
        return TallyLaw(lambda key, counts, inputs: counts, lambda work: 0.0)

    def from_bits(self, words, value, /):
        """The value."""
        del words
        return value

    def tally(self, reports, mask=None, /) -> Count:
        """The number of users with each value, Count[k]."""
        return histogram(reports, self.num_values, mask)

    def estimate(self, outcome: Count, /) -> Count:
        """The counts."""
        return outcome
