"""Marginals and parities of binary features, from vector reports."""

import functools
import math
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import Choice, Integer, Optional
from .._contract import Tree, field, spec
from .._features import check_binary_rows, rows_of_users
from .._spec import check_int
from .._subsets import num_subsets, subsets
from ..population import Population
from ..randomizers import PrivUnitG
from ._encoded import RANDOMIZER, EmbeddedRound, VectorMaker
from ._product_means import (
    EPSILON,
    ONTO,
    TOLERANCE,
    ProductEncoding,
    ProductMeans,
    ProjectionSet,
)


@spec
class MarginalQueries(ProductMeans):
    """Marginals of at most k of n binary features: users report all of theirs in a vector.

    Users hold x in {0, 1}^n. The answers are the shares y_U of users who have all the features in U
    ("marginals"), or the means p_U of the products of `1 - 2 x_i` over U ("parities"), for
    `1 <= |U| <= k`. A user's vector holds the N products of its features, minus 1/2 each for
    marginals, and is randomized; the estimate is the mean of the reports, which may be projected:
    with `onto=jaxdp.central.MomentSet(n, k, basis)` it is the local version of
    `jaxdp.central.Marginals`. No matrix with a column for each of the 2**n values is needed.

    Formal guarantees:
      * Privacy: the randomizer's, pure epsilon-LDP for `PrivUnitG`: `exact_epsilon() <= epsilon`.
      * Raw estimate: unbiased. Its variance is, by `PrivUnitG`, the same for every data set and
        answer: `r**2 / (gamma**2 n)` with the gamma of `PrivUnitG`, and the radius r of a ball that
        all users' vectors lie in: `r**2 = N` for parities, N / 4 for marginals, or f(t), the number
        of nonempty sets of at most k out of t features, for sparse users where that is less.
      * Projected: never further from the truth than the raw estimate, in the sum of the squared
        errors, but for the tolerance; biased. `total_variance` and `variance` are proven bounds;
        `expected_error` simulates the error for a prior.

    Edge cases:
      ================================  ==========================================================
      a user with more than t features  ValueError naming the row; inside jit such a vector is
                                        scaled into the ball: private, but biased
      features other than 0 and 1       ValueError; inside jit those above 1/2 count as 1
      projection not converged          private; `params.projection(tally)` has its `gap`
      more than 2**42 users             ValueError: sums are kept in 63 bits
      reports to be collected           take `randomizer=CandidateResponse`
      ================================  ==========================================================

    Args:
      num_features: n >= 1.
      order: k in [1, n].
      epsilon: privacy parameter, in [1e-4, 30].
      onto: None for the raw estimate; or a convex set of points of shape (N,): a
        `jaxdp.central.ConvexSet`, or any hashable object with its `shape`, `radius`,
        `complexity_bound()` and `project(x, tol=)`.
      basis: "marginals" or "parities".
      sparsity: None, or t in [1, n]: no user has more than t features. Only for marginals.
      tol: relative accuracy of the projection.
      randomizer: makes the spec of an unbiased randomizer of vectors in a ball, one with a
        `covariance_form`, from the keywords dim, epsilon and radius: `PrivUnitG`; for real reports
        `CandidateResponse` or `functools.partial(Gaussian, delta=1e-6)`.

    Raises:
      ValueError: an argument is out of range, or `onto` is a set of other points.
      TypeError: an argument is of the wrong kind, or is traced, or `randomizer` needs more.

    Example:
      >>> import jax, numpy as np, jaxdp
      >>> from jaxdp.central import MomentSet
      >>> from jaxdp.linear import MarginalQueries
      >>> users = np.random.default_rng(0).random((2_000, 6)) < 0.1
      >>> population = jaxdp.Population.from_values(users.astype(np.float32))
      >>> spec = MarginalQueries(6, 2, epsilon=1.0, onto=MomentSet(6, 2))
      >>> tally = jaxdp.engine.outcome(spec, population, jax.random.key(0))
      >>> truth, params = spec.truth([1] * 2_000, users), spec.build()
      >>> errors = [np.sum((x(tally) - truth) ** 2) for x in (params.raw, params.estimate)]
      >>> bool(errors[1] < 0.8 * errors[0])
      True

    References:
      Cohen-Addad et al. (2024), Perturb-and-project, Section 2 (its sets, on local reports); Asi,
      Feldman, Talwar (2022) for the reports.
    """

    num_features: int = field(Integer(1))  # pyright: ignore[reportIncompatibleMethodOverride]
    order: int = field(Integer(1))
    epsilon: float = field(EPSILON)
    onto: ProjectionSet | None = field(ONTO, default=None)
    basis: Literal["marginals", "parities"] = field(
        Choice("marginals", "parities"), default="marginals"
    )
    sparsity: int | None = field(Optional(Integer(1)), default=None)
    tol: float = field(TOLERANCE, default=1e-3)
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)

    def validate(self) -> None:
        """Raises ValueError unless the arguments fit together."""
        check_int("order", self.order, low=1, high=self.num_features)
        if self.sparsity is not None:
            check_int("sparsity", self.sparsity, low=1, high=self.num_features)
            if self.basis == "parities":
                raise ValueError(
                    "sparsity must be None with basis='parities': all of a sparse user's parities "
                    "are 1 or -1; use basis='marginals'."
                )
        match self.onto:
            case object(basis=basis) if basis != self.basis:  # a `MomentSet`
                raise ValueError(f"onto must be a set of {self.basis}, got {self.onto!r}.")
        self._check_products("order", self.order, self.num_queries)

    @property
    def kind(self) -> str:
        """The basis."""
        return self.basis

    @property
    def span(self) -> float:
        """1 for marginals, 2 for parities."""
        return 1.0 if self.basis == "marginals" else 2.0

    @property
    def shape(self) -> tuple[int, ...]:
        """(N,)."""
        return (self.num_queries,)

    @property
    def num_queries(self) -> int:
        """N, the number of nonempty sets of at most k features: by size, then lexicographically."""
        return num_subsets(self.num_features, self.order) - 1

    def encoding(self) -> ProductEncoding:
        """Products over sets of features, about the centre of a ball."""
        return _encoding(self.num_features, self.order, self.basis, self.sparsity)

    def factors(self, inputs: Tree) -> Float[np.ndarray, "rows n"]:
        """The features, or 1 - 2 times them."""
        rows = check_binary_rows(inputs, self.num_features, self.sparsity).astype(np.float64)
        return rows if self.basis == "marginals" else 1 - 2 * rows

    def prior_users(self, prior: ArrayLike | str, num_users: int) -> Population:
        """Users who hold rows of features."""
        counts, rows = rows_of_users(prior, self.num_features, num_users, self.sparsity)
        return Population.from_histogram(counts, rows)


@functools.lru_cache(maxsize=16)
def _encoding(n: int, order: int, basis: str, sparsity: int | None) -> ProductEncoding:
    sets = subsets(n, order)[1:]
    ones = np.ones(len(sets), np.float32)
    square, shift = float(len(sets)), 0.0
    if basis == "marginals":
        # Users with t features have at most as many products of 1: a ball around 0 may be smaller
        # than the one around (1/2, .., 1/2) that holds all users.
        sparse = num_subsets(n if sparsity is None else sparsity, order) - 1
        square, shift = min((square / 4, 0.5), (sparse, 0.0))
    radius = EmbeddedRound.radius_of(np.array([[math.sqrt(square)]]))
    return ProductEncoding(sets, np.float32(shift) * ones, ones, None, radius)
