"""What runs on a user's device: a value in, bytes out. Nothing here imports jax."""

import decimal
import hashlib
import json
import math
import os
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._interpreter import DTYPES, Program
from ._wire import Layout

VERSION = 1
"""Version of a collection's document and of its reports."""

FINGERPRINT_BYTES = 8
_WORDS = 2**20  # of users whose reports are made at a time

HEADER_BYTES = 1 + FINGERPRINT_BYTES
"""Length of a report's header: the version and the fingerprint of the collection."""


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
            "again from whoever runs the collection."
        )
    return held


class Client:
    """Makes a user's reports, by the operating system's randomness.

    A report is private however often another user reports, and whatever else is known. A user who
    reports again spends the same ε again; but where the collection is of `Memoised` or `Rappor`
    reports, all that it sends of one value has the collection's ε together, as long as the client
    remembers what it drew for that value.

    Args:
      collection: the document of a `Collection`: its JSON, as text or parsed.
      memory: of such a collection, what the client remembers of its user: a mapping of texts to
        texts that outlives the process, such as `shelve.open(path)`. It is as secret as the value.

    Raises:
      ValueError: the document is of another version, or not what its fingerprint says; or reports
        are remembered, and there is no memory.

    Example:
      >>> from jaxdp.randomizers import KRR
      >>> from jaxdp.reports import Client, Collection
      >>> document = Collection(KRR(3, 1.0), labels=("never", "seldom", "often")).to_json()
      >>> len(Client(document).report("seldom"))
      10
    """

    def __init__(
        self, collection: str | Mapping[str, Any], memory: MutableMapping[str, str] | None = None
    ) -> None:
        held = parsed(collection)
        self._permanent: int = held.get("permanent_words", 0)
        if self._permanent and memory is None:
            raise ValueError(
                "memory must be a mapping that outlives the process, such as shelve.open(path): "
                "users of this collection report again and again, of what they remember."
            )
        self._memory = memory if self._permanent else None
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
        bits = self._layout.num_bits
        return f"<Client{purpose}: epsilon = {self.epsilon:.6g}, {bits} bits a report>"

    def report(self, value: str | ArrayLike) -> bytes:
        """Makes one report of a value.

        Args:
          value: a label, or a number or array as the randomizer takes it. A vector beyond the ball
            of the randomizer is scaled into it, a number beyond its range is moved to its end.

        Raises:
          ValueError: the value is no label, no bin, not finite, or of another shape.
        """
        leaves = self._leaves(value)
        drawn = os.urandom(4 * self._program.inputs[0].shape[0])
        if self._memory is not None:
            drawn = self._remembered(self._memory, leaves, drawn)
        words = np.frombuffer(drawn, "<u4")[None].astype(np.uint32)
        return self._header + self.payloads(words, *(leaf[None] for leaf in leaves))[0].tobytes()

    def _remembered(
        self, memory: MutableMapping[str, str], leaves: list[NDArray[Any]], drawn: bytes
    ) -> bytes:
        """Fresh words of a value, but those of its permanent report, which are drawn once."""
        length = 4 * self._permanent
        name = f"{self._header[1:].hex()} {' '.join(leaf.tobytes().hex() for leaf in leaves)}"
        held = memory.setdefault(name, drawn[:length].hex())
        permanent = bytes.fromhex(held)
        if len(permanent) != length:
            raise ValueError(
                f"memory holds {len(permanent)} bytes for this value in place of {length}: it is "
                "damaged. Restore it; a new permanent report would spend epsilon again."
            )
        return permanent + drawn[length:]

    def reports(self, values: Sequence[Any] | NDArray[Any]) -> NDArray[np.uint8]:
        """Reports of many users, for whoever speaks for them; see `report`.

        Each is the first report of its user: nothing is remembered.

        Args:
          values: a sequence of labels or bins, or an array [n, ...] of numbers.

        Returns:
          uint8[n, bytes], a report in each row.
        """
        if self._bins is not None:
            leaves = [self._coded(values)]
        else:
            each = [self._leaves(value) for value in values]
            leaves = [np.stack(column) for column in zip(*each, strict=True)]
        n, width = len(leaves[0]), self._program.inputs[0].shape[0]
        out = np.empty((n, len(self._header) + self._layout.num_bytes), np.uint8)
        out[:, : len(self._header)] = np.frombuffer(self._header, np.uint8)
        rows = max(_WORDS // max(width, 1), 1)
        for begin in range(0, n, rows):
            part = [leaf[begin : begin + rows] for leaf in leaves]
            words = np.frombuffer(os.urandom(4 * width * len(part[0])), "<u4").astype(np.uint32)
            payloads = self.payloads(words.reshape(-1, width), *part)
            out[begin : begin + rows, len(self._header) :] = payloads
        return out

    def payloads(self, words: NDArray[np.uint32], *leaves: NDArray[Any]) -> NDArray[np.uint8]:
        """Bytes after the header in reports of given words, for tests of clients.

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

    def _coded(self, values: Sequence[Any] | NDArray[Any]) -> NDArray[np.int32]:
        """The bins of many users."""
        assert self._bins is not None
        # An array made of a list would turn what is missing into text.
        array = np.asarray(values)
        each: list[Any] = array.tolist() if isinstance(values, np.ndarray) else list(values)
        if array.ndim != 1:
            raise ValueError(f"values must be a sequence of labels or bins, got {array.ndim} axes.")
        if self.labels is not None:
            place = {label: i for i, label in enumerate(self.labels)}
            known = f"the labels {self.labels}"
            codes = np.array([place.get(value, -1) for value in each], np.int64)
        elif array.dtype.kind in "iu":
            known = f"integers in [0, {self._bins})"
            codes = np.where((array >= 0) & (array < self._bins), array, -1)
        else:
            known = f"integers in [0, {self._bins})"
            codes = np.full(len(each), -1)
        bad = np.flatnonzero(codes < 0)
        if bad.size:
            raise ValueError(
                f"values must be {known}, got {each[bad[0]]!r} at {bad[0]}, and {bad.size - 1} "
                "others; leave such users out."
            )
        return codes.astype(np.int32)

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
