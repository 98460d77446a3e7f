"""What a cell is, and the name under which its rows are stored."""

import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from .._form import spec_to_json
from ._sources import versions

FORMAT = 1
"""The version of what a result file holds; raise it when rows of the same cell change."""

Label = str | int | float
Row = dict[str, Any]


@runtime_checkable
class Cell(Protocol):
    """One point of a grid: a frozen dataclass with a JSON form, and a pure function of its fields.

    Equal cells give equal rows, in any process and on any day: a sweep stores rows under a hash of
    the cell, and another one of the code that computes it: the modules of the classes and functions
    that the cell holds with all that these import of the same packages, of jaxdp, and from beside
    them; the versions of jax, NumPy and other packages that they import; and where jax computes
    ("cpu", "gpu" or "tpu"). It computes no cell twice with the same code.

    Example:
      A cell of one's own needs no base class:

      >>> import dataclasses
      >>> from jaxdp import sweep
      >>> @dataclasses.dataclass(frozen=True)
      ... class Square:
      ...     side: float
      ...
      ...     @property
      ...     def labels(self):
      ...         return {"side": self.side}
      ...
      ...     def rows(self):
      ...         return [{"area": self.side**2}]
      >>> isinstance(Square(2.0), sweep.Cell)
      True
    """

    @property
    def labels(self) -> Any:
        """The coordinates of this cell in the grid: a dict, or pairs of a name and a label."""
        ...

    def rows(self) -> list[Row]:
        """The results: rows of numbers, strings, lists of numbers and None; labels are added."""
        ...


def labels_of(cell: Cell) -> dict[str, Label]:
    """The labels of a cell by name."""
    return dict(cell.labels)


def describe(cell: Cell) -> str:
    """The cell's labels in one line, such as "grid=2×2, epsilon=0.5"."""
    return ", ".join(f"{name}={value}" for name, value in labels_of(cell).items())


def cell_json(cell: Cell) -> str:
    """The canonical JSON of a cell and of the code that its rows depend on."""
    plain = spec_to_json(cell)
    code = _versions(frozenset(_modules(plain)))
    return _canonical({"format": FORMAT, "cell": plain, "versions": code})


def fingerprint(cell: Cell) -> str:
    """The name under which a cell's rows are stored: 24 hex digits of the cell, 12 of its code."""
    return "-".join(hashes(cell_json(cell)))


def cells_by_name(cells: Sequence[Cell]) -> dict[str, Cell]:
    """Cells by their names.

    Raises:
      ValueError: two are equal.
    """
    found: dict[str, Cell] = {}
    for cell in cells:
        name = fingerprint(cell)
        if name in found:
            raise ValueError(f"cells must differ, but two are equal: {describe(cell)}.")
        found[name] = cell
    return found


def hashes(content: str) -> tuple[str, str]:
    """The hash of the cell with this JSON, and that of its code.

    Raises:
      ValueError: it is the JSON of no cell.
    """
    try:
        form = json.loads(content)
        return hash_of(form.pop("cell")), _hash(_canonical(form), 12)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"this is not a cell: {error!r}") from None


def hash_of(form: Any) -> str:
    """The hash of a cell's JSON form."""
    # 96 bits: two of 2**30 cells have the same name with a chance of 2**-37.
    return _hash(_canonical(form), 24)


def is_name_of(name: str, content: str) -> bool:
    """Whether the cell with this JSON is stored under a name."""
    # The first layout of directories had one hash of all of it.
    return name in ("-".join(hashes(content)), _hash(content, 24))


def _canonical(form: Any) -> str:
    # Equal cells have one text: sorted keys, no spaces, and no NaN, which JSON does not know.
    return json.dumps(form, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


_versions = functools.cache(versions)


def _modules(form: Any) -> Iterator[str]:
    """The modules of the classes and functions in the JSON form of a spec."""
    if isinstance(form, dict):
        for key, value in form.items():
            if key in ("spec", "function"):
                yield value.partition(":")[0]
            else:
                yield from _modules(value)
    elif isinstance(form, list):
        for value in form:
            yield from _modules(value)
