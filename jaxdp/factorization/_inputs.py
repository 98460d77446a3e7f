"""Validation, precision and batching shared by the solvers."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike

from .._spec import as_array, physical_memory
from .._x64 import in_float64

Result = TypeVar("Result")

_LARGEST = 1e300
MODERATE = 256  # rows or columns of a matrix for which to compile takes longer than to solve it
_EXTREME = 300  # binary digits before or after the point


def is_traced(*values: object) -> bool:
    """Whether any of `values` is being traced, so that only its shape and dtype are known."""
    return any(isinstance(v, Tracer) for v in values)


def check_matrix(value: ArrayLike, name: str = "matrix", *, square: bool = False) -> Any:
    """Returns a matrix, or a stack of them, as float64; its entries are checked unless traced."""
    matrix: Any = value
    if not is_traced(value):
        matrix = as_array(name, value)
        if matrix.dtype.kind not in "biuf":
            raise TypeError(f"{name} must be a real array, got dtype {matrix.dtype}.")
        # Four matrices of its size: itself in float64, two factors, and what a step computes.
        check_memory(32.0 * matrix.size, f"{name}, of shape {matrix.shape},")
        matrix = matrix.astype(np.float64)
    shape = matrix.shape
    if len(shape) < 2:
        raise ValueError(
            f"{name} must have shape [..., m, k], got shape {shape}; a single query is a matrix "
            "with one row, reshape(1, -1)."
        )
    if 0 in shape:
        raise ValueError(f"{name} must have at least one row and one column, got shape {shape}.")
    if square and shape[-1] != shape[-2]:
        raise ValueError(f"{name} must be square, got shape {shape}.")
    if not is_traced(matrix) and not np.all(np.isfinite(matrix)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
        raise ValueError(f"{name} must be finite, got {matrix[where]} at index {where}.")
    if not is_traced(matrix) and np.max(np.abs(matrix)) > _LARGEST:
        raise ValueError(
            f"{name} must have entries of at most {_LARGEST:g}, got {np.max(np.abs(matrix)):g}: "
            "sums of larger ones overflow; divide it by a constant."
        )
    return matrix


def extreme_exponents(matrix: Any, *levels: Any) -> np.ndarray:
    """For each matrix the power of two to divide by, where its entries are extreme; else 0.

    It is even, so that factors have whole powers. Compiled programs flush denormal numbers to 0 and
    overflow in squares; what is traced cannot be looked at, and is taken as it is.
    """
    lead = matrix.shape[:-2]
    if is_traced(matrix, *levels):
        return np.zeros(lead, np.int64)
    largest = np.abs(matrix).max(axis=(-1, -2))
    exponents = np.frexp(largest)[1].astype(np.int64)
    return np.where(np.abs(exponents) > _EXTREME, exponents + exponents % 2, 0)


def times_power(values: Any, exponents: np.ndarray) -> Any:
    """Matrices, or other values of each of them, times powers of two; exact."""
    if not np.any(exponents):
        return values
    return np.ldexp(
        values, np.expand_dims(exponents, tuple(range(exponents.ndim, np.ndim(values))))
    )


def divided(matrix: Any, level: Any, exponents: np.ndarray) -> tuple[Any, Any]:
    """Matrices, and what bounds the errors of their entries, over powers of two."""
    if not np.any(exponents):
        return matrix, level
    with np.errstate(over="ignore"):
        level = times_power(np.broadcast_to(level, exponents.shape), -exponents)
    return times_power(matrix, -exponents), np.minimum(level, _LARGEST)


def one_matrix(value: ArrayLike) -> np.ndarray:
    """`check_matrix` for functions that take no stacks."""
    matrix = check_matrix(value)
    if matrix.ndim != 2:
        raise ValueError(f"matrix must have shape [m, k], got {matrix.shape}.")
    return matrix


def check_symmetric(value: np.ndarray | jax.Array, name: str = "matrix") -> np.ndarray | jax.Array:
    """Returns `value` without rounding asymmetry, or raises if it is concrete and not symmetric."""
    if is_traced(value) or is_symmetric(value):
        return value
    transpose = np.swapaxes(value, -1, -2)
    difference = np.abs(value - transpose).max()
    if difference > 1e-12 * np.abs(value).max():
        raise ValueError(
            f"{name} must equal its transpose, got a largest difference of {difference:.3g}; a "
            "quadratic form only sees (matrix + matrix.T) / 2, pass that."
        )
    # Halved before they are added: the sum of two large entries could overflow.
    return value / 2 + transpose / 2


def is_symmetric(value: np.ndarray | jax.Array) -> bool:
    """Whether `value` is concrete, square and equal to its transpose."""
    return (
        not is_traced(value)
        and value.shape[-1] == value.shape[-2]
        and np.array_equal(value, np.swapaxes(value, -1, -2))
    )


def check_level(
    name: str,
    value: ArrayLike | None,
    *,
    positive: bool = False,
    lead: tuple[int, ...] = (),
) -> Any:
    """Returns a tolerance or a weight as float64, or raises unless it is finite and >= 0 (> 0).

    Args:
      name: of the argument.
      value: a number, or one for each matrix of a stack.
      positive: whether 0 is refused.
      lead: the leading axes of the stack.
    """
    if is_traced(value):
        return value
    level = as_array(name, value)  # pyright: ignore[reportArgumentType]
    if level.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a real number, got {level!r}.")
    level = level.astype(np.float64)
    if not np.all(np.isfinite(level)) or np.any(level < 0) or (positive and np.any(level == 0)):
        bound = "> 0" if positive else ">= 0"
        raise ValueError(f"{name} must be a finite number {bound}, got {level}.")
    axes = zip(level.shape[::-1], lead[::-1], strict=False)
    if level.ndim > len(lead) or any(ours not in (1, theirs) for ours, theirs in axes):
        raise ValueError(
            f"{name} must be a number, or one for each of the matrices {lead} of a stack, got "
            f"shape {level.shape}."
        )
    return level


def check_memory(num_bytes: float, what: str) -> None:
    """Raises if `what` needs more memory than the default device has."""
    device = jax.devices()[0]
    stats = device.memory_stats()
    if stats and "bytes_limit" in stats:
        available = stats["bytes_limit"]
    else:
        available = physical_memory()
    if num_bytes > available:
        raise ValueError(
            f"{what} needs about {num_bytes:.3g} bytes of memory, {device.platform} has "
            f"{available:.3g}; use projected_gradient, an explicit construction, or the "
            "Kronecker structure of the matrix."
        )


def solve(
    solver: Callable[..., Result],
    matrix,
    *levels,
    host: Callable[..., Result] | None = None,
    largest: int = MODERATE,
) -> Result:
    """Calls `solver(matrix, *levels)` in float64, once for each matrix of a stack.

    Args:
      solver: maps float64[m, k] and float64[] levels to a pytree of results; pure.
      matrix: float[..., m, k].
      *levels: numbers, broadcast against the leading axes of `matrix`.
      host: the solver in NumPy, for single matrices of moderate size.
      largest: the most rows or columns of these.
    """

    def batched(matrix, *levels):
        return over_stack(jax.vmap(solver), solver, matrix, levels)

    if is_traced(matrix, *levels):
        return _differentiable(batched)(matrix, *levels)
    if host and matrix.ndim == 2 and max(matrix.shape) <= largest:
        with np.errstate(all="ignore"):  # compiled programs do not warn either
            found = host(matrix, *(np.float64(level) for level in levels))
        return jax.tree.map(np.asarray, found)
    return evaluate(batched, matrix, *levels)


def over_stack(many: Callable[..., Result], one: Callable[..., Result], matrix, levels, parts=()):
    """`one(matrix, *levels, *parts)`, or `many` of a stack with one leading axis.

    Args:
      many: maps arrays with one leading axis.
      one: the same, of one matrix.
      matrix: float[..., m, k].
      levels: numbers, broadcast against the leading axes of `matrix`.
      parts: arrays with the leading axes of `matrix`.
    """
    lead = matrix.shape[:-2]
    if not lead:
        return one(matrix, *levels, *parts)
    spread = [jax.numpy.broadcast_to(level, lead) for level in levels]
    flat = [x.reshape(math.prod(lead), *x.shape[len(lead) :]) for x in (matrix, *spread, *parts)]
    return jax.tree.map(lambda x: x.reshape(lead + x.shape[1:]), many(*flat))


def _differentiable(function: Callable) -> Callable:
    """A traced solver whose bounds have gradients: the witness, by the envelope theorem.

    What else it returns has none, and neither has the tolerance, the last level: a gradient that
    asks for one is refused, where it would be 0 or that of the solver's steps.
    """

    @jax.custom_vjp
    def run(matrix, *levels):
        return evaluate(function, matrix, *levels)

    def forward(matrix, *levels):
        if levels[-1].perturbed:
            raise TypeError("tol must not be differentiated: no bound depends on it by a formula.")
        values = [level.value for level in levels]
        result = evaluate(function, matrix.value, *values)
        return result, (result, values[:-1])

    def backward(held, cotangents):
        result, prices = held
        leaves = (f for f in dataclasses.fields(result) if not f.metadata.get("static"))
        asked = {
            f.name
            for f in leaves
            for leaf in jax.tree.leaves(getattr(cotangents, f.name), is_leaf=_is_zero)
            if not (_is_zero(leaf) or leaf.dtype == jax.dtypes.float0)
        }
        if others := asked - {"upper", "lower"}:
            raise TypeError(
                f"{sorted(others)[0]} of {type(result).__name__} has no gradient: differentiate "
                "upper or lower, or compute it from a matrix of your own."
            )
        nothing = jax.numpy.zeros_like(result.upper)
        rate = sum((getattr(cotangents, name) for name in asked), nothing)
        slopes = [rate[..., None, None] * result.slopes[0]]
        for price, slope in zip(prices, result.slopes[1:], strict=False):
            slopes.append(_summed_to(rate * slope, np.shape(price)))
        return (*slopes, None)

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run


def _summed_to(array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """The sum over the axes along which an array of this shape was stretched."""
    array = jax.numpy.sum(array, axis=tuple(range(array.ndim - len(shape))))
    axes = tuple(i for i, size in enumerate(shape) if size == 1)
    return jax.numpy.sum(array, axis=axes, keepdims=True)


def _is_zero(leaf: object) -> bool:
    return isinstance(leaf, jax.custom_derivatives.SymbolicZero)


def evaluate(function: Callable, *arrays):
    """Calls `function` in float64: NumPy float64 results eagerly, default floats when traced."""
    if is_traced(*arrays):
        cast = functools.partial(jax.tree.map, lambda x: jax.numpy.asarray(x, jax.numpy.float64))
        return in_float64(lambda *xs: function(*cast(xs)))(*arrays)
    with jax.enable_x64(True):
        out = function(*(np.asarray(x, np.float64) for x in arrays))
        return jax.tree.map(np.asarray, out)
