"""The definition of `threefry_words`, in plain JAX.

The twenty rounds are written out, so XLA fuses them into whatever consumes the words. On CPU that
is several times faster than `jax.random.bits`, whose lowering there is a rolled loop; on GPU the
two compile to the same code.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def threefry2x32(
    key: tuple[jax.Array, jax.Array], counter: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """The threefry2x32 block function with 20 rounds.

    Args:
      key: two uint32 arrays.
      counter: two uint32 arrays; all four broadcast together.

    Returns:
      Two uint32 arrays: the block's two output words.

    References:
      Salmon, Moraes, Dror, Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x0 = counter[0] + schedule[0]
    x1 = counter[1] + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def threefry_words_ref(key_data: jax.Array, start: jax.Array, num_words: int) -> jax.Array:
    """Words `start, start + 1, ...` of the stream of a key; see `threefry_words`."""
    offset = lax.iota(jnp.uint32, num_words)
    low = start[1] + offset
    high = start[0] + (low < offset).astype(jnp.uint32)
    x0, x1 = threefry2x32((key_data[0], key_data[1]), (high, low))
    return x0 ^ x1
