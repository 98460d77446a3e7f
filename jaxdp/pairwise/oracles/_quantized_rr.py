"""U-statistics from quantised, randomized responses."""

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32
from numpy.typing import ArrayLike

from ..._checks import By, Choice, Epsilon, Instance, Optional
from ..._contract import (
    Independent,
    Kernels,
    Padded,
    Spec,
    TallyLaw,
    Through,
    Tree,
    Words,
    Work,
    field,
    params,
    spec,
    static,
)
from ..._plausible import plausible_counts
from ..._prediction import Kind, Prediction
from ..._spec import FrozenArray, check_choice, check_counts, check_int, is_traced
from ..._x64 import as_float64, compiled_in_float64, dot
from ...population import Population
from ...random import Count, binomial, part_of
from ...randomizers import KRR
from .._auc_protocol import check_labels, expected_users
from ..kernels._exact import FORM, Form, num_pairs
from ..kernels._grid import FRACTION_BITS, Grid, ProductGrid
from ..kernels._kernel import Kernel, Link, domain_shape, identity, linearised_error
from ..kernels._pair_kernel import NUM_VALUES, MatrixKernel
from . import _symbols
from ._moments import expectation, iid_variance, variance
from ._symbols import Symbols, bin_of, check_limits, lower_point, traced_search


def _kernel(name: str, value: object) -> Kernel:
    if not isinstance(value, Kernel):
        raise TypeError(
            f"{name} must be a kernel such as GiniMeanDifference(), got {value!r}; for a function "
            "or a matrix use PairKernel."
        )
    return value


@spec
class QuantizedRR(Spec["QuantizedRRParams"]):
    """A U-statistic from one k-ary randomized response per user.

    A user rounds its value to a bin, and reports the bin by k-ary randomized response: with
    probability p, and any other given bin with probability q. With `y_i = (e_report - q) / (p -
    q)`, an unbiased indicator of the bin, and the matrix W of the kernel on the bins, the analyst
    computes

        `sum_{i != j} y_i^T W y_j / (n (n - 1))`

    from the number of each report alone, in O(k**2).

    Where the statistic is a function of several averages (`kernel.is_linear` is false: tau_b, AUC
    by plug-in, collision entropy), the estimate is that function of their unbiased estimates; those
    are `params.u_statistics(tally)`.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly, for every input: that of `randomizer`.
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
      user's bin should read `1 - beta + beta / k`.
    """

    kernel: Kernel = field(By(_kernel, (3, "none", None)))
    epsilon: float = field(Epsilon())
    num_values: int | tuple[int, ...] | None = field(NUM_VALUES, default=None)
    grid: Grid | ProductGrid | None = field(
        Optional(Instance((Grid, ProductGrid), "a Grid or a ProductGrid")), default=None
    )
    rounding: Literal["simple", "randomized"] = field(
        Choice("simple", "randomized"), default="simple"
    )
    rule: Literal["midpoint", "average", "points"] | None = None
    form: Form = field(FORM, default="u")

    def validate(self) -> None:
        """Raises ValueError unless the domain, the kernel and the rounding fit."""
        randomized = self.rounding == "randomized"
        if self.grid is not None:
            if self.num_values is not None:
                raise ValueError("num_values must be None with a grid, which says the bins.")
            if randomized and self.kernel.num_bins is not None:
                raise ValueError(
                    "rounding must be 'simple' for a kernel given by a matrix, which has no values "
                    "at the points of a grid."
                )
        elif randomized:
            raise ValueError("rounding must be 'simple' without a grid: bins are not rounded.")
        elif self.num_values is None and self.kernel.num_bins is None:
            raise ValueError(
                "num_values must be given for values that are bins, or grid for real values."
            )
        rules = (None, "points") if randomized else (None, "midpoint", "average")
        check_choice("rule", self.rule, rules)
        _ = self.randomizer, self._matrices()  # their constructors check the rest

    @property
    def _symbols(self) -> Symbols:
        domain = self.num_values if self.grid is None else self.grid
        domain = self.kernel.num_bins if domain is None else domain
        assert domain is not None, "checked by `validate`"
        return Symbols(domain, self.rounding == "randomized")

    def _matrices(self) -> Float[np.ndarray, "m k k"]:
        """The kernels of the averages on the symbols."""
        symbols = self._symbols
        rule = "points" if symbols.randomized else self.rule or "midpoint"
        return self.kernel.matrices(symbols.domain, rule)

    @property
    def randomizer(self) -> KRR:
        """The randomized response that users send their bin, or point of the grid, by."""
        return KRR(self._symbols.size, self.epsilon)

    def build(self, word_bits: int = 32) -> "QuantizedRRParams":
        """The params; `word_bits=8` makes a twin whose reports can be enumerated."""
        symbols = self._symbols
        return QuantizedRRParams(
            self.randomizer.build(word_bits),
            self._matrices(),
            symbols.points,
            symbols.limits,
            self.kernel.link,
            symbols.randomized,
            self.form,
        )

    @property
    def reporter(self) -> KRR:
        """The response on the symbols."""
        return self.randomizer

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up; at most `epsilon`."""
        return self.randomizer.exact_epsilon(word_bits)

    def channel(self, word_bits: int = 32) -> list[list[Fraction]] | None:
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

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The target: the statistic of the users' values, not of their bins.

        Args:
          counts: int[k], the number of users with each value.
          inputs: with a grid, the values: float[k] or float[k, 2]; else None.
        """
        masses, values = self._on_domain(check_counts(counts), inputs)
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
        del num_users
        masses, values = self._on_domain(np.asarray(probabilities, np.float64), inputs)
        return np.asarray(self.kernel.of_distribution(masses, values))

    @property
    def variance_kind(self) -> Kind:
        """Exact for averages over pairs, the delta method for functions of them."""
        return "exact" if self.kernel.is_linear else "delta"

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The mean squared error for given users: variance plus squared bias.

        Exact for linear kernels; for others that of the linearised statistic (delta method).

        Args:
          counts: int[k], the number of users with each value.
          inputs: with a grid, the values: float[k] or float[k, 2]; else None.
        """
        truth, symbols = float(self.truth(counts, inputs)), self._symbols
        users = symbols.users(*symbols.check_inputs(check_counts(counts), inputs))
        forms, chances = self._quadratic_forms(), self._probabilities()
        means = np.array([expectation(w, d, users) for w, d in forms])
        return self._mean_squared_error(
            means, int(users.counts.sum()), truth, lambda w, d: variance(w, d, users, *chances)
        )

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, ""] | None:
        """The mean squared error for the users nearest to the estimated ones.

        With a grid a bound on it: where in its bin a value lies no report tells, so that the bias
        is the largest that rounding may lead to, and with randomized rounding the variance is that
        of users drawn from the estimated points, which is no smaller but for terms of order 1/n.
        None where the statistic of values on a grid is not linear: its bias has no known bound.
        """
        counts = plausible_counts(np.asarray(self.built.inner.estimate(outcome)), num_users)
        if self.grid is None:
            return self.variance(counts)
        if not self.kernel.is_linear:
            return None
        ((weights, linear),) = self._quadratic_forms()
        symbols, chances = self._symbols, self._probabilities()
        users = symbols.users(counts, None)
        if symbols.randomized:
            law = counts / num_users
            noise = iid_variance(weights, linear, law, num_users, *chances)
        else:
            noise = variance(weights, linear, users, *chances)
        lost, with_self = self._lost(), float(self.form == "v")
        bias = expectation(lost, with_self * np.diagonal(lost), users)
        return np.asarray((noise + bias**2) / float(num_pairs(num_users, self.form)) ** 2)

    def _lost(self) -> Float[np.ndarray, "k k"]:
        """How far f is from its matrix, at most, for users who may become a pair of symbols."""
        symbols = self._symbols
        half = np.sqrt(self.kernel.spread(symbols.domain))
        if symbols.randomized:  # a point is that of the bins on both sides
            half = _largest_around(half, domain_shape(symbols.domain))
        # A midpoint is off by half the range of f on a pair of bins, other rules by all of it.
        return half if self.rule in (None, "midpoint") and not symbols.randomized else 2 * half

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The mean squared error about `population_truth` for independent users.

        Sampling is included. Exact for linear kernels (Lemma 1); for others the delta method.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: as in `variance`.
        """
        truth = float(self.population_truth(probabilities, num_users, inputs))
        n, symbols = check_int("num_users", num_users, low=1), self._symbols
        masses, values = symbols.check_inputs(np.asarray(probabilities, np.float64), inputs)
        law = symbols.users(masses, values).histogram(symbols.size)
        forms, chances = self._quadratic_forms(), self._probabilities()
        means = np.array([n * (n - 1) * (law @ w @ law) + n * (d @ law) for w, d in forms])
        return self._mean_squared_error(
            means, n, truth, lambda w, d: iid_variance(w, d, law, n, *chances)
        )

    def worst_case_variance(self, num_users: int) -> Prediction:
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
            return Prediction(math.inf, "bound")
        (p, q), symbols, matrix = self._probabilities(), self._symbols, self._matrices()[0]
        share = 0.25
        if not symbols.randomized:
            # The probability of a set of reports that holds the user's symbol, by its size
            inside = p + q * np.arange(symbols.size - 1)
            share = float(np.max(inside * (1 - inside)))
        # n terms of variance v (2 (n - 1) R)**2 / (p - q)**2, and n (n - 1) / 2 of 4 v R**2 /
        # (p - q)**4, over (n (n - 1))**2
        linear = 4 * share / (n * (p - q) ** 2)
        degenerate = 2 * share / (n * (n - 1) * (p - q) ** 4)
        return Prediction(
            float(np.ptp(matrix)) ** 2 * (linear + degenerate) + float(self._lost().max()) ** 2,
            "bound",
        )

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are in the domain, and enough for a pair.

        For an AUC both labels must occur; warns where the predicted error is that of noise.
        """
        num_pairs(population.num_users, self.form)
        symbols = self._symbols
        symbols.check_population(population)
        users = expected_users(population) if self.kernel.has_labels else None
        if users is not None:
            inputs = population.inputs
            masses = symbols.users(*symbols.check_inputs(users, inputs)).histogram(symbols.size)
            check_labels(self, (True,), population, masses.reshape(2, -1), inputs)

    def _probabilities(self) -> tuple[float, float]:
        p, q = self.randomizer.probabilities()
        return float(p), float(q)

    def _quadratic_forms(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """W and d of each average, as in `_moments`; d has the self pairs of the V-statistic."""
        with_self = float(self.form == "v")
        return [(w, with_self * np.diagonal(w)) for w in self._matrices()]

    def _mean_squared_error(
        self,
        means: Float[np.ndarray, " m"],
        num_users: int,
        truth: float,
        noise: Callable[[np.ndarray, np.ndarray], float],
    ) -> Float[np.ndarray, ""]:
        """The error given the means of the quadratic forms; `noise(W, d)` is a form's variance."""
        pairs = float(num_pairs(num_users, self.form))

        def combined(slopes: Float[np.ndarray, " m"]) -> float:
            weights, linear = (
                np.sum([s * part for s, part in zip(slopes, parts, strict=True)], axis=0)
                for parts in zip(*self._quadratic_forms(), strict=True)
            )
            return noise(weights, linear) / pairs**2

        return linearised_error(self.kernel, means / pairs, num_users, truth, combined)

    def _on_domain(self, masses: np.ndarray, inputs: Tree) -> tuple[np.ndarray, np.ndarray | None]:
        """Counts or probabilities in the shape of the domain, or with the values of their bins."""
        symbols = self._symbols
        masses, values = symbols.check_inputs(masses, inputs)
        if values is not None and self.kernel.num_bins is not None:
            masses, values = symbols.users(masses, values).histogram(symbols.size), None
        if values is None:
            masses = masses.reshape(domain_shape(symbols.domain))
        return masses, values


def _largest_around(
    table: Float[np.ndarray, "bins bins"], shape: tuple[int, ...]
) -> Float[np.ndarray, "points points"]:
    """For each pair of points of a grid the largest entry of the bins that end at them."""
    found = table.reshape(*shape, *shape)
    for axis in range(found.ndim):
        ends = [(0, 0)] * found.ndim
        ends[axis] = (1, 1)
        padded = np.moveaxis(np.pad(found, ends), axis, 0)
        found = np.moveaxis(np.maximum(padded[:-1], padded[1:]), 0, axis)
    size = math.isqrt(found.size)
    return found.reshape(size, size)


@params
class QuantizedRRParams(Through[Count]):
    """The params of `QuantizedRR`: a pytree.

    Attributes:
      inner: the params of the randomized response of a symbol.
      matrices: the kernels of the averages on the symbols.
      points: for each axis of the grid its inner edges, or with randomized rounding all its points;
        empty when values are symbols.
      limits: the least and the largest value on each of them.
      link: the statistic as a function of the averages, static.
      randomized: whether values are rounded at random, static.
      form: "u" or "v", static.
    """

    inner: Any  # the params of KRR
    matrices: Float[Array | np.ndarray, "m k k"]
    points: tuple[Float32[Array | np.ndarray, " p"], ...]
    limits: Float32[Array | np.ndarray, "axes 2"]
    link: Link = static()
    randomized: bool = static()
    form: Form = static()

    @property
    def num_bins(self) -> int | None:
        """The symbols; None with a grid."""
        return None if self.points else self.inner.num_bins

    @property
    def num_words(self) -> int:
        """One word per user, and with randomized rounding one more for each coordinate."""
        return 1 + (len(self.points) if self.randomized else 0)

    @property
    def value(self) -> Tree:
        """A symbol; with a grid a real number, or one for each axis."""
        if not self.points:
            return self.inner.value
        dim = len(self.points)
        return jax.ShapeDtypeStruct(() if dim == 1 else (dim,), jnp.float32)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are symbols, or on the grid."""
        super().check_population(population)
        if self.points and not is_traced(self):
            check_limits(population, np.asarray(self.limits))

    @property
    def report_limits(self) -> tuple[Tree, Tree]:
        """A symbol."""
        return self.inner.report_limits

    @property
    def draft(self) -> None:
        """None: a word decides each report."""
        return None

    @property
    def kernels(self) -> Kernels[Count]:
        """The kernels of randomized response, where values are symbols."""
        return Kernels() if self.points else self.inner.kernels

    @property
    def law(self) -> TallyLaw[Count]:
        """Draws the reports of given users, and with no grid those of independent users."""
        if self.points:
            return TallyLaw(self._draw, self._cost)
        return TallyLaw(self._draw, self._cost, self._draw_independent, padded=self._padded)

    @property
    def _padded(self) -> Padded[Count] | None:
        inner = self.inner.law.padded
        if inner is None:
            return None
        matrices = np.zeros((1, 1, 1))  # what is drawn depends on no kernel
        round = dataclasses.replace(self, inner=inner.round, matrices=matrices, link=identity)
        return Padded(round, inner.cut)

    def quantize(
        self, words: Words, value: Float[Array, "*dim"] | Int32[Array, ""]
    ) -> Int32[Array, ""]:
        """The symbol of one user's value.

        Args:
          words: as in `from_bits`; one after the first for each coordinate with randomized
            rounding, else unused.
          value: as in `from_bits`.
        """
        if not self.points:
            return value
        coordinates = _symbols.coordinates_of(value, len(self.points))
        points = [jnp.asarray(p) for p in self.points]
        if not self.randomized:
            return bin_of(points, coordinates, traced_search)
        index = jnp.int32(0)
        for number, (axis, x) in enumerate(zip(points, coordinates, strict=True)):
            below, fraction = lower_point(axis, x, traced_search)
            word = words[1 + number] >> np.uint32(32 - FRACTION_BITS)
            # Up with probability (x - low) / (high - low), in multiples of 2**-24
            up = word < fraction.astype(jnp.uint32)
            index = index * np.int32(axis.shape[0]) + below + up.astype(jnp.int32)
        return index

    def from_bits(
        self, words: Words, value: Float[Array, "*dim"] | Int32[Array, ""], /
    ) -> Int32[Array, ""]:
        """One user's report, in [0, k).

        Args:
          words: the first is the randomized response's.
          value: int32[] in [0, k), or float32[] or float32[dim] with a grid.
        """
        return self.inner.from_bits(part_of(words, 0, 1), self.quantize(words, value))

    @compiled_in_float64
    def u_statistics(self, tally: Count) -> Float[Array, " m"]:
        """Unbiased estimates of the averages that the statistic is a function of.

        Args:
          tally: Count[k], the number of each report.
        """
        p, q = self.inner.probabilities()
        reports, users = tally.f64(), self.inner.estimate(tally)
        n = jnp.sum(reports)
        (matrices,) = as_float64(self.matrices)
        rows = matrices.sum(axis=-1)
        diagonal = jnp.diagonal(matrices, axis1=-2, axis2=-1)
        # y^T W y of each report is taken out, times (p - q)**2: a user's pair with itself.
        alone = diagonal - 2 * q * rows + q**2 * rows.sum(axis=-1, keepdims=True)
        total = dot(dot(matrices, users), users) - dot(alone, reports) / (p - q) ** 2
        if self.form == "u":
            return total / (n * (n - 1))
        return (total + dot(diagonal, users)) / n**2

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, ""]:
        """The estimated statistic, from the number of each report."""
        return self.link(self.u_statistics(outcome), jnp.sum(outcome.f64()))

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        symbols_key, reports_key = jax.random.split(key)
        if self.points:
            counts = self._symbol_counts(symbols_key, counts, inputs)
        return self.inner.sample_tally(reports_key, counts)

    def _symbol_counts(
        self, key: jax.Array, counts: Count, inputs: Float[Array, "bins *dim"]
    ) -> Count:
        """The number of users that become each symbol, Count[k]; inside an x64 block."""
        coordinates = _symbols.coordinates_of(inputs, len(self.points))
        points = [jnp.asarray(p) for p in self.points]
        if not self.randomized:
            groups = [(bin_of(points, coordinates, traced_search), counts)]
        else:
            # Each axis splits every group of users into those rounded down and up.
            groups = [(jnp.zeros(counts.shape, jnp.int32), counts)]
            for number, (axis, x) in enumerate(zip(points, coordinates, strict=True)):
                below, fraction = lower_point(axis, x, traced_search)
                share = fraction.astype(jnp.float64) / 2.0**FRACTION_BITS
                axis_key, split = jax.random.fold_in(key, number), []
                for corner, (index, size) in enumerate(groups):
                    up = binomial(jax.random.fold_in(axis_key, corner), size, share)
                    index = index * np.int32(axis.shape[0]) + below
                    split += [(index, size - up), (index + 1, up)]
                groups = split
        k = self.inner.num_values
        return sum((n.segment_sum(index, k) for index, n in groups), start=Count.zeros((k,)))

    def _draw_independent(self, key: jax.Array, users: Independent) -> Count:
        return self.inner.law.independent(jax.random.fold_in(key, 1), users)

    def _cost(self, work: Work) -> float:
        rounding = 0.0
        if self.points:
            draws = work.num_bins * (2 ** len(self.points) - 1)
            rounding = work.draws(draws) if self.randomized else 10.0 * work.num_bins
        return rounding + self.inner.law.cost(
            dataclasses.replace(work, num_bins=self.inner.num_values)
        )
