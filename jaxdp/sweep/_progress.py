"""Progress on stderr: a bar on a terminal, plain lines elsewhere."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence

from ._stale import Stale


@contextlib.contextmanager
def show_progress(
    enabled: bool, total: int, reused: int, stale: Sequence[Stale] = ()
) -> Iterator[Callable[[str], None]]:
    """Gives a function to be called with a cell's label whenever one is done.

    Args:
      enabled: whether to show anything at all.
      total: the number of cells.
      reused: how many of them need not be computed.
      stale: cells that are computed anew.
    """
    for each in stale if enabled else ():
        print(f"{each}: computed anew", file=sys.stderr, flush=True)
    if not enabled or reused == total:
        yield lambda label: None
    elif sys.stderr.isatty():
        with _bar(total, reused) as advance:
            yield advance
    else:
        done = reused
        if reused:
            print(f"{reused} of {total} cells are there already", file=sys.stderr, flush=True)

        def advance(label: str, /) -> None:
            nonlocal done
            done += 1
            print(f"[{done}/{total}] {label}", file=sys.stderr, flush=True)

        yield advance


@contextlib.contextmanager
def _bar(total: int, reused: int) -> Iterator[Callable[[str], None]]:
    import rich.console
    from rich import progress

    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}"),
    )
    console = rich.console.Console(stderr=True)
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, completed=reused)
        yield lambda label: bar.update(task, advance=1, description=label)
