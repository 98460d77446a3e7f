"""What every spec shares: the checks of its fields.

A *spec* is a frozen, slotted dataclass that describes a randomizer, a protocol or a population. Its
constructor validates eagerly with the checks below, so nothing downstream has to.
"""

import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike

from ._form import FrozenArray as FrozenArray
from ._form import frozen as frozen

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Tree = Any
"""A pytree of arrays: of users' values, of reports, of what the bins of a histogram stand for."""

MAX_USERS = 2**53
"""Largest supported number of users: every smaller integer is a float64."""

BELOW_ONE = 1 - 2.0**-53
"""The largest float64 below 1."""

_LARGEST_INT = 2**63 - 1


def as_array(name: str, value: ArrayLike) -> np.ndarray:
    """Returns `value` as a NumPy array, or raises where entries are masked: NumPy would keep them.

    Args:
      name: the argument's name in messages.
      value: anything `numpy.asarray` accepts, not traced.
    """
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        raise TypeError(f"{name} must be an array of numbers, got a key.")
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must be a plain array, got a masked one, whose masked entries would count as "
            f"any others; drop them with {name}.compressed(), or set them with {name}.filled(...)."
        )
    try:
        return np.asarray(value)
    except (ValueError, OverflowError) as error:  # ragged lists
        raise TypeError(f"{name} must be an array of numbers: {error}.") from error


def as_float64(name: str, value: ArrayLike) -> np.ndarray:
    """Returns `value` as float64, or raises unless it is an array of real numbers."""
    array = as_array(name, value)
    if array.dtype.kind not in "iuf" and not jax.dtypes.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{name} must be an array of real numbers, got dtype {array.dtype}.")
    return array.astype(np.float64)


def as_float32(name: str, value: ArrayLike) -> np.ndarray:
    """Returns `value` as float32, or raises unless it is an array of reals, finite in float32."""
    array = as_array(name, value)
    if not jax.dtypes.issubdtype(array.dtype, np.floating):  # bfloat16 too
        raise TypeError(f"{name} must be an array of real numbers, got dtype {array.dtype}.")
    with np.errstate(over="ignore"):  # refused below
        array = array.astype(np.float32)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite in float32, got NaN, inf or beyond.")
    return array


def as_int32(name: str, value: ArrayLike) -> np.ndarray:
    """Returns integers as int32, or raises where one is beyond its range, and would wrap."""
    array = as_array(name, value)
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be an array of integers, got dtype {array.dtype}.")
    limits = np.iinfo(np.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        bad = array.min() if array.min() < limits.min else array.max()
        raise ValueError(
            f"{name} must be in [-2**31, 2**31), the range of int32, got {bad}; recode the values."
        )
    return array.astype(np.int32)


def physical_memory() -> int:
    """The physical memory of this machine in bytes; 2**63 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 2**63


def num_cores() -> int:
    """The number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def exact_sum(counts: np.ndarray) -> int:
    """The sum of integers in [0, 2**53], as a Python integer: sums in int64 may wrap."""
    # Halves of at most 27 bits: fewer than 2**36 of them add up in int64.
    halves = counts.astype(np.int64)
    return (int((halves >> 26).sum()) << 26) + int((halves & (2**26 - 1)).sum())


def is_traced(tree: object) -> bool:
    """Whether any leaf of a pytree is a value that a jax transformation follows."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def _reject_tracer(name: str, value: object) -> None:
    if is_traced(value):
        raise TypeError(
            f"{name} must be a concrete number, got a traced value ({value}). A spec is built on "
            "the host: build it outside jit and pass its params (spec.build()) into the function; "
            "for a grid of epsilons, jax.vmap over jaxdp.stack(specs)."
        )


def check_real(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_ends: bool = True,
) -> float:
    """Returns `value` as a float, or raises unless it is a finite real number in the range."""
    _reject_tracer(name, value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        # An array without axes, such as a sum, counts as a number.
        array: Any = value if isinstance(value, (np.ndarray, jax.Array)) else np.array(None)
        real = jnp.issubdtype(array.dtype, jnp.number) and np.isrealobj(array)
        if array.ndim or not real:
            raise TypeError(f"{name} must be a real number, got {value!r}.")
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]
    except OverflowError:
        raise ValueError(f"{name} must be a number that float64 can hold, got more.") from None
    inside = low < number < high if open_ends else low <= number <= high
    if not (math.isfinite(number) and inside):
        left, right = ("(", ")") if open_ends else ("[", "]")
        raise ValueError(
            f"{name} must be a finite number in {left}{low:g}, {high:g}{right}, got {value!r}."
        )
    return number


def check_epsilon(value: object, name: str = "epsilon") -> float:
    """Returns a privacy parameter as a float, or raises unless it is finite and positive."""
    _reject_tracer(name, value)
    number = check_real(name, value)
    if number <= 0:
        raise ValueError(
            f"{name} must be a finite number > 0, got {value!r}; local differential privacy has "
            "no mechanism at 0 that says anything about its input."
        )
    return number


def check_int(name: str, value: object, *, low: int, high: int | None = None) -> int:
    """Returns `value` as an int, or raises unless it is an integer in [low, high]."""
    _reject_tracer(name, value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    number = int(value)
    if number < low or number > (_LARGEST_INT if high is None else high):
        span = f">= {low}" if number < low else "below 2**63"
        span = span if high is None else f"in [{low}, {high}]"
        # Python refuses to print integers of thousands of digits.
        got = str(number) if abs(number) < 2**1000 else f"one of {number.bit_length()} bits"
        raise ValueError(f"{name} must be an integer {span}, got {got}.")
    return number


def check_choice(name: str, value: T, choices: tuple[object, ...]) -> T:
    """Returns `value`, or raises unless it is one of `choices`."""
    try:
        hash(value)  # arrays, which have no single truth, are not
        known = value in choices
    except (TypeError, ValueError):
        known = False
    if not known:
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}.")
    return value


def check_items(name: str, value: object, wanted: str) -> tuple[Any, ...]:
    """Returns the items of a sequence, or raises unless `value` can be gone through.

    Args:
      name: the argument's name in messages.
      value: a sequence.
      wanted: what the message asks for, such as "a sequence of specs".
    """
    try:
        return tuple(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise TypeError(f"{name} must be {wanted}, got {value!r}.") from None


def check_bool(name: str, value: object) -> bool:
    """Returns `value` as a bool, or raises unless it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_counts(value: ArrayLike, name: str = "counts") -> np.ndarray:
    """Returns a histogram as int64, or raises unless it is non-negative, integral and not empty.

    Args:
      value: numbers of users, any shape; floats are accepted when they are whole numbers.
      name: the argument's name in messages.

    Returns:
      int64 array of the same shape with 1 <= sum <= 2**53.
    """
    _reject_tracer(name, value)
    array = as_array(name, value)
    if array.dtype == bool or not (
        np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    ):
        raise TypeError(f"{name} must be an array of whole numbers, got dtype {array.dtype}.")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty.")
    if np.issubdtype(array.dtype, np.floating):
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be finite, got NaN or inf.")
        if np.any(array != np.floor(array)):
            bad = array[array != np.floor(array)].ravel()[0]
            raise ValueError(
                f"{name} must be whole numbers of users, got {bad!r}; for probabilities use "
                "Population.from_distribution."
            )
    if np.any(array < 0):
        raise ValueError(f"{name} must be >= 0, got {array.min()}.")
    if array.max() > MAX_USERS:
        raise ValueError(f"{name} must sum to at most 2**53 users, got a count of {array.max()}.")
    total = exact_sum(array)
    if total < 1:
        raise ValueError(f"{name} must hold at least one user, got a sum of {total}.")
    if total > MAX_USERS:
        raise ValueError(f"{name} must sum to at most 2**53 users, got {total}.")
    return array.astype(np.int64)


def check_probabilities(value: ArrayLike, name: str = "probabilities") -> np.ndarray:
    """Returns weights as probabilities, float64[k] of sum 1, or raises unless they are weights.

    Args:
      value: finite numbers >= 0, not all 0, any shape.
      name: the argument's name in messages.
    """
    weights = as_float64(name, value).ravel()
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0) and np.any(weights)):
        raise ValueError(f"{name} must be finite, >= 0 and not all 0, got {value!r}.")
    # By a power of 2, which changes no digit, lest sums overflow or quotients of denormals do.
    weights = np.ldexp(weights, -math.frexp(weights.max())[1])
    return weights / weights.sum()


def by_largest_remainders(shares: np.ndarray, total: int) -> np.ndarray:
    """Integers of a sum, nearest to it times the shares, int64[k]; largest remainders round up.

    Args:
      shares: float64[k] of sum 1.
      total: the sum.
    """
    exact = shares * total
    rounded = np.floor(exact).astype(np.int64)
    # The most negative differences are the largest remainders; stable, so that equal shares are
    # rounded up in their order on every platform.
    order = np.argsort(rounded - exact, kind="stable")
    rounded[order[: total - int(rounded.sum())]] += 1
    return rounded


def check_key(key: object, name: str = "key") -> jax.Array:
    """Returns `key`, or raises unless it is one typed threefry2x32 key."""
    if not isinstance(key, jax.Array):
        raise TypeError(f"{name} must be a jax key made by jax.random.key(seed), got {key!r}.")
    if not jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise TypeError(
            f"{name} must be a typed key made by jax.random.key(seed), got an array of dtype "
            f"{key.dtype} and shape {key.shape}; wrap a legacy key with jax.random.wrap_key_data."
        )
    if str(jax.random.key_impl(key)) != "threefry2x32":
        raise TypeError(
            f"{name} must be a threefry2x32 key, got {jax.random.key_impl(key)}; jaxdp's words are "
            "threefry words: use jax.random.key(seed, impl='threefry2x32')."
        )
    if key.shape != ():
        raise ValueError(
            f"{name} must be one key of shape (), got shape {key.shape}; use jax.vmap over keys."
        )
    return key


def within_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Lets a formula refuse arguments, by name, for which it leaves the range of float64.

    Each argument may be in its range, and the formula not: 1 / epsilon**2 for epsilon = 1e-200.
    """

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            answer = function(*args, **kwargs)
            if not (isinstance(answer, float) and math.isnan(answer)):
                return answer
        except (OverflowError, ZeroDivisionError):
            pass
        given = inspect.signature(function).bind(*args, **kwargs).arguments
        said = [f"{k} = {v!r}" if np.ndim(v) == 0 else f"this {k}" for k, v in given.items()]
        raise ValueError(
            f"{function.__name__} is beyond the range of float64 for {', '.join(said)}; take "
            "less extreme numbers."
        )

    return checked
