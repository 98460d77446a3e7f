"""Float64 arithmetic inside a 32-bit program."""

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

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


def dot(rows: jax.Array, column: jax.Array) -> jax.Array:
    """The products of the last axis of `rows` with a vector, also where it is batched later.

    What is inside a jit is batched after its float64 block has ended; `jnp.matmul` asks for the
    type of its result, and there it would get float32.
    """
    contract = (((rows.ndim - 1,), (0,)), ((), ()))
    return lax.dot_general(rows, column, contract, precision=lax.Precision.HIGHEST)
