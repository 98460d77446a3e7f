"""Cells that are computed in parts, which are claimed and stored like cells.

The rows of the whole cell are made of those of all its parts. Once it is stored, its parts are
removed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ._fingerprint import Cell, Row, fingerprint
from ._store import Store

MOST_TRIALS = 2**14
"""Trials of a part by default: as many as the engine runs by one call of a program."""


@runtime_checkable
class Divisible(Cell, Protocol):
    """A cell of which any process may compute any part, such as a `Simulation`.

    Its rows are the same, however it is divided: what `joined` returns is what `rows` does.
    """

    def parts(self, most: int) -> Sequence[Cell]:
        """Cells of at most so many trials each; none where it is not worth while."""
        ...

    def joined(self, parts: Sequence[list[Row]]) -> list[Row]:
        """Its rows, from those of all parts, in their order; lists of numbers are arrays there."""
        ...


class Split:
    """Which cells of a sweep are split, into what.

    Args:
      store: where parts lie.
      cells: by name, those of the sweep that have no rows yet.
      most: trials of a part, at most; None to split nothing.

    Attributes:
      all: by name, all that is computed: the cells, and the parts of those that are split.
    """

    def __init__(self, store: Store, cells: Mapping[str, Cell], most: int | None):
        self._store, self._cells = store, cells
        self._parts: dict[str, dict[str, Cell]] = {}
        for name, cell in cells.items():
            if most is not None and isinstance(cell, Divisible) and (parts := cell.parts(most)):
                self._parts[name] = {fingerprint(part): part for part in parts}
        self._left = {name: set(parts) for name, parts in self._parts.items()}
        self._whole = {part: name for name, parts in self._parts.items() for part in parts}
        self.all: dict[str, Cell] = {
            **cells,
            **{n: p for of in self._parts.values() for n, p in of.items()},
        }

    def of(self, name: str) -> list[str]:
        """What is computed for a cell before anything else: its parts, or itself."""
        return list(self._parts.get(name, [name]))

    def whole(self, name: str) -> str:
        """The cell that a piece belongs to."""
        return self._whole.get(name, name)

    def is_split(self, name: str) -> bool:
        """Whether a cell consists of parts."""
        return name in self._parts

    def completed(self, piece: str) -> str | None:
        """The cell that can be put together now that this part of it is there, too; or None."""
        name = self._whole.get(piece)
        if name is None:
            return None
        self._left[name].discard(piece)
        return None if self._left[name] else name

    def rows(self, name: str) -> list[Row]:
        """The rows of a cell, from those of its parts; one that is missing is computed here."""
        whole: Any = self._cells[name]
        return whole.joined(
            [
                part.rows() if (table := self._store.load(piece)) is None else _rows_in(table)
                for piece, part in self._parts[name].items()
            ]
        )

    def forget(self, names: Iterable[str]) -> None:
        """Removes the parts of those of some cells that are stored."""
        for name in names:
            if name in self._parts and self._store.is_finished(name):
                for piece in self._parts[name]:
                    self._store.remove(piece)


def _rows_in(table) -> list[Row]:
    """The rows of a part as they were stored, lists of numbers as arrays."""
    import pyarrow as pa

    lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
    plain = table.drop_columns(lists).to_pylist()
    for name in lists:
        for row, values in zip(plain, table[name], strict=True):
            row[name] = values.values.to_numpy()
    return plain
