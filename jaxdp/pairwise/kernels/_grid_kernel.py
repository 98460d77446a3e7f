"""A kernel of real values on the bins of a grid."""

from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ..._checks import By, Choice, Instance
from ..._contract import field, spec
from ._exact import Form, num_pairs
from ._grid import Grid, ProductGrid
from ._kernel import Domain, Function, Kernel, Link, Rule, check_matrix, domain_shape


def _kernel(name: str, value: object) -> Kernel:
    if not isinstance(value, Kernel) or value.num_bins is not None:
        raise TypeError(f"{name} must be a kernel of real values, got {value!r}.")
    return value


@spec
class GridKernel(Kernel):
    """The kernel of real values, on the bins of a grid that stand for them.

    Its matrices are those of the kernel on the grid: any protocol on bins estimates with it what
    `OnGrid` asks of users who hold real values.

    Args:
      kernel: of real values.
      grid: the bins.
      rule: how the kernel is put on the bins, "midpoint" or "average"; see `Kernel.matrix`.

    Raises:
      ValueError: the kernel does not fit the grid.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.pairwise import GiniMeanDifference, Grid, GridKernel
      >>> GridKernel(GiniMeanDifference(), Grid.uniform(2)).matrix(2).tolist()
      [[0.25, 0.5], [0.5, 0.25]]
    """

    kernel: Kernel = field(By(_kernel, (3, "none", None)))
    grid: Grid | ProductGrid = field(Instance((Grid, ProductGrid), "a Grid or a ProductGrid"))
    rule: Literal["midpoint", "average"] = field(Choice("midpoint", "average"), default="midpoint")

    dim = None

    def validate(self) -> None:
        """Raises ValueError unless the kernel fits the grid."""
        self.matrices(self.num_bins)

    @property
    def num_bins(self) -> int:
        """The number of bins of the grid."""
        return self.grid.num_bins

    @property
    def functions(self) -> tuple[Function, ...]:
        """Each average's matrix at a pair of bins."""
        return tuple(lambda x, y, w=w: w[x, y] for w in self.matrices(self.num_bins))

    @property
    def link(self) -> Link:
        """The kernel's."""
        return self.kernel.link

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The first matrix at pairs of bins, integers."""
        return self.matrices(self.num_bins)[0][x, y]

    def matrices(self, domain: Domain, rule: Rule = "midpoint") -> Float[np.ndarray, "m k k"]:
        """The matrices on the grid, on any domain of as many bins."""
        del rule
        self._check_shape(domain_shape(domain))
        return self.kernel.matrices(self.grid, self.rule)

    def spread(self, domain: Domain) -> Float[np.ndarray, "k k"]:
        """The squared half-range of f on each pair of bins of the grid."""
        self._check_shape(domain_shape(domain))
        low, high = self.kernel.extremes(self.grid)
        return check_matrix((high - low) ** 2 / 4, "the spread of f")

    def of_distribution(self, p: ArrayLike, values: ArrayLike | None = None) -> float:
        """The statistic of a distribution over the bins; see `Kernel.of_distribution`."""
        if values is not None:
            raise self._no_values()
        p = np.asarray(p, np.float64)
        self._check_shape(p.shape)
        return self.linked(self.matrices(self.num_bins) @ p.ravel() @ p.ravel(), np.inf)

    def _of_table(self, counts: Int[np.ndarray, "..."], form: Form) -> float:
        flat, matrices = counts.ravel().astype(np.float64), self.matrices(self.num_bins)
        totals = matrices @ flat @ flat
        if form == "u":
            totals = totals - np.diagonal(matrices, axis1=1, axis2=2) @ flat
        n = int(counts.sum())
        return self.linked(totals / num_pairs(n, form), float(n))

    def _of_points(
        self, points: Float[np.ndarray, "m dim"], counts: Int[np.ndarray, " m"], form: Form
    ) -> float:
        raise self._no_values()

    def _no_values(self) -> ValueError:
        return ValueError(
            "values must be None: bins of a grid stand for themselves; the kernel of values is "
            "the field `kernel`."
        )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if np.prod(shape) != self.num_bins:
            raise ValueError(
                f"num_values, the domain, must have the {self.num_bins} bins of the kernel's grid, "
                f"got shape {tuple(shape)}."
            )


def on_bins(kernel: Kernel, grid: Grid | ProductGrid) -> tuple[Kernel, tuple[int, ...] | None]:
    """The kernel on the bins of a grid, and the domain that protocols need with it.

    The kernel itself where bins may stand for their indices.
    """
    if np.array_equal(kernel.matrices(grid), kernel.matrices(grid.shape)):
        return kernel, grid.shape
    return GridKernel(kernel, grid), None
