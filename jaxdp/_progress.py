"""What progress is drawn with."""

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ._install import install
from ._spec import check_bool

_PATIENCE = 1.0  # seconds until a terminal is told what takes so long


def bars() -> Any:
    """The module `rich.progress`, or an ImportError that says how to get it."""
    try:
        import rich.progress
    except ImportError as error:
        raise ImportError(
            f"progress=True draws its bar with rich: {install('sweep')}, or leave it out."
        ) from error
    return rich.progress


def on_stderr(*columns: Any, transient: bool = False) -> Any:
    """A `rich.progress.Progress` of these columns of `bars()`, which leaves stdout to results."""
    import rich.console  # which is there where `bars()` is

    console = rich.console.Console(stderr=True)
    return bars().Progress(*columns, console=console, transient=transient)


@contextlib.contextmanager
def telling(progress: bool | None, first: str) -> Iterator[Callable[[str], None]]:
    """Gives a function that shows a text, and for how long it has been true, on stderr.

    Args:
      progress: whether to; None for a terminal, once it has waited for a second, if rich is there.
      first: the text to begin with.
    """
    if progress is None:
        wanted = sys.stderr.isatty() and importlib.util.find_spec("rich") is not None
    else:
        wanted = check_bool("progress", progress)
    if not wanted:
        yield lambda text: None
        return
    drawn = bars()
    columns = (
        drawn.SpinnerColumn(),
        drawn.TextColumn("{task.description}", markup=False),
        drawn.TimeElapsedColumn(),
    )
    shown = on_stderr(*columns, transient=True)
    task = shown.add_task(first, total=None)
    later = threading.Timer(0.0 if progress else _PATIENCE, shown.start)
    if progress:
        shown.start()
    else:
        later.daemon = True
        later.start()
    try:
        yield lambda text: shown.reset(task, description=text)
    finally:
        later.cancel()
        if later.is_alive():  # it has begun to start
            later.join()
        shown.stop()
