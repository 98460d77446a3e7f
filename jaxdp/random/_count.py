"""Exact 64-bit integers in a 32-bit program."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._bits import mul_32x32
from .._spec import as_array
from .._x64 import one_program

Index = int | slice | EllipsisType | jax.Array | np.ndarray | None
T = TypeVar("T")  # a tally: a pytree of Counts

_LOW = 0xFFFFFFFF


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Count:
    """An array of signed 64-bit integers, as two 32-bit limbs; a pytree.

    The value is `hi * 2**32 + lo`. Sums are exact, and wrap at 2**63 only. jax has no 64-bit
    integers unless x64 is on, float32 counters stall at 2**24 and int32 wraps at 2**31: whatever
    jaxdp counts or indexes is a `Count`.

    Attributes:
      hi: int32[...], the upper half.
      lo: uint32[...], the lower half, of the same shape.

    Example:
      >>> total = Count.of(2**40) + Count.of([1, -1])
      >>> total.numpy().tolist()
      [1099511627777, 1099511627775]
    """

    hi: jax.Array
    lo: jax.Array

    @classmethod
    def of(cls, value: "ArrayLike | Count", name: str = "value") -> "Count":
        """A Count of a Python int, an int32 or uint32 array, a NumPy integer array, or a Count.

        Args:
          value: the integers.
          name: what messages call them.
        """
        if isinstance(value, Count):
            return cls(value.hi, value.lo)
        if isinstance(value, jax.Array):
            if value.dtype == jnp.uint32:
                return cls(jnp.zeros(value.shape, jnp.int32), value)
            if value.dtype != jnp.int32:
                raise TypeError(f"{name} must be int32 or uint32, got {value.dtype}.")
            return _widened(value)
        array = as_array(name, value)
        if not np.issubdtype(array.dtype, np.integer):
            raise TypeError(f"{name} must be integers, got dtype {array.dtype}.")
        if array.size and array.max() >= 2**63:
            raise ValueError(f"{name} must be below 2**63, got {array.max()}: a Count would wrap.")
        array = array.astype(np.int64)
        # Without the dtypes jax would compile a program for each shape, which does nothing.
        return cls(
            jnp.asarray((array >> 32).astype(np.int32), np.int32),
            jnp.asarray((array & _LOW).astype(np.uint32), np.uint32),
        )

    @classmethod
    def zeros(cls, shape: tuple[int, ...] = ()) -> Self:
        """An all-zero Count."""
        return cls(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.uint32))

    @classmethod
    def from_float(cls, value: jax.Array) -> "Count":
        """A Count of whole-number floats; float32 below 2**63, float64 inside an x64 block."""
        return _from_float(value)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of both limbs."""
        return self.lo.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.lo.ndim

    def __add__(self, other: "ArrayLike | Count") -> "Count":
        return _add(self, Count.of(other))

    def __neg__(self) -> "Count":
        return _negative(self)

    def __sub__(self, other: "ArrayLike | Count") -> "Count":
        return _difference(self, Count.of(other))

    def __lt__(self, other: "ArrayLike | Count") -> jax.Array:
        return _less(self, Count.of(other))

    def __ge__(self, other: "ArrayLike | Count") -> jax.Array:
        return ~(self < other)

    def __iter__(self) -> Iterator["Count"]:
        # Without this, Python asks for items beyond the last, which jax clamps, without an end.
        if not self.ndim:
            raise TypeError("a Count of one number cannot be iterated over.")
        return (self[i] for i in range(self.shape[0]))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> "Count":
        return jax.tree.map(lambda limb: limb[index], self)

    def __rshift__(self, bits: int) -> "Count":
        """The quotient by 2**bits, rounded down; 0 < bits < 32, static."""
        up = self.hi.astype(jnp.uint32) << np.uint32(32 - bits)
        return Count(self.hi >> np.int32(bits), (self.lo >> np.uint32(bits)) | up)

    def times(self, factor: ArrayLike) -> "Count":
        """The product with a uint32 array or an int in [0, 2**32), modulo 2**64."""
        return _times(self, jnp.asarray(factor, jnp.uint32))

    def reshape(self, *shape: int | tuple[int, ...]) -> "Count":
        """The same numbers in another shape."""
        return jax.tree.map(lambda limb: limb.reshape(*shape), self)

    def sum(self, axis: int | tuple[int, ...] | None = None) -> "Count":
        """The exact sum over an axis, over several, or over all of them."""
        if axis is None:
            return self.reshape(-1).sum(0)
        if isinstance(axis, tuple):
            total: Count = self
            for a in sorted((a % self.ndim for a in axis), reverse=True):
                total = total.sum(a)
            return total
        return _sum(self, axis)

    def summed(self, add: Callable[[jax.Array], jax.Array], terms: int = 2**16) -> "Count":
        """The exact sum over up to `terms` terms, by a function that sums uint32, as psum does."""
        bits = min(32 - (terms - 1).bit_length(), 16)
        return _from_limbs([add(limb) for limb in _limbs(self, bits)], bits)

    def segment_sum(self, segments: jax.Array, num_segments: int) -> "Count":
        """The exact sum over the first axis of the entries of each segment, in any order.

        Integers are added: on a GPU, where a scatter adds in whatever order its threads run,
        floats would give other bits each time.

        Args:
          segments: int32[n]; entries outside of [0, num_segments) are dropped, but negative ones
            count from the end.
          num_segments: static.
        """
        return _segment_sum(self, segments, num_segments)

    def f64(self) -> jax.Array:
        """The value as float64, exact up to 2**53; only inside `jax.enable_x64(True)`."""
        return _f64(self)

    def f32(self) -> jax.Array:
        """The value rounded to float32."""
        return _f32(self)

    def numpy(self) -> np.ndarray:
        """The value as a NumPy int64 array."""
        return (np.asarray(self.hi).astype(np.int64) << 32) + np.asarray(self.lo).astype(np.int64)

    def __int__(self) -> int:
        return int(self.numpy())


@one_program
def _widened(value: jax.Array) -> Count:
    return Count(value >> 31, value.astype(jnp.uint32))


@one_program
def _from_float(value: jax.Array) -> Count:
    # By the magnitude: no uint32 stands for a negative float.
    scale = jnp.array(2.0**32, value.dtype)
    magnitude = jnp.abs(value)
    high = jnp.floor(magnitude / scale)
    low = magnitude - high * scale
    positive = Count(high.astype(jnp.int32), low.astype(jnp.uint32))
    negative = -positive
    return Count(
        jnp.where(value < 0, negative.hi, positive.hi),
        jnp.where(value < 0, negative.lo, positive.lo),
    )


@one_program
def _add(a: Count, b: Count) -> Count:
    # The lower halves wrapped where their sum is smaller than a term.
    lo = a.lo + b.lo
    return Count(a.hi + b.hi + (lo < a.lo).astype(jnp.int32), lo)


@one_program
def _negative(a: Count) -> Count:
    return Count(~a.hi, ~a.lo) + Count.of(np.int64(1))


@one_program
def _difference(a: Count, b: Count) -> Count:
    return a + (-b)


@one_program
def _less(a: Count, b: Count) -> jax.Array:
    return (a.hi < b.hi) | ((a.hi == b.hi) & (a.lo < b.lo))


@one_program
def _times(a: Count, factor: jax.Array) -> Count:
    # The upper half may wrap: the product is taken modulo 2**64.
    high, lo = mul_32x32(a.lo, factor)
    hi = a.hi.astype(jnp.uint32) * factor + high
    return Count(hi.astype(jnp.int32), lo)


@functools.partial(one_program, static_argnums=1)
def _sum(a: Count, axis: int) -> Count:
    return a.summed(lambda limb: limb.sum(axis, dtype=jnp.uint32), a.shape[axis])


@functools.partial(one_program, static_argnums=2)
def _segment_sum(a: Count, segments: jax.Array, num_segments: int) -> Count:
    return a.summed(lambda x: jax.ops.segment_sum(x, segments, num_segments), a.shape[0])


@one_program
def _f64(a: Count) -> jax.Array:
    return a.hi.astype(jnp.float64) * 4294967296.0 + a.lo.astype(jnp.float64)


@one_program
def _f32(a: Count) -> jax.Array:
    low = a.lo.astype(jnp.int32)  # to the nearest multiple of 2**32: nothing cancels
    high = a.hi - (low >> 31)
    return high.astype(jnp.float32) * np.float32(2.0**32) + low.astype(jnp.float32)


def _limbs(count: Count, bits: int) -> list[jax.Array]:
    """The lower half in pieces of some bits, which add up without wrapping, and the upper half."""
    shifts = (np.uint32(shift) for shift in range(0, 32, bits))
    mask = np.uint32(2**bits - 1)
    return [*((count.lo >> shift) & mask for shift in shifts), count.hi.astype(jnp.uint32)]


def _from_limbs(limbs: list[jax.Array], bits: int) -> Count:
    """The Count whose summed pieces these are; the inverse of `_limbs` after any sum of them."""
    # The upper half may wrap: the sum is taken modulo 2**64.
    *pieces, high = limbs
    total = Count(high.astype(jnp.int32), pieces[0])
    for number, piece in enumerate(pieces[1:], 1):
        up = np.uint32(bits * number)
        carried = (piece >> (np.uint32(32) - up)).astype(jnp.int32)
        total = total + Count(carried, piece << up)
    return total


def merge(first: T, *others: T) -> T:
    """The tally of the users of all the given tallies, exactly.

    Args:
      first: a pytree whose leaves are Counts.
      *others: pytrees of the same structure.

    Returns:
      The sum, a pytree of the same structure. Merging is associative and commutative, so tallies of
      blocks, devices, processes and files merge in any order.
    """
    total = first
    for other in others:
        total = jax.tree.map(Count.__add__, total, other, is_leaf=lambda x: isinstance(x, Count))
    return total
