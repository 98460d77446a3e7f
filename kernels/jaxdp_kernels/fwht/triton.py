"""`fwht` as one Triton kernel, experimental: a row is read once, transformed on chip, written once.

A row of length K is a matrix X of A x B entries, and its transform is `H_A X H_B`. XLA's version
goes through the memory once for the inner bits and once for every two bits above.

It lowers for CUDA and equals the definition in interpret mode. It has not been timed on a GPU, so
`implementation=None` does not choose it. jax 0.11 and later warn that the backend will be removed;
its successor, Mosaic GPU, has no interpret mode in jax 0.10, so that a kernel could not be checked
there without a GPU.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from .xla import hadamard

MIN_LENGTH, MAX_LENGTH = 2**8, 2**12  # sides from 16, the least of a matrix unit, to 64


def fwht_triton(x: jax.Array, interpret: bool = False) -> jax.Array:
    """The unnormalised Walsh-Hadamard transform of the last axis; see `fwht`.

    Args:
      x: float32[..., K], K a power of two from 2**8 to 2**12.
      interpret: whether to run on the CPU, step by step, for tests.

    Returns:
      float32[..., K].
    """
    length = x.shape[-1]
    if x.dtype != jnp.float32 or not MIN_LENGTH <= length <= MAX_LENGTH:
        raise ValueError(
            f"implementation='triton' needs float32 and a length in [2**8, 2**12], got "
            f"{x.dtype}{list(x.shape)}; use implementation=None."
        )
    rows: jax.Array = _transform(x.reshape(x.size // length, length), interpret)
    return rows.reshape(x.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _transform(rows: jax.Array, interpret: bool) -> jax.Array:
    bits = rows.shape[1].bit_length() - 1
    high, low = 2 ** (bits // 2), 2 ** (bits - bits // 2)
    matrices = [jnp.asarray(hadamard(n.bit_length() - 1), rows.dtype) for n in (high, low)]
    row = pl.BlockSpec((1, high, low), lambda i: (i, 0, 0))
    whole = [pl.BlockSpec(m.shape, lambda i: (0, 0)) for m in matrices]
    kernel = pl.pallas_call(
        _kernel,
        out_shape=jax.ShapeDtypeStruct((rows.shape[0], high, low), rows.dtype),
        grid=(rows.shape[0],),
        in_specs=[row, *whole],
        out_specs=row,
        compiler_params=plt.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
    )
    return kernel(rows.reshape(rows.shape[0], high, low), *matrices).reshape(rows.shape)


def _kernel(x_ref, high_ref, low_ref, y_ref):
    dot = functools.partial(jnp.dot, precision=lax.Precision.HIGHEST)
    y_ref[0] = dot(dot(high_ref[...], x_ref[0]), low_ref[...])


def _forward(rows, interpret):
    return _transform(rows, interpret), None


def _backward(interpret, _, cotangent):
    return (_transform(cotangent, interpret),)  # the matrix is symmetric


_transform.defvjp(_forward, _backward)
