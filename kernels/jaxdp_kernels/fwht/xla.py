"""`fwht` on any platform: a small Hadamard matrix on the inner bits, radix-4 butterflies above."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# Largest power of two for the matrix: one product costs less than the butterflies that it replaces
# up to 64; from 128 on it costs more.
_MATRIX_BITS = 6


def hadamard(bits: int) -> np.ndarray:
    """The Hadamard matrix of order 2**bits, entry `(-1)**popcount(i & j)`, int64."""
    index = np.arange(2**bits)
    return 1 - 2 * (np.bitwise_count(index[:, None] & index).astype(np.int64) % 2)


def fwht_xla(x: jax.Array) -> jax.Array:
    """The unnormalised Walsh-Hadamard transform of the last axis; see `fwht`."""
    shape, length = x.shape, x.shape[-1]
    inner = 1
    if jnp.issubdtype(x.dtype, jnp.floating):  # products of integer matrices are not blocked
        inner = min(length, 2**_MATRIX_BITS)
        matrix = hadamard(inner.bit_length() - 1).astype(x.dtype)
        # Without a preferred type: batched after a float64 block has ended, that would be float32.
        x = lax.dot_general(
            x.reshape(x.size // inner, inner),
            matrix,
            (((1,), (0,)), ((), ())),
            precision=lax.Precision.HIGHEST,
        )
    while inner < length:
        radix = min(4, length // inner)
        x = _butterfly(x.reshape(x.size // (radix * inner), radix, inner))
        inner *= radix
    return x.reshape(shape)


def _butterfly(x: jax.Array) -> jax.Array:
    """The transform of the middle axis, of length 2 or 4, in one pass over the memory."""
    if x.shape[1] == 2:
        return jnp.stack([x[:, 0] + x[:, 1], x[:, 0] - x[:, 1]], axis=1)
    a, b = x[:, 0] + x[:, 1], x[:, 0] - x[:, 1]
    c, d = x[:, 2] + x[:, 3], x[:, 2] - x[:, 3]
    return jnp.stack([a + c, b + d, a - c, b - d], axis=1)
