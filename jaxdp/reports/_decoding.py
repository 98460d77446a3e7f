"""Reports out of bytes, and their tally, on a device."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, UInt8, UInt32

from .._contract import Round, Tree
from ..random import merge
from ._client import FINGERPRINT_BYTES, HEADER_BYTES
from ._wire import Layout

REASONS = ("version", "fingerprint", "range")
"""Why bytes of the length of a report are none, in the order in which it is asked."""


class Added(NamedTuple):
    """What a block of bytes adds.

    Attributes:
      tally: the tally of before, and the block's.
      accepted: int32[], how many are reports.
      refused: int32[3], how many are none, for each of `REASONS`.
    """

    tally: Tree
    accepted: jax.Array
    refused: jax.Array


@functools.partial(jax.jit, static_argnums=(1,))
def add_block(
    params: Round[Any],
    layout: Layout,
    header: UInt8[np.ndarray, " 9"],
    tally: Tree,
    rows: UInt8[Array | np.ndarray, "n b"],
    number: int,
) -> Added:
    """Adds the reports in a block of bytes to a tally.

    Args:
      params: of the randomizer.
      layout: of a report, static.
      header: what a report begins with.
      tally: None for a new one.
      rows: the bytes of a report each.
      number: how many rows there are; the others are filled up.
    """
    present = lax.iota(jnp.int32, len(rows)) < number
    same = rows[:, :HEADER_BYTES] == jnp.asarray(header)[None]
    leaves, in_range = _decoded(layout, jnp.asarray(rows)[:, HEADER_BYTES:])
    right = (same[:, 0], jnp.all(same[:, -FINGERPRINT_BYTES:], axis=1), in_range)
    refused, good = [], present
    for each in right:
        refused.append(jnp.sum(good & ~each, dtype=jnp.int32))
        good &= each
    reports = jax.tree.unflatten(jax.tree.structure(params.report), leaves)
    found = params.tally(reports, good)
    total = found if tally is None else merge(tally, found)
    return Added(total, jnp.sum(good, dtype=jnp.int32), jnp.stack(refused))


def _decoded(
    layout: Layout, payloads: UInt8[Array, "n b"]
) -> tuple[list[jax.Array], Bool[Array, " n"]]:
    """The leaves of reports, and whether they are in their limits and end in zeros."""
    words = _words(payloads, layout.num_bits // 32 + 2)
    place, shift = layout.starts // 32, layout.starts[None].astype(np.uint32) % 32
    mask = np.array([[2**bits - 1 for bits in layout.bits.tolist()]], np.uint32)
    most = np.array([[b - a for a, b in zip(layout.low, layout.high, strict=True)]], np.uint32)
    least = np.array([[a & 0xFFFFFFFF for a in layout.low]], np.uint32)
    # An entry lies in one word, or in two; a shift by 32 bits would not be defined.
    low = words[:, place] >> shift
    high = jnp.where(shift == 0, 0, words[:, place + 1] << (-shift & 31))
    distance = (low | high) & mask
    rest = words[:, layout.num_bits // 32] >> np.uint32(layout.num_bits % 32)
    good = jnp.all(distance <= most, axis=1) & (rest == 0)
    # What is refused is moved into the limits: a tally may read tables at what it leaves out.
    entries = least + jnp.minimum(distance, most)
    leaves, first = [], 0
    for dtype, shape in layout.leaves:
        size = int(np.prod(shape, dtype=np.int64))
        part = entries[:, first : first + size].reshape(-1, *shape)
        signed = dtype.startswith("int")
        leaves.append(lax.bitcast_convert_type(part, jnp.int32) if signed else part.astype(dtype))
        first += size
    return leaves, good


def _words(payloads: UInt8[Array, "n b"], number: int) -> UInt32[Array, "n w"]:
    """Bytes as words, lowest byte first, filled up with zeros."""
    n, width = payloads.shape
    filled = jnp.pad(payloads, ((0, 0), (0, 4 * number - width))).astype(jnp.uint32)
    byte = filled.reshape(n, number, 4) << np.array([[[0, 8, 16, 24]]], np.uint32)
    return byte[..., 0] | byte[..., 1] | byte[..., 2] | byte[..., 3]
