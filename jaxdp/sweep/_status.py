"""How far a sweep is, whoever runs it."""

import dataclasses
import os
from typing import Any

from ._claims import running
from ._store import Store

_RECENT = 30  # finished cells whose pace says how long the others will take


@dataclasses.dataclass(frozen=True)
class Status:
    """Progress of a sweep.

    Attributes:
      cells: how many there are.
      done: how many have rows.
      failed: labels of those that raised.
      running: label and worker (`host`, `process`, `since`) of those being computed.
      seconds_left: at the pace of the last ones; None where that is not known.
    """

    cells: int
    done: int
    failed: tuple[str, ...]
    running: tuple[tuple[str, dict[str, Any]], ...]
    seconds_left: float | None

    @property
    def waiting(self) -> int:
        """Number of cells that no process has begun."""
        return max(self.cells - self.done - len(self.failed) - len(self.running), 0)


def status(out: str | os.PathLike) -> Status:
    """Progress of the sweep in a directory; any number of processes may be running it.

    Args:
      out: the directory.

    Returns:
      The `Status`.

    Raises:
      ValueError: the directory holds no sweep.
    """
    store = Store(out)
    cells = set(store.manifest().cells)
    written = {name: at for name, at in store.finished_at().items() if name in cells}
    done = set(written)
    failed = tuple(record["cell"] for n, record in store.failures().items() if n in cells - done)
    at_work = tuple(running(store.folder))
    left = len(cells) - len(done) - len(failed)
    times = sorted(written.values())[-_RECENT:]
    pace = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 2 else None
    seconds = left * pace if at_work and pace is not None else None
    return Status(len(cells), len(done), failed, at_work, seconds)


def table(state: Status) -> Any:
    """What `jaxdp status` shows."""
    import rich.box
    import rich.console
    import rich.table

    line = f"{state.done} of {state.cells} cells done"
    for number, what in (
        (len(state.running), "running"),
        (state.waiting, "waiting"),
        (len(state.failed), "failed"),
    ):
        line += f", {number} {what}" if number else ""
    if state.seconds_left:
        line += f"; about {said(state.seconds_left)} left"
    rows = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("running", "on", "process", "worker since"):
        rows.add_column(heading)
    for label, worker in state.running:
        rows.add_row(label, worker["host"], str(worker["process"]), worker["since"])
    failures = [f"failed: {label}" for label in state.failed]
    return rich.console.Group(line, *([rows] if state.running else []), *failures)


def said(seconds: float) -> str:
    """A duration in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
