"""Binary splitting: many cells from draws of two."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def split_binary(split: Callable[..., jax.Array], total: jax.Array, leaves: jax.Array) -> jax.Array:
    """Hands a total down a binary tree, inside a float64 block.

    Args:
      split: maps (index, total, left, right) of some nodes, uint32 and float64 of one shape, to the
        left child's share of each node's total; left and right are the sums of the leaves below the
        children, and index is the node's lane.
      total: float64[...], of the root.
      leaves: float64[..., k].

    Returns:
      float64[..., k], the share of each leaf.
    """
    batch, num_leaves = total.shape, leaves.shape[-1]
    depth = (num_leaves - 1).bit_length()
    if depth == 0:
        return total[..., None]
    width = 2**depth
    padding = [(0, 0)] * total.ndim
    levels = [jnp.pad(leaves, [*padding, (0, width - num_leaves)])]
    while levels[-1].shape[-1] > 1:
        levels.append(levels[-1][..., 0::2] + levels[-1][..., 1::2])
    # Heap order: node i has the children 2i and 2i + 1, the root is 1 and leaf j is width + j.
    sums = jnp.concatenate([jnp.zeros((*batch, 1)), *reversed(levels)], axis=-1)
    tree = jnp.arange(total.size, dtype=jnp.uint32).reshape(*batch, 1) * np.uint32(width)

    # One program serves all levels: steps of `chunk` consecutive nodes in heap order. Early steps
    # reach nodes that have no total yet; these are done again in their turn.
    chunk = min(width // 2, 2 ** (-(-depth // 2) + 2))
    starts = [2**level for level in range(chunk.bit_length() - 1)] + list(
        range(chunk, width, chunk)
    )

    def step(shares, start):
        children = lax.dynamic_slice_in_dim(sums, 2 * start, 2 * chunk, axis=-1)
        parents = lax.dynamic_slice_in_dim(shares, start, chunk, axis=-1)
        node = (start + jnp.arange(chunk, dtype=jnp.int32)).astype(jnp.uint32)
        index = tree + node.reshape((1,) * total.ndim + (chunk,))
        left = split(index, parents, children[..., 0::2], children[..., 1::2])
        pairs = jnp.stack([left, parents - left], -1).reshape(*batch, 2 * chunk)
        return lax.dynamic_update_slice_in_dim(shares, pairs, 2 * start, axis=-1), None

    shares = jnp.zeros((*batch, 2 * width)).at[..., 1].set(total)
    shares, _ = lax.scan(step, shares, jnp.asarray(starts, jnp.int32))
    return shares[..., width : width + num_leaves]
