"""The dual norm γ2* and Grothendieck's factorization, by a primal-dual interior-point method.

2·γ2*(U) = max ⟨C, X⟩ over positive semidefinite X with unit diagonal, C = [[0, U], [Uᵀ, 0]], the
same semidefinite program as that of the maximum cut problem. Its dual is min Σy with Z = diag(y) −
C ⪰ 0. A Newton step for X·Z = μ·I that keeps diag(X) = 1 solves (X ∘ Z⁻¹)·dy = μ·diag(Z⁻¹) − 1
(Helmberg, Rendl, Vanderbei and Wolkowicz 1996).
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
from jax.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._spec import check_int
from ._arrays import (
    cholesky,
    eigenvalues,
    namespace,
    solve_definite,
    solve_transposed,
    while_loop,
)
from ._inputs import (
    check_level,
    check_matrix,
    check_memory,
    extreme_exponents,
    solve,
    times_power,
)
from ._result import Array, relative_gap

_CENTERING = 0.1
_TO_BOUNDARY = 0.95
_SMALL = 64  # rows or columns of a matrix that is solved on the host, in steps of (m + k)³
_HOMOGENEOUS = ("upper", "lower", "core")


@register_dataclass
@dataclasses.dataclass(frozen=True)
class DualNorm:
    """γ2*(U) with unit vectors that attain it and Grothendieck's factorization that bounds it.

    `lower` = ⟨U, leftᵀ·right⟩ where all columns of `left` and `right` have norm 1, and U =
    diag(√row_weights)·core·diag(√col_weights) with probability vectors and ‖core‖ = `upper`.

    Attributes:
      upper: float[...]: spectral norm of `core`.
      lower: float[...]: value of the unit vectors.
      gap: float[...]: upper / lower − 1; 0 where both are 0.
      converged: bool[...]: whether `gap` is at most the requested tolerance.
      num_steps: int32[...].
      left: float[..., m + k, m] with unit columns a_i.
      right: float[..., m + k, k] with unit columns b_j.
      core: float[..., m, k]: Ũ.
      row_weights: float[..., m]: squares of the diagonal of P.
      col_weights: float[..., k]: squares of the diagonal of Q.
    """

    upper: Array
    lower: Array
    gap: Array
    converged: Array
    num_steps: Array
    left: Array
    right: Array
    core: Array
    row_weights: Array
    col_weights: Array

    @property
    def slopes(self) -> tuple[Array, ...]:
        """The gradient of the norm by the matrix."""
        xp = namespace(self.left)
        return (xp.matmul(xp.swapaxes(self.left, -1, -2), self.right),)


class _State(NamedTuple):
    primal: jax.Array
    potential: jax.Array
    lower: jax.Array
    upper: jax.Array
    step: jax.Array
    sound: jax.Array


def gamma2_dual(matrix: ArrayLike, *, tol: float = 1e-6, max_steps: int = 100) -> DualNorm:
    """The dual norm γ2* of a matrix, with Grothendieck's factorization U = P·Ũ·Q.

    γ2*(U) = max of ⟨U, V⟩ over γ2(V) ≤ 1 = max of Σ_ij U_ij·⟨a_i, b_j⟩ over unit vectors a_i, b_j,
    and it is the least spectral norm of Ũ over U = P·Ũ·Q with diagonal P, Q of unit Frobenius norm.
    It is at least ‖U‖_{∞→1}, and at most Grothendieck's constant (< 1.783) times that.

    Formal guarantees:
      `lower` ≤ γ2*(U) ≤ `upper`, up to float64 rounding, re-checked by `certify`.

    Args:
      matrix: float[..., m, k], called U above. A step factorizes matrices of order m + k.
      tol: relative gap to reach, >= 0.
      max_steps: upper limit on the number of steps.

    Returns:
      DualNorm.

    Raises:
      ValueError: as in `gamma2`.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> d = factorization.gamma2_dual(np.array([[1.0, 1.0], [1.0, -1.0]]))
      >>> print(round(float(d.upper), 5))  # 2·√2, against ‖U‖_{∞→1} = 2
      2.82843

    References:
      Edmonds, Nikolov, Ullman (2020), Lemmas 12 and 13; Grothendieck (1953).
    """
    dense = check_matrix(matrix)
    m, k = dense.shape[-2:]
    check_memory(8.0 * dense.size / (m * k) * 10 * (m + k) ** 2, "the dual norm")
    tol = check_level("tol", tol, lead=dense.shape[:-2])
    check_int("max_steps", max_steps, low=1, high=2**31 - 1)
    exponents = extreme_exponents(dense)
    norm, host = (functools.partial(f, max_steps=max_steps) for f in (_compiled, _dual_norm))
    dense = times_power(dense, -exponents)
    found = solve(norm, dense, tol, host=host, largest=_SMALL)
    powers = {name: times_power(getattr(found, name), exponents) for name in _HOMOGENEOUS}
    return dataclasses.replace(found, **powers)


def longest_step(matrix, change):
    """The largest t <= 1 with 0.95·t within the positive definite cone from `matrix`."""
    xp = namespace(matrix)
    upper = cholesky(matrix).T
    inner = solve_transposed(upper, solve_transposed(upper, change).T)
    steepest = -eigenvalues((inner + inner.T) / 2)[0]
    return xp.minimum(1.0, _TO_BOUNDARY / xp.maximum(steepest, 1e-30))


def _weigh(potential, num_rows):
    """Probability vectors from the dual potential y, rows and columns separately."""
    rows, cols = potential[:num_rows], potential[num_rows:]
    return rows / rows.sum(), cols / cols.sum()


def _core(matrix, rows, cols):
    xp = namespace(matrix)
    return matrix / xp.sqrt(rows)[:, None] / xp.sqrt(cols)[None, :]


def _dual_norm(matrix, tol, *, max_steps):
    xp = namespace(matrix)
    num_rows, num_cols = matrix.shape
    size = num_rows + num_cols
    original = matrix
    scale = xp.max(xp.abs(matrix))
    scale = xp.where(scale > 0, scale, 1.0)
    matrix = matrix / scale
    squares = xp.zeros((num_rows, num_rows)), xp.zeros((num_cols, num_cols))
    cost = xp.block([[squares[0], matrix], [matrix.T, squares[1]]])

    def upper_bound(potential):
        core = _core(matrix, *_weigh(potential, num_rows))
        gram = core @ core.T if num_rows < num_cols else core.T @ core
        return xp.sqrt(xp.maximum(eigenvalues(gram)[-1], 0.0))

    def unfinished(state):
        gap = relative_gap(state.lower, state.upper)
        return (gap > tol) & (state.step < max_steps) & state.sound

    def newton(state):
        slack = xp.diag(state.potential) - cost
        inverse = solve_definite(slack, xp.eye(size))
        inverse = (inverse + inverse.T) / 2
        barrier = _CENTERING * xp.sum(state.primal * slack) / size
        # dy is such that X + dX keeps the diagonal 1; then dX = μ·Z⁻¹ − X − X·diag(dy)·Z⁻¹, made
        # symmetric.
        system = state.primal * inverse
        rise = solve_definite(system, barrier * xp.diagonal(inverse) - 1.0)
        change = barrier * inverse - state.primal - (state.primal * rise[None, :]) @ inverse
        change = (change + change.T) / 2
        primal = state.primal + longest_step(state.primal, change) * change
        potential = state.potential + longest_step(slack, xp.diag(rise)) * rise
        # Rounding moves the diagonal by a few ulps a step; put it back to exactly 1.
        norms = xp.sqrt(xp.diagonal(primal))
        primal = primal / norms[:, None] / norms[None, :]
        # A primal that rounding takes out of the cone has no vectors: the last step ends it.
        inside = xp.all(xp.isfinite(cholesky(primal)))
        sound = inside & xp.all(xp.isfinite(potential))
        primal = xp.where(sound, primal, state.primal)
        potential = xp.where(sound, potential, state.potential)
        lower, upper = xp.sum(cost * primal) / 2, upper_bound(potential)
        return _State(primal, potential, lower, upper, state.step + 1, sound)

    # Z = diag(y) − C is diagonally dominant at first, hence positive definite.
    potential = 1.1 * xp.sum(xp.abs(cost), axis=1) + 0.1
    start = _State(
        primal=xp.eye(size),
        potential=potential,
        lower=xp.zeros(()),
        upper=upper_bound(potential),
        step=xp.int32(0),
        sound=xp.bool_(True),
    )
    state = while_loop(unfinished, newton, start)

    # X = VᵀV with unit diagonal: the columns of V are the unit vectors a_i and b_j.
    vectors = cholesky(state.primal).T
    vectors = vectors / xp.linalg.norm(vectors, axis=0, keepdims=True)
    left, right = vectors[:, :num_rows], vectors[:, num_rows:]
    rows, cols = _weigh(state.potential, num_rows)
    core = _core(original, rows, cols)
    upper = scale * state.upper
    lower = xp.minimum(xp.sum(original * (left.T @ right)), upper)
    gap = relative_gap(lower, upper)
    return DualNorm(
        upper=upper,
        lower=lower,
        gap=gap,
        converged=gap <= tol,
        num_steps=state.step,
        left=left,
        right=right,
        core=core,
        row_weights=rows,
        col_weights=cols,
    )


_compiled = jax.jit(_dual_norm)
