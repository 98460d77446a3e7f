"""Exact multinomial draws by binary splitting."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import ArrayLike

from .._spec import MAX_USERS, check_key
from .._stored import stored
from .._x64 import compiled_in_float64
from ._binomial import check_broadcast, count_operand, draw_binomial, float_operand
from ._count import Count
from ._rejection import Keys
from ._splitting import depth_of, first_lanes, split_binary

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
    return multinomials([(key, n, weights)])[0]


def multinomials(
    draws: Sequence[tuple[jax.Array, ArrayLike | Count, ArrayLike]],
) -> list[Count]:
    """Several multinomials by one program: what `multinomial` draws of each.

    A sampler takes most of a second to compile, one for all no more than one of them. It splits all
    as deep as the one with the most cells: a multinomial of few cells beside one of many takes as
    long as that.

    Args:
      draws: (key, n, weights) of each, as for `multinomial`; all keys differ.

    Returns:
      Count[..., k] of each.

    Raises:
      ValueError: as `multinomial`.

    Example:
      >>> import jax
      >>> one, two = jax.random.split(jax.random.key(0))
      >>> pair = multinomials([(one, 10, [1.0, 1.0]), (two, 10**12, [1.0, 0.0, 2.0])])
      >>> [int(cells.sum()) for cells in pair]
      [10, 1000000000000]
    """
    keys, totals, tables = [], [], []
    for key, n, weights in draws:
        check_key(key)
        total = count_operand("n", n)
        weights = float_operand("weights", weights, high=_MAX_WEIGHT)
        if weights.ndim == 0 or weights.shape[-1] == 0:
            raise ValueError(f"weights must have an axis of cells, got shape {weights.shape}.")
        check_broadcast(n=total, weights=weights[..., 0])
        if isinstance(weights, np.ndarray) and not isinstance(total.lo, Tracer):
            if np.any((weights.max(axis=-1) == 0) & (total.numpy() > 0)):
                raise ValueError(
                    "weights must not be all 0 where n > 0: no cell can take the users."
                )
        keys.append(key)
        totals.append(total)
        tables.append(weights)
    return _multinomials(keys, totals, tables) if keys else []


@compiled_in_float64
def _multinomials(
    keys: list[jax.Array], totals: list[Count], tables: list[jax.Array]
) -> list[Count]:
    batches = [
        jnp.broadcast_shapes(total.shape, weights.shape[:-1])
        for total, weights in zip(totals, tables, strict=True)
    ]
    rows = [
        jnp.broadcast_to(total.f64(), batch).ravel()
        for total, batch in zip(totals, batches, strict=True)
    ]
    weights = [
        jnp.broadcast_to(table.astype(jnp.float64), (*batch, table.shape[-1])).reshape(
            -1, table.shape[-1]
        )
        for table, batch in zip(tables, batches, strict=True)
    ]
    drawn = _draw([jax.random.key_data(key) for key in keys], rows, weights)
    return [
        Count.from_float(cells).reshape(*batch, cells.shape[-1])
        for cells, batch in zip(drawn, batches, strict=True)
    ]


@jax.jit
def _draw(keys, totals, tables):
    depth = max(depth_of(weights.shape[-1]) for weights in tables)
    lanes, leaves = [], []
    for key, total, weights in zip(keys, totals, tables, strict=True):
        # Over the largest, lest sums of weights up to 1e300 overflow.
        largest = jnp.max(weights, axis=-1, keepdims=True)
        scaled = weights / jnp.where(largest > 0, largest, 1.0)
        first = first_lanes(total, weights.shape[-1])
        # A key for each lane, unless it is the same for all.
        lanes.append(
            (*(jnp.full(total.shape if len(keys) > 1 else 1, half) for half in key), first, total)
        )
        leaves.append(_spaced(scaled, depth))
    *halves, first, total = (jnp.concatenate(part) for part in zip(*lanes, strict=True))
    cells = _cells(tuple(halves), first, total, jnp.concatenate(leaves))
    drawn, start = [], 0
    for total, weights in zip(totals, tables, strict=True):
        num_cells = weights.shape[-1]
        step = 2 ** (depth - depth_of(num_cells))
        own = cells[start : start + total.size, : step * num_cells : step]
        drawn.append(stored(jnp.where(_is_valid(total, weights)[:, None], own, -1.0)))
        start += total.size
    return drawn


def _spaced(weights: jax.Array, depth: int) -> jax.Array:
    """The leaves of a deeper tree whose upper nodes split as those of a tree of these leaves.

    A leaf is followed by others of weight 0, to which its share will not be split.
    """
    rows, num_cells = weights.shape
    own = depth_of(num_cells)
    padded = jnp.pad(weights, ((0, 0), (0, 2**own - num_cells)))
    return jnp.pad(padded[..., None], ((0, 0), (0, 0), (0, 2 ** (depth - own) - 1))).reshape(
        rows, 2**depth
    )


def _is_valid(total: jax.Array, weights: jax.Array) -> jax.Array:
    """Whether traced arguments are in range, bool[rows]."""
    largest = jnp.max(weights, axis=-1)
    valid = jnp.all(weights >= 0, axis=-1) & (largest <= _MAX_WEIGHT)
    valid = valid & (total >= 0) & (total <= MAX_USERS)
    return valid & ((largest > 0) | (total == 0))


@jax.custom_batching.custom_vmap
def _cells(keys: Keys, first: jax.Array, total: jax.Array, weights: jax.Array) -> jax.Array:
    def split(index, total, left, right):
        whole = left + right
        empty = whole == 0
        p = jnp.where(empty, 0.0, left / jnp.where(empty, 1.0, whole))
        shape = total.shape
        return draw_binomial(
            keys, jnp.broadcast_to(index, shape), total, jnp.broadcast_to(p, shape)
        )

    return split_binary(split, first, total, weights)


@_cells.def_vmap
def _cells_batch(axis_size: int, in_batched, *arguments):
    """A batch is more rows: nodes still come first, and those of all rows side by side."""
    with jax.enable_x64(True):  # what is inside a jit is batched after its float64 block has ended
        keys, first, total, weights = jax.tree.map(
            lambda x, has_axis: x if has_axis else x[None], arguments, tuple(in_batched)
        )
        total = jnp.broadcast_to(total, (axis_size, *total.shape[1:]))
        return _cells(keys, first, total, weights), True
