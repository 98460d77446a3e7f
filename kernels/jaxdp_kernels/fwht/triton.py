"""`fwht` as Triton kernels: an array is read once, transformed on chip, and written once.

A row of length K is a matrix X of A x B entries, and its transform is `H_A X H_B`, two products on
matrix units. A float32 is the sum of three bfloat16 numbers and the entries of H are 1 and -1, so
three products of bfloat16 numbers that are added in float32 are as good as one of float32. Up to
2^12 entries, a tile of them stays in a block's registers, with tiles to spare for a multiprocessor
to wait for memory. Longer rows take more kernels: one for the lower bits of the index, and one for
each four to eight bits above, whose tiles are some neighbouring columns.

jax 0.11 and later warn that this backend of Pallas will be removed; its successor, Mosaic GPU, has
no interpret mode in jax 0.10, so that a kernel could not be checked there without a GPU.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from .xla import hadamard

LEAST, MOST = 2**6, 2**24  # the lengths that are served
_INNER = 12  # bits of the index that one kernel transforms
_OUTER = range(4, 9)  # and each of those for the bits above: Triton multiplies sides from 2^4
_SIDE = 2**6  # rows of a tile, of which a warpgroup's unit takes as many at once, and its columns
_TOGETHER = 2**5  # neighbouring columns that are read, at least: 128 bytes


def fwht_triton(x: jax.Array, interpret: bool = False) -> jax.Array:
    """The unnormalised Walsh-Hadamard transform of the last axis; see `fwht`.

    Args:
      x: float32[..., K], K a power of two from 2**6 to 2**24, of 2**10 entries or more.
      interpret: whether to run on the CPU, step by step, for tests.

    Returns:
      float32[..., K].
    """
    if reason := unserved(x.shape, x.dtype):
        raise ValueError(
            f"implementation='triton' needs {reason}, got {x.dtype}{list(x.shape)}; use "
            "implementation=None."
        )
    return _transform(x, interpret)


def unserved(shape: tuple[int, ...], dtype: np.dtype) -> str | None:
    """What the kernels need that arrays of this shape and dtype lack; None if they lack nothing."""
    length = shape[-1]
    if dtype != jnp.float32 or not LEAST <= length <= MOST:
        return "float32 and a length in [2**6, 2**24]"
    if math.prod(shape) >= 2**31:
        return "fewer than 2**31 entries"
    least = _SIDE * 2 ** _OUTER[0]
    if _rows(math.prod(shape[:-1]), length) * length < least:
        return f"rows in a number that {least // length} divides"
    return None


def _rows(number: int, length: int) -> int:
    """How many rows a tile has: a power of two that divides their number."""
    return min(number & -number, max(_SIDE * _SIDE // length, 1))


@dataclasses.dataclass(frozen=True)
class _Tiles:
    """How an array is cut into matrices that are transformed from both sides.

    Attributes:
      view: the array's shape, [batch, rows, high, columns / low, low]; a tile is the matrix
        [rows, high * low] of one index of the axes batch and columns / low.
      left: bits of the index of a row that are transformed, its lowest ones.
      right: bits that are transformed from the right, those of `high`, or of `low` where that is 1.
    """

    view: tuple[int, int, int, int, int]
    left: int
    right: int

    @property
    def matrices(self) -> tuple[np.ndarray, np.ndarray | None]:
        """What a tile is multiplied by from the left, and from the right where that is not I."""
        _, rows, high, _, low = self.view
        left = np.kron(np.eye(rows >> self.left), hadamard(self.left))
        if self.right == 0:
            return left, None
        held = hadamard(self.right)
        return left, np.kron(held, np.eye(low)) if high > 1 else held


def _inner(number: int, length: int) -> _Tiles:
    """The transforms of so many rows, each of them within a tile."""
    rows = _rows(number, length)
    low = min(max(length // _SIDE, _SIDE), length)
    bits = length // low
    view = (number // rows, rows * bits, 1, 1, low)
    return _Tiles(view, bits.bit_length() - 1, low.bit_length() - 1)


def _outer(batch: int, length: int, columns: int) -> _Tiles:
    """The transforms of the columns of `batch` matrices [length, columns]."""
    rows = min(length, _SIDE)
    high = length // rows
    low = max(_SIDE // high, _TOGETHER) if rows == _SIDE else 2 * _SIDE
    view = (batch, rows, high, columns // low, low)
    return _Tiles(view, rows.bit_length() - 1, high.bit_length() - 1)


def _outer_bits(bits: int) -> list[int]:
    """The bits of the index that each kernel after the first transforms, from the lowest up."""
    above = bits - _INNER
    if above <= 0:
        return []
    if above <= _OUTER[-1]:
        return [max(above, _OUTER[0])]
    return [above - above // 2, above // 2]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _transform(x: jax.Array, interpret: bool) -> jax.Array:
    shape, length = x.shape, x.shape[-1]
    outer = _outer_bits(length.bit_length() - 1)
    columns = length >> sum(outer)
    x = _multiplied(x, _inner(x.size // columns, columns), interpret)
    for bits in outer:
        batch = x.size // (columns << bits)
        x = _multiplied(x, _outer(batch, 2**bits, columns), interpret)
        columns <<= bits
    return x.reshape(shape)


def _forward(x, interpret):
    return _transform(x, interpret), None


def _backward(interpret, _, cotangent):
    return (_transform(cotangent, interpret),)  # the matrix is symmetric


_transform.defvjp(_forward, _backward)


def _multiplied(x: jax.Array, tiles: _Tiles, interpret: bool) -> jax.Array:
    """The product of each tile with the matrices of both sides."""
    batch, rows, high, parts, low = tiles.view
    tile = pl.BlockSpec((None, rows, high, None, low), lambda i, j: (i, 0, 0, j, 0))
    matrices = [jnp.asarray(m, jnp.bfloat16) for m in tiles.matrices if m is not None]
    whole = [pl.BlockSpec(m.shape, lambda i, j: (0, 0)) for m in matrices]
    kernel = pl.pallas_call(
        _kernel,
        out_shape=jax.ShapeDtypeStruct(tiles.view, x.dtype),
        grid=(batch, parts),
        in_specs=[tile, *whole],
        out_specs=tile,
        compiler_params=plt.CompilerParams(
            num_warps=8 if rows * high * low > 2**12 else 4, num_stages=1
        ),
        interpret=interpret,
    )
    return kernel(x.reshape(tiles.view), *matrices)


def _kernel(x_ref, left_ref, *refs):
    *right_ref, y_ref = refs
    x = x_ref[...]
    rows, high, low = x.shape
    x = _added(_product(left_ref[...], part) for part in _parts(x.reshape(rows, high * low)))
    for ref in right_ref:
        x = _added(_product(part, ref[...]) for part in _parts(x))
    y_ref[...] = x.reshape(rows, high, low)


_product = functools.partial(jnp.dot, preferred_element_type=jnp.float32)
_added = functools.partial(functools.reduce, jnp.add)


def _parts(x: jax.Array) -> list[jax.Array]:
    """Three bfloat16 arrays whose sum is a float32 one: 24 bits as 8, 8 and 8, the last first."""
    parts = []
    for _ in range(2):
        bits = lax.bitcast_convert_type(x, jnp.uint32) & np.uint32(0xFFFF0000)
        head = lax.bitcast_convert_type(bits, jnp.float32)
        parts.append(head.astype(jnp.bfloat16))
        x = x - head
    return [x.astype(jnp.bfloat16), *reversed(parts)]
