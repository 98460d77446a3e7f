"""Validation and precision shared by the projections."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from .._spec import as_array, check_real, is_traced
from .._x64 import all_finite, in_float64, one_program

Result = TypeVar("Result")
Values = TypeVar("Values")


def check_array(name: str, value: ArrayLike, axes: str, ndim: int) -> jax.Array:
    """Returns `value` as a floating array, or raises unless it has the axes and is finite.

    Args:
      name: the argument's name in messages.
      value: real array; integers and booleans become the default float, half precision float32.
      axes: the last axes in words, for messages.
      ndim: the number of these axes.

    Returns:
      float32 or float64 array. Entries are not checked under a jax transformation.
    """
    given = value if isinstance(value, jax.Array) else as_array(name, value)
    number = given.dtype == bool or jnp.issubdtype(given.dtype, np.number)
    if not number or jnp.issubdtype(given.dtype, jnp.complexfloating):
        raise TypeError(f"{name} must be a real array, got dtype {given.dtype}.")
    if len(given.shape) < ndim:
        raise ValueError(f"{name} must have shape [..., {axes}], got shape {given.shape}.")
    if 0 in given.shape[len(given.shape) - ndim :]:
        raise ValueError(f"{name} must have at least one entry in {axes}, got {given.shape}.")
    real = jax.dtypes.canonicalize_dtype(given.dtype)
    array = jnp.asarray(given, real if real in (np.float32, np.float64) else jnp.result_type(float))
    if not is_traced(array) and not all_finite(array):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(array)))[0])
        raise ValueError(f"{name} must be finite, got {array[where]} at index {where}.")
    return array


def check_square(name: str, value: ArrayLike) -> jax.Array:
    """Returns `value` as a floating array of square matrices, symmetrised."""
    array = check_array(name, value, "n, n", 2)
    if array.shape[-1] != array.shape[-2]:
        raise ValueError(f"{name} must be square, [..., n, n], got shape {array.shape}.")
    return symmetrize(array)


@one_program
def symmetrize(matrix: jax.Array) -> jax.Array:
    """The symmetric part, without overflow."""
    return 0.5 * matrix + 0.5 * jnp.swapaxes(matrix, -1, -2)


def check_radius(name: str, value: ArrayLike, lead: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """Returns a positive number for every item of a batch, as dtype[*lead].

    Args:
      name: the argument's name in messages.
      value: a number, or an array that broadcasts to `lead`; values are not checked under a jax
        transformation.
      lead: the shape of the batch.
      dtype: of the result.
    """
    array: Any = value
    if not is_traced(value):
        array = as_array(name, value)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"{name} must be a real number, got {value!r}.")
        with np.errstate(over="ignore", under="ignore"):  # beyond the type they are refused
            array = array.astype(dtype)
        most = float(jnp.finfo(dtype).max) / 2**20  # sums of so many are finite
        if not np.all((array > 0) & (array <= most)):
            raise ValueError(
                f"{name} must be a finite number > 0 and at most {most:.3g} in "
                f"{np.dtype(dtype).name}, got {value!r}."
            )
    shape = jnp.shape(array)
    fits = len(shape) <= len(lead) and all(
        ours in (1, theirs) for ours, theirs in zip(shape[::-1], lead[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"{name} must be a number or broadcast to the leading axes {lead}, got shape {shape}."
        )
    if isinstance(array, np.ndarray):  # by NumPy, which starts no programs
        return jnp.asarray(np.broadcast_to(array, lead))
    return jnp.broadcast_to(jnp.asarray(array, dtype), lead)


def check_tolerance(name: str, value: float) -> float:
    """Returns a tolerance as a float, or raises unless it is a finite number >= 0."""
    number = check_real(name, value)
    if number < 0:
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}.")
    return min(number, float(np.finfo(np.float32).max))  # which is as good as none


def in_precision(function: Callable[..., Result], float64: bool, *arrays: jax.Array) -> Result:
    """Calls `function(*arrays)` as they are, or in a float64 block with arrays of float64."""
    if not float64:
        return function(*arrays)

    def widened(*narrow):
        return function(*(x.astype(jnp.float64) for x in narrow))

    return in_float64(widened)(*arrays)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def projected(
    point: jax.Array, x: jax.Array, held: Any, derivative: Callable[[Any, jax.Array], jax.Array]
) -> jax.Array:
    """`point`, the projection of x, with its derivative in x and no other.

    The derivative of a projection is its own transpose, which serves both modes of differentiation,
    whatever loops it has. There are no second derivatives.

    Args:
      point: float[...].
      x: float[...], what is projected.
      held: arrays.
      derivative: maps `held` and a change of x to the change of the point, linear in the latter.
    """
    del x, held, derivative
    return point


@projected.defjvp
def _projected_jvp(derivative, primals, tangents):
    point, x, held = primals
    # What is held depends on x, if only by a solver that was not differentiated.
    held, _ = constant((held, x), "projections have no second derivatives.")
    # Of jax's primitives that of linear solvers has these rules, and one for vmap. Of the matrix
    # that `derivative` would invert it uses nothing but that it is symmetric.
    change = jax.lax.custom_linear_solve(
        lambda y: y, tangents[1], lambda _, y: derivative(held, y), symmetric=True
    )
    return point, change


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def constant(values: Values, message: str) -> Values:
    """The values, whose derivatives are refused with a message."""
    del message
    return values


@functools.partial(constant.defjvp, symbolic_zeros=True)
def _constant_jvp(message, primals, tangents):
    if not all(isinstance(x, SymbolicZero) for x in jax.tree.leaves(tangents)):
        raise TypeError(message)
    return primals[0], jax.tree.map(jnp.zeros_like, primals[0])
