"""Where users' values come from: the interface, and the two kinds of users given one by one."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels import register_dataclass
from jaxdp_kernels.randomize_and_tally import Drawn, tiles_users

from .._spec import Tree, as_array, as_float32, as_int32, is_traced
from .._x64 import one_program
from ..random import TILE, Count

_FEW_ENDS = 16  # of bins within a block: up to so many are compared with, on a CPU
_TILES_A_BIN = 16  # from which on average tiles are read whole: of each bin, one is read twice


@dataclasses.dataclass(frozen=True, eq=False)
class Span:
    """Consecutive blocks of one device's users, which it reads one after the other.

    Attributes:
      begin: Count[], the first user of the first block.
      end: Count[], the first user who is another device's, or in no block of these.
      number: how many blocks, static; fewer than 2**31 users.
    """

    begin: Count
    end: Count
    number: int


@dataclasses.dataclass(frozen=True, eq=False)
class Rest:
    """Users of a span whom its blocks leave out.

    Attributes:
      users: Count[m], their indices, each at most once among the members.
      values: a pytree with m rows.
      members: bool[m], who of them is left out and belongs to the population.
    """

    users: Count
    values: Tree
    members: jax.Array


@dataclasses.dataclass(frozen=True, eq=False)
class Reader:
    """Reads blocks of consecutive users; made once for many blocks.

    Attributes:
      locate: from the index of a block's first user, Count[], to what `read` must know of it. (On
        an accelerator, each number that a loop computes is a kernel: blocks are located before.)
      read: from that to the values of the block's users, and who of them belongs to the population:
        a row of values and a bool for each user; or for each tile of 2,048 users, and a uint32, how
        many of the tile's first users belong. Indices beyond the end give arbitrary values; where
        there is a bool for each, the caller masks them.
      rest: the users whom blocks of tiles leave out; None if there are none.
      draw: from what `read` must know, what makes the values, for a kernel that can; all users then
        belong. None where values are not made of words alone.
    """

    locate: Callable[[Count], Tree]
    read: Callable[[Tree], tuple[Tree, jax.Array]]
    rest: Rest | None = None
    draw: Callable[[Tree], Drawn] | None = None

    def by_user(self, place: Tree) -> tuple[Tree, jax.Array]:
        """`read`, with a row and a bool for each user."""
        values, members = self.read(place)
        return tiles_users(values, members) if members.dtype == jnp.uint32 else (values, members)

    def __call__(self, start: Count) -> tuple[Tree, jax.Array]:
        """The values of the users of the block that begins with a user, and who of them belongs."""
        return self.by_user(self.locate(start))


def _index(start: Count) -> Count:
    """The index of a block's first user itself, for `Reader.locate`."""
    return start


class Source(abc.ABC):
    """The users of a population, by index; a pytree.

    User indices run from 0 to `size - 1`. A source is *random* when its values depend on the trial:
    `bind(key)` then fixes them, and `at`, `reader` and `counts` need a bound source.
    """

    size: Any  # Count[], the number of indices; a leaf
    num_values: int | None = None  # the number of bins, static; None when values are not bins
    most: int | None = None  # at least `size`, static; None where programs serve any number
    is_random: bool = False
    kind: str = "source"  # where the values come from, in a word or two for people
    given: ClassVar[bool] = False  # whether each user's value is known before a trial
    whole: ClassVar[bool] = False  # whether all indices surely belong to it; see `members`

    @property
    def held(self) -> Tree:
        """Arrays of whose rows values are made, as they are stored; None where values are bins."""
        return self.inputs

    def bounded(self) -> "Source":
        """This source with `most` next above its `size`, where that is concrete."""
        return self

    def bind(self, key: jax.Array) -> "Source":
        """This source with its randomness fixed by a stream key."""
        del key
        return self

    @abc.abstractmethod
    def at(self, users: Count) -> Tree:
        """The values of users by index: a pytree with the leading axes of `users`."""

    def members(self, users: Count) -> jax.Array:
        """Whether each of these indices belongs to the population, bool of the shape of `users`."""
        return jnp.ones(users.shape, bool)

    def reader(
        self,
        size: int,
        first: Count,
        tiled: bool,
        wide: bool = False,
        span: Span | None = None,
    ) -> Reader:
        """Reads blocks of consecutive users; made once for many blocks.

        Args:
          size: users in a block, static.
          first: Count[], the index of the first row of this device's share of an array. Blocks
            begin at multiples of `size` from there.
          tiled: whether blocks begin at multiples of 2,048, static; see `words`.
          wide: whether blocks are for a machine of many threads, static.
          span: the blocks that will be read, where that is known. Only then tiles are read whole.
        """
        del first, tiled, wide, span

        def read(start: Count) -> tuple[Tree, jax.Array]:
            users = start + Count.of(lax.iota(jnp.uint32, size))
            return self.at(users), self.members(users)

        return Reader(_index, read)

    def reads_tiles(self, size: int, users: int) -> bool:
        """Whether a wide reader of so many users, in blocks of whole tiles, reads whole tiles.

        Args:
          size: users in a block, static.
          users: in all blocks, static.
        """
        del size, users
        return False

    @property
    def maker(self) -> Tree:
        """A pytree that makes a user's value from words alone; None if something else does."""
        return None

    @property
    def inputs(self) -> Tree:
        """Values that the bins of `counts` stand for, a pytree; None for the bins themselves."""
        return None

    @abc.abstractmethod
    def counts(self) -> Count:
        """The number of users with each value, Count[k]."""

    @property
    def rows(self) -> int | None:
        """The number of rows of an array that is read block by block, else None; static."""
        return None

    def spread(self, rows: int) -> "Source":
        """This source ready to be split over devices, its arrays padded to `rows` rows."""
        del rows
        return self

    def partition_specs(self, spec: jax.P) -> "Source":
        """For each leaf, how it is split over devices: `spec` for arrays of users."""
        del spec
        return jax.tree.map(lambda _: jax.P(), self)


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class ArraySource(Source):
    """Users whose values are the rows of an array.

    Attributes:
      values: a pytree of arrays with n rows; int32 bins, or float32 numbers or vectors.
      size: Count[].
      num_values: k when the values are bins, static.
    """

    values: Tree
    size: Count
    num_values: int | None = dataclasses.field(default=None, metadata={"static": True})
    given = True
    whole = True
    kind = "array"

    def at(self, users: Count) -> Tree:
        index = users.lo.astype(jnp.int32)
        return jax.tree.map(lambda rows: rows.at[index].get(mode="clip"), self.values)

    def reader(
        self,
        size: int,
        first: Count,
        tiled: bool,
        wide: bool = False,
        span: Span | None = None,
    ) -> Reader:
        del tiled, wide, span
        rows = self.rows
        last = (rows - 1) // size * size  # the last block runs over the end
        over = last + size - rows
        tail = jax.tree.map(lambda a: _padded(a[last:], size), self.values)

        def read(start: Count) -> tuple[Tree, jax.Array]:
            at = (start - first).lo.astype(jnp.int32)

            def block(whole, end):
                if last == 0:
                    return end
                found = lax.dynamic_slice_in_dim(whole, at, size)  # moved back by `over` at the end
                return jnp.where(at == last, end, found) if over else found

            return jax.tree.map(block, self.values, tail), jnp.ones(size, bool)

        return Reader(_index, read)

    @property
    def inputs(self) -> Tree:
        return self.values if self.num_values is None else None

    def counts(self) -> Count:
        if self.num_values is None:
            return Count.of(jnp.ones(self.rows, jnp.int32))
        return _histogram(self.values, self.num_values)

    @property
    def rows(self) -> int:
        return jax.tree.leaves(self.values)[0].shape[0]

    @property
    def most(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The rows."""
        return self.rows

    def spread(self, rows: int) -> "ArraySource":
        padded = jax.tree.map(lambda a: _padded(a, rows), self.values)
        return dataclasses.replace(self, values=padded)

    def partition_specs(self, spec: jax.P) -> "ArraySource":
        whole: ArraySource = jax.tree.map(lambda _: jax.P(), self)
        return dataclasses.replace(whole, values=jax.tree.map(lambda _: spec, self.values))


def _padded(array: jax.Array, rows: int) -> jax.Array:
    """The array with rows of zeros added at the end, if it has fewer."""
    extra = rows - array.shape[0]
    return jnp.pad(array, [(0, extra)] + [(0, 0)] * (array.ndim - 1)) if extra > 0 else array


@functools.partial(one_program, static_argnums=1)
def _histogram(values: jax.Array, num_values: int) -> Count:
    return Count.of(jax.ops.segment_sum(jnp.ones_like(values), values, num_values))


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class HistogramSource(Source):
    """Users given by how many have each value, in the order of the bins.

    Attributes:
      histogram: Count[k].
      ends: Count[k], its inclusive cumulative sums: bin v ends before user `ends[v]`.
      size: Count[].
      values: what the bins stand for, a pytree of arrays with k rows; None for the bins.
      most: a bound of the size that programs may rely on, static; None for any size.
    """

    histogram: Count
    ends: Count
    size: Count
    values: Tree = None
    most: int | None = dataclasses.field(default=None, metadata={"static": True})
    given = True
    whole = True
    kind = "histogram"

    @classmethod
    def make(cls, counts: np.ndarray, values: Tree) -> "HistogramSource":
        """The source of flat int64 counts."""
        ends = np.cumsum(counts)
        return cls(Count.of(counts), Count.of(ends), Count.of(ends[-1]), values)

    @property
    def num_values(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of bins."""
        return self.histogram.shape[0]

    def bounded(self) -> "HistogramSource":
        return dataclasses.replace(self, most=next_above(self.size))

    def at(self, users: Count) -> Tree:
        k = self.num_values
        found = jnp.zeros(users.shape, jnp.int32)  # the number of bins that end at or before a user
        # Binary search, one bit of the answer at a time: as many steps for every user, on Counts.
        for bit in reversed(range(k.bit_length())):
            probe = found + np.int32(2**bit)
            passed = users >= self.ends[jnp.minimum(probe, k) - 1]
            found = jnp.where((probe <= k) & passed, probe, found)
        return self._value(found)

    def reader(
        self,
        size: int,
        first: Count,
        tiled: bool,
        wide: bool = False,
        span: Span | None = None,
    ) -> Reader:
        del first
        whole = wide and tiled and size % TILE == 0
        if whole and span is not None and self.reads_tiles(size, size * span.number):
            return self._tiles_reader(size, span)

        def read(start: Count) -> tuple[Tree, jax.Array]:
            ahead = self.ends - start
            near = jnp.clip(ahead.lo, max=np.uint32(size)).astype(jnp.int32)
            end = jnp.where(ahead.hi < 0, 0, jnp.where(ahead.hi > 0, size, near))
            find = _bins_searched if wide else _bins_counted
            return self._value(find(end, lax.iota(jnp.int32, size))), jnp.ones(size, bool)

        return Reader(_index, read)

    def reads_tiles(self, size: int, users: int) -> bool:
        """Whether the rest of `_tiles_reader` is one block at most, and few of all users."""
        rest = self.num_values * TILE
        return rest <= size and rest * _TILES_A_BIN <= users

    def _tiles_reader(self, size: int, span: Span) -> Reader:
        """Reads tiles of users of one value each.

        Most tiles lie within a bin. What a loop reads of a tile is the bin of its first user, and
        how many users in a row are of that bin: two numbers, made for all tiles before. So no user
        is searched for, and none is stored. The rest are the users of each bin whose first one is
        in the middle of a tile, up to the end of that tile.
        """
        tiles = size // TILE
        row = lax.iota(jnp.int32, span.number * tiles) * np.int32(TILE)
        end = _clipped(self.ends - span.begin)
        bins = jnp.minimum(_bins_searched(end, row), self.num_values - 1)
        last = jnp.minimum(end, _clipped(span.end - span.begin))
        members = jnp.clip(last[bins] - row, 0, TILE).astype(jnp.uint32)
        bins, members = (x.reshape(span.number, tiles) for x in (bins, members))

        def number(start: Count) -> jax.Array:
            return (start - span.begin).lo.astype(jnp.int32) // np.int32(size)

        def read(block: jax.Array) -> tuple[Tree, jax.Array]:
            found = (lax.dynamic_index_in_dim(x, block, 0, False) for x in (bins, members))
            return values_of(self.values, next(found)), next(found)

        return Reader(number, read, self._rest(span))

    def _rest(self, span: Span) -> Rest:
        """The users of each bin whom `_tiles_reader` leaves out."""
        first = (self.ends - self.histogram)[:, None]  # of a bin
        lane = lax.iota(jnp.uint32, TILE)[None, :]
        place = first.lo & np.uint32(TILE - 1)
        users = Count(first.hi, first.lo - place) + Count.of(lane)
        # Bins without a user end where they begin.
        members = (place > 0) & (lane >= place) & (users < self.ends[:, None])
        members &= (users >= span.begin) & (users < span.end)
        bins = jnp.broadcast_to(lax.iota(jnp.int32, self.num_values)[:, None], members.shape)
        return Rest(users.reshape(-1), values_of(self.values, bins.ravel()), members.ravel())

    def _value(self, index: jax.Array) -> Tree:
        # Users beyond the end, whom the caller masks, would have an index beyond the last bin.
        return values_of(self.values, jnp.minimum(index, self.num_values - 1))

    @property
    def inputs(self) -> Tree:
        return self.values

    def counts(self) -> Count:
        return self.histogram


def next_above(size: Count) -> int | None:
    """The number itself up to 32, or the next above of five binary digits; None where traced.

    Programs that know how many blocks of users they have are compiled for such numbers: 16 for a
    doubling of the users, of whom they visit 3 % too many, 1.6 % on average.
    """
    if is_traced(size):
        return None
    number = int(size)
    unit = 2 ** max(number.bit_length() - 5, 0)
    return -(-number // unit) * unit


def _clipped(ahead: Count) -> jax.Array:
    """A Count clipped to [0, 2**31 - 1], as int32."""
    most = np.uint32(2**31 - 1)
    near = jnp.where(ahead.hi > 0, most, jnp.minimum(ahead.lo, most))
    return jnp.where(ahead.hi < 0, np.uint32(0), near).astype(jnp.int32)


def _bins_searched(ends: jax.Array, row: jax.Array) -> jax.Array:
    """How many bins end at or before each row, int32[n], for machines of many threads.

    A search among 16 at a time, that compares and looks up but never branches, is part of the
    kernel of whoever reads the answer; a binary search looks up too often in a row for that.
    """
    digits = max(-(-(ends.shape[0] - 1).bit_length() // 4), 1)  # of the last bin
    padded = jnp.pad(ends, (0, 16**digits - ends.shape[0]), constant_values=np.int32(2**31 - 1))
    found = np.zeros((), np.int32)
    for step in (16**digit for digit in reversed(range(digits))):
        probes = [found + np.int32(step * j - 1) for j in range(1, 16)]
        read = [padded.at[probe].get(mode="promise_in_bounds") for probe in probes]
        found = found + np.int32(step) * sum((row >= end).astype(jnp.int32) for end in read)
    return lax.optimization_barrier(found)  # not compared anew by each reader


def _bins_counted(end: jax.Array, row: jax.Array) -> jax.Array:
    """How many bins end at or before each row, int32[n], for a CPU.

    Where few bins end within the block, rows are compared with these, one after the other, as
    vectors. Of many each leaves a mark at its end; the marks at or before a user are the bins that
    have ended, so their running sum is the user's bin, in a time that does not grow with them.
    """
    size = row.shape[0]
    before = jnp.sum(end <= 0, dtype=jnp.int32)
    within = jnp.sum(end < size, dtype=jnp.int32) - before

    def one_by_one() -> jax.Array:
        def passed(number: jax.Array, found: jax.Array) -> jax.Array:
            return found + (row >= end[before + number]).astype(jnp.int32)

        few = jnp.minimum(within, _FEW_ENDS)  # under vmap both branches run
        return lax.fori_loop(0, few, passed, jnp.full(size, before))

    def together() -> jax.Array:
        marks = jnp.zeros(size + 1, jnp.int32).at[end].add(1, mode="promise_in_bounds")
        total = jnp.cumsum if end.shape[0] >= 2**24 else _running_sum
        return total(marks[:size])

    return lax.cond(within <= _FEW_ENDS, one_by_one, together)


def values_of(values: Tree, bins: jax.Array) -> Tree:
    """What bins stand for; the bins themselves where `values` is None."""
    return bins if values is None else jax.tree.map(lambda rows: rows[bins], values)


def _running_sum(x: jax.Array, width: int = 32) -> jax.Array:
    """The inclusive cumulative sum of small integers whose total is below 2**24.

    Rows of 32 are summed by a product with a triangle of ones, exact in float32; on CPU this takes
    half the time of `jnp.cumsum`.
    """
    if x.shape[0] % width:
        return jnp.cumsum(x)
    triangle = np.triu(np.ones((width, width), np.float32))
    rows = x.reshape(-1, width)
    totals = rows.sum(axis=1, dtype=x.dtype)
    before = jnp.cumsum(totals) - totals
    first = lax.broadcasted_iota(jnp.int32, rows.shape, 1) == 0
    carried = jnp.where(first, rows + before[:, None], rows).astype(jnp.float32)
    # A product last, so that its consumers read plain rows and stay vectorised.
    product = jnp.dot(carried, triangle, precision=lax.Precision.HIGHEST)
    return product.astype(jnp.int32).reshape(-1)


def check_users(first: Count, number: int, size: Count, name: str = "users") -> None:
    """Raises unless `number` users from each concrete index on are among `size` users.

    Args:
      first: Count[...].
      number: at least 1.
      size: Count[].
      name: what the message calls them.
    """
    if is_traced((first, size)):
        return
    starts, end = first.numpy(), int(size)
    if np.any((starts < 0) | (starts > end - number)):
        bad = starts[(starts < 0) | (starts > end - number)].ravel()[0]
        raise ValueError(
            f"{name} must be in [0, {end}), the indices of the population, got "
            f"{bad if number == 1 else f'{bad} to {bad + number - 1}'}."
        )


def bin_values(values: Tree, num_bins: int, name: str) -> Tree:
    """The pytree of bins' values as device arrays, or raises unless it has a row for each bin."""
    if values is None:
        return None
    if isinstance(values, list):
        values = as_array("values", values)

    def convert(leaf):
        array = as_array("values", leaf)
        if array.ndim == 0 or array.shape[0] != num_bins:
            raise ValueError(
                f"values must have one row for each of the {num_bins} entries of {name}, got shape "
                f"{array.shape}."
            )
        if np.issubdtype(array.dtype, np.floating):
            return jnp.asarray(as_float32("values", array))
        if np.issubdtype(array.dtype, np.integer):
            return jnp.asarray(as_int32("values", array))
        raise TypeError(f"values must be of integers or floats, got dtype {array.dtype}.")

    return jax.tree.map(convert, values)
