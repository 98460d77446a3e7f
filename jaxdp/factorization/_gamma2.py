"""Exact factorization norms: γ2, γ_F and the signed γ2 of a symmetric matrix."""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ._factors import balance, column_norm, read_factors, read_signed_factor
from ._inputs import (
    check_level,
    check_matrix,
    check_memory,
    check_symmetric,
    is_symmetric,
    solve,
)
from ._interior import optimal_weights
from ._result import Factorization, relative_gap


def gamma2(matrix: ArrayLike, *, tol: float = 1e-6, max_steps: int = 100) -> Factorization:
    """The factorization norm γ2 with an optimal factorization and a proof of optimality.

    γ2(W) = min over W = leftᵀ·right of (largest column norm of left)·(largest column norm of
    right). It is the worst-case error, up to the randomizer's constant, of answering the linear
    queries W (one row a query) or the quadratic form hᵀWh from one noisy vector a user.

    Formal guarantees:
      `lower` ≤ γ2(W) ≤ `upper` in every case, up to float64 rounding, and `converged` says whether
      upper ≤ (1 + tol)·lower. `certify` re-checks both without this solver.

    Edge cases:
      ===========================  =======================================================
      W = 0                        upper = lower = 0
      zero or repeated rows        right, no special treatment needed; also rank-deficient W
      W equal to its transpose     the factors differ by signs only (eager calls), see `signed`
      ===========================  =======================================================

    Args:
      matrix: float[..., m, k]; integers and booleans are converted. One step costs an SVD of
        [m, k], ten products of (m + k)² × min(m, k) and a Cholesky factorization of order m + k.
      tol: relative gap to reach, >= 0. About 1e-7 is always within reach of float64.
      max_steps: upper limit on the number of Newton steps.

    Returns:
      Factorization with `left` [..., min(m, k), m], `right` [..., min(m, k), k] and `alpha` 0; the
      largest column norms of both equal √upper.

    Raises:
      ValueError: `matrix` has NaN or inf, fewer than two axes, no entries, or does not fit in
      memory;
        `tol` is negative.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> f = factorization.gamma2(np.tril(np.ones((2, 2))))
      >>> print(round(float(f.upper), 5), bool(f.converged))  # 2/√3
      1.1547 True

    References:
      Edmonds, Nikolov, Ullman (2020), Section 2.5 and Lemmas 12, 13; Linial, Shraibman (2009).
    """
    matrix = check_matrix(matrix)
    mode = "symmetric" if is_symmetric(matrix) else "both"
    return _solve(matrix, tol, max_steps, mode)


def gamma_f(matrix: ArrayLike, *, tol: float = 1e-6, max_steps: int = 100) -> Factorization:
    """The mean-squared factorization norm γ_F with an optimal factorization and a proof.

    γ_F(W) = min over W = leftᵀ·right of (root mean square column norm of left)·(largest column
    norm of right): the root mean squared error, over the m queries, of the best Gaussian
    factorization mechanism (the matrix mechanism), up to the noise's constant.

    Formal guarantees:
      `lower` ≤ γ_F(W) ≤ `upper`, as in `gamma2`; γ_F(W) ≤ γ2(W).

    Args:
      matrix: float[..., m, k], one query a row.
      tol: relative gap to reach, >= 0.
      max_steps: upper limit on the number of Newton steps.

    Returns:
      Factorization with `norm` `"gamma_f"`; the root mean square column norm of `left` and the
      largest column norm of `right` both equal √upper.

    Raises:
      ValueError: as in `gamma2`.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> f = factorization.gamma_f(np.tril(np.ones((64, 64))))
      >>> print(round(float(f.upper) ** 2, 3))
      4.409

    References:
      Edmonds, Nikolov, Ullman (2020), Section 5 (with their factor 1/√m); Denisov et al. (2022).
    """
    return _solve(check_matrix(matrix), tol, max_steps, "cols")


def signed(matrix: ArrayLike, *, tol: float = 1e-6, max_steps: int = 100) -> Factorization:
    """An optimal *signed* factorization W = leftᵀ·diag(signs)·left of a symmetric matrix.

    For symmetric W, γ2(W) = min of the largest squared column norm of A over all W = Aᵀ·diag(s)·A
    with s = ±1: with P = Aᵀ·A restricted to s = 1 and N to s = −1, W = P − N and γ2(W) is the least
    largest diagonal entry of P + N. So one report of A e_x per user serves a quadratic form.

    Formal guarantees:
      `lower` ≤ γ2(W) ≤ `upper` = largest squared column norm of `left`, up to float64 rounding.

    Args:
      matrix: float[..., k, k], equal to its transpose. (Not checked under jit, where the lower
        triangle is read.)
      tol: relative gap to reach, >= 0.
      max_steps: upper limit on the number of Newton steps.

    Returns:
      Factorization with `signs` float[..., k] of ±1 and `right` = signs[:, None]·`left`.

    Raises:
      ValueError: `matrix` is not square or not symmetric, or as in `gamma2`.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> f = factorization.signed(1 - np.eye(4))
      >>> print(round(float(f.upper), 5))  # 2 − 2/k
      1.5

    References:
      Linial, Shraibman (2009) for γ2; the signed form follows from the symmetry of the dual
      weights.
    """
    matrix = check_symmetric(check_matrix(matrix, square=True))
    return _solve(matrix, tol, max_steps, "symmetric")


def _solve(matrix, tol, max_steps, mode):
    m, k = matrix.shape[-2:]
    size = {"both": m + k, "cols": k, "symmetric": k}[mode]
    num_matrices = matrix.size // (m * k)
    check_memory(8.0 * num_matrices * (5 * size**2 + 10 * m * k), "an interior-point step")
    tol = check_level("tol", tol)
    return solve(
        lambda matrix, tol: _exact(matrix, tol, max_steps=max_steps, mode=mode), matrix, tol
    )


@functools.partial(jax.jit, static_argnames=("max_steps", "mode"))
def _exact(matrix, tol, *, max_steps, mode):
    scale = jnp.max(jnp.abs(matrix))
    scale = jnp.where(scale > 0, scale, 1.0)
    solution = optimal_weights(matrix / scale, tol, max_steps, mode)
    rows, cols, spectrum = solution.rows, solution.cols, solution.spectrum
    if mode == "symmetric":
        left, right, signs = read_signed_factor(matrix, rows, spectrum, scale)
        upper = column_norm(left) ** 2
    else:
        left, right = read_factors(matrix, rows, cols, spectrum, scale)
        left, right, upper = balance(left, right, mean=mode == "cols")
        signs = None
    dual = jnp.sqrt(rows)[:, None] * (spectrum.left @ spectrum.right.T) * jnp.sqrt(cols)[None, :]
    lower = jnp.minimum(jnp.sum(matrix * dual), upper)
    gap = relative_gap(lower, upper)
    return Factorization(
        left=left,
        right=right,
        upper=upper,
        lower=lower,
        gap=gap,
        converged=gap <= tol,
        num_steps=solution.num_steps,
        dual=dual,
        row_weights=rows,
        col_weights=cols,
        alpha=jnp.zeros(()),
        weight=jnp.zeros(()),
        signs=signs,
        norm="gamma_f" if mode == "cols" else "gamma2",
    )
