"""Logarithms of binomial and hypergeometric probabilities without cancellation.

With z = k + 1/2 and M = (n + 1) p, Stirling's series at half-integers gives

    log Binomial(n, p)(k) = const - D(z, M) - D(n + 1 - z, n + 1 - M) - c(k) - c(n - k),
    D(z, M) = z log(z / M) - z + M >= 0,
    c(x) = log x! - (x + 1/2) log(x + 1/2) + (x + 1/2) - log(2 pi) / 2,

where D is evaluated from z - M by a series that does not cancel and c is below 1/24 and smooth. No
term is singular at k = 0 or k = n. A difference of `log_gamma` instead is off by 1e-3 at n = 1e12.

References:
  Loader (2000), Fast and accurate computation of binomial probabilities.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

_NEAR = 0.1  # |z - M| / (z + M) up to which the series is summed
_NUM_TERMS = 8  # the first one left out is below 1e-17 of the sum
_TABLE = np.array(
    [
        math.lgamma(x + 1) - (x + 0.5) * (math.log(x + 0.5) - 1) - math.log(2 * math.pi) / 2
        for x in range(16)
    ]
)


def near_deviance(gap: jax.Array, mean: jax.Array) -> jax.Array:
    """D(mean + gap, mean) for |gap| <= 0.2 mean; a relative error of 1e-15."""
    v = gap / (2 * mean + gap)
    square = v * v
    series = jnp.zeros_like(v)
    for j in range(_NUM_TERMS, 0, -1):  # artanh(v) / v - 1
        series = square * (series + 1 / (2 * j + 1))
    return gap * v + 2 * (mean + gap) * v * series


def deviance(gap: jax.Array, mean: jax.Array) -> jax.Array:
    """D(mean + gap, mean) = (mean + gap) log(1 + gap / mean) - gap, to a relative 1e-14."""
    z = mean + gap
    near = jnp.abs(gap) <= _NEAR * (z + mean)
    series = near_deviance(jnp.where(near, gap, 0.0), mean)
    return jnp.where(near, series, z * jnp.log(jnp.where(near, 1.0, z / mean)) - gap)


def correction(x: jax.Array) -> jax.Array:
    """c(x), the rest of Stirling's series for log x! around x + 1/2, to 1e-14.

    Args:
      x: float64[...], whole numbers >= 0.
    """
    z = jnp.maximum(x, 16.0) + 0.5
    r = 1 / (z * z)
    tail = (-1 / 24 + r * (7 / 2880 + r * (-31 / 40320 + r * (127 / 430080)))) / z
    index = jnp.minimum(x, 15.0).astype(jnp.int32)
    return jnp.where(x < 16, jnp.take(jnp.asarray(_TABLE), index, mode="clip"), tail)
