"""Running the cells of a sweep: any executor, finished cells skipped, failures kept apart."""

import concurrent.futures
import dataclasses
import functools
import os
import traceback
from collections.abc import Callable, Iterator, Sequence

from .. import _program_cache
from ._cell import Cell, Row, describe, fingerprint
from ._progress import show_progress
from ._store import Manifest, Store


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a sweep went.

    Attributes:
      computed: how many cells were computed.
      reused: how many were there already.
      failures: (label, traceback) of every cell that raised.
    """

    computed: int
    reused: int
    failures: tuple[tuple[str, str], ...] = ()


def run(
    cells: Sequence[Cell],
    out: str | os.PathLike,
    executor: concurrent.futures.Executor | None = None,
    *,
    name: str = "",
    force: bool = False,
    progress: bool = False,
) -> Outcome:
    """Computes the cells that are not in the directory yet.

    Every finished cell is stored at once, atomically, by this process; workers write nothing. So a
    sweep that is killed at any moment loses only the cells it was working on, and running it again
    leads to the same bytes in every file as a run that was never stopped.

    Args:
      cells: the cells, no two of them equal.
      out: the directory, made if necessary.
      executor: where cells are computed: any `concurrent.futures.Executor`, such as a process pool
        (start its workers by "spawn": jax does not survive a fork) or `Client.get_executor()` of
        dask; None for one cell after another in this thread. Worker processes share the cache of
        compiled programs that this one has (`jaxdp.enable_compilation_cache`).
      name: the experiment's name, kept in the manifest.
      force: whether to compute the cells that are there as well.
      progress: whether to show a progress bar on stderr, or a line a cell if it is no terminal.

    Returns:
      The `Outcome`. A cell that raises does not stop the others: it is among the failures.

    Raises:
      ValueError: two cells are equal, or another run is writing to the directory.
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
    store = Store(out)
    names = [fingerprint(cell) for cell in cells]
    if len(set(names)) < len(names):
        twice = next(cell for cell, n in zip(cells, names, strict=True) if names.count(n) > 1)
        raise ValueError(f"cells must differ, but two are equal: {describe(twice)}.")
    with store.locked():
        store.write_manifest(Manifest(name, _label_names(cells), names))
        pending = [
            cell for cell, n in zip(cells, names, strict=True) if force or store.load(n) is None
        ]
        failures = []
        with show_progress(progress, len(cells), len(cells) - len(pending)) as advance:
            for cell, rows_of in _attempts(pending, executor):
                try:
                    # Rows that make no table are a failure of the cell, too.
                    content = store.encode(cell, rows_of())
                except Exception as error:
                    failures.append((describe(cell), "".join(traceback.format_exception(error))))
                else:
                    _save(store, cell, content)
                advance(describe(cell))
    computed, reused = len(pending) - len(failures), len(cells) - len(pending)
    return Outcome(computed, reused, tuple(failures))


def _save(store: Store, cell: Cell, content: bytes) -> None:
    """Stores a cell, or ends the sweep: what cannot be stored need not be computed."""
    try:
        store.save(cell, content)
    except OSError as error:
        raise OSError(
            error.errno,
            f"the sweep is stopped, because cell {describe(cell)} cannot be stored in {store.root} "
            f"({error.strerror or error}); make room there and run it again, which keeps the cells "
            "that are finished",
        ) from error


def _label_names(cells: Sequence[Cell]) -> list[str]:
    names = {tuple(name for name, _ in cell.labels) for cell in cells}
    if len(names) != 1:
        raise ValueError(
            f"cells must be one or more, with labels of the same names, got {len(cells)} cells "
            f"with {sorted(names)}."
        )
    return list(names.pop())


def _rows(cache: dict[str, str | float], cell: Cell) -> list[Row]:
    _program_cache.adopt(cache)  # a worker process shares compiled programs with this one
    return cell.rows()


def _attempts(
    cells: Sequence[Cell], executor: concurrent.futures.Executor | None
) -> Iterator[tuple[Cell, Callable[[], list[Row]]]]:
    """Each cell, as it is finished, with a function that returns its rows or raises its error."""
    if executor is None:
        yield from ((cell, cell.rows) for cell in cells)
        return
    rows = functools.partial(_rows, _program_cache.settings())
    futures = {executor.submit(rows, cell): cell for cell in cells}
    try:
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result
    finally:  # on Ctrl-C: what has not begun must not begin
        for future in futures:
            future.cancel()
