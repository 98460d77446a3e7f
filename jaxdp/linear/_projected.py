"""Projection of estimated answers onto what some histogram could have."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._queries import LinearProtocol
from .._spec import check_choice, check_real
from .._x64 import compiled_in_float64
from ..projections import PolytopeProjection, hull, l1_ball, simplex, symmetric_polytope
from ..randomizers._gaussian_rejection import GaussianRejection
from ._encoded import EncodedProtocol
from ._tails import tail_of

ONTO = ("hull", "polytope", "simplex", "clip", "norm_sub")
_HISTOGRAMS = ("simplex", "norm_sub")
_MOST_LISTED = 2**12  # values of a domain whose columns are found by asking for their answers


class ProjectedProtocol(LinearProtocol):
    """Base class of the protocols whose estimate is a projected one.

    Attributes:
      protocol: whose estimate is projected.
      onto, below, tol: as of `Projected`.
    """

    __slots__ = ()

    protocol: LinearProtocol
    onto: str
    below: float | None
    tol: float

    @property
    def num_queries(self) -> int:
        return self.protocol.num_queries

    @property
    def num_values(self) -> int:
        return self.protocol.num_values

    def build(self, word_bits: int = 32) -> "ProjectedParams":
        """The params."""
        inner = self.protocol.build(word_bits)
        if hasattr(inner, "play"):
            raise TypeError(
                f"protocol must be non-interactive, got {type(self.protocol).__name__}; project "
                "its estimate with jaxdp.projections."
            )
        below = None if self.below is None else np.asarray(self.below, np.float64)
        kind, shape = _kind(self), None
        if kind in ("hull", "polytope"):
            shape = _matrix(self.protocol)
        elif kind == "clip":
            shape = np.stack(_ranges(self.protocol))
        counted = "active" if _drops_out(self.protocol) else "users"
        return ProjectedParams(inner, shape, below, kind, self.tol, counted)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: that of the protocol that is projected."""
        return self.protocol.exact_epsilon()

    def exact_delta(self) -> float:
        """The smallest delta at which `exact_epsilon()` holds; 0 of a pure protocol."""
        return getattr(self.protocol, "exact_delta", float)()

    def answers(self, histograms: np.ndarray) -> np.ndarray:
        return self.protocol.answers(histograms)

    def check_population(self, population) -> None:
        self.protocol.check_population(population)

    def variance(self, counts, inputs=None) -> np.ndarray:
        """A proven bound on the mean squared error of each answer for given users, float64[m].

        `"clip"`: that of the raw answer. Others: `total_variance`. Nowhere more than the square of
        the range of the query, unless `below` may leave the raw answer.

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        raw, num_users = self.protocol.variance(counts, inputs), self.check_histogram(counts).sum()
        if self._is_raw(num_users):
            return raw
        return self._each(raw, self.total_variance(counts), num_users)

    def population_variance(self, probabilities, num_users: int) -> np.ndarray:
        """A proven bound on the mean squared error about `W p` for independent users, float64[m].

        That of the raw estimate, summed unless `onto` is "clip", and the squared range of a query.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
        """
        raw = self.protocol.population_variance(probabilities, num_users)
        if self._is_raw(num_users):
            return raw
        total = min(float(raw.sum()), self._drawn_width_bound(num_users))
        return self._each(raw, total, num_users)

    def total_variance(self, counts) -> float:
        """A proven bound on the sum of the mean squared errors, for given users.

        The least of two. A projection onto a convex set is non-expansive and leaves the truth where
        it is, so that of the raw estimate is a bound. And the projection P(a + y) of a point a of
        the set has `|P(a + y) - a|**2 <= <y, P(a + y) - a>`. For a noise z of mean 0 and a bias b,
        with columns a_v and any c, its mean is at most `E max_v <z, a_v - c> + 2 |b| max |a_v - c|`
        for the hull, and `E max_v |<z, a_v>| + 2 |b| max |a_v|` for the polytope. (Corollary 2.3
        of Bassily has 4 for 1; without the mean it would be 2.) This needs a proven tail of the
        noise: there is one for vector reports by `Gaussian`, `Laplace`, `PrivUnitG`, `PrivUnit`,
        `L2Ball` and the repaired `GaussianRejection`.
        """
        counts = self.check_histogram(counts)
        raw = self.protocol.total_variance(counts)
        if self._is_raw(counts.sum()):
            return raw
        return min(raw, self._width_bound(counts.sum(), counts / counts.sum()))

    def worst_case_variance(self, num_users: int) -> float:
        """A proven bound on the mean squared error of an answer over all data sets of a size."""
        raw = self.protocol.worst_case_variance(num_users)
        if self._is_raw(num_users):
            return raw
        each = raw if self.onto == "clip" else self.worst_case_total_variance(num_users)
        return min(each, float(self._spans(num_users).max()) ** 2)

    def worst_case_total_variance(self, num_users: int) -> float:
        """A proven bound on the sum of the mean squared errors over all data sets of a size."""
        raw = self.protocol.worst_case_total_variance(num_users)
        return raw if self._is_raw(num_users) else min(raw, self._width_bound(num_users))

    def _may_be_raw(self, num_users: float) -> bool:
        return self.below is not None and num_users >= self.below

    def _is_raw(self, num_users: float) -> bool:
        return self._may_be_raw(num_users) and not _drops_out(self.protocol)

    def _each(self, raw: np.ndarray, total: float, num_users: float) -> np.ndarray:
        return np.minimum(raw if self.onto == "clip" else total, self._spans(num_users) ** 2)

    def _spans(self, num_users: float) -> np.ndarray:
        """How far an answer may be off for being projected, float64[m]; inf if it may not be."""
        low, high = _ranges(self.protocol)
        return np.full_like(low, np.inf) if self._may_be_raw(num_users) else high - low

    def _width_bound(self, num_users: float, histogram: np.ndarray | None = None) -> float:
        """The second bound of `total_variance`, for the worst histogram if none is given."""
        symmetric = self.onto == "polytope"
        found = None if self.onto == "clip" else _widths(self.protocol, symmetric)
        if found is None:
            return np.inf
        tail, norm, radius, bias = found
        largest = tail.of_mean(num_users).largest(self.num_values * (2 if symmetric else 1), norm)
        errors = bias if histogram is None else bias @ histogram[:, None]
        return largest + 2 * radius * float(np.linalg.norm(errors, axis=0).max())

    def _drawn_width_bound(self, num_users: float) -> float:
        """The same for independent users, whose sampling is noise too; inf if none is known."""
        del num_users
        return np.inf


@dataclasses.dataclass(frozen=True, slots=True)
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
      * Privacy: that of the protocol, since the projection only sees its reports.
      * Never further from the truth than the raw estimate, for every outcome, but for the
        tolerance: `|P(y) - a|**2 <= |y - a|**2 - |P(y) - y|**2` for a in the set.
      * Bias: biased.
      * Mean squared errors have no closed form: `variance`, `total_variance` and the other
        predictions are proven bounds, see `total_variance`.

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
      below: project only if there are fewer users; None for always, which is never worse. The
        tally must tell the number of users, as that of vector reports does. As in Algorithm 4,
        those who dropped out of a `GaussianRejection` as printed are not counted.
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

    protocol: LinearProtocol
    onto: str = "hull"
    below: float | None = None
    tol: float = 1e-6

    def __post_init__(self):
        if not isinstance(self.protocol, LinearProtocol):
            raise TypeError(f"protocol must be a linear protocol, got {self.protocol!r}.")
        check_choice("onto", self.onto, ONTO)
        if self.below is not None:
            below = float(self.below)
            if not below > 0:
                raise ValueError(
                    f"below must be a number of users > 0 or None, got {self.below!r}."
                )
            object.__setattr__(self, "below", below if below < np.inf else None)
        object.__setattr__(self, "tol", check_real("tol", self.tol, low=0.0, high=1.0))
        if self.onto in _HISTOGRAMS and not _is_histogram(self.protocol):
            raise ValueError(
                f"onto must be 'hull', 'polytope' or 'clip' for {type(self.protocol).__name__}, "
                f"whose answers are not the histogram, got {self.onto!r}."
            )


def _matrix(protocol: LinearProtocol) -> np.ndarray:
    """The workload, float64[m, k]."""
    if hasattr(protocol, "workload"):
        return protocol.workload.values  # pyright: ignore[reportAttributeAccessIssue]
    if protocol.num_values > _MOST_LISTED:
        raise ValueError(
            f"protocol must store its workload, or have at most {_MOST_LISTED} values, to be "
            f"projected onto the hull of its columns; {type(protocol).__name__} has "
            f"{protocol.num_values}."
        )
    return protocol.answers(np.eye(protocol.num_values)).T


@functools.lru_cache(maxsize=64)
def _is_histogram(protocol: LinearProtocol) -> bool:
    """Whether the answers are the histogram itself."""
    if protocol.num_queries != protocol.num_values:
        return False
    probe = np.random.default_rng(0).normal(size=protocol.num_values)
    return np.array_equal(protocol.answers(probe), probe)


@functools.lru_cache(maxsize=64)
def _ranges(protocol: LinearProtocol) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest answer to each query, float64[m] twice."""
    if _is_histogram(protocol):
        ones = np.ones(protocol.num_queries)
        return (ones if ones.size == 1 else np.zeros_like(ones)), ones
    matrix = _matrix(protocol)
    return matrix.min(axis=1), matrix.max(axis=1)


@functools.lru_cache(maxsize=64)
def _widths(protocol: LinearProtocol, symmetric: bool):
    """What the noise is multiplied with in the bounds, or None where it has no known tail.

    Returns:
      The tail of a report, the largest norms of a column (less a center, unless symmetric) as the
      decoder sees it and as it is, and the bias float64[m, k].
    """
    if not isinstance(protocol, EncodedProtocol):
        return None
    code, columns = protocol.code(), protocol.workload.values
    tail = tail_of(code.randomizer)
    if tail is None:
        return None
    centers = [np.zeros(len(columns))]
    if not symmetric:
        centers += [columns.mean(axis=1), code.offset]

    def norms(center):
        rest = columns - center[:, None]
        seen = rest if code.decoder is None else code.decoder.T @ rest
        return tuple(float(np.linalg.norm(x, axis=0).max()) for x in (seen, rest))

    norm, radius = min(map(norms, centers))
    return tail, norm, radius, protocol.contributions()[0] - protocol.workload.values


def _drops_out(protocol: LinearProtocol) -> bool:
    """Whether the estimate is the mean over the users who did not drop out."""
    randomizer = protocol.code().randomizer if isinstance(protocol, EncodedProtocol) else None
    return isinstance(randomizer, GaussianRejection) and randomizer.variant == "as_printed"


def _kind(projected: ProjectedProtocol) -> str:
    """How the projection is computed."""
    onto = projected.onto
    if onto in ("hull", "polytope", *_HISTOGRAMS) and _is_histogram(projected.protocol):
        return "l1_ball" if onto == "polytope" else "simplex"
    return onto


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ProjectedParams:
    """The params of `Projected` and `ProjectionMechanism`: a pytree.

    What users and blocks do is the protocol's: other attributes, such as `from_bits`, `tally` and
    `sample_tally`, are those of `inner`.

    Attributes:
      inner: the params of the protocol that is projected.
      shape: float64[m, k], the columns of a polytope; float64[2, m], the ends of a box; or None.
      below: float64[], the number of users from which on nothing is projected; or None.
      kind: how the projection is computed; static.
      tol: static.
      counted: the entry of the tally that is compared with `below`; static.
    """

    inner: Any
    shape: jax.Array | np.ndarray | None
    below: jax.Array | np.ndarray | None
    kind: str = dataclasses.field(metadata={"static": True})
    tol: float = dataclasses.field(metadata={"static": True})
    counted: str = dataclasses.field(default="users", metadata={"static": True})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":  # while a copy or a pickle is being made
            raise AttributeError(name)
        return getattr(self.inner, name)

    def raw(self, tally):
        """The estimate before the projection, float[m]."""
        return self.inner.estimate(tally)

    @compiled_in_float64
    def estimate(self, tally):
        """The projected estimate, float[m]."""
        raw = self.raw(tally)
        nearest = self._nearest(raw)
        if self.below is None:
            return nearest
        if not (isinstance(tally, dict) and self.counted in tally):
            raise TypeError("below must be None for a protocol whose tally has no number of users.")
        return jnp.where(tally[self.counted].f64() < jnp.asarray(self.below), nearest, raw)

    @compiled_in_float64
    def projection(self, tally) -> PolytopeProjection:
        """The projection with its weights (a histogram, for the hull) and its certified gap."""
        if self.kind not in ("hull", "polytope"):
            raise ValueError(f"projection is known for polytopes, not for {self.kind!r}.")
        return self._onto_polytope(self.raw(tally))

    def _nearest(self, raw):
        if self.kind == "simplex":
            return simplex(raw)
        if self.kind == "l1_ball":
            return l1_ball(raw)
        if self.kind == "clip":
            low, high = jnp.asarray(self.shape).astype(jnp.float64)
            return jnp.clip(raw, low, high)
        return self._onto_polytope(raw).point

    def _onto_polytope(self, raw) -> PolytopeProjection:
        project = hull if self.kind == "hull" else symmetric_polytope
        return project(raw, jnp.asarray(self.shape).astype(jnp.float64), tol=self.tol)
