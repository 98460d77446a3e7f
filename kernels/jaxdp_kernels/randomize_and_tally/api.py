"""Public face of the `randomize_and_tally` operation."""

from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

from .._dispatch import need_gpu, pick
from ..threefry_words import StreamKey
from .ref import Counted as Counted
from .ref import Draft as Draft
from .ref import Drawn as Drawn
from .ref import Randomizer as Randomizer
from .ref import Tree, randomize_and_tally_ref
from .ref import count_reports as count_reports
from .ref import tiles_users as tiles_users
from .ref import users_reports as users_reports
from .xla import (
    randomize_and_tally_pairs,
    randomize_and_tally_wide,
    randomize_and_tally_xla,
)


def _mosaic_gpu(randomizer, key, start, first, values, mask) -> Tree:
    """The Mosaic GPU kernel, imported where it is asked for: Pallas is slow to import."""
    need_gpu("mosaic_gpu", "an NVIDIA GPU")
    from .mosaic_gpu import randomize_and_tally_mosaic_gpu

    return randomize_and_tally_mosaic_gpu(randomizer, key, start, first, values, mask)


IMPLEMENTATIONS = {
    "xla": randomize_and_tally_xla,
    "pairs": randomize_and_tally_pairs,
    "wide": randomize_and_tally_wide,
    "ref": randomize_and_tally_ref,
    "mosaic_gpu": _mosaic_gpu,
}
"""Implementations by name. `None` stands for "xla", which runs on every platform."""


def randomize_and_tally(
    randomizer: Randomizer,
    key: StreamKey,
    start: jax.Array,
    first: jax.Array | None,
    values: Tree,
    mask: jax.Array,
    implementation: Literal["xla", "pairs", "wide", "ref", "mosaic_gpu"] | None = None,
) -> Tree:
    """The tally of the reports of consecutive users: words, reports and sums as one program.

    User u has the words of `threefry_words` and the report `randomizer.from_bits(words, value)`.
    Words are made where they are read: whole columns of them for most randomizers, one at a time
    for those with `lazy_words`. Reports are laid out with the users along the minor axis, so that a
    sum over users reads what it adds in order, and need not be stored. Where a randomizer has a
    `draft`, nearly all reports come from it, and the few of which it is not sure are made anew.

    Edge cases:
      =====================  ====================================================================
      users out of the mask  make reports that the tally leaves out
      `mask` a number        the first ones count; more than there are stand for all
      `mask` many numbers    of each tile of 2,048 users the first ones count; all of a tile have
                             one value
      `first` None           the first user begins a tile; both words of each block are used
      `first` traced         any first user; half of the words that are made are not used
      =====================  ====================================================================

    Args:
      randomizer: a `Randomizer`, such as the params of any of `jaxdp.randomizers`.
      key: of the stream of users' words.
      start: uint32[2], the counter of the first block of the tile that holds the first user, as
        (high, low) halves; see `threefry_words`.
      first: uint32[], how many users of that tile come before the first one; None for none.
      values: a pytree of arrays [n, ...], the users' values; or [tiles, ...], a row for each tile;
        or `Drawn` ones.
      mask: bool[n], the users that count; or uint32[], how many of the first ones do; or
        uint32[tiles], how many of the first ones of each tile do, with a row of values for each.
      implementation: "xla", or None for the same; "pairs" for values in memory, on a CPU; "wide"
        for many threads; "ref" is the definition, a user at a time. "mosaic_gpu" is one kernel for
        NVIDIA GPUs from Hopper on, for randomizers with `counted` whose users hold numbers and read
        few words: 2.0 to 2.3 ps a user of `KRR` on an H200.

    Returns:
      What `tally` returns.

    Raises:
      ValueError: an implementation that is unknown, or not for this device or randomizer; or shapes
        and dtypes other than the above.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from jaxdp.randomizers import KRR
      >>> params = KRR(num_values=3, epsilon=20.0).build()
      >>> key, start = StreamKey.of(jax.random.key(0)), jnp.zeros(2, jnp.uint32)
      >>> values, everyone = jnp.array([0, 2, 2, 1, 2]), jnp.ones(5, bool)
      >>> randomize_and_tally(params, key, start, None, values, everyone).numpy().tolist()
      [1, 1, 3]
    """
    if start.shape != (2,) or start.dtype != jnp.uint32:
        raise ValueError(
            f"start must be uint32[2] (high, low), got {start.dtype}{list(start.shape)}."
        )
    if isinstance(values, Drawn):
        rows: list[int | None] = [values.number]
    else:
        rows = [leaf.shape[0] if leaf.ndim else None for leaf in jax.tree.leaves(values)]
    number = mask.ndim == 0 and mask.dtype == jnp.uint32
    by_tile = mask.ndim == 1 and mask.dtype == jnp.uint32
    size = mask.shape[0] if by_tile or (mask.ndim == 1 and mask.dtype == jnp.bool_) else None
    size = rows[0] if number and rows else size
    if size is None or set(rows) != {size}:
        raise ValueError(
            "values must have one row for each of the users in mask, bool[n], or equally many rows "
            f"for a mask uint32[], got rows {sorted({*map(str, rows)})} and {mask.dtype}"
            f"{list(mask.shape)}."
        )
    if first is not None and (by_tile or isinstance(values, Drawn)):
        raise ValueError("first must be None where values are drawn, or those of tiles.")
    if implementation != "mosaic_gpu":
        if isinstance(values, Drawn):
            values = values.at(lax.iota(jnp.uint32, size))
        if number:
            mask = lax.iota(jnp.uint32, size) < mask
        elif by_tile:
            values, mask = tiles_users(values, mask)
    run = pick(IMPLEMENTATIONS, implementation)
    return run(randomizer, key, start, first, values, mask)
