"""The definition of `fwht`, in plain JAX: one butterfly a bit."""

import jax
import jax.numpy as jnp


def fwht_ref(x: jax.Array) -> jax.Array:
    """The unnormalised Walsh-Hadamard transform of the last axis; see `fwht`."""
    length = x.shape[-1]
    half = 1
    while half < length:
        pairs = x.reshape(*x.shape[:-1], length // (2 * half), 2, half)
        even, odd = pairs[..., 0, :], pairs[..., 1, :]
        x = jnp.stack([even + odd, even - odd], axis=-2).reshape(x.shape)
        half *= 2
    return x
