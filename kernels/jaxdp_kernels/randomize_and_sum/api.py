"""Public face of the `randomize_and_sum` operation."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp

from .._dispatch import pick
from .._users import Randomizer, check_users
from .xla import randomize_and_sum_xla

IMPLEMENTATIONS = {"xla": randomize_and_sum_xla}
"""Implementations by name. `None` stands for "xla", which runs on every platform."""


def randomize_and_sum(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    values: jax.Array,
    signs: jax.Array,
    *,
    block_size: int | None = None,
    implementation: Literal["xla"] | None = None,
) -> tuple[jax.Array, jax.Array]:
    """The sum of the vectors that consecutive users report, and of a quadratic form of each.

    User i has the words `start + i * w .. start + (i + 1) * w - 1` of the threefry2x32 stream of
    the key, w being `randomizer.num_words`, and the report `y_i = randomizer.from_bits(words,
    values[i])`, of which the first d entries count. The results are `sum of y_i` and
    `sum of y_i^T D y_i` for a diagonal D. Only one block of words and reports is in memory at a
    time.

    The blocks' sums are added with compensation, so the error is that of one block. Blocks of other
    sizes round otherwise, in the last digits.

    There is no kernel for one kind of device. A report is whatever `from_bits` makes of a user's
    words: norms and products over its entries, for some randomizers in loops that end when a draw
    is accepted. A Mosaic or Triton kernel would be another program for each randomizer, and would
    add floats in another order than the reference, so that it could not be compared bit for bit, as
    kernels of integers are. What it could save are passes over one block of reports: XLA fuses
    words, normals and products, but no sum with what makes its terms.

    Edge cases:
      ====================================  ==============================================
      no users                              zeros
      words that a sampler seldom reads     made all the same: jaxdp.run makes them as read
      2**31 users or more                   ValueError
      `signs` of all ones                   the sum of the squared norms
      fewer signs than entries in a report  the other entries are left out
      ====================================  ==============================================

    Args:
      randomizer: a pytree with `num_words` and `from_bits(words, value)`, such as the params that
        `PrivUnitG(...).build()` returns. A report is float32[m].
      key_data: uint32[2], `jax.random.key_data(key)` of a threefry2x32 key.
      start: uint32[2], the index of the first user's first word as (high, low) halves.
      values: [n, ...], the users' values.
      signs: float32[d], the diagonal of D; d is at most m.
      block_size: users of a block, static; None for a default measured on a CPU.
      implementation: "xla", or None for the same.

    Returns:
      float32[d], the sum of the reports, and float32[], that of the quadratic forms; both in the
      unit of the reports.

    Raises:
      ValueError: unknown implementation, or shapes and dtypes other than the above.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from jaxdp.randomizers._priv_unit_g import PrivUnitG
      >>> params = PrivUnitG(dim=2, epsilon=1.0).build()
      >>> data = jax.random.key_data(jax.random.key(0))
      >>> vectors, signs = jnp.full((1000, 2), 0.5), jnp.array([1.0, -1.0])
      >>> total, form = randomize_and_sum(params, data, jnp.zeros(2, jnp.uint32), vectors, signs)
      >>> total.shape, form.shape
      ((2,), ())
    """
    return _sum(
        randomizer,
        key_data,
        start,
        jnp.asarray(values),
        jnp.asarray(signs),
        block_size,
        implementation,
    )


@functools.partial(jax.jit, static_argnums=(5, 6))
def _sum(randomizer, key_data, start, values, signs, block_size, implementation):
    """Checks once for each shape, then computes."""
    report = check_users(randomizer, start, values)
    if len(report.shape) != 1 or report.dtype != jnp.float32:
        raise ValueError(
            f"a report must be float32[m], got {report.dtype}{list(report.shape)} from "
            f"{type(randomizer).__name__}.from_bits."
        )
    if signs.dtype != jnp.float32 or signs.ndim != 1 or signs.shape[0] > report.shape[0]:
        raise ValueError(
            f"signs must be float32[d] with d at most {report.shape[0]}, the length of a report, "
            f"got {signs.dtype}{list(signs.shape)}."
        )
    add_up = pick(IMPLEMENTATIONS, implementation)
    return add_up(randomizer, key_data, start, values, signs, block_size)
