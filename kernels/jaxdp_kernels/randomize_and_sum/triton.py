"""`randomize_and_sum` as one Triton kernel: words, vectors and their sums, all on chip.

Each block of threads takes a row of users. It makes the words of a few of them at a time, for all
entries of their vectors, which serve as many users of the other half of the tile, too; makes what
both add, and adds it up in registers. Memory is read for the users' values, and written once for a
row. What users add is made by the randomizer's own function, traced into the kernel.

What is of a user alone XLA makes before: within the kernel all threads of a user's entries would.

jax 0.11 and later warn that this backend of Pallas will be removed; its successor, Mosaic GPU, has
no interpret mode in jax 0.10, so that a kernel could not be checked there without a GPU.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from .._table import Table
from ..threefry_words import TILE, FlatWords, StreamKey
from ..threefry_words.ref import LANES
from .ref import Summing, Tree, num_rows

T = TypeVar("T")

LEAST, MOST = 2**4, 2**11
"""The lengths of vectors that are served."""

_LONG = 2**8  # entries of a vector for which more of them at once are quicker
_FEW, _MANY = (2**10, 4), (2**11, 8)  # entries of either half of a tile at once, and warps

Ref = Any
"""A reference to an array in memory, within the kernel: Pallas has no public class of them."""


def randomize_and_sum_triton(
    randomizer: Summing,
    key: StreamKey,
    start: jax.Array,
    values: Tree,
    members: jax.Array,
    row: int,
    interpret: bool = False,
) -> jax.Array:
    """The sums of rows of users; see `randomize_and_sum`.

    Args:
      randomizer: as there.
      key: as there.
      start: as there.
      values: an array float32[n, d], or float32[t, d], d a power of two from 16 to 2,048, whose
        users add as many numbers.
      members: as there.
      row: a multiple of 2,048.
      interpret: whether to run on the CPU, step by step, for tests.

    Raises:
      ValueError: the kernel does not serve such users; `unserved` says why.
    """
    by_tile = members.ndim == 1 and members.dtype == jnp.uint32
    if reason := unserved(randomizer, values, row, by_tile):
        raise ValueError(
            f"implementation='triton' does not serve these users: {reason}; use "
            "implementation=None."
        )
    (vectors,) = jax.tree.leaves(values)
    return _Kernel.of(randomizer, key, vectors, members, row).sums(
        randomizer, key, start, vectors, members, interpret
    )


def unserved(randomizer: Summing, values: Tree, row: int, by_tile: bool = False) -> str | None:
    """Why the kernel does not serve some users, or None if it does.

    Args:
      randomizer: as in `randomize_and_sum`.
      values: as there, or their shapes and dtypes.
      row: as there.
      by_tile: whether values are those of tiles.
    """
    name, leaves = type(randomizer).__name__, jax.tree.leaves(values)
    if len(leaves) != 1 or leaves[0].ndim != 2 or leaves[0].dtype != jnp.float32:
        return "the value of each must be a vector of float32"
    number, dim = leaves[0].shape
    if not LEAST <= dim <= MOST or dim & (dim - 1):
        return f"vectors must have a power of two of entries, {LEAST} to {MOST}, not {dim}"
    if randomizer.summed is None or randomizer.summed.size != dim:
        return f"{name} does not add a vector of as many numbers"
    if row % TILE:
        return f"rows must be multiples of {TILE} users, not of {row}"
    users = num_rows(number * (TILE if by_tile else 1), row) * row
    if not 0 < users * max(dim, randomizer.num_words) < 2**31:  # places of 32 bits
        return "they must be some, and have fewer than 2**31 entries and words"
    return None


class _Operands(NamedTuple):
    """What the kernel reads, as arrays or as references to them.

    Attributes:
      key: uint32[3], of the stream.
      start: uint32[2], of the words.
      members: int32[n], int32[t] or int32[1].
      values: float32[n, d] or float32[t, d].
      alone: what is of each user alone, arrays of a number for each user of all rows.
      leaves: of the randomizer, as vectors.
    """

    key: Any
    start: Any
    members: Any
    values: Any
    alone: Tree
    leaves: list[Any]


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """The kernel for users of one kind.

    Attributes:
      users: how many.
      row: of them, which a block takes.
      dim: entries of their vectors.
      members: "first", "masked" or "by tile": what says who counts.
      step: users of each half that are served at once.
      warps: of a block.
      num_words: of a user.
      rounds: of threefry.
    """

    users: int
    row: int
    dim: int
    members: str
    step: int
    warps: int
    num_words: int
    rounds: int

    @classmethod
    def of(
        cls, randomizer: Summing, key: StreamKey, values: jax.Array, members: jax.Array, row: int
    ) -> "_Kernel":
        """The kernel for these arguments."""
        number, dim = values.shape
        kind = "first" if members.ndim == 0 else "masked"
        if kind == "masked" and members.dtype == jnp.uint32:
            kind, number = "by tile", number * TILE
        entries, warps = _MANY if dim >= _LONG else _FEW
        step = max(entries // dim, 1)
        return cls(number, row, dim, kind, step, warps, randomizer.num_words, key.rounds)

    def sums(self, randomizer, key, start, values, members, interpret: bool) -> jax.Array:
        """int32[users / row, dim]."""
        rows = num_rows(self.users, self.row)
        words = FlatWords(key, start, rows * self.row, self.num_words)
        leaves, structure = jax.tree.flatten(randomizer)
        leaves = [_in_32_bits(jnp.asarray(leaf)) for leaf in leaves]
        operands = _Operands(
            key.data,
            start,
            self._members(members),
            values,
            randomizer.summed.alone(words),
            [leaf.reshape(-1) for leaf in leaves],
        )
        flat, tree = jax.tree.flatten(operands)

        def body(*refs: Ref) -> None:
            *inputs, out = refs
            given = jax.tree.unflatten(tree, inputs)
            held = [_held(ref, leaf) for ref, leaf in zip(given.leaves, leaves, strict=True)]
            self._run(jax.tree.unflatten(structure, held), given, out)

        kernel = pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct((rows, self.dim), jnp.int32),
            grid=(rows,),
            in_specs=[pl.BlockSpec(x.shape, lambda _, n=x.ndim: (0,) * n) for x in flat],
            out_specs=pl.BlockSpec((None, self.dim), lambda i: (i, 0)),
            compiler_params=plt.CompilerParams(num_warps=self.warps, num_stages=1),
            interpret=interpret,
        )
        return kernel(*flat)

    def _members(self, members: jax.Array) -> jax.Array:
        if self.members == "first":
            members = jnp.minimum(members, np.uint32(self.users))
        return members.astype(jnp.int32).reshape(-1)

    def _run(self, randomizer: Summing, given: _Operands, out: Ref) -> None:
        """What a block does; `given` are `_Operands`, by reference."""
        turns, first = LANES // self.step, pl.program_id(0) * np.int32(self.row // TILE)
        key, start = (tuple(x[i] for i in range(x.shape[0])) for x in (given.key, given.start))
        stream = StreamKey(key, self.rounds)  # pyright: ignore[reportArgumentType]

        def add(turn: jax.Array, total: jax.Array) -> jax.Array:
            tile = first + turn // np.int32(turns)
            lane = (turn % np.int32(turns)) * np.int32(self.step)
            lanes = lane + lax.iota(jnp.int32, self.step)
            blocks = _Blocks(stream, start, tile, lanes, self.num_words)
            for half in (0, 1):
                place = lane + np.int32(half * LANES)  # in the tile
                values, counts = self._users(given, tile, place)
                rows = pl.ds(tile * np.int32(TILE) + place, self.step)
                alone = jax.tree.map(lambda ref, rows=rows: ref[rows], given.alone)
                made = randomizer.summed.numbers(_Half(blocks, half), values, alone)
                total = total + jnp.where(counts[:, None], made, 0)
            return total

        nothing = jnp.zeros((self.step, self.dim), jnp.int32)
        total = lax.fori_loop(0, self.row // TILE * turns, add, nothing)
        out[...] = jnp.sum(total, axis=0, dtype=jnp.int32)

    def _users(self, given: _Operands, tile: jax.Array, place: jax.Array):
        """The values of the users at a place of a tile, and whether they count."""
        within = place + lax.iota(jnp.int32, self.step)
        if self.members == "by tile":
            last = np.int32(self.users // TILE - 1)
            there = jnp.minimum(tile, last)
            value = jnp.broadcast_to(given.values[there, :][None, :], (self.step, self.dim))
            return value, (within < given.members[there]) & (tile <= last)
        rows = pl.ds(tile * np.int32(TILE) + place, self.step)
        users = tile * np.int32(TILE) + within
        there = users < np.int32(self.users)
        every = jnp.broadcast_to(there[:, None], (self.step, self.dim))
        values = plt.load(given.values.at[rows, :], mask=every, other=np.float32(0))
        if self.members == "masked":
            return values, plt.load(given.members.at[rows], mask=there, other=np.int32(0)) != 0
        return values, users < given.members[0]


def _in_32_bits(leaf: jax.Array) -> jax.Array:
    return leaf.astype(jnp.float32) if leaf.dtype == jnp.float64 else leaf


def _held(ref: Ref, leaf: jax.Array) -> Any:
    """A leaf of the randomizer: a number, or a table of them that stays in memory."""
    if leaf.size == 1:
        return ref[0].reshape(leaf.shape)
    return Table(leaf.shape, leaf.dtype, lambda place: ref[place])


class _Blocks:
    """The blocks of words of some users of a tile, of either half; each is made once."""

    def __init__(self, stream: StreamKey, start: Any, tile, lanes, num_words: int) -> None:
        self.stream, self.start, self.num_words = stream, start, num_words
        self.tile, self.lanes = tile, lanes
        self.made: dict[Any, tuple[jax.Array, jax.Array]] = {}

    def of(self, words: range | int) -> tuple[jax.Array, jax.Array]:
        """Both words of each block: uint32[n] of one index, uint32[n, number] of a range."""
        if words not in self.made:
            row, lanes = self.tile.astype(jnp.uint32) * np.uint32(self.num_words), self.lanes
            if isinstance(words, int):
                row = row + np.uint32(words)
            else:
                number = lax.broadcasted_iota(jnp.uint32, (1, len(words)), 1)
                row, lanes = row + (number + np.uint32(words.start)), lanes[:, None]
            offset = row * np.uint32(LANES) + lanes.astype(jnp.uint32)
            self.made[words] = self.stream.blocks(self.start, offset)
        return self.made[words]


@dataclasses.dataclass(frozen=True)
class _Half:
    """Stands for the `FlatWords` of users of one half of a tile; rows are not laid out flat."""

    blocks: _Blocks
    half: int

    def __getitem__(self, index: int | slice) -> jax.Array:
        return self.blocks.of(range(self.blocks.num_words)[index])[self.half]

    def repeated(self, first: int, size: int, number: int) -> jax.Array:
        made = self.blocks.of(range(first, first + size))[self.half]
        users = made.shape[0]
        copies = -(-number // size)
        found = jnp.broadcast_to(made[:, None], (users, copies, size)).reshape(users, copies * size)
        return found if copies * size == number else found[:, :number]

    def quick(self, enough: jax.Array, quick: Callable[[], T], exact: Callable[[], T]) -> T:
        before = self.blocks.made

        def branch() -> T:
            # What a branch makes is not there outside of it.
            self.blocks.made = dict(before)
            return exact()

        found = lax.cond(jnp.min(enough.astype(jnp.int32)) != 0, quick, branch)
        self.blocks.made = before
        return found
