"""The binomial butterfly: exact counts of Hadamard reports, whatever the number of users."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int32

from ..random import Count, binomial, binomials
from ._hadamard_halving import halve

_CHUNK = 2**12


def thin(key: jax.Array, counts: Count, p: Float[Array, ""]) -> Count:
    """Binomial(counts, p) draws, inside a float64 block: `binomial` in small chunks.

    Args:
      key: a key; it is folded.
      counts: Count[k].
      p: the probability.
    """
    return thin_each([(key, counts, p)])[0]


def thin_each(draws: Sequence[tuple[jax.Array, Count, Float[Array, ""]]]) -> list[Count]:
    """`thin` of each (key, counts, p), by one program for those that are one chunk."""
    short = [i for i, (_, counts, _) in enumerate(draws) if counts.shape[0] <= _CHUNK]
    drawn = dict(zip(short, binomials([draws[i] for i in short]), strict=True))
    return [drawn[i] if i in drawn else _thin_long(*one) for i, one in enumerate(draws)]


def _thin_long(key: jax.Array, counts: Count, p: Float[Array, ""]) -> Count:
    size = counts.shape[0]
    # A loop of rejection ends with its slowest lane: in small chunks fewer lanes wait for it.
    rows = -(-size // _CHUNK)
    padded = jnp.pad(counts.f64(), (0, rows * _CHUNK - size)).reshape(rows, _CHUNK)
    number = jnp.arange(rows, dtype=jnp.int32)

    def draw(row):
        index, users = row
        return binomial(jax.random.fold_in(key, index), Count.from_float(users), p)

    return lax.map(draw, (number, padded)).reshape(-1)[:size]


def butterfly(
    key: jax.Array,
    state: Float[Array, "B 2 rows"],
    *,
    forced: bool,
    bits: Int32[Array, ""] | None = None,
) -> Float[Array, "B 2 rows"]:
    """Exact counts of random rows and signs of users with given values, inside a float64 block.

    Each user draws the m bits of a row w, from the top bit down. After t bits, what matters of a
    user are the bits drawn, their parity where the value has a 1, and the lower m - t bits of the
    value. Users that agree in these are exchangeable, so only their number is stored, and each bit
    splits it by a Binomial(n, 1/2): 2 K log2 K draws for K rows, whatever the number of users.

    A state's index is [value's lower bits | bits drawn], with the next bit to be drawn on top, so
    that all levels are one program (a transform of constant geometry).

    Args:
      key: a key; it is folded.
      state: the users of each block by sign and value, 2**m of them: w is uniform, and at the end
        the sign is `<w, value>` (mod 2) plus the sign they began with.
      forced: whether w is uniform over the rows with `<w, value> = sign` instead: then the last bit
        where the value has a 1 is set to what the sign needs. Value 0 must have sign 0.
      bits: how many bits of a row are drawn, from the top, where the values' other bits are 0; None
        for all. They are the lowest ones of the row that is returned.

    Returns:
      The users by final sign and row. All signs are 0 where `forced`.
    """
    blocks, _, size = state.shape
    half = size // 2
    rest = jnp.arange(half, dtype=jnp.int32)

    def level(t, state):
        users = state.reshape(blocks, 2, 2, half)  # block, sign, the value's bit, the rest
        zero = halve(jax.random.fold_in(key, t), users)
        if forced:
            last = ((rest >> t) == 0)[None, None]  # the value has no 1 below this bit
            needed = users[:, :, 1] * jnp.array([1.0, 0.0])[None, :, None]
            zero = zero.at[:, :, 1].set(jnp.where(last, needed, zero[:, :, 1]))
        one = users - zero
        # The drawn bit becomes the lowest of the index; a 1 on a 1 of the value flips the sign.
        zeros = zero[:, :, 0] + zero[:, :, 1]
        ones = one[:, :, 0] + one[:, ::-1, 1]
        return jnp.stack([zeros, ones], axis=-1).reshape(state.shape)

    return lax.fori_loop(0, size.bit_length() - 1 if bits is None else bits, level, state)
