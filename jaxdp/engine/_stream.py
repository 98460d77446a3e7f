"""One round over all users: words, reports, tallies, merged exactly."""

import dataclasses
import functools
import math
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels import register_dataclass
from jaxdp_kernels.randomize_and_sum import num_rows, randomize_and_sum
from jaxdp_kernels.randomize_and_tally import (
    Counted,
    Draft,
    count_reports,
    randomize_and_tally,
    tiles_users,
    users_reports,
)
from jaxdp_kernels.threefry_words import StreamKey

from .._contract import Kernels, Round, Summed, TallyLaw, Tree, Words, params, static
from ..population import Population, Reader, Rest, Span
from ..random import TILE, Count, histogram, merge
from ..random._words import tile_start
from ._config import Config
from ._fused import ROW, can_fuse, fused_sums, fused_tally
from ._plan import Plan, make_plan

T = TypeVar("T")

_MOST_PLACES = 2**15  # blocks that are located at once; so many times 16 bits are below 2**31
_MOST_USERS = 2**31 - 1  # of a span of blocks, whose reports 32 bits can count


class _Place(NamedTuple):
    """Where a block lies.

    Attributes:
      values: what `Reader.read` must know of it.
      counter: that of its first word, as (high, low) halves.
      first: how many users of its tile come before its first one; None for none.
      left: how many of its users are the device's.
    """

    values: Any
    counter: tuple[jax.Array, jax.Array]
    first: jax.Array | None
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
        maker = users.source.maker
        fused = config.fused and can_fuse(round)
        drawn = fused and maker is not None and can_fuse(round, maker)
        plan = make_plan(
            users, round, num_devices, config.block_size, config.platform, fused, drawn
        )
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
    if isinstance(num_blocks, int):
        return _tally_of_spans(round, users, key, zero, num_blocks, first, plan)
    read, row = users.source.reader(plan.block, first, plan.tiled, plan.wide), _rows(plan)

    def step(number: jax.Array, total: Any) -> Any:
        place = _place(round, users, read, number, first, first, plan)
        return merge(total, _block_tally(round, users, key, read, place, row, plan))

    return lax.fori_loop(0, num_blocks, step, zero)


def _tally_of_spans(round, users, key, zero, num_blocks: int, first: Count, plan: Plan):
    """The tally of a device's users, whose number of blocks the compiler knows.

    On an accelerator each number that a step computes is a kernel, and so is each sum of limbs. So
    all blocks of a span are located before, and where reports are counted or added, numbers of 32
    bits are what a loop adds to: a span has fewer than 2**31 users.
    """
    adder = _adder(round, plan)
    most = min(_MOST_PLACES, _MOST_USERS // plan.block)
    number = max(min(num_blocks, most), 1)
    spans = -(-num_blocks // number)
    number = -(-num_blocks // spans)
    assert plan.share is not None
    end = first + Count.of(plan.share)

    def add_span(span: jax.Array | int, total: Any) -> Any:
        begin = first + Count.of(jnp.asarray(span, jnp.int32)).times(number * plan.block)
        ahead = Span(begin, end, number)
        read = users.source.reader(plan.block, first, plan.tiled, plan.wide, ahead)
        # Several kernels read these numbers. What counts reports is one, and makes its own.
        row = None if isinstance(adder, _Counting) else _rows(plan)

        def step(total: Any, place: _Place) -> tuple[Any, None]:
            rows = _rows(plan) if row is None else row
            found = _block_tally(adder, users, key, read, place, rows, plan)
            return adder.merge(total, found), None

        def locate(block: jax.Array) -> _Place:
            place = _place(round, users, read, block, begin, first, plan)
            if spans * number == num_blocks:
                return place
            inside = jnp.asarray(span * number, jnp.int32) + block < np.int32(num_blocks)
            return place._replace(left=jnp.where(inside, place.left, np.uint32(0)))

        places = jax.vmap(locate)(lax.iota(jnp.int32, number))
        start = total if adder is round else adder.zero
        found = lax.scan(step, start, places)[0]
        found = found if adder is round else merge(total, adder.finished(found))
        if read.rest is not None:
            found = merge(found, _rest_tally(round, key, read.rest))
        return found

    return add_span(0, zero) if spans == 1 else lax.fori_loop(0, spans, add_span, zero)


def _adder(round: Round[Any], plan: Plan) -> Any:
    """What adds the reports of blocks: the round, or what is quicker on an accelerator."""
    if not plan.wide or round.kernels.tally:
        return round
    if round.counted is not None:
        return _Counting(round)
    return _Summing.of(round, plan) or round


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class _Counting:
    """A round whose reports are counted, as one whose tally is int32[num_reports], these counts."""

    round: Round[Any]
    draft: ClassVar[Draft | None] = None
    kernels: ClassVar[Kernels[Any]] = Kernels()

    @property
    def num_words(self) -> int:
        return self.round.num_words

    @property
    def lazy_words(self) -> bool:
        return self.round.lazy_words

    @property
    def counted(self) -> Counted:
        assert self.round.counted is not None
        return Counted(self.round.counted.num_reports, lambda counts: counts)

    def from_bits(self, words: Words, value: Tree, /) -> Tree:
        return self.round.from_bits(words, value)

    def tally(self, reports: jax.Array, mask: jax.Array, /) -> jax.Array:
        return count_reports(reports, mask, self.counted.num_reports)

    def merge(self, first: jax.Array, second: jax.Array, /) -> jax.Array:
        return first + second

    @property
    def zero(self) -> jax.Array:
        """The counts of no reports."""
        return jnp.zeros(self.counted.num_reports, jnp.int32)

    def finished(self, counts: jax.Array) -> Any:
        """The tally of the round."""
        assert self.round.counted is not None
        return self.round.counted.tally(counts)


_FEWEST_ROW = 2**8  # users whose integers are added as one row


@dataclasses.dataclass(frozen=True, eq=False)
class _Summing:
    """A round whose reports are added, of which a loop over blocks adds nothing but the integers.

    What it adds to are the low and the high 16 bits of the sums of rows of users, int32[r, m] each,
    and the number of the users. A number for each user would be a kernel.

    Attributes:
      round: what users run.
      summed: what it says of its tally.
      row: users of a row.
      rows: r.
      inside: bool, users of a block who count, and as many who do not: what a loop slices it need
        not compare with a number, which would be a kernel.
      fused: whether one kernel makes the sums.
    """

    round: Round[Any]
    summed: Summed[Any]
    row: int
    rows: int
    inside: jax.Array
    fused: bool

    @classmethod
    def of(cls, round: Round[Any], plan: Plan) -> "_Summing | None":
        """None where the round does not say how, or rows are too short to be worth it."""
        summed = round.summed
        if summed is None or not plan.adds:
            return None
        row = min(2 ** ((2**31 // (summed.bound + 1)).bit_length() - 1), ROW)
        if not plan.fused:
            row = min(row, plan.block & -plan.block)  # or values would be copied to fill the last
        if row < _FEWEST_ROW or plan.block * summed.size >= 2**32:  # places of 32 bits
            return None
        inside = lax.iota(jnp.int32, 2 * plan.block) < np.int32(plan.block)
        return cls(round, summed, row, num_rows(plan.block, row), inside, plan.fused)

    @property
    def num_words(self) -> int:
        """Words of a user."""
        return self.round.num_words

    @property
    def zero(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The sums of nobody."""
        nothing = jnp.zeros((self.rows, self.summed.size), jnp.int32)
        return nothing, nothing, jnp.zeros((), jnp.int32)

    def block(self, key: StreamKey, counter, values, members):
        """The sums of a block's users: of a mask, of so many first ones, or of those of tiles."""
        number = jnp.sum(members, dtype=jnp.int32)
        if members.ndim == 0 and not self.fused:
            users = self.inside.shape[0] // 2
            members = lax.dynamic_slice_in_dim(self.inside, np.int32(users) - number, users)
        default = functools.partial(randomize_and_sum, row=self.row)
        arguments = key, counter, values, members
        if self.fused:
            kernel = functools.partial(fused_sums, row=self.row)
            sums = lax.platform_dependent(self.round, *arguments, cuda=kernel, default=default)
        else:
            sums = default(self, *arguments)  # for its `summed`, which is made before the loop
        return sums & np.int32(0xFFFF), sums >> np.int32(16), number

    def merge(self, first, second):
        """The sums of the users of both."""
        return jax.tree.map(jnp.add, first, second)

    def finished(self, sums: tuple[jax.Array, jax.Array, jax.Array]) -> Any:
        """The tally of the round."""
        low, high, number = sums
        total = Count.of(low).sum(0) + Count.of(high).sum(0).times(2**16)
        return self.summed.tally(total, Count.of(number))


def _place(round, users, read: Reader, block: jax.Array, begin: Count, first: Count, plan: Plan):
    """Where a block lies, of those that start at `begin`."""
    start = begin + Count.of(jnp.asarray(block, jnp.int32)).times(plan.block)
    left = plan.users_left(start, users, first)
    high, low = tile_start(start, round.num_words)
    inside = None if plan.tiled else start.lo & np.uint32(TILE - 1)
    return _Place(read.locate(start), (high, low), inside, left)


def _rows(plan: Plan) -> jax.Array:
    """The numbers of a block's users."""
    return lax.iota(jnp.uint32, plan.block)


def _block_tally(round, users, key: StreamKey, read: Reader, place: _Place, row, plan: Plan):
    """The tally of a block's users, whose numbers in the block are `row`."""
    sums = isinstance(round, _Summing)
    if plan.drawn:
        assert read.draw is not None
        values, members = read.draw(place.values), place.left
    else:
        values, members = read.read(place.values)
        if members.dtype == jnp.uint32:  # tiles, and how many users of each count
            if not round.fused if sums else round.kernels.tally:
                values, members = tiles_users(values, members)
        elif users.source.whole and (plan.fused or sums):
            members = place.left
        else:
            members &= row < place.left
    counter = jnp.stack(place.counter)
    if sums:
        return round.block(key, counter, values, members)
    return _reports_tally(round, key, counter, place.first, values, members, plan)


def _rest_tally(round, key: StreamKey, rest: Rest):
    """The tally of users whom the blocks of a span leave out, each at a place of its own."""
    starts = jax.vmap(lambda user: tile_start(user, round.num_words), out_axes=-1)(rest.users)
    place = rest.users.lo & np.uint32(TILE - 1)
    return round.tally(users_reports(round, key, starts, place, rest.values), rest.members)


def _reports_tally(round: Round[T], key, counter, first, values, mask, plan: Plan) -> T:
    """The tally of a block's users: by the platform's kernel, or the default."""
    arguments = (round, key, counter, first, values, mask)
    kernels = round.kernels.tally
    default = functools.partial(randomize_and_tally, implementation=plan.implementation)
    if plan.fused:
        return lax.platform_dependent(*arguments, cuda=fused_tally, default=default)
    if not plan.wide:  # for a CPU: other platforms' ways are not even traced
        return kernels.get("cpu", default)(*arguments)
    others = {platform: kernel for platform, kernel in kernels.items() if platform != "cpu"}
    if not others:
        return default(*arguments)
    return lax.platform_dependent(*arguments, default=default, **others)


def _mesh_tally(round, users, key, zero, num_blocks, plan: Plan, mesh, axes):
    """The tally over some axes of a mesh: every device runs its share, and the limbs are summed."""
    split = Population(users.source.partition_specs(jax.P(axes)))
    known = num_blocks if isinstance(num_blocks, int) else None

    def share(round, users, key, zero, num_blocks):
        num_blocks = num_blocks if known is None else known
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
    who = Count.of(lax.iota(jnp.uint32, 16))
    return _rest_tally(round, key, Rest(who, users.source.at(who), jnp.zeros(16, bool)))


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
