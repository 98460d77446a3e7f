"""Binary splitting: many cells from draws of two."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_LANES = 2**16  # draws of a step, if the totals are many
_NODES = 8  # of a step at least


def split_binary(
    split: Callable[..., jax.Array], first: jax.Array, total: jax.Array, leaves: jax.Array
) -> jax.Array:
    """Hands totals down binary trees, inside a float64 block.

    Args:
      split: maps (index, total, left, right) of some nodes to the left child's share of each node's
        total; left and right are the sums of the leaves below the children, and index, uint32, is
        the node's lane. All have the axes of `total` after one of nodes, or broadcast to it.
      first: uint32[...], the lane of node 0 of each tree, as of `first_lanes`.
      total: float64[...], of the roots.
      leaves: float64[..., k], whose leading axes broadcast to those of `total`.

    Returns:
      float64[..., k], the share of each leaf.
    """
    batch, num_leaves = total.shape, leaves.shape[-1]
    depth = depth_of(num_leaves)
    if depth == 0:
        return total[..., None]
    width = 2**depth
    # Nodes come first: those of one level, whose draws take about as long, lie side by side.
    padding = [(0, width - num_leaves), *[(0, 0)] * (leaves.ndim - 1)]
    levels = [jnp.pad(jnp.moveaxis(leaves, -1, 0), padding)]
    while levels[-1].shape[0] > 1:
        levels.append(levels[-1][0::2] + levels[-1][1::2])
    # Heap order: node i has the children 2i and 2i + 1, the root is 1 and leaf j is width + j.
    sums = jnp.concatenate([jnp.zeros_like(levels[-1]), *reversed(levels)])

    # One program serves all levels: steps of `chunk` consecutive nodes in heap order. Early steps
    # reach nodes that have no total yet; these are done again in their turn. A smaller chunk has
    # fewer of them, and more steps.
    room = max(_LANES // max(total.size, 1), _NODES)
    chunk = min(2 ** (room.bit_length() - 1), width // 2, 2 ** (-(-depth // 2) + 2))
    starts = [2**level for level in range(chunk.bit_length() - 1)] + list(
        range(chunk, width, chunk)
    )

    def step(shares, start):
        children = lax.dynamic_slice_in_dim(sums, 2 * start, 2 * chunk)
        parents = lax.dynamic_slice_in_dim(shares, start, chunk)
        node = (start + jnp.arange(chunk, dtype=jnp.int32)).astype(jnp.uint32)
        index = first[None] + node.reshape(chunk, *[1] * total.ndim)
        left = split(index, parents, children[0::2], children[1::2])
        pairs = jnp.stack([left, parents - left], 1).reshape(2 * chunk, *batch)
        return lax.dynamic_update_slice_in_dim(shares, pairs, 2 * start, axis=0), None

    shares = jnp.zeros((2 * width, *batch)).at[1].set(total)
    shares, _ = lax.scan(step, shares, jnp.asarray(starts, jnp.int32))
    return jnp.moveaxis(shares[width : width + num_leaves], 0, -1)


def depth_of(num_leaves: int) -> int:
    """The depth of a tree of so many leaves."""
    return (num_leaves - 1).bit_length()


def first_lanes(total: jax.Array, num_leaves: int) -> jax.Array:
    """The lane of node 0 of each tree, uint32[...], where trees lie one after the other."""
    number = jnp.arange(total.size, dtype=jnp.uint32).reshape(total.shape)
    return number * np.uint32(2 ** depth_of(num_leaves))
