"""Trees of intervals: how a linear query is taken apart into the nodes of all levels.

The domain {0, .., k-1} is cut into intervals of b**(H-1), then each into b, and so on down to
single values: H levels, coarse to fine, the last interval of each level being shorter if need be. A
decomposition writes each query as `w_v = constant + sum_l R_l[node of v on level l]`.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def level_widths(num_values: int, branching: int) -> list[int]:
    """The length of the intervals of each level, coarse to fine; the last is 1."""
    widths = [1]
    while widths[0] * branching < num_values:
        widths.insert(0, widths[0] * branching)
    return widths


def num_nodes(num_values: int, width: int) -> int:
    """The number of intervals of a level."""
    return -(-num_values // width)


def node_shares(num_values: int, width: int) -> Float[np.ndarray, " nodes"]:
    """The share of the values that lies in each interval of a level."""
    starts = np.arange(0, num_values, width)
    return np.minimum(width, num_values - starts) / num_values


Parts = tuple[list[Float[np.ndarray, "m _nodes"]], Float[np.ndarray, " m"]]
"""R_l of each level, coarse to fine, and the constant of each query."""


def consistent_parts(
    queries: Float[np.ndarray, "m k"],
    branching: int,
    costs: Sequence[Float[np.ndarray, " _nodes"]],
) -> Parts:
    """The decomposition of least `sum of cost R**2`, the constant being free.

    It is that of least squares: the answers are those of one histogram, which fits the estimates of
    all nodes best, each with the weight `1 / cost`. One pass up the tree and one down: the least
    cost below a node is a quadratic function `C (x - mu)**2` of the sum x of the parts above it.

    Args:
      queries: W.
      branching: b.
      costs: of the nodes of each level, > 0.
    """
    curvature, centre = costs[-1], queries
    below = []
    for cost in [*costs[-2::-1], np.zeros(1)]:  # the root is the constant, which costs nothing
        starts = np.arange(0, curvature.size, branching)
        # Children C_i (x - mu_i)**2 add up; the node itself takes a part r at the cost `cost r**2`.
        total = np.add.reduceat(curvature, starts)
        centre = np.add.reduceat(curvature * centre, starts, axis=1) / total
        below.append((total / (cost + total), centre))
        curvature = cost * total / (cost + total)
    above, parts = np.zeros((len(queries), 1)), []
    for slope, centre in reversed(below):  # the part that is best given the parts above
        parts.append(slope * (centre - above))
        above = _children(above + parts[-1], branching, costs[len(parts) - 1].size)
    return [*parts[1:], queries - above], parts[0][:, 0]


def interval_parts(queries: Float[np.ndarray, "m k"], branching: int, num_levels: int) -> Parts:
    """The decomposition into the largest intervals on which a query is constant.

    Args:
      queries: W.
      branching: b.
      num_levels: H.
    """
    values, parts = queries, []  # the value of each interval, NaN where there are several
    for _ in range(num_levels):
        size = values.shape[1]
        starts = np.arange(0, size, branching)
        low = np.minimum.reduceat(values, starts, axis=1)
        parents = np.where(low == np.maximum.reduceat(values, starts, axis=1), low, np.nan)
        # Constant here, and not on the parent: the interval is as large as it gets.
        alone = np.isnan(_children(parents, branching, size)) & ~np.isnan(values)
        parts.insert(0, np.where(alone, values, 0.0))
        values = parents
    return parts, np.nan_to_num(values[:, 0])


def _children(nodes: np.ndarray, branching: int, size: int) -> np.ndarray:
    """The entry of each node's parent, for a level of `size` nodes."""
    return np.repeat(nodes, branching, axis=1)[:, :size]
