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
