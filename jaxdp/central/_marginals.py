"""Marginals of binary features, by noise and a projection."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np

from .._spec import (
    check_choice,
    check_counts,
    check_epsilon,
    check_int,
    check_probabilities,
    check_real,
)
from ..accounting import gaussian_delta, gaussian_sigma
from ..engine import outcome
from . import _subsets
from ._marginals_params import MarginalsParams, MarginalsRelease
from ._marginals_tables import MarginalsConsistency, consistency_of, place_of, table_of
from ._moment_set import MAX_BYTES, MomentSet, check_order
from ._parities import marginals_of, marginals_sensitivity, parities_of, parities_sensitivity

METHODS = ("moments", "flattened", "clip", "largest", "none")
BASES = ("marginals", "parities")


@dataclasses.dataclass(frozen=True, slots=True)
class Marginals:
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
    `"largest"`    only the m t^k largest entries, for m users with t features each
    `"none"`       the noisy answers: the plain Gaussian mechanism
    =============  ================================================================================

    Formal guarantees:
      * Privacy: (epsilon, exact_delta())-differentially private in real arithmetic, exact, for data
        sets that differ in one user; the number m of users is public. `exact_delta() <= delta`.
      * Sensitivity, exact: see `sensitivity`. Sets of features are noised once, not once for each
        of the `|U|`! tensor entries.
      * Error of "moments": for every data set the sum of the squared errors in the basis of the
        noise is on average at most `(sigma / m) G` with the Gaussian complexity G of the set
        (constant 1), and at most that of the noise: `total_variance`. It is never further from the
        truth than the noisy answers, but for `gap`.
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
    queries: Literal["marginals", "parities"] = "marginals"
    noise: Literal["marginals", "parities"] | None = None
    method: Literal["moments", "flattened", "clip", "largest", "none"] = "moments"
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
        needed = 8 * (2**self.order + 8) * _subsets.num_subsets(n, self.order)
        if needed > MAX_BYTES:
            raise ValueError(
                f"order must be such that the answers fit, got {self.order} of {n} features: they "
                f"would take {needed:,} bytes, at most {MAX_BYTES:,} are allowed."
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
    def moment_set(self) -> MomentSet:
        """The set of method "moments": what is noised, projected on it."""
        basis = "marginals" if self.noise == "marginals" else "parities"
        return MomentSet(self.num_features, self.order, basis, self.level, self.sparsity)

    @property
    def num_queries(self) -> int:
        """N, the number of sets of at most k features, the empty one included."""
        return _subsets.num_subsets(self.num_features, self.order)

    @property
    def sensitivity(self) -> float:
        """How far one user moves m times what is noised, in Euclidean norm; exact.

        For marginals the root of `2 f(t)` if two users can have t features each and none in common,
        f(a) the number of nonempty sets of at most k out of a; of `f(n)` without a sparsity. For
        parities twice the root of the largest number of sets, of at most k features, with an odd
        number out of those in which two users differ.
        """
        return self._sensitivity(str(self.noise))

    def _sensitivity(self, noise: str) -> float:
        find = marginals_sensitivity if noise == "marginals" else parities_sensitivity
        return find(self.num_features, self.order, self.sparsity) * (1 + 1e-15)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise on sums over the users: the least that is private."""
        return gaussian_sigma(self.epsilon, self.delta, self.sensitivity)

    def exact_epsilon(self) -> float:
        """The epsilon at which `exact_delta()` holds: `epsilon` itself."""
        return self.epsilon

    def exact_delta(self, epsilon: float | None = None) -> float:
        """The smallest delta at which the mechanism is (epsilon, delta)-private.

        Args:
          epsilon: >= 0; the mechanism's own for None.
        """
        epsilon = self.epsilon if epsilon is None else epsilon
        return gaussian_delta(epsilon, self.sensitivity, self.sigma)

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
        if len(rows) != len(weights):
            raise ValueError(f"inputs must have a row for each of {len(weights)} counts.")
        features = np.concatenate([rows, np.ones((len(rows), 1), bool)], axis=1)
        sets = _subsets.subsets(self.num_features, self.order)
        marginals = np.empty(len(sets))
        for start in range(0, len(sets), 256):
            some = slice(start, start + 256)
            marginals[some] = weights @ features[:, sets[some]].all(axis=2)
        return self._from_marginals(marginals)

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
        if inputs is None or np.ndim(inputs) != 2 or np.shape(inputs)[1] != self.num_features:
            raise ValueError(
                f"inputs must have shape [rows, {self.num_features}], a row of features each, got "
                f"{None if inputs is None else np.shape(inputs)}."
            )
        rows = np.asarray(inputs)
        wrong = np.flatnonzero(~np.all((rows == 0) | (rows == 1), axis=1))
        if wrong.size:
            raise ValueError(f"features must be 0 or 1, got {rows[wrong[0]]} in row {wrong[0]}.")
        rows = rows == 1
        if self.sparsity is not None:
            wrong = np.flatnonzero(rows.sum(axis=1) > self.sparsity)
            if wrong.size:
                raise ValueError(
                    f"sparsity must be at least the features of every user: row {wrong[0]} has "
                    f"{rows[wrong[0]].sum()}, more than {self.sparsity}; raise it, or drop "
                    "features of that user."
                )
        return rows

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

    def _row_norms(self, noise: str) -> np.ndarray:
        """The squared norms of the rows of the map from what is noised to the answers."""
        size = _subsets.sizes(*self._size).astype(np.float64)
        if noise == self.queries:
            return (size > 0).astype(np.float64)
        return (2**size - 1) / 4**size if self.queries == "marginals" else 5**size - 1

    def _plain_variance(self, noise: str) -> np.ndarray:
        sigma = gaussian_sigma(self.epsilon, self.delta, self._sensitivity(noise))
        return sigma**2 * self._row_norms(noise)

    def noise_variance(self, num_users: int) -> np.ndarray:
        """The exact variance of each noisy answer, before any projection, float64[N]."""
        m = check_int("num_users", num_users, low=1)
        return self._plain_variance(str(self.noise)) / m**2

    def total_variance(self, num_users: int) -> float:
        """A bound on the mean squared error summed over all of what is noised, on any data set.

        Exact for "none" if what is noised is what is asked. "moments": the least of
        `(sigma / m) G`, with the proven `MomentSet.complexity_bound` for G, and of the noise's own
        `(sigma / m)**2 N`; it is that of the projection itself, without `tol`. "flattened": the
        projection does not expand the norm that counts an answer once for each entry of the matrix.
        "largest": 4 times the noise, for the nearest sparse vector is at most as far from the noisy
        one as the truth. "clip": that of the noise.
        """
        m = check_int("num_users", num_users, low=1)
        scale, number = self.sigma / m, self.num_queries - 1
        plain = scale**2 * number
        if self.method == "moments":
            return min(plain, scale * self.moment_set.complexity_bound())
        if self.method == "flattened":
            n, half = self.num_features, self.order // 2
            rows = _subsets.subsets(n, half)
            union = _subsets.union if self.noise == "marginals" else _subsets.difference
            places = _subsets.rank(union(rows[:, None], rows[None], n), n)
            times = np.bincount(places.ravel())[1:]
            return scale**2 * float(times.sum() / times.min())
        return 4 * plain if self.method == "largest" else plain

    def variance(self, counts, inputs=None) -> np.ndarray:
        """A proven bound on the mean squared error of each answer for given users, float64[N].

        Exact for "none"; at most that of the noise for "clip"; else `total_variance` through the
        change of basis, and the square of the answer's range.

        Args:
          counts: int[rows], the number of users with each row of features.
          inputs: unused.
        """
        del inputs
        return self._bounds(int(check_counts(counts).sum()))

    def worst_case_variance(self, num_users: int) -> float:
        """The largest bound of `variance` over the answers; it holds for every data set."""
        return float(self._bounds(num_users).max())

    def _bounds(self, num_users: int) -> np.ndarray:
        noise = self.noise_variance(num_users)
        if self.method in ("none", "clip"):
            return noise
        norms = self._row_norms(str(self.noise))
        total = self.total_variance(num_users)
        if self.method == "largest":
            total = 4 * float(noise.sum())
            norms = (norms > 0).astype(np.float64)
            return total * norms
        span = 1.0 if self.queries == "marginals" else 2.0
        return np.minimum(total * norms, span**2)


@jax.jit
def _release(params: MarginalsParams, found) -> MarginalsRelease:
    return params.release(found)
