"""Projections onto intersections of sets, by way of the projections onto each."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._spec import check_bool, check_int, check_items
from ._inputs import check_array, check_tolerance, in_precision, projected

Projection = Callable[[jax.Array], jax.Array]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class IntersectionProjection:
    """A point near several sets at once.

    Attributes:
      point: float[...], like the input.
      residual: float[]: largest distance of `point` from a point of one of the sets that was seen;
        at least the largest distance from a set.
      gap: float[]: ‖point − projection‖² ≤ gap where the point lies in all sets, see `dykstra`;
        may be negative where it does not. Infinite for `alternating_average`, whose limit is not
        the projection.
      converged: bool[], see the function.
      num_steps: int32[].
    """

    point: Any
    residual: Any
    gap: Any
    converged: Any
    num_steps: Any


def dykstra(
    x: ArrayLike,
    projections: Sequence[Projection],
    *,
    tol: float = 1e-6,
    max_steps: int = 1000,
    parallel: bool = False,
    float64: bool = False,
) -> IntersectionProjection:
    """The nearest point of an intersection of closed convex sets, by Dykstra's algorithm.

    A sweep replaces the point p by y_i = Π_i(p + z_i) for one set after the other and keeps the
    correction z_i = p + z_i − y_i. With `parallel` all the sets see the same p, and the next p is
    the mean of the y_i: about as many more sweeps as there are sets, each of independent
    projections.

    Formal guarantees:
      The corrections satisfy p = x − Σ z_i (parallel: the mean instead of the sum) and z_i is
      normal to set i at y_i. Hence for p in all sets
      ‖p − projection‖² ≤ Σ_i ⟨z_i, y_i − p⟩ = gap, and residual = max_i ‖y_i − p‖ = 0 makes p the
      projection exactly. Where p is only near the sets, ‖p − projection‖² ≤ gap + ‖x − projection‖
      ·(distance of p from the intersection), which the residual does not bound in general. A small
      change of p alone proves nothing: Dykstra's algorithm may rest for many sweeps. p converges
      to the projection whenever the intersection is not empty; the rate depends on the sets.

    Edge cases:
      =====================  ==========================================================
      empty intersection     converged = False, residual stays above 0
      x in every set         returned after one sweep, up to the rounding of the projections
      inexact projections    the residual does not fall below their error
      =====================  ==========================================================

    Args:
      x: float[...], one point of any shape; `jax.vmap` for a batch.
      projections: functions from an array of the shape of x to its projection. A function object
        that is passed again is not compiled again.
      tol: stop at residual ≤ tol·s and gap ≤ (tol·s)², s = max(‖x‖, ‖p‖), or at a gap that is
        all rounding, 8u·s². In float32, 1e-6 is about the least that can be asked for.
      max_steps: upper limit on the number of sweeps.
      parallel: see above.
      float64: compute in float64 whatever the dtype of x; the result is cast back, and has no
        derivative unless x64 is on.

    Returns:
      IntersectionProjection. `point` has a derivative in x, in both modes: that of the projection
      where it is differentiable, by the implicit function theorem and further sweeps, if the
      functions have derivatives in forward mode. The other results count as constants.

    Raises:
      ValueError: `x` is not finite (outside of jit), there is no projection, or one returns another
        shape.
      TypeError: a projection is not callable.

    Example:
      >>> import jax.numpy as jnp
      >>> import numpy as np
      >>> from jaxdp import projections
      >>> def ball(x):
      ...     return projections.frobenius_ball(projections.psd(x), 2.0)
      >>> def bounded(x):
      ...     return projections.box(x, -1.0, 1.0)
      >>> found = projections.dykstra(jnp.array([[2.0, 1.5], [1.5, 0.5]]), [ball, bounded])
      >>> print(np.array(found.point, np.float64).round(3))
      [[1. 1.]
       [1. 1.]]

    References:
      Boyle, Dykstra (1986); Gaffke, Mathar (1989) for the dual; Iusem, De Pierro (1991) for the
      parallel form; Cohen-Addad et al. (2024), Theorem 5.1, for which the projection itself is
      needed.
    """
    x, projections = _check(x, projections)
    check_int("max_steps", max_steps, low=1, high=2**31 - 1)
    check_bool("float64", float64)
    tol = check_tolerance("tol", tol)
    parallel = check_bool("parallel", parallel)
    solve = functools.partial(
        _dykstra, tol=tol, max_steps=max_steps, projections=projections, parallel=parallel
    )
    return in_precision(solve, float64, x)


def alternating_average(
    x: ArrayLike,
    projections: Sequence[Projection],
    *,
    tol: float = 1e-6,
    max_steps: int = 1000,
    float64: bool = False,
) -> IntersectionProjection:
    """Some point of an intersection of closed convex sets, by averaged projections.

    p ← mean of Π_i(p), from p = x.

    Formal guarantees:
      The limit lies in the intersection (if it is not empty), is at least as close as x to every
      point of it, and is in general *not* the projection of x: at relative noise 0.2, 1 and 3 on
      correlation matrices it is 5 %, 6 to 11 % and 14 to 31 % away. Post-processing keeps privacy
      either way, but error bounds proven for the projection need `dykstra`.

    Args:
      x: float[...], one point of any shape; `jax.vmap` for a batch.
      projections: as in `dykstra`.
      tol: stop at residual ≤ tol·max(‖x‖, ‖p‖), the residual being max_i ‖Π_i(p) − p‖.
      max_steps: upper limit on the number of averages.
      float64: compute in float64 whatever the dtype of x; the result is cast back.

    Returns:
      IntersectionProjection with gap = inf. Differentiable in forward mode only (`jax.jvp`): its
      limit is no projection.

    Raises:
      ValueError, TypeError: as in `dykstra`.

    Example:
      >>> import jax.numpy as jnp
      >>> import numpy as np
      >>> from jaxdp import projections
      >>> def ball(x):
      ...     return projections.frobenius_ball(projections.psd(x), 2.0)
      >>> def bounded(x):
      ...     return projections.box(x, -1.0, 1.0)
      >>> x = jnp.array([[2.0, 1.5], [1.5, 0.5]])
      >>> found = projections.alternating_average(x, [ball, bounded])
      >>> print(np.array(found.point, np.float64).round(3))
      [[1.    0.828]
       [0.828 0.685]]

    References:
      Auslender (1969); Cohen-Addad et al. (2024), Algorithms 2 and 4 and Theorem 5.4, where
      convergence to the projection is claimed.
    """
    x, projections = _check(x, projections)
    check_int("max_steps", max_steps, low=1, high=2**31 - 1)
    check_bool("float64", float64)
    tol = check_tolerance("tol", tol)
    solve = functools.partial(_average, tol=tol, max_steps=max_steps, projections=projections)
    return in_precision(solve, float64, x)


def _check(x, projections):
    x = check_array("x", x, "", 0)
    projections = check_items("projections", projections, "a sequence of functions")
    if not projections:
        raise ValueError("projections must hold at least one function, got none.")
    for i, project in enumerate(projections):
        if not callable(project):
            raise TypeError(f"projections[{i}] must be a function of an array, got {project!r}.")
        out = jax.eval_shape(project, x)
        if getattr(out, "shape", None) != x.shape:
            raise ValueError(
                f"projections[{i}] must return an array of the shape {x.shape} of x, got {out}; "
                "of a solver that returns more, pass lambda x: solver(x).point."
            )
    return x, projections


def _norm(x):
    return jnp.sqrt(jnp.sum(x**2))


@functools.partial(jax.jit, static_argnames=("projections", "parallel"))
def _dykstra(x, tol, max_steps, *, projections, parallel):
    state = _sweeps(jax.lax.stop_gradient(x), tol, max_steps, projections, parallel)
    held = state.point, state.corrections, tol, max_steps
    change = functools.partial(_linearised, projections, parallel)
    point = projected(state.point, x, held, change)
    return IntersectionProjection(
        point, state.residual, state.gap, state.converged, state.num_steps
    )


class _State(NamedTuple):
    point: jax.Array
    corrections: tuple[jax.Array, ...]
    residual: jax.Array
    gap: jax.Array
    converged: jax.Array
    num_steps: jax.Array


def _linearised(projections, parallel, held, change):
    """The derivative of the projection onto an intersection.

    p = Π_i(p + z_i) and x = p + Σ z_i, so the changes solve the same equations with the derivatives
    of the Π_i there, which Dykstra's sweeps solve too.
    """
    point, corrections, tol, max_steps = held

    def linear(project, correction):
        return lambda change: jax.jvp(project, (point + correction,), (change,))[1]

    maps = [linear(*pair) for pair in zip(projections, corrections, strict=True)]
    return _sweeps(change, tol, max_steps, maps, parallel).point


def _sweeps(x, tol, max_steps, projections, parallel):
    share = 1.0 / len(projections) if parallel else 1.0

    def sweep(state):
        point, corrections = state.point, state.corrections
        seen, kept = [], []
        for project, correction in zip(projections, corrections, strict=True):
            moved = point + correction
            seen.append(project(moved))
            kept.append(moved - seen[-1])
            if not parallel:
                point = seen[-1]
        if parallel:
            point = sum(seen[1:], start=seen[0]) * share
        residual = jnp.max(jnp.stack([_norm(y - point) for y in seen]))
        # z_i is normal to set i at y_i: ⟨z_i, y_i − q⟩ >= 0 for every q in it, hence for the
        # projection, which turns ‖p − projection‖² into the sum of ⟨z_i, y_i − p⟩ at most.
        terms = [jnp.sum(z * (y - point)) for z, y in zip(kept, seen, strict=True)]
        gap = share * sum(terms[1:], start=terms[0])
        converged = done(point, residual, gap)
        return _State(point, tuple(kept), residual, gap, converged, state.num_steps + 1)

    def done(point, residual, gap):
        scale = jnp.maximum(_norm(x), _norm(point))
        # The gap is a difference of squares, with a rounding error of about u·s².
        enough = jnp.maximum(tol**2, 8 * jnp.finfo(x.dtype).eps) * scale**2
        return (residual <= tol * scale) & (gap <= enough)

    def unfinished(state):
        return ~state.converged & (state.num_steps < max_steps)

    zeros = tuple(jnp.zeros_like(x) for _ in projections)
    infinite = jnp.full((), jnp.inf, x.dtype)
    start = _State(x, zeros, infinite, infinite, jnp.bool_(False), jnp.int32(0))
    return jax.lax.while_loop(unfinished, sweep, start)


@functools.partial(jax.jit, static_argnames="projections")
def _average(x, tol, max_steps, *, projections):
    def measure(point):
        seen = [project(point) for project in projections]
        residual = jnp.max(jnp.stack([_norm(y - point) for y in seen]))
        return sum(seen[1:], start=seen[0]) / len(seen), residual

    def done(point, residual):
        return residual <= tol * jnp.maximum(_norm(x), _norm(point))

    def step(state):
        _, following, _, count = state
        mean, residual = measure(following)
        return following, mean, residual, count + 1

    def unfinished(state):
        return ~done(state[0], state[2]) & (state[3] < max_steps)

    start = (x, *measure(x), jnp.int32(0))
    point, _, residual, count = jax.lax.while_loop(unfinished, step, start)
    infinite = jnp.full((), jnp.inf, x.dtype)
    return IntersectionProjection(point, residual, infinite, done(point, residual), count)
