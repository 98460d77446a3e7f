"""A progress bar over trials."""

from typing import TYPE_CHECKING

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
    try:
        import rich.progress
    except ImportError as error:
        raise ImportError(
            "progress=True draws its bar with rich: pip install 'jaxdp[sweep]', or leave it out."
        ) from error
    columns = (
        *rich.progress.Progress.get_default_columns(),
        rich.progress.MofNCompleteColumn(),
    )
    return _ProgressBar(total, rich.progress.Progress(*columns))
