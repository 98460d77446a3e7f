"""Float64 arithmetic inside a 32-bit program."""

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

F = TypeVar("F", bound=Callable)


def in_float64(function: F) -> F:
    """Runs `function` in one complete float64 block, whatever the caller's precision.

    jax truncates 64-bit values silently when they leave an `enable_x64` block, so results are cast
    to the caller's default float *inside* the block: float32 for a 32-bit caller, float64 where x64
    is on. Every integer the function returns must be of 32 bits already (see `Count`).
    """

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        wide = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
        with jax.enable_x64(True):
            out = function(*args, **kwargs)
            if wide:
                return out
            return jax.tree.map(
                lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, out
            )

    return wrapped  # pyright: ignore[reportReturnType]
