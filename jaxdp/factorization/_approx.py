"""Approximate factorization norms: γ2(W; α) and ζ.

Both are min over W̃ of max over weights p, q of ‖diag(√p)·W̃·diag(√q)‖_tr, plus a convex function
of W̃ − W. The alternating direction method of multipliers splits the trace norm from that function
in the metric weighted by p and q: one step soft-thresholds singular values, the other is an
entrywise clip, both exact. After each step p and q move towards the worst weights of the present
W̃.

The scaled multiplier, its singular values clipped to 1, is a feasible dual point, and the clipped
W̃ is a feasible primal one, so every step yields both bounds.

The weights move by p_i ← p_i·Y_i^θ, each with its own exponent: θ grows while Y_i stays on one side
of 1 (weights that vanish, near-ties) and shrinks where it changes sides (oscillation). Where the
optimal W̃ is not unique the weights and W̃ can still chase each other around a cycle; when the gap
stalls, all exponents get a lower limit and the penalty grows, which separates the two time scales.
What has not converged then and is small is solved anew by Newton's method (`_semidefinite`).
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._spec import check_int
from ._arrays import cholesky, namespace, svd, while_loop
from ._factors import balance, decompose, factors_of, locate, misfit, read_factors
from ._gamma2 import gamma2, gamma_f
from ._inputs import (
    check_level,
    check_matrix,
    check_memory,
    divided,
    evaluate,
    extreme_exponents,
    is_traced,
    solve,
)
from ._result import MISFIT, Factorization, relative_gap, scaled
from ._semidefinite import Program, refine, system_order

_POWER = 1.5  # first exponent of the multiplicative updates of the weights
_POWERS = (0.3, 30.0)  # least and largest exponent, unless the limit is lower
_FASTER, _SLOWER = 1.05, 0.7  # changes of an exponent
_LARGEST_FACTOR = 4.0  # of a weight in one step
_CHECK_EVERY = 50  # steps between checks for a stall
_STALLED = 0.8  # a gap above this fraction of the one a check before has stalled
_LEAST_LIMIT = 0.25  # of the exponents
_BALANCE_EVERY = 10  # steps between corrections of the penalty parameter
_BALANCE_UNTIL = 300  # no corrections after this step: they could cycle
_IMBALANCE = 3.0  # ratio of the two residuals that calls for a correction
_CORRECTION = 1.5
_SPLITTING = 500  # steps after which Newton's method takes over where it can
_LARGEST_SYSTEM = 2500  # order of its linear system: 48 x 48, where a step takes as long as 100
_SMALL = 64  # rows or columns of a matrix that is solved on the host, in up to 500 steps
_FLOOR = 1e-11  # weights are kept above this, so that the metric stays invertible


class _Pace(NamedTuple):
    """How fast the weights move."""

    logs: jax.Array  # log of the last ratios Y and Z
    powers: jax.Array
    limit: jax.Array
    checked_gap: jax.Array


class _State(NamedTuple):
    target: jax.Array  # W̃, feasible
    multiplier: jax.Array  # in units of W̃
    rho: jax.Array
    rows: jax.Array
    cols: jax.Array
    lower: jax.Array
    dual: tuple[jax.Array, jax.Array, jax.Array]  # U and its weights
    upper: jax.Array
    primal: tuple[jax.Array, jax.Array, jax.Array]  # W̃ and its weights
    pace: _Pace
    step: jax.Array


def gamma2_approx(
    matrix: ArrayLike, alpha: ArrayLike, *, tol: float = 1e-4, max_steps: int = 5000
) -> Factorization:
    """The approximate factorization norm γ2(W; α) with factors and a proof.

    γ2(W; α) = min of γ2(W̃) over all W̃ with abs(W̃ − W) ≤ α in every entry. Answering the queries
    W̃ instead of W costs a bias of at most α and often saves much more noise.

    Formal guarantees:
      `lower` ≤ γ2(W; α) ≤ `upper` in every case, up to float64 rounding, and abs(leftᵀ·right − W) ≤
      α up to rounding.

    Edge cases:
      ======================  ============================
      α = 0                   that of `gamma2`
      α ≥ the largest abs(W)  factors 0, upper = lower = 0
      ======================  ============================

    Args:
      matrix: float[..., m, k]. A step costs two SVDs of [m, k].
      alpha: float[...] >= 0, broadcast against the leading axes of `matrix`.
      tol: relative gap to reach, >= 0.
      max_steps: upper limit on the number of steps.

    Returns:
      Factorization with `alpha` as given, left [..., min(m, k), m], right [..., min(m, k), k].

    Raises:
      ValueError: `alpha` or `tol` is negative or not finite, or as in `gamma2`.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> f = factorization.gamma2_approx(np.tril(np.ones((8, 8))), 0.1)
      >>> print(round(float(f.upper), 3), bool(f.converged))
      1.3 True

    References:
      Edmonds, Nikolov, Ullman (2020), Section 3.1 and Lemma 12. Their definition says α/2 where the
      lemma proves α; α here is the plain entrywise tolerance, as in Ghazi et al. (2023).
    """
    return _within(matrix, alpha, tol, max_steps, mean=False)


def gamma_f_approx(
    matrix: ArrayLike, alpha: ArrayLike, *, tol: float = 1e-4, max_steps: int = 5000
) -> Factorization:
    """The approximate mean-squared norm γ_F(W; α) with factors and a proof.

    γ_F(W; α) = min of γ_F(W̃) over all W̃ with abs(W̃ − W) ≤ α in every entry: `gamma2_approx` for
    the root mean squared error over the queries.

    Formal guarantees:
      `lower` ≤ γ_F(W; α) ≤ `upper` in every case, up to float64 rounding, and abs(leftᵀ·right − W)
      ≤ α up to rounding; γ_F(W; α) ≤ γ2(W; α).

    Edge cases:
      ======================  ============================
      α = 0                   that of `gamma_f`
      α ≥ the largest abs(W)  factors 0, upper = lower = 0
      ======================  ============================

    Args:
      matrix: float[..., m, k], one query a row.
      alpha: float[...] >= 0, broadcast against the leading axes of `matrix`.
      tol: relative gap to reach, >= 0.
      max_steps: upper limit on the number of steps.

    Returns:
      Factorization with `norm` `"gamma_f"`; the root mean square column norm of `left` and the
      largest column norm of `right` both equal √upper.

    Raises:
      ValueError: `alpha` is negative, or as in `gamma_f`.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> f = factorization.gamma_f_approx(np.tril(np.ones((8, 8))), 0.1)
      >>> print(round(float(f.upper), 3), bool(f.converged))
      1.285 True

    References:
      Edmonds, Nikolov, Ullman (2020), Sections 3.1 and 5.
    """
    return _within(matrix, alpha, tol, max_steps, mean=True)


def zeta(
    matrix: ArrayLike,
    num_users: float | None = None,
    epsilon: float | None = None,
    *,
    weight: ArrayLike | None = None,
    tol: float = 1e-4,
    max_steps: int = 5000,
) -> Factorization:
    """The best trade of noise against bias: ζ(W) = min over W̃ of γ2(W̃) + weight·max abs(W̃ − W).

    The weight is ε·√n for the quantity of Ghazi et al., in which constants are dropped. A
    randomizer that adds variance σ² per coordinate to unit vectors has root mean squared error
    γ2·σ/√n from noise, so the weight that minimises its worst-case error is √n/σ.

    Formal guarantees:
      `lower` ≤ ζ(W) ≤ `upper`, up to float64 rounding. The noise part alone is the product of the
      largest column norms, the bias part is `weight`·`alpha`.

    Args:
      matrix: float[..., m, k].
      num_users: n > 0; with `epsilon` instead of `weight`.
      epsilon: ε > 0.
      weight: float[...] > 0, instead of the two.
      tol: relative gap to reach, >= 0.
      max_steps: upper limit on the number of steps.

    Returns:
      Factorization with `norm` `"zeta"`; `alpha` is the largest entry of abs(W̃ − W) that results.

    Raises:
      ValueError: neither or both of `weight` and (`num_users`, `epsilon`) are given, one of them is
        not positive, or as in `gamma2`.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> f = factorization.zeta(np.tril(np.ones((8, 8))), num_users=4, epsilon=1.0)
      >>> print(round(float(f.upper), 2), round(float(f.alpha), 2))
      1.49 0.32

    References:
      Ghazi et al. (2023), Section 2 (ζ) and Lemma 10.
    """
    if {num_users is not None, epsilon is not None} != {weight is None}:
        raise ValueError(
            "zeta needs either weight or both num_users and epsilon, got "
            f"weight={weight}, num_users={num_users}, epsilon={epsilon}."
        )
    lead = check_matrix(matrix).shape[:-2]
    if weight is None:
        users = check_level("num_users", num_users, positive=True, lead=lead)
        weight = check_level("epsilon", epsilon, positive=True, lead=lead) * users**0.5
    weight = check_level("weight", weight, positive=True, lead=lead)
    return _approximate(matrix, weight, tol, max_steps, priced=True)


def _within(matrix, alpha, tol, max_steps, mean):
    """The factorization of a matrix within alpha; the exact one for alpha = 0."""
    level = check_level("alpha", alpha, lead=check_matrix(matrix).shape[:-2])
    if not is_traced(level) and level.ndim == 0 and level == 0:
        return (gamma_f if mean else gamma2)(matrix, tol=tol)
    return _approximate(matrix, level, tol, max_steps, mean=mean)


def _approximate(matrix, level, tol, max_steps, priced=False, mean=False):
    matrix = check_matrix(matrix)
    check_memory(8.0 * matrix.size * 24, "an approximate factorization")
    tol = check_level("tol", tol, lead=matrix.shape[:-2])
    check_int("max_steps", max_steps, low=1, high=2**31 - 1)
    exponents = extreme_exponents(matrix, level)
    matrix, bound = divided(matrix, 0.0 if priced else level, exponents)
    level = level if priced else bound
    how = {"priced": priced, "mean": mean}
    newton = system_order(*matrix.shape[-2:]) <= _LARGEST_SYSTEM and max_steps > _SPLITTING
    how_long = _SPLITTING if newton else max_steps

    def splitting(steps: int, *given):
        first, host = (functools.partial(f, max_steps=steps, **how) for f in (_splitting, _admm))
        return solve(first, *given, host=host, largest=_SMALL)

    last = functools.partial(_newton, max_steps=max_steps - _SPLITTING, **how)
    if newton and is_traced(matrix, level, tol):
        first = functools.partial(_splitting, max_steps=how_long, **how)
        both = solve(lambda *given: last(*given, first(*given)), matrix, level, tol)
        return scaled(both, exponents)
    found = splitting(how_long, matrix, level, tol)
    if newton:  # one by one: a step for a stack is no faster, and few of it need one
        found = jax.tree.map(np.array, found)  # to write into
        lead = matrix.shape[:-2]
        levels, tols = (np.broadcast_to(value, lead) for value in (level, tol))
        for i in map(tuple, np.argwhere(~found.converged)):
            one = jax.tree.map(lambda x, i=i: x[i], found)
            given = matrix[i], levels[i], tols[i]
            better = _unbiased(*given, one) if priced else one
            if not better.converged:
                better = evaluate(lambda *given, one=one: last(*given, one), *given)
            left = max_steps - int(better.num_steps)
            if not better.converged and left > _SPLITTING:
                # Rounding may end Newton's progress sooner than that of the splitting.
                other = splitting(left, *given)
                if other.gap < better.gap:
                    steps = better.num_steps + other.num_steps
                    better = dataclasses.replace(other, num_steps=steps)
            for whole, part in zip(jax.tree.leaves(found), jax.tree.leaves(better), strict=True):
                whole[i] = part
    return scaled(found, exponents)


def _unbiased(matrix, level, tol, found: Factorization) -> Factorization:
    """ζ without bias: γ2, where its witness proves that too."""
    exact = gamma2(matrix, tol=tol)
    if np.abs(exact.dual).sum() > level:
        return found
    names = ("left", "right", "dual", "row_weights", "col_weights", "lower", "upper", "gap")
    same = {name: getattr(exact, name) for name in (*names, "converged")}
    steps = found.num_steps + exact.num_steps
    return dataclasses.replace(found, **same, alpha=np.zeros(()), num_steps=steps)


def _relative_size(error, reference):
    xp = namespace(error)
    size = xp.linalg.norm(reference)
    return xp.linalg.norm(error) / xp.where(size > 0, size, 1.0)


def _priced_radius(excess, costs, price):
    """The a ≥ 0 with Σ costs·max(excess − a, 0) = price, or 0 if even a = 0 leaves less than that.

    The sum is convex and decreasing in a, so Newton's method from 0 rises to the root
    monotonically.
    """
    xp = namespace(excess)

    def body(state):
        radius, _, i = state
        over = excess > radius
        surplus = xp.sum(xp.where(over, costs * (excess - radius), 0.0)) - price
        slope = xp.sum(xp.where(over, costs, 0.0))
        change = xp.where((surplus > 0) & (slope > 0), surplus / xp.where(slope > 0, slope, 1), 0)
        return radius + change, change, i + 1

    radius, _, _ = while_loop(
        lambda state: (state[1] > 1e-15 * state[0]) & (state[2] < 60),
        body,
        (xp.zeros(()), xp.ones(()), xp.int32(0)),
    )
    return radius


def _adapt(pace: _Pace, row_ratio, col_ratio, gap, step):
    """The next pace, whether the gap has stalled, and the factors by which the weights change."""
    xp = namespace(row_ratio)
    ratios = xp.concatenate([row_ratio, col_ratio])
    logs = xp.log(xp.maximum(ratios, xp.finfo(ratios.dtype).tiny))
    due = step % _CHECK_EVERY == _CHECK_EVERY - 1
    stalled = due & (gap > _STALLED * pace.checked_gap) & (pace.limit > _LEAST_LIMIT)
    limit = xp.where(stalled, xp.maximum(pace.limit / 2, _LEAST_LIMIT), pace.limit)
    agreement = xp.sign(logs) * xp.sign(pace.logs)
    powers = pace.powers * xp.where(agreement > 0, _FASTER, 1.0)
    powers = powers * xp.where(agreement < 0, _SLOWER, 1.0)
    powers = xp.clip(powers, xp.minimum(_POWERS[0], limit), limit)
    largest = math.log(_LARGEST_FACTOR)
    change = xp.exp(xp.clip(powers * logs, -largest, largest))
    checked_gap = xp.where(due, gap, pace.checked_gap)
    return _Pace(logs, powers, limit, checked_gap), stalled, change


def _admm(matrix, level, tol, *, max_steps, priced, mean):
    xp = namespace(matrix)
    num_rows, num_cols = matrix.shape
    scale = xp.max(xp.abs(matrix))
    scale = xp.where(scale > 0, scale, 1.0)
    matrix = matrix / scale
    if not priced:
        level = level / scale

    def nearest(target, metric, rho):
        """The proximal map of the function of W̃ − W, at `target`."""
        if not priced:
            return xp.clip(target, matrix - level, matrix + level)
        error = target - matrix
        radius = _priced_radius(xp.abs(error), metric**2, level / rho)
        return matrix + xp.clip(error, -radius, radius)

    def lower_bound(dual):
        """The value of a dual point with γ2*(U) ≤ 1, and the point scaled to be feasible."""
        mass = xp.sum(xp.abs(dual))
        if priced:
            dual = dual * xp.minimum(1.0, level / xp.where(mass > 0, mass, 1.0))
            return xp.sum(matrix * dual), dual
        return xp.sum(matrix * dual) - level * mass, dual

    def price(target):
        return level * xp.max(xp.abs(target - matrix)) if priced else 0.0

    def unfinished(state):
        return (relative_gap(state.lower, state.upper) > tol) & (state.step < max_steps)

    def advance(state):
        rows, cols = state.rows, state.cols
        metric = xp.sqrt(rows)[:, None] * xp.sqrt(cols)[None, :]
        left, values, right = decompose(state.target - state.multiplier, rows, cols)
        clipped = xp.minimum(values * state.rho, 1.0)
        smooth = ((left * (values - clipped / state.rho)[None, :]) @ right.T) / metric
        value, dual = lower_bound(metric * ((left * clipped[None, :]) @ right.T))
        better = value > state.lower
        lower = xp.where(better, value, state.lower)
        best_dual = jax.tree.map(
            lambda new, old: xp.where(better, new, old), (dual, rows, cols), state.dual
        )
        target = nearest(smooth + state.multiplier, metric, state.rho)
        multiplier = state.multiplier + smooth - target

        left, values, right = decompose(target, rows, cols)
        total = xp.maximum(xp.sum(values), xp.finfo(matrix.dtype).tiny)
        row_ratio = (left**2) @ values / (rows * total)
        col_ratio = (right**2) @ values / (cols * total)
        worst_row = 1.0 if mean else xp.max(row_ratio)  # the mean of the ratios is 1
        value = xp.sum(values) * xp.sqrt(worst_row * xp.max(col_ratio)) + price(target)
        better = value < state.upper
        upper = xp.where(better, value, state.upper)
        best_primal = jax.tree.map(
            lambda new, old: xp.where(better, new, old), (target, rows, cols), state.primal
        )

        # Balance the relative residuals of the splitting; the unscaled multiplier,
        # rho·metric²·multiplier, stays as it is.
        primal_error = _relative_size(metric * (smooth - target), metric * target)
        dual_error = _relative_size(metric * (target - state.target), metric * multiplier)
        factor = xp.where(primal_error > _IMBALANCE * dual_error, _CORRECTION, 1.0)
        factor = xp.where(dual_error > _IMBALANCE * primal_error, 1.0 / _CORRECTION, factor)
        due = (state.step % _BALANCE_EVERY == _BALANCE_EVERY - 1) & (state.step < _BALANCE_UNTIL)
        factor = xp.where(due, factor, 1.0)
        gap = relative_gap(lower, upper)
        pace, stalled, change = _adapt(state.pace, row_ratio, col_ratio, gap, state.step)
        factor = xp.where(stalled, 2.0 * factor, factor)
        new_rows = rows if mean else xp.maximum(rows * change[:num_rows], _FLOOR)
        new_cols = xp.maximum(cols * change[num_rows:], _FLOOR)
        new_rows, new_cols = new_rows / xp.sum(new_rows), new_cols / xp.sum(new_cols)
        multiplier = multiplier * (rows / new_rows)[:, None] * (cols / new_cols)[None, :] / factor
        return _State(
            target,
            multiplier,
            state.rho * factor,
            new_rows,
            new_cols,
            lower,
            best_dual,
            upper,
            best_primal,
            pace,
            state.step + 1,
        )

    rows, cols = xp.full(num_rows, 1.0 / num_rows), xp.full(num_cols, 1.0 / num_cols)
    zero = xp.zeros_like(matrix)
    # The best constant matrix is a first answer, and in a coarse approximation the last one.
    low, high = xp.min(matrix), xp.max(matrix)
    if priced:
        constant, fits = xp.where(level > 1, (low + high) / 2, 0.0), True
    else:
        constant, fits = xp.clip(0.0, high - level, low + level), high - low <= 2 * level
    target = xp.full_like(matrix, constant)
    upper = xp.where(fits, xp.abs(constant) + price(target), xp.inf)
    values = svd(matrix / xp.sqrt(num_rows * num_cols))[1]
    # The largest entry alone is a witness, and the best one more often than one would think.
    one_row, one_col = locate(xp.abs(matrix))
    lower, dual = lower_bound(xp.sign(one_row @ matrix @ one_col) * xp.outer(one_row, one_col))
    if mean:  # its row weights are not uniform
        lower = xp.zeros(())
    start = _State(
        target=matrix,
        multiplier=zero,
        rho=1.0 / xp.maximum(xp.mean(values), xp.finfo(matrix.dtype).tiny),
        rows=rows,
        cols=cols,
        lower=xp.maximum(lower, 0.0),
        dual=jax.tree.map(
            lambda new, old: xp.where(lower > 0, new, old),
            (dual, one_row, one_col),
            (zero, rows, cols),
        ),
        upper=upper,
        primal=(target, rows, cols),
        pace=_Pace(
            logs=xp.zeros(num_rows + num_cols),
            powers=xp.full(num_rows + num_cols, _POWER),
            limit=xp.asarray(_POWERS[1]),
            checked_gap=xp.asarray(xp.inf),
        ),
        step=xp.int32(0),
    )
    state = while_loop(unfinished, advance, start)

    target, rows, cols = state.primal
    spectrum = decompose(target, rows, cols)
    left, right = read_factors(scale * target, rows, cols, spectrum, scale)
    left, right, upper = balance(left, right, mean=mean)
    dual, dual_rows, dual_cols = state.dual
    alpha = scale * (xp.max(xp.abs(target - matrix)) if priced else level)
    upper += level * alpha if priced else 0.0
    lower = xp.minimum(scale * state.lower, upper)
    gap = relative_gap(lower, upper)
    fit = misfit(scale * matrix, left, right, alpha)
    return Factorization(
        left=left,
        right=right,
        upper=upper,
        lower=lower,
        gap=gap,
        converged=(gap <= tol) & (fit <= MISFIT),
        num_steps=state.step,
        dual=dual,
        row_weights=dual_rows,
        col_weights=dual_cols,
        alpha=alpha,
        weight=level if priced else xp.zeros(()),
        norm="zeta" if priced else "gamma_f" if mean else "gamma2",
    )


_splitting = jax.jit(_admm, static_argnames=("priced", "mean"))


@functools.partial(jax.jit, static_argnames=("priced", "mean"))
def _newton(matrix, level, tol, found: Factorization, *, max_steps, priced, mean):
    """The better of both bounds of a factorization and of those by Newton's method."""
    scale = jnp.max(jnp.abs(matrix))
    scale = jnp.where(scale > 0, scale, 1.0)
    level = level if priced else level / scale
    program = Program(matrix / scale, level, priced, mean)
    point, steps = refine(program, tol, jnp.where(found.gap > tol, max_steps, 0))
    num_rows = len(matrix)
    rows, cols = (w / jnp.sum(w) for w in jnp.split(point.weights, [num_rows]))
    error = jnp.clip(program.error(point), -point.radius, point.radius)
    target = matrix + scale * error
    grams = scale * point.gram[:num_rows, :num_rows], scale * point.gram[num_rows:, num_rows:]
    gram, weights = (grams[0], rows) if num_rows < len(cols) else (grams[1], cols)
    triangle = cholesky(gram).T * jnp.sqrt(weights)[None, :]
    left, right = factors_of(target, triangle, rows, cols)
    left, right, upper = balance(left, right, mean=mean)
    alpha = scale * (jnp.max(jnp.abs(error)) if priced else level)
    upper += level * alpha if priced else 0.0
    better = (upper < found.upper) & (misfit(matrix, left, right, alpha) <= MISFIT)
    primal = dict(left=left, right=right, upper=upper, alpha=alpha)
    primal = {name: jnp.where(better, x, getattr(found, name)) for name, x in primal.items()}

    dual, lower = program.witness(point)
    lower *= scale
    better = lower > found.lower
    proof = dict(dual=dual, row_weights=rows, col_weights=cols, lower=lower)
    proof = {name: jnp.where(better, x, getattr(found, name)) for name, x in proof.items()}
    proof["lower"] = jnp.minimum(proof["lower"], primal["upper"])
    gap = relative_gap(proof["lower"], primal["upper"])
    fits = misfit(matrix, primal["left"], primal["right"], primal["alpha"]) <= MISFIT
    return dataclasses.replace(
        found,
        **primal,
        **proof,
        gap=gap,
        converged=(gap <= tol) & fits,
        num_steps=found.num_steps + steps,
    )
