"""A progress bar over trials."""

from typing import TYPE_CHECKING

from .._progress import bars

if TYPE_CHECKING:
    import rich.progress


class _ProgressBar:
    """A rich progress bar."""

    def __init__(self, total: int, progress: "rich.progress.Progress"):
        self._progress = progress
        self._task = progress.add_task("trials", total=total)
        progress.start()

    def advance(self, steps: int) -> None:
        self._progress.advance(self._task, steps)

    def close(self) -> None:
        self._progress.stop()


def progress_bar(total: int) -> _ProgressBar:
    """A bar that is shown until it is closed, or ImportError without rich."""
    drawn = bars()
    columns = (*drawn.Progress.get_default_columns(), drawn.MofNCompleteColumn())
    return _ProgressBar(total, drawn.Progress(*columns))
