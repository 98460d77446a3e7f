"""Items of up to 1,024 bits, as rows of 32-bit words that sort like the items."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Int32, UInt32


def words_of(items: Iterable[Any], num_bits: int) -> Int32[np.ndarray, "n words"]:
    """The words of items, the highest one first.

    Args:
      items: integers in [0, 2**num_bits), or texts (str or bytes) of at most `num_bits / 8` bytes,
        which are filled up with zero bytes.
      num_bits: of an item.

    Raises:
      ValueError: an item is negative or too long, there are none, or a text holds a zero byte.
      TypeError: items are of another kind, or of several.
    """
    if isinstance(items, np.ndarray) and items.ndim != 1:
        raise ValueError(f"items must be a list, got an array of shape {list(items.shape)}.")
    if isinstance(items, np.ndarray) and items.dtype.kind in "iu":
        given, kinds = items, {"integer"}
    else:
        given = list(items)
        kinds = {_kind(item) for item in given}
    if len(given) == 0:
        raise ValueError("items must hold at least one item, got none.")
    if kinds == {"text"}:
        return _packed([_bytes(item, num_bits) for item in given], num_bits)
    if kinds != {"integer"}:
        raise TypeError(
            "items must be integers, or texts (str or bytes), all of one kind, got "
            f"{sorted({type(item).__name__ for item in given})}."
        )
    if num_bits > 64:
        return _packed([_integer(int(item), num_bits) for item in given], num_bits)
    for extreme in (np.min, np.max) if isinstance(given, np.ndarray) else (min, max):
        _integer(int(extreme(given)), num_bits)  # or raises
    wide = np.asarray(given, np.uint64)
    parts = [wide >> np.uint64(32), wide & np.uint64(0xFFFFFFFF)][-number_of_words(num_bits) :]
    return np.stack(parts, axis=1).astype(np.uint32).view(np.int32)


def number_of_words(num_bits: int) -> int:
    """Words of an item."""
    return -(-num_bits // 32)


def integers_of(words: np.ndarray) -> list[int]:
    """The integers that rows of words stand for."""
    rows = np.asarray(words, np.int32).astype(">u4")
    return [int.from_bytes(row.tobytes(), "big") for row in rows]


def texts_of(words: np.ndarray, num_bits: int) -> list[str]:
    """The texts that rows of words stand for; bytes that are no UTF-8 are replaced."""
    size = num_bits // 8
    texts = [item.to_bytes(size, "big").rstrip(b"\0") for item in integers_of(words)]
    return [text.decode("utf-8", "replace") for text in texts]


def upper_bits(num_bits: int, depth: int) -> UInt32[np.ndarray, " words"]:
    """The words that keep the first `depth` bits of an item."""
    (row,) = _packed([_integer(2**num_bits - 2 ** (num_bits - depth), num_bits)], num_bits)
    return row.view(np.uint32)


def children(num_bits: int, depth: int, step: int) -> UInt32[np.ndarray, "children words"]:
    """The words of all `step` bits that end a prefix of `depth` bits."""
    rows = [_integer(child << (num_bits - depth), num_bits) for child in range(2**step)]
    return _packed(rows, num_bits).view(np.uint32)


def _packed(rows: list[bytes], num_bits: int) -> Int32[np.ndarray, "n words"]:
    flat = np.frombuffer(b"".join(rows), ">u4").astype(np.uint32)
    return flat.reshape(-1, number_of_words(num_bits)).view(np.int32)


def _kind(item: object) -> str | None:
    if isinstance(item, (str, bytes)):
        return "text"
    return "integer" if isinstance(item, (int, np.integer)) and type(item) is not bool else None


def _integer(item: int, num_bits: int) -> bytes:
    if not 0 <= item < 2**num_bits:
        raise ValueError(f"items must be in [0, 2**{num_bits}), got {item}; raise num_bits.")
    return item.to_bytes(4 * number_of_words(num_bits), "big")


def _bytes(item: str | bytes, num_bits: int) -> bytes:
    text, size = item.encode() if isinstance(item, str) else item, num_bits // 8
    if num_bits % 8:
        raise ValueError(f"num_bits must be a multiple of 8 for texts, got {num_bits}.")
    if len(text) > size:
        raise ValueError(
            f"items must be texts of at most {size} bytes, got {item!r} of {len(text)}; raise "
            "num_bits, or hash them."
        )
    if b"\0" in text:
        raise ValueError(f"items must be texts without zero bytes, which pad them; got {item!r}.")
    filled = text.ljust(size, b"\0")
    return filled.rjust(4 * number_of_words(num_bits), b"\0")
