"""Dispersion and diversity."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np

from ._exact import Form, exact_dot, grouped, num_pairs
from ._grid import AnyGrid, boxes
from ._kernel import Kernel


@dataclasses.dataclass(frozen=True, slots=True)
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

    def __call__(self, x, y):
        """`|x - y|`."""
        return abs(x - y)

    def _of_table(self, counts, form: Form):
        below = np.cumsum(counts)[:-1]
        n = int(counts.sum())
        return 2 * exact_dot(below, n - below) / num_pairs(n, form)

    def _of_points(self, points, counts, form):
        points, counts = grouped(points, counts)
        below = np.cumsum(counts)[:-1].astype(np.float64)
        n = int(counts.sum())
        total = math.fsum(np.diff(points[:, 0]) * below * (n - below))
        return 2 * total / num_pairs(n, form)

    def _extremes(self, grid):
        low, high = (corner[:, 0] for corner in boxes(grid))
        nearest = np.maximum(low[:, None] - high, low - high[:, None])
        farthest = np.maximum(high[:, None] - low, high - low[:, None])
        return np.maximum(nearest, 0.0), farthest

    def _average(self, grid):
        low, high = (corner[:, 0] for corner in boxes(grid))
        middle = (low + high) / 2
        return np.abs(middle[:, None] - middle) + np.diag(high - low) / 3


@dataclasses.dataclass(frozen=True, slots=True)
class GiniCoefficient(Kernel):
    """Gini's coefficient of inequality: half of the mean difference, divided by the mean.

    Values are at least 0; it is 0 where all are equal, and as a U-statistic 1 where one user has
    everything. It is the ratio `u_0 / (2 u_1)` of the mean u_0 of `|x - y|` over pairs and of that,
    u_1, of `(x + y) / 2`, which is the mean of the values. Estimates are by plug-in: consistent,
    not unbiased, with a variance that is predicted by the delta method. An estimate of u_1 below
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

    def __call__(self, x, y):
        """`|x - y|`."""
        return abs(x - y)

    @property
    def functions(self):
        """`|x - y|`, and the mean of x and y."""
        return (self, _mean)

    @property
    def link(self):
        """Half of the ratio of the means."""
        return half_ratio

    def matrices(self, domain, rule="midpoint"):
        """The matrices of both averages; see `Kernel.matrices`. A bin's mean is its middle."""
        found = super(GiniCoefficient, self).matrices(domain, rule)
        if isinstance(domain, AnyGrid):
            low, high = (corner[:, 0] for corner in boxes(domain))
            if low.min() < 0:
                raise ValueError(
                    f"grid must hold values >= 0, as Gini's coefficient asks, got low = "
                    f"{low.min():g}; use GiniMeanDifference for values of either sign."
                )
            if rule != "points":
                middle = (low + high) / 2
                found[1] = (middle[:, None] + middle) / 2
        return found

    def _of_table(self, counts, form: Form):
        below = np.cumsum(counts)[:-1]
        n, total = int(counts.sum()), exact_dot(counts, np.arange(counts.size))
        if total == 0:
            raise ValueError("counts must hold a user with a value above 0: all of them have 0.")
        return exact_dot(below, n - below) / ((n - (form == "u")) * total)

    def _of_points(self, points, counts, form):
        if points.min() < 0:
            raise ValueError(
                f"values must be >= 0 for Gini's coefficient, got {points.min():g}; use "
                "GiniMeanDifference for values of either sign."
            )
        difference = GiniMeanDifference()._of_points(points, counts, form)
        total = math.fsum(points[:, 0] * counts)
        if total == 0:
            raise ValueError("values must not all be 0.")
        return difference * int(counts.sum()) / (2 * total)

    _extremes = GiniMeanDifference._extremes
    _average = GiniMeanDifference._average


def half_ratio(u, num_users):
    """u_0 / (2 u_1), with the mean u_1 at least |u_0| / 2."""
    del num_users
    least = jnp.maximum(abs(u[..., 0]) / 2, jnp.finfo(u.dtype).tiny)
    return u[..., 0] / (2 * jnp.maximum(u[..., 1], least))


def _mean(x, y):
    return (x + y) / 2


@dataclasses.dataclass(frozen=True, slots=True)
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

    def __call__(self, x, y):
        """1 where a coordinate differs, else 0."""
        return np.any(x != y, axis=-1).astype(np.float64)

    def _of_table(self, counts, form: Form):
        n = int(counts.sum())
        return exact_dot(counts, n - counts) / num_pairs(n, form)

    def _of_points(self, points, counts, form):
        return self._of_table(grouped(points, counts)[1], form)


@dataclasses.dataclass(frozen=True, slots=True)
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

    def __call__(self, x, y):
        """1 where all coordinates agree, else 0."""
        return np.all(x == y, axis=-1).astype(np.float64)

    @property
    def link(self):
        """Minus the logarithm of the mean."""
        return negative_log

    def _of_table(self, counts, form: Form):
        pairs, equal = num_pairs(int(counts.sum()), form), exact_dot(counts, counts - (form == "u"))
        return math.log(pairs) - math.log(equal) if equal else math.inf

    def _of_points(self, points, counts, form):
        return self._of_table(grouped(points, counts)[1], form)


def negative_log(u, num_users):
    """-ln(u), with u raised to the share of a single pair where it is less."""
    return -jnp.log(jnp.maximum(u[..., 0], 2 / (num_users * (num_users - 1))))
