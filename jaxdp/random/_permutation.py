"""Keyed pseudorandom permutations of [0, n), element by element."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from numpy.typing import ArrayLike

from .._spec import check_key
from .._x64 import compiled_in_float64
from ._binomial import count_operand
from ._count import Count
from ._rejection import uniforms

_MIN_DOUBLE_ROUNDS = 4
_PAIR_BITS = 40  # pairs of images are uniform up to 2**-40 in total variation


def permute(key: jax.Array, ids: ArrayLike | Count, n: ArrayLike | Count) -> Count:
    """The images of some ids under a pseudorandom permutation of [0, n) that the key picks.

    Writes x < n as (x // b, x mod b) on a grid of a·b >= n cells with a, b about sqrt(n), and runs
    a Feistel network over it: in turn, each coordinate is shifted by a function of the other one.
    Cells outside of [0, n) are walked through, which happens to one id in sqrt(n).

    *Formal guarantees.* A bijection of [0, n) for every key. With ideal round functions an image is
    exactly uniform where a·b = n, and a pair of images is within 2**-40 of uniform in total
    variation; here the round functions are threefry words, and the law of longer tuples is
    pseudorandom: it stands up to statistical tests, not to an adversary.

    *Cost.* O(1) memory and about 50 ns an id on one CPU core; no array of length n.

    Args:
      key: a stream key; it is turned into words here and must not be folded as well.
      ids: Count[...], or integers in [0, n); others are returned unchanged.
      n: Count[], or an int, in [0, 2**53]; may be traced.

    Returns:
      Count of the shape of `ids`.

    Raises:
      ValueError: a concrete `n` is out of range, or is not one number.

    Example:
      >>> import jax
      >>> order = permute(jax.random.key(0), range(5), 5).numpy()
      >>> sorted(order.tolist())
      [0, 1, 2, 3, 4]

    References:
      Black and Rogaway (2002), Ciphers with arbitrary finite domains.
    """
    number = count_operand("n", n)
    if number.shape != ():
        raise ValueError(f"n must be one number, got shape {number.shape}; use jax.vmap over n.")
    return _permute(check_key(key), Count.of(ids, "ids"), number)


@compiled_in_float64
def _permute(key, ids, n):
    images = Count.from_float(_images(jax.random.key_data(key), ids.f64(), n.f64()))
    # By their limbs: float64 would round the ids beyond 2**53 that are to stay as they are.
    inside = (ids >= 0) & (ids < n)
    return jax.tree.map(functools.partial(jnp.where, inside), images, ids)


@jax.jit
def _images(key: jax.Array, ids: jax.Array, n: jax.Array) -> jax.Array:
    rows = jnp.maximum(jnp.ceil(jnp.sqrt(n)), 1.0)
    columns = jnp.maximum(jnp.ceil(n / rows), 1.0)
    row = jnp.floor(ids / columns)
    row = jnp.where(row * columns > ids, row - 1, row)  # the quotient was rounded up
    column = ids - row * columns
    # A double round leaves a pair that shares a coordinate as it is with probability 1 / columns.
    double_rounds = jnp.ceil(_PAIR_BITS / jnp.log2(jnp.maximum(columns, 2.0)))
    double_rounds = jnp.maximum(double_rounds, _MIN_DOUBLE_ROUNDS).astype(jnp.int32)

    def shift(coordinate, size, other, number):
        u, _ = uniforms(key, other.astype(jnp.uint32), number.astype(jnp.uint32))
        moved = coordinate + jnp.floor(u * size)
        return jnp.where(moved >= size, moved - size, moved)

    def double_round(number, cell):
        row, column = cell
        row = shift(row, rows, column, 2 * number)
        return row, shift(column, columns, row, 2 * number + 1)

    def walk(state):
        row, column, outside = state
        moved = lax.fori_loop(0, double_rounds, double_round, (row, column))
        row, column = (jnp.where(outside, *pair) for pair in zip(moved, (row, column), strict=True))
        return row, column, outside & (row * columns + column >= n)

    inside = (ids >= 0) & (ids < n)
    row, column, _ = lax.while_loop(lambda state: jnp.any(state[2]), walk, (row, column, inside))
    return jnp.where(inside, row * columns + column, ids)
