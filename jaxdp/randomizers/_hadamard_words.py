"""The words of Hadamard randomizers: one for the row and one for the choice, or one for both."""

import jax
import jax.numpy as jnp
from jax import lax

_SHARED_ROW_BITS = 8
_MAX_ENTRIES = 2**22  # of a channel that is listed


def num_words(row_bits: int) -> int:
    """Words per user: one where 24 of its bits are left to decide, else two."""
    return 1 if row_bits <= _SHARED_ROW_BITS else 2


def grain(row_bits: int, word_bits: int) -> int:
    """What thresholds on the last word must be multiples of, to be independent of the row.

    Raises:
      ValueError: words of `word_bits` bits are too short for a row.
    """
    if row_bits > word_bits - (num_words(row_bits) == 1):
        raise ValueError(f"word_bits must exceed {row_bits}, the bits of a row, got {word_bits}.")
    return 2**row_bits if num_words(row_bits) == 1 else 1


def parity(x: jax.Array) -> jax.Array:
    """The sum of the bits of an int32 array, modulo 2, as int32."""
    return (lax.population_count(x) & 1).astype(jnp.int32)


def random_row(words, row_bits: int) -> jax.Array:
    """A row uniform on [0, 2**row_bits), as int32: the lower bits of the first word."""
    return (words[0] & (2**row_bits - 1)).astype(jnp.int32)


def chosen(words, row_bits: int, threshold) -> jax.Array:
    """Whether the last word is below a threshold, bool: independent of the row."""
    return words[num_words(row_bits) - 1] < threshold


def check_listable(num_values: int, num_reports: int) -> None:
    """Raises ValueError where a channel is too large to list."""
    if num_values * num_reports > _MAX_ENTRIES:
        raise ValueError(
            f"num_values = {num_values} gives a channel of {num_values} x {num_reports} entries, "
            "too many to list; `probabilities()` gives its structure."
        )
