"""Where results lie: a directory with a Parquet file for every cell, written all or not at all.

    OUT/experiment.json       the manifest: which cells, in which order
    OUT/cells/HASH.parquet    the rows of a cell
    OUT/failed/HASH.json      why a cell has none

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
from typing import TYPE_CHECKING

from .._files import publish, write_atomically
from ._cell import Cell, Row, cell_json, fingerprint_of_json

if TYPE_CHECKING:  # an extra, so imported where it is used: `import jaxdp.sweep` works without
    import pyarrow as pa

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

    def make(self) -> None:
        """Makes the directory."""
        (self.root / "cells").mkdir(parents=True, exist_ok=True)

    def write_manifest(self, manifest: Manifest, worker: str) -> None:
        """Records what the experiment consists of; drops figures of what it consisted of before."""
        content = json.dumps(dataclasses.asdict(manifest), indent=1).encode() + b"\n"
        path = self.root / MANIFEST
        if path.exists() and path.read_bytes() == content:
            return
        for figure in self.figures(manifest.experiment):
            figure.unlink(missing_ok=True)
        write_atomically(path, content, worker)

    def differs(self, manifest: Manifest) -> bool:
        """Whether the directory is that of something else."""
        return (self.root / MANIFEST).exists() and self.manifest() != manifest

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

    def finished(self) -> set[str]:
        """The fingerprints of all cells that have a file, whole or not."""
        return {path.stem for path in (self.root / "cells").glob("[0-9a-f]*.parquet")}

    def save(self, name: str, content: bytes, worker: str, force: bool = False) -> None:
        """Stores the file of a cell, once: what another process has stored holds the same bytes.

        Args:
          name: the fingerprint.
          content: of `encode`.
          worker: a name of this process.
          force: whether to replace a file that is there.
        """
        path = self.path(name)
        if force or not publish(path, content, worker):
            if force or self.load(name) is None:  # damaged
                write_atomically(path, content, worker)

    def failure_path(self, name: str) -> pathlib.Path:
        """Where it says why a cell has no rows."""
        return self.root / "failed" / f"{name}.json"

    def save_failure(self, name: str, label: str, trace: str, worker: str) -> None:
        """Keeps why a cell has no rows, for the processes that share the folder."""
        self.failure_path(name).parent.mkdir(exist_ok=True)
        record = {"cell": label, "traceback": trace, "worker": worker}
        content = json.dumps(record, indent=1).encode() + b"\n"
        write_atomically(self.failure_path(name), content, worker)

    def failed(self) -> set[str]:
        """The fingerprints of the cells that have failed."""
        return {path.stem for path in (self.root / "failed").glob("*.json")}

    def failures(self) -> dict[str, dict[str, str]]:
        """The `cell`, `traceback` and `worker` of what has failed, by fingerprint."""
        found = {}
        for name in sorted(self.failed()):
            with contextlib.suppress(FileNotFoundError, ValueError):
                found[name] = json.loads(self.failure_path(name).read_bytes())
        return found

    def forget_failure(self, name: str) -> None:
        """Has a cell be tried again."""
        self.failure_path(name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # others are there still
            (self.root / "failed").rmdir()

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
