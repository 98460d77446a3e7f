"""Where results lie: a directory with a Parquet file for every cell, written all or not at all.

    OUT/experiment.json       the manifest: which cells, in which order
    OUT/cells/HASH.parquet    the rows of a cell

Equal cells give equal bytes: nothing in a file depends on the time, the machine or the run.
"""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .._files import write_atomically
from ._cell import Cell, Row, cell_json, fingerprint, fingerprint_of_json

if TYPE_CHECKING:  # an extra, so imported where it is used: `import jaxdp.sweep` works without
    import pyarrow as pa

try:
    import fcntl
except ImportError:  # not on Windows, where two runs at once in one directory go unnoticed
    fcntl = None

MANIFEST = "experiment.json"
CELL_KEY, DIGEST_KEY = b"jaxdp.cell", b"jaxdp.digest"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What an experiment consists of.

    Attributes:
      experiment: its name.
      labels: the names of the cells' labels.
      cells: the cells' fingerprints, in order.
    """

    experiment: str
    labels: list[str]
    cells: list[str]

    def __post_init__(self) -> None:
        # Names become paths, and what lies outside of the directory is none of a sweep's.
        if self.experiment and not re.fullmatch(r"\w[\w.-]*", self.experiment):
            raise ValueError(
                "name must consist of letters, digits, '_', '-' and '.', and begin with a letter "
                f"or a digit, got {self.experiment!r}."
            )
        if wrong := [cell for cell in self.cells if not re.fullmatch("[0-9a-f]{24}", str(cell))]:
            raise ValueError(f"cells must be fingerprints of 24 hex digits, got {wrong[0]!r}.")


class Store:
    """The results in a directory.

    Args:
      root: the directory; it need not exist.
    """

    def __init__(self, root: str | os.PathLike):
        self.root = pathlib.Path(root)

    def path(self, name: str) -> pathlib.Path:
        """The file of the cell with this fingerprint."""
        return self.root / "cells" / f"{name}.parquet"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the directory and keeps other runs out; a killed run's lock is gone with it."""
        (self.root / "cells").mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            yield
            return
        directory = os.open(self.root, os.O_RDONLY)
        try:
            try:
                # The lock belongs to the open directory: the kernel drops it with the process.
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"out must be a directory that no other run is writing to, got {self.root}; "
                    "wait for the other run, or choose another directory."
                ) from None
            yield
        finally:
            os.close(directory)

    def write_manifest(self, manifest: Manifest) -> None:
        """Records what the experiment consists of; drops figures of what it consisted of before."""
        content = json.dumps(dataclasses.asdict(manifest), indent=1).encode() + b"\n"
        path = self.root / MANIFEST
        if not path.exists() or path.read_bytes() != content:
            for figure in self.figures(manifest.experiment):
                figure.unlink(missing_ok=True)
            write_atomically(path, content)

    def manifest(self) -> Manifest:
        """What the experiment consists of."""
        path = self.root / MANIFEST
        try:
            return Manifest(**json.loads(path.read_text()))
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"out must be a directory with results, got {self.root}, which has no {MANIFEST}; "
                "run an experiment into it first."
            ) from None
        except (ValueError, TypeError):
            raise ValueError(
                f"out must be a directory with results, but {path} is damaged; run the experiment "
                "again, which keeps the cells that are there."
            ) from None

    def figures(self, experiment: str) -> list[pathlib.Path]:
        """Where the experiment's figure goes, in each format."""
        return [self.root / f"{experiment}.{kind}" for kind in ("png", "svg")]

    def save(self, cell: Cell, content: bytes) -> None:
        """Stores the file of a cell."""
        write_atomically(self.path(fingerprint(cell)), content)

    def encode(self, cell: Cell, rows: list[Row]) -> bytes:
        """The file of a cell with these rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(rows)
        metadata = {CELL_KEY: cell_json(cell).encode(), DIGEST_KEY: _digest(table)}
        content = io.BytesIO()
        # Options that later versions might change are spelled out; statistics and dictionaries say
        # nothing that the rows do not.
        pq.write_table(
            table.replace_schema_metadata(metadata),
            content,
            version="2.6",
            compression="zstd",
            compression_level=3,
            use_dictionary=False,
            write_statistics=False,
        )
        return content.getvalue()

    def load(self, name: str) -> "pa.Table | None":
        """The rows of the cell with this fingerprint; None if they are missing or damaged."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(pa.BufferReader(self.path(name).read_bytes()))
            metadata = table.schema.metadata or {}
            own = fingerprint_of_json(metadata.get(CELL_KEY, b"")) == name  # and no copy of another
            intact = own and metadata.get(DIGEST_KEY) == _digest(table)
        except (OSError, UnicodeDecodeError, pa.ArrowException):
            return None
        return table.replace_schema_metadata() if intact else None


def _digest(table: "pa.Table") -> bytes:
    """A hash of the rows as read, which no damage to a file can leave unchanged."""
    return hashlib.sha256(json.dumps(table.to_pylist()).encode()).hexdigest().encode()


def collect(out: str | os.PathLike) -> "pa.Table":
    """The results of an experiment in one table, in the order of its cells.

    Args:
      out: the directory that the experiment ran into.

    Returns:
      pyarrow.Table with the rows of every finished cell; of a sweep that was stopped, those so far.

    Raises:
      ValueError: the directory holds no results.
    """
    return collect_counting(Store(out))[0]


def collect_counting(store: Store) -> "tuple[pa.Table, int]":
    """The results, and how many cells are missing from them."""
    import pyarrow as pa

    tables = [store.load(name) for name in store.manifest().cells]
    finished = [table for table in tables if table is not None]
    if not finished:
        raise ValueError(
            f"out must be a directory with results, but no cell of {store.root} is finished."
        )
    # A column that holds nothing but None in one cell has another type there.
    results = pa.concat_tables(finished, promote_options="permissive")
    return results, len(tables) - len(finished)
