"""Public face of the `randomize_and_count` operation."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp

from .._dispatch import pick
from .._users import Randomizer, check_users
from .xla import randomize_and_count_xla

IMPLEMENTATIONS = {"xla": randomize_and_count_xla}
"""Implementations by name. `None` stands for "xla", which runs on every platform."""


def randomize_and_count(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    values: jax.Array,
    num_reports: int,
    *,
    block_size: int | None = None,
    implementation: Literal["xla"] | None = None,
) -> jax.Array:
    """The counts of the reports of consecutive users, without their reports in memory.

    User i has the words `start + i * w .. start + (i + 1) * w - 1` of the threefry2x32 stream of
    the key, w being `randomizer.num_words`, and the report
    `randomizer.from_bits(words, values[i])`. Words, reports and counts are made block by block. The
    result is the same whatever the blocks.

    There is no kernel for one kind of device: Mosaic GPU has no indexed scatter for the histogram,
    and interpret mode loses repeated indices of Triton's atomic additions, so that a kernel could
    not be checked without a GPU.

    Edge cases:
      ===================================  ==================================================
      no users                             zeros
      words that a sampler seldom reads    made all the same: jaxdp.run makes them as read
      a report outside `[0, num_reports)`  not allowed: what is counted for it is not defined
      2**31 users or more                  ValueError: a count may not fit
      ===================================  ==================================================

    Args:
      randomizer: a pytree with `num_words` and `from_bits(words, value)`, such as the params that a
        finite randomizer's `build()` returns. A report is an integer scalar, or a vector of bits.
      key_data: uint32[2], `jax.random.key_data(key)` of a threefry2x32 key.
      start: uint32[2], the index of the first user's first word as (high, low) halves.
      values: [n, ...], the users' values.
      num_reports: how many reports there are, or bits in one; static.
      block_size: users of a block, static; None for a default measured on a CPU.
      implementation: "xla", or None for the same.

    Returns:
      int32[num_reports]: how many users reported each number or, where reports are vectors of bits,
      how many set each bit.

    Raises:
      ValueError: unknown implementation, or shapes and dtypes other than the above.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from jaxdp.randomizers import KRR
      >>> params = KRR(num_values=3, epsilon=20.0).build()
      >>> data = jax.random.key_data(jax.random.key(0))
      >>> values = jnp.array([0, 2, 2, 1, 2])
      >>> randomize_and_count(params, data, jnp.zeros(2, jnp.uint32), values, 3).tolist()
      [1, 1, 3]
    """
    return _count(
        randomizer, key_data, start, jnp.asarray(values), num_reports, block_size, implementation
    )


@functools.partial(jax.jit, static_argnums=(4, 5, 6))
def _count(randomizer, key_data, start, values, num_reports, block_size, implementation):
    """Checks once for each shape, then computes."""
    if num_reports < 1:
        raise ValueError(f"num_reports must be at least 1, got {num_reports}.")
    report = check_users(randomizer, start, values)
    number = report.shape == () and jnp.issubdtype(report.dtype, jnp.integer)
    bits = report.shape == (num_reports,) and report.dtype == jnp.bool_
    if not (number or bits):
        raise ValueError(
            f"a report must be an integer scalar or bool[num_reports = {num_reports}], got "
            f"{report.dtype}{list(report.shape)} from {type(randomizer).__name__}.from_bits."
        )
    count = pick(IMPLEMENTATIONS, implementation)
    return count(randomizer, key_data, start, values, num_reports, block_size)
