"""Running the cells of a sweep: by any number of processes, on any executor."""

import collections
import contextlib
import dataclasses
import functools
import math
import os
import queue
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ._claims import Claims
from ._fingerprint import Cell, Row, cells_by_name, describe, labels_of
from ._progress import Progress, show_progress
from ._shard import Shard
from ._split import MOST_TRIALS, Split
from ._stale import Stale, reconcile
from ._store import Manifest, Store

_LOOK = 1.0  # seconds between looks at what other processes have finished
_FEW = 16  # free cells that are tried between two looks


class Executor(Protocol):
    """Whatever computes cells: `submit` returns an object that has `result()`."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Has a function called, here or elsewhere."""
        ...


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Outcome of a sweep.

    Attributes:
      computed: how many cells were computed.
      reused: how many were there already.
      failures: (label, traceback) of every cell that raised.
      stale: cells that were there, but of other code, and were not accepted.
    """

    computed: int
    reused: int
    failures: tuple[tuple[str, str], ...] = ()
    stale: tuple[Stale, ...] = ()


def run(
    cells: Sequence[Cell],
    out: str | os.PathLike,
    executor: Executor | None = None,
    *,
    name: str = "",
    shard: Shard = (0, 1),
    at_once: int = 64,
    split: int | None = MOST_TRIALS,
    force: bool = False,
    accept_code: Sequence[str] = (),
    progress: bool = False,
) -> Outcome:
    """Computes the cells that are not in the directory yet.

    Every finished cell is stored at once, atomically, by this process; workers of an executor write
    nothing. So a sweep that is killed at any moment loses only the cells it was working on, and
    running it again leads to the same bytes in every file as a run that was never stopped.

    Ctrl-C does no harm, and ends a script with one line.

    Any number of processes may run the same cells into one directory, on one machine or on several
    that share it, and each returns when all cells are done. They claim cells one by one, by files
    that only one of them can make; what a process leaves that is killed, another one takes over.

    Args:
      cells: the cells, no two of them equal.
      out: the directory, made if necessary; or a prefix in an object store, as a URL for fsspec,
        such as "s3://bucket/sweep".
      executor: where cells are computed: whatever has `submit` and returns something with
        `result()`, such as a process pool (start its workers by "spawn": jax does not survive a
        fork), a `Client` of dask, or an executor of submitit; None for one cell after another in
        this thread. Worker processes share the cache of compiled programs that this one has
        (`jaxdp.enable_compilation_cache`).
      name: the experiment's name, kept in the manifest.
      shard: (i, N) for the i-th of N processes, counted from 0, which begins with every N-th cell;
        (i, None) where their number is not known. It says where to begin, no more: whoever is done
        with its own cells takes others'.
      at_once: how many cells an executor has at a time; others are left to other processes.
      split: the most trials of a `Simulation` that are computed, claimed and stored at a time; None
        for all of them. One of more trials is computed in parts, by any of the processes and of the
        executor's workers, and put together when all parts are there. Its file has the same bytes
        however it was split.
      force: whether to compute the cells that are there as well.
      accept_code: hashes of other code, as `Outcome.stale` names them, whose cells are kept: where
        you know that an edit or an upgrade has changed no rows. Later runs of the same code keep
        them, too. Of no use with `force`.
      progress: whether to show a progress bar on stderr, or a line a cell if it is no terminal.

    Returns:
      The `Outcome`. A cell that raises does not stop the others: it is among the failures, and
      tried again when all processes have ended and one begins.

    Raises:
      ValueError: two cells are equal, other cells are being computed into the directory, `split`
        is below 1, or no cell there is of a code to accept.
      TypeError: a cell has no JSON form.
      OSError: a cell cannot be stored, such as on a full disk.

    Example:
      >>> import tempfile, jaxdp
      >>> from jaxdp import sweep
      >>> cells = [
      ...     sweep.Simulation(
      ...         protocol=jaxdp.randomizers.KRR(3, epsilon),
      ...         data=sweep.HistogramData([600, 300, 100]),
      ...         num_trials=50,
      ...         labels={"epsilon": epsilon},
      ...     )
      ...     for epsilon in (1.0, 2.0)
      ... ]
      >>> with tempfile.TemporaryDirectory() as out:
      ...     first = sweep.run(cells, out)
      ...     second = sweep.run(cells, out)
      ...     sweep.collect(out).num_rows
      6
      >>> (first.computed, second.computed, second.reused)
      (2, 0, 2)
    """
    if split not in (None, MOST_TRIALS):
        from .._spec import check_int  # with jax, which only cells that are split need

        check_int("split", split, low=1)
    store = Store(out)
    wanted = cells_by_name(cells)
    labels = _label_names(cells)
    store.folder.make()
    kept, pairs, stale = ({}, [], ()) if force else reconcile(store, wanted, accept_code)
    by_name = {kept.get(name, name): cell for name, cell in wanted.items()}
    manifest = Manifest(name, labels, list(by_name), pairs)
    with Claims(store.folder) as claims:
        if store.differs(manifest) and (others := claims.others()):
            raise ValueError(
                f"out must be a directory that no other experiment is running into, got "
                f"{store.folder}; wait for it, or choose another directory, or remove "
                f"{store.folder.at(f'workers/{others[0]}')} if its machine has stopped."
            )
        failures = store.failures()
        dead = claims.dead({record["worker"] for record in failures.values()})
        for failed, record in failures.items():
            if record["worker"] in dead:
                store.forget_failure(failed)
        store.write_manifest(manifest, claims.worker)
        done = set() if force else store.finished() & set(by_name)
        if done and not claims.others():  # else each of them would read it, and may use it
            for damaged in [name for name in done if store.load(name) is None]:
                store.remove(damaged)
                done.remove(damaged)
        pieces = Split(store, {n: c for n, c in by_name.items() if n not in done}, split)
        if store.finished() - set(by_name):  # of whoever was killed before they were removed
            Split(store, {n: by_name[n] for n in done}, split).forget(done)
        if force:  # what others replace is not to be replaced again
            mine, others = _shared(list(by_name), shard)
            done |= set(others)
            mine, others = [piece for n in mine for piece in pieces.of(n)], []
        else:
            mine, others = _shared([piece for n in by_name for piece in pieces.of(n)], shard)
            done |= store.finished() & set(pieces.all)
            mine, others = ([n for n in names if n not in done] for names in (mine, others))
        computed = 0
        work = _Work(store, claims, pieces, mine, others, force)
        for name in done:
            work.go_on(name)
        total = len(done.union(by_name, pieces.all))
        with (
            _one_line_of_interrupts(),
            show_progress(progress, total, len(done), stale) as shown,
        ):
            for name, rows_of in work.attempts(executor, at_once, shown):
                if rows_of is None or work.keep(name, rows_of):
                    computed += rows_of is not None and name in by_name
                    work.go_on(name)
                shown.end(describe(pieces.all[name]), pieces.whole(name) in work.failed)
        failed = store.failures()
        claims.forget_dead()
    why = tuple((failed[n]["cell"], failed[n]["traceback"]) for n in by_name if n in failed)
    return Outcome(computed, len(cells) - computed - len(why), why, stale)


@contextlib.contextmanager
def _one_line_of_interrupts() -> Iterator[None]:
    """Has Ctrl-C end a script with a line, in place of where in jax or a lock it has struck."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        struck, shown = interrupt, sys.excepthook

        def say(kind: type[BaseException], error: BaseException, trace: Any) -> None:
            if error is struck:
                text = "interrupted; finished cells are kept: run it again to go on"
                print(f"\n{text}", file=sys.stderr)
            else:
                shown(kind, error, trace)

        sys.excepthook = say
        raise


def _shared(names: list[str], shard: Shard) -> tuple[list[str], list[str]]:
    """The cells a shard begins with, and the others."""
    index, number = shard
    if number is None:  # spread evenly, however many there are
        start = math.floor(len(names) * math.fmod(index * (math.sqrt(5) - 1) / 2, 1))
        return names[start:] + names[:start], []
    return names[index::number], [n for i, n in enumerate(names) if i % number != index]


def _label_names(cells: Sequence[Cell]) -> list[str]:
    names = {tuple(labels_of(cell)) for cell in cells}
    if len(names) != 1:
        raise ValueError(
            f"cells must be at least one, all with labels of the same names, got {len(cells)} "
            f"with {sorted(names)}."
        )
    return list(names.pop())


def _rows(cache: dict[str, str | float], cell: Cell) -> list[Row]:
    if cache:  # a worker process shares compiled programs with this one
        from .. import _program_cache

        _program_cache.adopt(cache)
    return cell.rows()


def _cache_settings() -> dict[str, str | float]:
    if "jax" not in sys.modules:  # nothing is compiled here
        return {}
    from .. import _program_cache

    return _program_cache.settings()


class _Work:
    """The cells that are not done: those of this process, and those that others may be at."""

    def __init__(
        self,
        store: Store,
        claims: Claims,
        cells: Split,
        mine: list[str],
        others: list[str],
        force: bool,
    ):
        self._store, self._claims, self._cells, self._force = store, claims, cells, force
        self._open, self._elsewhere = collections.deque(mine), others
        self._ended = queue.SimpleQueue[tuple[str, Any]]()
        self._flying: dict[str, Any] = {}
        self.failed = set[str]()

    def attempts(
        self, executor: Executor | None, at_once: int, shown: Progress
    ) -> Iterator[tuple[str, Callable[[], list[Row]] | None]]:
        """Each cell as it is done, with a function that returns its rows or raises its error.

        None in place of the function for what another process has done.
        """
        rows = functools.partial(_rows, _cache_settings())
        at_once = 1 if executor is None else at_once
        try:
            while self._open or self._flying or self._elsewhere:
                while self._open and len(self._flying) < at_once:
                    name = self._open.popleft()
                    cell = self._cells.all[name]
                    if not self._claims.take(name, describe(cell)):
                        # Others are here: what they have done and are at is read at once.
                        self._elsewhere += [name, *self._open]
                        self._open.clear()
                    elif self._is_done(name):
                        self._claims.release(name)
                        yield name, None
                    elif self._cells.is_split(name):  # its parts lie here
                        yield name, functools.partial(self._cells.rows, name)
                    elif executor is None:
                        shown.begin(describe(cell))
                        yield name, cell.rows
                    else:
                        shown.begin(describe(cell))
                        self._flying[name] = executor.submit(rows, cell)
                        _when_done(self._flying[name], functools.partial(self._end, name))
                if self._elsewhere and len(self._flying) < at_once:
                    yield from self._look_elsewhere()
                if self._flying and not (self._open and len(self._flying) < at_once):
                    name, future = self._ended.get()
                    del self._flying[name]
                    yield name, future.result
                elif self._elsewhere and not self._open:
                    time.sleep(_LOOK)
        finally:  # on Ctrl-C: what has not begun must not begin
            for future in self._flying.values():
                getattr(future, "cancel", bool)()

    def keep(self, name: str, rows_of: Callable[[], list[Row]]) -> bool:
        """Stores a cell's rows, or why there are none; whether there are."""
        store, cell = self._store, self._cells.all[name]
        try:
            try:
                # Rows that make no table are a failure of the cell, too.
                content = store.encode(cell, [labels_of(cell) | row for row in rows_of()])
            except Exception as error:
                trace = "".join(traceback.format_exception(error))
                whole = self._cells.whole(name)
                store.save_failure(whole, describe(cell), trace, self._claims.worker)
                self.failed.add(whole)
                return False
            store.save(name, content, self._claims.worker, self._force)
            return True
        except OSError as error:  # ends the sweep: what cannot be stored need not be computed
            raise OSError(
                error.errno,
                f"the sweep is stopped, because cell {describe(cell)} cannot be stored in "
                f"{store.folder} ({error.strerror or error}); make room there and run it again, "
                "which keeps the cells that are finished",
            ) from error
        finally:
            self._claims.release(name)

    def go_on(self, name: str) -> None:
        """Does what a cell or a part that is done leads to."""
        self._cells.forget([name])
        whole = self._cells.completed(name)
        if whole is not None:
            self._open.append(whole)

    def _end(self, name: str, future: Any) -> None:
        self._ended.put((name, future))

    def _is_done(self, name: str) -> bool:
        whole = self._cells.whole(name)
        if self._store.has_failed(whole):
            return True
        # A part is removed after its cell is stored.
        return not self._force and any(self._store.is_finished(n) for n in {name, whole})

    def _look_elsewhere(self) -> Iterator[tuple[str, None]]:
        """What others have done meanwhile; some of what nobody does becomes ours to do."""
        taken = self._claims.look()
        # Read after the claims: a cell without a claim has been stored before it lost it.
        self.failed |= self._store.failed()
        done = self.failed | self._store.finished()
        if self._force:  # who had a claim has replaced the file
            done = set(self._elsewhere) - taken
        open_ones = {n for n in self._elsewhere if self._cells.whole(n) not in done}
        abandoned = self._claims.abandoned((taken & open_ones) - done)
        free, left = [], []
        for name in self._elsewhere:
            if name in done or self._cells.whole(name) in done:
                yield name, None
            elif name not in taken or name in abandoned:
                free.append(name)
            else:
                left.append(name)
        random.shuffle(free)  # for others see the same ones
        self._open.extend(free[:_FEW])
        self._elsewhere = left + free[_FEW:]


def _when_done(future: Any, call: Callable[[Any], None]) -> None:
    """Calls a function with a future when that is done, whoever made it."""
    if hasattr(future, "add_done_callback"):
        future.add_done_callback(call)
        return

    def wait() -> None:
        try:
            future.result()
        except BaseException:  # whoever asks for the result will get it again
            pass
        call(future)

    threading.Thread(target=wait, daemon=True).start()
