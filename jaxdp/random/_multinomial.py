"""Exact multinomial draws by binary splitting."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike

from .._spec import MAX_USERS, check_key
from .._x64 import compiled_in_float64
from ._binomial import check_broadcast, count_operand, draw_binomial, float_operand
from ._count import Count
from ._rejection import Keys
from ._splitting import row_numbers, split_binary

_MAX_WEIGHT = 1e300  # the reciprocals of larger ones are flushed to 0


def multinomial(key: jax.Array, n: ArrayLike | Count, weights: ArrayLike) -> Count:
    """Multinomial draws, for totals up to 2**53 and any number of cells.

    Pr[X = x] = n! / (x_1! ... x_k!) * w_1^x_1 ... w_k^x_k / (w_1 + ... + w_k)^n. The cells are the
    leaves of a binary tree: each node splits its total between its two halves by one binomial draw,
    in ceil(log2 k) vectorised levels of k - 1 draws altogether.

    *Formal guarantees.* Cells add up to n exactly, a cell of weight 0 is empty, and the law is that
    of exact `binomial` draws of which each probability is right to a relative 1e-14.

    Args:
      key: a stream key; it is turned into words here and must not be folded as well.
      n: Count[...], or integers, in [0, 2**53].
      weights: float[..., k] in [0, 1e300], not all 0 where n > 0; need not add up to 1. The leading
        axes broadcast with `n`. See `binomial` for their precision.

    Returns:
      Count[..., k]; -1 in every cell where traced arguments are out of range.

    Raises:
      ValueError: a concrete `n` or `weights` is out of range.

    Example:
      >>> import jax
      >>> cells = multinomial(jax.random.key(0), 10**12, [1.0, 0.0, 2.0])
      >>> int(cells.sum()) == 10**12, int(cells[1])
      (True, 0)

    References:
      Devroye (1986), Non-uniform random variate generation, Section XI.1.4.
    """
    check_key(key)
    total = count_operand("n", n)
    weights = float_operand("weights", weights, high=_MAX_WEIGHT)
    if weights.ndim == 0 or weights.shape[-1] == 0:
        raise ValueError(f"weights must have an axis of cells, got shape {weights.shape}.")
    check_broadcast(n=total, weights=weights[..., 0])
    if isinstance(weights, np.ndarray) and not isinstance(total.lo, Tracer):
        if np.any((weights.max(axis=-1) == 0) & (total.numpy() > 0)):
            raise ValueError("weights must not be all 0 where n > 0: no cell can take the users.")
    return _multinomial(key, total, weights)


@compiled_in_float64
def _multinomial(key, n, weights):
    total, weights = n.f64(), weights.astype(jnp.float64)
    batch = jnp.broadcast_shapes(total.shape, weights.shape[:-1])
    total = jnp.broadcast_to(total, batch)
    weights = jnp.broadcast_to(weights, (*batch, weights.shape[-1]))
    return Count.from_float(_draw(jax.random.key_data(key), total, weights))


@jax.jit
def _draw(key, total, weights):
    # Over the largest, lest sums of weights up to 1e300 overflow.
    largest = jnp.max(weights, axis=-1, keepdims=True)
    scaled = weights / jnp.where(largest > 0, largest, 1.0)
    keys = tuple(half.reshape((1,) * total.ndim) for half in (key[0], key[1]))
    cells = _cells(keys, row_numbers(total), total, scaled)
    valid = jnp.all(weights >= 0, axis=-1, keepdims=True) & (largest <= _MAX_WEIGHT)
    valid = valid & (total >= 0)[..., None] & (total <= MAX_USERS)[..., None]
    valid = valid & ((largest > 0) | (total == 0)[..., None])
    return jnp.where(valid, cells, -1.0)


@jax.custom_batching.custom_vmap
def _cells(keys: Keys, row: jax.Array, total: jax.Array, weights: jax.Array) -> jax.Array:
    def split(index, total, left, right):
        whole = left + right
        empty = whole == 0
        p = jnp.where(empty, 0.0, left / jnp.where(empty, 1.0, whole))
        shape = total.shape
        return draw_binomial(
            keys, jnp.broadcast_to(index, shape), total, jnp.broadcast_to(p, shape)
        )

    return split_binary(split, row, total, weights)


@_cells.def_vmap
def _cells_batch(axis_size: int, in_batched, *arguments):
    """A batch is more rows: nodes still come first, and those of all rows side by side."""
    with jax.enable_x64(True):  # what is inside a jit is batched after its float64 block has ended
        keys, row, total, weights = jax.tree.map(
            lambda x, has_axis: x if has_axis else x[None], arguments, tuple(in_batched)
        )
        total = jnp.broadcast_to(total, (axis_size, *total.shape[1:]))
        return _cells(keys, row, total, weights), True
