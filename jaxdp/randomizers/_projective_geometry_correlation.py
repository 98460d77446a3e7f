"""Cyclic correlation that stays float64 under a caller's vmap."""

import jax
import jax.numpy as jnp


@jax.custom_batching.custom_vmap
def correlate(numbers: jax.Array, weights: jax.Array) -> jax.Array:
    """`sum over y of weights[(y + v) mod K] numbers[y]` for each v, over the last axis.

    jax batches what is inside a jit when the caller's vmap reaches it, after the float64 block has
    ended: there the rule of FFTs would round to float32. So this has a rule of its own.

    Args:
      numbers: float64[..., K].
      weights: float64[..., K], of the same shape.

    Returns:
      float64[..., K].
    """
    product = jnp.fft.rfft(weights) * jnp.conj(jnp.fft.rfft(numbers))
    return jnp.fft.irfft(product, numbers.shape[-1])


@correlate.def_vmap
def _correlate_batch(axis_size, in_batched, *arrays):
    with jax.enable_x64(True):
        wide = [
            x if has_axis else jnp.broadcast_to(x[None], (axis_size, *x.shape))
            for x, has_axis in zip(arrays, in_batched, strict=True)
        ]
        return correlate(*wide), True
