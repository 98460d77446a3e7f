"""Where bytes of reports come from: memory, files, folders, tables of Apache Arrow."""

import concurrent.futures
import pathlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import UInt8

from .._install import install

if TYPE_CHECKING:  # an extra
    import pyarrow as pa

COLUMN = "report"
"""The column of a Parquet file or of a table that holds reports."""

ROWS = 2**18
"""Reports that are read at a time."""

T = TypeVar("T")


class Block(NamedTuple):
    """Some reports, and how many others had no report's length.

    Attributes:
      rows: the bytes of a report each.
      odd: how many were of another length, or missing.
      size: the bytes read for it, of a file.
    """

    rows: UInt8[np.ndarray, "n b"]
    odd: int
    size: int


class Unreadable(Exception):
    """A file of which nothing can be counted, and why."""


def files_in(path: pathlib.Path) -> list[pathlib.Path]:
    """A file, or all in a folder and those below, by name; those with a dot first are no data."""
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"source {path} does not exist; give a file or a folder.")
        return [path]
    found = (p for p in path.rglob("*") if p.is_file())
    return sorted(p for p in found if not any(x.startswith(".") for x in p.relative_to(path).parts))


def blocks_of_file(path: pathlib.Path, width: int, digest: Any) -> Iterator[Block]:
    """The reports in a file: Parquet by its ending, else reports one after the other.

    Args:
      path: of the file.
      width: the bytes of a report.
      digest: of `hashlib`; has seen all of the file when the last block is made.
    """
    if path.suffix == ".parquet":
        yield from _blocks_of_parquet(path, width, digest)
        return
    with open(path, "rb", buffering=0) as file:
        while data := file.read(ROWS * width):
            while len(data) % width and (more := file.read(width - len(data) % width)):
                data += more
            digest.update(data)
            yield block_of(data, width, len(data))


def block_of(data: bytes, width: int, size: int = 0) -> Block:
    """Reports one after the other; a rest that is shorter is none."""
    number, rest = divmod(len(data), width)
    rows = np.frombuffer(data, np.uint8, number * width).reshape(number, width)
    return Block(rows, int(rest > 0), size)


def block_of_rows(rows: np.ndarray, width: int) -> Block:
    """The rows of an array; none of them is a report where they have another length."""
    if rows.dtype != np.uint8 or rows.ndim != 2:
        raise TypeError(
            f"source must be an array of bytes, uint8[n, {width}], a row for each report, got "
            f"{rows.dtype} of shape {rows.shape}."
        )
    if rows.shape[1] != width:
        return Block(np.zeros((0, width), np.uint8), len(rows), 0)
    return Block(rows, 0, 0)


def _blocks_of_parquet(path: pathlib.Path, width: int, digest: Any) -> Iterator[Block]:
    pyarrow = require_pyarrow()
    with open(path, "rb") as file:
        while data := file.read(2**24):
            digest.update(data)
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            names = table.schema_arrow.names
            if COLUMN not in names:
                raise Unreadable(f"no column {COLUMN!r}, but {', '.join(names)}")
            size, left = path.stat().st_size, table.metadata.num_rows
            for batch in table.iter_batches(ROWS, columns=[COLUMN]):
                part = size * batch.num_rows // max(left, 1)
                size, left = size - part, left - batch.num_rows
                yield block_of_column(batch.column(0), width)._replace(size=part)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise Unreadable(str(error).splitlines()[0]) from None


def block_of_column(column: "pa.Array", width: int) -> Block:
    """The reports in a column of binary values of Apache Arrow."""
    pyarrow = require_pyarrow()
    kind = column.type
    binary = (pyarrow.types.is_binary, pyarrow.types.is_large_binary)
    fixed = pyarrow.types.is_fixed_size_binary(kind)
    if not fixed and not any(each(kind) for each in binary):
        raise Unreadable(f"column {COLUMN!r} is of {kind}, not of binary values")
    given = column.drop_null()
    right = given.filter(pyarrow.compute.equal(pyarrow.compute.binary_length(given), width))
    # A filtered copy begins at its first value; a slice of a column does not.
    first = right.cast(pyarrow.binary(width))
    rows = np.frombuffer(first.buffers()[1] or b"", np.uint8)
    rows = rows[first.offset * width : (first.offset + len(first)) * width]
    return Block(rows.reshape(len(first), width), len(column) - len(right), 0)


def columns_of(table: Any) -> Iterable[Any] | None:
    """The columns of reports in a table, a dataset or a reader of Apache Arrow; else None."""
    if type(table).__module__.split(".")[0] != "pyarrow":
        return None
    if hasattr(table, "read_next_batch"):
        batches = table
    elif hasattr(table, "scanner"):  # of a dataset the other columns stay unread
        batches = table.to_batches(columns=[COLUMN], batch_size=ROWS)
    elif hasattr(table, "to_batches"):
        batches = table.select([COLUMN]).to_batches(max_chunksize=ROWS)
    else:
        batches = [table]
    return (batch.column(COLUMN) for batch in batches)


def local_files(dataset: Any) -> list[pathlib.Path] | None:
    """The files of a dataset of Apache Arrow that lie on this machine; None of anything else."""
    kind = getattr(getattr(dataset, "filesystem", None), "type_name", None)
    return [pathlib.Path(file) for file in dataset.files] if kind == "local" else None


def require_pyarrow() -> Any:
    """The package, or an ImportError that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            f"Parquet files are read by pyarrow: {install('sweep')}, or give files of "
            "reports one after the other."
        ) from error
    return pyarrow


def ahead(made: Iterator[T]) -> Iterator[T]:
    """The same, each made by a thread while the one before is used."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, made, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, made, None)
            yield item
