"""Float64 transforms that stay float64 under a caller's vmap."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxdp_kernels.fwht import fwht


def along_last_axis(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """A function of float64 arrays [..., K] that is batched inside a float64 block.

    jax batches what is inside a jit when the caller's vmap reaches it, after the block has ended:
    there the rules of FFTs and of matrix products would round to float32.

    Args:
      function: maps arrays of one shape [..., K], each row on its own.
    """
    batched = jax.custom_batching.custom_vmap(function)

    @batched.def_vmap
    def rule(axis_size, in_batched, *arrays):
        with jax.enable_x64(True):
            wide = [
                x if has_axis else jnp.broadcast_to(x[None], (axis_size, *x.shape))
                for x, has_axis in zip(arrays, in_batched, strict=True)
            ]
            return batched(*wide), True

    return batched


@along_last_axis
def walsh_hadamard(x: jax.Array) -> jax.Array:
    """The unnormalised Walsh-Hadamard transform of the last axis of a float64 array."""
    return fwht(x)


@along_last_axis
def correlate(numbers: jax.Array, weights: jax.Array) -> jax.Array:
    """`sum over y of weights[(y + v) mod K] numbers[y]` for each v, over the last axis."""
    product = jnp.fft.rfft(weights) * jnp.conj(jnp.fft.rfft(numbers))
    return jnp.fft.irfft(product, numbers.shape[-1])
