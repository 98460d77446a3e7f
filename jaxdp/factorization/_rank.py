"""Factorizations of restricted rank."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._spec import check_int
from ._approx import gamma2_approx
from ._descent import descend, polar, truncate
from ._factors import column_norm
from ._inputs import (
    check_level,
    check_matrix,
    check_memory,
    divided,
    evaluate,
    extreme_exponents,
    over_stack,
    times_power,
)
from ._result import Factorization, relative_gap, scaled

_SLACK = 1.3  # the first squared radius over the lower bound, where the descent starts
_BESIDE = 2**22  # entries of the matrices that are searched side by side


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
      seed: of the projection, in [0, 2**32). Each matrix of a stack has a projection of its own;
        those of `vmap` share one.

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
    dense = check_matrix(matrix)
    fits = result.norm == "gamma2" and result.shift is None
    if not fits or np.shape(result.dual) != dense.shape:
        raise ValueError(
            f"result must be a factorization for gamma2 without shift of a matrix of shape "
            f"{dense.shape}, got norm {result.norm!r}, shift {result.shift} and shape "
            f"{np.shape(result.dual)}."
        )
    rank = check_int("rank", rank, low=1)
    seed = check_int("seed", seed, low=0, high=2**32 - 1)
    size = (*dense.shape[:-2], rank, result.rank)
    projection = np.random.default_rng(seed).normal(size=size) / np.sqrt(rank)
    exponents = extreme_exponents(dense, result.left)
    dense, result = times_power(dense, -exponents), scaled(result, -exponents)

    def project(matrix, left, right, dual):
        return _restated(matrix, dual, projection @ left, projection @ right)

    found = evaluate(project, dense, result.left, result.right, result.dual)
    return scaled(dataclasses.replace(result, **found, signs=None), exponents)


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
      matrix: float[..., m, k].
      rank: l >= 1.
      alpha: >= 0; also one for each matrix of a stack.
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
    alpha = check_level("alpha", alpha, lead=dense.shape[:-2])
    tol = check_level("tol", tol, lead=dense.shape[:-2])
    num_steps = check_int("num_steps", num_steps, low=1, high=2**31 - 1)
    seed = check_int("seed", seed, low=0, high=2**32 - 1)
    exponents = extreme_exponents(dense, alpha)
    dense, alpha = divided(dense, alpha, exponents)
    full = gamma2_approx(dense, alpha, tol=tol)
    if rank >= min(dense.shape[-2:]):
        return scaled(full, exponents)
    parts = (full.left, full.right, full.dual, full.row_weights, full.col_weights)
    search = functools.partial(_pruned, _sketch(dense, rank, seed), num_steps=np.int32(num_steps))
    found = dataclasses.replace(full, **_each(search, dense, (alpha, tol), parts), signs=None)
    return scaled(found, exponents)


@jax.jit
def _pruned(sketch, matrix, alpha, tol, left, right, dual, rows, cols, *, num_steps):
    """The leading directions of the factors of γ2(W; α), repaired."""
    target = left.T @ right
    left, right = _truncated(target, rows, cols, sketch)
    norm = column_norm(left) * column_norm(right)
    factors = descend(matrix, left, right, alpha, norm, num_steps)
    some = jnp.any(target != 0)
    left, right = (jnp.where(some, factor, 0.0) for factor in factors)
    return _restated(matrix, dual, left, right, alpha, tol, num_steps)


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

    On NVIDIA GPUs a product is six of bfloat16, on matrix units, with the digits of float32.
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
      matrix: float[..., m, k]; a step costs six multiplications of m·k·rank. Small matrices of a
        stack are searched side by side.
      rank: l >= 1; at most min(m, k) is used.
      alpha: > 0; the tolerance to reach; also one for each matrix of a stack.
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
    lead, (m, k) = dense.shape[:-2], dense.shape[-2:]
    rank = min(check_int("rank", rank, low=1), m, k)
    alpha = check_level("alpha", alpha, positive=True, lead=lead)
    tol = check_level("tol", tol, lead=lead)
    num_steps = check_int("num_steps", num_steps, low=1, high=2**31 - 1)
    num_reweights = check_int("num_reweights", num_reweights, low=0, high=1000)  # a few are enough
    seed = check_int("seed", seed, low=0, high=2**32 - 1)
    check_memory(4.0 * (8 * m * k + 12 * rank * (m + k)), "projected gradient descent")
    counts = {"num_steps": np.int32(num_steps), "num_reweights": np.int32(num_reweights)}
    exponents = extreme_exponents(dense, alpha)
    dense, alpha = divided(dense, alpha, exponents)
    search = functools.partial(_descended, _sketch(dense, rank, seed), **counts)
    found = _each(search, dense, (alpha, tol), ())
    return scaled(Factorization(**found), exponents)


@jax.jit
def _descended(sketch, matrix, alpha, tol, *, num_steps, num_reweights):
    """Factors and a witness by products in float32."""
    scale = jnp.max(jnp.abs(matrix))
    some = scale > 0
    scale = jnp.where(some, scale, 1.0)
    single = (matrix / scale).astype(jnp.float32)
    dual, rows, cols = _polar_witness(single, num_reweights)
    exact, mass = jnp.sum(matrix * dual), jnp.sum(jnp.abs(dual))
    # From a ball a little larger than the least there can be.
    square = jnp.clip(_SLACK * (exact - alpha * mass), exact / 10, exact) / scale
    level = jnp.minimum(alpha / scale, 3e38).astype(jnp.float32)
    left, right = _truncated(single, rows, cols, sketch)
    factors = descend(single, left, right, level, square.astype(jnp.float32), num_steps)
    root = jnp.sqrt(scale)
    left, right = (jnp.where(some, root * f.astype(matrix.dtype), 0.0) for f in factors)
    dual = jnp.where(some, dual, 0.0)
    found = _restated(matrix, dual, left, right, alpha, tol, num_steps)
    witness = {"dual": dual, "row_weights": rows, "col_weights": cols}
    return found | witness | {"weight": jnp.zeros((), matrix.dtype)}


def _truncated(matrix, rows, cols, sketch):
    """Factors of the leading directions, in the metric of weights of rows and columns.

    In the metric of optimal weights they lose least where it matters.
    """
    roots = [jnp.sqrt(weights + 1e-3 / len(weights)) for weights in (rows, cols)]
    row, col, sketch = (x.astype(matrix.dtype) for x in (*roots, sketch))
    left, right = truncate(row[:, None] * matrix * col[None, :], sketch)
    return left / row[None, :], right / col[None, :]


def _polar_witness(matrix, num_reweights):
    """A feasible dual point for γ2 of a matrix from polar factors, in its precision.

    Returns:
      (witness, row weights, column weights) in float64.
    """
    m, k = matrix.shape
    rows, cols = jnp.full(m, 1.0 / m, matrix.dtype), jnp.full(k, 1.0 / k, matrix.dtype)
    metric = jnp.sqrt(rows)[:, None] * jnp.sqrt(cols)[None, :]
    factor = polar(metric * matrix)

    def reweight(_, state):
        _, _, metric, factor = state
        product = metric * matrix * factor
        # p·Y = diag(M·Qᵀ) and q·Z = diag(Qᵀ·M): the multiplicative update towards equal Y and Z
        rows, cols = jnp.sum(product, axis=1), jnp.sum(product, axis=0)
        rows = jnp.maximum(rows, jnp.maximum(1e-7 * jnp.max(rows), 1e-30))
        cols = jnp.maximum(cols, jnp.maximum(1e-7 * jnp.max(cols), 1e-30))
        rows, cols = rows / jnp.sum(rows), cols / jnp.sum(cols)
        metric = jnp.sqrt(rows)[:, None] * jnp.sqrt(cols)[None, :]
        return rows, cols, metric, polar(metric * matrix)

    state = (rows, cols, metric, factor)
    rows, cols, metric, factor = jax.lax.fori_loop(0, num_reweights, reweight, state)
    dual = metric * factor / (1.001 * _spectral_norm(factor))
    dual, rows, cols = (x.astype(jnp.float64) for x in (dual, rows, cols))
    return dual, rows / jnp.sum(rows), cols / jnp.sum(cols)


@jax.jit
def _spectral_norm(matrix):
    """By 60 power iterations, which is ample where all large singular values are nearly equal."""

    def step(_, vector):
        image = matrix.T @ (matrix @ vector)
        return image / jnp.maximum(jnp.linalg.norm(image), 1e-30)

    start = np.random.default_rng(0).normal(size=matrix.shape[1])
    vector = jax.lax.fori_loop(0, 60, step, jnp.asarray(start, matrix.dtype))
    return jnp.maximum(jnp.linalg.norm(matrix @ vector) / jnp.linalg.norm(vector), 1e-30)


def _sketch(matrix, rank: int, seed: int) -> np.ndarray:
    """Normals for `truncate`. jax's own do not lower in float64 inside of a 32-bit program."""
    shape = (matrix.shape[-1], rank)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _restated(matrix, dual, left, right, alpha=0.0, tol=0.0, num_steps=0) -> dict[str, Any]:
    """What a Factorization says of factors: error, norms, and the witness's value at that error."""
    last = (-2, -1)
    error = jnp.max(jnp.abs(jnp.swapaxes(left, *last) @ right - matrix), axis=last)
    longest = [jnp.max(jnp.sum(f**2, axis=-2), axis=-1) for f in (left, right)]
    upper = jnp.sqrt(longest[0] * longest[1])
    achieved = jnp.maximum(alpha, error)
    lower = jnp.sum(matrix * dual, axis=last) - achieved * jnp.sum(jnp.abs(dual), axis=last)
    lower = jnp.minimum(jnp.maximum(lower, 0.0), upper)
    gap = relative_gap(lower, upper)
    return {
        "left": left,
        "right": right,
        "upper": upper,
        "lower": lower,
        "gap": gap,
        "converged": (error <= alpha) & (gap <= tol),
        "num_steps": jnp.full(error.shape, num_steps, jnp.int32),
        "alpha": achieved,
    }


def _each(search: Callable, matrix, levels, parts) -> dict[str, Any]:
    """`search(matrix, *levels, *parts)` for each matrix of a stack, small ones side by side."""
    beside = max(1, _BESIDE // (matrix.shape[-2] * matrix.shape[-1]))

    def many(*stacks):
        return jax.lax.map(lambda one: search(*one), stacks, batch_size=beside)

    def batched(matrix, *rest):
        return over_stack(many, search, matrix, rest[: len(levels)], rest[len(levels) :])

    return evaluate(batched, matrix, *levels, *parts)
