"""Reports as bytes: the bits that their entries need and no more."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 2**22  # bits that are written at a time


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the entries of a report lie in its bytes.

    Entry after entry, from the lowest bit of the first byte on, an entry is its distance from its
    least value in as many bits as the largest distance has. The bits that are left of the last byte
    are 0.

    Attributes:
      leaves: of the arrays that a report consists of, each (dtype, shape).
      low: of all entries, one array after the other, their least values.
      high: their largest values.
    """

    leaves: tuple[tuple[str, tuple[int, ...]], ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @functools.cached_property
    def bits(self) -> NDArray[np.int64]:
        """Number of bits of each entry."""
        return np.array(
            [(most - least).bit_length() for least, most in zip(self.low, self.high, strict=True)]
        )

    @property
    def num_bits(self) -> int:
        """Number of bits of a report."""
        return int(self.bits.sum())

    @property
    def num_bytes(self) -> int:
        """Number of bytes of a report, the last one padded with zeros."""
        return -(-self.num_bits // 8)

    @functools.cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first bit of each entry."""
        return np.cumsum(self.bits) - self.bits

    @functools.cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """For each bit of a report, the entry it belongs to and its place in that entry."""
        entry = np.repeat(np.arange(len(self.bits)), self.bits)
        return entry, (np.arange(self.num_bits) - self.starts[entry]).astype(np.uint64)

    def encode(self, reports: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
        """The bytes of n reports.

        Args:
          reports: arrays [n, ...], as `leaves` has them.

        Returns:
          uint8[n, num_bytes].
        """
        n = len(reports[0])
        flat = np.concatenate([np.asarray(x, np.int64).reshape(n, -1) for x in reports], axis=1)
        distance = (flat - np.array(self.low)).astype(np.uint64)
        entry, bit = self._places
        out = np.empty((n, self.num_bytes), np.uint8)
        rows = max(_CHUNK // max(self.num_bits, 1), 1)
        for begin in range(0, n, rows):
            part = distance[begin : begin + rows, entry] >> bit & np.uint64(1)
            out[begin : begin + rows] = np.packbits(part.astype(np.uint8), 1, bitorder="little")
        return out

    def to_json(self) -> dict[str, Any]:
        """The layout as plain values, for JSON."""
        leaves = [[dtype, list(shape)] for dtype, shape in self.leaves]
        return {"leaves": leaves, "low": _runs(self.low), "high": _runs(self.high)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Layout":
        """The layout that `to_json` wrote; raises ValueError where it contradicts itself."""
        leaves = tuple((str(dtype), tuple(map(int, shape))) for dtype, shape in data["leaves"])
        low, high = (_spread(data[name]) for name in ("low", "high"))
        size = sum(int(np.prod(shape, dtype=np.int64)) for _, shape in leaves)
        if not len(low) == len(high) == size:
            raise ValueError(f"a report has {size} entries, but {len(low)} and {len(high)} limits.")
        if any(a > b for a, b in zip(low, high, strict=True)):
            raise ValueError("an entry of a report has a least value above its largest.")
        return cls(leaves, low, high)


def _runs(values: Sequence[int]) -> list[list[int]]:
    """Values as [value, how many in a row]."""
    found: list[list[int]] = []
    for value in values:
        if found and found[-1][0] == value:
            found[-1][1] += 1
        else:
            found.append([int(value), 1])
    return found


def _spread(runs: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(int(value) for value, number in runs for _ in range(number))
