"""Kendall's rank correlation."""

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._spec import check_choice
from ._exact import Form, exact_dot, group_counts, grouped, num_pairs
from ._grid import bin_indices
from ._kernel import Kernel, identity


@dataclasses.dataclass(frozen=True, slots=True)
class KendallTau(Kernel):
    """Kendall's rank correlation of the two coordinates of the users' values.

    The kernel is `sgn(x_1 - y_1) sgn(x_2 - y_2)`, so a pair that ties in a coordinate counts 0.

    Variants:
      * "a": the mean of the kernel over all pairs, tied ones included; the U-statistic.
      * "b": tau_a divided by `sqrt(D_1 D_2)`, where `D_a` is the share of pairs that differ in
        coordinate a; it reaches +-1 in spite of ties. Since `D_a = (1 - sum h_a**2) n / (n - 1)`
        for the marginal histogram h_a, this is the same number for either form. A private estimate
        divides by private marginals (*plug-in*): it is consistent, not unbiased, and its predicted
        variance is that of its linearisation (delta method). Estimates of D_a below 2/n, the least
        of n users that do not all agree, are raised to it.

    On a grid, values in one bin are ties.

    Reference values are exact: integers throughout, one division at the end; by cumulative sums of
    a table, or by Knight's algorithm in O(n log n) for values given one by one.

    Args:
      variant: "a" or "b".

    Raises:
      ValueError: the variant is unknown.

    Example:
      >>> from jaxdp.pairwise import KendallTau
      >>> table = [[4, 1], [2, 3]]
      >>> KendallTau().of_counts(table)
      0.2222222222222222
      >>> round(KendallTau(variant="b").of_counts(table), 6)
      0.408248

    References:
      Kendall (1945), The treatment of ties in ranking problems; Knight (1966), A computer method
      for calculating Kendall's tau with ungrouped data; Bell, Bellet, Gascón, Kulkarni (2020),
      equation (6).
    """

    variant: str = "a"

    dim = 2

    def __post_init__(self):
        check_choice("variant", self.variant, ("a", "b"))

    def __call__(self, x, y):
        """sgn(x_1 - y_1) sgn(x_2 - y_2), of coordinates on the last axis."""
        return _sign(x, y, 0) * _sign(x, y, 1)

    @property
    def functions(self):
        """The kernel; for variant b also those of the two coordinates' ties."""
        return (self, _first_differs, _second_differs) if self.variant == "b" else (self,)

    @property
    def link(self):
        """The mean itself, or for variant b its ratio to the geometric mean of both shares."""
        return tau_b if self.variant == "b" else identity

    def _of_table(self, counts, form: Form):
        rows = counts.sum(axis=1)
        columns = counts.sum(axis=0)
        below = np.zeros((rows.size, columns.size + 1), np.int64)  # users in earlier rows
        below[1:, 1:] = np.cumsum(np.cumsum(counts, axis=0)[:-1], axis=1)
        before, after = below[:, :-1], below[:, -1:] - below[:, 1:]
        return self._ratio(exact_dot(counts, before - after), rows, columns, form)

    def _of_points(self, points, counts, form):
        points, counts = grouped(points, counts)  # ordered by the first coordinate, then the second
        _, first = np.unique(points[:, 0], return_inverse=True)
        _, second = np.unique(points[:, 1], return_inverse=True)
        rows = group_counts(first, counts, first.max() + 1)
        columns = group_counts(second, counts, second.max() + 1)
        n = int(counts.sum())
        tied_in_both = exact_dot(counts, counts - 1)
        untied = n * (n - 1) - _tied(rows) - _tied(columns) + tied_in_both
        score = untied // 2 - 2 * inversions(second, counts)
        return self._ratio(score, rows, columns, form)

    def _ratio(self, score: int, rows: np.ndarray, columns: np.ndarray, form: Form) -> float:
        """The statistic from the concordant minus the discordant pairs, and the marginals."""
        n = int(rows.sum())
        if self.variant == "a":
            return 2 * score / num_pairs(n, form)
        differ = [n * (n - 1) - _tied(margin) for margin in (rows, columns)]
        if not all(differ):
            raise ValueError(
                "counts must not have all users in one row or in one column: tau_b is undefined."
            )
        return 2 * score / (math.sqrt(differ[0]) * math.sqrt(differ[1]))

    def _extremes(self, grid):
        signs = []
        for index in bin_indices(grid.shape).T:
            order = np.sign(index[:, None] - index)
            signs.append((np.where(order == 0, -1.0, order), np.where(order == 0, 1.0, order)))
        products = np.stack([a * b for a in signs[0] for b in signs[1]])
        return products.min(axis=0), products.max(axis=0)

    def _average(self, grid):
        return self._midpoint(grid)


def tau_b(u, num_users):
    """u_0 / sqrt(u_1 u_2), with the shares u_1 and u_2 of pairs that differ at least 2 / n."""
    shares = jnp.maximum(u[..., 1:], 2 / num_users)
    return u[..., 0] / jnp.sqrt(shares[..., 0] * shares[..., 1])


def inversions(ranks: np.ndarray, weights: np.ndarray) -> int:
    """The weighted number of inversions, the sum of w_i w_j over i < j with r_i > r_j; exact.

    Elements are sorted by the bits of their rank, highest first, in stable order. Two elements
    invert at the first bit in which they differ; elements that agree so far are neighbours, so that
    one cumulative sum a bit counts them.

    Args:
      ranks: int[n], at least 0.
      weights: int[n], of sum at most 2**53.
    """
    total = 0
    for bit in reversed(range(int(ranks.max()).bit_length())):
        ones = weights * ((ranks >> bit) & 1)
        before = np.cumsum(ones) - ones
        starts = np.flatnonzero(np.diff(ranks >> (bit + 1), prepend=-1))
        sizes = np.diff(starts, append=ranks.size)
        total += exact_dot(weights - ones, before - np.repeat(before[starts], sizes))
        order = np.argsort(ranks >> bit, kind="stable")
        ranks, weights = ranks[order], weights[order]
    return total


def _tied(margin: np.ndarray) -> int:
    """The number of ordered pairs of different users in one bin."""
    return exact_dot(margin, margin - 1)


def _sign(x: Any, y: Any, axis: int):
    return np.sign(x[..., axis] - y[..., axis])


def _first_differs(x, y):
    return x[..., 0] != y[..., 0]


def _second_differs(x, y):
    return x[..., 1] != y[..., 1]
