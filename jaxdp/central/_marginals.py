"""Marginals of binary features, by noise and a projection."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import jax
import numpy as np

from .._features import check_binary_rows, mean_products
from .._spec import (
    check_choice,
    check_counts,
    check_epsilon,
    check_int,
    check_probabilities,
    check_real,
)
from .._subsets import num_subsets, subsets
from ..engine import outcome
from ._marginals_errors import Basis, MarginalsErrors, Method
from ._marginals_params import MarginalsParams, MarginalsRelease
from ._marginals_tables import MarginalsConsistency, consistency_of, place_of, table_of
from ._memory import check_memory
from ._moment_set import check_order
from ._parities import marginals_of, parities_of

BASES, METHODS = get_args(Basis), get_args(Method)


@dataclasses.dataclass(frozen=True, slots=True)
class Marginals(MarginalsErrors):
    """All marginals of at most k of n binary features, released once by a trusted curator.

    Users hold x in {0, 1}^n. For a set U of features the *marginal* y_U is the share of users who
    have all of them, the *parity* p_U the mean of the product of `1 - 2 x_i` over U; those of at
    most k features determine each other (`parities_from_marginals`), and the tables of at most k
    features (`table`, `conjunctions`). Gaussian noise is added to all marginals, or to all
    parities, and the sum is moved to what some users could have:

    =============  ================================================================================
    `method`       answers
    =============  ================================================================================
    `"moments"`    the nearest moments of a pseudo-distribution of level r, see `MomentSet`
    `"flattened"`  even k only: the nearest matrix of the flattened answers that is positive
                   semidefinite and of bounded trace (and sum, if sparse), averaged and clipped
    `"clip"`       each answer clipped to its range
    `"largest"`    marginals only: the m t^k largest entries, for m users with t features each
    `"none"`       the noisy answers: the plain Gaussian mechanism
    =============  ================================================================================

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-differentially private in real arithmetic, exact, for data
        sets that differ in one user; the number m of users is public. `exact_delta() <= delta`.
      * Sensitivity, exact: see `sensitivity`. Sets of features are noised once, not once for each
        of the `|U|`! tensor entries.
      * Error of "moments": for every data set the sum of the squared errors in the basis of the
        noise is on average at most `(sigma / m) G` with the Gaussian complexity G of the set
        (constant 1), and at most that of the noise: `total_variance`. In that basis it is never
        further from the truth than the noisy answers, but for `gap`. In the other one it may be:
        3-way marginals of real data with noise on parities had up to 1.9 times the squared error.
      * Levels. The proof of the dense theorem of the paper holds at the level k / 2 for even k and
        k - 1 for odd k > 1; the default level ceil(k / 2) is that for even k and for k = 3. The
        proof of the sparse theorem needs 2 k - 2, but its complexity for odd k, t^k sqrt(log n),
        holds for every k and level here: positive answers with `sum_i y_(U + i) <= t y_U` have a
        sum of at most t^k. `guarantee` says which theorem holds.
      * Bias: "none" has none; the others are biased.

    Edge cases:
      ================================  ==========================================================
      a user with more than t features  ValueError naming the row; the first t are kept inside jit
      t < k                             marginals of more than t features are 0
      not converged                     private; `gap` of a `release` says what is lost. If it is
                                        above the noise's own energy, the noisy answers, clipped
      uniform data, little noise        the truth is inside the set, and there is nothing to gain
      ================================  ==========================================================

    Args:
      num_features: n >= 1.
      order: k in [1, n].
      epsilon: privacy parameter, > 0.
      delta: in (0, 1).
      sparsity: None, or t in [1, n]: no user has more than t features, which is public.
      queries: "marginals" or "parities", what the answers are.
      noise: which of the two is noised; None for the one with the least noise in the answers.
      method: see the table.
      level: of "moments", r in [ceil(k / 2), n]; None for ceil(k / 2).
      tol: of "moments": stop at a certified distance to the projection of at most tol times the
        root of the expected squared norm of the noise.
      max_steps: of "moments" and "flattened": upper limit on the steps.

    Raises:
      ValueError: an argument is out of range, does not fit the others, or memory.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jax, numpy as np, jaxdp
      >>> from jaxdp.central import Marginals
      >>> users = np.random.default_rng(0).random((10_000, 4)) < [0.5, 0.1, 0.2, 0.3]
      >>> population = jaxdp.Population.from_values(users.astype(np.float32))
      >>> spec = Marginals(num_features=4, order=3, epsilon=1.0, delta=1e-6)
      >>> answers = jaxdp.run(spec, population, jax.random.key(0))
      >>> share = spec.conjunctions(answers, [{0: True, 2: False}])[0]
      >>> bool(abs(share - np.mean(users[:, 0] & ~users[:, 2])) < 0.01)
      True

    References:
      Cohen-Addad, d'Orsi, Epasto, Mirrokni, Zhong (2024), Perturb-and-project: differentially
      private similarities and marginals, Theorems 2.2, 2.3 and A.4; Dwork, Nikolov, Talwar (2015),
      Efficient algorithms for privately releasing marginals via convex relaxations; Barak et al.
      (2007); Balle, Wang (2018) for sigma.
    """

    num_features: int
    order: int
    epsilon: float
    delta: float
    sparsity: int | None = None
    queries: Basis = "marginals"
    noise: Basis | None = None
    method: Method = "moments"
    level: int | None = None
    tol: float = 0.05
    max_steps: int = 4000

    def __post_init__(self):
        n = check_int("num_features", self.num_features, low=1)
        check_order(self.order, n)
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_real("delta", self.delta, low=0.0, high=1.0))
        if self.sparsity is not None:
            check_int("sparsity", self.sparsity, low=1, high=n)
        check_choice("queries", self.queries, BASES)
        check_choice("method", self.method, METHODS)
        object.__setattr__(self, "tol", check_real("tol", self.tol, low=0.0, high=1.0))
        check_int("max_steps", self.max_steps, low=1)
        needed = 8 * (2**self.order + 8) * num_subsets(n, self.order)
        check_memory(
            needed,
            f"order must be such that the answers fit, got {self.order} of {n} features",
        )
        if self.noise is not None:
            check_choice("noise", self.noise, BASES)
        else:
            object.__setattr__(self, "noise", self._least_noise())
        self._check_method()

    def _check_method(self) -> None:
        if self.method == "flattened" and self.order % 2:
            raise ValueError(
                f"order must be even for method='flattened', got {self.order}: an odd tensor is no "
                "square matrix; use method='moments'."
            )
        if self.method == "largest" and self.sparsity is None:
            raise ValueError("sparsity must be given for method='largest', which keeps m t^k.")
        if self.method == "largest" and self.queries != "marginals":
            raise ValueError(
                f"queries must be 'marginals' for method='largest', got {self.queries!r}: of the "
                "parities of sparse users few are 0."
            )
        if self.method == "flattened" and self.sparsity is not None and self.noise == "parities":
            raise ValueError("noise must be 'marginals' for method='flattened' with a sparsity.")
        if self.method == "moments":
            object.__setattr__(self, "level", self.moment_set.level)
        elif self.level is not None:
            raise ValueError(
                f"level must be None for method={self.method!r}, got {self.level!r}: only "
                "'moments' has levels."
            )

    def _least_noise(self) -> str:
        if self.sparsity is not None and self.method in ("moments", "flattened"):
            return "marginals"
        return min(BASES, key=lambda noise: float(self._plain_variance(noise).sum()))

    @property
    def guaranteed_level(self) -> int:
        """The level at which the proof of the paper's theorem holds.

        Without a sparsity k / 2 for even k, k - 1 for odd k > 1; with one, 2 k - 2. At least 1.
        """
        k = self.order
        if self.sparsity is not None:
            return max(2 * k - 2, 1)
        return k // 2 if k % 2 == 0 else max(k - 1, 1)

    @property
    def guarantee(self) -> Literal["dense", "sparse", "none"]:
        """Which theorem holds for what is released: see the class."""
        if self.method == "flattened":
            return "dense" if self.sparsity is None else "sparse"
        if self.method != "moments":
            return "none"
        if self.sparsity is not None:
            return "sparse"
        assert self.level is not None
        return "dense" if self.level >= self.guaranteed_level else "none"

    def build(self, word_bits: int = 32) -> MarginalsParams:
        """The params; the noise needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        return MarginalsParams(
            np.asarray(self.sigma),
            self.num_features,
            self.order,
            self.sparsity,
            self.level,
            str(self.noise),
            self.queries,
            self.method,
            self.tol,
            self.max_steps,
        )

    def release(self, population: Any, key: jax.Array) -> MarginalsRelease:
        """One release with its certificate, NumPy arrays.

        Args:
          population: the users, a `jaxdp.Population` of float32[n] rows of 0 and 1.
          key: a key; `jaxdp.run` gives the same answers for it.
        """
        found = outcome(self, population, key)
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, _release(self.build(), found))

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the answers for given users, float64[N].

        Args:
          counts: int[rows], the number of users with each row of features.
          inputs: float[rows, n] of 0 and 1.
        """
        counts = check_counts(counts).ravel()
        return self._answers(counts / counts.sum(), inputs)

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The answers for the distribution that users are drawn from, float64[N]."""
        del num_users
        return self._answers(check_probabilities(probabilities), inputs)

    def _answers(self, weights: np.ndarray, inputs) -> np.ndarray:
        rows = self._check_rows(inputs)
        return self._from_marginals(mean_products(weights, rows, subsets(*self._size)))

    def _from_marginals(self, marginals: np.ndarray) -> np.ndarray:
        if self.queries == "marginals":
            return marginals
        with jax.enable_x64(True):
            return np.asarray(parities_of(jax.numpy.asarray(marginals), *self._size))

    def _to_marginals(self, answers) -> np.ndarray:
        array = np.asarray(answers, np.float64)
        if array.shape[-1:] != (self.num_queries,):
            raise ValueError(
                f"answers must have {self.num_queries} entries on the last axis, got shape "
                f"{array.shape}."
            )
        if self.queries == "marginals":
            return array
        with jax.enable_x64(True):
            return np.asarray(marginals_of(jax.numpy.asarray(array), *self._size))

    @property
    def _size(self) -> tuple[int, int]:
        return self.num_features, self.order

    def check_population(self, population) -> None:
        """Raises ValueError unless users hold rows of 0 and 1, with at most t of them 1."""
        population.require_reals((self.num_features,), low=0.0, high=1.0)
        self._check_rows(population.inputs)

    def _check_rows(self, inputs) -> np.ndarray:
        return check_binary_rows(inputs, self.num_features, self.sparsity)

    def index(self, features: Sequence[int]) -> int:
        """The place of a set of features among the answers.

        Args:
          features: distinct numbers in [0, n), at most k; in any order.
        """
        return place_of(features, *self._size)

    def table(self, answers, features: Sequence[int]) -> np.ndarray:
        """The table of some features: the share of users with each combination.

        Args:
          answers: float[..., N], as released.
          features: at most k distinct numbers in [0, n).

        Returns:
          float64[..., 2, ..., 2], an axis for each feature as they are given; entry 1 on it is that
          of the users who have it. It may be negative: a moment set of low level does not know all.
        """
        return table_of(self._to_marginals(answers), features, *self._size)

    def conjunctions(self, answers, queries: Sequence[Mapping[int, Any]]) -> np.ndarray:
        """The share of users for whom some literals hold, for each of many queries.

        Args:
          answers: float[..., N], as released.
          queries: maps from at most k features to whether the user has them.

        Returns:
          float64[..., len(queries)].
        """
        marginals, found = self._to_marginals(answers), []
        for query in queries:
            place = tuple(int(bool(wanted)) for wanted in query.values())
            found.append(table_of(marginals, tuple(query), *self._size)[(..., *place)])
        return np.stack(found, axis=-1)

    def consistency(self, answers) -> MarginalsConsistency:
        """How far answers are from those of some data set.

        Args:
          answers: float[N], as released.
        """
        return consistency_of(self._to_marginals(answers), *self._size, self.sparsity)


@jax.jit
def _release(params: MarginalsParams, found) -> MarginalsRelease:
    return params.release(found)
