"""What is known of many reports: their tally, and what became of everything that was given."""

import collections
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from .._contract import Tree
from .._files import write_atomically
from .._progress import bars, on_stderr
from ..random import Count, merge
from ._answer import Answer
from ._client import parsed
from ._collection import Collection
from ._decoding import REASONS, add_block
from ._sources import (
    ROWS,
    Block,
    Unreadable,
    ahead,
    block_of,
    block_of_column,
    block_of_rows,
    blocks_of_file,
    columns_of,
    files_in,
    local_files,
)

_FEWEST = 2**8  # rows of the smallest program: smaller blocks are filled up
_SAVED_EVERY = 1.0  # second


@dataclasses.dataclass(frozen=True)
class Added:
    """The outcome of `Aggregate.add`: what was counted, refused and skipped.

    Attributes:
      accepted: how many reports were counted.
      refused: how many were not, by the reason: "version", "fingerprint" (of another collection),
        "length", "range".
      files: how many files were counted.
      skipped: files that were not: the path, and why.
    """

    accepted: int
    refused: Mapping[str, int]
    files: int = 0
    skipped: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class _State:
    """What is counted; replaced as a whole, so that an interruption leaves no part of a file.

    Attributes:
      tally: of the reports.
      num_users: how many they are.
      refused: how many were not counted, by the reason.
      files: the name of each file, by its digest.
    """

    tally: Tree
    num_users: int = 0
    refused: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Aggregate:
    """Counts the reports of a collection, whoever brings them and in any order.

    Reports are decoded and tallied on the device; what is held is as large as a tally, whatever
    their number. A tally is exact, so that any division of the same reports among machines, merged
    in any order, gives the same bits.

    Malformed input is counted by its reason and left out, never an error: anybody may send bytes.
    A file counts once: it is known by the SHA-256 of its content, under whatever name it comes
    again. So two files of very few reports may be taken for one by chance; put small batches
    together before they are given as files.

    Args:
      collection: that of the clients.
      checkpoint: a file that holds the state. If it is there already, counting goes on from it;
        it is written anew every second, between files, and at the end. A process that is killed
        has these files to count again, loses none, and counts none twice. Each of several processes
        needs one of its own.

    Raises:
      ValueError: the checkpoint is of another collection, or damaged.

    Example:
      >>> from jaxdp.randomizers import KRR
      >>> from jaxdp.reports import Aggregate, Client, Collection
      >>> collection = Collection(KRR(2, 20.0), labels=("no", "yes"))
      >>> client = Client(collection.to_json())
      >>> aggregate = Aggregate(collection)
      >>> aggregate.add([client.report("yes"), client.report("no"), b"noise"])
      Added(accepted=2, refused={'length': 1}, files=0, skipped=())
      >>> aggregate.estimate().values.round(3).tolist()
      [1.0, 1.0]
    """

    def __init__(
        self, collection: Collection, checkpoint: str | os.PathLike[str] | None = None
    ) -> None:
        self.collection = collection
        self._saved = time.monotonic()
        self._state = _State(self._added(None, np.zeros((_FEWEST, self._width), np.uint8), 0).tally)
        self._checkpoint = None if checkpoint is None else pathlib.Path(checkpoint)
        if self._checkpoint is not None and self._checkpoint.exists():
            self._restore(self._checkpoint, *_read(self._checkpoint))

    def __repr__(self) -> str:
        return (
            f"<Aggregate of {self.num_users:,} reports to {self.collection!r}; "
            f"{sum(self.refused.values()):,} refused, {len(self.files):,} files>"
        )

    @property
    def num_users(self) -> int:
        """Number of reports that are counted."""
        return self._state.num_users

    @property
    def tally(self) -> Tree:
        """The exact tally: what `collection.params.estimate` takes."""
        return self._state.tally

    @property
    def refused(self) -> dict[str, int]:
        """Number of refused reports, by reason."""
        return dict(self._state.refused)

    @property
    def files(self) -> dict[str, str]:
        """The files that are counted: the name of each, by the SHA-256 of its content."""
        return dict(self._state.files)

    def add(self, source: Any, *, progress: bool = False) -> Added:
        """Counts reports.

        Args:
          source: one of these.

            * `bytes`: a report, or several one after the other.
            * an iterable of `bytes`, a report each, or an array uint8[n, bytes], a row each.
            * a path, or an iterable of paths: files of reports one after the other; files whose
              names end in `.parquet`, with a column "report" of binary values; folders of either,
              and those below. Names that begin with a dot are passed over.
            * a table, dataset or reader of Apache Arrow with such a column. The files of a dataset
              on this machine count once, like those of a folder.
          progress: whether to show a bar on stderr while files are read.

        Returns:
          What became of them.

        Raises:
          FileNotFoundError: a path is not there.
          TypeError: the source is none of these.
          ImportError: a bar needs rich, a Parquet file pyarrow.
        """
        before = self._state
        skipped: list[tuple[str, str]] = []
        if isinstance(source, bytes | bytearray | memoryview):
            self._add_blocks([block_of(bytes(source), self._width)])
        elif isinstance(source, np.ndarray):
            self._add_blocks([block_of_rows(source, self._width)])
        elif isinstance(source, str | os.PathLike):
            skipped = self._add_files(files_in(pathlib.Path(source)), progress)
        elif (paths := local_files(source)) is not None:
            skipped = self._add_files(paths, progress)
        elif (columns := columns_of(source)) is not None:
            self._add_blocks(block_of_column(column, self._width) for column in columns)
        elif isinstance(source, Iterable):
            skipped = self._add_each(iter(source), progress)
        else:
            raise TypeError(
                "source must be bytes, a path, a table of Apache Arrow, or an iterable of bytes or "
                f"of paths, got {type(source).__name__}."
            )
        self._save_checkpoint(0.0)
        accepted = self._state.num_users - before.num_users
        refused = dict(self._state.refused - before.refused)
        files = len(self._state.files) - len(before.files)
        return Added(accepted, refused, files, tuple(skipped))

    def merge(self, other: "Aggregate") -> "Aggregate":
        """The aggregate of the reports of both; of the two, neither changes.

        Raises:
          ValueError: they are of different collections, or both have counted the same file.
        """
        if other.collection.fingerprint != self.collection.fingerprint:
            raise ValueError(
                f"other must be of the same collection, got {other.collection!r} for "
                f"{self.collection!r}."
            )
        one, two = self._state, other._state
        twice = sorted(one.files[digest] for digest in one.files.keys() & two.files.keys())
        if twice:
            raise ValueError(
                f"other has counted {len(twice)} of the same files: {', '.join(twice[:3])}; give "
                "each file to one of them."
            )
        both = Aggregate(self.collection)
        both._state = _State(
            merge(one.tally, two.tally),
            one.num_users + two.num_users,
            one.refused + two.refused,
            {**one.files, **two.files},
        )
        return both

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state to a file, which is replaced as a whole."""
        state = {
            "collection": self.collection.to_json(),
            "num_users": self.num_users,
            "refused": self.refused,
            "files": self.files,
        }
        arrays: dict[str, Any] = {
            f"count{i}": count.numpy() for i, count in enumerate(_counts(self.tally))
        }
        arrays["state"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)
        write_atomically(pathlib.Path(path), content.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Aggregate":
        """Loads what `save` wrote.

        Raises:
          ValueError: the file is no such state, or damaged.
        """
        path = pathlib.Path(path)
        state, counts = _read(path)
        loaded = cls(Collection.from_json(state["collection"]))
        loaded._restore(path, state, counts)
        return loaded

    def estimate(self, confidence: float = 0.95) -> Answer:
        """The estimate, with what it may be off.

        Standard errors are those of the randomness of the reports, given the users who reported:
        computed exactly for the data set nearest to the estimate, or, where reports do not tell
        them, a bound for all data sets (see `reported_variance` of the spec). Whoever wants to
        conclude from the users to those they were drawn from adds the error of that draw.

        Args:
          confidence: of the intervals, in (0, 1).

        Raises:
          ValueError: nothing is counted, or `confidence` is out of range.
        """
        if not self.num_users:
            raise ValueError("an estimate needs reports; none is counted yet, add some first.")
        spec = self.collection.spec
        with jax.enable_x64(True):  # or an estimate would be rounded to float32
            values = np.asarray(self.collection.params.estimate(self.tally), np.float64)
        variance = spec.reported_variance(self.tally, self.num_users)
        return Answer(
            values,
            None if variance is None else np.sqrt(np.maximum(variance, 0.0)),
            self.collection.labels if spec.answers_bins else None,
            self.num_users,
            self.collection.epsilon,
            confidence,
            self.collection.purpose,
        )

    @property
    def _width(self) -> int:
        return self.collection.report_bytes

    def _added(self, tally: Tree, rows: np.ndarray, number: int) -> Any:
        held = self.collection
        return add_block(held.params, held.layout, held.header, tally, rows, number)

    def _add_blocks(self, blocks: Iterable[Block]) -> None:
        self._state = self._after(blocks)

    def _after(self, blocks: Iterable[Block]) -> _State:
        """The state with the reports of some blocks; only what is whole becomes this one's."""
        tally, users = self._state.tally, self._state.num_users
        refused = self._state.refused.copy()
        for block in blocks:
            refused["length"] += block.odd
            for begin in range(0, len(block.rows), ROWS):
                rows = block.rows[begin : begin + ROWS]
                added = self._added(tally, _filled(rows), len(rows))
                tally, users = added.tally, users + int(added.accepted)
                refused.update(dict(zip(REASONS, added.refused.tolist(), strict=True)))
        return _State(tally, users, +refused, self._state.files)

    def _add_each(self, items: Iterator[Any], progress: bool) -> list[tuple[str, str]]:
        """Bytes of one report each, or paths."""
        skipped: list[tuple[str, str]] = []
        paths: list[pathlib.Path] = []
        held: list[bytes] = []
        odd = 0
        for item in items:
            if isinstance(item, bytes | bytearray | memoryview):
                if len(item) == self._width:
                    held.append(bytes(item))
                else:
                    odd += 1
            elif isinstance(item, str | os.PathLike):
                paths += files_in(pathlib.Path(item))
            else:
                raise TypeError(
                    "source must have reports of type bytes or paths of files, got "
                    f"{type(item).__name__}."
                )
            if len(held) == ROWS:
                self._add_blocks([block_of(b"".join(held), self._width)])
                held.clear()
        self._add_blocks([block_of(b"".join(held), self._width)._replace(odd=odd)])
        if paths:
            skipped = self._add_files(paths, progress)
        return skipped

    def _add_files(self, paths: list[pathlib.Path], progress: bool) -> list[tuple[str, str]]:
        total, skipped = sum(path.stat().st_size for path in paths), []
        with _bar(progress, total) as advance:
            for path in paths:
                reason = self._add_file(path, advance)
                if reason is not None:
                    skipped.append((str(path), reason))
                self._save_checkpoint(_SAVED_EVERY)
        return skipped

    def _add_file(self, path: pathlib.Path, advance: Callable[[int, int], None]) -> str | None:
        """Counts a file all or not at all; returns why it is not counted."""
        digest = hashlib.sha256()

        def shown() -> Iterator[Block]:
            for block in ahead(blocks_of_file(path, self._width, digest)):
                yield block
                advance(block.size, len(block.rows))

        try:
            state = self._after(shown())
        except Unreadable as error:
            return str(error)
        name, files = digest.hexdigest(), self._state.files
        if name in files:
            return f"counted already, as {files[name]}"
        self._state = dataclasses.replace(state, files={**files, name: str(path)})
        return None

    def _save_checkpoint(self, age: float) -> None:
        """Writes the checkpoint, if there is to be one and the last is so many seconds old."""
        if self._checkpoint is not None and time.monotonic() - self._saved >= age:
            self.save(self._checkpoint)
            self._saved = time.monotonic()

    def _restore(self, path: pathlib.Path, state: dict[str, Any], counts: list[np.ndarray]) -> None:
        """Takes the state that was read from a file."""
        if parsed(state["collection"])["fingerprint"] != self.collection.fingerprint.hex():
            raise ValueError(f"{path} is of another collection than {self.collection!r}.")
        expected = [count.shape for count in _counts(self.tally)]
        if [count.shape for count in counts] != expected:
            raise ValueError(f"{path} has counts of other shapes than the collection's.")
        structure = jax.tree.structure(self.tally, is_leaf=_is_count)
        tally = jax.tree.unflatten(structure, [Count.of(count) for count in counts])
        refused = collections.Counter(state["refused"])
        self._state = _State(tally, state["num_users"], refused, state["files"])


def _is_count(node: object) -> bool:
    return isinstance(node, Count)


def _counts(tally: Tree) -> list[Count]:
    return jax.tree.leaves(tally, is_leaf=_is_count)


def _filled(rows: np.ndarray) -> np.ndarray:
    """Rows up to a power of two, so that few programs are compiled."""
    size = max(1 << (len(rows) - 1).bit_length(), _FEWEST)
    if len(rows) == size:
        return rows
    return np.concatenate([rows, np.zeros((size - len(rows), rows.shape[1]), np.uint8)])


def _read(path: pathlib.Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            held = {name: file[name] for name in file.files}
        state = json.loads(held.pop("state").tobytes())
        counts = [held[f"count{i}"] for i in range(len(held))]
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(
            f"{path} is not the state of an Aggregate, or is damaged ({error}); restore a copy, or "
            "count the reports again."
        ) from None
    return state, counts


@contextlib.contextmanager
def _bar(progress: bool, total: int) -> Iterator[Callable[[int, int], None]]:
    """Gives a function of bytes that are read, and of reports."""
    if not progress:
        yield lambda size, reports: None
        return
    drawn = bars()
    columns = (
        drawn.BarColumn(),
        drawn.DownloadColumn(),
        drawn.TransferSpeedColumn(),
        drawn.TimeRemainingColumn(),
        drawn.TextColumn("{task.description}"),
    )
    with on_stderr(*columns) as bar:
        task, seen = bar.add_task("", total=total), 0

        def advance(size: int, reports: int) -> None:
            nonlocal seen
            seen += reports
            bar.update(task, advance=size, description=f"{seen:,} reports")

        yield advance
