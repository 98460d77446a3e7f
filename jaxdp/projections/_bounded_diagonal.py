"""Positive semidefinite matrices with a diagonal of at most 1."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from .._lapack import eigh
from .._spec import check_bool, check_int
from ._correlation import LARGE, CorrelationProjection, _hessian, pinned_derivative
from ._inputs import check_square, check_tolerance, in_precision, projected
from ._spectral import recompose

_SUFFICIENT = 1e-4  # of the slope, for a step to be taken
_MAX_HALVINGS = 20
_MAX_CG_STEPS = 200
_PATIENCE = 3  # steps without a smaller gap, after which rounding is taken to blame


def bounded_diagonal(
    x: ArrayLike, *, tol: float | None = None, max_steps: int = 50, float64: bool = False
) -> CorrelationProjection:
    """The nearest positive semidefinite matrix with X_ii <= 1: Gram matrices of the unit ball.

    The dual problem is to minimise θ(y) = ½‖(G − diag y)₊‖_F² + Σy over y ≥ 0, G = (X + Xᵀ)/2, with
    gradient 1 − diag((G − diag y)₊). A projected Newton method with conjugate gradients solves it:
    multipliers that are 0 and would fall stay at 0, the others take the Newton step, and a line
    search runs along the projections of the step onto y ≥ 0.

    Formal guarantees:
      * `point` = D (G − diag y)₊ D, D_ii = min(1, 1/√Z_ii), lies in the set, up to rounding.
      * gap = ½‖point − Z₊‖_F² + ⟨point, Z₋⟩ + Σ y_i (1 − point_ii), Z = G − diag y = Z₊ − Z₋, is
        the difference of the primal and the dual objective, a sum of terms that are all ≥ 0;
        ½‖point − projection‖_F² ≤ gap.
      * Derivative of `point`, in both modes: that of the projection where it is differentiable, by
        the implicit function theorem. The other results count as constants.

    Edge cases:
      ============================  =====================================================
      X in the set                  returned up to rounding
      X negative definite           0
      converged False               max_steps or rounding ended the progress; `gap` holds
      not symmetric                 right: the antisymmetric part is orthogonal to the set
      ============================  =====================================================

    Args:
      x: float[..., n, n].
      tol: stop at gap ≤ tol·max(‖point‖_F², 1). Default: 8 units of rounding.
      max_steps: upper limit on the number of Newton steps.
      float64: compute in float64 whatever the dtype of x; the result is cast back, and has no
        derivative unless x64 is on.

    Returns:
      CorrelationProjection with leaves of the leading axes of x, `dual` the multipliers y.

    Raises:
      ValueError: `x` is not finite (outside of jit) or not square.

    Example:
      >>> import jax.numpy as jnp
      >>> import numpy as np
      >>> from jaxdp import projections
      >>> found = projections.bounded_diagonal(jnp.array([[2.0, 0.0], [0.0, 0.5]]))
      >>> print(np.array(found.point, np.float64).round(3))
      [[1.  0. ]
       [0.  0.5]]

    References:
      Bertsekas (1982), Projected Newton methods for optimization problems with simple constraints;
      Qi, Sun (2006); Cohen-Addad et al. (2024), Algorithm 3.
    """
    x = check_square("x", x)
    check_int("max_steps", max_steps, low=1, high=2**31 - 1)
    check_bool("float64", float64)
    if tol is not None:
        tol = check_tolerance("tol", tol)
    lead, n = x.shape[:-2], x.shape[-1]

    def solve(x):
        enough = 8.0 * jnp.finfo(x.dtype).eps if tol is None else tol
        found = _solve(x.reshape(-1, n, n), enough, max_steps)
        return jax.tree.map(lambda leaf: leaf.reshape(lead + leaf.shape[1:]), found)

    return in_precision(solve, float64, x)


@jax.jit
def _solve(x, tol, max_steps):
    def one(matrix):
        best, num_steps = _newton(*jax.lax.stop_gradient((matrix, tol, max_steps)))
        y, _, _, values, vectors, gap = best
        held = values, vectors, jnp.where(y > 0, 1.0, 0.0).astype(y.dtype)
        point = _point(recompose(vectors, jnp.maximum(values, 0.0)))
        point = projected(point, matrix, held, pinned_derivative)
        return CorrelationProjection(point, y, gap, gap <= tol * _size(best), num_steps)

    return jax.vmap(one)(x) if x.shape[-1] < LARGE else jax.lax.map(one, x)


def _evaluate(matrix, y):
    """The dual function at y, its gradient, the decomposition there, and the gap."""
    values, vectors = eigh(matrix - jnp.diag(y))
    kept = recompose(vectors, jnp.maximum(values, 0.0))
    dropped = recompose(vectors, jnp.maximum(-values, 0.0))
    value = 0.5 * jnp.sum(jnp.maximum(values, 0.0) ** 2) + jnp.sum(y)
    point = _point(kept)
    slack = jnp.maximum(jnp.sum(point * dropped), 0.0) + jnp.sum(y * (1 - jnp.diagonal(point)))
    gap = 0.5 * jnp.sum((point - kept) ** 2) + jnp.maximum(slack, 0.0)
    return y, value, 1.0 - jnp.diagonal(kept), values, vectors, gap


def _point(kept):
    """The matrix with the rows and columns scaled down whose diagonal is above 1."""
    scale = jax.lax.rsqrt(jnp.maximum(jnp.diagonal(kept), 1.0))
    scaled = scale[:, None] * kept * scale[None, :]
    over = jnp.eye(len(kept), dtype=bool) & (jnp.diagonal(kept) > 1)[:, None]
    return jnp.where(over, 1.0, scaled)


def _size(state):
    return jnp.maximum(jnp.sum(jnp.maximum(state[3], 0.0) ** 2), 1.0)


def _newton(matrix, tol, max_steps):
    """The state of the smallest gap met, and the number of steps."""
    eps = jnp.finfo(matrix.dtype).eps

    def unfinished(state):
        _, best, num_steps, stalled = state
        return (best[5] > tol * _size(best)) & (num_steps < max_steps) & (stalled < _PATIENCE)

    def step(state):
        here, best, num_steps, stalled = state
        y, value, slope, values, vectors, _ = here
        away = jnp.linalg.norm(y - jnp.maximum(y - slope, 0.0))
        # Bertsekas' active set has a margin: multipliers near 0 would otherwise zigzag towards it.
        bound = (y <= jnp.minimum(away, 1e-3)) & (slope > 0)
        free = jnp.where(bound, 0.0, 1.0).astype(y.dtype)
        curvature = _hessian(values, vectors)
        # The generalized Hessian may be singular; a shift that vanishes with the residual helps.
        shift = 1e-3 * jnp.minimum(away, 1.0)
        direction, _ = jax.scipy.sparse.linalg.cg(
            lambda h: free * curvature(free * h) + shift * h,
            -free * slope,
            tol=jnp.clip(0.1 * away, 1e2 * eps, 0.1),  # pyright: ignore[reportArgumentType]
            maxiter=_MAX_CG_STEPS,
        )
        direction = jnp.where(bound, -y, direction)
        noise = 8 * eps * (jnp.abs(value) + jnp.sum(y))

        def attempt(length):
            return _evaluate(matrix, jnp.maximum(y + length * direction, 0.0))

        def too_long(trial):
            length, there = trial
            expected = jnp.sum(slope * jnp.where(bound, there[0] - y, length * direction))
            high = there[1] > value + _SUFFICIENT * jnp.minimum(expected, 0.0) + noise
            return (high | ~jnp.isfinite(there[1])) & (length > 2.0**-_MAX_HALVINGS)

        def halve(trial):
            length = 0.5 * trial[0]
            return length, attempt(length)

        one = jnp.ones((), matrix.dtype)
        _, there = jax.lax.while_loop(too_long, halve, (one, attempt(one)))
        better = there[5] < best[5]
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), there, best)
        return there, best, num_steps + 1, jnp.where(better, 0, stalled + 1)

    # Exact where the matrix is diagonal.
    first = _evaluate(matrix, jnp.maximum(jnp.diagonal(matrix) - 1.0, 0.0))
    state = (first, first, jnp.int32(0), jnp.int32(0))
    _, best, num_steps, _ = jax.lax.while_loop(unfinished, step, state)
    return best, num_steps
