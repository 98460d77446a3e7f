"""Compact convex sets that are projected on, as intersections of sets with known projections."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import FrozenArray, check_int, check_real
from .._x64 import in_float64
from ..projections import IntersectionProjection, alternating_average

Projection = Callable[[jax.Array], jax.Array]

_RELAXATION = 1.6  # over-relaxation of the consensus
_BALANCED = 10.0  # the ratio of the two residuals that the penalty keeps
_TUNED = 100  # steps in which the penalty may still change
_COPIES = 12  # points that a projection holds at once


class ConvexSet(abc.ABC):
    """A compact convex set S of arrays, the intersection of sets with known projections.

    A subclass is a frozen, hashable spec: it is static under jit.

    Attributes:
      shape: of a point.
      symmetric: whether points are symmetric matrices. Targets must be then, and noise is made so.
      radius: a bound on the Euclidean (Frobenius) norm of a point.
    """

    __slots__ = ()

    shape: tuple[int, ...]
    symmetric: bool
    radius: float

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Projection, ...]:
        """The projections on the sets whose intersection S is, functions of one array."""

    @abc.abstractmethod
    def project(
        self, x: jax.Array, *, tol: float = 1e-6, max_steps: int = 1000
    ) -> IntersectionProjection:
        """The nearest point of S, with a certificate.

        Args:
          x: float[shape].
          tol: the relative distance to the projection at which to stop.
          max_steps: upper limit on the number of steps.

        Returns:
          IntersectionProjection, `‖point − projection‖**2 <= gap`; inf where that is not known.
        """

    def average(
        self, x: jax.Array, *, tol: float = 1e-6, max_steps: int = 1000
    ) -> IntersectionProjection:
        """Some point of S by averaged projections, in general not the nearest.

        Args:
          x: float[shape].
          tol: stop at distances from the parts of that times the larger norm of x and the point.
          max_steps: upper limit on the number of averages.
        """
        return alternating_average(x, self.parts, tol=tol, max_steps=max_steps)

    @property
    def dimension(self) -> int:
        """The number of free entries of a point: n (n + 1) / 2 for symmetric matrices."""
        if self.symmetric:
            return self.shape[0] * (self.shape[0] + 1) // 2
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Roughly the memory that a projection in float64 takes."""
        return 8 * _COPIES * math.prod(self.shape)

    def complexity_bound(self) -> float:
        """A proven bound on the Gaussian complexity `E max_{X in S} <X, W>`, W of normals.

        Here `radius sqrt(dimension)`.
        """
        return self.radius * math.sqrt(self.dimension)


@dataclasses.dataclass(frozen=True, slots=True)
class Intersection(ConvexSet):
    """The intersection of closed convex sets, given by the projections on each.

    `project` solves `min |p - x|**2` over p in all sets by the alternating direction method of
    multipliers (ADMM) with a consensus variable for each set but the first.

    Formal guarantees:
      * Every step gives z_i normal to set i at a point y_i of it. With q = x - sum z_i, a point p
        of the intersection has `½|p - q|**2 + sum <z_i, y_i - p>` for its duality gap, free of
        cancellation, and `|p - projection|**2` is at most twice that: `gap`.
      * It stops at `gap <= (tol |p|)**2`, or where the gap is all rounding, `16 u |x| |p|` times
        the root of the number of entries.
      * Such a p is made of y_1, at distances at most d from all sets, by pulling it towards
        `center`: (r y_1 + d center) / (r + d), r = `inner_radius`, lies in all sets.
      * Without a center p = y_1 itself. How far it is from the intersection then does not follow
        from how far it is from the sets, and `gap` is inf unless `residual`, the distance from
        points of the others, is all rounding. `converged` says that both are below the tolerance.

    Edge cases:
      ==============================  ============================================================
      empty intersection              ValueError naming two sets, where averaged projections prove
                                      it: with v_i = p - P_i(p), no point is common if
                                      `sum |v_i|**2 > |sum v_i| (|p| + radius)`
      only one set                    its projection itself, gap 0
      no center                       no certificate: gap inf, as a rule; give one where it is known
      inexact projections             their error is not part of the gap
      ==============================  ============================================================

    Args:
      shape: of a point.
      projections: functions from float[shape] to float[shape], in any precision; defined once,
        since a new function object is compiled anew.
      radius: a bound on the norm of the points of the intersection.
      symmetric: whether points are symmetric matrices.
      center: float[shape] or None, a point from which everything within `inner_radius` (symmetric
        matrices only, if `symmetric`) lies in all sets.
      inner_radius: > 0; needed with a center.

    Raises:
      ValueError: the intersection is empty, `center` is not in a set, or an argument is out of
        range.
      TypeError: a projection is not callable.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp.central import Intersection
      >>> from jaxdp.projections import box, l2_ball
      >>> def positive(x):
      ...     return box(x, 0.0, 1.0)
      >>> both = Intersection((2,), (positive, l2_ball), radius=1.0)
      >>> print(both.project(jnp.array([2.0, -1.0])).point)
      [1. 0.]

    References:
      Boyd, Parikh, Chu, Peleato, Eckstein (2011), Distributed optimization and statistical learning
      via the alternating direction method of multipliers; Gaffke, Mathar (1989) for the dual.
    """

    shape: tuple[int, ...]
    projections: Sequence[Projection]
    radius: float
    symmetric: bool = False
    center: Any = None
    inner_radius: float | None = None

    def __post_init__(self):
        shape = tuple(check_int("shape", size, low=1) for size in self.shape)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "projections", tuple(self.projections))
        if not self.projections:
            raise ValueError("projections must hold at least one function, got none.")
        object.__setattr__(self, "radius", check_real("radius", self.radius, low=0.0))
        if self.symmetric and (len(shape) != 2 or shape[0] != shape[1]):
            raise ValueError(f"shape must be (n, n) for symmetric matrices, got {shape}.")
        if (self.center is None) != (self.inner_radius is None):
            raise ValueError("center and inner_radius must be given together.")
        if self.center is None:
            _require_common_point(self)
            return
        object.__setattr__(
            self, "inner_radius", check_real("inner_radius", self.inner_radius, low=0.0)
        )
        center = FrozenArray(np.asarray(self.center, np.float64))
        if center.values.shape != shape:
            raise ValueError(f"center must have shape {shape}, got {center.values.shape}.")
        object.__setattr__(self, "center", center)
        _require_inside(self)

    @property
    def parts(self) -> tuple[Projection, ...]:
        """The projections, as given."""
        return tuple(self.projections)

    def project(
        self, x: jax.Array, *, tol: float = 1e-6, max_steps: int = 1000
    ) -> IntersectionProjection:
        """The nearest point of S, with a certificate."""
        return _admm(x, tol, max_steps, self)


def _require_inside(found: Intersection) -> None:
    """Raises unless the center lies in every set."""
    center, size = found.center.values, 1.0 + float(np.linalg.norm(found.center.values))
    for part in found.parts:
        away = float(np.linalg.norm(np.asarray(_at(part, center), np.float64) - center))
        if not away <= 1e-5 * size:
            raise ValueError(
                f"center must lie in all sets, got one at distance {away:.3g} from the set of "
                f"{_name(part)}."
            )


def _require_common_point(found: Intersection) -> None:
    """Raises if averaged projections prove that the intersection is empty."""
    for part in found.parts:
        _at(part, np.zeros(found.shape))
    empty, distances = _separate(found)
    if not bool(empty):
        return
    distances = np.asarray(distances)
    i, j = (int(k) for k in np.unravel_index(np.argmax(distances), distances.shape))
    first, second = (_name(found.parts[k]) for k in (i, j))
    raise ValueError(
        f"projections must be those of sets with a common point of norm <= {found.radius:g}: the "
        f"sets of {first} and {second} are {distances[i, j]:.3g} apart where averaged projections "
        "come to rest."
    )


def _at(part: Projection, x: np.ndarray) -> jax.Array:
    if not callable(part):
        raise TypeError(f"projections must be functions of an array, got {part!r}.")
    out = part(jnp.asarray(x))
    if getattr(out, "shape", None) != x.shape:
        raise ValueError(f"projections must keep the shape {x.shape}, got {out} of {_name(part)}.")
    return out


def _name(part: Projection) -> str:
    return repr(getattr(part, "__name__", part))


@in_float64
def _separate(found: Intersection):
    """Whether averaged projections from 0 prove emptiness, and the sets' distances at rest."""
    return _separate_from(jnp.zeros(found.shape, jnp.float64), found)


@functools.partial(jax.jit, static_argnames="found")
def _separate_from(start, found):
    count = len(found.parts)

    def measure(point):
        seen = [part(point) for part in found.parts]
        apart = [point - y for y in seen]
        total = sum(apart[1:], start=apart[0])
        squares = sum(jnp.sum(v**2) for v in apart)
        proof = squares > (1 + 1e-6) * jnp.linalg.norm(total) * (
            jnp.linalg.norm(point) + found.radius
        )
        return point - total / count, proof & (squares > (1e-6 * found.radius) ** 2), squares

    def unfinished(state):
        _, proven, squares, step = state
        return ~proven & (squares > (1e-6 * found.radius) ** 2) & (step < 2000)

    def step(state):
        following, proven, squares = measure(state[0])
        return following, proven, squares, state[3] + 1

    first = (start, jnp.bool_(False), jnp.full((), jnp.inf, start.dtype), jnp.int32(0))
    point, proven, _, _ = jax.lax.while_loop(unfinished, step, first)
    seen = [part(point) for part in found.parts]
    distances = [[jnp.linalg.norm(a - b) for a in seen] for b in seen]
    return proven, jnp.array(distances)


@functools.partial(jax.jit, static_argnames="found")
def _admm(x, tol, max_steps, found):
    """Consensus ADMM: y_1 = y_j for j >= 2, the objective with y_1."""
    head, *rest = found.parts
    many = len(rest)
    if not many:
        point = head(x)
        zero = jnp.zeros((), x.dtype)
        return IntersectionProjection(point, zero, zero, jnp.bool_(True), jnp.int32(1))
    norm = functools.partial(jnp.linalg.norm, ord=None)
    rounding = 16 * math.sqrt(x.size) * jnp.finfo(x.dtype).eps * norm(x.ravel())

    def certify(y, dual, first, others):
        """The point of S near y_1, its distance from the parts, and its gap."""
        residual = jnp.max(jnp.stack([norm((other - first).ravel()) for other in others]))
        point, left = first, residual
        if found.center is not None:
            center = jnp.asarray(found.center.values).astype(x.dtype)
            share = residual / (found.inner_radius + residual)
            point, left = first + share * (center - first), jnp.zeros((), x.dtype)
        total = sum(dual[1:], start=dual[0])
        slack = sum(jnp.sum(z * (s - point)) for z, s in zip(dual, y, strict=True))
        gap = jnp.sum((point - (x - total)) ** 2) + 2 * slack
        return point, left, jnp.maximum(gap, 0.0)

    def step(state):
        y, u, rho, _, count = state
        pull = x + rho * sum(y[j] - u[j] for j in range(many))
        weight = 1 + many * rho
        first = head(pull / weight)
        normal = pull - weight * first
        others, duals = [], []
        for j, part in enumerate(rest):
            moved = _RELAXATION * first + (1 - _RELAXATION) * y[j] + u[j]
            others.append(part(moved))
            duals.append(moved - others[-1])
        best = certify([first, *others], [normal, *(rho * dual for dual in duals)], first, others)
        primal = sum(norm((other - first).ravel()) for other in others)
        change = rho * sum(norm((new - old).ravel()) for new, old in zip(others, y, strict=True))
        factor = jnp.where(primal > _BALANCED * change, 2.0, 1.0)
        factor = jnp.where(change > _BALANCED * primal, 0.5, factor)
        factor = jnp.where((count < _TUNED) & (count % 5 == 4), factor, 1.0).astype(x.dtype)
        duals = tuple(dual / factor for dual in duals)
        return tuple(others), duals, rho * factor, best, count + 1

    def done(best):
        point, residual, gap = best
        size = norm(point.ravel())
        enough = jnp.maximum((tol * size) ** 2, rounding * size)
        return (gap <= enough) & (residual <= tol * size + rounding)

    def unfinished(state):
        return ~done(state[3]) & (state[4] < max_steps)

    infinite = jnp.full((), jnp.inf, x.dtype)
    start = (
        (x,) * many,
        (jnp.zeros_like(x),) * many,
        jnp.ones((), x.dtype),
        (x, infinite, infinite),
        jnp.int32(0),
    )
    _, _, _, best, count = jax.lax.while_loop(unfinished, step, start)
    point, residual, gap = best
    if found.center is None:  # near all sets is not near their intersection
        gap = jnp.where(residual <= rounding, gap, infinite)
    return IntersectionProjection(point, residual, gap, done(best), count)
