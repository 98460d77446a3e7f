"""One round over all users: words, reports, tallies, merged exactly."""

import functools
import math
from typing import NamedTuple, TypeVar

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
from ._config import Config
from ._fused import can_fuse, fused_tally
from ._plan import Plan, make_plan

T = TypeVar("T")

_MOST_PLACES = 2**16  # blocks whose beginnings are made at once


class _Place(NamedTuple):
    """Where a block lies: its first user, the counter of its first word, how many users count."""

    start: Count
    counter: tuple[jax.Array, jax.Array]
    left: jax.Array


def stream_tally(
    round: Round[T],
    users: Population,
    key: StreamKey,
    *,
    config: Config,
) -> T:
    """The tally of one round, user by user.

    Args:
      round: what the users run.
      users: the users, bound to the trial.
      key: the round's stream.
      config: says over which devices users are split, along all axes of a mesh but those along
        which trials are split already, and the blocks.

    Returns:
      The tally: the same bits whatever the mesh and the blocks.
    """
    with jax.enable_x64(False):  # the same program for callers of either precision
        mesh = config.mesh
        axes = () if mesh is None else _free_axes(mesh)
        num_devices = 1 if mesh is None else math.prod(mesh.shape[name] for name in axes)
        shapes = jax.eval_shape(_tally_of_nobody, round, users, key)
        zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        fused = config.fused and can_fuse(round)
        plan = make_plan(users, round, num_devices, config.block_size, config.platform, fused)
        if plan.share is not None:
            users = Population(users.source.spread(plan.share * num_devices))
        num_blocks = plan.num_blocks(users, num_devices)
        if mesh is None or not axes:
            return _device_tally(round, users, key, zero, num_blocks, jnp.uint32(0), plan)
        return _mesh_tally(round, users, key, zero, num_blocks, plan, mesh, axes)


def _free_axes(mesh: jax.sharding.Mesh) -> tuple[str, ...]:
    """The axes of a mesh but those of the `shard_map` that is being traced."""
    taken = jax.sharding.get_abstract_mesh().manual_axes
    return tuple(name for name in mesh.axis_names if name not in taken)


def _device_tally(round, users, key, zero, num_blocks, device, plan: Plan):
    """The tally of one device's users."""
    first = plan.device_start(device, num_blocks)
    read = users.source.reader(plan.block, first, plan.tiled, plan.wide)
    row = lax.iota(jnp.uint32, plan.block)

    def place(number: jax.Array) -> _Place:
        start = first + Count.of(jnp.asarray(number, jnp.int32)).times(plan.block)
        left = plan.users_left(start, users, first)
        high, low = tile_start(start, round.num_words)
        return _Place(start, (high, low), left)

    def step(total: T, at: _Place) -> T:
        values, members = read(at.start)
        number = plan.fused and users.source.whole  # then it says who counts
        mask = at.left if number else members & (row < at.left)
        return merge(total, _block_tally(round, key, at, values, mask, plan))

    if isinstance(num_blocks, int) and num_blocks <= _MOST_PLACES:
        # On an accelerator each number that a step computes is a kernel; these are made before.
        places = jax.vmap(place)(lax.iota(jnp.int32, num_blocks))
        return lax.scan(lambda total, at: (step(total, at), None), zero, places)[0]
    return lax.fori_loop(0, num_blocks, lambda number, total: step(total, place(number)), zero)


def _block_tally(round: Round[T], key: StreamKey, at: _Place, values, mask, plan: Plan) -> T:
    """The tally of a block's users: by the platform's kernel, or the default."""
    arguments = (
        round,
        key,
        jnp.stack(at.counter),
        None if plan.tiled else at.start.lo & np.uint32(TILE - 1),
        values,
        mask,
    )
    kernels = round.kernels.tally
    default = functools.partial(randomize_and_tally, implementation=plan.implementation)
    if plan.fused:
        return lax.platform_dependent(*arguments, cuda=fused_tally, default=default)
    if not kernels:
        return default(*arguments)
    return lax.platform_dependent(*arguments, default=default, **kernels)


def _mesh_tally(round, users, key, zero, num_blocks, plan: Plan, mesh, axes):
    """The tally over some axes of a mesh: every device runs its share, and the limbs are summed."""
    split = Population(users.source.partition_specs(jax.P(axes)))

    def share(round, users, key, zero, num_blocks):
        device = lax.axis_index(axes).astype(jnp.uint32)
        tally = _device_tally(round, users, key, zero, num_blocks, device, plan)

        def add(count: Count) -> Count:
            return count.summed(lambda limb: lax.psum(limb, axes))

        return jax.tree.map(add, tally, is_leaf=lambda x: isinstance(x, Count))

    whole = jax.shard_map(
        share,
        mesh=mesh if len(axes) == len(mesh.axis_names) else None,  # that of the outer `shard_map`
        in_specs=(jax.P(), split, jax.P(), jax.P(), jax.P()),
        out_specs=jax.P(),
        axis_names=set(axes),
        check_vma=False,
    )
    return whole(round, users, key, zero, jnp.asarray(num_blocks, jnp.int32))


def _tally_of_nobody(round, users, key):
    """A tally of 16 users who do not count: for its structure."""
    values = users.source.at(Count.of(lax.iota(jnp.uint32, 16)))
    at = _Place(Count.zeros(), (jnp.uint32(0), jnp.uint32(0)), jnp.uint32(0))
    return _block_tally(round, key, at, values, jnp.zeros(16, bool), Plan(16, None, False))


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
