"""Kernels of U-statistics."""

import abc
import math
from collections.abc import Callable, Iterator
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from ..._checked import Checked
from ..._spec import as_array, check_choice, check_counts, check_int
from ._exact import FORM, Form, check_points, grouped, num_pairs
from ._grid import AnyGrid, bin_indices, boxes, product_rows

Domain = int | tuple[int, ...] | AnyGrid
"""A number of values, the shape of a table whose cells are the values, or a grid."""

Rule = Literal["midpoint", "average", "points"]
Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
Link = Callable[[Array, Array], Array]

_CHUNK = 2**22  # kernel values held at a time
_NODES = {1: 16, 2: 6}  # per coordinate, for averages
_MESH = {1: 17, 2: 5}  # per coordinate, for extremes

_MAX_ENTRIES = 2**28  # of a matrix; what workloads have at most, too
_LARGEST = 1e100  # of a matrix: squares of sums of entries do not overflow


def identity(u: Float[Array, "*batch m"], num_users: Float[Array, ""]) -> Float[Array, "*batch"]:
    """The link of a statistic that is a U-statistic."""
    del num_users
    return u[..., 0]


class Kernel(Checked):
    """Base of kernels: a symmetric function f of two users, and the statistic that it defines.

    The statistic of users `x_1 .. x_n` averages `f(x_i, x_j)` over the pairs of different users
    (`form="u"`, the U-statistic), or over all ordered pairs (`form="v"`). Some statistics are a
    smooth function of several such averages, of the kernels `functions`: `link` is that function.

    A subclass is made by `jaxdp.engine.spec` and gives `__call__`; such a kernel works wherever one
    of ours does. It may override `dim`, `functions` and `link`, and, for grids, `extremes` and
    `average`, which take f at points of each bin otherwise.

    On a grid, averages over a pair of bins take 16 Gauss-Legendre nodes per coordinate (6 in the
    plane): exact for polynomials of degree up to 31 (11) in each coordinate, and within
    `pi L w / 32` for an L-Lipschitz f in one coordinate and bins of width w. Extremes are those on
    a mesh that includes the corners, 17 values per coordinate (5 in the plane): exact where f is
    monotone in each coordinate on each bin; given `lipschitz`, they include what a mesh can miss.

    Attributes:
      dim: the number of coordinates of a value, 1 or 2; None if values of any number of coordinates
        (then always on the last axis) are compared for equality.
      lipschitz: a Lipschitz constant of f in each argument, or None.
      has_labels: whether the first coordinate is a label, 0 or 1, and both must occur.
    """

    __slots__ = ()

    dim: int | None = 1
    lipschitz: float | None = None
    has_labels: bool = False

    @abc.abstractmethod
    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """f(x, y); vectorised. Where `dim` is above 1 the last axis holds the coordinates."""

    @property
    def functions(self) -> tuple[Function, ...]:
        """The kernels that are averaged; f is the first."""
        return (self,)

    @property
    def link(self) -> Link:
        """The statistic from the averages: `link(u: float[..., m], num_users) -> float[...]`."""
        return identity

    @property
    def is_linear(self) -> bool:
        """Whether the statistic is itself a U-statistic, so that it has an unbiased estimate."""
        return self.link is identity

    @property
    def num_bins(self) -> int | None:
        """The number of values of the only domain that the kernel is for; None for any domain."""
        return None

    def matrix(self, domain: Domain, rule: Rule = "midpoint") -> Float[np.ndarray, "k k"]:
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
          A symmetric matrix; bins in row-major order.

        Raises:
          ValueError: the kernel does not fit the domain, or is not symmetric or finite on it.

        References:
          Bell, Bellet, Gascón, Kulkarni (2020), equations (14) and (15).
        """
        return self.matrices(domain, rule)[0]

    def matrices(self, domain: Domain, rule: Rule = "midpoint") -> Float[np.ndarray, "m k k"]:
        """The matrices of all `functions`; see `matrix`.

        On a grid, `rule` applies to the first; the others take the bins for values.
        """
        check_choice("rule", rule, ("midpoint", "average", "points"))
        shape = domain_shape(domain)
        self._check_shape(shape)
        if math.prod(shape) ** 2 > _MAX_ENTRIES:
            raise ValueError(
                f"num_values must be at most 2**14 in all for the matrix of a kernel, got {shape}: "
                "it would have more than 2**28 entries; take a coarser grid."
            )
        bins = bin_indices(shape)
        if not isinstance(domain, AnyGrid):
            tables = [self._on(bins, f) for f in self.functions]
        elif rule == "points":
            points = product_rows([axis.points for axis in domain.axes])
            tables = [self._on(points, f) for f in self.functions]
        else:
            first = self.average(domain) if rule == "average" else self._midpoint(domain)
            tables = [first, *(self._on(bins, f) for f in self.functions[1:])]
        return np.stack([check_matrix(table, "f") for table in tables])

    def spread(self, domain: Domain) -> Float[np.ndarray, "k k"]:
        """Delta: the squared half-range of f on each pair of bins; 0 on a domain that is no grid.

        With the midpoint rule, `sum_ij h_i h_j Delta_ij` bounds the squared quantisation error of
        users with histogram h. It is a U-statistic too, so that the reports at hand estimate it.

        References:
          Bell, Bellet, Gascón, Kulkarni (2020), appendix A.2.1 and Remark 3.
        """
        shape = domain_shape(domain)
        self._check_shape(shape)
        if not isinstance(domain, AnyGrid):
            return np.zeros((math.prod(shape),) * 2)
        low, high = self.extremes(domain)
        return check_matrix((high - low) ** 2 / 4, "the spread of f")

    def extremes(self, grid: AnyGrid) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, "k k"]]:
        """The least and the largest f on each pair of bins, found on a mesh; see the class.

        Raises:
          ValueError: values are compared for equality, or a bin is unbounded.
        """
        least, most = [], []
        size = _MESH[len(grid.axes)]
        for values in self._sampled(grid, np.linspace(0, 1, size)):
            least.append(values.min((1, 2)))
            most.append(values.max((1, 2)))
        low, high = np.stack(least), np.stack(most)
        if self.lipschitz is None:
            return low, high
        lower, upper = boxes(grid)
        # No point is further from the mesh than half a mesh step in each coordinate.
        missed = self.lipschitz * np.sum(upper - lower, axis=1) / (2 * (size - 1))
        return low - missed[:, None] - missed, high + missed[:, None] + missed

    def average(self, grid: AnyGrid) -> Float[np.ndarray, "k k"]:
        """The mean of f on each pair of bins, by quadrature; see the class.

        Raises:
          ValueError: values are compared for equality, or a bin is unbounded.
        """
        dim = len(grid.axes)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES[dim])
        # Gauss-Legendre on [0, 1]**dim: half the weights of [-1, 1] for each coordinate
        weights = product_rows([weights / 2] * dim).prod(axis=1)
        values = self._sampled(grid, (nodes + 1) / 2)
        return np.stack([np.einsum("jst,s,t->j", v, weights, weights) for v in values])

    def of_counts(
        self, counts: ArrayLike, values: ArrayLike | None = None, form: Form = "u"
    ) -> float:
        """The statistic of users given by a histogram, without privacy.

        Args:
          counts: whole numbers; one axis for each coordinate. A bin stands for its index.
          values: float[counts.size] or float[counts.size, dim], what the bins stand for instead.
          form: "u" for pairs of different users, "v" for all pairs.

        Raises:
          ValueError: the counts or values do not fit the kernel, or the statistic is undefined.
        """
        FORM("form", form)
        counts = check_counts(counts)
        num_pairs(int(counts.sum()), form)
        if values is None:
            self._check_shape(counts.shape)
            return self._of_table(counts, form)
        points = check_points(values, counts.size, self.dim)
        return self._of_points(points, counts.ravel(), form)

    def of_values(self, x: ArrayLike, form: Form = "u") -> float:
        """The statistic of users given one by one, without privacy.

        Args:
          x: float[n] or float[n, dim].
          form: "u" for pairs of different users, "v" for all pairs.
        """
        size = np.shape(x)[0] if np.ndim(x) else 0
        if size == 0:
            raise ValueError(f"x must hold at least one user, got shape {np.shape(x)}.")
        return self.of_counts(np.ones(size, np.int64), values=x, form=form)

    def of_distribution(self, p: ArrayLike, values: ArrayLike | None = None) -> float:
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

    def linked(self, means: Float[np.ndarray, " m"], num_users: float) -> float:
        """`link` on the host, in float64."""
        with jax.enable_x64(True):
            return float(self.link(jnp.asarray(means, jnp.float64), jnp.float64(num_users)))

    def slopes(self, means: Float[np.ndarray, " m"], num_users: float) -> Float[np.ndarray, " m"]:
        """The derivatives of the statistic in the averages; 1 if it is linear."""
        if self.is_linear:
            return np.ones(1)
        with jax.enable_x64(True):
            point, n = jnp.asarray(means), jnp.float64(num_users)
            return np.asarray(jax.grad(self.link)(point, n))

    def _of_table(self, counts: Int[np.ndarray, "..."], form: Form) -> float:
        """The statistic of a histogram whose bins stand for their indices."""
        return self._of_points(bin_indices(counts.shape), counts.ravel(), form)

    def _of_points(
        self, points: Float[np.ndarray, "m dim"], counts: Int[np.ndarray, " m"], form: Form
    ) -> float:
        """The statistic of weighted rows."""
        points, counts = grouped(points, counts)
        pairs = num_pairs(int(counts.sum()), form)
        means = self._means(points, counts.astype(np.float64), pairs, float(form == "u"))
        return self.linked(means, float(counts.sum()))

    def _means(
        self, points: np.ndarray, weights: np.ndarray, pairs: float, without_self: float
    ) -> Float[np.ndarray, " m"]:
        """The mean of each function over pairs of weighted rows, in float64 arithmetic."""
        means = []
        for f in self.functions:
            total = 0.0
            for rows, block in _blocks(self, points, f):
                total += weights[rows] @ block @ weights
                # Pairs of a user with itself, on the diagonal of these rows
                total -= without_self * np.sum(weights[rows] * np.diagonal(block, rows.start))
            means.append(total / pairs)
        return np.array(means)

    def _on(self, points: np.ndarray, f: Function) -> Float[np.ndarray, "m m"]:
        """One of the functions on all pairs of rows."""
        return np.concatenate([block for _, block in _blocks(self, points, f)])

    def _midpoint(self, grid: AnyGrid) -> Float[np.ndarray, "k k"]:
        low, high = self.extremes(grid)
        return (low + high) / 2

    def _sampled(
        self, grid: AnyGrid, nodes: Float[np.ndarray, " n"]
    ) -> Iterator[Float[np.ndarray, "k s s"]]:
        """The values of f at nodes of [0, 1] placed in each pair of bins, a first bin at a time."""
        if self.dim is None:
            raise ValueError(
                f"grid does not go with {type(self).__name__}, which compares values for equality; "
                "give num_values, the number of distinct values."
            )
        low, high = boxes(grid)
        unit = product_rows([nodes] * self.dim)
        points = low[:, None] + unit * (high - low)[:, None]
        if self.dim == 1:
            points = points[..., 0]
        for first in points:
            values = np.asarray(self(first[None, :, None], points[:, None]), np.float64)
            if values.shape != (len(points), len(unit), len(unit)):
                raise ValueError(f"f must be vectorised, got a result of shape {values.shape}.")
            yield values

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Raises unless a domain of this shape has the kernel's coordinates."""
        if self.dim not in (None, len(shape)):
            raise ValueError(
                f"{type(self).__name__} compares values of {self.dim} coordinates, so "
                f"num_values must have {self.dim} axes, got shape {shape}."
            )


def domain_shape(domain: Domain | None) -> tuple[int, ...]:
    """The number of bins along each axis of a domain, or raises unless it is one."""
    if isinstance(domain, AnyGrid):
        return domain.shape
    sizes = domain if isinstance(domain, tuple) and domain else (domain,)
    shape = tuple(check_int("num_values", size, low=1, high=2**30) for size in sizes)
    if math.prod(shape) < 2:
        raise ValueError(f"num_values must name at least 2 values, got {domain!r}.")
    return shape


def check_matrix(matrix: ArrayLike, name: str) -> Float[np.ndarray, "k k"]:
    """Returns a kernel's matrix as float64, made exactly symmetric, or raises unless it is one."""
    array = as_array(name, matrix)
    if array.dtype == bool or np.issubdtype(array.dtype, np.integer):
        array = array.astype(np.float64)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{name} must be an array of real numbers, got dtype {array.dtype}.")
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] < 2:
        raise ValueError(f"{name} must be square, [k, k] with k >= 2, got shape {array.shape}.")
    array = array.astype(np.float64)
    largest = max(array.max(), -array.min())
    if not np.isfinite(largest):
        raise ValueError(f"{name} must be finite, got NaN or inf.")
    if largest > _LARGEST:
        raise ValueError(
            f"{name} must have entries of at most {_LARGEST:g}, got {largest:g}; divide it by a "
            "number."
        )
    if np.array_equal(array, array.T):
        return array
    gap = np.abs(array - array.T).max()
    if gap > 1e-9 * largest:
        raise ValueError(
            f"{name} must be symmetric, got two mirrored entries that differ by {gap:.3g}; average "
            "f(x, y) and f(y, x), which leaves the statistic as it is."
        )
    return (array + array.T) / 2


def linearised_error(
    kernel: Kernel,
    means: Float[np.ndarray, " m"],
    num_users: int,
    truth: float,
    noise: Callable[[Float[np.ndarray, " m"]], float],
) -> Float[np.ndarray, ""]:
    """The mean squared error of a statistic of estimated averages, by the delta method.

    Exact for linear kernels.

    Args:
      kernel: the statistic.
      means: of the estimated averages.
      num_users: n.
      truth: what the error is measured against.
      noise: from factors to the variance of that combination of the averages.
    """
    bias = kernel.linked(means, num_users) - truth
    # link(u + e) is link(u) + slopes . e to first order, and the mean of e is 0.
    return np.asarray(noise(kernel.slopes(means, num_users)) + bias**2)


def _blocks(
    kernel: Kernel, points: Float[np.ndarray, "m dim"], f: Function
) -> Iterator[tuple[slice, Float[np.ndarray, "b m"]]]:
    """Slices of rows with f of them and of all rows, so many at a time as fit in memory."""
    if kernel.dim == 1:
        points = points[:, 0]
    step = max(1, _CHUNK // len(points))
    for start in range(0, len(points), step):
        rows = slice(start, min(start + step, len(points)))
        block = np.asarray(f(points[rows, None], points[None, :]))
        if block.shape != (rows.stop - rows.start, len(points)):
            raise ValueError(
                f"f must be vectorised: of arguments that broadcast to {len(points)} columns it "
                f"returned shape {block.shape}."
            )
        yield rows, block.astype(np.float64)
