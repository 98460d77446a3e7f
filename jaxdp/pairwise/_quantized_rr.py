"""U-statistics from quantised, randomized responses."""

import dataclasses
import math
from fractions import Fraction

import numpy as np

from .._spec import FrozenArray, check_choice, check_counts, check_epsilon, check_int
from ..randomizers import KRR
from ._auc import AUC
from ._auc_protocol import check_labels, expected_users
from ._domain import Symbols
from ._exact import Form, check_form, num_pairs
from ._grid import AnyGrid, Grid, ProductGrid
from ._kernel import Kernel, domain_shape, linearised_error
from ._moments import expectation, iid_variance, variance
from ._pair_kernel import MatrixKernel
from ._quantized_rr_params import QuantizedRRParams


@dataclasses.dataclass(frozen=True, slots=True)
class QuantizedRR:
    """A U-statistic from one k-ary randomized response per user.

    A user rounds the value to a bin, and reports the bin by k-ary randomized response with
    probabilities p (own) and q (each other). With `y_i = (e_report - q) / (p - q)`, an unbiased
    indicator of the bin, and the matrix W of the kernel on the bins, the analyst computes

        `sum_{i != j} y_i^T W y_j / (n (n - 1))`

    from the number of each report alone, in O(k**2).

    Where the statistic is a function of several averages (`kernel.is_linear` is false: tau_b, AUC
    by plug-in, collision entropy), the estimate is that function of their unbiased estimates; those
    are `params.u_statistics(tally)`.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly, for every input; that of `randomizer`.
      * Bias: none, in exact arithmetic with the realised p and q, for the statistic of the bins;
        hence none at all when values are bins and the kernel is linear. On a grid the bias is the
        quantisation error. Plug-in estimates are consistent.
      * `variance(counts, inputs)`: the exact mean squared error for the given users, of linear
        kernels; for others the delta method, exact up to terms of higher order in 1/n.
      * `worst_case_variance(n)`: a proven bound for linear kernels; inf for others.

    Edge cases:
      ===============================  ==========================================================
      values outside of a grid         ValueError from a Population; nearest bin inside jit
      one user, `form="u"`             ValueError
      kernel unknown on a bin          ValueError, as for `|x - y|` on an unbounded bin
      ===============================  ==========================================================

    Args:
      kernel: the statistic.
      epsilon: privacy parameter, > 0.
      num_values: for values that are bins, how many there are, or the shape of the table whose
        cells they are (row by row); left out for a kernel given by a matrix.
      grid: for values that are real, the bins; float32[] with a `Grid`, float32[2] with a
        `ProductGrid`.
      rounding: "simple", to the bin of the value, or "randomized", to a neighbouring point of the
        grid with the right mean: unbiased for f linear in each argument within a bin, for one more
        word per coordinate and one more symbol per axis.
      rule: how the kernel is put on the bins of a grid, "midpoint" (default) or "average"; with
        randomized rounding it is always f at the points.
      form: "u" for pairs of different users, "v" to average over all pairs, self pairs included.

    Raises:
      ValueError: an argument is out of range, or the kernel does not fit the domain.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.pairwise import GiniMeanDifference, QuantizedRR
      >>> protocol = QuantizedRR(GiniMeanDifference(), epsilon=2.0, num_values=5)
      >>> counts = [3000, 1000, 4000, 2000, 5000]
      >>> truth, rmse = protocol.truth(counts), protocol.variance(counts) ** 0.5
      >>> pop = jaxdp.Population.from_histogram(counts)
      >>> estimate = jaxdp.run(protocol, pop, jax.random.key(0))
      >>> bool(abs(estimate - truth) < 6 * rmse)
      True

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Private protocols for U-statistics in the local model
      and beyond, Algorithm 1, Theorems 1 and 2, Lemma 1. In its equation (9) the probability of the
      own bin should read `1 - beta + beta / k`.
    """

    kernel: Kernel
    epsilon: float
    num_values: int | tuple[int, ...] | None = None
    grid: Grid | ProductGrid | None = None
    rounding: str = "simple"
    rule: str | None = None
    form: Form = "u"

    def __post_init__(self):
        if not isinstance(self.kernel, Kernel):
            raise TypeError(
                f"kernel must be a kernel such as GiniMeanDifference(), got {self.kernel!r}; for a "
                "function or a matrix use PairKernel."
            )
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        check_choice("rounding", self.rounding, ("simple", "randomized"))
        check_form(self.form)
        if isinstance(self.num_values, list):
            object.__setattr__(self, "num_values", tuple(self.num_values))
        self._check_domain()
        rules = (None, "midpoint", "average") if self.rounding == "simple" else (None, "points")
        check_choice("rule", self.rule, rules)
        _ = self.randomizer, self._matrices()  # their constructors check the rest

    def _check_domain(self) -> None:
        randomized = self.rounding == "randomized"
        if self.grid is not None:
            if not isinstance(self.grid, AnyGrid):
                raise TypeError(f"grid must be a Grid or a ProductGrid, got {self.grid!r}.")
            if self.num_values is not None:
                raise ValueError("num_values must be None with a grid, which says the bins.")
            if randomized and isinstance(self.kernel, MatrixKernel):
                raise ValueError(
                    "rounding must be 'simple' for a kernel given by a matrix, which has no values "
                    "at the points of a grid."
                )
        elif randomized:
            raise ValueError("rounding must be 'simple' without a grid: bins are not rounded.")
        elif self.num_values is None and not isinstance(self.kernel, MatrixKernel):
            raise ValueError(
                "num_values must be given for values that are bins, or grid for real values."
            )

    @property
    def _symbols(self) -> Symbols:
        domain = self.grid if self.grid is not None else self.num_values
        if domain is None:
            assert isinstance(self.kernel, MatrixKernel)
            domain = len(self.kernel.weights.values)
        return Symbols(domain, self.rounding == "randomized")

    def _matrices(self) -> np.ndarray:
        """The kernels of the averages on the symbols, float64[m, k, k]."""
        symbols = self._symbols
        rule = "points" if symbols.randomized else self.rule or "midpoint"
        return self.kernel.matrices(symbols.domain, rule)

    @property
    def randomizer(self) -> KRR:
        """The randomized response that users send their bin, or point of the grid, by."""
        return KRR(self._symbols.size, self.epsilon)

    def build(self, word_bits: int = 32) -> QuantizedRRParams:
        """The params; `word_bits=8` makes a twin whose reports can be enumerated."""
        symbols = self._symbols
        return QuantizedRRParams(
            self.randomizer.build(word_bits),
            self._matrices(),
            symbols.points,
            self.kernel.link,
            symbols.randomized,
            self.form,
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up; at most `epsilon`."""
        return self.randomizer.exact_epsilon(word_bits)

    def channel(self, word_bits: int = 32) -> list[list[Fraction]]:
        """The exact probabilities of the reports given the symbols; see `KRR.channel`."""
        return self.randomizer.channel(word_bits)

    def quantization_error(self) -> "QuantizedRR":
        """The protocol that estimates the squared quantisation error from the very same reports.

        Its statistic is `Delta = sum h_i h_j Delta_ij` over the pairs, which bounds the squared
        bias of the midpoint rule. Run with the same key, it sees the same reports.

        Raises:
          ValueError: there is no grid, or rounding is randomized.

        References:
          Bell, Bellet, Gascón, Kulkarni (2020), Remark 3.
        """
        if self.grid is None or self.rounding == "randomized":
            raise ValueError(
                "grid and rounding='simple' are needed: otherwise no value is replaced by its bin."
            )
        delta = MatrixKernel(FrozenArray(self.kernel.spread(self.grid)))
        return dataclasses.replace(self, kernel=delta, rule=None)

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the statistic of the users' own values, not of their bins; float64[].

        Args:
          counts: int[k], the number of users with each value.
          inputs: with a grid, the values: float[k] or float[k, 2]; else None.
        """
        found = self._on_domain(check_counts(counts), inputs)
        return np.asarray(self.kernel.of_counts(*found, self.form))

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The target for users drawn from a distribution: the statistic of two new users.

        Args:
          probabilities: float[k], of each value.
          num_users: unused; the target does not depend on it.
          inputs: as in `truth`.

        Returns:
          float64[].
        """
        del num_users
        found = self._on_domain(np.asarray(probabilities, np.float64), inputs)
        return np.asarray(self.kernel.of_distribution(*found))

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error for given users, float64[]: variance plus squared bias.

        Exact for linear kernels; for others that of the linearised statistic (delta method).

        Args:
          counts: int[k], the number of users with each value.
          inputs: with a grid, the values: float[k] or float[k, 2]; else None.
        """
        truth = self.truth(counts, inputs)
        symbols = self._symbols
        users = symbols.users(*symbols.check_inputs(check_counts(counts), inputs))
        n = int(users.counts.sum())
        forms = self._quadratic_forms()
        means = np.array([expectation(w, d, users) for w, d in forms])
        return self._mean_squared_error(
            forms, means, n, truth, lambda w, d: variance(w, d, users, *self._probabilities())
        )

    def population_variance(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The mean squared error about `population_truth` for independent users, float64[].

        Sampling is included. Exact for linear kernels (Lemma 1); for others the delta method.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: as in `variance`.
        """
        truth = self.population_truth(probabilities, num_users, inputs)
        n = check_int("num_users", num_users, low=1)
        symbols = self._symbols
        found = symbols.check_inputs(np.asarray(probabilities, np.float64), inputs)
        law = symbols.users(*found).histogram(symbols.size)
        forms = self._quadratic_forms()
        means = np.array([n * (n - 1) * (law @ w @ law) + n * (d @ law) for w, d in forms])
        return self._mean_squared_error(
            forms, means, n, truth, lambda w, d: iid_variance(w, d, law, n, *self._probabilities())
        )

    def worst_case_variance(self, num_users: int) -> float:
        """A proven bound on the mean squared error over all data sets of a size; inf by plug-in.

        With R the range of W and v the largest variance of an indicator of a set of reports (at
        most 1/4), `R**2 (4 v / (n (p - q)**2) + 2 v / (n (n - 1) (p - q)**4))` bounds the variance
        for any given users: the linear term of user i is `2 W (s - L_i)`, of range 2 (n - 1) R, and
        the degenerate term of a pair, a projection of `W[r, r']`, varies no more than `W[., r']`
        does. On a grid the square of the largest quantisation error is added; that of a PairKernel
        is proven where its Lipschitz constant is given, and otherwise as large as seen on a mesh.

        It is at most R**2 times the bound of Theorem 1, which holds for independent users and, as
        this shows, for given ones; its factor (1 + beta)**2 is not needed. For the theorem itself
        see `jaxdp.bounds.u_statistic_variance`.
        """
        n = check_int("num_users", num_users, low=2)
        if not self.kernel.is_linear:
            return math.inf
        (p, q), symbols, matrix = self._probabilities(), self._symbols, self._matrices()[0]
        share = 0.25
        if not symbols.randomized:
            held = p + q * np.arange(symbols.size - 1)  # by a set that has the own symbol
            share = float(np.max(held * (1 - held)))
        linear = 4 * share / (n * (p - q) ** 2)
        degenerate = 2 * share / (n * (n - 1) * (p - q) ** 4)
        # A midpoint is off by half the range of f on a pair of bins, other rules by all of it.
        factor = 1 if self.rule in (None, "midpoint") and not symbols.randomized else 4
        lost = factor * float(self.kernel.spread(symbols.domain).max())
        return float(np.ptp(matrix)) ** 2 * (linear + degenerate) + lost

    def check_population(self, population) -> None:
        """Raises ValueError unless the users' values are in the domain, and enough for a pair.

        For an AUC both labels must occur; warns where the predicted error is that of noise.
        """
        num_pairs(population.num_users, self.form)
        symbols = self._symbols
        symbols.check_population(population)
        if isinstance(self.kernel, AUC):
            users, inputs = expected_users(population), population.inputs
            if users is not None:
                found = symbols.users(*symbols.check_inputs(users, inputs)).histogram(symbols.size)
                check_labels(self, population, found.reshape(2, -1), inputs)

    def _probabilities(self) -> tuple[float, float]:
        p, q = self.randomizer.probabilities()
        return float(p), float(q)

    def _quadratic_forms(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """W and d of each average, as in `_moments`; d has the self pairs of the V-statistic."""
        keep = float(self.form == "v")
        return [(w, keep * np.diagonal(w)) for w in self._matrices()]

    def _mean_squared_error(self, forms, means, num_users: int, truth, noise) -> np.ndarray:
        """The error given the means of the quadratic forms; `noise(W, d)` is a form's variance."""
        pairs = float(num_pairs(num_users, self.form))

        def combined(slopes) -> float:
            weights, linear = (
                np.sum([s * part for s, part in zip(slopes, parts, strict=True)], axis=0)
                for parts in zip(*forms, strict=True)
            )
            return noise(weights, linear) / pairs**2

        return linearised_error(self.kernel, means / pairs, num_users, truth, combined)

    def _on_domain(self, masses: np.ndarray, inputs):
        """Counts or probabilities in the shape of the domain, or with the values of their bins."""
        symbols = self._symbols
        masses, inputs = symbols.check_inputs(masses, inputs)
        if inputs is not None and isinstance(self.kernel, MatrixKernel):
            masses, inputs = symbols.users(masses, inputs).histogram(symbols.size), None
        if inputs is None:
            masses = masses.reshape(domain_shape(symbols.domain))
        return masses, inputs
