"""What the operations over users share: reports from words, and blocks of users."""

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .threefry_words import threefry_words

WORDS_PER_BLOCK = 2**19
"""Words of a block by default, at most: few enough to stay in a cache."""


class Randomizer(Protocol):
    """A local randomizer: a pytree with the number of a user's words, and its channel."""

    @property
    def num_words(self) -> int:
        """Words of a user, static."""
        ...

    def from_bits(self, words: jax.Array, value: jax.Array) -> jax.Array:
        """One user's report, from its words uint32[num_words] and its value."""
        ...


def check_users(
    randomizer: Randomizer, start: jax.Array, values: jax.Array
) -> jax.ShapeDtypeStruct:
    """The shape and dtype of a report; ValueError unless the users' arguments fit together."""
    if start.shape != (2,) or start.dtype != jnp.uint32:
        raise ValueError(
            f"start must be uint32[2] (high, low), got {start.dtype}{list(start.shape)}."
        )
    if values.ndim < 1 or values.shape[0] >= 2**31:
        raise ValueError(
            f"values must have one row for each user and fewer than 2**31, got shape "
            f"{list(values.shape)}; split the users and add the results up."
        )
    words = jax.ShapeDtypeStruct((randomizer.num_words,), jnp.uint32)
    value = jax.ShapeDtypeStruct(values.shape[1:], values.dtype)
    report = jax.eval_shape(randomizer.from_bits, words, value)
    if not isinstance(report, jax.ShapeDtypeStruct):
        raise ValueError(
            f"a report must be one array, got {report} from {type(randomizer).__name__}.from_bits."
        )
    return report


def user_reports(randomizer: Randomizer, key_data, start, values):
    """The reports of all the users at once; the first user's words begin at `start`."""
    num_users, num_words = values.shape[0], randomizer.num_words
    words = threefry_words(key_data, start, num_users * num_words)
    return jax.vmap(randomizer.from_bits)(words.reshape(num_users, num_words), values)


def fold_blocks(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    values: jax.Array,
    block_size: int | None,
    add: Callable[[Any, jax.Array], Any],
    zero: Any,
) -> Any:
    """Adds the reports of one block of users after another to a total.

    Args:
      randomizer: what makes the reports.
      key_data: uint32[2].
      start: uint32[2], the index of the first user's first word.
      values: [n, ...], the users' values.
      block_size: users of a block; None for as many as `WORDS_PER_BLOCK` serve.
      add: (total, reports of a block) -> total.
      zero: the first total.

    Returns:
      The last total.
    """
    num_users, num_words = values.shape[0], randomizer.num_words
    if num_users == 0:
        return zero
    fit = max(WORDS_PER_BLOCK // max(num_words, 1), 1)
    block = block_size or 2 ** (fit.bit_length() - 1)
    block = min(block, num_users)

    def step(number, state):
        at, total = state
        mine = lax.dynamic_slice_in_dim(values, number * np.int32(block), block)
        total = add(total, user_reports(randomizer, key_data, at, mine))
        return _advance(at, block * num_words), total

    whole, rest = divmod(num_users, block)
    at, total = lax.fori_loop(np.int32(0), np.int32(whole), step, (start, zero))
    if rest:
        total = add(total, user_reports(randomizer, key_data, at, values[num_users - rest :]))
    return total


def _advance(index: jax.Array, by: int) -> jax.Array:
    """A 64-bit index as (high, low), plus a number below 2**32."""
    low = index[1] + np.uint32(by)
    return jnp.stack([index[0] + (low < index[1]).astype(jnp.uint32), low])
