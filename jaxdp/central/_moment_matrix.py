"""The projection on moments with a positive semidefinite matrix, by ADMM, with a certificate."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

_RELAXATION = 1.6  # over-relaxation
_CHECK = 20  # steps between two certificates
_BALANCED = 5.0  # the ratio of the two residuals that the penalty keeps
_TUNED = 400  # steps in which the penalty may still change


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MomentProblem:
    """A set of moments y_U, |U| <= 2 r, as index tables.

    It is the set of y in the box with y_0 = 1, `M(y)_ST = y[pairs]_ST` positive semidefinite, and
    `y[groups] @ (t, -1, ..., -1) >= 0` for every row of `groups`.

    Attributes:
      pairs: int32[D, D].
      groups: int32[G, 1 + n]; G may be 0.
      sparsity: float64[], t.
      low, high: float64[N], the box.
      center: float64[N], a point of the set with M(center) positive definite and positive slacks.
      whitening: float64[D, D], with whitening M(center) whitening^T = I.
    """

    pairs: Any
    groups: Any
    sparsity: Any
    low: Any
    high: Any
    center: Any
    whitening: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MomentProjection:
    """A point of the set and how far it is from the projection.

    Attributes:
      point: float64[N], all moments of a point of the set.
      gap: float64[], `|point - projection|**2 <= gap` on the fitted moments.
      residual: float64[], how far the iterate was pulled to make it a point of the set.
      converged: bool[].
      num_steps: int32[].
    """

    point: Any
    gap: Any
    residual: Any
    converged: Any
    num_steps: Any


def project_moments(noisy, problem: MomentProblem, enough, max_steps) -> MomentProjection:
    """The point of the set whose first moments are nearest to given ones; inside x64 only.

    Minimises ½ sum (y_U - noisy_U)**2 over U = 1 ... m by the alternating direction method of
    multipliers: copies Z of M(y) and V of the groups are projected on their cones, and y follows
    coordinate by coordinate.

    Formal guarantees:
      * `point` is (1 - theta) y + theta center with the least theta that makes it a point of the
        set, by the eigenvalues of the whitened M(y): inside up to rounding.
      * The multipliers C >= 0 of M(y) and m >= 0 of the groups have the linear form
        q = M*(C) + sum m_U (...), and by weak duality no point of the set has less than the
        minimum over the box of ½ sum (y_U - noisy_U)**2 - <q, y>, for any multipliers. `gap` is
        twice the difference, written as a sum of products of numbers >= 0, and the objective is
        strongly convex, so `|point - projection|**2 <= gap`.

    Args:
      noisy: float64[m], for the moments of index 1 ... m.
      problem: the set.
      enough: stop at gap <= enough.
      max_steps: upper limit on the number of steps.
    """
    size, total = problem.pairs.shape[0], problem.center.shape[0]
    flat = problem.pairs.reshape(-1)
    grouped = problem.groups.reshape(-1)
    ones = jnp.ones
    counts = jax.ops.segment_sum(ones(flat.shape), flat, total)
    counts = counts + jax.ops.segment_sum(ones(grouped.shape), grouped, total)
    fitted = (jnp.arange(total) >= 1) & (jnp.arange(total) <= noisy.shape[0])
    weight = fitted.astype(noisy.dtype)
    target = jnp.zeros(total, noisy.dtype).at[1 : noisy.shape[0] + 1].set(noisy)
    width = problem.groups.shape[1]
    normal = jnp.concatenate([problem.sparsity[None], -jnp.ones(width - 1, noisy.dtype)])
    steep = jnp.sum(normal**2)

    def adjoint(matrix, copies):
        found = jax.ops.segment_sum(matrix.reshape(-1), flat, total)
        return found + jax.ops.segment_sum(copies.reshape(-1), grouped, total)

    def slack(y):
        return jnp.sum(y[problem.groups] * normal[None, :], axis=1)

    def certify(y, penalty, multiplier, shadow):
        """The feasible point near y and its gap; multipliers are -penalty times the duals."""
        inner = _product(_product(problem.whitening, y[problem.pairs]), problem.whitening.T)
        lowest = jnp.linalg.eigvalsh(0.5 * (inner + inner.T))[0]
        short = jnp.maximum(-lowest, 0.0)
        theta = short / (1.0 + short)
        here, there = slack(y), slack(problem.center)
        excess = jnp.maximum(-here, 0.0)
        theta = jnp.maximum(theta, jnp.max(excess / (excess + there), initial=0.0))
        point = (1 - theta) * y + theta * problem.center
        q = -penalty * adjoint(multiplier, shadow[:, None] * normal[None, :])
        best = jnp.clip(target + q, problem.low, problem.high)
        bent = 0.5 * (point - best) ** 2 + (best - target - q) * (point - best)
        linear = jnp.maximum(q * problem.low, q * problem.high) - q * point
        apart = jnp.where(fitted, bent, linear).at[0].set(0.0)
        complementary = -penalty * jnp.sum(multiplier * point[problem.pairs])
        complementary = complementary - penalty * jnp.sum(shadow * slack(point))
        gap = 2.0 * (jnp.sum(jnp.maximum(apart, 0.0)) + jnp.maximum(complementary, 0.0))
        return point, gap, theta

    def step(state):
        y, copy, multiplier, part, shadow, penalty, count = state
        lead = (copy - multiplier, part - shadow[:, None] * normal[None, :])
        moved = weight * target + penalty * adjoint(*lead)
        y = jnp.clip(moved / (weight + penalty * counts), problem.low, problem.high)
        matrix, rows = y[problem.pairs], y[problem.groups]
        relaxed = _RELAXATION * matrix + (1 - _RELAXATION) * copy
        values, vectors = jnp.linalg.eigh(relaxed + multiplier)
        kept = _product(vectors * jnp.maximum(values, 0.0)[None, :], vectors.T)
        dropped = _product(vectors * jnp.minimum(values, 0.0)[None, :], vectors.T)
        eased = _RELAXATION * rows + (1 - _RELAXATION) * part + shadow[:, None] * normal[None, :]
        low = jnp.minimum(jnp.sum(eased * normal[None, :], axis=1) / steep, 0.0)
        spread = eased - low[:, None] * normal[None, :]
        primal = jnp.sqrt(jnp.sum((matrix - kept) ** 2) + jnp.sum((rows - spread) ** 2))
        change = adjoint(kept - copy, spread - part)
        dual = penalty * jnp.sqrt(jnp.sum(change**2))
        size_primal = jnp.sqrt(jnp.sum(matrix**2))
        size_dual = penalty * jnp.sqrt(
            jnp.sum(adjoint(dropped, low[:, None] * normal[None, :]) ** 2)
        )
        ratio = (primal / size_primal) / jnp.maximum(dual / jnp.maximum(size_dual, 1e-30), 1e-30)
        return (y, kept, dropped, spread, low, penalty, count + 1), ratio

    def chunk(state):
        inner, best, gap, theta, count = state

        def body(_, carry):
            return step(carry[0])

        inner, ratio = lax.fori_loop(0, _CHECK, body, (inner, jnp.ones(())))
        y, copy, multiplier, part, shadow, penalty, count = inner
        point, found, pulled = certify(y, penalty, multiplier, shadow)
        better = found < gap
        best = jnp.where(better, point, best)
        theta = jnp.where(better, pulled, theta)
        scale = jnp.where(ratio > _BALANCED, 2.0, jnp.where(ratio < 1 / _BALANCED, 0.5, 1.0))
        scale = jnp.where(count <= _TUNED, scale, 1.0)
        inner = (y, copy, multiplier / scale, part, shadow / scale, penalty * scale, count)
        return inner, best, jnp.minimum(found, gap), theta, count

    def unfinished(state):
        return ~(state[2] <= enough) & (state[4] < max_steps)

    y = jnp.clip(jnp.where(fitted, target, problem.center), problem.low, problem.high)
    zeros = jnp.zeros((size, size), noisy.dtype)
    shadow = jnp.zeros(problem.groups.shape[0], noisy.dtype)
    inner = (
        y,
        y[problem.pairs],
        zeros,
        y[problem.groups],
        shadow,
        jnp.ones(()) * 0.1,
        jnp.int32(0),
    )
    state = (inner, problem.center, jnp.asarray(jnp.inf, noisy.dtype), jnp.ones(()), jnp.int32(0))
    _, best, gap, theta, count = lax.while_loop(unfinished, chunk, state)
    return MomentProjection(best, gap, theta, gap <= enough, count)


def _product(a, b):
    """The product of two matrices, also where it is batched later."""
    return lax.dot_general(a, b, (((1,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)
