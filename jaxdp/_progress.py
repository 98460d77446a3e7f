"""What progress is drawn with."""

from typing import Any


def bars() -> Any:
    """The module `rich.progress`, or an ImportError that says how to get it."""
    try:
        import rich.progress
    except ImportError as error:
        raise ImportError(
            "progress=True draws its bar with rich: pip install 'jaxdp[sweep]', or leave it out."
        ) from error
    return rich.progress


def on_stderr(*columns: Any, transient: bool = False) -> Any:
    """A `rich.progress.Progress` of these columns of `bars()`, which leaves stdout to results."""
    import rich.console  # which is there where `bars()` is

    console = rich.console.Console(stderr=True)
    return bars().Progress(*columns, console=console, transient=transient)
