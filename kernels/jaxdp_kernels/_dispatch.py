"""Which implementation of an operation runs."""

from collections.abc import Callable, Mapping
from typing import Any


def pick(implementations: Mapping[str, Callable[..., Any]], name: str | None) -> Callable[..., Any]:
    """The implementation of that name; None stands for "xla", which runs on every platform."""
    name = "xla" if name is None else name
    if name not in implementations:
        raise ValueError(
            f"implementation must be None or one of {sorted(implementations)}, got {name!r}."
        )
    return implementations[name]
