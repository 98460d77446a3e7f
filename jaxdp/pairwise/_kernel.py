"""Kernels of U-statistics."""

import abc
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_choice, check_counts, check_int
from ._exact import Form, check_form, check_points, grouped, num_pairs
from ._grid import AnyGrid, Grid, ProductGrid, bin_indices, product_rows

Domain = int | tuple[int, ...] | Grid | ProductGrid

_CHUNK = 2**22  # kernel values held at a time


def identity(u, num_users):
    """The link of a statistic that is a U-statistic."""
    del num_users
    return u[..., 0]


class Kernel(abc.ABC):
    """A symmetric function of two users, and the statistic that it defines.

    The statistic of users `x_1 .. x_n` averages `f(x_i, x_j)` over the pairs of different users
    (`form="u"`, the U-statistic), or over all ordered pairs (`form="v"`). Some statistics are a
    smooth function of several such averages, of the kernels `functions`: `link` is that function.

    A subclass is a frozen, slotted dataclass.

    Attributes:
      dim: the number of coordinates of a value; None if values of any number of coordinates (then
        always on the last axis) are compared for equality.
      lipschitz: a Lipschitz constant of f in each argument, or None.
    """

    __slots__ = ()

    dim: int | None = 1
    lipschitz: float | None = None

    @abc.abstractmethod
    def __call__(self, x: Any, y: Any) -> Any:
        """f(x, y); vectorised. Where `dim` is above 1 the last axis holds the coordinates."""

    @property
    def functions(self) -> tuple[Callable, ...]:
        """The kernels that are averaged; f is the first."""
        return (self,)

    @property
    def link(self) -> Callable:
        """The statistic from the averages: `link(u: float[..., m], num_users) -> float[...]`."""
        return identity

    @property
    def is_linear(self) -> bool:
        """Whether the statistic is itself a U-statistic, so that it has an unbiased estimate."""
        return self.link is identity

    def matrix(self, domain: Domain, rule: str = "midpoint") -> np.ndarray:
        """The kernel on a finite domain.

        Rules for a grid, where the kernel is not constant on a bin:
          * "midpoint": halfway between the extremes of f on the two bins, which minimises the worst
            error.
          * "average": the mean of f over the two bins, which errs less when the users' density
            varies little within a bin.
          * "points": f at the points of randomized rounding, which are one more than bins per axis.

        Args:
          domain: a number of values k, which stand for 0 .. k-1; the shape of a table, whose cells
            stand for their indices; or a grid.
          rule: how f is put on a grid; not used otherwise.

        Returns:
          float64[k, k], symmetric; bins in row-major order.

        Raises:
          ValueError: the kernel does not fit the domain, or is not symmetric or finite on it.

        References:
          Bell, Bellet, Gascón, Kulkarni (2020), equations (14) and (15).
        """
        return self.matrices(domain, rule)[0]

    def matrices(self, domain: Domain, rule: str = "midpoint") -> np.ndarray:
        """The matrices of all `functions`, float64[m, k, k]; see `matrix`.

        On a grid, `rule` applies to the first; the others take the bins for values.
        """
        check_choice("rule", rule, ("midpoint", "average", "points"))
        shape = domain_shape(domain)
        self._check_shape(shape)
        bins = bin_indices(shape)
        if not isinstance(domain, AnyGrid):
            found = [self._on(bins, f) for f in self.functions]
        elif rule == "points":
            points = product_rows([axis.points for axis in domain.axes])
            found = [self._on(points, f) for f in self.functions]
        else:
            first = self._average(domain) if rule == "average" else self._midpoint(domain)
            found = [first, *(self._on(bins, f) for f in self.functions[1:])]
        return np.stack([check_matrix(m, "f") for m in found])

    def spread(self, domain: Domain) -> np.ndarray:
        """Delta: the squared half-range of f on each pair of bins; 0 on a domain that is no grid.

        With the midpoint rule, `sum_ij h_i h_j Delta_ij` bounds the squared quantisation error of
        users with histogram h. It is a U-statistic too, so that the reports at hand estimate it.

        Returns:
          float64[k, k].

        References:
          Bell, Bellet, Gascón, Kulkarni (2020), appendix A.2.1 and Remark 3.
        """
        shape = domain_shape(domain)
        self._check_shape(shape)
        if not isinstance(domain, AnyGrid):
            return np.zeros((math.prod(shape),) * 2)
        low, high = self._extremes(domain)
        return check_matrix((high - low) ** 2 / 4, "the spread of f")

    def of_counts(self, counts: Any, values: Any = None, form: Form = "u") -> float:
        """The statistic of users given by a histogram, without privacy.

        Args:
          counts: whole numbers; one axis for each coordinate. A bin stands for its index.
          values: float[counts.size] or float[counts.size, dim], what the bins stand for instead.
          form: "u" for pairs of different users, "v" for all pairs.

        Returns:
          The statistic.

        Raises:
          ValueError: the counts or values do not fit the kernel, or the statistic is undefined.
        """
        check_form(form)
        counts = check_counts(counts)
        num_pairs(int(counts.sum()), form)
        if values is None:
            self._check_shape(counts.shape)
            return self._of_table(counts, form)
        points = check_points(values, counts.size, self.dim)
        return self._of_points(points, counts.ravel(), form)

    def of_values(self, x: Any, form: Form = "u") -> float:
        """The statistic of users given one by one, without privacy.

        Args:
          x: float[n] or float[n, dim].
          form: "u" for pairs of different users, "v" for all pairs.

        Returns:
          The statistic.
        """
        if np.ndim(x) == 0 or len(x) == 0:
            raise ValueError(f"x must hold at least one user, got shape {np.shape(x)}.")
        return self.of_counts(np.ones(len(x), np.int64), values=x, form=form)

    def of_distribution(self, p: Any, values: Any = None) -> float:
        """The statistic of a distribution: `link` of the means of f over two independent users.

        Args:
          p: probabilities; one axis for each coordinate.
          values: as in `of_counts`.

        Returns:
          The statistic, in float64 arithmetic; O(k**2).
        """
        p = np.asarray(p, np.float64)
        if p.size == 0 or not np.all(p >= 0) or not math.isclose(p.sum(), 1, abs_tol=1e-6):
            raise ValueError("p must hold probabilities >= 0 that sum to 1.")
        if values is None:
            self._check_shape(p.shape)
            points = bin_indices(p.shape)
        else:
            points = check_points(values, p.size, self.dim)
        means = self._means(points, p.ravel(), pairs=1.0, without_self=0.0)
        return self.linked(means, math.inf)

    def _of_table(self, counts: np.ndarray, form: Form) -> float:
        """The statistic of a histogram whose bins stand for their indices."""
        return self._of_points(bin_indices(counts.shape), counts.ravel(), form)

    def _of_points(self, points: np.ndarray, counts: np.ndarray, form: Form) -> float:
        """The statistic of weighted rows float64[m, dim]."""
        points, counts = grouped(points, counts)
        pairs = num_pairs(int(counts.sum()), form)
        means = self._means(points, counts.astype(np.float64), pairs, float(form == "u"))
        return self.linked(means, float(counts.sum()))

    def _means(self, points, weights, pairs, without_self: float) -> np.ndarray:
        """The mean of each function over pairs of weighted rows, in float64 arithmetic."""
        means = []
        for f in self.functions:
            total = 0.0
            for row, block in _blocks(self, points, f):
                own = weights[row]
                total += own @ block @ weights
                total -= without_self * np.sum(own * np.diagonal(block, row.start))
            means.append(total / pairs)
        return np.array(means)

    def linked(self, means: np.ndarray, num_users: float) -> float:
        """`link` on the host, in float64."""
        with jax.enable_x64(True):
            return float(self.link(jnp.asarray(means, jnp.float64), jnp.float64(num_users)))

    def slopes(self, means: np.ndarray, num_users: float) -> np.ndarray:
        """The derivatives of the statistic in the averages, float64[m]; 1 if it is linear."""
        if self.is_linear:
            return np.ones(1)
        with jax.enable_x64(True):
            point, n = jnp.asarray(means), jnp.float64(num_users)
            return np.asarray(jax.grad(self.link)(point, n))

    def _on(self, points: np.ndarray, f: Callable) -> np.ndarray:
        """One of the functions on all pairs of rows."""
        return np.concatenate([block for _, block in _blocks(self, points, f)])

    def _midpoint(self, grid: AnyGrid) -> np.ndarray:
        low, high = self._extremes(grid)
        return (low + high) / 2

    def _extremes(self, grid: AnyGrid) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest f on each pair of bins, two float64[k, k]."""
        raise self._no_grid()

    def _average(self, grid: AnyGrid) -> np.ndarray:
        """The mean of f on each pair of bins, float64[k, k]."""
        raise self._no_grid()

    def _no_grid(self) -> ValueError:
        return ValueError(
            f"grid does not go with {type(self).__name__}, which compares values for equality; "
            "give num_values, the number of distinct values."
        )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Raises unless a domain of this shape has the kernel's coordinates."""
        if self.dim not in (None, len(shape)):
            raise ValueError(
                f"{type(self).__name__} compares values of {self.dim} coordinates, so its domain "
                f"must have {self.dim} axes, got shape {shape}."
            )


def domain_shape(domain: Any) -> tuple[int, ...]:
    """The number of bins along each axis of a domain, or raises unless it is one."""
    if isinstance(domain, AnyGrid):
        return domain.shape
    sizes = domain if isinstance(domain, tuple) and domain else (domain,)
    shape = tuple(check_int("num_values", size, low=1, high=2**30) for size in sizes)
    if math.prod(shape) < 2:
        raise ValueError(f"num_values must name at least 2 values, got {domain!r}.")
    return shape


def check_matrix(matrix: Any, name: str) -> np.ndarray:
    """Returns a kernel's matrix as float64, made exactly symmetric, or raises unless it is one."""
    array = np.asarray(matrix)
    if array.dtype == bool or np.issubdtype(array.dtype, np.integer):
        array = array.astype(np.float64)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{name} must be an array of real numbers, got dtype {array.dtype}.")
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] < 2:
        raise ValueError(f"{name} must be square, [k, k] with k >= 2, got shape {array.shape}.")
    array = array.astype(np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got NaN or inf.")
    gap = np.abs(array - array.T).max()
    if gap > 1e-9 * np.abs(array).max():
        raise ValueError(
            f"{name} must be symmetric, got two mirrored entries that differ by {gap:.3g}; average "
            "f(x, y) and f(y, x), which leaves the statistic as it is."
        )
    return (array + array.T) / 2


def linearised_error(
    kernel: Kernel, means: np.ndarray, num_users: int, truth: float, noise: Callable
) -> np.ndarray:
    """The mean squared error of a statistic of estimated averages, float64[]: by the delta method.

    Exact for linear kernels.

    Args:
      kernel: the statistic.
      means: float64[m], of the estimated averages.
      num_users: n.
      truth: what the error is measured against.
      noise: from factors float64[m] to the variance of that combination of the averages.
    """
    bias = kernel.linked(means, num_users) - truth
    return np.asarray(noise(kernel.slopes(means, num_users)) + bias**2)


def _blocks(kernel: Kernel, points: np.ndarray, f: Callable):
    """Slices of rows with f of them and of all rows, so many at a time as fit in memory."""
    if kernel.dim == 1:
        points = points[:, 0]
    step = max(1, _CHUNK // len(points))
    for start in range(0, len(points), step):
        row = slice(start, min(start + step, len(points)))
        block = np.asarray(f(points[row, None], points[None, :]))
        if block.shape != (row.stop - row.start, len(points)):
            raise ValueError(
                f"f must be vectorised: of arguments that broadcast to {len(points)} columns it "
                f"returned shape {block.shape}."
            )
        yield row, block.astype(np.float64)
