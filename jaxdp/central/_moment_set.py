"""The sets that noisy marginals and parities are projected on, and the projection."""

import dataclasses
import functools
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Float64, Int32

from .._checks import Choice, Integer, Optional
from .._contract import field, params, spec
from .._lapack import eigh, eigvalsh
from .._spec import check_int, check_real
from .._subsets import joined, num_subsets, sizes, with_each
from .._x64 import dot, in_float64
from ..projections import IntersectionProjection
from ._convex_set import ConvexSet, Projection, check_memory, real_array

_COPIES = 14  # float64 arrays of the size of the moment matrix and of the groups that ADMM keeps
_RELAXATION = 1.6  # over-relaxation
_CHECK = 20  # steps between two certificates
_BALANCED = 5.0  # the ratio of the two residuals that the penalty keeps
_TUNED = 400  # steps in which the penalty may still change


@spec
class MomentSet(ConvexSet):
    """The moments of degree at most k of pseudo-distributions on {0, 1}^n, of a chosen level r.

    A point is the vector of y_U, `1 <= |U| <= k`, by size, then lexicographically. It is in the set
    if numbers y_U for `k < |U| <= 2 r` and y_0 = 1 complete it so that the moment matrix, with a
    row and a column for each set of at most r features,

        `M(y)_ST = y_(S union T)` ("marginals")  or  `y_(S symmetric difference T)` ("parities")

    is positive semidefinite, and all y_U are in [0, 1], or in [-1, 1] for parities. With a sparsity
    t, y_U = 0 for `|U| > t`, and `sum_i y_(U + i) <= t y_U` over all features i, for `|U| < k`:
    where i is in U the term is y_U, so the others add up to at most `(t - |U|) y_U`.

    Formal guarantees:
      * Every data set's moments are in the set, and those of higher levels lie in that of a lower.
        At level n it is the convex hull of the moments of single users.
      * `project` returns a point of the set, up to rounding, with a certified gap.
      * `complexity_bound` is proven for every level. Its order in n for the level ceil(k/2) is that
        of the papers for even k; for odd k it is n^(k - 1/2), which is theirs for k = 1 only.

    Args:
      num_features: n >= 1.
      order: k in [1, n].
      basis: "marginals" for y_U the share of users who have all features in U, "parities" for the
        mean over the users of the product over U of 1 - 2 x_i.
      level: r in [ceil(k/2), n]; None for ceil(k/2). With a sparsity at most t.
      sparsity: None, or t in [1, n]: no user has more than t features. Only for marginals.

    Raises:
      ValueError: an argument is out of range, or the projection would take more memory than this
        machine has.

    Example:
      >>> import numpy as np
      >>> from jaxdp.central import MomentSet
      >>> pairs = MomentSet(num_features=2, order=2)
      >>> nearest = pairs.project(np.array([0.5, 0.25, 0.75]))
      >>> print(np.array(nearest.point, np.float64).round(2))  # level 1 does not know y_12 <= y_2
      [0.59 0.42 0.49]

    References:
      Lasserre (2001), Nesterov (2000); Cohen-Addad et al. (2024), Appendix A.
    """

    num_features: int = field(Integer(1))
    order: int = field(Integer(1))
    basis: Literal["marginals", "parities"] = field(
        Choice("marginals", "parities"), default="marginals"
    )
    level: int | None = field(Optional(Integer(1)), default=None)
    sparsity: int | None = field(Optional(Integer(1)), default=None)

    def validate(self) -> None:
        """Raises ValueError unless the arguments fit together, and the memory."""
        n, k = self.num_features, self.order
        check_order(k, n)
        if self.sparsity is not None:
            check_int("sparsity", self.sparsity, low=1, high=n)
            if self.basis == "parities":
                raise ValueError(
                    "sparsity must be None with basis='parities': sparse users have few marginals "
                    "other than 0, but all parities; use basis='marginals'."
                )
        lowest = -(-k // 2)
        level = lowest if self.level is None else self.level
        self.settle(level=check_int("level", level, low=lowest, high=n))
        check_memory(
            self.num_bytes,
            f"level must be such that the moment matrix fits, got {self.level} with "
            f"{self.num_rows} rows (use a lower level, a smaller order or fewer features)",
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a point, (N,), with N the number of nonempty sets of at most k features."""
        return (num_subsets(self.num_features, self.order) - 1,)

    @property
    def symmetric(self) -> bool:
        """False: points are vectors."""
        return False

    @property
    def radius(self) -> float:
        """A bound on the Euclidean norm of a point: that of a user with all features, or with t."""
        most = self.num_features if self.sparsity is None else self.sparsity
        return math.sqrt(num_subsets(most, self.order) - 1)

    @property
    def num_bytes(self) -> int:
        """Roughly the memory that a projection takes."""
        n, total = self.num_features, num_subsets(self.num_features, self._degree)
        groups = 0 if self.sparsity is None else num_subsets(n, self.order - 1)
        return 8 * (_COPIES * (self.num_rows**2 + groups * (n + 1)) + 16 * total)

    @property
    def num_rows(self) -> int:
        """D, the number of rows of the moment matrix."""
        return num_subsets(self.num_features, self._row_size)

    @property
    def _row_size(self) -> int:
        """The size of the largest sets that are rows: the level, unless they are larger than t."""
        assert self.level is not None
        return self.level if self.sparsity is None else min(self.level, self.sparsity)

    @property
    def _degree(self) -> int:
        """The size of the largest sets whose moments are unknowns."""
        return min(max(2 * self._row_size, self.order), self.num_features)

    @property
    def parts(self) -> tuple[Projection, ...]:
        """The projection itself: the set is not an intersection of simpler ones of its shape."""
        return (_projection_on(self),)

    def project(
        self, x: ArrayLike, *, tol: float = 1e-3, max_steps: int = 4000
    ) -> IntersectionProjection:
        """The nearest point of the set, with a certificate.

        Args:
          x: float[N], the moments in the order of `shape`.
          tol: stop at a certified distance of at most tol times the norm of x.
          max_steps: upper limit on the steps of ADMM; each decomposes the moment matrix.

        Returns:
          IntersectionProjection: `point` is in the set up to rounding and
          `|point - projection|**2 <= gap`; `residual` is how far the last iterate was from being
          in the set, as the share of a centre that it was mixed with.
        """
        array = real_array("x", x)
        if array.shape != self.shape:
            raise ValueError(f"x must have shape {self.shape}, got {array.shape}.")
        check_int("max_steps", max_steps, low=1)
        tol = check_real("tol", tol, low=0.0, open_ends=False)

        @in_float64
        def solve(array: Array | np.ndarray) -> IntersectionProjection:
            array = jnp.asarray(array).astype(jnp.float64)
            projection = self.fit(array, tol**2 * jnp.sum(array**2), max_steps)
            return dataclasses.replace(projection, point=projection.point[1 : array.shape[0] + 1])

        return solve(array)

    def fit(
        self, x: Float64[Array, " N"], enough: Float64[Array, ""], max_steps: int
    ) -> IntersectionProjection:
        """All moments of the projection, `project_moments`; inside an x64 block only.

        Args:
          x: the moments of at most `order` features but the first.
          enough: the gap at which to stop.
          max_steps: upper limit on the number of steps.
        """
        return _fit(x, enough, jnp.asarray(max_steps, jnp.int32), self)

    def complexity_bound(self) -> float:
        """A proven bound on the Gaussian complexity `G = E max_y <y, W>`, W of normals.

        The least of three:

        * `radius sqrt(N)`.
        * By positivity of the moment matrix: with the W_U spread evenly over the entries (S, T) of
          disjoint S and T of sizes `floor(|U|/2)` and `ceil(|U|/2)`, <y, W> = <M(y), A>, which is
          at most `sum_S p_S y_S` (or `sum_S p_S`) times the largest eigenvalue of p^(-1/2) A
          p^(-1/2), whose mean is at most sqrt(2 v ln D) (Tropp). The squares of the coefficients of
          W_U are diagonal matrices, and v is the largest entry of their sum; p_S is 1 over the
          bound on the sum of y_S over the sets of one size.
        * With a sparsity t, `sum_s C(t, s) sqrt(2 ln C(n, s))`: the y_U are >= 0, and those of one
          size s add up to at most C(t, s), by the constraints. It needs no moment matrix.
        """
        n, k, t = self.num_features, self.order, self.sparsity
        bounds = [self.radius * math.sqrt(self.shape[0]), _spectral_bound(n, k, t)]
        if t is not None:
            each = range(1, min(k, t) + 1)
            bounds.append(sum(math.comb(t, s) * _largest(math.comb(n, s)) for s in each))
        return min(bounds)


@functools.lru_cache(maxsize=64)
def _projection_on(moments: MomentSet) -> Projection:
    """One function object for each set, since a new one is compiled anew."""

    def project(x: Array) -> Array:
        return moments.project(x).point

    return project


def check_order(order: int, num_features: int) -> None:
    """Raises ValueError unless there are sets of so many features."""
    if order > num_features:
        raise ValueError(
            f"order must be at most num_features = {num_features}, got {order}: there are no "
            "larger sets of features."
        )


@functools.partial(jax.jit, static_argnames="moments")
def _fit(
    x: Float64[Array, " N"],
    enough: Float64[Array, ""],
    max_steps: Int32[Array, ""],
    moments: MomentSet,
) -> IntersectionProjection:
    tables = jax.tree.map(jnp.asarray, _problem_of(moments))
    return project_moments(x, tables, enough, max_steps)


@functools.lru_cache(maxsize=8)
def _problem_of(moments: MomentSet) -> "MomentProblem":
    """The tables of a set, NumPy arrays."""
    n, k, t = moments.num_features, moments.order, moments.sparsity
    pairs = joined(n, moments._row_size, moments.basis).astype(np.int32)
    size = sizes(n, moments._degree)
    low = np.full(size.size, 0.0 if moments.basis == "marginals" else -1.0)
    high = np.ones(size.size)
    low[0] = 1.0
    groups = np.zeros((0, n + 1), np.int32)
    if t is not None:
        # No user has all of more than t features.
        high[size > t] = 0.0
        groups = with_each(n, min(k, t) - 1)
    center = _center(n, n if t is None else t, moments.basis)[size]
    whitening = np.linalg.inv(np.linalg.cholesky(center[pairs]))
    return MomentProblem(
        pairs, groups, np.asarray(n if t is None else t, np.float64), low, high, center, whitening
    )


def _center(n: int, t: int, basis: str) -> np.ndarray:
    """Moments by size, float64[n + 1], of a random set of Bin(t, 1/2) features.

    With t = n the user is uniform.
    """
    if basis == "parities":
        return np.eye(n + 1)[0]
    moments = np.zeros(n + 1)
    for size in range(t + 1):
        for members in range(size, t + 1):
            # Pr[M = members] for M ~ Bin(t, 1/2), and that `size` given features are among them
            share = math.comb(t, members) / 2**t
            moments[size] += share * math.comb(n - size, members - size) / math.comb(n, members)
    return moments


def _largest(number: int) -> float:
    """A bound on the mean of the largest of so many normals."""
    return math.sqrt(2 * math.log(number))


def _spectral_bound(n: int, k: int, t: int | None) -> float:
    """The second bound of `complexity_bound`."""
    half = -(-k // 2)
    # sum_{|S| = s} y_S <= C(t, s): at most as many sets of s of the features that a user has
    reach = [math.comb(n if t is None else t, s) for s in range(half + 1)]
    present = [s for s in range(half + 1) if reach[s] > 0]
    variance = 0.0
    for s in present:
        total = 0.0
        for other in (s - 1, s, s + 1):
            if other in present and 1 <= s + other <= k:
                splits = math.comb(s + other, s) * (1 if s == other else 2)
                total += math.comb(n - s, other) * reach[s] * reach[other] / splits**2
        variance = max(variance, total)
    dimension = sum(math.comb(n, s) for s in present)
    return len(present) * math.sqrt(2 * variance * math.log(dimension))


@params
class MomentProblem:
    """A set of moments y_U, |U| <= 2 r, as index tables.

    It is the set of y in the box with y_0 = 1, `M(y)_ST = y[pairs]_ST` positive semidefinite, and
    `y[groups] @ (t, -1, ..., -1) >= 0` for every row of `groups`.

    Attributes:
      pairs: where M(y) has which moment.
      groups: sets, and their unions with each feature; there may be none.
      sparsity: t.
      low, high: the box.
      center: a point of the set with M(center) positive definite and positive slacks.
      whitening: with whitening M(center) whitening^T = I.
    """

    pairs: Int32[Array | np.ndarray, "D D"]
    groups: Int32[Array | np.ndarray, "G n_plus_1"]
    sparsity: Float[Array | np.ndarray, ""]
    low: Float[Array | np.ndarray, " M"]
    high: Float[Array | np.ndarray, " M"]
    center: Float[Array | np.ndarray, " M"]
    whitening: Float[Array | np.ndarray, "D D"]


def project_moments(
    noisy: Float64[Array, " N"],
    problem: MomentProblem,
    enough: Float64[Array, ""],
    max_steps: Int32[Array, ""],
) -> IntersectionProjection:
    """The point of the set whose first moments are nearest to given ones; inside x64 only.

    Minimises ½ sum (y_U - noisy_U)**2 over U = 1, ..., N by the alternating direction method of
    multipliers: copies Z of M(y) and V of the groups are projected on their cones, and y follows
    coordinate by coordinate.

    Formal guarantees:
      * `point` is (1 - theta) y + theta center with the least theta that makes it a point of the
        set, by the eigenvalues of the whitened M(y): inside up to rounding.
      * The multipliers C >= 0 of M(y) and m >= 0 of the groups have the linear form
        q = M*(C) + sum m_U (...), and by weak duality no point of the set has less than the
        minimum over the box of ½ sum (y_U - noisy_U)**2 - <q, y>, for any multipliers. `gap` is
        twice the difference, written as a sum of products of numbers >= 0, and the objective is
        strongly convex, so `|point - projection|**2 <= gap`.

    Args:
      noisy: for the moments of index 1, ..., N.
      problem: the set.
      enough: stop at gap <= enough.
      max_steps: upper limit on the number of steps.

    Returns:
      `point` holds all M moments; `residual` is theta.
    """
    size, total = problem.pairs.shape[0], problem.center.shape[0]
    flat, grouped = problem.pairs.reshape(-1), problem.groups.reshape(-1)
    places = jnp.concatenate([jnp.asarray(flat), jnp.asarray(grouped)])
    counts = jax.ops.segment_sum(jnp.ones(places.shape), places, total)
    fitted = (jnp.arange(total) >= 1) & (jnp.arange(total) <= noisy.shape[0])
    weight = fitted.astype(noisy.dtype)
    target = jnp.zeros(total, noisy.dtype).at[1 : noisy.shape[0] + 1].set(noisy)
    width = problem.groups.shape[1]
    normal = jnp.concatenate([problem.sparsity[None], -jnp.ones(width - 1, noisy.dtype)])
    steep, whitening = jnp.sum(normal**2), jnp.asarray(problem.whitening)

    def along(slopes: Array) -> Array:
        """A multiple of the normal of the half-space for each group."""
        return slopes[:, None] * normal[None, :]

    def adjoint(matrix: Array, copies: Array) -> Array:
        """M*(matrix), and the same of the groups."""
        sums = jax.ops.segment_sum(matrix.reshape(-1), flat, total)
        return sums + jax.ops.segment_sum(copies.reshape(-1), grouped, total)

    def slack(y: Array | np.ndarray) -> Array:
        """`t y_U - sum_i y_(U + i)` of each group."""
        return jnp.sum(y[problem.groups] * normal[None, :], axis=1)

    def certify(
        y: Array, penalty: Array, multiplier: Array, shadow: Array
    ) -> tuple[Array, Array, Array]:
        """The feasible point near y and its gap; multipliers are -penalty times the duals."""
        inner = dot(dot(whitening, y[problem.pairs]), whitening.T)
        lowest = eigvalsh(0.5 * (inner + inner.T))[0]
        # At the center the whitened matrix is I: mixed in by theta it lifts every eigenvalue.
        short = jnp.maximum(-lowest, 0.0)
        theta = short / (1.0 + short)
        excess = jnp.maximum(-slack(y), 0.0)
        theta = jnp.maximum(theta, jnp.max(excess / (excess + slack(problem.center)), initial=0.0))
        point = (1 - theta) * y + theta * problem.center
        q = -penalty * adjoint(multiplier, along(shadow))
        # The minimum over the box is taken entry by entry: a parabola where there is a target.
        best = jnp.clip(target + q, problem.low, problem.high)
        bent = 0.5 * (point - best) ** 2 + (best - target - q) * (point - best)
        linear = jnp.maximum(q * problem.low, q * problem.high) - q * point
        apart = jnp.where(fitted, bent, linear).at[0].set(0.0)
        # <C, M(point)> and m . slack(point), products of elements of dual cones: at least 0
        complementary = -penalty * jnp.sum(multiplier * point[problem.pairs])
        complementary = complementary - penalty * jnp.sum(shadow * slack(point))
        gap = 2.0 * (jnp.sum(jnp.maximum(apart, 0.0)) + jnp.maximum(complementary, 0.0))
        return point, gap, theta

    def step(state: tuple[Array, ...]) -> tuple[tuple[Array, ...], Array]:
        y, copy, multiplier, part, shadow, penalty, count = state
        moved = weight * target + penalty * adjoint(copy - multiplier, part - along(shadow))
        # The augmented Lagrangian is a sum over the entries of y: each has its own parabola.
        y = jnp.clip(moved / (weight + penalty * counts), problem.low, problem.high)
        matrix, rows = y[problem.pairs], y[problem.groups]
        relaxed = _RELAXATION * matrix + (1 - _RELAXATION) * copy
        values, vectors = eigh(relaxed + multiplier)
        # The nearest positive semidefinite matrix, and the new multiplier, what is cut off
        positive = dot(vectors * jnp.maximum(values, 0.0)[None, :], vectors.T)
        negative = dot(vectors * jnp.minimum(values, 0.0)[None, :], vectors.T)
        eased = _RELAXATION * rows + (1 - _RELAXATION) * part + along(shadow)
        low = jnp.minimum(jnp.sum(eased * normal[None, :], axis=1) / steep, 0.0)
        inside = eased - along(low)
        # Relative residuals, whose ratio tunes the penalty: Boyd et al. (2011), Section 3.4.1.
        primal = jnp.sqrt(jnp.sum((matrix - positive) ** 2) + jnp.sum((rows - inside) ** 2))
        dual = penalty * jnp.sqrt(jnp.sum(adjoint(positive - copy, inside - part) ** 2))
        size_primal = jnp.sqrt(jnp.sum(matrix**2))
        size_dual = penalty * jnp.sqrt(jnp.sum(adjoint(negative, along(low)) ** 2))
        ratio = (primal / size_primal) / jnp.maximum(dual / jnp.maximum(size_dual, 1e-30), 1e-30)
        return (y, positive, negative, inside, low, penalty, count + 1), ratio

    def chunk(state: tuple[Any, ...]) -> tuple[Any, ...]:
        inner, best, gap, theta, _ = state
        inner, ratio = lax.fori_loop(
            0, _CHECK, lambda _, carry: step(carry[0]), (inner, jnp.ones(()))
        )
        y, copy, multiplier, part, shadow, penalty, count = inner
        point, new_gap, pulled = certify(y, penalty, multiplier, shadow)
        better = new_gap < gap
        best = jnp.where(better, point, best)
        theta = jnp.where(better, pulled, theta)
        scale = jnp.where(ratio > _BALANCED, 2.0, jnp.where(ratio < 1 / _BALANCED, 0.5, 1.0))
        scale = jnp.where(count <= _TUNED, scale, 1.0)
        # Multipliers are held over the penalty, so that a new penalty rescales them.
        inner = (y, copy, multiplier / scale, part, shadow / scale, penalty * scale, count)
        return inner, best, jnp.minimum(new_gap, gap), theta, count

    def unfinished(state: tuple[Any, ...]) -> Array:
        return ~(state[2] <= enough) & (state[4] < max_steps)

    y = jnp.clip(jnp.where(fitted, target, problem.center), problem.low, problem.high)
    matrices = y[problem.pairs], jnp.zeros((size, size), noisy.dtype)
    groups = y[problem.groups], jnp.zeros(problem.groups.shape[0], noisy.dtype)
    inner = (y, *matrices, *groups, jnp.ones(()) * 0.1, jnp.int32(0))
    infinite = jnp.asarray(jnp.inf, noisy.dtype)
    state = (inner, jnp.asarray(problem.center), infinite, jnp.ones(()), jnp.int32(0))
    _, best, gap, theta, count = lax.while_loop(unfinished, chunk, state)
    return IntersectionProjection(best, theta, gap, gap <= enough, count)
