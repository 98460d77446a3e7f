"""`randomize_and_tally` on any platform."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..threefry_words import TILE, threefry_words
from ..threefry_words.ref import (
    LANES,
    StreamKey,
    first_blocks,
    first_words,
    pairs_users,
    users_words,
)
from ..threefry_words.xla import FEW_WORDS, joined, separated, stored, threefry_tiles
from .ref import Draft, Randomizer, Tree, count_reports, randomize_and_tally_ref, users_reports

_STORED_WORDS = 4  # of a user, on accelerators
_AGAIN = 64  # users of a group, whose reports are made anew where a draft is not sure of one


def randomize_and_tally_xla(
    randomizer: Randomizer,
    key: StreamKey,
    start: jax.Array,
    first: jax.Array | None,
    values: Tree,
    mask: jax.Array,
) -> Tree:
    """The tally of the reports of consecutive users; see `randomize_and_tally`."""
    draft = randomizer.draft
    if draft is None and (randomizer.lazy_words or first is not None):
        return randomize_and_tally_ref(randomizer, key, start, first, values, mask)
    size, num_words = mask.shape[0], randomizer.num_words
    made = num_words if draft is None else draft.num_words
    users = lax.iota(jnp.uint32, size)
    users = users if first is None else users + first
    if first is not None:
        words = first_words(users_words(key, start, users, num_words), made)[None]
    elif size <= LANES or num_words == 1 or (draft is None and num_words <= FEW_WORDS):
        words = threefry_words(key, start, size, num_words)[None, :made]
    else:  # tile by tile, as the words lie in memory
        words = threefry_tiles(key, start, -(-size // TILE), num_words, made)
    tiles, _, width = words.shape

    def by_tile(leaf: jax.Array) -> jax.Array:
        padded = jnp.pad(leaf, [(0, tiles * width - size)] + [(0, 0)] * (leaf.ndim - 1))
        return padded.reshape(tiles, width, *leaf.shape[1:])

    held, members = jax.tree.map(by_tile, values), by_tile(mask)
    if draft is None:
        report = jax.vmap(randomizer.from_bits, in_axes=(-1, 0), out_axes=-1)
        reports = _stored_numbers(report, words, held, start)
        return _tally(randomizer, reports, members)
    reports = _stored_numbers(draft.reports, words, held, start)
    if draft.complete:
        return _tally(randomizer, reports, members)
    sure = jnp.ones(members.shape, bool)
    for leaf in jax.tree.leaves(reports):
        sure &= jnp.all(leaf != Draft.UNSURE, axis=range(1, leaf.ndim - 1))
    total = _tally(randomizer, reports, members & sure)

    # So few users are unsure that to look for the next group that has one is quicker than to list
    # them. A group's users are far apart: the groups that do are told by columns, as vectors.
    groups = -(-size // _AGAIN)
    unsure = jnp.pad(mask & ~sure.ravel()[:size], (0, groups * _AGAIN - size))
    unsure = unsure.reshape(_AGAIN, groups)

    def again(state: tuple[Tree, jax.Array]) -> tuple[Tree, jax.Array]:
        total, left = state
        group = jnp.argmax(left)
        rows = jnp.minimum(lax.iota(jnp.int32, _AGAIN) * groups + group, size - 1)
        held = jax.tree.map(lambda leaf: leaf[rows], values)
        made = users_reports(randomizer, key, start, users[rows], held)
        added = randomizer.tally(made, unsure[:, group])
        return randomizer.merge(total, added), left.at[group].set(False)

    left = jnp.any(unsure, axis=0)
    return lax.while_loop(lambda state: jnp.any(state[1]), again, (total, left))[0]


def randomize_and_tally_pairs(
    randomizer: Randomizer,
    key: StreamKey,
    start: jax.Array,
    first: jax.Array | None,
    values: Tree,
    mask: jax.Array,
) -> Tree:
    """The tally of the reports of consecutive users, for CPUs, where values are in memory.

    Of users with one word, whose reports are counted, it makes those of both users of each block
    together, and stores them: what counts reports would make each block once for either word. (So
    it would values that are not in memory.) All others are left to "xla".
    """
    counted, size = randomizer.counted, mask.shape[0]
    alone = randomizer.num_words == 1 and randomizer.draft is None
    if counted is None or counted.num_reports == 2 or not alone or first is not None:
        return randomize_and_tally_xla(randomizer, key, start, first, values, mask)
    tiles = -(-size // TILE)

    def reports() -> jax.Array:
        held, made = jax.tree.map(pairs_users, values), []
        place = first_blocks(lax.iota(jnp.uint32, tiles * LANES), 1)
        for half, words in enumerate(key.blocks((start[0], start[1]), place)):
            value = jax.tree.map(lambda leaf, half=half: leaf[half], held)
            numbers = jax.vmap(randomizer.from_bits, in_axes=(-1, 0))(words[None], value)
            made.append(numbers.astype(jnp.uint32))
        return joined(*made)

    both, members = separated(stored(jax.jit(reports, inline=True), start)), pairs_users(mask)
    count = _counted_in_nibbles if counted.num_reports <= 16 else count_reports
    first_ones, second_ones = (
        count(numbers.astype(jnp.int32), member, counted.num_reports)
        for numbers, member in zip(both, members, strict=True)
    )
    return counted.tally(first_ones + second_ones)


def _counted_in_nibbles(reports: jax.Array, mask: jax.Array, num_reports: int) -> jax.Array:
    """`count_reports` of whole tiles and up to 16 reports, by additions.

    XLA for CPU scatters on one core. A word has eight counters of four bits, which hold 8 users;
    then four of eight bits, twice, which hold 16 such words.
    """
    counts = []
    for begin in range(0, num_reports, 8):
        # A report that is not one of these eight shifts the 1 out.
        one = np.uint32(1) << (4 * (reports.astype(jnp.uint32) - np.uint32(begin)))
        words = jnp.sum(jnp.where(mask, one, 0).reshape(8, 16, -1), axis=0, dtype=jnp.uint32)
        for nibble in range(8):
            part = (words >> np.uint32(4 * (nibble % 2))) & np.uint32(0x0F0F0F0F)
            total = jnp.sum(part, axis=0, dtype=jnp.uint32)
            counts.append(jnp.sum((total >> np.uint32(8 * (nibble // 2))) & 255, dtype=jnp.uint32))
    return jnp.stack(counts[:num_reports]).astype(jnp.int32)


def randomize_and_tally_wide(
    randomizer: Randomizer,
    key: StreamKey,
    start: jax.Array,
    first: jax.Array | None,
    values: Tree,
    mask: jax.Array,
) -> Tree:
    """The tally of the reports of consecutive users, without branches, for many threads.

    Many words are made by whoever reads them, so that a sum over users may keep them in registers,
    and the users of the two halves of a tile's blocks are tallied apart: one block serves a user of
    each. A few are stored: what reads several of them would make each block as often. Of a single
    word's block the other half is dropped: that takes no longer than to store both.
    """
    size, num_words = mask.shape[0], randomizer.num_words
    if randomizer.lazy_words or first is not None:
        return randomize_and_tally_ref(randomizer, key, start, first, values, mask)
    report = jax.vmap(randomizer.from_bits, in_axes=(-1, 0), out_axes=-1)

    def together(words: jax.Array) -> Tree:
        # As one tile: without this axis XLA for GPUs stores words that a scatter alone reads.
        held = jax.tree.map(lambda leaf: leaf[None], values)
        return _tally(randomizer, jax.vmap(report)(words[None], held), mask[None])

    if size <= LANES or num_words == 1:
        return together(threefry_words(key, start, size, num_words))
    tiles = -(-size // TILE)

    def halves(leaf: jax.Array) -> tuple[jax.Array, jax.Array]:
        padded = jnp.pad(leaf, [(0, tiles * TILE - size)] + [(0, 0)] * (leaf.ndim - 1))
        both = padded.reshape(tiles, 2, LANES, *leaf.shape[1:])
        return both[:, 0].reshape(-1, *leaf.shape[1:]), both[:, 1].reshape(-1, *leaf.shape[1:])

    held = (jax.tree.map(lambda leaf, half=half: halves(leaf)[half], values) for half in (0, 1))
    shape = (num_words, tiles * LANES)
    lane = lax.broadcasted_iota(jnp.uint32, shape, 1)
    row = (lane >> np.uint32(10)) * np.uint32(num_words) + lax.broadcasted_iota(
        jnp.uint32, shape, 0
    )
    words = key.blocks(start, (row << np.uint32(10)) | (lane & np.uint32(LANES - 1)))
    if num_words <= _STORED_WORDS:
        parts = [half.reshape(num_words, tiles, LANES) for half in lax.optimization_barrier(words)]
        return together(jnp.stack(parts, axis=2).reshape(num_words, tiles * TILE)[:, :size])
    tallies = [
        randomizer.tally(_users_first(report(word, value)), member)
        for word, value, member in zip(words, held, halves(mask), strict=True)
    ]
    return randomizer.merge(*tallies)


def _stored_numbers(
    report: Callable[[jax.Array, Tree], Tree], words: jax.Array, held: Tree, start: jax.Array
) -> Tree:
    """The reports of all tiles, stored on CPU where each is a number from several words.

    Several sums read it; and what counts such numbers would make their words one by one.
    """
    # Traced once, though asked for its shapes and written into two branches.
    make = jax.jit(jax.vmap(report), inline=True)
    tiles, num_words, width = words.shape
    if num_words > 1:
        leaves = jax.tree.leaves(jax.eval_shape(make, words, held))
        if all(leaf.size <= tiles * width for leaf in leaves):
            return lax.platform_dependent(
                cpu=lambda: stored(lambda: make(words, held), start),
                default=lambda: make(words, held),
            )
    return make(words, held)


def _tally(randomizer: Randomizer, reports: Tree, mask: jax.Array) -> Tree:
    """The tally of the reports of all tiles, whose axes are tiles, .., users."""
    if all(leaf.ndim == 2 for leaf in jax.tree.leaves(reports)):
        return randomizer.tally(jax.tree.map(jnp.ravel, reports), jnp.ravel(mask))
    tallies = jax.vmap(lambda r, m: randomizer.tally(_users_first(r), m))(reports, mask)
    return merged(randomizer, tallies, mask.shape[0])


def merged(randomizer: Randomizer, tallies: Tree, number: int) -> Tree:
    """The tally of the users of all tallies along the leading axis, merged in pairs."""
    while number > 1:
        half = number // 2
        parts = (slice(0, half), slice(half, 2 * half), slice(2 * half, number))
        first, second, rest = (jax.tree.map(lambda x, p=p: x[p], tallies) for p in parts)
        merged = randomizer.merge(first, second)
        tallies = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), merged, rest)
        number -= half
    return jax.tree.map(lambda x: x[0], tallies)


def _users_first(reports: Tree) -> Tree:
    return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), reports)
