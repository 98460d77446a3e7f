"""The walk through the trees of the hierarchical AUC in little memory.

`HierarchicalAUCParams.estimate` holds all nodes of both trees. Here they are looked at depth first,
some at a time, and only those that are not discarded: from reports that are at hand, or in passes
over simulated users, who report the same in each.
"""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..random import Count
from ..randomizers._hadamard_words import parity
from ._hierarchical_auc_params import HierarchicalAUCParams

WIDTH = 2**12
"""Nodes that a pass over users looks at, at most."""


def walk(
    params: HierarchicalAUCParams,
    users: np.ndarray,
    rows: np.ndarray,
    children: Callable[[int, np.ndarray], np.ndarray],
    width: int,
) -> float:
    """The estimate of `params.estimate`, depth first, up to `width` nodes of a level at a time.

    Args:
      params: the params.
      users: int[2], slots 2 and 3 of the tally.
      rows: int[2 height], users by level and the parity of their row; unused of other labels.
      children: takes a level and nodes of the level above, int64[k], and returns the estimated
        counts of their children, float64[2, k, 2] by label and child.
      width: at least 1.
    """
    with jax.enable_x64(True):
        sizes, product, spreads = params._classes(jnp.asarray(users, jnp.float64))
        tau, least = params._cutoffs(sizes, spreads)
        numbers = jnp.asarray(rows, jnp.float64)
        own = [np.asarray(params._own(numbers, i + 1)) for i in range(params.height)]
        sizes, least, product, tau = (np.asarray(x) for x in (sizes, least, product, tau))
    total, stack = 0.0, [(0, np.zeros(1, np.int64), sizes[:, None])]
    while stack:
        level, nodes, held = stack.pop()
        if level == params.height:
            ties = held[0] @ held[1] + own[-1][0] * len(nodes)
            total += ties / 2 if params.half_ties else 0.0
            continue
        below = children(level + 1, nodes)
        same, across = own[level]
        deeper = np.prod(np.maximum(held, least[:, None]), axis=0) >= tau
        total += np.sum(below[1, deeper, 1] * below[0, deeper, 0] + across)
        if params.half_discarded:
            whole = below[:, ~deeper].sum(axis=2)
            total += np.sum(whole[0] * whole[1] / 2 + same + across)
        found = (2 * nodes[deeper, None] + np.arange(2)).ravel()
        counts = below[:, deeper].reshape(2, -1)
        for start in range(0, len(found), width):
            part = slice(start, start + width)
            stack.append((level + 1, found[part], counts[:, part]))
    return float(total / product)


@jax.jit
def _full_estimate(params: HierarchicalAUCParams, reports):
    return params.estimate(Count.of(params.tally(reports, jnp.ones(len(reports), bool))))


def estimate_reports(params: HierarchicalAUCParams, reports: np.ndarray) -> float:
    """The estimate from reports, the full tree being held."""
    return float(_full_estimate(params, reports.astype(np.int32)))


def walk_reports(params: HierarchicalAUCParams, reports: np.ndarray) -> float:
    """The estimate from reports, node by node; besides them it holds one node for each level.

    Args:
      params: the params.
      reports: int[n] or int[n, levels], as `params.from_bits` makes them.
    """
    table = reports.reshape(len(reports), -1)
    flat = table.ravel()
    slots, signs = flat >> 1, 1 - 2 * (flat & 1)
    levels = np.frexp(slots)[1] - 2
    order = np.argsort(levels, kind="stable")
    borders = np.searchsorted(levels[order], np.arange(params.height + 2))
    groups = []
    for level in range(params.height + 1):
        own = order[borders[level] : borders[level + 1]]
        groups.append((slots[own] - 2 ** (level + 1), signs[own]))
    if params.private:
        users = np.array([len(table), groups[0][1].sum()])
    else:
        first = slots[:: table.shape[1]]
        positive = int(((first >> (np.frexp(first)[1] - 2)) & 1).sum())
        users = np.array([len(table) - positive, positive])
    odd = [np.sum(places & 1) for places, _ in groups[1:]]
    even = [len(places) - number for (places, _), number in zip(groups[1:], odd, strict=True)]

    def children(level, nodes):
        places, signs = groups[level]
        sums = np.empty((2, len(nodes), 2))
        for label, number, right in np.ndindex(sums.shape):
            cell = 2 * nodes[number] + right + (label << level if params.private else 0)
            seen = signs if params.private else np.where(places >> level == label, signs, 0)
            is_odd = np.bitwise_count(places & cell) & 1
            sums[label, number, right] = np.sum(np.where(is_odd, -seen, seen))
        return _decoded(params, level, sums)

    return walk(params, users, np.stack([even, odd], axis=1).ravel(), children, width=1)


def _decoded(params: HierarchicalAUCParams, level: int, sums) -> np.ndarray:
    """The estimated counts of nodes, by label on the first axis, from the sums of their signs."""
    with jax.enable_x64(True):
        scale = params._bit_scale() / params._chances()[level - params.levels[0]]
        return np.asarray(params._unmixed(scale * jnp.asarray(sums, jnp.float64)))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HierarchicalAUCPassParams:
    """The params of `HierarchicalAUC` where the full tree takes too much memory: a pytree.

    A run reads its users' reports several times: the levels down to `deepest` are counted at once,
    and on each deeper one only the nodes that are not discarded. It does so on the host.

    Attributes:
      tree: the params of the full tree.
      deepest: the last level that is counted as a whole, static.
    """

    tree: HierarchicalAUCParams
    deepest: int = dataclasses.field(metadata={"static": True})

    traceable: ClassVar[bool] = False

    @property
    def num_words(self) -> int:
        """Those of the full tree."""
        return self.tree.num_words

    def play(self, key, population, collect):
        """The estimate of one run, float64[].

        Args:
          key: unused; all randomness is the users'.
          population: the users.
          collect: runs a round.
        """
        del key
        tree = self.tree
        upper: Count = collect(_UpperParams(tree, self.deepest), population)
        numbers = upper.numpy()
        counts = {}

        def children(level, nodes):
            if level > self.deepest:
                padded = np.zeros(1 << (len(nodes) - 1).bit_length(), np.int32)
                padded[: len(nodes)] = nodes
                # The number of the round is that of the first: users report the same again.
                sums: Count = collect(
                    _NodesParams(tree, padded, np.asarray(level, np.int32)), population
                )
                return _decoded(tree, level, sums.numpy()[:, : len(nodes)])
            if level not in counts:
                with jax.enable_x64(True):
                    counts[level] = np.asarray(tree.counts(upper, level)).reshape(2, -1, 2)
            return counts[level][:, nodes]

        rows = numbers[2 ** (self.deepest + 2) :]
        return np.asarray(walk(tree, numbers[2:4], rows, children, WIDTH))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _ReadParams:
    """Base class of the params of one reading: users report as in the full tree.

    Attributes:
      tree: the params of the full tree.
    """

    tree: HierarchicalAUCParams

    value_dtype: ClassVar = jnp.int32
    lazy_words: ClassVar = True

    @property
    def num_words(self) -> int:
        """Those of the full tree."""
        return self.tree.num_words

    def from_bits(self, words, value):
        """One user's report; see `HierarchicalAUCParams`."""
        return self.tree.from_bits(words, value)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _UpperParams(_ReadParams):
    """The reading of all levels down to one, and of the numbers of users.

    Attributes:
      tree: the params of the full tree.
      deepest: the last level, static.
    """

    deepest: int = dataclasses.field(metadata={"static": True})

    def tally(self, reports, mask):
        """As that of the full tree, its deeper levels left out."""
        return self.tree.tally(reports, mask, self.deepest)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _NodesParams(_ReadParams):
    """The reading of the children of some nodes.

    Attributes:
      tree: the params of the full tree.
      nodes: int32[k], of the level above.
      level: int32[], of the children.
    """

    nodes: jax.Array | np.ndarray
    level: jax.Array | np.ndarray

    def tally(self, reports, mask):
        """The sums of signs int32[2, k, 2], by label, node and child; those of other rows 0.

        Args:
          reports: int32[n] or int32[n, levels].
          mask: bool[n].
        """
        level = jnp.asarray(self.level, jnp.int32)
        reports = reports.reshape(mask.shape[0], -1)
        places = (reports >> 1) - (jnp.int32(2) << level)
        here = (places >= 0) & (places < jnp.int32(2) << level) & mask[:, None]
        signs = jnp.where(here, 1 - 2 * (reports & 1), 0)
        places, signs = lax.optimization_barrier((places.ravel(), signs.ravel()))

        def sums(node):
            cells = 2 * node + jnp.arange(2, dtype=jnp.int32)
            found = []
            for label in (0, 1):
                cell = cells + (label << level) if self.tree.private else cells
                seen = signs if self.tree.private else jnp.where(places >> level == label, signs, 0)
                odd = parity(places[:, None] & cell[None, :]) == 1
                found.append(jnp.sum(jnp.where(odd, -seen[:, None], seen[:, None]), axis=0))
            return jnp.stack(found)

        return jnp.moveaxis(lax.map(sums, jnp.asarray(self.nodes, jnp.int32)), 0, 1)
