"""Correlation matrices: positive semidefinite with a unit diagonal."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._lapack import eigh
from .._spec import check_bool, check_int
from ._inputs import (
    check_array,
    check_square,
    check_tolerance,
    in_precision,
    projected,
    symmetrize,
)
from ._spectral import divided_differences, recompose

_SUFFICIENT = 1e-4  # of the slope, for a step to be taken
_MAX_HALVINGS = 20
_MAX_CG_STEPS = 200
LARGE = 128  # from here on matrices are solved in turn: XLA's batched products are slow on a CPU
_PATIENCE = 3  # steps without a smaller gap, after which rounding is taken to blame


@register_dataclass
@dataclasses.dataclass(frozen=True)
class CorrelationProjection:
    """A correlation matrix and how far it is from the nearest one.

    Attributes:
      point: float[..., n, n], positive semidefinite with ones on the diagonal.
      dual: float[..., n]: multipliers y of the diagonal; the projection is (X + diag y)₊ at the
        best y.
      gap: float[...] with ½‖point − projection‖_F² ≤ gap.
      converged: bool[...], whether gap ≤ tol·‖point‖_F².
      num_steps: int32[...]: Newton steps.
    """

    point: Any
    dual: Any
    gap: Any
    converged: Any
    num_steps: Any


class _Dual(NamedTuple):
    """The dual function at y: X + diag y = U diag(λ) Uᵀ."""

    y: jax.Array
    value: jax.Array
    slope: jax.Array
    values: jax.Array
    vectors: jax.Array
    gap: jax.Array


def correlation(
    x: ArrayLike,
    *,
    dual: ArrayLike | None = None,
    tol: float | None = None,
    max_steps: int = 50,
    float64: bool = False,
) -> CorrelationProjection:
    """The nearest correlation matrix (elliptope): positive semidefinite, ones on the diagonal.

    The dual problem is to minimise θ(y) = ½‖(G + diag y)₊‖_F² − Σy over y in Rⁿ, G = (X + Xᵀ)/2; it
    is smooth with gradient diag((G + diag y)₊) − 1 and strongly semismooth, so Newton's method with
    conjugate gradients and a line search converges quadratically. A step costs one decomposition
    of an n × n matrix for each try of the line search and a product of such for each step of
    conjugate gradients; 5 to 15 Newton steps are usual.

    Formal guarantees:
      * `point` = D (G + diag y)₊ D with the diagonal D that makes its diagonal 1: always a
        correlation matrix, up to rounding.
      * gap = ½‖point − Z₊‖_F² + ⟨point, Z₋⟩, Z = G + diag y = Z₊ − Z₋, is the difference of the
        primal and the dual objective, free of cancellation; ½‖point − projection‖_F² ≤ gap. It is
        computed in the working precision, and not below about u·‖Z₋‖_F·n with u the unit of
        rounding.
      * Derivative of `point`, in both modes: that of the projection where it is differentiable, by
        the implicit function theorem. The other results count as constants.

    Edge cases:
      ============================  =====================================================
      X a correlation matrix        returned up to rounding
      n = 1                         1
      converged False               max_steps or rounding ended the progress; `gap` holds
      not symmetric                 right: the antisymmetric part is orthogonal to the set
      ============================  =====================================================

    Args:
      x: float[..., n, n].
      dual: float[..., n], where to start, such as the `dual` of the result for a similar matrix.
      tol: stop at gap ≤ tol·‖point‖_F². Default: 8 units of rounding, 1e-6 in float32 and 2e-15 in
        float64, that is relative distances of 1e-3 and 6e-8.
      max_steps: upper limit on the number of Newton steps.
      float64: compute in float64 whatever the dtype of x; the result is cast back, and has no
        derivative unless x64 is on.

    Returns:
      CorrelationProjection with leaves of the leading axes of x.

    Raises:
      ValueError: `x` is not finite (outside of jit) or not square, or `dual` has the wrong shape.

    Example:
      >>> import jax.numpy as jnp
      >>> import numpy as np
      >>> from jaxdp import projections
      >>> x = jnp.array([[2.0, 1.1, 0.0], [1.1, 1.0, 1.1], [0.0, 1.1, 1.0]])
      >>> print(np.array(projections.correlation(x).point, np.float64).round(2))
      [[1.   0.78 0.21]
       [0.78 1.   0.78]
       [0.21 0.78 1.  ]]

    References:
      Qi, Sun (2006), A quadratically convergent Newton method for computing the nearest correlation
      matrix; Borsdorf, Higham (2010); Cohen-Addad et al. (2024), Remark 6.1.
    """
    x = check_square("x", x)
    check_int("max_steps", max_steps, low=1, high=2**31 - 1)
    check_bool("float64", float64)
    lead, n = x.shape[:-2], x.shape[-1]
    start = 1.0 - jnp.diagonal(x, axis1=-2, axis2=-1)
    if dual is not None:
        start = check_array("dual", dual, "n", 1).astype(x.dtype)
        if start.shape != (*lead, n):
            raise ValueError(f"dual must have shape {(*lead, n)}, got {start.shape}.")
    if tol is not None:
        tol = check_tolerance("tol", tol)

    def solve(x, dual):
        enough = 8.0 * jnp.finfo(x.dtype).eps if tol is None else tol
        found = _solve(x.reshape(-1, n, n), dual.reshape(-1, n), enough, max_steps)
        return jax.tree.map(lambda leaf: leaf.reshape(lead + leaf.shape[1:]), found)

    return in_precision(solve, float64, x, start)


@jax.jit
def _solve(x, dual, tol, max_steps):
    def one(matrix, start):
        best, num_steps = _newton(*jax.lax.stop_gradient((matrix, start, tol, max_steps)))
        kept = recompose(best.vectors, jnp.maximum(best.values, 0.0))
        held = best.values, best.vectors, jnp.ones_like(best.y)
        point = projected(_rescale(kept), matrix, held, pinned_derivative)
        enough = tol * jnp.sum(jax.lax.stop_gradient(point) ** 2)
        return CorrelationProjection(point, best.y, best.gap, best.gap <= enough, num_steps)

    if x.shape[-1] < LARGE:
        return jax.vmap(one)(x, dual)
    return jax.lax.map(lambda pair: one(*pair), (x, dual))


def _evaluate(matrix, y):
    """The dual function and the duality gap at y."""
    values, vectors = eigh(matrix + jnp.diag(y))
    kept = recompose(vectors, jnp.maximum(values, 0.0))
    dropped = recompose(vectors, jnp.maximum(-values, 0.0))
    value = 0.5 * jnp.sum(jnp.maximum(values, 0.0) ** 2) - jnp.sum(y)
    point = _rescale(kept)
    gap = 0.5 * jnp.sum((point - kept) ** 2) + jnp.maximum(jnp.sum(point * dropped), 0.0)
    gap = jnp.where(jnp.min(jnp.diagonal(kept)) > 0, gap, jnp.inf)
    return _Dual(y, value, jnp.diagonal(kept) - 1.0, values, vectors, gap)


def _rescale(kept):
    """The matrix with its rows and columns scaled to a unit diagonal."""
    diagonal = jnp.diagonal(kept)
    scale = jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1.0))
    scaled = scale[:, None] * kept * scale[None, :]
    return jnp.where(jnp.eye(len(kept), dtype=bool), 1.0, scaled)


def _curvature(values, vectors):
    """Maps H to the derivative of Z₊ in the direction H, where Z = U diag(λ) Uᵀ."""
    weights = divided_differences(values, jnp.maximum(values, 0.0))

    def apply(direction):
        inner = jnp.matmul(vectors.T, direction, precision="highest")
        inner = weights * jnp.matmul(inner, vectors, precision="highest")
        outer = jnp.matmul(vectors, inner, precision="highest")
        return jnp.matmul(outer, vectors.T, precision="highest")

    return apply


def _hessian(values, vectors):
    """Maps h to the derivative of diag(Z₊) in the direction diag h, with two products."""
    weights = divided_differences(values, jnp.maximum(values, 0.0))

    def apply(h):
        inner = jnp.matmul(vectors.T * h[None, :], vectors, precision="highest")
        outer = jnp.matmul(vectors, weights * inner, precision="highest")
        return jnp.sum(outer * vectors, axis=1)

    return apply


def _newton(matrix, start, tol, max_steps):
    """The dual point of the smallest gap met, and the number of steps."""
    eps = jnp.finfo(matrix.dtype).eps
    size = len(matrix)

    def unfinished(state):
        _, best, num_steps, stalled = state
        # The squared norm of a correlation matrix is at least its trace.
        return (best.gap > tol * size) & (num_steps < max_steps) & (stalled < _PATIENCE)

    def step(state):
        here, best, num_steps, stalled = state
        size = jnp.linalg.norm(here.slope)
        apply = _hessian(here.values, here.vectors)
        shift = 1e-3 * jnp.minimum(size, 1.0)
        direction, _ = jax.scipy.sparse.linalg.cg(
            lambda h: apply(h) + shift * h,
            -here.slope,
            tol=jnp.clip(0.1 * size, 1e2 * eps, 0.1),  # pyright: ignore[reportArgumentType]
            maxiter=_MAX_CG_STEPS,
        )
        descent = jnp.minimum(here.slope @ direction, 0.0)
        noise = 8 * eps * (jnp.abs(here.value) + jnp.sum(jnp.abs(here.y)))

        def too_long(trial):
            length, there = trial
            high = there.value > here.value + _SUFFICIENT * length * descent + noise
            return (high | ~jnp.isfinite(there.value)) & (length > 2.0**-_MAX_HALVINGS)

        def halve(trial):
            length = 0.5 * trial[0]
            return length, _evaluate(matrix, here.y + length * direction)

        one = jnp.ones((), matrix.dtype)
        _, there = jax.lax.while_loop(too_long, halve, (one, _evaluate(matrix, here.y + direction)))
        better = there.gap < best.gap
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), there, best)
        stalled = jnp.where(better, 0, stalled + 1)
        return there, best, num_steps + 1, stalled

    first = _evaluate(matrix, start)
    state = (first, first, jnp.int32(0), jnp.int32(0))
    _, best, num_steps, _ = jax.lax.while_loop(unfinished, step, state)
    return best, num_steps


def pinned_derivative(held, direction):
    """The derivative of the projection onto the positive semidefinite matrices with a diagonal.

    Args:
      held: the eigenvalues and eigenvectors of X plus the multipliers of the diagonal, and 1 where
        the diagonal is fixed, 0 where it is free.
      direction: of X.
    """
    values, vectors, pinned = held
    apply, hessian = _curvature(values, vectors), _hessian(values, vectors)
    # H goes to the derivative of Z₊ in the direction H + diag h, with the h for which the pinned
    # diagonal does not move.
    direction = symmetrize(direction)
    change, _ = jax.scipy.sparse.linalg.cg(
        lambda h: pinned * hessian(pinned * h) + (1 - pinned) * h,
        -pinned * jnp.diagonal(apply(direction)),
        tol=1e2 * float(jnp.finfo(values.dtype).eps),
        maxiter=_MAX_CG_STEPS,
    )
    return apply(direction + jnp.diag(change))
