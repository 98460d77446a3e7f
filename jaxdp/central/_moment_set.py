"""The sets that noisy marginals and parities are projected on."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._spec import check_choice, check_int
from .._subsets import joined, num_subsets, sizes, with_each
from .._x64 import in_float64
from ..projections import IntersectionProjection
from ..projections._inputs import check_array, check_tolerance
from ._convex_set import ConvexSet
from ._memory import check_memory
from ._moment_matrix import MomentProblem, MomentProjection, project_moments

_COPIES = 14  # float64 arrays of the size of the moment matrix and of the groups that ADMM keeps


@dataclasses.dataclass(frozen=True, slots=True)
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
      >>> found = pairs.project(np.array([0.5, 0.25, 0.75]))
      >>> print(np.array(found.point, np.float64).round(2))  # level 1 does not know y_12 <= y_2
      [0.59 0.42 0.49]

    References:
      Lasserre (2001), Nesterov (2000); Cohen-Addad et al. (2024), Appendix A.
    """

    num_features: int
    order: int
    basis: Literal["marginals", "parities"] = "marginals"
    level: int | None = None
    sparsity: int | None = None

    def __post_init__(self):
        n = check_int("num_features", self.num_features, low=1)
        k = check_order(self.order, n)
        check_choice("basis", self.basis, ("marginals", "parities"))
        if self.sparsity is not None:
            check_int("sparsity", self.sparsity, low=1, high=n)
            if self.basis == "parities":
                raise ValueError(
                    "sparsity must be None with basis='parities': sparse users have few marginals "
                    "other than 0, but all parities; use basis='marginals'."
                )
        lowest = -(-k // 2)
        if self.level is None:
            object.__setattr__(self, "level", lowest)
        else:
            check_int("level", self.level, low=lowest, high=n)
        check_memory(
            self.num_bytes,
            f"level must be such that the moment matrix fits, got {self.level} with "
            f"{num_rows(self)} rows (use a lower level, a smaller order or fewer features)",
        )

    @property
    def shape(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """(N,), N the number of nonempty sets of at most k features."""
        return (num_subsets(self.num_features, self.order) - 1,)

    @property
    def symmetric(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """False: points are vectors."""
        return False

    @property
    def radius(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A bound on the Euclidean norm of a point: that of a user with all features, or with t."""
        most = self.num_features if self.sparsity is None else self.sparsity
        return math.sqrt(num_subsets(most, self.order) - 1)

    @property
    def num_bytes(self) -> int:
        """Roughly the memory that a projection takes."""
        n, degree = self.num_features, _degree(self)
        total = num_subsets(n, degree)
        groups = 0 if self.sparsity is None else num_subsets(n, self.order - 1)
        return 8 * (_COPIES * (num_rows(self) ** 2 + groups * (n + 1)) + 16 * total)

    @property
    def parts(self) -> tuple[Callable[[jax.Array], jax.Array], ...]:
        """The projection itself: the set is not an intersection of simpler ones of its shape."""
        return (_projection_on(self),)

    def project(
        self, x: ArrayLike, *, tol: float = 1e-3, max_steps: int = 4000
    ) -> IntersectionProjection:
        """The nearest point of the set, with a certificate.

        Args:
          x: float[N].
          tol: stop at a certified distance of at most tol times the norm of x.
          max_steps: upper limit on the steps of ADMM; each decomposes the moment matrix.

        Returns:
          IntersectionProjection: `point` is in the set up to rounding and
          `|point - projection|**2 <= gap`; `residual` is how far the last iterate was from being
          in the set, as the share of a centre that it was mixed with.
        """
        array = check_array("x", x, "N", 1)
        if array.shape != self.shape:
            raise ValueError(f"x must have shape {self.shape}, got {array.shape}.")
        check_int("max_steps", max_steps, low=1)
        tol = check_tolerance("tol", tol)

        @in_float64
        def solve(array):
            array = array.astype(jnp.float64)
            found = project(self, array, tol**2 * jnp.sum(array**2), max_steps)
            point = found.point[1 : array.shape[0] + 1]
            return IntersectionProjection(
                point, found.residual, found.gap, found.converged, found.num_steps
            )

        return solve(array)

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
def _projection_on(spec: MomentSet) -> Callable[[jax.Array], jax.Array]:
    """One function object for each set, since a new one is compiled anew."""

    def moments(x):
        return spec.project(x).point

    return moments


def check_order(order, num_features: int) -> int:
    """Returns k as an int, or raises unless there are sets of k features."""
    order = check_int("order", order, low=1)
    if order > num_features:
        raise ValueError(
            f"order must be at most num_features = {num_features}, got {order}: there are no "
            "larger sets of features."
        )
    return order


def num_rows(spec: MomentSet) -> int:
    """D, the number of rows of the moment matrix."""
    return num_subsets(spec.num_features, _rows_of(spec))


def _rows_of(spec: MomentSet) -> int:
    """The size of the largest sets that are rows: the level, unless they are larger than t."""
    assert spec.level is not None
    return spec.level if spec.sparsity is None else min(spec.level, spec.sparsity)


def _degree(spec: MomentSet) -> int:
    """The size of the largest sets whose moments are unknowns."""
    return min(max(2 * _rows_of(spec), spec.order), spec.num_features)


def project(spec: MomentSet, x, enough, max_steps: int) -> MomentProjection:
    """The projection of float64[N], with all moments; inside an x64 block only.

    Args:
      spec: the set.
      x: float64[N].
      enough: float64[], the gap at which to stop.
      max_steps: upper limit on the number of steps.
    """
    return _project(x, enough, jnp.asarray(max_steps, jnp.int32), spec)


@functools.partial(jax.jit, static_argnames="spec")
def _project(x, enough, max_steps, spec):
    tables = jax.tree.map(jnp.asarray, problem_of(spec))
    return project_moments(x, tables, enough, max_steps)


@functools.lru_cache(maxsize=8)
def problem_of(spec: MomentSet) -> MomentProblem:
    """The tables of a set, NumPy arrays."""
    n, k, t = spec.num_features, spec.order, spec.sparsity
    degree = _degree(spec)
    pairs = joined(n, _rows_of(spec), spec.basis).astype(np.int32)
    size = sizes(n, degree)
    low = np.full(size.size, 0.0 if spec.basis == "marginals" else -1.0)
    high = np.ones(size.size)
    low[0] = 1.0
    groups = np.zeros((0, n + 1), np.int32)
    if t is not None:
        high[size > t] = 0.0
        groups = with_each(n, min(k, t) - 1)
    center = _center(n, n if t is None else t, spec.basis)[size]
    whitening = np.linalg.inv(np.linalg.cholesky(center[pairs]))
    return MomentProblem(
        pairs, groups, np.float64(n if t is None else t), low, high, center, whitening
    )


def _center(n: int, t: int, basis: str) -> np.ndarray:
    """Moments by size, float64[n + 1], of a random set of Bin(t, 1/2) features.

    With t = n the user is uniform.
    """
    if basis == "parities":
        return np.eye(n + 1)[0]
    found = np.zeros(n + 1)
    for size in range(t + 1):
        for members in range(size, t + 1):
            share = math.comb(t, members) / 2**t
            found[size] += share * math.comb(n - size, members - size) / math.comb(n, members)
    return found


def _largest(number: int) -> float:
    """A bound on the mean of the largest of so many normals."""
    return math.sqrt(2 * math.log(number))


def _spectral_bound(n: int, k: int, t: int | None) -> float:
    """The second bound of `complexity_bound`."""
    half = -(-k // 2)
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
