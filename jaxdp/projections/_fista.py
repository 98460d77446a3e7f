"""Accelerated proximal gradients for least squares over weights, for many targets at once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._x64 import dot
from ._simplex import soft_threshold, threshold

_GROWTH = 2.0  # of the curvature, where a step was too long
_DECAY = 0.95  # of the curvature, a step


class _Point(NamedTuple):
    """Weights w with residual A w − y and correlations Aᵀ(A w − y), all affine in w."""

    weights: jax.Array
    residual: jax.Array
    correlation: jax.Array


class _State(NamedTuple):
    here: _Point
    ahead: _Point
    momentum: jax.Array
    curvature: jax.Array
    level: jax.Array
    gap: jax.Array
    num_steps: jax.Array
    step: jax.Array


def fista(y, a, weights, enough, max_steps, symmetric):
    """Minimises ‖A w − y‖² over the simplex or, if `symmetric`, the unit L1 ball.

    Args:
      y: float[n, d].
      a: float[d, k].
      weights: float[n, k], feasible, where to start.
      enough: float[n], the gaps to reach.
      max_steps: upper limit on the number of steps.
      symmetric: which of the sets.

    Returns:
      Weights float[n, k], gaps float[n], numbers of steps int32[n].
    """
    one = jnp.ones(y.shape[0], a.dtype)
    squares = jnp.sum(a**2, axis=0)
    tiny = jnp.finfo(a.dtype).tiny
    # The largest eigenvalue of AᵀA lies between the largest squared column norm and their sum.
    lowest, highest = jnp.maximum(jnp.max(squares), tiny), jnp.maximum(jnp.sum(squares), tiny)
    # What rounding adds to the length of A(w − v).
    slack = 8 * jnp.finfo(a.dtype).eps * jnp.sqrt(lowest)

    def evaluate(weights):
        residual = dot(weights, a.T) - y
        return _Point(weights, residual, dot(residual, a))

    def descend(ahead, curvature, level):
        target = ahead.weights - ahead.correlation / curvature[:, None]
        if not symmetric:
            high, low = threshold(target, one, level)
            return soft_threshold(target, high, low), high
        magnitude = jnp.abs(target)
        high, low = threshold(magnitude, one, level)
        shrunk = jnp.sign(target) * soft_threshold(magnitude, high, low)
        inside = jnp.sum(magnitude, axis=1) <= 1.0
        return jnp.where(inside[:, None], target, shrunk), high

    def attempt(state):
        here, ahead, active = state.here, state.ahead, state.gap > enough
        weights, level = descend(ahead, state.curvature, state.level)
        new = evaluate(weights)
        move = weights - ahead.weights
        # ‖A(w − v)‖² <= L·‖w − v‖² for the w and v of this step is all that its proof asks of L.
        rise = jnp.linalg.norm(new.residual - ahead.residual, axis=1) - slack
        short = rise <= jnp.sqrt(state.curvature) * jnp.linalg.norm(move, axis=1)
        accept = active & (short | (state.curvature >= highest))

        # Restart (O'Donoghue, Candès): the gradient step points against the last move.
        uphill = jnp.sum((here.weights - weights) * move, axis=1) > 0
        momentum = jnp.where(uphill, 1.0, state.momentum)
        following = 0.5 + jnp.sqrt(0.25 + momentum**2)
        beta = jnp.where(uphill, 0.0, (momentum - 1.0) / following)
        # Residual and correlation are affine in w: the point ahead needs no products of its own.
        beyond = _Point(*(n + beta[:, None] * (n - h) for n, h in zip(new, here, strict=True)))

        def update(new, old):
            return jnp.where(accept.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        steeper = jnp.minimum(_GROWTH * state.curvature, highest)
        flatter = _DECAY * state.curvature
        return _State(
            jax.tree.map(update, new, here),
            jax.tree.map(update, beyond, ahead),
            update(following, state.momentum),
            jnp.where(accept, flatter, jnp.where(active, steeper, state.curvature)),
            jnp.where(active, level, state.level),
            update(duality_gap(new.weights, new.correlation, symmetric), state.gap),
            state.num_steps + active.astype(jnp.int32),
            state.step + 1,
        )

    def unfinished(state):
        return jnp.any(state.gap > enough) & (state.step < max_steps)

    start = evaluate(weights)
    state = _State(
        here=start,
        ahead=start,
        momentum=one,
        curvature=lowest * one,
        level=0.0 * one,
        gap=duality_gap(start.weights, start.correlation, symmetric),
        num_steps=jnp.zeros(y.shape[0], jnp.int32),
        step=jnp.int32(0),
    )
    state = jax.lax.while_loop(unfinished, attempt, state)
    return state.here.weights, state.gap, state.num_steps


def duality_gap(weights, correlation, symmetric):
    """⟨r, A w⟩ minus the least of ⟨r, ·⟩ over the polytope, as a sum of non-negative terms.

    Args:
      weights: float[n, k], feasible.
      correlation: float[n, k], Aᵀr with r = A w − y.
      symmetric: whether the polytope is A·B₁ rather than A·Simplex.
    """
    if not symmetric:
        return jnp.sum(weights * (correlation - jnp.min(correlation, axis=1)[:, None]), axis=1)
    largest = jnp.max(jnp.abs(correlation), axis=1)
    used = jnp.sum(jnp.abs(weights), axis=1)
    lost = jnp.sum(jnp.abs(weights) * largest[:, None] + weights * correlation, axis=1)
    return lost + jnp.maximum(1.0 - used, 0.0) * largest
