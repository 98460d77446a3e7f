"""Marginals of binary features, by noise and a projection."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64, Int32, UInt32
from numpy.typing import ArrayLike

from .._checks import Choice, Epsilon, Integer, Optional, Real
from .._contract import (
    Collect,
    Interactive,
    Spec,
    Step,
    Tree,
    Work,
    field,
    params,
    spec,
    static,
)
from .._features import check_binary_rows, mean_products, rows_of_users
from .._prediction import Kind, Prediction
from .._spec import check_counts, check_int, check_probabilities
from .._subsets import joined, num_subsets, sizes, subsets
from .._x64 import compiled_in_float64
from ..engine import SimulatedErrors, outcome
from ..population import Population
from ..projections import IntersectionProjection
from ..random import Count, Stream, stream
from ._convex_set import check_memory
from ._flattened import project_flattened
from ._grid_noise import MAX_SUM, GaussianPrivacy, GridNoise, from_int64, to_int64
from ._marginal_counts import MarginalCounts
from ._moment_set import MomentSet, check_order
from ._parities import (
    MarginalsConsistency,
    consistency_of,
    marginals_of,
    marginals_sensitivity,
    parities_of,
    parities_sensitivity,
    place_of,
    table_of,
)

Basis = Literal["marginals", "parities"]
Method = Literal["moments", "flattened", "clip", "largest", "none"]
BASES, METHODS = get_args(Basis), get_args(Method)


@spec
class Marginals(GaussianPrivacy, Spec["MarginalsParams"], SimulatedErrors):
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
      * Privacy: (epsilon, exact_delta())-differentially private, by `GaussianPrivacy`, for data
        sets that differ in one user; the number m of users is public. `exact_delta() <= delta`. The
        sums over the users are integers, and multiples of the grid's step: rounding costs nothing.
      * Sensitivity, exact: see `sensitivity`. Sets of features are noised once, not once for each
        of the `|U|`! tensor entries.
      * Error of "moments": for every data set the sum of the squared errors in the basis of the
        noise is on average at most `(sigma / m) G` with the Gaussian complexity G of the set
        (constant 1), and at most that of the noise: `total_variance`. In that basis, by default
        that of the answers, it is never further from the truth than what is noised, but for `gap`.
        In the other one it may be: 3-way marginals of real data with noise on parities had up to
        1.9 times the squared error.
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
      more than 2**40 users or so       ValueError: sums in steps of the noise have 63 bits
      ================================  ==========================================================

    Args:
      num_features: n >= 1.
      order: k in [1, n].
      epsilon: privacy parameter, > 0.
      delta: in (0, 1).
      sparsity: None, or t in [1, n]: no user has more than t features, which is public.
      queries: "marginals" or "parities", what the answers are.
      noise: which of the two is noised. None for the answers themselves where the method projects,
        for marginals with a sparsity, and else for the one with the least noise in the answers.
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

    num_features: int = field(Integer(1))
    order: int = field(Integer(1))
    epsilon: float = field(Epsilon())
    delta: float = field(Real(0.0, 1.0))
    sparsity: int | None = field(Optional(Integer(1)), default=None)
    queries: Basis = field(Choice(*BASES), default="marginals")
    noise: Basis | None = field(Optional(Choice(*BASES)), default=None)
    method: Method = field(Choice(*METHODS), default="moments")
    level: int | None = field(Optional(Integer(1)), default=None)
    tol: float = field(Real(0.0, 1.0), default=0.05)
    max_steps: int = field(Integer(1), default=4000)

    def validate(self) -> None:
        """Raises ValueError unless the arguments fit together, and the memory."""
        n, k, method = self.num_features, self.order, self.method
        check_order(k, n)
        if self.sparsity is not None:
            check_int("sparsity", self.sparsity, low=1, high=n)
        check_memory(
            8 * (2**k + 8) * self.num_queries,
            f"order must be such that the answers fit, got {k} of {n} features",
        )
        if self.noise is None:
            self.settle(noise=self._default_noise())
        if method == "flattened" and k % 2:
            raise ValueError(
                f"order must be even for method='flattened', got {k}: an odd tensor has no square "
                "flattening; use method='moments'."
            )
        if method == "largest" and self.sparsity is None:
            raise ValueError("sparsity must be given for method='largest', which keeps m t^k.")
        if method == "largest" and self.queries != "marginals":
            raise ValueError(
                f"queries must be 'marginals' for method='largest', got {self.queries!r}: of the "
                "parities of sparse users few are 0."
            )
        if method == "flattened" and self.sparsity is not None and self.noise == "parities":
            raise ValueError("noise must be 'marginals' for method='flattened' with a sparsity.")
        if method == "moments":
            self.settle(level=self.moment_set.level)
        elif self.level is not None:
            raise ValueError(
                f"level must be None for method={method!r}, got {self.level!r}: only 'moments' has "
                "levels."
            )
        self.step  # noqa: B018  raises where the noise has none

    def _default_noise(self) -> str:
        if self.method in ("moments", "flattened"):
            # Projected in their own norm, answers only come closer to the truth. The sets for
            # sparse users are of marginals.
            return self.queries if self.sparsity is None else "marginals"

        def total(noise: str) -> float:
            # sigma is in proportion to the sensitivity, an answer's noise to its row's norm.
            return self._sensitivity(noise) ** 2 * float(self._row_norms(noise).sum())

        return min(BASES, key=total)

    @property
    def _size(self) -> tuple[int, int]:
        return self.num_features, self.order

    @property
    def moment_set(self) -> MomentSet:
        """The set of method "moments": what is noised, projected on it."""
        basis = "marginals" if self.noise == "marginals" else "parities"
        return MomentSet(*self._size, basis, self.level, self.sparsity)

    @property
    def num_queries(self) -> int:
        """N, the number of sets of at most k features, the empty one included."""
        return num_subsets(*self._size)

    @property
    def num_entries(self) -> int:
        """N - 1: all answers but that of the empty set are noised."""
        return self.num_queries - 1

    @property
    def _moved(self) -> float:
        return 0.0  # sums are integers

    @property
    def sensitivity(self) -> float:
        """Exact Euclidean distance by which one user moves m times the vector that gets noise.

        For marginals the root of `2 f(t)` if two users can have t features each and none in common,
        f(a) the number of nonempty sets of at most k out of a; of `f(n)` without a sparsity. For
        parities twice the root of the largest number of sets, of at most k features, with an odd
        number out of those in which two users differ.
        """
        return self._sensitivity(str(self.noise))

    def _sensitivity(self, noise: str) -> float:
        find = marginals_sensitivity if noise == "marginals" else parities_sensitivity
        # Above the rounding of the root, so that the noise is never too little
        return find(*self._size, self.sparsity) * (1 + 1e-15)

    def _row_norms(self, noise: str) -> np.ndarray:
        """The squared norms of the rows of the map from what is noised to the answers."""
        size = sizes(*self._size).astype(np.float64)
        # Squared coefficients of S in U, S not empty: 4^-|U|, or 4^|S|; C(|U|, s) are of size s.
        if noise == self.queries:
            return (size > 0).astype(np.float64)
        return (2**size - 1) / 4**size if self.queries == "marginals" else 5**size - 1

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
        """Name of the theorem that bounds the error of a release; see the class."""
        if self.method == "flattened":
            return "dense" if self.sparsity is None else "sparse"
        if self.method != "moments":
            return "none"
        if self.sparsity is not None:
            return "sparse"
        assert self.level is not None
        return "dense" if self.level >= self.guaranteed_level else "none"

    def noise_variance(self, num_users: int) -> Float64[np.ndarray, " N"]:
        """The exact variance of each noisy answer, before any projection."""
        m = check_int("num_users", num_users, low=1)
        return (self.sigma / m) ** 2 * self._row_norms(str(self.noise))

    @property
    def variance_kind(self) -> Kind:
        """Exact where the noisy answers are left as they are, otherwise a bound."""
        return "exact" if self.method == "none" else "bound"

    def total_variance(self, num_users: int) -> Prediction:
        """A bound on the summed mean squared error, on any data set.

        "none", "clip" and "largest" act on the answers, and it is the sum over these: that of the
        noise, exact for "none" and a bound for "clip"; 4 times that for "largest", since the
        nearest vector with as few entries is at most as far from the noisy one as the truth, which
        is such a vector too. The others act on what is noised, and it is the sum over that, before
        a change of basis. "moments": the least of `(sigma / m) G`, with the proven
        `MomentSet.complexity_bound` for G, and of the noise's own `(sigma / m)**2 N`; it is that of
        the projection itself, without `tol`. "flattened": the projection does not expand the norm
        that counts an answer once for each entry of the matrix.
        """
        m = check_int("num_users", num_users, low=1)
        scale = self.sigma / m
        if self.method == "moments":
            # Theorem 5.1 with the constant 1: sigma G(S), or the noise as it is
            return Prediction(
                min(scale**2 * self.num_entries, scale * self.moment_set.complexity_bound()),
                self.variance_kind,
            )
        if self.method == "flattened":
            places = joined(self.num_features, self.order // 2, str(self.noise))
            # The matrix has each answer `times` times; the projection does not expand its norm.
            times = np.bincount(places.ravel())[1:]
            return Prediction(scale**2 * float(times.sum() / times.min()), self.variance_kind)
        noise = float(self.noise_variance(m).sum())
        return Prediction(4 * noise if self.method == "largest" else noise, self.variance_kind)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float64[np.ndarray, " N"]:
        """A proven bound on the mean squared error of each answer for given users.

        Exact for "none"; at most that of the noise for "clip"; else `total_variance` through the
        change of basis, and the square of the answer's range.

        Args:
          counts: int[rows], the number of users with each row of features.
          inputs: unused.
        """
        del inputs
        return self._bounds(int(check_counts(counts).sum()))

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest bound of `variance` over the answers; it holds for every data set."""
        return Prediction(self._bounds(num_users).max(), self.variance_kind)

    def _bounds(self, num_users: int) -> np.ndarray:
        noise = self.noise_variance(num_users)
        if self.method in ("none", "clip"):
            return noise
        norms = self._row_norms(str(self.noise))
        total = self.total_variance(num_users)
        if self.method == "largest":
            # One answer's error is at most the sum of all; the first, 1, has none.
            return total * (norms > 0)
        # No answer moves by more than the norm of its row times the distance of what is noised.
        span = 1.0 if self.queries == "marginals" else 2.0
        return np.minimum(total * norms, span**2)

    def build(self, word_bits: int = 32) -> "MarginalsParams":
        """The params; the noise needs words of 32 bits."""
        check_int("word_bits", word_bits, low=32, high=32)
        return MarginalsParams(
            self.noise_params(),
            np.asarray(self._units, np.uint32),
            MarginalCounts(*self._size, self.sparsity),
            self.level,
            str(self.noise),
            self.queries,
            self.method,
            self.tol,
            self.max_steps,
        )

    @property
    def _units(self) -> int:
        """Steps of the noise in one user."""
        return round(1 / self.step)

    def release(self, population: Population, key: jax.Array) -> "MarginalsRelease":
        """Makes one release, with its certificate, as NumPy arrays.

        Args:
          population: the users, who hold float32[n] rows of 0 and 1.
          key: a key; `jaxdp.run` gives the same answers for it.
        """
        tally = outcome(self, population, key)
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, _release(self.build(), tally))

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> Float64[np.ndarray, " N"]:
        """The target: the answers for given users.

        Args:
          counts: int[rows], the number of users with each row of features.
          inputs: float[rows, n] of 0 and 1.
        """
        counts = check_counts(counts).ravel()
        return self._answers(counts / counts.sum(), inputs)

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float64[np.ndarray, " N"]:
        """The answers for the distribution that users are drawn from."""
        del num_users
        return self._answers(check_probabilities(probabilities), inputs)

    def _answers(self, weights: np.ndarray, inputs: Tree) -> np.ndarray:
        rows = check_binary_rows(inputs, self.num_features, self.sparsity)
        marginals = mean_products(weights, rows, subsets(*self._size))
        if self.queries == "marginals":
            return marginals
        with jax.enable_x64(True):
            return np.asarray(parities_of(jnp.asarray(marginals), *self._size))

    def _to_marginals(self, answers: ArrayLike) -> Float64[np.ndarray, "*b N"]:
        array = np.asarray(answers, np.float64)
        if array.shape[-1:] != (self.num_queries,):
            raise ValueError(
                f"answers must have {self.num_queries} entries on the last axis, got shape "
                f"{array.shape}."
            )
        if self.queries == "marginals":
            return array
        with jax.enable_x64(True):
            return np.asarray(marginals_of(jnp.asarray(array), *self._size))

    def prior_users(self, prior: ArrayLike | str, num_users: int) -> Population:
        """Users who hold rows of features."""
        counts, rows = rows_of_users(prior, self.num_features, num_users, self.sparsity)
        return Population.from_histogram(counts, rows)

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless users hold rows of 0 and 1, at most t of them 1, and fit."""
        MarginalCounts(*self._size, self.sparsity).check_population(population)
        most = MAX_SUM // self._units
        if population.num_users > most:
            raise ValueError(
                f"the population has {population.num_users} users, but sums in steps of the noise "
                f"have 63 bits, which is enough for {most}."
            )

    def index(self, features: Sequence[int]) -> int:
        """The place of a set of features among the answers.

        Args:
          features: distinct numbers in [0, n), at most k; in any order.
        """
        return place_of(features, *self._size)

    def table(self, answers: ArrayLike, features: Sequence[int]) -> Float64[np.ndarray, "..."]:
        """The table of some features: the share of users with each combination.

        Args:
          answers: float[..., N], as released.
          features: at most k distinct numbers in [0, n).

        Returns:
          float64[..., 2, ..., 2], an axis for each feature as they are given; entry 1 on it is that
          of the users who have it. It may be negative: a moment set of low level does not know all.
        """
        return table_of(self._to_marginals(answers), features, *self._size)

    def conjunctions(
        self, answers: ArrayLike, queries: Sequence[Mapping[int, Any]]
    ) -> Float64[np.ndarray, "*b queries"]:
        """The share of users for whom some literals hold, for each of many queries.

        Args:
          answers: float[..., N], as released.
          queries: maps from at most k features to whether the user has them.
        """
        marginals, shares = self._to_marginals(answers), []
        for query in queries:
            place = tuple(int(bool(wanted)) for wanted in query.values())
            shares.append(table_of(marginals, tuple(query), *self._size)[(..., *place)])
        return np.stack(shares, axis=-1)

    def consistency(self, answers: ArrayLike) -> MarginalsConsistency:
        """Distance of answers, float[N] as released, from the answers of some data set."""
        return consistency_of(self._to_marginals(answers), *self._size, self.sparsity)


@params
class MarginalsRelease:
    """Everything that the curator publishes; all of it is private.

    Attributes:
      answers: by size of the set of features, then lexicographically, 1 first.
      noisy: the answers of the plain Gaussian mechanism: unbiased.
      gap: `|point - projection|**2 <= gap` in the norm of what was noised; 0 where there is a
        closed form. Of "flattened", the squared distance from the answers that the exact projection
        of the matrix has.
      residual: see `MomentSet.project`; 0 for other methods than "moments".
      converged: whether the tolerance was reached.
      num_steps: of the projection.
    """

    answers: Float[Array, " N"]
    noisy: Float[Array, " N"]
    gap: Float[Array, ""]
    residual: Float[Array, ""]
    converged: Bool[Array, ""]
    num_steps: Int32[Array, ""]


@params
class MarginalsParams(Interactive[dict[str, Count]]):
    """The params of `Marginals`: a pytree.

    Attributes:
      noise: of the sums over the users.
      units: steps of the noise in one user.
      counts: what users send.
      level, basis, queries, method, tol, max_steps: as resolved by the spec; `basis` is its
        `noise`.
    """

    noise: GridNoise
    units: UInt32[Array | np.ndarray, ""]
    counts: MarginalCounts
    level: int | None = static()
    basis: str = static()
    queries: str = static()
    method: str = static()
    tol: float = static()
    max_steps: int = static()

    def rounds(self, work: Work) -> Sequence[Step]:
        """The users' features."""
        return (Step(self.counts, work),)

    def play(self, key: jax.Array, users: Population, collect: Collect) -> dict[str, Count]:
        """One release; the noise has the stream of round 1."""
        noise = self.noise.draw(stream(key, Stream.ROUND + 1), (self.counts.num_sets - 1,))
        return self.perturb(collect(self.counts, users, 0), noise)

    @compiled_in_float64
    def perturb(self, counts: Count, noise: Count) -> dict[str, Count]:
        """What the curator publishes, in integers.

        Args:
          counts: Count[N], of the users who have each set of features.
          noise: Count[N - 1], in steps.

        Returns:
          "sums", Count[N - 1], of marginals or parities, in steps, with noise; "users", Count[].
        """
        sums = counts
        if self.basis == "parities":
            sums = from_int64(parities_of(to_int64(counts), *self._size))
        # Neighbours replace a user: the first sum, their number, is the same and needs no noise.
        return {"sums": sums[1:].times(self.units) + noise, "users": counts[0]}

    @property
    def _size(self) -> tuple[int, int]:
        return self.counts.num_features, self.counts.order

    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, " N"]:
        """The answers of a release."""
        return self.release(outcome).answers

    @compiled_in_float64
    def release(self, outcome: dict[str, Count]) -> MarginalsRelease:
        """The answers with their certificate."""
        users, sparsity = outcome["users"].f64(), self.counts.sparsity
        units = jnp.asarray(self.units).astype(jnp.float64)
        noisy = outcome["sums"].f64() / units / users
        plain = self._answers(_with_one(noisy))
        if self.method == "moments":
            basis = "marginals" if self.basis == "marginals" else "parities"
            moments = MomentSet(*self._size, basis, self.level, sparsity)
            # The expected squared length of the noise, (sigma / m)**2 (N - 1)
            energy = (self.noise.normal.steps / units / users) ** 2 * noisy.size
            projection = moments.fit(noisy, self.tol**2 * energy, self.max_steps)
            # A gap above the energy of the noise proves nothing: the noisy answers are as good.
            useful = (projection.gap <= energy)[..., None]
            point = self._answers(projection.point[: noisy.size + 1])
            return self._certified(self._clip(jnp.where(useful, point, plain)), plain, projection)
        if self.method == "flattened":
            projection = project_flattened(
                _with_one(noisy), *self._size, self.basis, sparsity, self.max_steps
            )
            return self._certified(self._clip(self._answers(projection.point)), plain, projection)
        point = plain
        if self.method == "largest":
            point = _with_one(self._largest(plain[1:], users))
        elif self.method == "clip":
            point = self._clip(plain)
        zero = jnp.zeros_like(users)
        return MarginalsRelease(point, plain, zero, zero, jnp.bool_(True), jnp.int32(0))

    def _answers(self, noised: Float[Array, " N"]) -> Float[Array, " N"]:
        """The answers from what is noised, by a change of basis if they differ."""
        if self.basis == self.queries:
            return noised
        change = parities_of if self.queries == "parities" else marginals_of
        return change(noised, *self._size)

    def _certified(
        self, answers: jax.Array, noisy: jax.Array, projection: IntersectionProjection
    ) -> MarginalsRelease:
        quality = (projection.gap, projection.residual, projection.converged, projection.num_steps)
        return MarginalsRelease(answers, noisy, *quality)

    def _clip(self, answers: Float[Array, " N"]) -> Float[Array, " N"]:
        return jnp.clip(answers, 0.0 if self.queries == "marginals" else -1.0, 1.0)

    def _largest(self, noisy: jax.Array, users: jax.Array) -> jax.Array:
        """The entries that are largest, as many as the users can have with t features each."""
        assert self.counts.sparsity is not None
        most = users * float(self.counts.sparsity) ** self.counts.order
        # The rank of each entry by absolute value, the largest first
        place = jnp.argsort(jnp.argsort(-jnp.abs(noisy))).astype(noisy.dtype)
        return jnp.where(place < most, noisy, 0.0)


def _with_one(answers: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.ones(1, answers.dtype), answers])


@jax.jit
def _release(params: MarginalsParams, tally: dict[str, Count]) -> MarginalsRelease:
    return params.release(tally)
