"""Statistics of pairs of users who hold real values, by any protocol on the bins of a grid."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32
from numpy.typing import ArrayLike

from .._checks import By, Instance
from .._contract import (
    Collect,
    Interactive,
    Kernels,
    Params,
    Spec,
    Step,
    TallyLaw,
    Through,
    Tree,
    Words,
    Work,
    field,
    params,
    round_of,
    spec,
)
from .._prediction import Kind, Prediction
from .._spec import check_counts, check_int, check_probabilities, is_traced
from ..population import DistributionSource, Population
from ..random import Count
from ._auc_protocol import AUCProtocol
from ._protocol import PairwiseProtocol
from .auc._hierarchical_auc import HierarchicalAUC
from .kernels._exact import Form, num_pairs
from .kernels._grid import Grid, ProductGrid
from .kernels._grid_kernel import GridKernel
from .kernels._kernel import Kernel
from .oracles._symbols import Symbols, bin_of, check_limits, coordinates_of, traced_search

_ROUNDING = 1e-5  # a bias that is no more than that of vectors rounded to float32


def _protocol(name: str, value: object) -> PairwiseProtocol[Any] | AUCProtocol[Any]:
    if not isinstance(value, (PairwiseProtocol, AUCProtocol)):
        raise TypeError(
            f"{name} must be a protocol on bins such as OneReport, got {value!r}; QuantizedRR has "
            "a grid of its own."
        )
    if isinstance(value, PairwiseProtocol) and len(value.kernels) > 1:
        raise ValueError(f"{name} must estimate one statistic, got {len(value.kernels)} kernels.")
    if isinstance(value, HierarchicalAUC) and value.split == "even":
        raise ValueError(
            f"{name} must not deal out users by their bins, got split = 'even'; use another split."
        )
    return value


@spec
class OnGrid(Spec[Params[Any]]):
    """A statistic of pairs of real values, by any protocol on bins.

    Each user takes the bin of a grid that holds its value for its value, and does what the protocol
    says. The protocol's kernel is that of the values on the grid, `GridKernel(kernel, grid)`; or
    the kernel itself where bins may stand for their indices, as for `AUC` and `KendallTau`.

    Formal guarantees:
      * Privacy: the protocol's; users send nothing else.
      * Bias: the protocol's about the statistic of the bins, and besides the quantisation error,
        which `GridKernel.spread` bounds for each pair.
      * `variance` and `population_variance`: the protocol's error about the statistic of the bins
        plus the squared quantisation error of these users; exact, or by the delta method, where the
        protocol's is and it has no bias.
      * `worst_case_variance`: a proven bound where the protocol's is one.

    Edge cases:
      ==============================  ==========================================================
      values outside of the grid      ValueError from a Population; nearest bin inside jit
      `QuantizedRR`                   TypeError: it has a grid, and rounds at random if asked to
      real reports                    intervals have the largest quantisation error, for reports
                                      do not tell where in bins values lie; none in several
                                      rounds, and of functions of several averages
      ==============================  ==========================================================

    Args:
      protocol: the spec of a protocol on the bins, of one statistic: a `PairwiseProtocol`, or a
        protocol for the AUC on a grid of labels and scores.
      grid: the bins of a value, float32[] with a `Grid`, float32[2] with a `ProductGrid`.

    Raises:
      ValueError: the protocol is for another number of bins, or its kernel for another grid.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import jax, jaxdp, numpy as np
      >>> from jaxdp.pairwise import GiniMeanDifference, Grid, GridKernel, OneReport, OnGrid
      >>> grid = Grid.uniform(8)
      >>> protocol = OnGrid(OneReport(GridKernel(GiniMeanDifference(), grid), epsilon=2.0), grid)
      >>> values = np.linspace(0, 1, 30_000, dtype=np.float32)
      >>> users = jaxdp.Population.from_values(values)
      >>> bool(abs(jaxdp.run(protocol, users, jax.random.key(0)) - 1 / 3) < 0.1)
      True

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Algorithm 1, with any protocol for randomized response.
    """

    protocol: Any = field(By(_protocol, (3, "none", None)))  # PairwiseProtocol or AUCProtocol
    grid: Grid | ProductGrid = field(Instance((Grid, ProductGrid), "a Grid or a ProductGrid"))

    def validate(self) -> None:
        """Raises ValueError unless the protocol is one for the bins of the grid."""
        known = self.protocol.kernel
        if math.prod(self.protocol.shape) != self.grid.num_bins:
            raise ValueError(
                f"grid must have the {math.prod(self.protocol.shape)} bins of the protocol, got "
                f"{self.grid.num_bins}."
            )
        if isinstance(known, GridKernel) and known.grid != self.grid:
            raise ValueError("grid must be that of the protocol's kernel.")

    @property
    def kernel(self) -> Kernel:
        """The statistic: the kernel of the values."""
        known = self.protocol.kernel
        return known.kernel if isinstance(known, GridKernel) else known

    @property
    def epsilon(self) -> float:
        """The protocol's privacy parameter."""
        return self.protocol.epsilon

    @property
    def form(self) -> Form:
        """The protocol's form, "u" or "v"."""
        return self.protocol.form if isinstance(self.protocol, PairwiseProtocol) else "u"

    @property
    def _symbols(self) -> Symbols:
        return Symbols(self.grid, randomized=False)

    def build(self, word_bits: int = 32) -> Params[Any]:
        """Builds the params, which users and the analyst run."""
        inner, symbols = self.protocol.build(word_bits), self._symbols
        if round_of(inner) is not None:
            return GridRound(inner, symbols.points, symbols.limits)
        return GridPlay(inner, symbols.points, symbols.limits)

    @property
    def reporter(self) -> Spec[Any]:
        """The protocol, on the bins."""
        return self.protocol

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the protocol."""
        return self.protocol.exact_epsilon()

    @property
    def variance_kind(self) -> Kind:
        """The protocol's; a bound where it has a bias, whose sign is not known."""
        return "bound" if self.protocol.bias > _ROUNDING else self.protocol.variance_kind

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The target: the statistic of the users' values, not of their bins.

        Args:
          counts: int[k], the number of users with each value.
          inputs: the values: float[k], or float[k, 2] with a `ProductGrid`.
        """
        masses, values = self._symbols.check_inputs(check_counts(counts), inputs)
        if self.kernel.num_bins is not None:  # of a matrix, which has no values
            return self.protocol.truth(self._bins(masses, inputs))
        return np.asarray(self.kernel.of_counts(masses, values, self.form))

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The target for users drawn from a distribution: the statistic of two new users.

        Args:
          probabilities: float[k], of each value.
          num_users: unused; the target does not depend on it.
          inputs: as in `truth`.
        """
        masses, values = self._symbols.check_inputs(check_probabilities(probabilities), inputs)
        if self.kernel.num_bins is not None:
            return self.protocol.population_truth(self._bins(masses, inputs), num_users)
        return np.asarray(self.kernel.of_distribution(masses, values))

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The mean squared error for given users; see the class.

        Args:
          counts: int[k], the number of users with each value.
          inputs: as in `truth`.
        """
        bins = self._bins(check_counts(counts), inputs).astype(np.int64)
        lost = float(self.protocol.truth(bins)) - float(self.truth(counts, inputs))
        return self._about_values(float(self.protocol.variance(bins)), lost)

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The mean squared error about `population_truth` for independent users.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: as in `truth`.
        """
        p = self._bins(check_probabilities(probabilities), inputs)
        truth = float(self.protocol.population_truth(p, num_users))
        lost = truth - float(self.population_truth(probabilities, num_users, inputs))
        error = float(self.protocol.population_variance(p, num_users))
        if self.form == "v":
            # n of the n**2 pairs are of a user with itself: a bias whose square is in `error`.
            kernel, n = self.protocol.kernel, num_users
            matrices = kernel.matrices(self.protocol.shape)
            alone = np.diagonal(matrices, axis1=1, axis2=2) @ p
            error += (
                2 * lost * (kernel.linked(alone / n + (1 - 1 / n) * (matrices @ p @ p), n) - truth)
            )
        return self._about_values(error, lost)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The protocol's bound and the largest quantisation error; inf by plug-in."""
        n = check_int("num_users", num_users, low=2)
        error, lost = self.protocol.worst_case_variance(n), self.largest_quantization_error
        # E (noise + lost)**2, whose mean may not be 0 (Minkowski)
        return Prediction((math.sqrt(error) + lost) ** 2, "bound") if lost else error

    @property
    def largest_quantization_error(self) -> float:
        """Bound on the difference between the statistics of bins and of values, for any users.

        The largest half-range of f on a pair of bins, or its range where an entry of the matrix is
        no middle of one. 0 where values are bins; inf for a function of several averages.
        """
        if self.kernel.num_bins is not None:  # of a matrix, which has no values
            return 0.0
        if not self.kernel.is_linear:
            return math.inf
        half = math.sqrt(float(self.kernel.spread(self.grid).max()))
        known = self.protocol.kernel
        return 2 * half if isinstance(known, GridKernel) and known.rule != "midpoint" else half

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, ""] | None:
        """A bound on the mean squared error about the statistic of the values, from reports.

        What reports tell of the error about the statistic of the bins, plus the squares of what
        they do not: `largest_quantization_error`, and the largest bias of the protocol. Intervals
        of a normal error of this size hold the statistic of the values at least as often as they
        say. None where the protocol has none, or the statistic is a function of several averages.

        Args:
          outcome: of a trial or of real reports, what `estimate` of the params takes.
          num_users: how many reported.
        """
        error = self.protocol.reported_variance(outcome, num_users)
        lost = self.largest_quantization_error
        if error is None or math.isinf(lost):
            return None
        return self._about_values(float(error), lost)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless values are on the grid, and their bins fit the protocol."""
        num_pairs(population.num_users, self.form)
        self._symbols.check_population(population)
        if not population.is_random:
            bins = self._bins(population.counts().numpy(), population.inputs)
            self.protocol.check_population(Population.from_histogram(bins.astype(np.int64)))
        elif isinstance(population.source, DistributionSource):
            p, n = population.probabilities(), population.num_users
            bins = Population.from_distribution(self._bins(p, population.inputs), num_users=n)
            self.protocol.check_population(bins)

    def _about_values(self, error: float, lost: float) -> Float[np.ndarray, ""]:
        return np.asarray(error + lost**2 + 2 * self.protocol.bias * abs(lost))

    def _bins(self, masses: np.ndarray, inputs: Tree) -> Float[np.ndarray, " k"]:
        """The counts or probabilities of the bins."""
        symbols = self._symbols
        return symbols.users(*symbols.check_inputs(masses, inputs)).histogram(symbols.size)


@params
class GridRound(Through[Tree]):
    """The params of a round in which users take the bins of a grid for their values: a pytree.

    Attributes:
      inner: the params of a round of bins.
      points: for each axis of the grid its inner edges.
      limits: the least and the largest value on each of them.
    """

    inner: Any  # Round[Tree]
    points: tuple[Float32[Array | np.ndarray, " p"], ...]
    limits: Float32[Array | np.ndarray, "axes 2"]

    @property
    def num_bins(self) -> None:
        """None: values are real."""
        return None

    @property
    def value(self) -> Tree:
        """A real number, or one for each axis."""
        dim = len(self.points)
        return jax.ShapeDtypeStruct(() if dim == 1 else (dim,), jnp.float32)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are on the grid."""
        super().check_population(population)
        if not is_traced(self):
            check_limits(population, np.asarray(self.limits))

    def bins(self, values: Float[Array, "*n"]) -> Int32[Array, "*n"]:
        """The bins of values."""
        points = [jnp.asarray(p) for p in self.points]
        return bin_of(points, coordinates_of(values, len(points)), traced_search)

    def from_bits(self, words: Words, value: Float[Array, "*dim"], /) -> Tree:
        """One user's report: the inner round's of the bin."""
        return self.inner.from_bits(words, self.bins(value))

    def estimate(self, outcome: Tree, /) -> Float[Array, ""]:
        """The inner round's estimate."""
        return self.inner.estimate(outcome)

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """The limits of the inner round's reports."""
        return self.inner.report_limits

    @property
    def draft(self) -> None:
        """None: bins are found user by user."""
        return None

    @property
    def kernels(self) -> Kernels[Tree]:
        """None: they are for values that are bins."""
        return Kernels()

    @property
    def law(self) -> TallyLaw[Tree] | None:
        """The law of the inner round, for the counts of the bins."""
        law, size = self.inner.law, self.inner.num_bins
        if law is None:
            return None

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> Tree:
            return law.draw(key, counts.segment_sum(self.bins(inputs), size), None)

        def cost(work: Work) -> float:
            return 10.0 * work.num_bins + law.cost(dataclasses.replace(work, num_bins=size))

        return TallyLaw(draw, cost, distance=law.distance)


@params
class GridPlay(Interactive[Tree]):
    """The params of several rounds in which users take the bins of a grid for values: a pytree.

    Attributes:
      inner: the params of an interactive protocol on bins.
      points: as in `GridRound`.
      limits: as in `GridRound`.
    """

    inner: Any  # Interactive[Tree]
    points: tuple[Float32[Array | np.ndarray, " p"], ...]
    limits: Float32[Array | np.ndarray, "axes 2"]

    def rounds(self, work: Work) -> tuple[Step, ...]:
        """The rounds of the protocol, on the grid."""
        steps = self.inner.rounds(work)
        return tuple(dataclasses.replace(step, round=self._on_grid(step.round)) for step in steps)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> Tree:
        """The protocol's rounds."""

        def collect_bins(round: Any, users: Population, number: int | jax.Array) -> Any:
            return collect(self._on_grid(round), users, number)

        return self.inner.play(key, users, collect_bins)

    def estimate(self, outcome: Tree, /) -> Float[Array, ""]:
        """The protocol's estimate."""
        return self.inner.estimate(outcome)

    def _on_grid(self, round: Any) -> GridRound:
        return GridRound(round, self.points, self.limits)
