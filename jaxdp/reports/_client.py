"""What runs on a user's device: a value in, bytes out. Nothing here imports jax."""

import decimal
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._interpreter import DTYPES, Program
from ._wire import Layout

VERSION = 1
"""Of the document of a collection, and of its reports."""

FINGERPRINT_BYTES = 8
HEADER_BYTES = 1 + FINGERPRINT_BYTES
"""Of a report: the version, and the fingerprint of the collection."""


def canonical(data: Any) -> str:
    """The one text of plain values that RFC 8785 allows, which languages other than Python write.

    Numbers are doubles there, 1.0 the same as 1, and `JSON.stringify` of JavaScript has their form.

    Raises:
      ValueError: a number is not finite, or an integer that a double cannot hold.
    """
    if isinstance(data, Mapping):
        # The keys of a collection are ASCII, of which all orders agree.
        parts = (f"{canonical(key)}:{canonical(data[key])}" for key in sorted(data))
        return "{" + ",".join(parts) + "}"
    if isinstance(data, list | tuple):
        return "[" + ",".join(map(canonical, data)) + "]"
    if isinstance(data, int | float) and not isinstance(data, bool):
        return _number(data)
    return json.dumps(data, ensure_ascii=False)


def _number(x: int | float) -> str:
    """The shortest digits that lead back to a double, as JavaScript writes them."""
    if not (math.isfinite(x) and float(x) == x):
        raise ValueError(f"a number of a collection must be a finite double, got {x}.")
    sign, digits, exponent = decimal.Decimal(repr(float(x))).normalize().as_tuple()
    text, point = "".join(map(str, digits)), len(digits) + int(exponent)
    if not x:
        return "0"
    if len(text) <= point <= 21:
        text = text.ljust(point, "0")
    elif 0 < point <= 21:
        text = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{text}"
    else:
        fraction = f".{text[1:]}" if text[1:] else ""
        text = f"{text[0]}{fraction}e{point - 1:+d}"
    return "-" * sign + text


def fingerprint_of(document: Mapping[str, Any]) -> bytes:
    """The first eight bytes of the SHA-256 of a document, its own fingerprint left out.

    What is hashed is the canonical text in UTF-8, so that a document which other programs have read
    and written again is the same.
    """
    rest = {name: part for name, part in document.items() if name != "fingerprint"}
    return hashlib.sha256(canonical(rest).encode()).digest()[:FINGERPRINT_BYTES]


def parsed(document: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The document of a collection; a ValueError says what is wrong with it."""
    held = json.loads(document) if isinstance(document, str) else document
    version = held.get("jaxdp_collection")
    if version != VERSION:
        raise ValueError(
            f"the collection is of version {version!r}, and this jaxdp reads version {VERSION}; "
            "update the older of the two."
        )
    if held.get("fingerprint") != fingerprint_of(held).hex():
        raise ValueError(
            "the collection is not what its fingerprint says: it was cut off or changed; get it "
            "anew from whoever collects."
        )
    return held


class Client:
    """Makes a user's reports, by the operating system's randomness.

    A report is private however often another user reports, and whatever else is known; a user who
    reports again spends the same ε again.

    Args:
      collection: the document of a `Collection`: its JSON, as text or parsed.

    Raises:
      ValueError: the document is of another version, or not what its fingerprint says.

    Example:
      >>> from jaxdp.randomizers import KRR
      >>> from jaxdp.reports import Client, Collection
      >>> document = Collection(KRR(3, 1.0), labels=("never", "seldom", "often")).to_json()
      >>> len(Client(document).report("seldom"))
      10
    """

    def __init__(self, collection: str | Mapping[str, Any]) -> None:
        held = parsed(collection)
        self.purpose: str = held["purpose"]
        self.epsilon: float = held["epsilon"]
        self.labels: tuple[str, ...] | None = (
            None if held["labels"] is None else tuple(held["labels"])
        )
        self._bins: int | None = held["bins"]
        self._program, self._layout = (
            Program.from_json(held["program"]),
            Layout.from_json(held["report"]),
        )
        self._header = bytes([VERSION]) + bytes.fromhex(held["fingerprint"])

    def __repr__(self) -> str:
        purpose = f" {self.purpose!r}" if self.purpose else ""
        return f"<Client{purpose}: epsilon = {self.epsilon:.6g}, {self._layout.num_bits} bits a report>"

    def report(self, value: str | ArrayLike) -> bytes:
        """One report of a value.

        Args:
          value: a label, or a number or array as the randomizer takes it. A vector beyond the ball
            of the randomizer is scaled into it, a number beyond its range is moved to its end.

        Raises:
          ValueError: the value is no label, no bin, not finite, or of another shape.
        """
        kind = self._program.inputs[0]
        words = np.frombuffer(os.urandom(4 * kind.shape[0]), "<u4").astype(np.uint32)
        leaves = [leaf[None] for leaf in self._leaves(value)]
        return self._header + self.payloads(words[None], *leaves)[0].tobytes()

    def payloads(self, words: NDArray[np.uint32], *leaves: NDArray[Any]) -> NDArray[np.uint8]:
        """What follows the header in reports of given words: for tests of clients.

        Args:
          words: uint32[n, num_words].
          leaves: of the values, arrays [n, ...].

        Returns:
          uint8[n, bytes].
        """
        return self._layout.encode(self._program(words, *leaves))

    def _leaves(self, value: str | ArrayLike) -> list[NDArray[Any]]:
        kinds = self._program.inputs[1:]
        if self._bins is not None:
            return [np.array(self._bin(value), np.int32)]
        given: Sequence[Any] = [value] if len(kinds) == 1 else list(value)  # pyright: ignore[reportArgumentType]
        if len(given) != len(kinds):
            raise ValueError(f"value must have {len(kinds)} parts, got {len(given)}.")
        found = []
        for kind, part in zip(kinds, given, strict=True):
            array = np.asarray(part)
            if array.dtype.kind not in "iuf" or array.shape != kind.shape:
                raise ValueError(
                    f"value must be numbers of shape {kind.shape}, got {value!r} of shape "
                    f"{array.shape}."
                )
            with np.errstate(all="ignore"):  # what overflows is refused
                leaf = array.astype(DTYPES[kind.dtype])
            if not (np.all(np.isfinite(array)) and np.all(np.isfinite(leaf))):
                raise ValueError(
                    f"value must be finite in {kind.dtype}, got {value!r}; leave such users out."
                )
            found.append(leaf)
        return found

    def _bin(self, value: Any) -> int:
        assert self._bins is not None
        if self.labels is not None:
            if value not in self.labels:
                raise ValueError(f"value must be one of the labels {self.labels}, got {value!r}.")
            return self.labels.index(value)
        array = np.asarray(value)
        if array.dtype.kind not in "iu" or array.shape or not 0 <= array < self._bins:
            raise ValueError(f"value must be an integer in [0, {self._bins}), got {value!r}.")
        return int(array)
