"""The words of Hadamard randomizers: one for the row and one for the choice, or one for both."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from .._contract import Words

_SHARED_ROW_BITS = 8


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


def random_row(words: Words, row_bits: int) -> Int32[Array, ""]:
    """A row uniform on [0, 2**row_bits): the lower bits of the first word."""
    return (words[0] & (2**row_bits - 1)).astype(jnp.int32)


def chosen(words: Words, row_bits: int, threshold: jax.Array | np.ndarray) -> Bool[Array, ""]:
    """Whether the last word is below a threshold: independent of the row."""
    return words[num_words(row_bits) - 1] < threshold
