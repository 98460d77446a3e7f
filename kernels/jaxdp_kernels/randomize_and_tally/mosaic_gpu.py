"""`randomize_and_tally` as one kernel for NVIDIA GPUs (Hopper and later), by Mosaic GPU.

Each block of 128 threads stays on its multiprocessor and takes tile after tile of 2,048 users. A
thread makes the words of sixteen of them in registers, makes their reports as `scalarise` says, and
counts these in shared memory by `red.shared`, which ptxas turns into an instruction beside the
arithmetic. So the loop reads the users' values, or one for all users of a tile, or makes them too,
and writes nothing to memory; at the end each block writes its counts, and XLA adds them up. All of
it is integers: any order gives the same bits.

Where the histogram is small, shared memory holds a copy of it for each lane of a warp: no two lanes
of a warp then meet in a bank of memory, whatever they report.

The instruction that counts is inline assembly, which no interpreter runs: there a dense sum stands
in for it.
"""

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.mosaic import gpu as mgpu
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import arith, llvm, vector
from numpy.typing import ArrayLike

from .._pytree import register_dataclass
from ..threefry_words.ref import LANES, TILE, StreamKey, threefry2x32
from .ref import Counted, Drawn, Randomizer, Tree, users_reports
from .scalarise import FEW_ENTRIES, Table, Unsupported, cell, cells, on_lanes

MAX_REPORTS = 2**14
"""Distinct reports that are counted: at least three blocks share a multiprocessor's memory."""

MAX_WORDS = 8
"""Words of a user that are made: they stay in registers."""

_MULTIPROCESSORS = 132  # of an H200; on a smaller GPU blocks wait, on a larger one some of it does
_SHARED = 227 * 1024  # bytes of shared memory of a multiprocessor's blocks
_TAKEN = 1024  # bytes of each block that CUDA takes
_BLOCKS = 6  # of a multiprocessor, as many as the registers of its threads allow
_COPIES = 32  # of small histograms: one for each lane of a warp
_MOST_SCALARS = 64  # numbers of a randomizer that are held in registers
_DTYPES = ("uint32", "int32", "float32")
_ALIGNED = 128  # threads of a block; histograms are padded so that each clears as much of them

Pair = tuple[jax.Array, jax.Array]

Ref = Any
"""A reference to an array in memory, within the kernel: Pallas has no public class of them."""

Value = Any
"""A value of MLIR, or a fragment of an array of such values."""

_LANE = plgpu.Layout.WG_STRIDED((LANES,), vec_size=4)  # a thread's users lie four by four


def randomize_and_tally_mosaic_gpu(
    randomizer: Randomizer,
    key: StreamKey,
    start: jax.Array,
    first: jax.Array | None,
    values: Tree,
    mask: jax.Array,
    interpret: Any = None,
) -> Tree:
    """The tally of the reports of consecutive users; see `randomize_and_tally`.

    Args:
      randomizer: counts its reports (`Randomizer.counted`).
      key: as there.
      start: as there.
      first: None; users begin with a tile.
      values: a pytree of numbers, one for each user or tile, int32, uint32 or float32; or `Drawn`.
      mask: as there.
      interpret: `plgpu.InterpretGPUParams()` of jax 0.11 and later runs it on a CPU, for tests.

    Raises:
      ValueError: the kernel does not serve such users; `unserved` says why.
    """
    by_tile = mask.ndim > 0 and mask.dtype == jnp.uint32
    if reason := unserved(randomizer, first, values, by_tile):
        raise ValueError(
            f"implementation='mosaic_gpu' does not serve these users: {reason}; use "
            "implementation=None."
        )
    counted = randomizer.counted
    assert counted is not None
    drawn = isinstance(values, Drawn)
    kernel = _Kernel(
        _with_values(randomizer, values.maker) if drawn else randomizer,
        counted.num_reports,
        (key.rounds, *(each.rounds for each in values.keys)) if drawn else (key.rounds,),
        jax.tree.structure(None if drawn else values),
        mask.ndim > 0 and not by_tile,
        by_tile,
        values.maker.num_words if drawn else 0,
        interpret,
    )
    return counted.tally(kernel.counts(key, start, values, mask))


def unserved(
    randomizer: Randomizer, first: jax.Array | None, values: Tree, by_tile: bool = False
) -> str | None:
    """Why the kernel does not serve some users, or None if it does.

    Args:
      randomizer: as in `randomize_and_tally`.
      first: as there.
      values: as there, or their shapes and dtypes.
      by_tile: whether values are those of tiles.
    """
    name, counted = type(randomizer).__name__, randomizer.counted
    drawn, own_words = isinstance(values, Drawn), randomizer.num_words
    if drawn:
        randomizer = _with_values(randomizer, values.maker)
    if counted is None:
        return f"{name} does not count its reports"
    if not 1 <= counted.num_reports <= MAX_REPORTS:
        return f"{name} has {counted.num_reports} reports, more than {MAX_REPORTS}"
    if not 1 <= randomizer.num_words <= MAX_WORDS:
        return f"{name} has {randomizer.num_words} words, not 1 to {MAX_WORDS}"
    if first is not None:
        return "the first one does not begin a tile"
    held = [] if drawn else jax.tree.leaves(values)
    if any(leaf.ndim != 1 or str(leaf.dtype) not in _DTYPES for leaf in held):
        return "the value of each must be numbers of 32 bits"
    users = values.number if drawn else max((leaf.shape[0] for leaf in held), default=2**31)
    if users * (TILE if by_tile else 1) * own_words >= 2**31:
        return "they must have values, and fewer than 2**31 words"
    leaves = [jnp.result_type(leaf) for leaf in jax.tree.leaves(randomizer)]
    if not {str(dtype) for dtype in leaves} <= set(_DTYPES):
        return f"{name} holds numbers that are not of 32 bits"
    if sum(map(np.size, _small(randomizer))) > _MOST_SCALARS:
        return f"{name} holds more than {_MOST_SCALARS} numbers"

    def reports(leaves: list[Any], words: list[Any], lanes: list[Any]) -> jax.Array:
        held = [
            Table(leaf.shape, leaf.dtype, lambda at, leaf=leaf: leaf.ravel()[at])
            if _is_table(leaf)
            else cells(leaf)
            for leaf in leaves
        ]
        return _report(randomizer, held, words, jax.tree.unflatten(structure, lanes))

    structure = jax.tree.structure(None if drawn else values)
    lanes = [jax.ShapeDtypeStruct((LANES,), leaf.dtype) for leaf in held]
    words = [jax.ShapeDtypeStruct((LANES,), jnp.uint32)] * randomizer.num_words
    leaves = jax.eval_shape(lambda: [jnp.asarray(leaf) for leaf in jax.tree.leaves(randomizer)])
    try:
        found = jax.eval_shape(reports, leaves, words, lanes)
    except Unsupported as error:
        return f"{name}: {error}"
    return None if found.dtype == jnp.int32 else f"a report of {name} is not an int32"


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class _Drawing:
    """A randomizer of users without values, whose first words make them."""

    randomizer: Any
    maker: Any
    draft = None
    lazy_words = False

    @property
    def num_words(self) -> int:
        return self.maker.num_words + self.randomizer.num_words

    @property
    def counted(self) -> Counted | None:
        return self.randomizer.counted

    def from_bits(self, words: Any, value: Tree, /) -> Tree:
        del value
        number = self.maker.num_words
        value = self.maker.make([words[i] for i in range(number)])
        return self.randomizer.from_bits(words[number:], value)


def _with_values(randomizer: Randomizer, maker: Tree) -> Tree:
    """A randomizer whose users' values a maker makes; it has no tally of its own."""
    return _Drawing(randomizer, maker)


def _is_table(leaf: ArrayLike) -> bool:
    """Whether a leaf stays in memory; smaller ones are held in registers."""
    return np.size(leaf) > FEW_ENTRIES or np.size(leaf) == 0


def _small(randomizer: Randomizer) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(randomizer) if not _is_table(leaf)]


def _report(
    randomizer: Randomizer, leaves: Sequence[Any], words: Sequence[jax.Array], values: Tree
) -> jax.Array:
    """The reports of the users of all lanes, int32.

    Args:
      randomizer: whose structure counts.
      leaves: of it, as cells and tables.
      words: of the users, `num_words` vectors of lanes.
      values: of the users, a pytree of vectors of lanes, or of numbers.
    """
    structure = jax.tree.structure(randomizer)
    every = np.empty(len(words), object)
    for number, word in enumerate(words):
        every[number] = word

    def report(leaves: list[Any], words: jax.Array, value: Tree) -> Tree:
        return jax.tree.unflatten(structure, leaves).from_bits(words, value)

    (found,) = on_lanes(report, list(leaves), every, jax.tree.map(cell, values))
    return jnp.broadcast_to(found[()], (LANES,))


class _Operands(NamedTuple):
    """What the kernel reads: arrays in memory, or references to them.

    Attributes:
      place: uint32[5 + 4 s], the number of tiles, and for the randomizer's stream, then for each of
        the values', the key's two words and the two halves of `start`.
      numbers: of the randomizer's small leaves, by dtype, each with a 0 at its end.
      rows: the leaves of the users' values, and 1 for each user in the mask, where there is one; or
        the leaves of the tiles' values, and how many users of each tile count.
      tables: the randomizer's other leaves, as vectors.
    """

    place: jax.Array
    numbers: dict[str, jax.Array]
    rows: list[jax.Array]
    tables: list[jax.Array]


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """The kernel of one randomizer.

    Attributes:
      randomizer: a `Randomizer`, or a `_Drawing`; makes the reports.
      num_reports: distinct ones.
      rounds: of threefry, for the randomizer's words and for each of a value.
      structure: of a user's value.
      masked: whether a mask says who counts.
      by_tile: whether the users of a tile have one value, and a number says how many count.
      drawn: how many of a user's words are those of its value, each of a stream of its own.
      interpret: None to compile the kernel.
    """

    randomizer: Any
    num_reports: int
    rounds: tuple[int, ...]
    structure: Any
    masked: bool
    by_tile: bool
    drawn: int
    interpret: Any

    @property
    def bins(self) -> int:
        """Bins of the histogram; the last one takes what does not count."""
        return self.num_reports + 1

    @property
    def copies(self) -> int:
        """Copies of the histogram, a power of two."""
        most = (_SHARED // _BLOCKS - _TAKEN) // (4 * self.bins)
        return min(_COPIES, 2 ** (max(most, 1).bit_length() - 1))

    @property
    def size(self) -> int:
        """Numbers in a block's shared memory: the bins of all copies, and what pads them."""
        return -(-self.bins * self.copies // _ALIGNED) * _ALIGNED

    def counts(self, key: StreamKey, start: jax.Array, values: Tree, mask: jax.Array) -> jax.Array:
        """The number of each report, int32[num_reports].

        The kernel takes tiles that count as a whole, and XLA the few users who are left.
        """
        drawn, randomizer = isinstance(values, Drawn), self.randomizer
        rows: list[jax.Array] = [] if drawn else jax.tree.leaves(values)
        size = values.number if drawn else rows[0].shape[0]
        streams = [(key, start)]
        if drawn:
            streams += [(each, values.start) for each in values.keys]
        if self.by_tile:
            rows += [mask.astype(jnp.int32)]
            return self._counts_of_tiles(streams, rows, jnp.uint32(size), size)
        number = jnp.uint32(size) if self.masked else jnp.minimum(mask, np.uint32(size))
        tiles = number // np.uint32(TILE)
        users = tiles * np.uint32(TILE) + lax.iota(jnp.uint32, TILE)
        last = users.astype(jnp.int32)
        if isinstance(values, Drawn):
            held, randomizer = values.at(users), self.randomizer.randomizer
        else:
            held = jax.tree.map(lambda row: row.at[last].get(mode="clip"), values)
        counts = users < number
        if self.masked:
            counts &= mask.at[last].get(mode="clip")
        reports = users_reports(randomizer, key, start, users, held)
        found = jax.ops.segment_sum(counts.astype(jnp.int32), reports, self.num_reports)
        if size < TILE:
            return found
        rows += [mask.astype(jnp.int8)] if self.masked else []
        return found + self._counts_of_tiles(streams, rows, tiles, size // TILE)

    def _counts_of_tiles(
        self,
        streams: list[tuple[StreamKey, jax.Array]],
        rows: list[jax.Array],
        tiles: jax.Array,
        most: int,
    ) -> jax.Array:
        """The number of each report of the users of some tiles, at most so many.

        Args:
          streams: the randomizer's, and those of the values, each with its first counter.
          rows: as in `_Operands`.
          tiles: uint32[], how many.
          most: static.
        """
        leaves = [jnp.asarray(leaf).ravel() for leaf in jax.tree.leaves(self.randomizer)]
        operands = _Operands(
            place=jnp.concatenate(
                [tiles[None], *(x for k, at in streams for x in (k.data[:2], at))]
            ),
            numbers={
                dtype: jnp.concatenate(
                    [leaf for leaf in leaves if leaf.dtype == dtype and not _is_table(leaf)]
                    + [jnp.zeros(1, dtype)]
                )
                for dtype in _DTYPES
            },
            rows=rows,
            tables=[leaf for leaf in leaves if _is_table(leaf) and leaf.size],
        )
        blocks = _MULTIPROCESSORS * min(_BLOCKS, _SHARED // (4 * self.size + _TAKEN))
        blocks = min(blocks, most)
        flat, structure = jax.tree.flatten(operands)

        def body(*refs: Ref) -> None:
            *inputs, out, histogram = refs
            self._run(jax.tree.unflatten(structure, inputs), out, histogram, blocks)

        interpret = {} if self.interpret is None else {"interpret": self.interpret}
        kernel = plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((blocks, self.size), jnp.int32),
            grid=(blocks,),
            grid_names=("block",),
            scratch_types=[plgpu.SMEM((self.size,), jnp.int32)],
            compiler_params=plgpu.CompilerParams(
                lowering_semantics=plgpu.LoweringSemantics.Warpgroup
            ),
            **interpret,
        )
        found = jnp.sum(kernel(*flat), axis=0)[: self.bins * self.copies]
        return jnp.sum(found.reshape(self.bins, self.copies), axis=1)[: self.num_reports]

    def _run(self, given: _Operands, out: Ref, histogram: Ref, blocks: int) -> None:
        """What a block does; `given` are `_Operands`, by reference."""
        block = lax.axis_index("block")
        cleared = plgpu.Layout.WG_STRIDED((self.size,), vec_size=1)
        histogram[...] = plgpu.layout_cast(jnp.zeros((self.size,), jnp.int32), cleared)
        plgpu.commit_smem()  # waits for the block's other threads
        tiles = given.place[0].astype(jnp.int32)
        own = self.randomizer.num_words - self.drawn
        sizes = [own] + [1] * self.drawn
        parts = [[given.place[4 * i + j] for j in range(1, 5)] for i in range(len(sizes))]
        leaves = self._leaves(given)
        lane = plgpu.broadcasted_iota(jnp.int32, (LANES,), 0, layout=_LANE)
        last_bin = self.bins - 1

        def step(turn: jax.Array, carry: int) -> int:
            tile = block + turn * np.int32(blocks)
            made = [
                self._words((k0, k1), (high, low), tile, lane, size, rounds)
                for (k0, k1, high, low), size, rounds in zip(parts, sizes, self.rounds, strict=True)
            ]
            for half in (0, 1):
                # The words of values come first.
                words = [word for halves in (*made[1:], made[0]) for word in halves[half]]
                place = np.int32(half * LANES)
                counts = None
                if self.by_tile:
                    loaded = [row[tile] for row in given.rows]
                    counts = lane + place < loaded.pop()
                else:
                    at = pl.ds(tile * np.int32(TILE) + place, LANES)
                    loaded = [_load(row, at) for row in given.rows]
                    if self.masked:
                        counts = loaded.pop().astype(jnp.int32) != np.int32(0)
                values = jax.tree.unflatten(self.structure, loaded)
                report = _report(self.randomizer, leaves, words, values)
                if counts is not None:
                    report = jnp.where(counts, report, np.int32(last_bin))
                # No report, whatever its randomizer does, may count elsewhere in memory.
                inside = jnp.minimum(report.astype(jnp.uint32), np.uint32(last_bin))
                self._add(histogram, inside.astype(jnp.int32))
            return carry

        turns = (tiles - block + np.int32(blocks - 1)) // np.int32(blocks)
        lax.fori_loop(0, turns, step, 0)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(histogram, out.at[block])
        plgpu.wait_smem_to_gmem(0)

    def _leaves(self, given: _Operands) -> list[Any]:
        """The randomizer's leaves, as cells and tables."""
        entries = {dtype: itertools.count() for dtype in _DTYPES}
        tables = iter(given.tables)
        found: list[Any] = []
        for leaf in jax.tree.leaves(self.randomizer):
            shape, dtype = np.shape(leaf), jnp.result_type(leaf)
            name = str(dtype)
            if _is_table(leaf):
                read = _reader(next(tables), dtype, self.interpret) if np.size(leaf) else _nothing
                found.append(Table(shape, dtype, read))
                continue
            held = np.empty(shape, object)
            for index in np.ndindex(shape):
                held[index] = given.numbers[name][next(entries[name])]
            found.append(held)
        return found

    @staticmethod
    def _words(
        key: Pair, start: Pair, tile: jax.Array, lane: jax.Array, num_words: int, rounds: int
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        """The words of a tile's users: for each half of them, and each word, a vector of lanes.

        A tile's rows of blocks begin at multiples of 1,024, so that the lane is the lower bits of
        the counter, and the upper half is that of all lanes.
        """
        halves: tuple[list[jax.Array], list[jax.Array]] = ([], [])
        for number in range(num_words):
            row = tile.astype(jnp.uint32) * np.uint32(num_words) + np.uint32(number)
            offset = row * np.uint32(LANES)
            low = start[1] + offset
            high = start[0] + (low < offset).astype(jnp.uint32)
            block = threefry2x32(key, (high, low + lane.astype(jnp.uint32)), rounds)
            for half, word in zip(halves, block, strict=True):
                half.append(word)
        return halves

    def _add(self, histogram: Ref, place: jax.Array) -> None:
        """Adds 1 to the histogram's entries at these places, in a copy of the lane's."""
        if self.interpret is not None:
            ones = jnp.zeros((self.size,), jnp.int32).at[place * np.int32(self.copies)].add(1)
            histogram[...] = histogram[...] + ones
            return

        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), _LANE))
        def add(context: object, shared: Value, places: Value) -> None:
            del context
            i32 = ir.IntegerType.get_signless(32)
            copy = arith.andi(mgpu.utils.thread_idx(), mgpu.utils.c(self.copies - 1, i32))
            base = mgpu.utils.memref_ptr(shared)
            for place in _elements(places):
                copied = arith.addi(arith.muli(place, mgpu.utils.c(self.copies, i32)), copy)
                llvm.inline_asm(
                    ir.Type.parse("!llvm.void"),
                    [_pointer(base, copied, i32), mgpu.utils.c(1, i32)],
                    "red.relaxed.cta.shared::cta.add.u32 [$0], $1;",
                    "r,r",
                    has_side_effects=True,
                )

        add(histogram, place)  # pyright: ignore[reportCallIssue]


def _load(ref: Ref, at: slice | pl.Slice) -> jax.Array:
    """The entries of an array in memory, a vector of lanes."""
    # jax 0.10 asks for a place beside the reference, later ones warn of it or have it no more.
    place = inspect.signature(plgpu.load).parameters.get("idx")
    whole: tuple[Any, ...] = ((),) if place and place.default is place.empty else ()
    return plgpu.load(ref.at[at], *whole, layout=_LANE, optimized=False)


def _nothing(places: jax.Array) -> jax.Array:
    raise Unsupported("an empty table has no entries.")


def _reader(ref: Ref, dtype: np.dtype, interpret: object) -> Callable[[jax.Array], jax.Array]:
    """Reads a table in memory at places, a vector of lanes."""
    if interpret is not None:
        return lambda places: ref[...][jnp.broadcast_to(places, (LANES,))]

    @plgpu.inline_mgpu(
        arg_types=(plgpu.RefType(), _LANE),
        return_type=plgpu.ShapeDtypeStruct((LANES,), dtype, _LANE),
    )
    def read(context: object, table: Value, places: Value) -> Value:
        del context
        kind = ir.MemRefType(table.type).element_type
        base = mgpu.utils.memref_ptr(table)
        registers = np.empty(places.registers.shape, object)
        for index, register in np.ndenumerate(places.registers):
            entries = [llvm.load(kind, _pointer(base, place, kind)) for place in _entries(register)]
            whole = ir.VectorType.get((len(entries),), kind)
            registers[index] = vector.from_elements(whole, entries)
        signed = None if dtype == jnp.float32 else dtype == jnp.int32
        return mgpu.FragmentedArray(_registers=registers, _layout=places.layout, _is_signed=signed)

    return lambda places: read(ref, jnp.broadcast_to(places, (LANES,)))  # pyright: ignore[reportCallIssue]


def _elements(array: Value) -> list[Value]:
    """The thread's numbers of a vector of lanes, as values of MLIR."""
    return [entry for register in array.registers.flat for entry in _entries(register)]


def _entries(register: Value) -> list[Value]:
    (length,) = ir.VectorType(register.type).shape
    return [vector.extract(register, [], [number]) for number in range(length)]


def _pointer(base: Value, place: Value, kind: ir.Type) -> Value:
    """The address of an entry."""
    dynamic = -(2**31)  # stands for an index that is an operand
    return llvm.getelementptr(base.type, base, [place], [dynamic], kind, llvm.GEPNoWrapFlags.none)
