"""Exact factorization norms: γ2, γ_F and the signed γ2 of a symmetric matrix."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike

from .._spec import check_bool, check_int
from ._arrays import namespace, while_loop
from ._factors import balance, column_norm, locate, misfit, read_factors, read_signed_factor
from ._inputs import (
    MODERATE,
    check_level,
    check_matrix,
    check_memory,
    check_symmetric,
    extreme_exponents,
    is_symmetric,
    is_traced,
    solve,
    times_power,
)
from ._interior import Weights, optimal_weights, row_shift
from ._result import MISFIT, Factorization, relative_gap, scaled
from .explicit._circulant import circulant, kernel_of

_MAX_CUTS = 60
_HALVED = 16  # rows and columns from which on it pays to halve a matrix
_ROUNDING = 1e-15  # relative to the largest entry before a shift, what is left is no entry


def gamma2(
    matrix: ArrayLike, *, shift: bool = False, tol: float = 1e-6, max_steps: int = 100
) -> Factorization:
    """The factorization norm γ2 with an optimal factorization and a proof of optimality.

    γ2(W) = min over W = leftᵀ·right of (largest column norm of left)·(largest column norm of
    right). It is the worst-case error, up to the randomizer's constant, of answering the linear
    queries W (one row a query) or the quadratic form hᵀWh from one noisy vector a user. On a
    histogram h that sums to 1 a constant added to a row of W adds that constant to the answer, and
    costs no privacy: with `shift` the value is min over u of γ2(W − u·1ᵀ).

    Formal guarantees:
      `lower` ≤ γ2(W) ≤ `upper` in every case, up to float64 rounding, and `converged` says whether
      upper ≤ (1 + tol)·lower. `certify` re-checks both without this solver.

    Inside jit, `upper` and `lower` are differentiable: their gradient is the witness `dual`, in
    `gamma2_dual` it is leftᵀ·right, and the rest of a result has none.

    Edge cases:
      ===========================  =======================================================
      W = 0                        upper = lower = 0
      zero or repeated rows        right, no special treatment needed; also rank-deficient W
      W equal to its transpose     the factors differ by signs only (eager calls), see `signed`
      W Toeplitz and square        solved with its columns backwards, where it is symmetric
      W the same backwards, or −W  solved in two halves (eager calls)
      W circulant, or skew         no steps; in closed form from size 257 on (eager calls), see
                                   `explicit.circulant`
      W a function of x XOR y      the same
      ===========================  =======================================================

    Args:
      matrix: float[..., m, k]; integers and booleans are converted. One step costs a
        decomposition of [m, k], six products of (m² + m·k + k²) × min(m, k) and a Cholesky
        factorization of order m + k. A single matrix of at most 256 rows and columns is solved in
        NumPy; for others, and in transformations, each shape is compiled, which takes seconds.
      shift: whether a constant for each row may be subtracted; the result's `shift` holds them.
      tol: relative gap to reach, >= 0. About 1e-7 is always within reach of float64.
      max_steps: upper limit on the number of Newton steps.

    Returns:
      Factorization with `left` [..., min(m, k), m], `right` [..., min(m, k), k] and `alpha` 0; the
      largest column norms of both equal √upper.

    Raises:
      ValueError: `matrix` has NaN or inf, fewer than two axes, no entries, or does not fit
        in memory; `tol` is negative.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> f = factorization.gamma2(np.tril(np.ones((2, 2))))
      >>> print(round(float(f.upper), 5), bool(f.converged))  # 2/√3
      1.1547 True

    References:
      Edmonds, Nikolov, Ullman (2020), Section 2.5 and Lemmas 12, 13; Linial, Shraibman (2009).
    """
    dense = check_matrix(matrix)
    if check_bool("shift", shift):
        return _solve(dense, tol, max_steps, "both", shift)
    # The trace norm is concave in the weights: if W equals its transpose, the mean of (p, q) and
    # (q, p) is no worse than either, so p = q, which halves the variables.
    if is_symmetric(dense):
        return _solve(dense, tol, max_steps, "symmetric", shift)
    # So it is if W's columns are read backwards, as of every Toeplitz matrix.
    if is_symmetric(dense[..., ::-1]) and _kernel_of(dense) is None:
        found = _solve(dense[..., ::-1], tol, max_steps, "symmetric", shift)
        return dataclasses.replace(
            found,
            right=found.right[..., ::-1],
            dual=found.dual[..., ::-1],
            col_weights=found.col_weights[..., ::-1],
            signs=None,
        )
    return _solve(dense, tol, max_steps, "both", shift)


def gamma_f(
    matrix: ArrayLike, *, shift: bool = False, tol: float = 1e-6, max_steps: int = 100
) -> Factorization:
    """The mean-squared factorization norm γ_F with an optimal factorization and a proof.

    γ_F(W) = min over W = leftᵀ·right of (root mean square column norm of left)·(largest column
    norm of right): the root mean squared error, over the m queries, of the best Gaussian
    factorization mechanism (the matrix mechanism), up to the noise's constant.

    Formal guarantees:
      `lower` ≤ γ_F(W) ≤ `upper`, as in `gamma2`; γ_F(W) ≤ γ2(W).

    Args:
      matrix: float[..., m, k], one query a row.
      shift: whether a constant for each row may be subtracted, as in `gamma2`.
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
    return _solve(check_matrix(matrix), tol, max_steps, "cols", shift)


def signed(
    matrix: ArrayLike, *, shift: bool = False, tol: float = 1e-6, max_steps: int = 100
) -> Factorization:
    """An optimal *signed* factorization W = leftᵀ·diag(signs)·left of a symmetric matrix.

    For symmetric W, γ2(W) = min of the largest squared column norm of A over all W = Aᵀ·diag(s)·A
    with s = ±1: with P = Aᵀ·A restricted to s = 1 and N to s = −1, W = P − N and γ2(W) is the least
    largest diagonal entry of P + N. So one report of A e_x per user serves a quadratic form. A
    constant c added to all entries adds c to hᵀWh: with `shift` the value is min over c of γ2(W −
    c·11ᵀ), a convex function of c that is solved between two cutting planes, each the witness of a
    c tried before; the witness of the result is the mean of the two that does not see constants.

    Formal guarantees:
      `lower` ≤ γ2(W) ≤ `upper` = largest squared column norm of `left`, up to float64 rounding.

    Args:
      matrix: float[..., k, k], equal to its transpose. (Not checked under jit, where the lower
        triangle is read.)
      shift: whether a constant may be subtracted from all entries; some 5 to 15 solves.
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
      >>> f = factorization.signed(1 - np.eye(4), shift=True)
      >>> print(round(float(f.upper), 5), round(float(f.shift), 3))  # 1 − 1/k
      0.75 0.75

    References:
      Linial, Shraibman (2009) for γ2; the signed form follows from the symmetry of the dual
      weights.
    """
    dense = check_symmetric(check_matrix(matrix, square=True))
    return _solve(dense, tol, max_steps, "symmetric", shift)


def _solve(matrix, tol, max_steps, mode, shift):
    m, k = matrix.shape[-2:]
    size = {"both": m + k, "cols": k, "symmetric": k}[mode]
    num_matrices = matrix.size // (m * k)
    check_memory(8.0 * num_matrices * (5 * size**2 + 10 * m * k), "an interior-point step")
    tol = check_level("tol", tol, lead=matrix.shape[:-2])
    check_int("max_steps", max_steps, low=1, high=2**31 - 1)
    check_bool("shift", shift)
    parity = _parity(matrix)
    parity = 0 if mode == "symmetric" and parity < 0 else parity
    kernel = _kernel_of(matrix)
    if kernel is not None and not (shift and kernel[1]):
        return _convolution(*kernel, tol, mode, shift)
    options = dict(max_steps=max_steps, mode=mode, shift=bool(shift), parity=parity)
    compiled, host = (functools.partial(f, **options) for f in (_compiled, _exact))
    exponents = extreme_exponents(matrix)
    found = solve(compiled, times_power(matrix, -exponents), tol, host=host)
    return scaled(found, exponents)


def _kernel_of(matrix) -> tuple[np.ndarray, bool] | None:
    """The kernel of one large matrix that is a convolution, and whether it is skew."""
    m, k = matrix.shape[-2:]
    if is_traced(matrix) or matrix.ndim > 2 or m != k or k <= MODERATE:
        return None  # for small ones the solver takes no steps: equal weights are its first ones
    return kernel_of(matrix)


def _convolution(kernel, skew, tol, mode, shift) -> Factorization:
    """The norm of a convolution: γ_F is γ2, and the best constants are the mean of its kernel."""
    mean = kernel.mean() if shift else 0.0
    found = circulant(kernel - mean, skew=skew)
    symmetric = mode == "symmetric"
    return dataclasses.replace(
        found,
        converged=found.gap <= tol,
        signs=found.signs if symmetric else None,
        norm="gamma_f" if mode == "cols" else "gamma2",
        shift=(np.asarray(mean) if symmetric else np.full(kernel.size, mean)) if shift else None,
    )


def _parity(matrix) -> int:
    """±1 if each matrix, read backwards, is this times itself, and large enough to be halved."""
    if is_traced(matrix) or min(matrix.shape[-2:]) < _HALVED:
        return 0
    backwards = matrix[..., ::-1, ::-1]
    return int(np.array_equal(backwards, matrix)) or -int(np.array_equal(backwards, -matrix))


def _witness(solution: Weights):
    """The polar factor in the metric of the weights: ⟨W, U⟩ is the trace norm, γ2*(U) ≤ 1."""
    xp = namespace(solution.rows)
    core = solution.block.left @ solution.block.right.T
    return xp.sqrt(solution.rows)[:, None] * core * xp.sqrt(solution.cols)[None, :]


class _Cut(NamedTuple):
    """γ2(matrix − c) ≥ value − c·mass for every c."""

    value: jax.Array
    mass: jax.Array
    dual: jax.Array
    weights: jax.Array
    place: jax.Array  # the c at which it was found


def _entry_cut(matrix, mass, place):
    """The cut of the largest entry (mass 1) or the least (−1): abs(W_ij − c) ≤ γ2(W − c)."""
    xp = namespace(matrix)
    row, col = locate(mass * matrix)
    dual = mass * (xp.outer(row, col) + xp.outer(col, row)) / 2
    return _Cut(xp.sum(matrix * dual), xp.asarray(mass), dual, (row + col) / 2, place)


def _best_shift(matrix, tol, max_steps, parity):
    """The c that minimises γ2(matrix − c), and a witness that sums to 0 with its weights."""
    xp = namespace(matrix)

    def meet(left, right):
        """Where the falling and the rising cut cross, and the share of the falling one there."""
        mass = xp.maximum(left.mass - right.mass, xp.finfo(matrix.dtype).tiny)
        return (left.value - right.value) / mass, -right.mass / mass

    def lower(left, right):
        share = meet(left, right)[1]
        return share * left.value + (1 - share) * right.value

    def unfinished(state):
        left, right, upper, _, _, rounds = state
        gap = relative_gap(lower(left, right), upper)
        return (gap > tol) & (upper > _ROUNDING) & (rounds < _MAX_CUTS)

    def cut(state):
        left, right, upper, best, steps, rounds = state
        crossing, middle = meet(left, right)[0], (left.place + right.place) / 2
        # Every third round bisects: cuts that creep in from one side cannot stall the search.
        between = (crossing > left.place) & (crossing < right.place) & (rounds % 3 < 2)
        place = xp.where(between, crossing, middle)
        solution = optimal_weights(matrix - place, tol / 4, max_steps, "symmetric", parity=parity)
        value = xp.sum(solution.block.values) * xp.max(solution.row_ratio)
        dual = _witness(solution)
        found = _Cut(xp.sum(matrix * dual), xp.sum(dual), dual, solution.rows, place)
        falls = found.mass > 0
        choose = functools.partial(jax.tree.map, functools.partial(xp.where, falls))
        better = value < upper
        return (
            choose(found, left),
            choose(right, found),
            xp.where(better, value, upper),
            xp.where(better, place, best),
            steps + solution.num_steps,
            rounds + 1,
        )

    bound = 2.0 * xp.sum(xp.max(xp.abs(matrix), axis=0)) + 1.0
    start = (
        _entry_cut(matrix, 1.0, -bound),
        _entry_cut(matrix, -1.0, bound),
        xp.asarray(xp.inf),
        xp.zeros(()),
        xp.int32(0),
        xp.int32(0),
    )
    left, right, _, best, steps, _ = while_loop(unfinished, cut, start)
    share = meet(left, right)[1]
    dual = share * left.dual + (1 - share) * right.dual
    return best, dual, share * left.weights + (1 - share) * right.weights, steps


def _middle(matrix, axis):
    """The middle of the range of all entries, or of each row; halved first, not to overflow."""
    xp = namespace(matrix)
    low, high = (find(matrix, axis=axis, keepdims=True) for find in (xp.min, xp.max))
    return low / 2 + high / 2


def _without_rounding(shifted, scale):
    xp = namespace(shifted)
    return xp.where(xp.max(xp.abs(shifted)) > _ROUNDING * scale, shifted, 0.0)


def _exact(matrix, tol, *, max_steps, mode, shift, parity):
    xp = namespace(matrix)
    # What all entries, or those of a row, have in common would hide the rest in its rounding.
    middle, largest = 0.0, xp.max(xp.abs(matrix))
    if shift:
        middle = _middle(matrix, None if mode == "symmetric" else 1)
        matrix = _without_rounding(matrix - middle, largest)
    # γ2 and γ_F are homogeneous, and the solver wants entries of order 1.
    scale = xp.max(xp.abs(matrix))
    scale = xp.where(scale > 0, scale, 1.0)
    constant = None
    if shift and mode == "symmetric":
        best, dual, weights, earlier = _best_shift(matrix / scale, tol, max_steps, parity)
        # Nothing needs no constant, not even the last digits of a search for one.
        constant = xp.where(xp.any(matrix != 0), scale * best, 0.0)
        matrix = _without_rounding(matrix - constant, scale)
        constant = constant + xp.reshape(middle, ())
        solution = optimal_weights(matrix / scale, tol / 4, max_steps, mode, parity=parity)
    else:
        solution = optimal_weights(matrix / scale, tol, max_steps, mode, shift, parity)
        if shift:
            constant = row_shift(matrix, solution.cols)
            matrix = _without_rounding(matrix - constant[:, None], scale)
            constant = constant + xp.reshape(middle, -1)
        dual, weights, earlier = _witness(solution), None, 0
    rows, cols, block = solution.rows, solution.cols, solution.block
    if mode == "symmetric":
        left, right, signs = read_signed_factor(matrix, rows, block, scale)
        upper = column_norm(left) ** 2
    else:
        left, right = read_factors(matrix, rows, cols, block, scale)
        left, right, upper = balance(left, right, mean=mode == "cols")
        signs = None
        if shift:  # the null direction of W − u·1ᵀ is not unique, and rounding would show in it
            dual = dual - xp.sum(dual, axis=1)[:, None] * cols[None, :]
    if weights is not None:
        rows = cols = weights
    lower = xp.clip(xp.sum(matrix * dual), 0.0, upper)
    gap = relative_gap(lower, upper)
    return Factorization(
        left=left,
        right=right,
        upper=upper,
        lower=lower,
        gap=gap,
        converged=(gap <= tol) & (misfit(matrix, left, right) <= MISFIT),
        num_steps=solution.num_steps + earlier,
        dual=dual,
        row_weights=rows,
        col_weights=cols,
        alpha=xp.zeros(()),
        weight=xp.zeros(()),
        signs=signs,
        norm="gamma_f" if mode == "cols" else "gamma2",
        shift=constant,
    )


_compiled = jax.jit(_exact, static_argnames=("mode", "shift", "parity"))
