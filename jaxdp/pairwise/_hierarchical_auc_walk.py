"""The walk through the trees of the hierarchical AUC in little memory, from the reports."""

import jax
import jax.numpy as jnp
import numpy as np

from ._hierarchical_auc_params import HierarchicalAUCParams


class _Reports:
    """Reports by level, and the estimated counts that they give of any node."""

    def __init__(self, params: HierarchicalAUCParams, reports: np.ndarray):
        table = reports.reshape(len(reports), -1)
        flat = table.ravel()
        slots, signs = flat >> 1, 1 - 2 * (flat & 1)
        levels = np.frexp(slots)[1] - 2
        order = np.argsort(levels, kind="stable")
        borders = np.searchsorted(levels[order], np.arange(params.height + 2))
        self.params = params
        self.groups = []
        for level in range(params.height + 1):
            own = order[borders[level] : borders[level + 1]]
            self.groups.append((slots[own] - 2 ** (level + 1), signs[own]))
        first = slots[:: table.shape[1]]
        if params.private:
            self.header = np.array([len(table), self.groups[0][1].sum()])
        else:
            top = np.frexp(first)[1] - 1
            positive = int(((first >> (top - 1)) & 1).sum())
            self.header = np.array([len(table) - positive, positive])
        with jax.enable_x64(True):
            chances = params._chances()
            self.scales = float(params._bit_scale()) / chances[-params.height :]
            users = jnp.asarray(self.header, jnp.float64)
            sizes, product, spreads = params._classes(users)
            tau, least = params._cutoffs(sizes, spreads)
        self.sizes, self.least = np.asarray(sizes), np.asarray(least)
        self.product, self.tau = float(product), float(tau)

    def children(self, level: int, node: int) -> np.ndarray:
        """The estimated counts of both children of a node, float64[2, 2] by label and child."""
        below = level + 1
        rows, signs = self.groups[below]
        counts = np.empty((2, 2))
        for label in (0, 1):
            for right in (0, 1):
                child = 2 * node + right
                if self.params.private:
                    seen, cell = signs, (label << below) | child
                else:
                    seen, cell = np.where(rows >> below == label, signs, 0), child
                odd = np.bitwise_count(rows & cell) & 1
                counts[label, right] = np.sum(np.where(odd, -seen, seen))
        return counts * self.scales[level]


def walk(params: HierarchicalAUCParams, reports: np.ndarray) -> float:
    """The estimate of `params.estimate`, node by node and depth first.

    Besides the reports it holds one node for each level, as the paper's analyst does; every node
    that is looked at costs a pass over its level's reports.
    """
    seen = _Reports(params, reports)
    total, stack = 0.0, [(0, 0, seen.sizes)]
    while stack:
        level, node, held = stack.pop()
        if level == params.height:
            total += held[0] * held[1] / 2 if params.half_ties else 0.0
            continue
        children = seen.children(level, node)
        if np.prod(np.maximum(held, seen.least)) >= seen.tau:
            total += children[1, 1] * children[0, 0]
            stack += [(level + 1, 2 * node + i, children[:, i]) for i in (1, 0)]
        elif params.half_discarded:
            total += np.prod(children.sum(axis=1)) / 2
    return float(total / seen.product)
