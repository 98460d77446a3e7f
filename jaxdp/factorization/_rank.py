"""Factorizations of restricted rank."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._spec import check_int
from ._approx import gamma2_approx
from ._descent import descend, polar, truncate
from ._factors import column_norm
from ._inputs import check_level, check_matrix, check_memory, is_traced, over_stack
from ._result import Factorization, relative_gap

_SLACK = 1.3  # the first squared radius over the lower bound, where the descent starts


def johnson_lindenstrauss(
    matrix: ArrayLike, result: Factorization, rank: int, *, seed: int = 0
) -> Factorization:
    """Random projection of a factorization to a lower rank (Lemma 12).

    Both factors are multiplied by one Gaussian matrix of shape [rank, l] and variance 1/rank.

    Formal guarantees:
      E[leftᵀ·right] is that of `result`. For rank ≥ O(γ2²·log(m + k)/α²) all entries move by at
      most α with high probability. The returned `alpha` and `upper` are those of this draw,
      whatever it is; `lower` is the value of the witness at that `alpha`.

    Args:
      matrix: float[..., m, k], the matrix that `result` factorizes.
      result: a Factorization with `norm` `"gamma2"` and no shift.
      rank: >= 1.
      seed: of the projection.

    Returns:
      Factorization of that rank.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> W = np.tril(np.ones((64, 64)))
      >>> f = factorization.johnson_lindenstrauss(W, factorization.gamma2(W), rank=32)
      >>> f.rank, bool(f.alpha > 0.5)
      (32, True)

    References:
      Ghazi et al. (2023), Lemmas 12 and 13.
    """
    if is_traced(matrix, result.left):
        raise TypeError("johnson_lindenstrauss runs on the host: call it outside jit and vmap.")
    dense = check_matrix(matrix)
    fits = result.norm == "gamma2" and result.shift is None
    if not fits or np.shape(result.dual) != dense.shape:
        raise ValueError(
            f"result must be a factorization for gamma2 without shift of a matrix of shape "
            f"{dense.shape}, got norm {result.norm!r}, shift {result.shift} and shape "
            f"{np.shape(result.dual)}."
        )
    rank = check_int("rank", rank, low=1)
    size = (*dense.shape[:-2], rank, result.rank)
    projection = np.random.default_rng(seed).normal(size=size) / np.sqrt(rank)
    return _restate(dense, result, projection @ result.left, projection @ result.right)


@over_stack
def gamma2_rank(
    matrix: ArrayLike,
    rank: int,
    alpha: float,
    *,
    tol: float = 1e-3,
    num_steps: int = 3000,
    seed: int = 0,
) -> Factorization:
    """The rank-restricted norm γ2^l(W; α): factors with at most `rank` rows.

    Dimensions cost second-order noise in pairwise protocols. The optimal factors of γ2(W; α) are
    truncated to their leading directions and repaired by projected gradient steps on both factors.

    Formal guarantees:
      `lower` ≤ γ2(W; `alpha`) ≤ γ2^l(W; `alpha`) ≤ `upper` for the `alpha` of the result. The
      problem is not convex: `upper` is what was found.

    Edge cases:
      ==========================  ================================================================
      α not reached at this rank  `alpha` is the larger error of the factors, `converged` is False
      rank ≥ min(m, k)            that of `gamma2_approx`
      ==========================  ================================================================

    Args:
      matrix: float[..., m, k]; a stack is searched one by one, on the host (not under jit).
      rank: l >= 1.
      alpha: >= 0.
      tol: relative gap for `converged`, and of the inner `gamma2_approx`.
      num_steps: of projected gradient descent.
      seed: unused when the rank is full.

    Returns:
      Factorization with `rank` rows; its `dual` is that of `gamma2_approx`.

    Raises:
      ValueError: as in `gamma2_approx`; `rank` < 1.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> W = np.tril(np.ones((32, 32)))
      >>> f = factorization.gamma2_rank(W, rank=12, alpha=0.3)
      >>> f.rank, bool(f.alpha <= 0.3), bool(f.gap < 0.1)
      (12, True, True)

    References:
      Ghazi et al. (2023), Section 3 and Lemma 12.
    """
    dense = check_matrix(matrix)
    rank = check_int("rank", rank, low=1)
    alpha = float(check_level("alpha", alpha))
    check_level("tol", tol)
    check_int("num_steps", num_steps, low=1, high=2**31 - 1)
    check_int("seed", seed, low=0, high=2**32 - 1)
    full = gamma2_approx(dense, alpha, tol=tol)
    if rank >= min(dense.shape) or not np.any(dense) or full.upper == 0:
        return full
    with jax.enable_x64(True):
        target = jnp.asarray(full.matrix)
        # In the metric of the optimal weights the leading directions lose least where it matters.
        rows = jnp.sqrt(jnp.asarray(full.row_weights) + 1e-3 / len(dense))[:, None]
        cols = jnp.sqrt(jnp.asarray(full.col_weights) + 1e-3 / dense.shape[1])[None, :]
        left, right = truncate(rows * target * cols, rank, seed)
        left, right = left / rows.T, right / cols
        norm = column_norm(left) * column_norm(right)
        factors = descend(jnp.asarray(dense), left, right, alpha, norm, np.int32(num_steps))
        left, right = (np.asarray(f) for f in factors)
    return _restate(dense, full, left, right, alpha, tol, num_steps)


@over_stack
def projected_gradient(
    matrix: ArrayLike,
    rank: int,
    alpha: float,
    *,
    tol: float = 0.05,
    num_steps: int = 1000,
    num_reweights: int = 2,
    seed: int = 0,
) -> Factorization:
    """Low-rank approximate factors by matrix products in float32 alone: for large matrices.

    Adam with projections onto column-norm balls, whose radius shrinks while abs(W̃ − W) ≤ α holds.
    The dual witness is the polar factor of the weighted matrix, by Newton–Schulz iterations, with a
    few multiplicative updates of the weights.

    Formal guarantees:
      `alpha` and `upper` are recomputed in float64 from the returned factors. `lower` is proven for
      that `alpha` up to a margin of 1e-3 for rounding in float32; `certify` re-checks it.

    Edge cases:
      =====================================  =================================================
      α not reached at this rank and radius  `alpha` is the larger error, `converged` is False
      matrix of zeros                        factors of zeros
      =====================================  =================================================

    Args:
      matrix: float[..., m, k]; a step costs six multiplications of m·k·rank. A stack is searched
        one by one, on the host (not under jit; the steps themselves are compiled).
      rank: l >= 1; at most min(m, k) is used.
      alpha: > 0; the tolerance to reach.
      tol: relative gap for `converged`.
      num_steps: of projected gradient descent.
      num_reweights: updates of the dual weights, at most 1000; each costs about 60 products of
        m·k·min(m, k).
      seed: of the randomized truncated decomposition it starts from.

    Returns:
      Factorization of at most that rank.

    Raises:
      ValueError: `alpha` is not positive, `rank` < 1, `matrix` is invalid or too large.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> W = np.tril(np.ones((64, 64)))
      >>> f = factorization.projected_gradient(W, rank=24, alpha=0.3)
      >>> f.rank, bool(f.alpha <= 0.3)
      (24, True)

    References:
      Ghazi et al. (2023), Lemma 12 for the existence of low-rank factors.
    """
    dense = check_matrix(matrix)
    m, k = dense.shape
    rank = min(check_int("rank", rank, low=1), m, k)
    alpha = float(check_level("alpha", alpha, positive=True))
    check_level("tol", tol)
    check_int("num_steps", num_steps, low=1, high=2**31 - 1)
    check_int("num_reweights", num_reweights, low=0, high=1000)  # a few reach the witness's limit
    check_int("seed", seed, low=0, high=2**32 - 1)
    check_memory(4.0 * (8 * m * k + 12 * rank * (m + k)), "projected gradient descent")
    if not np.any(dense):  # no weights are better than others
        full = gamma2_approx(dense, alpha, tol=tol)
        return _restate(dense, full, np.zeros((rank, m)), np.zeros((rank, k)), alpha, tol)
    scale = float(np.abs(dense).max())  # not NumPy's, whose quotients warn where they overflow
    single = jnp.asarray(dense / scale, jnp.float32)
    witness = _polar_witness(single, num_reweights)
    # Truncated in the metric of the witness's weights, and from a ball a little larger than the
    # least there can be.
    rows = np.sqrt(witness.row_weights + 1e-3 / m).astype(np.float32)
    cols = np.sqrt(witness.col_weights + 1e-3 / k).astype(np.float32)
    left, right = truncate(rows[:, None] * single * cols[None, :], rank, seed)
    exact, mass = np.sum(dense * witness.dual), np.sum(np.abs(witness.dual))
    square = np.float32(np.clip(_SLACK * (exact - alpha * mass), exact / 10, exact) / scale)
    level, steps = np.float32(min(alpha / scale, 3e38)), np.int32(num_steps)
    factors = descend(single, left / rows[None, :], right / cols[None, :], level, square, steps)
    left, right = (np.sqrt(scale) * np.asarray(f, np.float64) for f in factors)
    return _restate(dense, witness, left, right, alpha, tol, num_steps)


def _polar_witness(matrix, num_reweights: int) -> Factorization:
    """A feasible dual point for γ2 of `matrix` from polar factors, in float32."""
    m, k = matrix.shape
    rows, cols = jnp.full(m, 1.0 / m), jnp.full(k, 1.0 / k)
    metric = jnp.sqrt(rows)[:, None] * jnp.sqrt(cols)[None, :]
    factor = polar(metric * matrix)
    for _ in range(num_reweights):
        product = metric * matrix * factor
        # p·Y = diag(M·Qᵀ) and q·Z = diag(Qᵀ·M): the multiplicative update towards equal Y and Z
        rows, cols = jnp.sum(product, axis=1), jnp.sum(product, axis=0)
        rows = jnp.maximum(rows, 1e-7 * jnp.max(rows))
        cols = jnp.maximum(cols, 1e-7 * jnp.max(cols))
        rows, cols = rows / jnp.sum(rows), cols / jnp.sum(cols)
        metric = jnp.sqrt(rows)[:, None] * jnp.sqrt(cols)[None, :]
        factor = polar(metric * matrix)
    dual = np.asarray(metric * factor / (1.001 * _spectral_norm(factor)), np.float64)
    rows, cols = (np.asarray(w, np.float64) for w in (rows, cols))
    zero = np.zeros(())
    return Factorization(
        left=np.zeros((1, m)),
        right=np.zeros((1, k)),
        upper=zero,
        lower=zero,
        gap=zero,
        converged=np.asarray(True),
        num_steps=np.asarray(0, np.int32),
        dual=dual,
        row_weights=rows / rows.sum(),
        col_weights=cols / cols.sum(),
        alpha=zero,
        weight=zero,
    )


@jax.jit
def _spectral_norm(matrix):
    """By 60 power iterations, which is ample where all large singular values are nearly equal."""

    def step(_, vector):
        image = matrix.T @ (matrix @ vector)
        return image / jnp.maximum(jnp.linalg.norm(image), 1e-30)

    start = jax.random.normal(jax.random.key(0), (matrix.shape[1],), matrix.dtype)
    vector = jax.lax.fori_loop(0, 60, step, start)
    return jnp.maximum(jnp.linalg.norm(matrix @ vector) / jnp.linalg.norm(vector), 1e-30)


def _restate(matrix, result, left, right, alpha=0.0, tol=0.0, num_steps=0) -> Factorization:
    """`result` with other factors: their error, norms, and the witness's value at that error."""
    last = (-2, -1)
    error = np.abs(left.swapaxes(*last) @ right - matrix).max(axis=last)
    longest = [np.sum(f**2, axis=-2).max(axis=-1) for f in (left, right)]
    upper = np.sqrt(longest[0] * longest[1])
    achieved = np.maximum(alpha, error)
    dual = np.asarray(result.dual)
    lower = np.sum(matrix * dual, axis=last) - achieved * np.abs(dual).sum(axis=last)
    lower = np.minimum(np.maximum(lower, 0.0), upper)
    with jax.enable_x64(True):
        gap = np.asarray(relative_gap(lower, upper))
    return dataclasses.replace(
        result,
        left=left,
        right=right,
        upper=upper,
        lower=lower,
        gap=gap,
        converged=np.asarray((error <= alpha) & (gap <= tol)),
        num_steps=np.full(error.shape, num_steps, np.int32),
        alpha=achieved,
        signs=None,
    )
