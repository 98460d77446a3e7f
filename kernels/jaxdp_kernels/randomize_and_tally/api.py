"""Public face of the `randomize_and_tally` operation."""

from typing import Literal

import jax
import jax.numpy as jnp

from .._dispatch import pick
from ..threefry_words import StreamKey
from .ref import Counted as Counted
from .ref import Draft as Draft
from .ref import Randomizer as Randomizer
from .ref import Tree, randomize_and_tally_ref
from .xla import randomize_and_tally_wide, randomize_and_tally_xla

IMPLEMENTATIONS = {
    "xla": randomize_and_tally_xla,
    "wide": randomize_and_tally_wide,
    "ref": randomize_and_tally_ref,
}
"""Implementations by name. `None` stands for "xla", which runs on every platform."""


def randomize_and_tally(
    randomizer: Randomizer,
    key: StreamKey,
    start: jax.Array,
    first: jax.Array | None,
    values: Tree,
    mask: jax.Array,
    implementation: Literal["xla", "wide", "ref"] | None = None,
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
      `first` None           the first user begins a tile; both words of each block are used
      `first` traced         any first user; half of the words that are made are not used
      =====================  ====================================================================

    Args:
      randomizer: a `Randomizer`, such as the params of any of `jaxdp.randomizers`.
      key: of the stream of users' words.
      start: uint32[2], the counter of the first block of the tile that holds the first user, as
        (high, low) halves; see `threefry_words`.
      first: uint32[], how many users of that tile come before the first one; None for none.
      values: a pytree of arrays [n, ...], the users' values.
      mask: bool[n], the users that count.
      implementation: "xla", or None for the same; "ref" is the definition, a user at a time.

    Returns:
      What `tally` returns.

    Raises:
      ValueError: unknown implementation, or shapes and dtypes other than the above.

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
    rows = {leaf.shape[0] if leaf.ndim else None for leaf in jax.tree.leaves(values)}
    if mask.ndim != 1 or mask.dtype != jnp.bool_ or rows != {mask.shape[0]}:
        raise ValueError(
            "values must have one row for each of the users in mask, bool[n], got rows "
            f"{sorted(map(str, rows))} and {mask.dtype}{list(mask.shape)}."
        )
    run = pick(IMPLEMENTATIONS, implementation)
    return run(randomizer, key, start, first, values, mask)
