"""Public face of the `randomize_and_sum` operation."""

from typing import Literal

import jax
import jax.numpy as jnp

from .._dispatch import need_gpu, pick
from ..threefry_words import StreamKey
from .ref import Summing as Summing
from .ref import Tree, randomize_and_sum_ref
from .ref import num_rows as num_rows


def _triton(randomizer, key, start, values, members, row) -> jax.Array:
    """The Triton kernel, imported where it is asked for: Pallas is slow to import."""
    need_gpu("triton")
    from .triton import randomize_and_sum_triton

    return randomize_and_sum_triton(randomizer, key, start, values, members, row)


IMPLEMENTATIONS = {
    "xla": randomize_and_sum_ref,
    "triton": _triton,
}
"""Implementations by name. `None` stands for "xla", which runs on every platform."""


def randomize_and_sum(
    randomizer: Summing,
    key: StreamKey,
    start: jax.Array,
    values: Tree,
    members: jax.Array,
    row: int,
    implementation: Literal["xla", "triton"] | None = None,
) -> jax.Array:
    """The sums of what rows of consecutive users add: words, integers and sums as one program.

    User u has the words of `threefry_words`, and adds `randomizer.summed.numbers` of these and of
    its value. Sums are of 32 bits: rows are to be so short that none wraps.

    Edge cases:
      ===================  ==================================================================
      `members` a number   the first ones count; more than there are stand for all
      `members` bool       the users that count
      `members` uint32[t]  of each tile of 2,048 users the first ones count; all of a tile have
                           one value
      ===================  ==================================================================

    Args:
      randomizer: a pytree with `num_words` and `summed`, such as the params of
        `jaxdp.randomizers.PrivUnitG`.
      key: of the stream of users' words.
      start: uint32[2], the counter of the block of the first user's first word, who begins a tile,
        as (high, low) halves; see `threefry_words`.
      values: a pytree of arrays [n, ...], the users' values; or [t, ...], a row for each tile.
      members: who counts: uint32[], bool[n] or uint32[t].
      row: users of a row, a power of two, static.
      implementation: "xla", or None for the same, runs on every platform. "triton" is one kernel
        for GPUs, for users whose values are vectors with a power of two of entries, 16 to 2,048.
        It makes each block of words once for both users who share it, and stores nothing.

    Returns:
      int32[r, m], as many rows as n users fill, the last one perhaps in part.

    Raises:
      ValueError: an implementation that is unknown, or not for this device or randomizer; or shapes
        and dtypes other than the above.

    Example:
      >>> import jax, jax.numpy as jnp, numpy as np
      >>> from jaxdp.randomizers import PrivUnitG
      >>> params = PrivUnitG(dim=3, epsilon=4.0).build()
      >>> key, start = StreamKey.of(jax.random.key(0)), jnp.zeros(2, jnp.uint32)
      >>> values, everyone = jnp.full((4096, 3), 0.5), jnp.uint32(4096)
      >>> sums = randomize_and_sum(params, key, start, values, everyone, row=2048)
      >>> (np.asarray(sums).sum(0) * params.unit / 4096).round(1).tolist()
      [0.5, 0.5, 0.5]
    """
    if start.shape != (2,) or start.dtype != jnp.uint32:
        raise ValueError(
            f"start must be uint32[2] (high, low), got {start.dtype}{list(start.shape)}."
        )
    if randomizer.summed is None:
        raise ValueError(f"randomizer must add its reports; {type(randomizer).__name__} does not.")
    by_tile = members.ndim == 1 and members.dtype == jnp.uint32
    if not by_tile and members.dtype != (jnp.uint32 if members.ndim == 0 else jnp.bool_):
        raise ValueError(
            "members must be uint32[], bool[n] or uint32[tiles], got "
            f"{members.dtype}{list(members.shape)}."
        )
    sizes = {leaf.shape[0] for leaf in jax.tree.leaves(values)} | {*members.shape}
    if len(sizes) != 1:
        raise ValueError(f"values and members must have equally many rows, got {sorted(sizes)}.")
    if row < 2 or row & (row - 1):
        raise ValueError(f"row must be a power of two, 2 at least, got {row}.")
    return pick(IMPLEMENTATIONS, implementation)(randomizer, key, start, values, members, row)
