"""Away-step Frank–Wolfe for least squares over weights, for many targets at once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .._x64 import dot
from ._fista import duality_gap


class _State(NamedTuple):
    weights: jax.Array
    residual: jax.Array
    correlation: jax.Array
    gap: jax.Array
    num_steps: jax.Array
    step: jax.Array


def frank_wolfe(y, a, weights, enough, max_steps, symmetric):
    """Minimises ‖A w − y‖² over the simplex or, if `symmetric`, the unit L1 ball.

    Each step goes towards the vertex of least ⟨r, a_j⟩ or away from the vertex in use with the
    largest, whichever is steeper, to the minimum of the objective on that line, or as far as the
    weights stay non-negative. A·B₁ is the hull of [A, −A].

    Args and returns are those of `fista`.
    """
    k = a.shape[1]
    if symmetric:
        a = jnp.concatenate([a, -a], axis=1)
        # What is left of the unit of weight goes to both signs of all columns alike, and cancels.
        spare = 0.5 * (1.0 - jnp.sum(jnp.abs(weights), axis=1)) / k
        parts = [jnp.maximum(weights, 0.0), jnp.maximum(-weights, 0.0)]
        weights = jnp.concatenate(parts, axis=1) + jnp.maximum(spare, 0.0)[:, None]
    rows = jnp.arange(y.shape[0])
    tiny = jnp.finfo(a.dtype).tiny

    def evaluate(weights):
        residual = dot(weights, a.T) - y
        return residual, dot(residual, a)

    def step(state):
        weights, correlation = state.weights, state.correlation
        value = jnp.sum(weights * correlation, axis=1)
        best = jnp.argmin(correlation, axis=1)
        worst = jnp.argmax(jnp.where(weights > 0, correlation, -jnp.inf), axis=1)
        ahead = value - correlation[rows, best]
        behind = correlation[rows, worst] - value
        away = behind > ahead
        share = weights[rows, worst]
        vertex, sign = jnp.where(away, worst, best), jnp.where(away, -1.0, 1.0)
        point = state.residual + y
        direction = sign[:, None] * (a.T[vertex] - point)
        # An away step may go on until the worst vertex has no weight left.
        longest = jnp.where(away, share / jnp.maximum(1.0 - share, tiny), 1.0)
        slope = jnp.maximum(ahead, behind)
        length = jnp.minimum(slope / jnp.maximum(jnp.sum(direction**2, axis=1), tiny), longest)
        signed = (sign * length)[:, None]
        moved = weights * (1.0 - signed)
        moved = moved.at[rows, vertex].add(signed[:, 0], unique_indices=True)
        # Exactly 0: with a rounding error for a weight the vertex would count as in use.
        dropped = away & (length >= longest)
        moved = moved.at[rows, worst].set(jnp.where(dropped, 0.0, moved[rows, worst]))
        moved = jnp.maximum(moved, 0.0)
        # The sum would drift away from 1 over thousands of steps.
        moved = moved / jnp.sum(moved, axis=1)[:, None]
        residual, following = evaluate(moved)
        active = state.gap > enough

        def update(new, old):
            return jnp.where(active.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return _State(
            update(moved, weights),
            update(residual, state.residual),
            update(following, correlation),
            update(duality_gap(moved, following, False), state.gap),
            state.num_steps + active.astype(jnp.int32),
            state.step + 1,
        )

    def unfinished(state):
        return jnp.any(state.gap > enough) & (state.step < max_steps)

    residual, correlation = evaluate(weights)
    gap = duality_gap(weights, correlation, False)
    counts = jnp.zeros(y.shape[0], jnp.int32)
    state = _State(weights, residual, correlation, gap, counts, jnp.int32(0))
    state = jax.lax.while_loop(unfinished, step, state)
    weights = state.weights
    if symmetric:
        weights = weights[:, :k] - weights[:, k:]
    return weights, state.gap, state.num_steps
