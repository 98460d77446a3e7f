"""Kendall's rank correlation."""

import math
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..._checks import Choice
from ..._contract import field, spec
from ._exact import Form, exact_dot, group_counts, grouped, num_pairs
from ._grid import AnyGrid, bin_indices
from ._kernel import Function, Kernel, Link, identity


@spec
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

    variant: Literal["a", "b"] = field(Choice("a", "b"), default="a")

    dim = 2

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """sgn(x_1 - y_1) sgn(x_2 - y_2), of coordinates on the last axis."""
        return _sign(x, y, 0) * _sign(x, y, 1)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The kernel; for variant b also those of the two coordinates' ties."""
        return (self, _first_differs, _second_differs) if self.variant == "b" else (self,)

    @property
    def link(self) -> Link:
        """The mean itself, or for variant b its ratio to the geometric mean of both shares."""
        return tau_b if self.variant == "b" else identity

    def _of_table(self, counts: Int[np.ndarray, "a b"], form: Form) -> float:
        rows = counts.sum(axis=1)
        columns = counts.sum(axis=0)
        below = np.zeros((rows.size, columns.size + 1), np.int64)  # users in earlier rows
        below[1:, 1:] = np.cumsum(np.cumsum(counts, axis=0)[:-1], axis=1)
        # Concordant: an earlier row and column. Discordant: an earlier row and a later column.
        before, after = below[:, :-1], below[:, -1:] - below[:, 1:]
        return self._ratio(exact_dot(counts, before - after), rows, columns, form)

    def _of_points(
        self, points: Float[np.ndarray, "m 2"], counts: Int[np.ndarray, " m"], form: Form
    ) -> float:
        points, counts = grouped(points, counts)  # ordered by the first coordinate, then the second
        _, first = np.unique(points[:, 0], return_inverse=True)
        _, second = np.unique(points[:, 1], return_inverse=True)
        rows = group_counts(first, counts, first.max() + 1)
        columns = group_counts(second, counts, second.max() + 1)
        n = int(counts.sum())
        tied_in_both = exact_dot(counts, counts - 1)
        # Knight (1966): C - D = (C + D) - 2 D, and the discordant pairs D are inversions.
        untied = n * (n - 1) - _tied(rows) - _tied(columns) + tied_in_both
        score = untied // 2 - 2 * inversions(second, counts)
        return self._ratio(score, rows, columns, form)

    def _ratio(self, score: int, rows: np.ndarray, columns: np.ndarray, form: Form) -> float:
        """The statistic from the concordant minus the discordant pairs, and the marginals."""
        n = int(rows.sum())
        if self.variant == "a":
            return 2 * score / num_pairs(n, form)
        # D_a n (n - 1) of both coordinates
        differ = [n * (n - 1) - _tied(margin) for margin in (rows, columns)]
        if not all(differ):
            raise ValueError(
                "counts must not have all users in one row or in one column: tau_b is undefined."
            )
        return 2 * score / (math.sqrt(differ[0]) * math.sqrt(differ[1]))

    def extremes(self, grid: AnyGrid) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, "k k"]]:
        """The least and the largest f on each pair of bins; exact.

        Coordinates in one bin may be in any order.
        """
        signs = []
        for index in bin_indices(grid.shape).T:
            order = np.sign(index[:, None] - index)
            signs.append((np.where(order == 0, -1.0, order), np.where(order == 0, 1.0, order)))
        # The product of two intervals of signs has its extremes at their ends.
        products = np.stack([a * b for a in signs[0] for b in signs[1]])
        return products.min(axis=0), products.max(axis=0)

    def average(self, grid: AnyGrid) -> Float[np.ndarray, "k k"]:
        """The midpoint: values in one bin are ties."""
        return self._midpoint(grid)


def tau_b(u: Float[Array, "*batch 3"], num_users: Float[Array, ""]) -> Float[Array, "*batch"]:
    """u_0 / sqrt(u_1 u_2), with the shares u_1 and u_2 of pairs that differ at least 2 / n."""
    shares = jnp.maximum(u[..., 1:], 2 / num_users)
    return u[..., 0] / jnp.sqrt(shares[..., 0] * shares[..., 1])


def inversions(ranks: Int[np.ndarray, " n"], weights: Int[np.ndarray, " n"]) -> int:
    """The weighted number of inversions, the sum of w_i w_j over i < j with r_i > r_j; exact.

    Elements are sorted by the bits of their rank, highest first, in stable order. Two elements
    invert at the first bit in which they differ; elements that agree so far are neighbours, so that
    one cumulative sum a bit counts them.

    Args:
      ranks: at least 0.
      weights: of sum at most 2**53.
    """
    total = 0
    for bit in reversed(range(int(ranks.max()).bit_length())):
        ones = weights * ((ranks >> bit) & 1)
        before = np.cumsum(ones) - ones
        starts = np.flatnonzero(np.diff(ranks >> (bit + 1), prepend=-1))
        sizes = np.diff(starts, append=ranks.size)
        # Ones of this bit that come before a zero of it, among equals in the higher bits
        total += exact_dot(weights - ones, before - np.repeat(before[starts], sizes))
        order = np.argsort(ranks >> bit, kind="stable")
        ranks, weights = ranks[order], weights[order]
    return total


def _tied(margin: Int[np.ndarray, " k"]) -> int:
    """The number of ordered pairs of different users in one bin."""
    return exact_dot(margin, margin - 1)


def _sign(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    return np.sign(x[..., axis] - y[..., axis])


def _first_differs(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x[..., 0] != y[..., 0]


def _second_differs(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x[..., 1] != y[..., 1]
