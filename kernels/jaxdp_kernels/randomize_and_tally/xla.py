"""`randomize_and_tally` on any platform."""

import jax
import jax.numpy as jnp
from jax import lax

from ..threefry_words import LANES, TILE, threefry_words, users_words
from ..threefry_words.ref import first_words
from ..threefry_words.xla import threefry_tiles
from .ref import Draft, Randomizer, Tree, randomize_and_tally_ref, users_reports

_AGAIN = 64  # users whose reports are made anew at a time, where a draft is not sure


def randomize_and_tally_xla(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    first: jax.Array | None,
    values: Tree,
    mask: jax.Array,
) -> Tree:
    """The tally of the reports of consecutive users; see `randomize_and_tally`."""
    if randomizer.draft is not None:
        return _by_draft(randomizer, randomizer.draft, key_data, start, first, values, mask)
    if randomizer.lazy_words or first is not None:
        return randomize_and_tally_ref(randomizer, key_data, start, first, values, mask)
    words = threefry_words(key_data, start, mask.shape[0], randomizer.num_words)
    reports = jax.vmap(randomizer.from_bits, in_axes=(-1, 0), out_axes=-1)(words, values)
    return randomizer.tally(_users_first(reports), mask)


def _by_draft(
    randomizer: Randomizer,
    draft: Draft,
    key_data: jax.Array,
    start: jax.Array,
    first: jax.Array | None,
    values: Tree,
    mask: jax.Array,
) -> Tree:
    """The tally of the drafts that are sure, and then of the other reports, a few at a time."""
    size, num_words = mask.shape[0], randomizer.num_words
    users = lax.iota(jnp.uint32, size)
    users = users if first is None else users + first
    if first is None and size > LANES:  # tile by tile, as the words lie in memory
        tiles = -(-size // TILE)
        words = threefry_tiles(key_data, start, tiles, num_words, draft.num_words)
    else:
        words = first_words(users_words(key_data, start, users, num_words), draft.num_words)[None]
    tiles, _, width = words.shape

    def by_tile(leaf: jax.Array) -> jax.Array:
        padded = jnp.pad(leaf, [(0, tiles * width - size)] + [(0, 0)] * (leaf.ndim - 1))
        return padded.reshape(tiles, width, *leaf.shape[1:])

    reports, sure = jax.vmap(draft.reports)(words, jax.tree.map(by_tile, values))
    drafted = jax.vmap(lambda r, m: randomizer.tally(_users_first(r), m))
    total = _merged(randomizer, drafted(reports, by_tile(mask) & sure), tiles)

    def again(state: tuple[Tree, jax.Array]) -> tuple[Tree, jax.Array]:
        total, unsure = state
        (places,) = jnp.nonzero(unsure, size=min(_AGAIN, size), fill_value=size)
        rows = jnp.minimum(places, size - 1)
        held = jax.tree.map(lambda leaf: leaf[rows], values)
        made = users_reports(randomizer, key_data, start, users[rows], held)
        added = randomizer.tally(made, places < size)
        return randomizer.merge(total, added), unsure.at[places].set(False, mode="drop")

    unsure = mask & ~sure.ravel()[:size]
    return lax.while_loop(lambda state: jnp.any(state[1]), again, (total, unsure))[0]


def _merged(randomizer: Randomizer, tallies: Tree, number: int) -> Tree:
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
