"""The walk through the trees of the hierarchical AUC in little memory.

`HierarchicalAUCParams.estimate` holds all nodes of both trees. In little memory `walk` looks at
them depth first, some at a time, and only at those that are not discarded: from reports that are at
hand, or in passes over simulated users, who report the same in each.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32

from ..._bits import parity
from ..._contract import (
    Collect,
    Interactive,
    Kernels,
    Step,
    TallyLaw,
    Through,
    Work,
    params,
    static,
)
from ...population import Population
from ...random import Count, everyone
from ._hierarchical_auc_even import dealt_out
from ._hierarchical_auc_round import HierarchicalAUCParams

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
        products = [np.asarray(params._self_products(numbers, i + 1)) for i in range(params.height)]
        sizes, least, product, tau = (np.asarray(x) for x in (sizes, least, product, tau))
    total, stack = 0.0, [(0, np.zeros(1, np.int64), sizes[:, None])]
    while stack:
        level, nodes, counts = stack.pop()
        if level == params.height:
            ties = counts[0] @ counts[1] + products[-1][0] * len(nodes)
            total += ties / 2 if params.half_ties else 0.0  # half of the pairs of equals
            continue
        below = children(level + 1, nodes)
        same, siblings = products[level]
        # Equation (10) for nodes that are recursed on, half of the pairs for discarded ones
        deeper = np.prod(np.maximum(counts, least[:, None]), axis=0) >= tau
        total += np.sum(below[1, deeper, 1] * below[0, deeper, 0] + siblings)
        if params.half_discarded:
            whole = below[:, ~deeper].sum(axis=2)
            total += np.sum(whole[0] * whole[1] / 2 + same + siblings)
        places = (2 * nodes[deeper, None] + np.arange(2)).ravel()
        counts = below[:, deeper].reshape(2, -1)
        for start in range(0, len(places), width):
            part = slice(start, start + width)
            stack.append((level + 1, places[part], counts[:, part]))
    return float(total / product)


@jax.jit
def _full_estimate(params: HierarchicalAUCParams, reports: jax.Array) -> jax.Array:
    return params.estimate(params.tally(reports))


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
    slots, signs = flat >> 1, 1 - 2 * (flat & 1)  # a report is 2 slot + bit
    levels = np.frexp(slots)[1] - 2  # level l has the slots 2**(l + 1) .. 2**(l + 2) - 1
    order = np.argsort(levels, kind="stable")
    borders = np.searchsorted(levels[order], np.arange(params.height + 2))
    groups = []
    for level in range(params.height + 1):
        members = order[borders[level] : borders[level + 1]]
        groups.append((slots[members] - 2 ** (level + 1), signs[members]))
    if params.private:
        users = np.array([len(table), groups[0][1].sum()])  # n, and the sum of the labels' signs
    else:
        first = slots[:: table.shape[1]]
        positive = int(((first >> (np.frexp(first)[1] - 2)) & 1).sum())
        users = np.array([len(table) - positive, positive])
    odd = [np.sum(places & 1) for places, _ in groups[1:]]
    even = [len(places) - number for (places, _), number in zip(groups[1:], odd, strict=True)]

    def children(level: int, nodes: np.ndarray) -> np.ndarray:
        places, signs = groups[level]
        sums = np.empty((2, len(nodes), 2))
        for label, number, right in np.ndindex(sums.shape):
            cell = 2 * nodes[number] + right + (label << level if params.private else 0)
            seen = signs if params.private else np.where(places >> level == label, signs, 0)
            # Entry (row, cell) of the Hadamard matrix is -1 for an odd number of common ones.
            is_odd = np.bitwise_count(places & cell) & 1
            sums[label, number, right] = np.sum(np.where(is_odd, -seen, seen))
        return _decoded(params, users, level, sums)

    return walk(params, users, np.stack([even, odd], axis=1).ravel(), children, width=1)


def _decoded(
    params: HierarchicalAUCParams, users: np.ndarray, level: int, sums: np.ndarray
) -> Float[np.ndarray, "2 k 2"]:
    """The estimated counts of nodes, by label on the first axis, from the sums of their signs.

    Args:
      params: the params.
      users: int[2], slots 2 and 3 of the tally.
      level: of the nodes.
      sums: int[2, k, 2].
    """
    with jax.enable_x64(True):
        sizes, signs = (jnp.asarray(x, jnp.float64) for x in (users, sums))
        return np.asarray(params._of_signs(sizes, level, signs))


@params
class HierarchicalAUCPassParams(Interactive[np.ndarray]):
    """The params of `HierarchicalAUC` where the full tree takes too much memory: a pytree.

    A run reads its users' reports several times: the levels down to `deepest` are counted at once,
    and on each deeper one only the nodes that are not discarded. It does so on the host.

    Attributes:
      tree: the params of the full tree.
      deepest: the last level that is counted as a whole, static.
    """

    tree: HierarchicalAUCParams
    deepest: int = static()

    @property
    def traceable(self) -> bool:
        """False: which nodes are discarded is decided on the host."""
        return False

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are cells."""
        population.require_bins(2 * self.tree.num_scores, "2 * num_scores")

    def rounds(self, work: Work) -> tuple[Step, ...]:
        """The first pass, and one for each deeper level at least."""
        nodes = _NodesParams(self.tree, np.zeros(1, np.int32), np.asarray(self.tree.height))
        later = Step(nodes, work, self.tree.height - self.deepest)
        return Step(_UpperParams(self.tree, self.deepest), work), later

    def play(self, key: jax.Array, users: Population, collect: Collect) -> Float[np.ndarray, ""]:
        """The estimate of one run. Its passes are one round: users report the same again."""
        tree = self.tree
        users = dealt_out(tree, key, users)
        upper: Count = collect(_UpperParams(tree, self.deepest), users, 0)
        numbers = upper.numpy()
        counts = {}

        def children(level: int, nodes: np.ndarray) -> np.ndarray:
            if level > self.deepest:
                # To a power of two: few shapes, so that few programs are compiled
                padded = np.zeros(1 << (len(nodes) - 1).bit_length(), np.int32)
                padded[: len(nodes)] = nodes
                reading = _NodesParams(tree, padded, np.asarray(level, np.int32))
                sums: Count = collect(reading, users, 0)
                return _decoded(tree, numbers[2:4], level, sums.numpy()[:, : len(nodes)])
            if level not in counts:
                with jax.enable_x64(True):
                    counts[level] = np.asarray(tree.counts(upper, level)).reshape(2, -1, 2)
            return counts[level][:, nodes]

        rows = numbers[2 ** (self.deepest + 2) :]
        return np.asarray(walk(tree, numbers[2:4], rows, children, WIDTH))

    def estimate(self, outcome: Float[np.ndarray, ""], /) -> Float[np.ndarray, ""]:
        """The estimated area: the outcome itself."""
        return outcome


class _Reading(Through[Count]):
    """Base of the params of one pass: users report as in the full tree, `inner`."""

    @property
    def law(self) -> TallyLaw[Count] | None:
        """None: all passes read the same reports."""
        return None

    @property
    def kernels(self) -> Kernels[Count]:
        """None: the tally is another one."""
        return Kernels()

    def estimate(self, outcome: Count, /) -> Count:
        """The sums of signs themselves."""
        return outcome


@params
class _UpperParams(_Reading):
    """First pass: tallies all levels down to one, and the numbers of users.

    Attributes:
      inner: the params of the full tree.
      deepest: the last level, static.
    """

    inner: HierarchicalAUCParams
    deepest: int = static()

    def tally(
        self, reports: Int32[Array, "n *levels"], mask: Bool[Array, " n"] | None = None, /
    ) -> Count:
        """The full tree's tally, its deeper levels left out."""
        return self.inner.tally_down_to(self.deepest, reports, mask)


@params
class _NodesParams(_Reading):
    """Later pass: tallies only the children of the surviving nodes.

    Attributes:
      inner: the params of the full tree.
      nodes: of the level above.
      level: the level of the children.
    """

    inner: HierarchicalAUCParams
    nodes: Int32[Array | np.ndarray, " k"]
    level: Int32[Array | np.ndarray, ""]

    def tally(
        self, reports: Int32[Array, "n *levels"], mask: Bool[Array, " n"] | None = None, /
    ) -> Count:
        """The sums of signs, Count[2, k, 2] by label, node and child; those of other rows 0."""
        level, private = jnp.asarray(self.level, jnp.int32), self.inner.private
        counted = everyone(reports, mask)
        reports = reports.reshape(reports.shape[0], -1)
        places = (reports >> 1) - (jnp.int32(2) << level)
        here = (places >= 0) & (places < jnp.int32(2) << level) & counted[:, None]
        # Rows of this level: slots from 2**(level + 1) on
        signs = jnp.where(here, 1 - 2 * (reports & 1), 0)
        places, signs = lax.optimization_barrier((places.ravel(), signs.ravel()))

        def sums(node: Int32[Array, ""]) -> Int32[Array, "2 2"]:
            cells = 2 * node + jnp.arange(2, dtype=jnp.int32)
            rows = []
            for label in (0, 1):
                cell = cells + (label << level) if private else cells
                seen = signs if private else jnp.where(places >> level == label, signs, 0)
                odd = parity(places[:, None] & cell[None, :]) == 1
                rows.append(jnp.sum(jnp.where(odd, -seen[:, None], seen[:, None]), axis=0))
            return jnp.stack(rows)

        nodes = jnp.asarray(self.nodes, jnp.int32)
        return Count.of(jnp.moveaxis(lax.map(sums, nodes), 0, 1))
