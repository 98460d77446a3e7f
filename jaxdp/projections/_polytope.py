"""Projections onto the convex hull of the columns of a matrix, and of the columns and negatives."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._lapack import eigh
from .._spec import check_bool, check_choice, check_int
from .._x64 import dot
from ._fista import fista
from ._frank_wolfe import frank_wolfe
from ._inputs import check_array, check_tolerance, constant, in_precision, projected
from ._simplex import project_l1_ball, project_simplex

_METHODS = {"fista": fista, "frank_wolfe": frank_wolfe}


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PolytopeProjection:
    """A point of a polytope, the weights that make it, and how far it is from the projection.

    Attributes:
      point: float[..., d], A @ weights.
      weights: float[..., k]; of the many that may give the same point, one.
      gap: float[...] with ‖point − projection‖² ≤ gap and
        ½‖point − y‖² ≤ ½‖projection − y‖² + gap.
      converged: bool[...], whether gap ≤ tol·‖y‖².
      num_steps: int32[...].
    """

    point: Any
    weights: Any
    gap: Any
    converged: Any
    num_steps: Any


def hull(
    y: ArrayLike,
    a: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    tol: float = 1e-6,
    max_steps: int = 10_000,
    method: str = "fista",
    float64: bool = False,
) -> PolytopeProjection:
    """The nearest point of the convex hull of the columns of a matrix, A·Simplex.

    argmin of ‖p − y‖² over p = A w, w ≥ 0, Σw = 1: what the answers y of linear queries A become
    when they are made consistent with some histogram.

    `"fista"` runs accelerated proximal gradients on w, with a step length of its own for every y
    (doubled curvature and a new attempt where it was too long) and a restart whenever the momentum
    points uphill. `"frank_wolfe"` moves towards the best vertex or away from the worst one in use,
    with an exact line search; its weights are sparse. It is the better choice for tiny gaps and few
    vertices on the face, fista for many. A step of either costs two products of [n, d] with [d, k]
    for n points. A batch goes on until its last point has finished; up to rounding the result of
    one does not depend on the others.

    Formal guarantees:
      With r = A w − y, gap = ⟨r, A w⟩ − min_j ⟨r, a_j⟩ = Σ_j w_j·(⟨r, a_j⟩ − min_i ⟨r, a_i⟩)
      bounds both ‖p − projection‖² and the excess of ½‖p − y‖². It is computed in the working
      precision, as a sum of non-negative terms: its rounding error is a few units of rounding times
      ‖r‖·max_j ‖a_j − ā‖. Derivative of `point` in y, in both modes: the orthogonal
      projector onto the directions of the face that the columns in use span, or of the whole
      polytope where ‖r‖² ≤ gap; right where the projection is differentiable and the weights have
      settled, so ask for a small `tol`. The other results count as constants, and there is no
      derivative in a.

    Edge cases:
      ======================  =========================================================
      y in the hull           point ≈ y; weights are not unique
      repeated columns        right; weights are not unique
      k = 1                   the point is the column, gap = 0
      tol beyond precision    `max_steps` steps, converged = False, gap says what is left
      large common offset     columns are centred first, so only y − ā is rounded
      ======================  =========================================================

    Args:
      y: float[..., d], the points to project.
      a: float[d, k], the vertices are its columns.
      weights: float[..., k], where to start, such as the weights of a result for similar y;
        projected onto the simplex first. Default: uniform.
      tol: stop at gap ≤ tol·‖y‖².
      max_steps: upper limit on the number of steps.
      method: `"fista"` or `"frank_wolfe"`.
      float64: compute in float64 whatever the dtype of y; the result is cast back, and has no
        derivative unless x64 is on.

    Returns:
      PolytopeProjection with leaves of the leading axes of y.

    Raises:
      ValueError: an argument is not finite (outside of jit) or has the wrong shape; y and a differ
        in d.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> triangle = jnp.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
      >>> found = projections.hull(jnp.array([1.0, 0.5]), triangle)
      >>> print(found.point.round(4), found.converged)
      [0.75 0.25] True

    References:
      Beck, Teboulle (2009); O'Donoghue, Candès (2015), Adaptive restart for accelerated gradient
      schemes; Lacoste-Julien, Jaggi (2015), On the global linear convergence of Frank–Wolfe
      optimization variants; Bassily (2018), Algorithm 4, which projects onto A·B₁.
    """
    return _project(y, a, weights, False, tol, max_steps, method, float64)


def symmetric_polytope(
    y: ArrayLike,
    a: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    tol: float = 1e-6,
    max_steps: int = 10_000,
    method: str = "fista",
    float64: bool = False,
) -> PolytopeProjection:
    """The nearest point of the convex hull of ± the columns of a matrix, A·B₁.

    argmin of ‖p − y‖² over p = A w, Σ|w| ≤ 1. As `hull`, with
    `gap = ⟨r, A w⟩ + max_j |⟨r, a_j⟩|` and no centring. For histograms, which are non-negative and
    sum to 1, `hull` is a smaller set and therefore the better choice.

    Args:
      y: float[..., d], the points to project.
      a: float[d, k].
      weights: float[..., k], where to start; projected onto the L1 ball first. Default: 0.
      tol: stop at gap ≤ tol·‖y‖².
      max_steps: upper limit on the number of steps.
      method: `"fista"` or `"frank_wolfe"`.
      float64: compute in float64 whatever the dtype of y; the result is cast back, and has no
        derivative unless x64 is on.

    Returns:
      PolytopeProjection with leaves of the leading axes of y.

    Raises:
      ValueError: as in `hull`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jaxdp import projections
      >>> found = projections.symmetric_polytope(jnp.array([1.0, 0.5]), jnp.eye(2))
      >>> print(found.point.round(4), found.weights.round(4))
      [0.75 0.25] [0.75 0.25]

    References:
      As for `hull`; Bassily (2018), Section 2.
    """
    return _project(y, a, weights, True, tol, max_steps, method, float64)


def _project(y, a, weights, symmetric, tol, max_steps, method, float64):
    a = check_array("a", a, "d, k", 2)
    if a.ndim != 2:
        raise ValueError(f"a must be one matrix [d, k], got shape {a.shape}; vmap over matrices.")
    y = check_array("y", y, "d", 1).astype(a.dtype)
    if y.size == 0:
        raise ValueError(f"y must hold at least one point, got shape {y.shape}.")
    if y.shape[-1] != a.shape[0]:
        raise ValueError(
            f"y and a must agree in d: the last axis of y has {y.shape[-1]} entries, a has "
            f"{a.shape[0]} rows and {a.shape[1]} columns (one vertex a column)."
        )
    lead, k = y.shape[:-1], a.shape[1]
    if weights is None:
        weights = jnp.full((*lead, k), 0.0 if symmetric else 1.0 / k, a.dtype)
    else:
        weights = check_array("weights", weights, "k", 1).astype(a.dtype)
        if weights.shape != (*lead, k):
            raise ValueError(f"weights must have shape {(*lead, k)}, got {weights.shape}.")
    check_choice("method", method, tuple(_METHODS))
    check_int("max_steps", max_steps, low=1, high=2**31 - 1)
    check_bool("float64", float64)
    tol = check_tolerance("tol", tol)

    def solve(y, a, weights):
        rows = y.reshape(-1, y.shape[-1])
        start = weights.reshape(-1, k)
        found = _solve(rows, a, start, tol, max_steps, symmetric=symmetric, method=method)
        return jax.tree.map(lambda x: x.reshape(lead + x.shape[1:]), found)

    return in_precision(solve, float64, y, a, weights)


def _solve_impl(y, a, weights, tol, max_steps, *, symmetric, method):
    a = constant(a, "a, the vertices of a polytope, has no derivative: only y has.")
    ones = jnp.ones(y.shape[0], a.dtype)
    weights = (project_l1_ball if symmetric else project_simplex)(weights, ones)
    # Weights that sum to 1 commute with a shift of the columns: it changes the rounding alone.
    center = jnp.zeros(a.shape[0], a.dtype) if symmetric else jnp.mean(a, axis=1)
    vertices, target = a - center[:, None], y - center[None, :]
    # Below the rounding error of its terms no gap can be asked for.
    eps = jnp.finfo(a.dtype).eps
    largest = jnp.max(jnp.sum(vertices**2, axis=0))
    enough = jnp.maximum(tol * jnp.sum(y**2, axis=1), eps**2 * largest)
    arguments = jax.lax.stop_gradient((target, weights, enough))
    weights, gap, num_steps = _METHODS[method](
        arguments[0], vertices, arguments[1], arguments[2], max_steps, symmetric
    )
    point = dot(weights, a.T)
    held = y, weights, gap, point, a
    point = projected(point, y, held, functools.partial(_along_the_face, symmetric))
    return PolytopeProjection(point, weights, gap, gap <= arguments[2], num_steps)


_solve = jax.jit(_solve_impl, static_argnames=("symmetric", "method"))


def _along_the_face(symmetric, held, directions):
    """The derivative of the projections: the parts of directions along their faces."""
    y, weights, gap, point, a = held

    def project(row):
        target, used, distance, here, direction = row
        inside = jnp.sum((here - target) ** 2) <= distance
        offsets = a * jnp.sign(used)[None, :] - here[:, None] if symmetric else a - here[:, None]
        face = jnp.where(used != 0, 1.0, 0.0)
        if symmetric:
            # Inside, the directions are those of the columns themselves.
            offsets = jnp.where(inside, a, offsets)
        face = jnp.where(inside, 1.0, face)
        # The projector onto the span of these directions; what is below the cutoff is rounding.
        values, vectors = eigh((offsets * face[None, :]) @ offsets.T)
        cutoff = len(values) * jnp.finfo(values.dtype).eps * values[-1]
        return vectors @ jnp.where(values > cutoff, vectors.T @ direction, 0.0)

    return jax.lax.map(project, (y, weights, gap, point, directions))
