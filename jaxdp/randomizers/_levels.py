"""Inputs on a grid of levels, rounded at random, and integer noise from a table.

An input in [-bound, bound], or a vector in the L1 ball, becomes one of the integer levels
-J, .., J by unbiased random rounding. A report depends on the level and on an integer that is drawn
from a table of exact masses. So the law of a report given a level is a row of rational numbers, and
that given an input is a mixture of rows: privacy holds for whatever the floats do.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, UInt32

from .._bits import FRACTION as FRACTION
from .._contract import params
from .._x64 import places_of
from ..random import AliasTable, Count, multinomial

T = TypeVar("T")


_CELLS = 2**15  # levels of entries of which users are counted at a time
_ROWS = 16  # of them whose reports are drawn at a time
_FAR = np.float32(1e15)  # levels; more is cut to it before a norm is taken


@params
class NoiseTable:
    """The law of an integer, shifted to start at 0: what draws it, and its exact masses.

    Attributes:
      alias: draws it from one word, or two.
      masses: the masses in units of 2**-64, as upper and lower halves.
    """

    alias: AliasTable
    masses: UInt32[Array | np.ndarray, "2 cells"]

    @classmethod
    def of(cls, masses: tuple[int, ...]) -> "NoiseTable":
        """The table of masses that add up to 2**64, padded by zeros to a power of two."""
        alias = AliasTable.of(masses, 64)
        padded = [*masses, *[0] * (alias.packed.size - len(masses))]
        halves = [[m >> 32 for m in padded], [m & (2**32 - 1) for m in padded]]
        return cls(alias, np.array(halves, np.uint32))

    def probabilities(self) -> Float[Array, " cells"]:
        """The probabilities of the cells; inside an x64 block."""
        upper, lower = jnp.asarray(self.masses).astype(jnp.float64)[jnp.arange(2)]
        return upper * 2.0**-32 + lower * 2.0**-64


class Steps(NamedTuple):
    """Vectors in units of 1 / 2**16 levels.

    Attributes:
      ends: the cumulative sums of the absolute values, int32[.., d], at most 2**16 J.
      signs: the signs of the entries, int32[.., d].
    """

    ends: jax.Array
    signs: jax.Array

    def before(self) -> jax.Array:
        """The cumulative sums before each entry."""
        first = jnp.zeros((*self.ends.shape[:-1], 1), self.ends.dtype)
        return jnp.concatenate([first, self.ends[..., :-1]], axis=-1)

    def levels(self, dither: jax.Array) -> jax.Array:
        """The integer levels for dithers in [0, 2**16), uniform; unbiased, of L1 norm at most J."""
        return _levels(self.before(), self.ends, self.signs, dither)


def _levels(
    before: Int32[Array, "*k"],
    ends: Int32[Array | np.ndarray, "*k"],
    signs: Int32[Array | np.ndarray, "*k"],
    dither: Int32[Array, "..."],
) -> Int32[Array, "*k"]:
    """The levels of entries, from the cumulative sums before and after each."""
    # One dither rounds all cumulative sums: their differences cannot add up to more than J.
    last, first = ((at + dither) >> np.int32(16) for at in (ends, before))
    return jnp.asarray(signs) * (last - first)


def dither_of(words: UInt32[Array, "*k"]) -> Int32[Array, "*k"]:
    """The lower halves of words, uniform on [0, 2**16): what `Steps.levels` rounds by."""
    return (words & np.uint32(FRACTION - 1)).astype(jnp.int32)


def steps_of(
    values: Float[Array | np.ndarray, "*k d"], scale: Float32[Array, ""], num_levels: int
) -> Steps:
    """Vectors, projected to the L1 ball; NaN counts as 0.

    Args:
      values: the vectors; numbers have d = 1.
      scale: float32[], 2**16 J over the largest norm.
      num_levels: J.
    """
    made = _by_entry(values, scale, num_levels, lambda _, end, sign, __: (end, sign), ())
    return Steps(*(jnp.moveaxis(x, 0, -1) for x in made))


def reports_by_entry(
    values: Float[Array, "n d"],
    scale: Float32[Array, ""],
    num_levels: int,
    words: UInt32[Array, " n"],
    others: UInt32[Array, "d n"],
    report: Callable[[jax.Array, jax.Array], jax.Array],
) -> Int32[Array, "d n"]:
    """The drafts of the reports of many vectors, an entry of all of them after the other.

    Args:
      values: see `steps_of`.
      scale: see `steps_of`.
      num_levels: J.
      words: their lower halves round.
      others: words for the noise of each entry.
      report: from the levels of an entry, int32[n], and its words, to reports, int32[n].
    """
    dither = dither_of(words)

    def visit(before: jax.Array, end: jax.Array, sign: jax.Array, words: jax.Array) -> jax.Array:
        return report(_levels(before, end, sign, dither), words)

    return _by_entry(values, scale, num_levels, visit, others)


def _by_entry(
    values: Float[Array | np.ndarray, "*k d"],
    scale: Float32[Array, ""],
    num_levels: int,
    visit: Callable[[jax.Array, jax.Array, jax.Array, Any], T],
    others: Any,
) -> T:
    """Visits the entries of all vectors one by one, with the cumulative sums before and after.

    All that is made of an entry stays in the cache. (And `jnp.cumsum` takes 10 times as long on
    CPU.)
    """
    most = np.float32(num_levels * FRACTION)
    entries = jnp.moveaxis(jnp.nan_to_num(jnp.asarray(values, jnp.float32)) * scale, -1, 0)
    factor = np.float32(1)
    if len(entries) > 1:
        norm = _sum_in_order(jnp.minimum(jnp.abs(entries), _FAR))
        factor = most / jnp.maximum(norm, most)

    def step(before: jax.Array, each: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        entry, other = each
        size = jnp.rint(jnp.minimum(jnp.minimum(jnp.abs(entry), _FAR) * factor, most))
        # Floats may leave the sum a little above the bound: what is beyond is cut.
        end = jnp.minimum(before + size.astype(jnp.int32), np.int32(most))
        return end, visit(before, end, jnp.where(entry < 0, np.int32(-1), np.int32(1)), other)

    start = jnp.zeros(entries.shape[1:], jnp.int32)
    if len(entries) == 1:  # no loop
        _, made = step(start, jax.tree.map(lambda x: x[0], (entries, others)))
        return jax.tree.map(lambda x: x[None], made)
    return jax.lax.scan(step, start, (entries, others))[1]


def _sum_in_order(terms: Float32[Array, "d *k"]) -> Float32[Array, "*k"]:
    """The sum over the first axis, halves at a time: the same float on every machine.

    A reduction adds in an order of its own, and a last bit of the norm may move an entry to the
    next part of a level.
    """
    while len(terms) > 1:
        half = len(terms) // 2
        sums = terms[:half] + terms[half : 2 * half]
        terms = jnp.concatenate([sums, terms[2 * half :]])
    return terms[0]


def count_levels(
    key: jax.Array, counts: Count, steps: Steps
) -> tuple[Int32[Array, "m d"], Float[Array, "m d"]]:
    """The levels of given users, drawn at once: for each entry levels and how many have them.

    One dither moves all entries of a user. Sorted, the dithers at which a cumulative sum crosses a
    level cut [0, 2**16) into d + 1 pieces, and the users of an input are split between them.

    Args:
      key: a stream key, used for draws.
      counts: Count[k], the users of each input.
      steps: of k inputs.

    Returns:
      Levels and numbers of users, of m = 2 k cells for each entry; float64, exact.
    """
    ends = steps.ends
    crossing = FRACTION - (ends & np.int32(FRACTION - 1))  # the first dither that crosses a level
    order = jnp.argsort(crossing, axis=-1)
    starts = jnp.take_along_axis(crossing, order, axis=-1)
    edges = jnp.pad(starts, ((0, 0), (1, 1)), constant_values=((0, 0), (0, FRACTION)))
    pieces = multinomial(key, counts, jnp.diff(edges, axis=-1).astype(jnp.float64)).f64()
    beyond = jnp.cumsum(pieces[:, :0:-1], axis=-1)[:, ::-1]  # users whose dither crosses
    crossed = jnp.put_along_axis(jnp.zeros_like(beyond), order, beyond, axis=-1, inplace=False)
    before = jnp.pad(crossed[:, :-1], ((0, 0), (1, 0)))
    moved = crossed - before  # an entry moves up or down, by one level
    low = (ends >> np.int32(16)) - (steps.before() >> np.int32(16))
    other = low + jnp.sign(moved).astype(jnp.int32)
    levels = jnp.concatenate([steps.signs * low, steps.signs * other])
    users = counts.f64()[:, None]
    return levels, jnp.concatenate([users - jnp.abs(moved), jnp.abs(moved)])


def sum_reports(
    key: jax.Array,
    levels: Int32[Array, "m d"],
    users: Float[Array, "m d"],
    num_levels: int,
    row: Callable[[jax.Array], jax.Array],
    values: jax.Array,
) -> Count:
    """Sums of functions of the reports of users with given levels, exact in law.

    Args:
      key: a stream key; it is split.
      levels: in [-J, J].
      users: how many have each.
      num_levels: J.
      row: from a level to the float64[r] probabilities of the reports.
      values: int32[f, r], what is added up of each report.

    Returns:
      Count[f, d].
    """
    size, (_, dim) = 2 * num_levels + 1, levels.shape
    blocks = -(-dim * size // _CELLS)
    width = -(-dim // blocks)
    add = functools.partial(Count.segment_sum, num_segments=size)

    def block(entries: tuple[jax.Array, jax.Array, jax.Array]) -> Count:
        key, levels, users = entries
        # Users of one level and entry are drawn together, whatever their inputs.
        by_level = jax.vmap(add, (1, 1))(Count.from_float(users), levels + np.int32(num_levels))
        return _sum_rows(key, by_level, row, values)

    padding = [(0, 0), (0, blocks * width - dim)]
    parts = (
        jnp.moveaxis(jnp.pad(x, padding).reshape(-1, blocks, width), 1, 0) for x in (levels, users)
    )
    sums: Count = jax.lax.map(block, (jax.random.split(key, blocks), *parts))
    return jax.tree.map(lambda x: x.reshape(-1, x.shape[-1])[:dim].T, sums)


def _sum_rows(
    key: jax.Array,
    users: Count,
    row: Callable[[jax.Array], jax.Array],
    values: Int32[Array, "f r"],
) -> Count:
    """`sum_reports` of users who are counted by entry and level, Count[d, 2 J + 1]: Count[d, f].

    Few of these counts are not 0, and only those are drawn.
    """
    dim, size = users.shape
    rows = users.reshape(-1)
    occupied = rows.f64() > 0
    order = places_of(occupied, dim * size + _ROWS)

    def step(number: jax.Array, sums: Count) -> Count:
        found = jax.lax.dynamic_slice_in_dim(order, number * np.int32(_ROWS), _ROWS)
        entry, level = jnp.divmod(found, np.int32(size))
        of = jax.vmap(row)(level - np.int32(size // 2))
        there = jax.tree.map(lambda x: x.at[found].get(mode="fill", fill_value=0), rows)
        drawn = multinomial(jax.random.fold_in(key, number), there, of)
        sizes = drawn[None].times(jnp.abs(values).astype(jnp.uint32)[:, None])
        each = _signed(sizes, (values < 0)[:, None]).sum(2)
        return sums + jax.tree.map(jnp.transpose, each).segment_sum(entry, dim)

    steps = -(-jnp.sum(occupied, dtype=jnp.int32) // np.int32(_ROWS))
    return jax.lax.fori_loop(0, steps, step, Count.zeros((dim, len(values))))


def _signed(count: Count, negative: jax.Array) -> Count:
    return jax.tree.map(lambda x, y: jnp.where(negative, y, x), count, -count)
