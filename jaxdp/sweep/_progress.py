"""Progress on stderr: a bar on a terminal, plain lines elsewhere."""

import abc
import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ._stale import Stale
from ._status import said

# jax tells of each program when it begins to compile it, by how long the step before took.
_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILED = "/jax/core/compile/backend_compile_duration"


class Progress(abc.ABC):
    """How far a sweep is, told of each cell when it begins and when it ends.

    Args:
      total: the number of cells.
      reused: how many of them need not be computed.
    """

    def __init__(self, total: int, reused: int):
        self.total, self.reused, self.done = total, reused, reused
        self.began = time.monotonic()
        self.at_work: dict[str, None] = {}  # labels, in the order in which they began

    @property
    def elapsed(self) -> float:
        """Seconds since the sweep began."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float | None:
        """Seconds that the other cells will take if they are like those so far.

        None until an eighth is done: the first cells compile what others run.
        """
        computed, to_do = self.done - self.reused, self.total - self.reused
        if computed < max(to_do / 8, 1):
            return None
        return self.elapsed / computed * (self.total - self.done)

    def begin(self, label: str) -> None:
        """A cell begins."""
        self.at_work[label] = None

    def end(self, label: str, failed: bool = False) -> None:
        """A cell has ended, here or in another process."""
        self.at_work.pop(label, None)
        self.done += 1
        self.show(label, failed)

    @abc.abstractmethod
    def show(self, label: str, failed: bool) -> None:
        """Shows that a cell has ended."""


class _Silent(Progress):
    def show(self, label: str, failed: bool) -> None:
        pass


class _Lines(Progress):
    """A line when the first cell begins, and whenever one ends."""

    def begin(self, label: str) -> None:
        if not self.at_work and self.done == self.reused:
            there = f", {self.reused} of them there already" if self.reused else ""
            self._say(f"{self.total} cells{there}; begins with {label}")
        super().begin(label)

    def show(self, label: str, failed: bool) -> None:
        left = f", about {said(self.left)} left" if self.left else ""
        result = "FAILED " if failed else ""
        self._say(f"[{self.done}/{self.total}] {said(self.elapsed)}{left}  {result}{label}")

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class _Bar(Progress):
    """A bar with the time since the start and to the end, and what is being done, now."""

    def __init__(self, total: int, reused: int):
        super().__init__(total, reused)
        self._failed = 0

    def show(self, label: str, failed: bool) -> None:
        self._failed += failed

    def text(self) -> str:
        """What is being done."""
        words = [said(self.elapsed)]
        words += [f"about {said(self.left)} left"] if self.left else []
        words += [f"{self._failed} failed"] if self._failed else []
        if self.at_work:
            first, others = next(iter(self.at_work)), len(self.at_work) - 1
            words.append(f"{'compiling ' if _compiling() else ''}{first}")
            words += [f"and {others} more"] if others else []
        return ", ".join(words)


@contextlib.contextmanager
def show_progress(
    enabled: bool, total: int, reused: int, stale: Sequence[Stale] = ()
) -> Iterator[Progress]:
    """Shows how far a sweep is.

    Args:
      enabled: whether to show anything at all.
      total: the number of cells.
      reused: how many of them need not be computed.
      stale: stored cells of other code, which are computed anew.
    """
    for each in stale if enabled else ():
        print(
            f"{each}: computed anew; --accept-code {each.code} would keep them",
            file=sys.stderr,
            flush=True,
        )
    if not enabled or reused == total:
        yield _Silent(total, reused)
    elif sys.stderr.isatty():
        bar = _Bar(total, reused)
        with _drawn(bar):
            yield bar
    else:
        yield _Lines(total, reused)


@contextlib.contextmanager
def _drawn(bar: _Bar) -> Iterator[None]:
    import rich.console
    from rich import progress, text

    class Now(progress.ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Any) -> text.Text:
            task.completed = bar.done
            return text.Text(bar.text())

    columns = (progress.BarColumn(24), progress.MofNCompleteColumn(), Now())
    console = rich.console.Console(stderr=True)
    _listen()
    with progress.Progress(*columns, console=console, transient=True) as shown:
        shown.add_task("", total=bar.total, completed=bar.done)
        yield


_threads: set[int] = set()  # that are compiling
_listens = threading.Event()


def _compiling() -> bool:
    """Whether some thread of this process compiles a program."""
    return bool(_threads)


def _listen() -> None:
    """Notes which threads compile, from now on; jax lets nobody stop listening."""
    if _listens.is_set() or "jax" not in sys.modules:
        return
    _listens.set()
    import jax

    def note(event: str, duration_secs: float, **_: object) -> None:
        if event == _LOWERED:
            _threads.add(threading.get_ident())
        elif event == _COMPILED:
            _threads.discard(threading.get_ident())

    jax.monitoring.register_event_duration_secs_listener(note)
