"""Where results lie: a directory with a Parquet file for every cell, written all or not at all.

    OUT/experiment.json       the manifest: which cells, in which order
    OUT/cells/NAME.parquet    the rows of a cell
    OUT/failed/NAME.json      why a cell has none

Equal cells give equal bytes: nothing in a file depends on the time, the machine or the run.
"""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import re
from typing import TYPE_CHECKING

from ._fingerprint import Cell, Row, cell_json, hashes, is_name_of
from ._folder import folder_at

if TYPE_CHECKING:  # an extra, so imported where it is used: `import jaxdp.sweep` works without
    import pyarrow as pa

MANIFEST = "experiment.json"
CELL_KEY, DIGEST_KEY = b"jaxdp.cell", b"jaxdp.digest"
LAYOUT = 2
_NAME = "[0-9a-f]{24}(-[0-9a-f]{12})?"  # those of layout 1 have one part


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What an experiment consists of.

    Attributes:
      experiment: its name.
      labels: the names of the cells' labels.
      cells: the cells' names, in order.
      accepted: "OLD=NOW" where cells of some old code are kept in place of those of the present.
      layout: the version of how files are named.
    """

    experiment: str
    labels: list[str]
    cells: list[str]
    accepted: list[str] = dataclasses.field(default_factory=list)
    layout: int = LAYOUT

    def __post_init__(self) -> None:
        # Names become paths, and what lies outside of the directory is none of a sweep's.
        if self.experiment and not re.fullmatch(r"\w[\w.-]*", self.experiment):
            raise ValueError(
                "name must consist of letters, digits, '_', '-' and '.', and begin with a letter "
                f"or a digit, got {self.experiment!r}."
            )
        if wrong := [cell for cell in self.cells if not re.fullmatch(_NAME, str(cell))]:
            raise ValueError(f"cells must be hashes of cells and of code, got {wrong[0]!r}.")


class Store:
    """The results in a directory.

    Args:
      root: the directory, or a URL for fsspec; it need not exist.
    """

    def __init__(self, root: str | os.PathLike):
        self.folder = folder_at(root)

    def manifest(self) -> Manifest:
        """What the experiment consists of."""
        damaged = ValueError(
            f"out must be a directory with results, but {self.folder.at(MANIFEST)} is damaged; run "
            "the experiment again, which keeps the cells that are there."
        )
        try:
            held = {"layout": 1} | json.loads(self.folder.read(MANIFEST))
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"out must be a directory with results, got {self.folder}, which has no "
                f"{MANIFEST}; run an experiment into it first."
            ) from None
        except (ValueError, TypeError):
            raise damaged from None
        if isinstance(held["layout"], int) and held["layout"] > LAYOUT:
            raise ValueError(
                f"out must be a directory that this version of jaxdp can read, but {self.folder} "
                f"has layout {held['layout']}, of a later version; this one reads {LAYOUT}."
            )
        try:
            return Manifest(**held)
        except (ValueError, TypeError):
            raise damaged from None

    def write_manifest(self, manifest: Manifest, worker: str) -> None:
        """Records what the experiment consists of; drops figures of what it consisted of before."""
        content = json.dumps(dataclasses.asdict(manifest), indent=1).encode() + b"\n"
        with contextlib.suppress(FileNotFoundError):
            if self.folder.read(MANIFEST) == content:
                return
        for figure in figure_files(manifest.experiment):
            self.folder.remove(figure)
        self.folder.replace(MANIFEST, content, worker)

    def differs(self, manifest: Manifest) -> bool:
        """Whether the directory is that of something else."""
        return self.folder.exists(MANIFEST) and self.manifest() != manifest

    def accepted(self) -> list[str]:
        """Which codes are accepted in place of which, as the manifest says, if there is one."""
        with contextlib.suppress(ValueError):
            return self.manifest().accepted
        return []

    def finished(self) -> set[str]:
        """The names of all cells that have a file, whole or not."""
        return set(self.finished_at())

    def finished_at(self) -> dict[str, float]:
        """The names of all cells that have a file, with when it was written."""
        found = self.folder.entries("cells").items()
        return {n.removesuffix(".parquet"): e.written for n, e in found if n.endswith(".parquet")}

    def is_finished(self, name: str) -> bool:
        """Whether a cell has a file."""
        return self.folder.exists(cell_file(name))

    def save(self, name: str, content: bytes, worker: str, force: bool = False) -> None:
        """Stores the file of a cell, once: what another process has stored holds the same bytes.

        Args:
          name: the cell's.
          content: of `encode`.
          worker: a name of this process.
          force: whether to replace a file that is there.
        """
        path = cell_file(name)
        if force or not self.folder.create(path, content, worker):
            if force or self.load(name) is None:  # damaged
                self.folder.replace(path, content, worker)

    def remove(self, name: str) -> None:
        """Removes the file of a cell."""
        self.folder.remove(cell_file(name))

    def save_failure(self, name: str, label: str, trace: str, worker: str) -> None:
        """Keeps why a cell has no rows, for the processes that share the folder."""
        record = {"cell": label, "traceback": trace, "worker": worker}
        content = json.dumps(record, indent=1).encode() + b"\n"
        self.folder.replace(_failure_path(name), content, worker)

    def has_failed(self, name: str) -> bool:
        """Whether it says why a cell has no rows."""
        return self.folder.exists(_failure_path(name))

    def failed(self) -> set[str]:
        """The names of the cells that have failed."""
        return {name.removesuffix(".json") for name in self.folder.entries("failed")}

    def failures(self) -> dict[str, dict[str, str]]:
        """The `cell`, `traceback` and `worker` of what has failed, by the cell's name."""
        found = {}
        for name in sorted(self.failed()):
            with contextlib.suppress(FileNotFoundError, ValueError):
                found[name] = json.loads(self.folder.read(_failure_path(name)))
        return found

    def forget_failure(self, name: str) -> None:
        """Has a cell be tried again."""
        self.folder.remove(_failure_path(name))
        self.folder.prune("failed")

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

    def codes(self, names: set[str]) -> dict[str, tuple[str, str]]:
        """The cell's hash and the code's of stored cells, by name; damaged ones are left out."""
        found = {}
        for name in names:
            cell, _, code = name.partition("-")
            if code:
                found[name] = cell, code
            elif form := self.form(name):
                found[name] = hashes(form)
        return found

    def form(self, name: str) -> str | None:
        """The JSON of the cell with this name, and of its code; None if it is damaged."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            schema = pq.read_schema(pa.BufferReader(self.folder.read(cell_file(name))))
            content = (schema.metadata or {}).get(CELL_KEY, b"").decode()
            return content if is_name_of(name, content) else None
        except (OSError, ValueError, pa.ArrowException):
            return None

    def load(self, name: str) -> "pa.Table | None":
        """The rows of the cell with this name; None if they are missing or damaged."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            # `read_table` would look for a data set first, which takes four times as long.
            file = pq.ParquetFile(pa.BufferReader(self.folder.read(cell_file(name))))
            table = file.read(use_threads=False)
            metadata = table.schema.metadata or {}
            own = is_name_of(name, metadata.get(CELL_KEY, b"").decode())  # and no copy of another
            intact = own and metadata.get(DIGEST_KEY) == _digest(table)
        except (OSError, ValueError, pa.ArrowException):
            return None
        return table.replace_schema_metadata() if intact else None


def figure_files(experiment: str) -> list[str]:
    """The files of an experiment's figure, one of each format."""
    return [f"{experiment}.{kind}" for kind in ("png", "svg", "pdf")]


def cell_file(name: str) -> str:
    """The file of the cell with this name."""
    return f"cells/{name}.parquet"


def _failure_path(name: str) -> str:
    return f"failed/{name}.json"


def _digest(table: "pa.Table") -> bytes:
    """A hash of the rows as read, which no damage to a file can leave unchanged."""
    total = hashlib.sha256(b"[")
    for row in range(table.num_rows):  # one at a time, since the text is longer than the numbers
        text = json.dumps(table.slice(row, 1).to_pylist())[1:-1]
        total.update((text if row == 0 else ", " + text).encode())
    total.update(b"]")
    return total.hexdigest().encode()


def collect(out: str | os.PathLike) -> "pa.Table":
    """The results of an experiment in one table, in the order of its cells.

    Args:
      out: the directory, or the URL, that the experiment ran into.

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
            f"out must be a directory with results, but no cell of {store.folder} is finished."
        )
    # A column that holds nothing but None in one cell has another type there.
    results = pa.concat_tables(finished, promote_options="permissive")
    return results, len(tables) - len(finished)
