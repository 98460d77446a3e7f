"""The Gaussian factorization mechanism."""

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._queries import AdditiveProtocol, check_workload
from .._spec import check_choice, check_epsilon, check_int, check_real
from .._x64 import compiled_in_float64, dot
from ..factorization import central_lower_bound, gamma2, gamma_f
from ..random import ROUND, Count, multinomial, stream, user_words
from ..random._gamma import normal_of
from ..randomizers._params import CountedParams
from ._gaussian_privacy import GaussianPrivacy
from ._strategy import (
    Strategy,
    differences_of,
    find_strategy,
    freeze_factorization,
    given_strategy,
)


@dataclasses.dataclass(frozen=True, slots=True)
class FactorizationMechanism(GaussianPrivacy, AdditiveProtocol):
    """Gaussian noise on a factorization of the workload, added by a trusted curator.

    With W = L^T R + u 1^T and the counts c of n users, the answers `W c / n` are estimated by

        `L^T (R c + sigma z) / n + u`, z ~ N(0, I).

    Replacing one user moves R c by a difference of two columns of R, so the sensitivity is the
    largest distance of two columns, and the constants u of the rows are free. By default L and R
    have the least product of it with the largest column norm of L (`norm="gamma2"`), or with the
    root mean square of these (`norm="gamma_f"`). That is the factorization norm of the matrix of
    all differences W (e_x - e_y), between sqrt(2) and 2 times that of the best W - u 1^T.

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-differentially private in real arithmetic, exact;
        `exact_delta() <= delta`, and `exact_delta(e)` is the whole curve. It is the analyst's
        privacy in the central model: the curator sees the values.
      * Bias: none for alpha = 0. Otherwise at most alpha, and included in all predictions.
      * Covariance of the answers, exact and the same for all data sets: `(sigma / n)**2 L^T L`.
      * Optimality: `optimality()` compares with every mechanism that adds noise of a fixed law.

    Edge cases:
      =============================  ============================================================
      all columns equal              sensitivity 0: exact answers, which say nothing of anyone
      `adjacency="add_remove"`       n times the estimate is private for data sets that differ by
                                     one user more; to divide by n takes n as public
      values outside the domain      ValueError from a Population; the nearest one inside jit
      =============================  ============================================================

    Args:
      workload: float[m, k], one query a row, or an `Operator`.
      epsilon: privacy parameter, > 0.
      delta: in (0, 1).
      norm: "gamma2" for the least maximal error, "gamma_f" for the least mean squared error.
      alpha: how much an entry of the workload may be off, >= 0. The matrix that is answered is that
        of least gamma_2; with "gamma_f" it is factored for the mean error, which another matrix
        within alpha might have less of.
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

    workload: Any
    epsilon: float
    delta: float
    norm: Literal["gamma2", "gamma_f"] = "gamma2"
    alpha: float = 0.0
    factorization: Any = None
    adjacency: Literal["replace", "add_remove"] = "replace"

    def __post_init__(self):
        object.__setattr__(self, "workload", check_workload(self.workload))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_real("delta", self.delta, low=0.0, high=1.0))
        check_choice("norm", self.norm, ("gamma2", "gamma_f"))
        check_choice("adjacency", self.adjacency, ("replace", "add_remove"))
        alpha = check_real("alpha", self.alpha, low=0.0, high=math.inf, open_ends=False)
        object.__setattr__(self, "alpha", alpha)
        if self.factorization is not None:
            factors = freeze_factorization(self.factorization)
            object.__setattr__(self, "factorization", factors)
            self._strategy()

    def _strategy(self) -> Strategy:
        replace = self.adjacency == "replace"
        if self.factorization is None:
            return find_strategy(self.workload, self.norm, self.alpha, replace)
        return given_strategy(self.workload, self.factorization, self.alpha, replace)

    @property
    def left(self) -> np.ndarray:
        """L, float64[l, m]."""
        return self._strategy().left

    @property
    def right(self) -> np.ndarray:
        """R, float64[l, k]; for "replace" its rows have mean 0."""
        return self._strategy().right

    @property
    def shift(self) -> np.ndarray:
        """u, float64[m]; 0 for "add_remove"."""
        return self._strategy().shift

    @property
    def sensitivity(self) -> float:
        """The largest Euclidean distance by which one user moves R c; exact, rounded up."""
        return self._strategy().sensitivity

    def build(self, word_bits: int = 32) -> "FactorizationMechanismParams":
        """The params; the noise needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        strategy = self._strategy()
        return FactorizationMechanismParams(
            strategy.left, strategy.right, strategy.shift, np.asarray(self.sigma)
        )

    def contributions(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean of one user's contribution to each answer, and its variance, which is 0.

        Returns:
          float64[m, k] and float64[m, k]; the noise is the curator's, see `noise_deviations`.
        """
        strategy = self._strategy()
        mean = strategy.left.T @ strategy.right + strategy.shift[:, None]
        return mean, np.zeros_like(mean)

    def noise_deviations(self) -> np.ndarray:
        """N times the standard deviation of each answer's noise: `sigma |L_j|`, float64[m]."""
        return self.sigma * np.linalg.norm(self.left, axis=0)

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact mean squared error of each answer for given users, float64[m].

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        n = self.check_histogram(counts, inputs).sum()
        return AdditiveProtocol.variance(self, counts) + (self.noise_deviations() / n) ** 2

    def population_variance(self, probabilities, num_users: int) -> np.ndarray:
        """The exact mean squared error about `W p` for independent users, float64[m].

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
        if metric == "max":
            return bias.max(), noise.max() * math.sqrt(2 * math.log(2 * noise.size))
        return bias.max(axis=1), noise

    def optimality(self) -> float:
        """How far the noise is from the least that any data-independent mechanism needs.

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
        apart = np.array([[-0.5, 0.5]])  # two values with answers at distance 1
        floor = central_lower_bound(apart, self.epsilon, self.delta, 1.0)
        if self.adjacency == "replace":
            norm = differences_of(self.workload, self.norm).lower
        else:
            find = gamma2 if self.norm == "gamma2" else gamma_f
            norm = float(find(self.workload.values, tol=1e-3).lower)
        metric = "rmse" if self.norm == "gamma_f" else "worst_rmse"
        noise = float(np.max(self._errors(metric)[1]))
        return noise / (floor * norm) if noise > 0 else 1.0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FactorizationMechanismParams(CountedParams):
    """The params of `FactorizationMechanism`: a pytree.

    Users send their values as they are: it is the curator that adds noise, in `play`.

    Attributes:
      left: float64[l, m].
      right: float64[l, k].
      shift: float64[m].
      sigma: float64[], the standard deviation of the noise.
    """

    left: jax.Array | np.ndarray
    right: jax.Array | np.ndarray
    shift: jax.Array | np.ndarray
    sigma: jax.Array | np.ndarray

    @property
    def num_words(self) -> int:
        """0: users do not randomize."""
        return 0

    @property
    def num_reports(self) -> int:
        """K."""
        return self.right.shape[-1]

    def from_bits(self, words, value):
        """The value itself, clamped into the domain.

        Args:
          words: uint32[0].
          value: int32[] in [0, k).
        """
        del words
        return jnp.clip(value.astype(jnp.int32), 0, self.num_reports - 1)

    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """The tally, which is the counts themselves.

        Args:
          key: unused.
          counts: Count[k], the number of users with each value.
          inputs: unused; values are bins.
        """
        del key, inputs
        return counts

    @compiled_in_float64
    def sample_tally_iid(self, key, num_users: Count, weights: Count) -> Count:
        """The counts of users drawn from a distribution.

        Args:
          key: a key; it is folded.
          num_users: Count[].
          weights: Count[k], the probabilities of the values times any constant.
        """
        return multinomial(jax.random.fold_in(key, 0), num_users, weights.f64())

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        del num_users
        return 1.0 * num_bins

    def play(self, key, population, collect):
        """One release: the users' counts, and the words of the curator's noise.

        Args:
          key: the trial's key; the noise has the stream of round 1.
          population: the users.
          collect: collects the users' values.

        Returns:
          (Count[k], uint32[l, 2]).
        """
        words = user_words(stream(key, ROUND + 1), 0, 2 * self.right.shape[-2])[:].reshape(-1, 2)
        return collect(self, population), words

    @compiled_in_float64
    def estimate(self, outcome):
        """The noisy answers, float[m].

        Args:
          outcome: of `play`.
        """
        counts, words = outcome
        left, right, shift, sigma = (
            jnp.asarray(leaf).astype(jnp.float64)
            for leaf in (self.left, self.right, self.shift, self.sigma)
        )
        users = counts.f64()
        total = dot(right, users) + sigma * normal_of(words)
        return dot(left.T, total) / jnp.sum(users) + shift
