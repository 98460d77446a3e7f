"""Which implementation of an operation runs."""

from collections.abc import Callable, Mapping
from typing import Any

import jax


def pick(implementations: Mapping[str, Callable[..., Any]], name: str | None) -> Callable[..., Any]:
    """The implementation of that name; None stands for "xla", which runs on every platform."""
    name = "xla" if name is None else name
    if name not in implementations:
        raise ValueError(
            f"implementation must be None or one of {sorted(implementations)}, got {name!r}."
        )
    return implementations[name]


def need_gpu(name: str, what: str = "a GPU") -> None:
    """Raises ValueError where jax does not compute on a GPU, which an implementation needs."""
    if jax.default_backend() != "gpu":
        raise ValueError(
            f"implementation={name!r} needs {what}, and jax computes on "
            f"{jax.default_backend()!r}; use implementation=None."
        )
