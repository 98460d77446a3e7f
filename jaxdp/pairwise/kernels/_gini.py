"""Dispersion and diversity."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..._contract import spec
from ._exact import Form, exact_dot, grouped, num_pairs
from ._grid import AnyGrid, boxes
from ._kernel import Domain, Function, Kernel, Link, Rule


@spec
class GiniMeanDifference(Kernel):
    """Gini's mean difference: the mean of `|x - y|` over pairs of users.

    Of bins without values it is computed in exact integer arithmetic, of real values in float64, by
    sorting: `sum_{i<j} |x_i - x_j| = sum_t (x_(t+1) - x_(t)) C_t (n - C_t)` with C_t the number of
    users up to the t-th distinct value.

    Example:
      >>> from jaxdp.pairwise import GiniMeanDifference
      >>> GiniMeanDifference().of_counts([3, 1, 4, 2, 5])
      1.7714285714285714

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), equation (4).
    """

    lipschitz = 1.0

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`|x - y|`."""
        return abs(x - y)

    def _of_table(self, counts: Int[np.ndarray, " k"], form: Form) -> float:
        below = np.cumsum(counts)[:-1]
        n = int(counts.sum())
        return 2 * exact_dot(below, n - below) / num_pairs(n, form)

    def _of_points(
        self, points: Float[np.ndarray, "m 1"], counts: Int[np.ndarray, " m"], form: Form
    ) -> float:
        points, counts = grouped(points, counts)
        below = np.cumsum(counts)[:-1].astype(np.float64)
        n = int(counts.sum())
        # sum_t (x_(t+1) - x_(t)) C_t (n - C_t), see the class
        total = math.fsum(np.diff(points[:, 0]) * below * (n - below))
        return 2 * total / num_pairs(n, form)

    def extremes(self, grid: AnyGrid) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, "k k"]]:
        """The least and the largest distance of each pair of bins; exact."""
        low, high = (corner[:, 0] for corner in boxes(grid))
        # Disjoint bins are apart by their gap; of one bin, or of overlapping ones, by 0 at least.
        nearest = np.maximum(low[:, None] - high, low - high[:, None])
        farthest = np.maximum(high[:, None] - low, high - low[:, None])
        return np.maximum(nearest, 0.0), farthest

    def average(self, grid: AnyGrid) -> Float[np.ndarray, "k k"]:
        """The mean distance of each pair of bins, a third of the width within a bin; exact."""
        low, high = (corner[:, 0] for corner in boxes(grid))
        middle = (low + high) / 2
        # E |x - y| of independent uniform values: of one bin of width w it is w / 3.
        return np.abs(middle[:, None] - middle) + np.diag(high - low) / 3


@spec
class GiniCoefficient(Kernel):
    """Gini's coefficient of inequality: half of the mean difference, divided by the mean.

    Values are at least 0; it is 0 where all are equal, and as a U-statistic 1 where one user has
    everything. It is the ratio `u_0 / (2 u_1)` of the mean u_0 of `|x - y|` over pairs and the mean
    u_1 of `(x + y) / 2`, which is the mean of the values. Estimates are by plug-in: consistent, not
    unbiased, with a variance that is predicted by the delta method. An estimate of u_1 below
    `|u_0| / 2`, where no data are, is raised to it: estimates are in [-1, 1].

    Reference values of bins are exact: integers throughout, one division at the end.

    Edge cases:
      =================================  =======================================================
      a negative value                   ValueError
      all values 0                       ValueError: undefined; of a distribution it is 0
      a grid that starts below 0         ValueError
      =================================  =======================================================

    Example:
      >>> from jaxdp.pairwise import GiniCoefficient
      >>> GiniCoefficient().of_counts([9, 1])  # one of ten has everything
      1.0

    References:
      Yitzhaki, Schechtman (2013), The Gini Methodology, chapter 2.
    """

    lipschitz = 1.0

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`|x - y|`."""
        return abs(x - y)

    @property
    def functions(self) -> tuple[Function, ...]:
        """`|x - y|`, and the mean of x and y."""
        return (self, _mean)

    @property
    def link(self) -> Link:
        """Half of the ratio of the means."""
        return half_ratio

    def matrices(self, domain: Domain, rule: Rule = "midpoint") -> Float[np.ndarray, "2 k k"]:
        """The matrices of both averages; see `Kernel.matrices`. A bin's mean is its middle."""
        matrices = Kernel.matrices(self, domain, rule)
        if isinstance(domain, AnyGrid):
            low, high = (corner[:, 0] for corner in boxes(domain))
            if low.min() < 0:
                raise ValueError(
                    f"grid must hold values >= 0, as Gini's coefficient asks, got low = "
                    f"{low.min():g}; use GiniMeanDifference for values of either sign."
                )
            if rule != "points":
                middle = (low + high) / 2
                matrices[1] = (middle[:, None] + middle) / 2
        return matrices

    def _of_table(self, counts: Int[np.ndarray, " k"], form: Form) -> float:
        below = np.cumsum(counts)[:-1]
        n, total = int(counts.sum()), exact_dot(counts, np.arange(counts.size))
        if total == 0:
            raise ValueError("counts must hold a user with a value above 0: all of them have 0.")
        # u_0 / (2 u_1) with u_0 = 2 sum_t C_t (n - C_t) / pairs and u_1 = total / n
        return exact_dot(below, n - below) / ((n - (form == "u")) * total)

    def _of_points(
        self, points: Float[np.ndarray, "m 1"], counts: Int[np.ndarray, " m"], form: Form
    ) -> float:
        if points.min() < 0:
            raise ValueError(
                f"values must be >= 0 for Gini's coefficient, got {points.min():g}; use "
                "GiniMeanDifference for values of either sign."
            )
        difference = GiniMeanDifference()._of_points(points, counts, form)
        total = math.fsum(points[:, 0] * counts)
        if total == 0:
            raise ValueError("values must not all be 0.")
        # u_0 / (2 u_1) with u_1 = total / n
        return difference * int(counts.sum()) / (2 * total)

    extremes = GiniMeanDifference.extremes
    average = GiniMeanDifference.average


def half_ratio(u: Float[Array, "*batch 2"], num_users: Float[Array, ""]) -> Float[Array, "*batch"]:
    """u_0 / (2 u_1), with the mean u_1 at least |u_0| / 2."""
    del num_users
    # |x - y| <= x + y, so u_1 is at least |u_0| / 2 for all data; `tiny` is for 0 / 0.
    least = jnp.maximum(abs(u[..., 0]) / 2, jnp.finfo(u.dtype).tiny)
    return u[..., 0] / (2 * jnp.maximum(u[..., 1], least))


def _mean(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x + y) / 2


@spec
class GiniDiversity(Kernel):
    """The Gini-Simpson index: the share of pairs of users whose values differ.

    Values are compared for equality, so the domain is any number of values, or a table of any
    shape, whose cells are the values; it has no quantised version. Exact integer arithmetic.

    Example:
      >>> from jaxdp.pairwise import GiniDiversity
      >>> GiniDiversity().of_counts([2, 2])
      0.6666666666666666
    """

    dim = None

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """1 where a coordinate differs, else 0."""
        return np.any(x != y, axis=-1).astype(np.float64)

    def _of_table(self, counts: Int[np.ndarray, "..."], form: Form) -> float:
        n = int(counts.sum())
        return exact_dot(counts, n - counts) / num_pairs(n, form)

    def _of_points(
        self, points: Float[np.ndarray, "m d"], counts: Int[np.ndarray, " m"], form: Form
    ) -> float:
        return self._of_table(grouped(points, counts)[1], form)


@spec
class CollisionEntropy(Kernel):
    """Rényi's entropy of order 2: minus the logarithm of the share of pairs with equal values.

    Values are compared for equality, as in `GiniDiversity`. The entropy is infinite where no two
    users agree. A private estimate of the share that is below the least positive one, of a single
    pair among n users, is raised to it: the estimated entropy is at most `ln(n (n - 1) / 2)`.

    Example:
      >>> from jaxdp.pairwise import CollisionEntropy
      >>> round(CollisionEntropy().of_counts([2, 2]), 6)  # ln 3
      1.098612

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), equation (5).
    """

    dim = None

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """1 where all coordinates agree, else 0."""
        return np.all(x == y, axis=-1).astype(np.float64)

    @property
    def link(self) -> Link:
        """Minus the logarithm of the mean."""
        return negative_log

    def _of_table(self, counts: Int[np.ndarray, "..."], form: Form) -> float:
        # sum_v c_v (c_v - 1) ordered pairs of different users agree, sum_v c_v**2 of all
        pairs, equal = num_pairs(int(counts.sum()), form), exact_dot(counts, counts - (form == "u"))
        return math.log(pairs) - math.log(equal) if equal else math.inf

    def _of_points(
        self, points: Float[np.ndarray, "m d"], counts: Int[np.ndarray, " m"], form: Form
    ) -> float:
        return self._of_table(grouped(points, counts)[1], form)


def negative_log(
    u: Float[Array, "*batch 1"], num_users: Float[Array, ""]
) -> Float[Array, "*batch"]:
    """-ln(u), with u raised to the share of a single pair where it is less."""
    return -jnp.log(jnp.maximum(u[..., 0], 2 / (num_users * (num_users - 1))))
