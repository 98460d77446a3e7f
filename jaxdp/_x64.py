"""Arithmetic as one program, and in float64 inside a 32-bit program."""

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

F = TypeVar("F", bound=Callable)

one_program = functools.partial(jax.jit, inline=True)
"""jit for a short function of arrays: outside of jit one program, inside of it inlined.

jax compiles every operation by itself where it is called eagerly, each in about the time of a
program of a dozen of them.
"""


def all_finite(array: jax.Array) -> bool:
    """Whether all entries of an array are finite, also of one that a trace closes over."""
    with jax.ensure_compile_time_eval():
        return bool(_all_finite(array))


def places_of(mask: jax.Array, most: int) -> jax.Array:
    """The first places at which a mask is true, in order, and its size where there are no more.

    Not `jnp.nonzero`: jax 0.12.0.1 lowers it by the caller's x64 flag, whatever the trace's.

    Args:
      mask: bool[n].
      most: how many places; static.

    Returns:
      int32[most].
    """
    place = jnp.where(mask, jnp.cumsum(mask, dtype=jnp.int32) - 1, np.int32(most))
    places = jnp.full(most, mask.size, jnp.int32)
    return places.at[place].set(lax.iota(jnp.int32, mask.size), mode="drop")


@one_program
def _all_finite(array: jax.Array) -> jax.Array:
    return jnp.all(jnp.isfinite(array))


def in_float64(function: F) -> F:
    """Runs `function` in one complete float64 block, whatever the caller's precision.

    jax truncates 64-bit values silently when they leave an `enable_x64` block, so results are cast
    to the caller's default float *inside* the block: float32 for a 32-bit caller, float64 where x64
    is on. Every integer the function returns must be of 32 bits already (see `Count`).
    """

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        wide = _is_wide()
        with jax.enable_x64(True):
            out = function(*args, **kwargs)
            return out if wide else _narrow(out)

    return wrapped  # pyright: ignore[reportReturnType]


def compiled_in_float64(function: F) -> F:
    """`in_float64` for a function of pytrees of arrays, as one program where it is called eagerly.

    Without it, a first call outside of jit compiles each of its operations by itself. Inside of jit
    it is inlined and changes nothing.
    """

    @functools.wraps(function)
    def narrowed(*args, **kwargs):
        return _narrow(function(*args, **kwargs))

    wide, narrow = one_program(function), one_program(narrowed)

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        program = wide if _is_wide() else narrow
        with jax.enable_x64(True):
            return program(*args, **kwargs)

    return wrapped  # pyright: ignore[reportReturnType]


def _is_wide() -> bool:
    return jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def _narrow(tree):
    return jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, tree)


def as_float64(*arrays: ArrayLike) -> tuple[jax.Array, ...]:
    """Arrays as float64; only inside a float64 block."""
    return tuple(jnp.asarray(x).astype(jnp.float64) for x in arrays)


def dot(rows: jax.Array, column: jax.Array) -> jax.Array:
    """The products of the last axis of `rows` with a vector, also where it is batched later.

    What is inside a jit is batched after its float64 block has ended; `jnp.matmul` asks for the
    type of its result, and there it would get float32.
    """
    contract = (((rows.ndim - 1,), (0,)), ((), ()))
    return lax.dot_general(rows, column, contract, precision=lax.Precision.HIGHEST)
