"""Exact draws of Binomial(n, 1/2), ten times cheaper than of a general binomial."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, UInt32

from jaxdp_kernels.threefry_words.ref import threefry2x32

from .._x64 import places_of
from ..random._log_pmf import correction, deviance
from ..random._rejection import uniforms, until_accepted

COUNT_BELOW = 65.0
"""Up to 64 coins are random bits that are counted; more of them are a rounded normal."""

_OPEN = -1.0  # marks a lane that has no draw yet
_SETTLED = 128  # open lanes that are served at a time: a chunk of 4,096 has 63 where n = 65

_NODES, _WEIGHTS = (x / 2 for x in np.polynomial.legendre.leggauss(10))


def halve(key: jax.Array, n: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Binomial(n, 1/2) draws, inside a float64 block.

    Up to n = 64 a draw counts random bits. Above, it is a normal of mean n/2 and variance
    `n/4 - 1/12`, rounded, which is accepted with probability R / M: R is the ratio of the two
    probability functions, and `M = 1 + 1 / (2n) + 1 / n**2` bounds it. By the expansion
    `R = 1 - (z**4 - 6 z**2 + 3) / (12 n) + O(n**-2)` that fails once in 2n draws, and whether it
    may fail is seen from z alone. The exact test is made only in the rare chunk that needs it.

    *Formal guarantees.* As for `jaxdp.random.binomial`: exact in law up to float64, with normals
    from uniforms of 53 bits. A draw depends on its n and flat index only.

    Args:
      key: a key; it is turned into words.
      n: whole numbers in [0, 2**53].
    """
    data, size = jax.random.key_data(key), n.size
    # Lanes that wait for a neighbour are few where chunks are small; a GPU wants them large.
    chunk = min(size, 2**12 if jax.default_backend() == "cpu" else 2**22)
    rows = -(-size // chunk)
    index = jnp.arange(rows * chunk, dtype=jnp.uint32).reshape(rows, chunk)
    padded = jnp.pad(n.ravel(), (0, rows * chunk - size)).reshape(rows, chunk)
    draws = lax.map(lambda lanes: _draw(data, *lanes), (index, padded))
    return draws.ravel()[:size].reshape(n.shape)


def _draw(
    key: UInt32[Array, "2"], index: UInt32[Array, " c"], n: Float[Array, " c"]
) -> Float[Array, " c"]:
    """The draws of one chunk."""
    few = n < COUNT_BELOW
    # A lane reads its first block either as coins or as a uniform.
    high, low = threefry2x32((key[0], key[1]), (jnp.zeros_like(index), index))
    coins = _count_coins(high, low, jnp.where(few, n, 0.0))
    large = jnp.where(few, COUNT_BELOW, n)
    u, v = uniforms(key, index, np.uint32(0))
    offset, z2 = _propose(u, large)
    # 1 - R / M is below ((z**2 - 3)**2 / 12 + 2 / n) / n.
    certain = v * large >= (z2 - 3) ** 2 / 12 + 2 / large
    draw = jnp.where(certain, jnp.floor(large / 2) + offset, _OPEN)

    def settle(draw):
        """Makes the exact test for some of the open lanes, which are few."""
        size, most = index.size, min(index.size, _SETTLED)
        lanes = places_of(draw == _OPEN, most)
        number, at = large.at[lanes].get(mode="clip"), index.at[lanes].get(mode="clip")
        settled = until_accepted(
            key, at, lambda u, v: _attempt(u, v, number), jnp.zeros_like(number), lanes == size
        )
        return draw.at[lanes].set(settled, mode="drop")

    return lax.while_loop(lambda x: jnp.any(x == _OPEN), settle, jnp.where(few, coins, draw))


def _count_coins(
    high: UInt32[Array, " c"], low: UInt32[Array, " c"], n: Float[Array, " c"]
) -> Float[Array, " c"]:
    """The ones among the first n of 64 bits, n <= 64."""
    count = n.astype(jnp.uint32)

    def ones(word, used):
        # A shift by 32 is not defined, so no bits at all are a case of their own.
        mask = jnp.where(used == 0, np.uint32(0), np.uint32(0xFFFFFFFF) >> (np.uint32(32) - used))
        return lax.population_count(word & mask)

    first = jnp.minimum(count, np.uint32(32))
    return (ones(high, first) + ones(low, count - first)).astype(jnp.float64)


def _propose(
    u: Float[Array, " c"], n: Float[Array, " c"]
) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """A rounded normal, as the offset from floor(n/2), and the square of its z."""
    # Both 2u - 1 and its half step are multiples of 2**-53: the sum is exact and never 1 or -1.
    normal = np.sqrt(2.0) * lax.erf_inv((2 * u - 1) + 2.0**-53)
    # Rounding to whole numbers adds about 1/12, which makes n/4 again.
    variance = n / 4 - 1 / 12
    fraction = n / 2 - jnp.floor(n / 2)
    offset = jnp.floor(jnp.sqrt(variance) * normal + (fraction + 0.5))
    return offset, (offset - fraction) ** 2 / variance


def _attempt(
    u: Float[Array, " c"], v: Float[Array, " c"], n: Float[Array, " c"]
) -> tuple[Float[Array, " c"], Bool[Array, " c"]]:
    """(proposal, accept) with the exact condition `v <= R / M`."""
    offset, _ = _propose(u, n)
    draw = jnp.floor(n / 2) + offset
    inside = (draw >= 0) & (draw <= n)
    log_ratio = _log_ratio(jnp.where(inside, draw, 0.0), n)
    log_bound = jnp.log1p((0.5 + 1 / n) / n)
    return draw, inside & (jnp.log(1 - v) <= log_ratio - log_bound)


def _log_ratio(draw: Float[Array, " c"], n: Float[Array, " c"]) -> Float[Array, " c"]:
    """The logarithm of R, the probability of a draw over the rounded normal's."""
    variance = n / 4 - 1 / 12
    gap = draw - n / 2
    # The binomial's, as in `jaxdp.random._log_pmf` with z = draw + 1/2 and M = (n + 1) / 2.
    log_pmf = (
        (n + 0.5) * jnp.log1p(-0.5 / (n + 1))
        - 0.5 * jnp.log((n + 1) / (4 * variance))
        + 0.5
        + correction(n)
        - deviance(gap, (n + 1) / 2)
        - deviance(-gap, (n + 1) / 2)
        - correction(draw)
        - correction(n - draw)
    )
    # The mean of the normal's density over |t| < 1/2 around the gap, by its value there.
    nodes = jnp.asarray(_NODES)[None]
    density = jnp.exp(-nodes * (gap[:, None] + nodes / 2) / variance[:, None])
    cell = jnp.sum(density * jnp.asarray(_WEIGHTS)[None], axis=1)
    return log_pmf + gap * gap / (2 * variance) - jnp.log(cell)
