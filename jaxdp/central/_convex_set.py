"""Compact convex sets that are projected on, as intersections of sets with known projections."""

import abc
import functools
import math
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from .._checked import Checked
from .._checks import By, Choice, Numbers, Optional, Real
from .._contract import field, spec
from .._spec import FrozenArray, as_array, check_int, is_traced, physical_memory
from .._x64 import in_float64
from ..projections import IntersectionProjection, alternating_average

Projection = Callable[[jax.Array], jax.Array]

_RELAXATION = 1.6  # over-relaxation of the consensus
_BALANCED = 10.0  # the ratio of the two residuals that the penalty keeps
_TUNED = 100  # steps in which the penalty may still change
_COPIES = 12  # points that a projection holds at once


class ConvexSet(Checked, abc.ABC):
    """A compact convex set S of arrays, the intersection of sets with known projections.

    A subclass is a frozen, hashable class of checked fields, made by `jaxdp.engine.spec`: it is
    static under jit.
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of a point."""

    @property
    @abc.abstractmethod
    def symmetric(self) -> bool:
        """Whether points are symmetric matrices. Targets must be then, and noise is made so."""

    @property
    @abc.abstractmethod
    def radius(self) -> float:
        """A bound on the Euclidean (Frobenius) norm of a point."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Projection, ...]:
        """The projections on the sets whose intersection S is, functions of one array."""

    @abc.abstractmethod
    def project(
        self, x: Float[Array, "*s"], *, tol: float = 1e-6, max_steps: int = 1000
    ) -> IntersectionProjection:
        """The nearest point of S, with a certificate.

        Args:
          x: of the shape of a point.
          tol: the relative distance to the projection at which to stop.
          max_steps: upper limit on the number of steps.

        Returns:
          IntersectionProjection, `‖point − projection‖**2 <= gap`; inf where that is not known.
        """

    def average(
        self, x: Float[Array, "*s"], *, tol: float = 1e-6, max_steps: int = 1000
    ) -> IntersectionProjection:
        """Some point of S by averaged projections, in general not the nearest.

        Args:
          x: of the shape of a point.
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


def _check_shape(name: str, value: Iterable[int]) -> tuple[int, ...]:
    return tuple(check_int(name, size, low=1) for size in value)


def _check_projections(name: str, value: Iterable[Projection]) -> tuple[Projection, ...]:
    projections = tuple(value)
    if not projections:
        raise ValueError(f"{name} must hold at least one function, got none.")
    for projection in projections:
        if not callable(projection):
            raise TypeError(f"{name} must be functions of an array, got {projection!r}.")
    return projections


@spec
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

    shape: tuple[int, ...] = field(By(_check_shape, ((0,), (1.5,))))  # pyright: ignore[reportIncompatibleMethodOverride]
    projections: tuple[Projection, ...] = field(By(_check_projections, ((), (1,))))
    radius: float = field(Real(0.0))  # pyright: ignore[reportIncompatibleMethodOverride]
    symmetric: bool = field(Choice(False, True), default=False)  # pyright: ignore[reportIncompatibleMethodOverride]
    center: Any = field(Optional(Numbers()), default=None)
    inner_radius: float | None = field(Optional(Real(0.0)), default=None)

    def validate(self) -> None:
        """Raises ValueError unless the sets have a common point, the center if there is one."""
        if self.symmetric and (len(self.shape) != 2 or self.shape[0] != self.shape[1]):
            raise ValueError(f"shape must be (n, n) for symmetric matrices, got {self.shape}.")
        if (self.center is None) != (self.inner_radius is None):
            raise ValueError("center and inner_radius must be given together.")
        if self.center is None:
            _require_common_point(self)
            return
        center = self.center.values.astype(np.float64)
        if center.shape != self.shape:
            raise ValueError(f"center must have shape {self.shape}, got {center.shape}.")
        self.settle(center=FrozenArray(center))
        for part in self.parts:
            away = float(np.linalg.norm(np.asarray(_at(part, center), np.float64) - center))
            if not away <= 1e-5 * (1.0 + float(np.linalg.norm(center))):
                raise ValueError(
                    f"center must lie in all sets, got one at distance {away:.3g} from the set of "
                    f"{_name(part)}."
                )

    @property
    def parts(self) -> tuple[Projection, ...]:
        """The projections, as given."""
        return self.projections

    def project(
        self, x: Float[Array, "*s"], *, tol: float = 1e-6, max_steps: int = 1000
    ) -> IntersectionProjection:
        """The nearest point of S, with a certificate."""
        return _admm(x, tol, max_steps, self)


def _require_common_point(sets: Intersection) -> None:
    """Raises if averaged projections prove that the intersection is empty."""
    for part in sets.parts:
        _at(part, np.zeros(sets.shape))
    empty, distances = _separate(sets)
    if not bool(empty):
        return
    apart = np.asarray(distances)
    i, j = (int(k) for k in np.unravel_index(np.argmax(apart), apart.shape))
    first, second = (_name(sets.parts[k]) for k in (i, j))
    raise ValueError(
        f"projections must be those of sets with a common point of norm <= {sets.radius:g}: the "
        f"sets of {first} and {second} are {apart[i, j]:.3g} apart where averaged projections come "
        "to rest."
    )


def _at(part: Projection, x: np.ndarray) -> jax.Array:
    out = part(jnp.asarray(x))
    if np.shape(out) != x.shape:
        raise ValueError(f"projections must keep the shape {x.shape}, got {out} of {_name(part)}.")
    return out


def _name(part: Projection) -> str:
    return repr(part.__name__ if isinstance(part, types.FunctionType) else part)


@in_float64
def _separate(sets: Intersection) -> tuple[Bool[Array, ""], Float[Array, "sets sets"]]:
    """Whether averaged projections from 0 prove emptiness, and the sets' distances at rest."""
    return _separate_from(jnp.zeros(sets.shape, jnp.float64), sets)


@functools.partial(jax.jit, static_argnames="sets")
def _separate_from(
    start: Float[Array, "*s"], sets: Intersection
) -> tuple[Bool[Array, ""], Float[Array, "sets sets"]]:
    count, norm = len(sets.parts), jnp.linalg.norm

    def measure(point: jax.Array) -> tuple[jax.Array, ...]:
        apart = [point - part(point) for part in sets.parts]
        total = sum(apart[1:], start=apart[0])
        squares = sum((jnp.sum(v**2) for v in apart), start=jnp.zeros((), start.dtype))
        # A common point c has sum <v_i, p - c> >= sum |v_i|**2, and |c| <= radius.
        proof = squares > (1 + 1e-6) * norm(total) * (norm(point) + sets.radius)
        return point - total / count, proof & (squares > (1e-6 * sets.radius) ** 2), squares

    def unfinished(state: tuple[jax.Array, ...]) -> jax.Array:
        _, proven, squares, step = state
        return ~proven & (squares > (1e-6 * sets.radius) ** 2) & (step < 2000)

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        return *measure(state[0]), state[3] + 1

    first = (start, jnp.bool_(False), jnp.full((), jnp.inf, start.dtype), jnp.int32(0))
    point, proven, _, _ = jax.lax.while_loop(unfinished, step, first)
    nearest = [part(point) for part in sets.parts]
    return proven, jnp.array([[norm(a - b) for a in nearest] for b in nearest])


@functools.partial(jax.jit, static_argnames="sets")
def _admm(
    x: Float[Array, "*s"],
    tol: Float[Array, ""] | float,
    max_steps: Int[Array, ""] | int,
    sets: Intersection,
) -> IntersectionProjection:
    """Consensus ADMM: y_1 = y_j for j >= 2, the objective with y_1."""
    head, *later = sets.parts
    many = len(later)
    if not many:
        point = head(x)
        zero = jnp.zeros((), x.dtype)
        return IntersectionProjection(point, zero, zero, jnp.bool_(True), jnp.int32(1))
    norm = functools.partial(jnp.linalg.norm, ord=None)
    rounding = 16 * math.sqrt(x.size) * jnp.finfo(x.dtype).eps * norm(x.ravel())

    def certify(
        y: Sequence[Array], dual: Sequence[Array], first: Array, others: Sequence[Array]
    ) -> tuple[Array, Array, Array]:
        """The point of S near y_1, its distance from the parts, and its gap."""
        residual = jnp.max(jnp.stack([norm((other - first).ravel()) for other in others]))
        point, left = first, residual
        if sets.center is not None:
            center = jnp.asarray(sets.center.values).astype(x.dtype)
            # r y_1 / (r + d) + d center / (r + d) is in every set that y_1 is d away from.
            assert sets.inner_radius is not None, "given with the center"
            share = residual / (sets.inner_radius + residual)
            point, left = first + share * (center - first), jnp.zeros((), x.dtype)
        # The duality gap of the point and q = x - total, see the class.
        total = sum(dual[1:], start=dual[0])
        slack = sum(jnp.sum(z * (s - point)) for z, s in zip(dual, y, strict=True))
        gap = jnp.sum((point - (x - total)) ** 2) + 2 * slack
        return point, left, jnp.maximum(gap, 0.0)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        y, u, rho, _, count = state
        pull = x + rho * sum(y[j] - u[j] for j in range(many))
        weight = 1 + many * rho  # of p in |p - x|**2 / 2 + rho sum |p - (y_j - u_j)|**2 / 2
        first = head(pull / weight)
        # pull / weight - first is normal to the first set at `first`, and the duals to the others.
        normal = pull - weight * first
        others, duals = [], []
        for j, part in enumerate(later):
            moved = _RELAXATION * first + (1 - _RELAXATION) * y[j] + u[j]
            others.append(part(moved))
            duals.append(moved - others[-1])
        best = certify([first, *others], [normal, *(rho * dual for dual in duals)], first, others)
        # The penalty balances the two residuals: Boyd et al. (2011), Section 3.4.1.
        primal = sum(norm((other - first).ravel()) for other in others)
        change = rho * sum(norm((new - old).ravel()) for new, old in zip(others, y, strict=True))
        factor = jnp.where(primal > _BALANCED * change, 2.0, 1.0)
        factor = jnp.where(change > _BALANCED * primal, 0.5, factor)
        factor = jnp.where((count < _TUNED) & (count % 5 == 4), factor, 1.0).astype(x.dtype)
        duals = tuple(dual / factor for dual in duals)
        return tuple(others), duals, rho * factor, best, count + 1

    def done(best: tuple[Array, Array, Array]) -> Array:
        point, residual, gap = best
        size = norm(point.ravel())
        enough = jnp.maximum((tol * size) ** 2, rounding * size)
        return (gap <= enough) & (residual <= tol * size + rounding)

    def unfinished(state: tuple[Any, ...]) -> Array:
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
    if sets.center is None:  # near all sets is not near their intersection
        gap = jnp.where(residual <= rounding, gap, infinite)
    return IntersectionProjection(point, residual, gap, done(best), count)


def real_array(name: str, value: ArrayLike) -> jax.Array | np.ndarray:
    """A real array: float64 in NumPy, or as it is where it is traced; or raises.

    What a curator holds is not rounded to float32 on its way to the noise.

    Args:
      name: what messages call it.
      value: entries must be finite where they are known.
    """
    array = value if is_traced(value) else as_array(name, value)
    assert isinstance(array, (jax.Array, np.ndarray))
    if not (array.dtype == bool or jnp.issubdtype(array.dtype, jnp.integer)):
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(f"{name} must be a real array, got dtype {array.dtype}.")
    if isinstance(array, jax.Array):
        return array
    array = array.astype(np.float64)
    if not np.all(np.isfinite(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[where]} at index {where}.")
    return array


def check_memory(needed: int, what: str) -> None:
    """Raises ValueError with the bytes if they are more than the machine's physical memory.

    Args:
      needed: bytes.
      what: the argument, what it must be, and what it is; the message goes on with the bytes.
    """
    available = physical_memory()
    if needed > available:
        raise ValueError(
            f"{what}, which takes about {needed:,} bytes, and the machine has {available:,}."
        )
