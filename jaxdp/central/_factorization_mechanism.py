"""The Gaussian factorization mechanism.

Replacing one user moves the answers by a difference of two columns of the workload, W (e_x - e_y).
So the norm of the workload of all differences is what the replacement of a user costs, and rows may
be shifted freely. Its k (k - 1)/2 columns need not be stored: weights q on pairs are a graph whose
Laplacian B diag(q) B^T stands for them.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float, Float64
from numpy.typing import ArrayLike

from .._checks import By, Choice, Epsilon, Numbers, Optional, Real
from .._contract import Collect, Interactive, Step, Tree, Work, field, params, spec
from .._given_factors import as_factorization
from .._queries import WORKLOAD, AdditiveProtocol
from .._spec import FrozenArray, as_array, check_choice, check_epsilon, check_int
from .._x64 import as_float64, compiled_in_float64, dot
from ..engine import Census
from ..factorization import (
    central_lower_bound,
    gamma2,
    gamma2_approx,
    gamma_f,
    gamma_f_approx,
)
from ..factorization._factors import principal_axes
from ..population import Population
from ..random import Count, Stream, stream
from ._grid_noise import GaussianPrivacy, GridNoise, fixed_point, largest_total, rounded_product

_SOLVERS = {"gamma2": (gamma2, gamma2_approx), "gamma_f": (gamma_f, gamma_f_approx)}
_TOLERANCE = 1e-3  # relative gap of the factorizations that are searched for
_RESIDUAL = 1e-8  # relative to the largest entry, what given factors may miss a workload by
_SLACK = 1e-12  # relative, added to sensitivities for the rounding of their sums
_POWER = 1.5  # exponent of the multiplicative updates of the weights
_FLOOR = 1e-9  # of the weights, relative to uniform ones
_ROUNDING = 1e-14  # relative: differences below this are none
_RANK = 1e-11  # singular values below this share of the largest one are zero


@dataclasses.dataclass(frozen=True)
class Strategy:
    """Factors of a workload: the answers on a histogram h are `left^T (right h) + shift`.

    Attributes:
      left: float64[l, m].
      right: float64[l, k].
      shift: float64[m]; 0 where a user may be absent.
      sensitivity: the largest Euclidean distance by which one user moves `right c`, c the counts.
    """

    left: np.ndarray
    right: np.ndarray
    shift: np.ndarray
    sensitivity: float


def _check_factors(name: str, value: object) -> tuple[FrozenArray, ...]:
    """A factorization as hashable arrays: (right,) or (left, right), float64; or raises."""
    result = as_factorization(value)
    if result is not None:
        arrays = (result.left, result.right)
    elif isinstance(value, (tuple, list)) and all(as_array(name, part).ndim == 2 for part in value):
        arrays = tuple(value)
    else:
        arrays = (value,)
    numbers = (Numbers()(name, array).values for array in arrays)
    factors = tuple(FrozenArray(array.astype(np.float64)) for array in numbers)
    for array in factors:
        if array.values.ndim != 2 or array.values.size == 0:
            raise ValueError(
                f"{name} must be None, a Factorization, a pair (left, right) of matrices, or one "
                f"strategy matrix, got an array of shape {array.values.shape}."
            )
    if len(factors) not in (1, 2):
        raise ValueError(f"{name} must have one or two matrices, got {len(factors)}.")
    return factors


@spec
class FactorizationMechanism(GaussianPrivacy, AdditiveProtocol["FactorizationMechanismParams"]):
    """Gaussian noise on a factorization of the workload, added by a trusted curator.

    With W = L^T R + u 1^T and the counts c of n users, the answers `W c / n` are estimated by

        `L^T (s [R c / s] + s m) / n + u`,

    where [.] rounds to integers, and the integers m are normal with standard deviation sigma / s:
    see `GaussianPrivacy` for why whole steps s, which are 2**-19 sigma.

    Replacing one user moves R c by a difference of two columns of R, so the sensitivity is the
    largest distance of two columns, and the constants u of the rows are free. By default L and R
    have the least product of it with the largest column norm of L (`norm="gamma2"`), or with the
    root mean square of these (`norm="gamma_f"`). That is the factorization norm of the matrix of
    all differences W (e_x - e_y), between sqrt(2) and 2 times that of the best W - u 1^T.

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-differentially private, by `GaussianPrivacy`;
        `exact_delta() <= delta`, and `exact_delta(e)` is the whole curve. It is the analyst's
        privacy in the central model: the curator sees the values.
      * Bias: for alpha = 0 none but that of rounding, at most 1e-6 sqrt(l) standard deviations of
        the noise. Otherwise at most alpha, and included in all predictions.
      * Covariance of the answers, exact and the same for all data sets: `(sigma / n)**2 L^T L`.
      * Optimality: `optimality()` compares with every mechanism that adds noise of a fixed law.

    Edge cases:
      =============================  ============================================================
      all columns equal              sensitivity 0: exact answers, which say nothing of anyone
      `adjacency="add_remove"`       n times the estimate is private for data sets that differ by
                                     one user more; to divide by n takes n as public
      values outside the domain      ValueError from a Population; the nearest one inside jit
      more than 2**40 users or so    ValueError: sums in whole steps have 63 bits
      delta below 5e-15 l e**eps     ValueError: the tables of the noise are not fine enough
      =============================  ============================================================

    Args:
      workload: float[m, k], one query a row, or an `Operator`.
      epsilon: privacy parameter, > 0.
      delta: in (0, 1).
      norm: "gamma2" for the least maximal error, "gamma_f" for the least mean squared error.
      alpha: how much an entry of the workload may be off, >= 0. The matrix that is answered is that
        of the least norm.
      factorization: None for the best one, which is searched for to a relative 1e-3; or a
        `Factorization`, or a pair (left float[l, m], right float[l, k]), or a right factor alone,
        whose left factor is then that of least squares: the least noise in every answer. Must give
        the workload up to alpha and, for "replace", constants of rows.
      adjacency: "replace" for data sets that differ in one user's value, "add_remove" for those
        that differ by one user more.

    Raises:
      ValueError: an argument is out of range, or the factors do not give the workload.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.central import FactorizationMechanism
      >>> cdf = FactorizationMechanism(jaxdp.workloads.prefix(8), epsilon=1.0, delta=1e-6)
      >>> print(round(cdf.sensitivity * cdf.noise_deviations().max() / cdf.sigma, 3))
      1.587
      >>> pop = jaxdp.Population.from_histogram([100] * 8)
      >>> answers = jaxdp.run(cdf, pop, jax.random.key(0))
      >>> bool(abs(answers - cdf.truth([100] * 8)).max() < 6 * cdf.worst_case_variance(800) ** 0.5)
      True

    References:
      Edmonds, Nikolov, Ullman (2020), The power of factorization mechanisms in local and central
      differential privacy, Sections 2.5 and 5; Nikolov, Talwar, Zhang (2016); Li, Miklau, Hay,
      McGregor, Rastogi (2015), The matrix mechanism; Balle, Wang (2018) for sigma.
    """

    workload: Any = field(WORKLOAD)
    epsilon: float = field(Epsilon())
    delta: float = field(Real(0.0, 1.0))
    norm: Literal["gamma2", "gamma_f"] = field(Choice("gamma2", "gamma_f"), default="gamma2")
    alpha: float = field(Real(0.0, closed=True), default=0.0)
    factorization: Any = field(Optional(By(_check_factors, ([], [[np.inf]]))), default=None)
    adjacency: Literal["replace", "add_remove"] = field(
        Choice("replace", "add_remove"), default="replace"
    )

    def validate(self) -> None:
        """Raises ValueError where given factors miss the workload."""
        if self.factorization is not None:
            self._strategy()

    def _strategy(self) -> Strategy:
        replace = self.adjacency == "replace"
        if self.factorization is None:
            return _find_strategy(self.workload, self.norm, self.alpha, replace)
        return _given_strategy(self.workload, self.factorization, self.alpha, replace)

    @property
    def left(self) -> Float64[np.ndarray, "l m"]:
        """The left factor L of the answers `L^T (R h) + u`."""
        return self._strategy().left

    @property
    def right(self) -> Float64[np.ndarray, "l k"]:
        """R; for "replace" its rows have mean 0."""
        return self._strategy().right

    @property
    def shift(self) -> Float64[np.ndarray, " m"]:
        """u; 0 for "add_remove"."""
        return self._strategy().shift

    @property
    def sensitivity(self) -> float:
        """The largest Euclidean distance by which one user moves R c; exact, rounded up."""
        return self._strategy().sensitivity

    @property
    def num_entries(self) -> int:
        """l, the rows of R."""
        return len(self.right)

    def build(self, word_bits: int = 32) -> "FactorizationMechanismParams":
        """The params; the noise needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        strategy = self._strategy()
        return FactorizationMechanismParams(
            strategy.left, fixed_point(self._right_in_steps()), strategy.shift, self.noise_params()
        )

    def _right_in_steps(self) -> Float64[np.ndarray, "l k"]:
        return self.right / (self.step or 1.0)  # without noise all columns are equal

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users hold bins of the domain, and their sums fit."""
        AdditiveProtocol.check_population(self, population)
        most = largest_total(self._right_in_steps())
        if population.num_users > most:
            raise ValueError(
                f"the population has {population.num_users} users, but sums in whole steps of the "
                f"noise have 63 bits, which is enough for {most}; raise delta, or lower epsilon."
            )

    def contributions(self) -> tuple[Float64[np.ndarray, "m k"], Float64[np.ndarray, "m k"]]:
        """The mean of one user's contribution to each answer, and its variance, which is 0.

        The noise is the curator's, see `noise_deviations`.
        """
        strategy = self._strategy()
        mean = strategy.left.T @ strategy.right + strategy.shift[:, None]
        return mean, np.zeros_like(mean)

    def noise_deviations(self) -> Float64[np.ndarray, " m"]:
        """N times the standard deviation of each answer's noise: `sigma |L_j|`."""
        return self.sigma * np.linalg.norm(self.left, axis=0)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float64[np.ndarray, " m"]:
        """The exact mean squared error of each answer for given users.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        n = self.check_histogram(counts, inputs).sum()
        return AdditiveProtocol.variance(self, counts) + (self.noise_deviations() / n) ** 2

    def population_variance(
        self, probabilities: ArrayLike, num_users: int
    ) -> Float64[np.ndarray, " m"]:
        """The exact mean squared error about `W p` for independent users.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
        """
        users = AdditiveProtocol.population_variance(self, probabilities, num_users)
        return users + (self.noise_deviations() / num_users) ** 2

    def _by_value(self, num_users: int) -> np.ndarray:
        noise = (self.noise_deviations() / num_users) ** 2
        return AdditiveProtocol._by_value(self, num_users) + noise[:, None]

    def expected_max_error(self, num_users: int) -> float:
        """A proven bound on the expectation of the largest error of an answer, on every data set.

        The largest bias plus `sqrt(2 ln(2 m))` times the largest standard deviation of the noise.
        """
        n = check_int("num_users", num_users, low=1)
        bias, noise = self._errors("max")
        return float(np.max(bias + noise / n))

    def min_users(self, error: float, metric: Literal["max", "rmse", "worst_rmse"] = "max") -> int:
        """Users from which on an error is reached on every data set: the sample complexity.

        Args:
          error: > 0.
          metric: "max", the bound `expected_max_error`; "rmse", the root of the mean over the
            answers of their mean squared errors; "worst_rmse", that of the worst answer.

        Raises:
          ValueError: the bias alone is as large as `error`.
        """
        error = check_epsilon(error, "error")
        check_choice("metric", metric, ("max", "rmse", "worst_rmse"))
        bias, noise = self._errors(metric)
        if np.max(bias) >= error:
            raise ValueError(
                f"error must be above {np.max(bias):.3g}, the bias of an approximate "
                f"factorization, got {error!r}; lower alpha."
            )
        room = error - bias if metric == "max" else np.sqrt(error**2 - bias**2)
        return max(math.ceil(np.max(noise / room)), 1)

    def _errors(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """The largest bias and n times the size of the noise, float64[m] each, or float64[]."""
        mean, _ = self.contributions()
        bias, noise = np.abs(mean - self.workload.values), self.noise_deviations()
        if self.alpha == 0:
            bias = np.zeros_like(bias)  # what is left is rounding
        if metric == "rmse":
            return np.sqrt(np.mean(bias**2, axis=0)).max(), np.sqrt(np.mean(noise**2))
        if metric == "max":  # of m normals and their negatives: sqrt(2 ln(2 m)) deviations at most
            return bias.max(), noise.max() * math.sqrt(2 * math.log(2 * noise.size))
        return bias.max(axis=1), noise

    def optimality(self) -> float:
        """Ratio of the noise to the least that any data-independent mechanism needs.

        The size of the noise in the mechanism's norm (the root mean square over the answers for
        "gamma_f", the largest standard deviation for "gamma2") over a proven lower bound on that of
        every (epsilon, delta)-private mechanism that adds noise of one law to the exact answers.

        Formal guarantees:
          A proven upper bound on the ratio. Noise of covariance C on n W h has `u^T C u >=
          b (u^T d)**2` for every change d that one user makes, b a function of epsilon and delta
          alone (`central_lower_bound`). So C^(1/2) and C^(-1/2) W are factors of the workload, the
          latter with changes of norm at most 1/sqrt(b), and the size of C^(1/2) is at least sqrt(b)
          times the norm that the default factors attain: Theorem 28 with its constant, for any
          workload.
          With the default factors the ratio is one of epsilon and delta only, up to 1e-3.

        Edge cases:
          =============  =========================================================================
          alpha > 0      the approximation answers other queries, and the ratio may be below 1
          sensitivity 0  1.0: nothing is needed, and nothing is added
          =============  =========================================================================
        """
        # b**(1/2): the least noise of one answer that a user moves by 1
        apart = np.array([[-0.5, 0.5]])  # two values with answers at distance 1
        floor = central_lower_bound(apart, self.epsilon, self.delta, 1.0)
        if self.adjacency == "replace":
            norm = _differences_of(self.workload, self.norm).lower
        else:
            norm = float(_SOLVERS[self.norm][0](self.workload.values, tol=1e-3).lower)
        metric = "rmse" if self.norm == "gamma_f" else "worst_rmse"
        noise = float(np.max(self._errors(metric)[1]))
        return noise / (floor * norm) if noise > 0 else 1.0


@params
class FactorizationMechanismParams(Interactive[dict[str, Count]]):
    """The params of `FactorizationMechanism`: a pytree.

    Users send their values as they are: it is the curator that adds noise, in `play`.

    Attributes:
      left: L.
      right: Count[l, k], R in 2**-32 steps of the grid.
      shift: u.
      noise: of the answers on R.
    """

    left: Float[Array | np.ndarray, "l m"]
    right: Count
    shift: Float[Array | np.ndarray, " m"]
    noise: GridNoise

    @property
    def _values(self) -> Census:
        return Census(self.right.shape[-1])

    def rounds(self, work: Work) -> Sequence[Step]:
        """The users' values."""
        return (Step(self._values, work),)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> dict[str, Count]:
        """One release; the noise has the stream of round 1."""
        counts = collect(self._values, users, 0)
        return self.perturb(
            counts, self.noise.draw(stream(key, Stream.ROUND + 1), self.right.shape[:1])
        )

    def perturb(self, counts: Count, noise: Count) -> dict[str, Count]:
        """What the curator publishes, in integers.

        Args:
          counts: Count[k], the number of users with each value.
          noise: Count[l], in steps.

        Returns:
          "answers", Count[l], those on R in steps, with noise; "users", Count[], their number.
        """
        return {"answers": rounded_product(self.right, counts) + noise, "users": counts.sum()}

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, " m"]:
        """The answers of a release."""
        left, shift = as_float64(self.left, self.shift)
        answers = self.noise.values(outcome["answers"])
        return dot(left.T, answers) / outcome["users"].f64() + shift


# --- the factors


@functools.lru_cache(maxsize=32)
def _find_strategy(workload: FrozenArray, norm: str, alpha: float, replace: bool) -> Strategy:
    """The best factors in a norm of a matrix within alpha of the workload.

    Where users are replaced, rows may be shifted and what counts are distances of columns, so
    differences of columns are factored; where they are removed, columns.
    """
    matrix, factors = workload.values, None
    exactly, nearly = _SOLVERS[norm]
    if alpha > 0:
        if replace:
            exact = exactly(matrix, shift=True, tol=_TOLERANCE).settled("the workload")
            matrix = matrix - np.asarray(exact.shift)[:, None]
        factors = nearly(matrix, alpha, tol=_TOLERANCE).settled("the workload")
        matrix = factors.matrix
    if replace:
        factors = _differences_of(FrozenArray(matrix), norm)
    elif factors is None:
        factors = exactly(matrix, tol=_TOLERANCE).settled("the workload")
    return _finish(workload.values, factors.left, factors.right, replace)


@functools.lru_cache(maxsize=32)
def _given_strategy(
    workload: FrozenArray, factors: tuple[FrozenArray, ...], alpha: float, replace: bool
) -> Strategy:
    """Given factors, or the least-squares left factor of a given right one; or raises.

    Raises:
      ValueError: shapes do not fit, or the factors miss the workload by more than alpha.
    """
    matrix, right = workload.values, factors[-1].values
    if right.shape[1] != matrix.shape[1]:
        raise ValueError(
            f"factorization must have {matrix.shape[1]} columns on its right, one for each column "
            f"of the workload, got shape {right.shape}."
        )
    if len(factors) == 2:
        left = factors[0].values
        shape = (right.shape[0], matrix.shape[0])
        if left.shape != shape:
            raise ValueError(
                f"factorization must have a left factor of shape {shape}, a row for each row of "
                f"the right one and a column for each query, got {left.shape}."
            )
    else:  # least squares: the left factor of least noise in every answer
        pair = (_centred(matrix), _centred(right)) if replace else (matrix, right)
        left = np.linalg.lstsq(pair[1].T, pair[0].T, rcond=None)[0]
    strategy = _finish(matrix, left, right, replace)
    excess = np.abs(strategy.left.T @ strategy.right + strategy.shift[:, None] - matrix).max()
    if excess > alpha + _RESIDUAL * np.abs(matrix).max():
        raise ValueError(
            f"factorization must give the workload up to alpha = {alpha:g} in every entry"
            f"{' and a constant for each row' if replace else ''}, but it misses an entry by "
            f"{excess:.3g}; raise alpha, or give more rows."
        )
    return strategy


def _centred(rows: np.ndarray) -> np.ndarray:
    return rows - rows.mean(axis=1, keepdims=True)


def _finish(matrix: np.ndarray, left: np.ndarray, right: np.ndarray, replace: bool) -> Strategy:
    """The strategy of two factors, its rows shifted to the middle of their errors."""
    shift, squares = np.zeros(matrix.shape[0]), np.sum(right**2, axis=0)
    if replace:
        right = _centred(right)
        error = matrix - left.T @ right
        shift, squares = (error.max(axis=1) + error.min(axis=1)) / 2, squared_distances(right)
    # A user moves R c by a column, or by the difference of two where users are replaced.
    sensitivity = float(np.sqrt(squares.max())) * (1 + _SLACK * right.shape[0])
    return Strategy(left, right, shift, sensitivity)


@dataclasses.dataclass(frozen=True)
class Differences:
    """Factors of the differences of columns, and the two bounds that they prove.

    Attributes:
      left: float64[l, m].
      right: float64[l, k]: W - left^T right has constant rows.
      upper: float64: the size of left (its largest column norm, or the root of their mean square)
        times the largest distance of two columns of right.
      lower: float64, at most the norm.
    """

    left: np.ndarray
    right: np.ndarray
    upper: float
    lower: float


@functools.lru_cache(maxsize=32)
def _differences_of(matrix: FrozenArray, norm: str) -> Differences:
    return factor_differences(matrix.values, norm, tol=_TOLERANCE)


def factor_differences(
    matrix: Float64[np.ndarray, "m k"], norm: str, *, tol: float = 1e-3, max_steps: int = 300
) -> Differences:
    """Factors of the differences of the columns of a matrix, within `tol` of the best if possible.

    With p and q probability weights on rows and pairs, F(p, q) = tr S for the square root S of
    `D_p^(1/2) W B D_q B^T W^T D_p^(1/2)` is concave, and its maximum is the norm: gamma_2, or
    gamma_F where p is uniform. Every F(p, q) is a lower bound, and its S gives factors. The weights
    move by `p_i *= Y_i^w`, `q_e *= Z_e^w`, with Y_i and Z_e the squared norms and distances that
    the factors have at i and e, relative to their means: at the optimum none is above the mean.

    Args:
      matrix: W.
      norm: "gamma2" or "gamma_f".
      tol: relative gap at which to stop.
      max_steps: upper limit on the number of steps.
    """
    m, k = matrix.shape
    size = np.abs(matrix).max()
    matrix = _centred(matrix)
    if np.abs(matrix).max() <= _ROUNDING * size:
        return Differences(np.zeros((0, m)), np.zeros((0, k)), 0.0, 0.0)
    rows = np.full(m, 1 / m)
    pairs = (1 - np.eye(k)) / (k * (k - 1) / 2)
    row_floor, pair_floor = _FLOOR * rows, _FLOOR * pairs
    lower, best = 0.0, Differences(np.zeros((0, m)), np.zeros((0, k)), np.inf, 0.0)
    for _ in range(max_steps):
        # Columns of `edges`, times their transpose, are the Laplacian of the weights.
        values, vectors = np.linalg.eigh(np.diag(pairs.sum(axis=1)) - pairs)
        edges = vectors * np.sqrt(np.maximum(values, 0))
        weighted = np.sqrt(rows)[:, None] * matrix
        basis, sizes, _ = np.linalg.svd(weighted @ edges, full_matrices=False)
        large = sizes > _RANK * sizes[0]
        basis, roots = basis[:, large], np.sqrt(sizes[large])
        value = sizes.sum()  # F(p, q) = tr S, a lower bound
        left = (basis * roots).T / np.sqrt(rows)
        right = (basis / roots).T @ weighted
        row_ratio = np.sum(left**2, axis=0) / value
        pair_ratio = squared_distances(right) / value
        size = row_ratio.max() if norm == "gamma2" else 1.0
        # The size of left times that of right: an upper bound
        upper = value * np.sqrt(size * pair_ratio.max())
        lower = max(lower, value)
        if upper < best.upper:
            best = Differences(left, right, float(upper), 0.0)
        if best.upper <= (1 + tol) * lower:
            break
        pairs = np.maximum(pairs * pair_ratio**_POWER, pair_floor)
        pairs /= pairs.sum() / 2
        if norm == "gamma2":
            rows = np.maximum(rows * row_ratio**_POWER, row_floor)
            rows /= rows.sum()
    axes = principal_axes(best.right)  # noise and reports depend on them: no machine may choose
    left, right = axes.T @ best.left, axes.T @ best.right
    return Differences(left, right, best.upper, float(min(lower, best.upper)))


def squared_distances(columns: Float64[np.ndarray, "l k"]) -> Float64[np.ndarray, "k k"]:
    """The squared distance of every two columns."""
    centred = _centred(columns)
    squares = np.sum(centred**2, axis=0)
    distances = squares[:, None] + squares[None, :] - 2 * (centred.T @ centred)
    return np.maximum(distances, 0.0)
