"""Gram matrices of the users' features, from vector reports."""

import functools
import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import Integer
from .._contract import Tree, field, spec
from .._features import check_rows
from .._spec import by_largest_remainders
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
class GramQueries(ProductMeans):
    """The mean of x x^T over the users: inner products of all pairs of n items.

    Users hold x in [-1, 1]^n, a number for each of n items, so that an item is a vector with an
    entry from every user, and the answers are the inner products of the items over the number of
    users. For x in {-1, 1}^n these are their cosine similarities. A user's vector is the upper
    triangle of x x^T - I, entries off the diagonal times sqrt(2), randomized; the
    estimate is the mean of the reports, which may be projected: with
    `onto=jaxdp.central.CosineSet(n)` (for signs) or `CosineSet(n, "at_most_one")` it is the local
    version of `jaxdp.central.CosineSimilarity`.

    Formal guarantees:
      * Privacy: the randomizer's, pure epsilon-LDP for `PrivUnitG`: `exact_epsilon() <= epsilon`.
      * Raw estimate: unbiased up to float32 rounding of products. Its variance is, by `PrivUnitG`,
        the same for every data set: `n (n - 1) / (gamma**2 m)` on the diagonal for m users and the
        gamma of `PrivUnitG`, half of it elsewhere. `n (n - 1) = max |x x^T - I|**2`, and no other
        multiple of I is as close to all users.
      * Projected: never further from the truth than the raw estimate in Frobenius norm, but for the
        tolerance; biased. `total_variance` and `variance` are proven bounds.

    Edge cases:
      =============================  =============================================================
      numbers outside of [-1, 1]     ValueError from a Population; clamped inside jit, NaN is 0
      numbers other than -1 and 1    items do not have norm 1: divide answers by the roots of the
                                     diagonal's entries for cosines, and do not project onto
                                     `CosineSet(n)`, whose diagonal is 1
      more than 2**42 users          ValueError: sums are kept in 63 bits
      reports to be collected        take `randomizer=CandidateResponse`
      =============================  =============================================================

    Args:
      num_items: n >= 2.
      epsilon: privacy parameter, in [1e-4, 30].
      onto: None for the raw estimate; or a convex set of points of shape (n, n): a
        `jaxdp.central.ConvexSet`, or any hashable object with its `shape`, `radius`,
        `complexity_bound()` and `project(x, tol=)`.
      tol: relative accuracy of the projection.
      randomizer: makes the spec of an unbiased randomizer of vectors in a ball, one with a
        `covariance_form`, from the keywords dim, epsilon and radius: `PrivUnitG`; for real reports
        `CandidateResponse` or `functools.partial(Gaussian, delta=1e-6)`.

    Raises:
      ValueError: an argument is out of range, or `onto` is a set of other points.
      TypeError: an argument is of the wrong kind, or is traced, or `randomizer` needs more.

    Example:
      >>> import jax, numpy as np, jaxdp
      >>> from jaxdp.central import CosineSet
      >>> from jaxdp.linear import GramQueries
      >>> rng = np.random.default_rng(0)
      >>> users = np.sign(rng.standard_normal((2_000, 1)) + 0.5 * rng.standard_normal((2_000, 8)))
      >>> population = jaxdp.Population.from_values(users.astype(np.float32))
      >>> spec = GramQueries(8, epsilon=1.0, onto=CosineSet(8))
      >>> tally = jaxdp.engine.outcome(spec, population, jax.random.key(0))
      >>> truth, params = users.T @ users / 2_000, spec.build()
      >>> errors = [np.sum((x(tally) - truth) ** 2) for x in (params.raw, params.estimate)]
      >>> bool(errors[1] < 0.5 * errors[0])
      True

    References:
      Cohen-Addad et al. (2024), Perturb-and-project, Algorithm 3 (its set, on local reports); Asi,
      Feldman, Talwar (2022) for the reports.
    """

    num_items: int = field(Integer(2))
    epsilon: float = field(EPSILON)
    onto: ProjectionSet | None = field(ONTO, default=None)
    tol: float = field(TOLERANCE, default=1e-6)
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)

    def validate(self) -> None:
        """Raises ValueError unless the arguments fit together."""
        n = self.num_items
        self._check_products("num_items", n, n * (n + 1) // 2)

    @property
    def kind(self) -> str:
        """Always "gram"."""
        return "gram"

    @property
    def span(self) -> float:
        """2: answers are in [-1, 1]."""
        return 2.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a point, (n, n)."""
        return (self.num_items, self.num_items)

    @property
    def num_features(self) -> int:
        """Number of items, n."""
        return self.num_items

    def encoding(self) -> ProductEncoding:
        """The upper triangle, rows first."""
        return _encoding(self.num_items)

    def factors(self, inputs: Tree) -> Float[np.ndarray, "rows n"]:
        """The users' numbers."""
        rows = check_rows(inputs, self.num_items).astype(np.float64)
        wrong = np.flatnonzero(~np.all(np.abs(rows) <= 1, axis=1))
        if wrong.size:
            raise ValueError(
                f"inputs must be in [-1, 1], got {rows[wrong[0]]} in row {wrong[0]}; scale them."
            )
        return rows

    def prior_users(self, prior: ArrayLike | str, num_users: int) -> Population:
        """Users who hold the rows of the prior, float[m, n], each as frequent as the others."""
        rows = self.factors(prior)
        counts = by_largest_remainders(np.full(len(rows), 1 / len(rows)), num_users)
        return Population.from_histogram(counts, rows.astype(np.float32))


@functools.lru_cache(maxsize=16)
def _encoding(n: int) -> ProductEncoding:
    i, j = np.triu_indices(n)
    place = np.zeros((n, n), np.int32)
    place[i, j] = place[j, i] = np.arange(len(i))
    # x_i x_j off the diagonal has weight sqrt(2), so that the vector has the Frobenius norm.
    diagonal = (i == j).astype(np.float32)
    weight = np.where(i == j, np.float32(1), np.sqrt(np.float32(2)))
    # |x x^T - I|**2 = (sum x_i**2)**2 - 2 sum x_i**2 + n is at most n (n - 1) for signs.
    radius = EmbeddedRound.radius_of(np.array([[math.sqrt(n * (n - 1))]]))
    return ProductEncoding(
        np.stack([i, j], axis=1).astype(np.int32), diagonal, weight, place, radius
    )
