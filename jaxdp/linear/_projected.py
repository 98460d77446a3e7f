"""Projection of estimated answers onto what some histogram could have."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from .._checks import By, Choice, Instance, Real
from .._contract import Cost, Params, Round, Through, Tree, Work, field, params, spec, static
from .._prediction import Prediction
from .._queries import LinearProtocol, users_of
from .._spec import check_real
from .._x64 import compiled_in_float64
from ..projections import PolytopeProjection, hull, l1_ball, simplex, symmetric_polytope
from ._post_processed import PostProcessed, ranges

ONTO = ("hull", "polytope", "simplex", "clip", "norm_sub")
_HISTOGRAMS = ("simplex", "norm_sub")
_LINEAR = Instance(LinearProtocol, "a linear protocol")
_ONE_ROUND = Instance(
    Round, "non-interactive (project the estimate of another with jaxdp.projections)"
)


def _check_below(name: str, value: float | None) -> float | None:
    """A number of users, or None for all numbers of them."""
    if value is None or (isinstance(value, (float, np.floating)) and value == np.inf):
        return None
    number = check_real(name, value)
    if not number > 0:
        raise ValueError(f"{name} must be a number of users > 0 or None, got {value!r}.")
    return number


class ProjectedProtocol(PostProcessed):
    """Base of the protocols whose estimate is projected.

    Attributes:
      protocol: whose estimate is projected.
      onto: as of `Projected`.
      below: as of `Projected`.
      tol: as of `Projected`.
    """

    __slots__ = ()

    onto: str
    below: float | None
    tol: float

    def build(self, word_bits: int = 32) -> Params[Any]:
        """Builds the params, which users and the analyst run."""
        inner = _ONE_ROUND("protocol", self.protocol.build(word_bits))
        below = None if self.below is None else np.asarray(self.below, np.float64)
        kind, vertices = self._kind(), None
        if kind in ("hull", "polytope"):
            vertices = self.protocol.matrix()
        elif kind == "clip":
            vertices = np.stack(ranges(self.protocol))
        everyone = self.protocol.counts_all_users
        return ProjectedParams(inner, vertices, below, kind, self.tol, everyone)

    def _kind(self) -> str:
        """How the projection is computed."""
        if self.onto in ("hull", "polytope", *_HISTOGRAMS) and self.protocol.is_histogram:
            return "l1_ball" if self.onto == "polytope" else "simplex"
        return self.onto

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, " m"] | None:
        """With "clip" the raw answers' variances, which bound what the clipped ones are off.

        None otherwise: other projections move an answer for what others say, so that no interval of
        its own is around it. Collect `protocol`, which has intervals, and project its answers.
        """
        if self.onto != "clip":
            return None
        return self.protocol.reported_variance(outcome, num_users)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, " m"]:
        """A proven bound on the mean squared error of each answer for given users.

        `"clip"`: the error of the raw answer. Others: `total_variance`. Nowhere more than the
        square of the range of the query, unless `below` may leave the raw answer.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        raw, num_users = self.protocol.variance(counts, inputs), self.check_histogram(counts).sum()
        if self._is_raw(num_users):
            return raw
        return self._each(raw, self.total_variance(counts), num_users)

    def population_variance(
        self, probabilities: ArrayLike, num_users: int
    ) -> Float[np.ndarray, " m"]:
        """A proven bound on the mean squared error about `W p` for independent users.

        The lesser of the raw estimate's error, summed unless `onto` is "clip", and the squared
        range of the query.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
        """
        raw = self.protocol.population_variance(probabilities, num_users)
        if self._is_raw(num_users):
            return raw
        # The projection is non-expansive, and leaves W p where it is.
        total = min(float(raw.sum()), self._drawn_width_bound(num_users))
        return self._each(raw, total, num_users)

    def total_variance(self, counts: ArrayLike) -> Prediction:
        """A proven bound on the sum of the mean squared errors, for given users.

        The least of two. A projection onto a convex set is non-expansive and leaves the truth where
        it is, so the raw estimate's error is a bound. And the projection P(a + y) of a point a of
        the set has `|P(a + y) - a|**2 <= <y, P(a + y) - a>`. For a noise z of mean 0 and a bias b,
        with columns a_v and any c, its mean is at most `E max_v <z, a_v - c> + 2 |b| max |a_v - c|`
        for the hull, and `E max_v |<z, a_v>| + 2 |b| max |a_v|` for the polytope. (Corollary 2.3
        of Bassily has 4 for 1; without the mean it would be 2.) This needs a proven tail of the
        noise: vector reports have one where their randomizer's `tail()` is known.
        """
        counts = self.check_histogram(counts)
        raw = self.protocol.total_variance(counts)
        if self._is_raw(counts.sum()):
            return raw
        return Prediction(min(raw, self._width_bound(counts.sum(), counts / counts.sum())), "bound")

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A proven bound on the mean squared error of an answer over all data sets of a size."""
        raw = self.protocol.worst_case_variance(num_users)
        if self._is_raw(num_users):
            return raw
        each = raw if self.onto == "clip" else self.worst_case_total_variance(num_users)
        return Prediction(min(each, float(self._spans(num_users).max()) ** 2), "bound")

    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """A proven bound on the sum of the mean squared errors over all data sets of a size."""
        raw = self.protocol.worst_case_total_variance(num_users)
        if self._is_raw(num_users):
            return raw
        return Prediction(min(raw, self._width_bound(num_users)), "bound")

    def _may_be_raw(self, num_users: float) -> bool:
        return self.below is not None and num_users >= self.below

    def _is_raw(self, num_users: float) -> bool:
        return self._may_be_raw(num_users) and self.protocol.counts_all_users

    def _each(self, raw: np.ndarray, total: float, num_users: float) -> np.ndarray:
        # A box moves each answer by itself; other sets bound the sum of the errors alone.
        return np.minimum(raw if self.onto == "clip" else total, self._spans(num_users) ** 2)

    def _spans(self, num_users: float) -> np.ndarray:
        """How far an answer may be off for being projected, float64[m]; inf if it may not be."""
        low, high = ranges(self.protocol)
        return np.full_like(low, np.inf) if self._may_be_raw(num_users) else high - low

    def _width_bound(self, num_users: float, histogram: np.ndarray | None = None) -> float:
        """The second bound of `total_variance`, for the worst histogram if none is given."""
        symmetric = self.onto == "polytope"
        width = None if self.onto == "clip" else self.protocol.width(symmetric)
        if width is None:
            return np.inf
        # E |P(a + y) - a|**2 <= E max <z, w> + 2 |b| max |w| over the vertices w; Corollary 2.3 of
        # Bassily without its factor 4, see `total_variance`.
        tail, norm, radius, bias = width
        largest = tail.of_mean(num_users).largest(self.num_values * (2 if symmetric else 1), norm)
        errors = bias if histogram is None else bias @ histogram[:, None]
        return largest + 2 * radius * float(np.linalg.norm(errors, axis=0).max())

    def _drawn_width_bound(self, num_users: float) -> float:
        """`_width_bound` for independent users, whose sampling is noise too; inf if not known."""
        del num_users
        return np.inf


@spec
class Projected(ProjectedProtocol):
    """A protocol whose estimate is projected onto what some histogram could have.

    ===============  ========================================  ==================================
    `onto`           nearest point (L2) of                      protocols
    ===============  ========================================  ==================================
    `"hull"`         the answers of all histograms: the hull   all
                     of the workload's columns
    `"polytope"`     the hull of the columns and their         all
                     negatives, as the papers have it
    `"clip"`         the box of the ranges of the queries      all
    `"simplex"`      the histograms                            those that estimate the histogram
    `"norm_sub"`     the same point by its other name          those that estimate the histogram
    ===============  ========================================  ==================================

    The hull is the smallest of these sets and the best choice: with few users or many queries it
    replaces the error of the noise by that of its largest product with a column, which hardly
    depends on the number of queries. The projection is computed in float64; params also have
    `raw(tally)`, the unbiased estimate, and for polytopes `projection(tally)` with its certified
    gap. The reports, and so the raw estimate for a key, are those of the protocol itself.

    Formal guarantees:
      * Privacy: the protocol's, since the projection only sees its reports.
      * Never further from the truth than the raw estimate, for every outcome, but for the
        tolerance: `|P(y) - a|**2 <= |y - a|**2 - |P(y) - y|**2` for a in the set.
      * Bias: biased.
      * Mean squared errors have no closed form: `expected_error` simulates them for a prior;
        `variance`, `total_variance` and the other predictions are proven bounds, see
        `total_variance`.

    Edge cases:
      ==================================  ====================================================
      raw estimate in the set             unchanged, up to `tol`
      `below`, as many users or more      the raw estimate
      hull of a histogram's protocol      computed as the simplex
      interactive protocol                TypeError in `build`
      ==================================  ====================================================

    Args:
      protocol: a `LinearProtocol`.
      onto: see the table.
      below: project only if there are fewer users; None for always, which is never worse. As in
        Algorithm 4, those who dropped out of a `GaussianRejection` as printed are not counted.
      tol: of "hull" and "polytope": stop at a gap of at most `tol |y|**2`, y the raw estimate.

    Raises:
      ValueError: an argument is out of range, or `onto` does not fit the protocol.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.linear import FactorizedQueries, Projected
      >>> raw = FactorizedQueries(jaxdp.workloads.prefix(8), epsilon=1.0)
      >>> population = jaxdp.Population.from_histogram([100] * 8)
      >>> estimate = jaxdp.run(Projected(raw), population, jax.random.key(0))
      >>> bool((estimate[1:] >= estimate[:-1]).all() and 0 <= estimate[0] <= estimate[-1] < 1.001)
      True

    References:
      Nikolov, Talwar, Zhang (2013), The geometry of differential privacy, Lemma 1; Bassily (2019),
      Algorithms 2, 4 and 5 and Corollary 2.3; Wang et al. (2020),
      Locally differentially private frequency estimation with consistency (norm-sub).
    """

    protocol: LinearProtocol[Params[Any]] = field(_LINEAR)
    onto: str = field(Choice(*ONTO), default="hull")
    below: float | None = field(By(_check_below, (0, -1.0, float("nan"))), default=None)
    tol: float = field(Real(0.0, 1.0), default=1e-6)

    def validate(self) -> None:
        """Raises ValueError where the set does not fit the protocol."""
        if self.onto in _HISTOGRAMS and not self.protocol.is_histogram:
            raise ValueError(
                f"onto must be 'hull', 'polytope' or 'clip' for {type(self.protocol).__name__}, "
                f"whose answers are not the histogram, got {self.onto!r}."
            )


@params
class ProjectedParams(Through[Tree]):
    """The params of the protocols whose estimate is projected: a pytree.

    Attributes:
      inner: the params of the protocol that is projected.
      vertices: float64[m, k], the columns of a polytope; float64[2, m], the ends of a box; or None.
      below: float64[], the number of users from which on nothing is projected; or None.
      kind: how the projection is computed; static.
      tol: static.
      everyone: whether all users are compared with `below`, or those who did not drop out; static.
    """

    inner: Round[Tree]
    vertices: Float[Array | np.ndarray, "a b"] | None
    below: Float[Array | np.ndarray, ""] | None
    kind: str = static()
    tol: float = static()
    everyone: bool = static(default=True)

    def cost(self, work: Work) -> Cost:
        """Adds the projection onto a polytope to the inner round: about 1,000 steps."""
        steps = 0.0
        if self.vertices is not None and self.kind != "clip":
            steps = 1500.0 * self.vertices.size
        return Through.cost(self, work) + Cost(steps, steps)

    def raw(self, outcome: Tree) -> Float[Array, " m"]:
        """The estimate before the projection."""
        return self.inner.estimate(outcome)

    @compiled_in_float64
    def estimate(self, outcome: Tree, /) -> Float[Array, " m"]:
        """The projected estimate."""
        raw = self.raw(outcome)
        nearest = self._nearest(raw)
        if self.below is None:
            return nearest
        # As printed in Algorithm 4 users who dropped out are not compared with the threshold.
        users = users_of(outcome) if self.everyone else outcome["active"].f64()
        return jnp.where(users < jnp.asarray(self.below), nearest, raw)

    @compiled_in_float64
    def projection(self, outcome: Tree) -> PolytopeProjection:
        """The projection with its weights (a histogram, for the hull) and its certified gap."""
        if self.kind not in ("hull", "polytope"):
            raise ValueError(f"projection is known for polytopes, not for {self.kind!r}.")
        return self._onto_polytope(self.raw(outcome))

    def _nearest(self, raw: Float[Array, " m"]) -> Float[Array, " m"]:
        if self.kind == "simplex":
            return simplex(raw)
        if self.kind == "l1_ball":
            return l1_ball(raw)
        if self.kind == "clip":
            low, high = jnp.asarray(self.vertices).astype(jnp.float64)
            return jnp.clip(raw, low, high)
        return self._onto_polytope(raw).point

    def _onto_polytope(self, raw: Float[Array, " m"]) -> PolytopeProjection:
        project = hull if self.kind == "hull" else symmetric_polytope
        return project(raw, jnp.asarray(self.vertices).astype(jnp.float64), tol=self.tol)
