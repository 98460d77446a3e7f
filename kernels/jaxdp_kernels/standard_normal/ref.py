"""The definition of `standard_normal`, in plain JAX."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# R(w) = P(w) / Q(w), lowest power first: the rational function of this degree for which
# x R(-log(1 - x^2)) is nearest to sqrt(2) erfinv(x) in relative error, for 0 < 1 - |x| <= 2^-32
# and everything above. All coefficients are positive and w >= 0, so nothing cancels.
_P = (1.25331426, 0.452393144, 0.0898297057, 0.0118749328, 0.000999407028, 2.92884979e-05)
_Q = (1.0, 0.0991608873, 0.0326706581, 0.00227979454, 0.000169785621, 1.00842271e-06)


def standard_normal_ref(words: jax.Array) -> jax.Array:
    """Standard normals, one a word; see `standard_normal`."""
    sign = lax.bitcast_convert_type(words, jnp.int32) >> np.int32(31)  # -1 for the upper half
    tail = lax.bitcast_convert_type(words, jnp.int32) ^ sign  # words from the nearer end
    middle = tail ^ np.int32(2**31 - 1)  # words from the middle; both are exact integers
    p = (tail.astype(jnp.float32) + np.float32(0.5)) * np.float32(2**-32)
    x = (middle.astype(jnp.float32) + np.float32(0.5)) * np.float32(2**-31)
    w = -jnp.log(np.float32(4) * p * (np.float32(1) - p))
    z = x * (polynomial(_P, w) / polynomial(_Q, w))
    return jnp.where(sign < 0, z, -z)


def polynomial(coefficients: tuple[float, ...], w: jax.Array) -> jax.Array:
    """A polynomial of w, in float32, of given coefficients, lowest power first."""
    total = jnp.full_like(w, np.float32(coefficients[-1]))
    for coefficient in coefficients[-2::-1]:
        total = total * w + np.float32(coefficient)
    return total
