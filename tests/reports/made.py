"""Collections, and the reports that many clients would send."""

import jax
import numpy as np

from jaxdp.reports import Collection
from tests.contracts.registry import APPLICABLE, PROTOCOLS

CASES = tuple(
    case for case in PROTOCOLS if "reports_are_within_their_limits" in APPLICABLE[case.name]
)
"""Every member whose reports can be collected."""


def drawn(collection: Collection, values, seed: int = 0):
    """Reports of users, as the params make them: a pytree of arrays [n, ...].

    Args:
      collection: of the reports.
      values: of the users, a row each.
      seed: of the words.
    """
    params = collection.params
    rng = np.random.default_rng(seed)
    leaf = jax.tree.leaves(values)[0]
    words = rng.integers(2**32, size=(len(leaf), params.num_words), dtype=np.uint32)
    return jax.jit(jax.vmap(params.from_bits))(words, values)


def sent(collection: Collection, reports) -> np.ndarray:
    """The bytes of reports, uint8[n, report_bytes]."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(reports)]
    payloads = collection.layout.encode(leaves)
    header = np.broadcast_to(collection.header, (len(payloads), len(collection.header)))
    return np.concatenate([header, payloads], axis=1)


def bins(collection: Collection, number: int, seed: int = 0) -> np.ndarray:
    """Values of users who hold bins, more of the first ones; int32[n]."""
    k = collection.params.num_bins
    weights = np.arange(k, 0, -1.0)
    rng = np.random.default_rng(seed)
    return rng.choice(k, size=number, p=weights / weights.sum()).astype(np.int32)


def same(first, second) -> bool:
    """Whether two tallies are equal, bit for bit."""
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)
