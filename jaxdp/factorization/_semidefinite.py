"""Approximate norms to full precision, by a primal-dual interior-point method.

γ2(W; α) is the least t for which some X = [[A, W̃], [W̃ᵀ, B]] ⪰ 0 has all entries of its diagonal
equal to t and abs(W̃ − W) ≤ α. Its dual is to maximize ⟨W, U⟩ − α·Σ(over + under) over U = under −
over with entries over, under ≥ 0 and over weights p, q of total mass 1 for which
S = [[diag(p), −U/2], [−Uᵀ/2, diag(q)]] ⪰ 0. For ζ the radius α is a variable and Σ(over + under)
its price. For γ_F the weights p are uniform, and only the mean of A's diagonal counts.

Newton's method solves X·S = μ·I and multiplier · distance to the wall = μ, in the direction of
Helmberg, Rendl, Vanderbei and Wolkowicz (1996), with Mehrotra's corrector. Its system has the order
m·k + m + k: for small matrices only, and there 10 to 50 steps are enough where a splitting method
creeps.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._lapack import cholesky, solve, solve_by_cholesky
from ._dual import longest_step
from ._result import relative_gap

_TO_BOUNDARY = 0.95
_CENTERING = (1e-4, 0.5)  # least and largest
_CENTERING_POWER = 3  # of what a step without centering leaves


class Point(NamedTuple):
    """A primal and a dual point, or the change of one."""

    gram: jax.Array  # X, float[m + k, m + k]
    radius: jax.Array
    weights: jax.Array  # p and q, float[m + k]
    over: jax.Array  # float[m, k], the multiplier of W̃ ≤ W + radius
    under: jax.Array  # that of W̃ ≥ W − radius


class _State(NamedTuple):
    point: Point
    gap: jax.Array
    step: jax.Array
    sound: jax.Array


def system_order(num_rows: int, num_cols: int) -> int:
    """The order of the linear system of a step."""
    return num_rows * num_cols + num_rows + num_cols


def _symmetric(matrix):
    return (matrix + matrix.T) / 2


@dataclasses.dataclass(frozen=True)
class Program:
    """One of the programs.

    Attributes:
      matrix: float[m, k] with entries of order 1.
      level: α > 0, or if `priced` the price of the radius.
      priced: whether the norm is ζ.
      mean: whether the norm is γ_F.
    """

    matrix: Any
    level: Any
    priced: bool
    mean: bool

    @property
    def moving(self) -> slice:
        """The weights that are variables."""
        m, k = self.matrix.shape
        return slice(m if self.mean else 0, m + k)

    def error(self, point: Point):
        """W̃ − W, or the change of W̃."""
        m = len(self.matrix)
        return point.gram[:m, m:] - self.matrix

    def distances(self, point: Point):
        """From W̃ to the upper and to the lower wall of the box."""
        error = self.error(point)
        return point.radius - error, point.radius + error

    def slack(self, point: Point):
        """S of a point, or its change."""
        m, half = len(self.matrix), (point.under - point.over) / 2
        rows, cols = jnp.diag(point.weights[:m]), jnp.diag(point.weights[m:])
        return jnp.block([[rows, -half], [-half.T, cols]])

    def complementarity(self, point: Point):
        """The mean of the products that all have to vanish."""
        above, below = self.distances(point)
        walls = jnp.sum(point.over * above) + jnp.sum(point.under * below)
        number = len(point.gram) + 2 * self.matrix.size
        return (jnp.sum(point.gram * self.slack(point)) + walls) / number

    def witness(self, point: Point):
        """U with γ2*(U) ≤ 1, and Σ abs(U) ≤ level if `priced`; the bound that it proves."""
        m, dual = len(self.matrix), point.under - point.over
        mass = jnp.sum(jnp.abs(dual))
        size = 2.0 * jnp.sqrt(jnp.sum(point.weights[:m]) * jnp.sum(point.weights[m:]))
        dual = dual / (jnp.maximum(size, mass / self.level) if self.priced else size)
        bias = 0.0 if self.priced else self.level * jnp.sum(jnp.abs(dual))
        return dual, jnp.sum(self.matrix * dual) - bias

    def attained(self, point: Point):
        """The value of the primal point."""
        left, right = jnp.split(jnp.diagonal(point.gram), [len(self.matrix)])
        left = jnp.mean(left) if self.mean else jnp.max(left)
        bias = self.level * point.radius if self.priced else 0.0
        return jnp.sqrt(left * jnp.max(right)) + bias

    def start(self) -> Point:
        """W in the middle of the box, large multiples of 1 around it, and U = 0."""
        m, k = self.matrix.shape
        sizes = jnp.abs(self.matrix)
        bound = 1.1 * jnp.sqrt(jnp.max(jnp.sum(sizes, axis=0)) * jnp.max(jnp.sum(sizes, axis=1)))
        gram = bound * jnp.eye(m + k)
        gram = gram.at[:m, m:].set(self.matrix).at[m:, :m].set(self.matrix.T)
        shares = (0.5 / m, 0.5 / k) if self.mean else (1 / (m + k),) * 2
        weights = jnp.concatenate([jnp.full(m, shares[0]), jnp.full(k, shares[1])])
        multiplier = jnp.full_like(self.matrix, 0.5 / self.matrix.size)
        if self.priced:
            multiplier *= self.level
        radius = jnp.max(sizes) if self.priced else self.level
        return Point(gram, jnp.asarray(radius), weights, multiplier, multiplier)

    def levelled(self, point: Point) -> Point:
        """The point with exactly equal entries on the diagonal of X, from which rounding moves."""
        squares = jnp.diagonal(point.gram)
        factors = jnp.sqrt(jnp.mean(squares[self.moving]) / squares)
        if self.mean:
            factors = factors.at[: len(self.matrix)].set(1.0)
        return point._replace(gram=point.gram * factors[:, None] * factors[None, :])


def refine(program: Program, tol, max_steps) -> tuple[Point, jax.Array]:
    """Solves a program to a relative gap of `tol`; rounding may end the progress at 1e-8 to 1e-5.

    Returns:
      (Point, number of steps).
    """

    def gap(point):
        return relative_gap(program.witness(point)[1], program.attained(point))

    def unfinished(state):
        return (state.gap > tol) & (state.step < max_steps) & state.sound

    def step(state):
        point = program.levelled(_step(program, state.point))
        sound = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in point]))
        point = jax.tree.map(lambda new, old: jnp.where(sound, new, old), point, state.point)
        return _State(point, gap(point), state.step + 1, sound)

    start = program.start()
    state = _State(start, gap(start), jnp.int32(0), jnp.bool_(True))
    state = jax.lax.while_loop(unfinished, step, state)
    return state.point, state.step


def _step(program: Program, point: Point) -> Point:
    """The next point: a step without centering says how much of it the real one needs."""
    gram, over, under = point.gram, point.over, point.under
    (num_rows, _), size = program.matrix.shape, len(gram)
    moving = program.moving
    num_moving = size - moving.start
    slack = program.slack(point)
    inverse = _symmetric(solve_by_cholesky(cholesky(slack), jnp.eye(size)))
    above, below = program.distances(point)
    # The box gives dU = given − stiffness·dW̃ − lean·d(radius).
    first, second = over / above, under / below
    stiffness, lean = first + second, second - first
    factor = cholesky(_system(program, gram, inverse, 1.0 / stiffness))

    # Two unknowns more: what all entries of X's diagonal change by, and the radius.
    order = num_moving + program.matrix.size
    border = [jnp.zeros(order).at[:num_moving].set(1.0)]
    corner = [jnp.zeros(())]
    if program.priced:
        border.append(jnp.zeros(order).at[num_moving:].set((lean / stiffness).ravel()))
        corner.append(jnp.sum(4.0 * first * second / stiffness))
    border = jnp.stack(border, axis=1)
    solved_border = solve_by_cholesky(factor, border)
    middle = border.T @ solved_border + jnp.diag(jnp.stack(corner))

    def direction(target, bends) -> Point:
        """The change after which all products are `target`, but for the second order in `bends`."""
        wanted = target * inverse - gram - bends[0]
        push_over = target - over * above - bends[1]
        push_under = target - under * below - bends[2]
        given = push_under / below - push_over / above
        weights_side = jnp.diagonal(wanted)[moving]
        dual_side = given / stiffness - wanted[:num_rows, num_rows:]
        mass = 0.5 if program.mean else 1.0
        sides = [mass - jnp.sum(point.weights[moving])]
        if program.priced:
            pushes = lean * given / stiffness - push_over / above - push_under / below
            sides.append(jnp.sum(pushes) + program.level - jnp.sum(over + under))
        solved = solve_by_cholesky(factor, jnp.concatenate([weights_side, dual_side.ravel()]))
        lifts = solve(middle, border.T @ solved - jnp.stack(sides))
        solved = solved - solved_border @ lifts
        weights = jnp.zeros(size).at[moving].set(solved[:num_moving])
        dual = solved[num_moving:].reshape(program.matrix.shape)
        radius = lifts[1] if program.priced else jnp.zeros(())
        # Large numbers cancel in W̃'s part of the change of X; the box says what is left of them.
        error = (given - dual - lean * radius) / stiffness
        d_over = (push_over - over * (radius - error)) / above
        d_under = (push_under - under * (radius + error)) / below
        change = Point(gram, radius, weights, d_over, d_under)
        d_gram = wanted - _symmetric(gram @ program.slack(change) @ inverse)
        d_gram = d_gram.at[:num_rows, num_rows:].set(error).at[num_rows:, :num_rows].set(error.T)
        return change._replace(gram=d_gram)

    def second_order(change: Point):
        """What the products of changes add to the products."""
        error = change.gram[:num_rows, num_rows:]
        return (
            _symmetric(change.gram @ program.slack(change) @ inverse),
            change.over * (change.radius - error),
            change.under * (change.radius + error),
        )

    def moved(change: Point) -> Point:
        """As far in this direction as the cones allow, the primal and the dual point by itself."""
        error = change.gram[:num_rows, num_rows:]
        walls = jnp.maximum((error - change.radius) / above, (-error - change.radius) / below)
        primal = jnp.minimum(longest_step(gram, change.gram), _until(jnp.max(walls)))
        walls = jnp.maximum(-change.over / over, -change.under / under)
        dual = jnp.minimum(longest_step(slack, program.slack(change)), _until(jnp.max(walls)))
        lengths = Point(primal, primal, dual, dual, dual)
        return jax.tree.map(lambda x, length, dx: x + length * dx, point, lengths, change)

    affine = direction(0.0, (jnp.zeros_like(gram), jnp.zeros_like(over), jnp.zeros_like(over)))
    now = program.complementarity(point)
    left = program.complementarity(moved(affine)) / now
    target = now * jnp.clip(left**_CENTERING_POWER, *_CENTERING)
    return moved(direction(target, second_order(affine)))


def _until(steepest):
    """The longest step, at most 1, that leaves a part of the way to the nearest wall."""
    return jnp.minimum(1.0, _TO_BOUNDARY / jnp.maximum(steepest, 1e-30))


def _system(program: Program, gram, inverse, flexibility):
    """⟨P, X·Q·S⁻¹⟩ for all directions P and Q of S, and for those of U what the box adds."""
    m, k = program.matrix.shape
    moving = program.moving
    x11, x12, x22 = gram[:m, :m], gram[:m, m:], gram[m:, m:]
    s11, s12, s22 = inverse[:m, :m], inverse[:m, m:], inverse[m:, m:]
    dual = (
        jnp.einsum("ik,lj->ijkl", x11, s22)
        + jnp.einsum("il,kj->ijkl", x12, s12)
        + jnp.einsum("kj,il->ijkl", x12, s12)
        + jnp.einsum("jl,ik->ijkl", x22, s11)
    ) / 4
    dual = dual.reshape(m * k, m * k) + jnp.diag(flexibility.ravel())
    rows = jnp.einsum("ik,il->ikl", x11, s12) + jnp.einsum("il,ik->ikl", x12, s11)
    cols = jnp.einsum("kj,lj->jkl", x12, s22) + jnp.einsum("lj,kj->jkl", x22, s12)
    mixed = jnp.concatenate([rows, cols]).reshape(m + k, m * k)[moving] / -2
    weights = (gram * inverse)[moving, moving]
    return jnp.block([[weights, mixed], [mixed.T, dual]])
