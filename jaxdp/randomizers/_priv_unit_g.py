"""PrivUnitG: a Gaussian vector from a half-space towards your vector, or from its complement."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Float32, UInt32

from .._contract import TallyLaw, Tree, Words, Work, field, params, spec, static
from .._x64 import compiled_in_float64
from ..random import Count, standard_normal, user_words
from ..random._gamma import gamma, normal
from ..random._normal import truncated_normal
from ._cap import embed, report
from ._mean import Tail
from ._sphere import Solution, solve
from ._vector import (
    DIM,
    EPSILON,
    GRID,
    RADIUS,
    FloatVectorRound,
    PaddedCapRandomizer,
    require_words,
)
from ._vector_sums import sum_of_caps, sum_parts

_REACH = 16  # no entry is larger: a tail of 1e-57


@spec
class PrivUnitG(PaddedCapRandomizer):
    """PrivUnit with a Gaussian law for the sphere: no rejection, parameters free of the dimension.

    A vector x of the ball of radius r in R^d becomes the unit vector
    `u = (x, sqrt(r**2 - |x|**2)) / r` of R^(d + 1). The report V is a standard normal vector, given
    `<V, u> >= gamma` with probability p, and given the opposite otherwise. It stands for
    `(r / m) V`, without its last coordinate. The estimate is the mean.

    With `q = Pr[X >= gamma]` and `h = phi(gamma)` for a standard normal X, p and m are as in
    `PrivUnit`, and so is the optimum `m = gamma`, where the noise is the same in all directions. p
    is realised as a multiple of 2**-32, and gamma is the optimum of the realised epsilon.

    Private in real arithmetic; not for release, since reports are computed in floats. The release
    form is `CandidateResponse`.

    Formal guarantees:
      * Privacy: pure epsilon-LDP in real arithmetic: the density relative to the standard normal
        law takes two values, of ratio `p (1 - q) / (q (1 - p)) <= e**epsilon`; `exact_epsilon()` is
        what is realised, with p exact and q in float64, rounded up.
      * Bias: none.
      * Covariance of a report's vector, exact and the same for every x in the ball:
        `sigma**2 I` with `sigma = r / gamma`.

    Edge cases:
      =======================  =================================================================
      zero vector              as any other: u is the last axis
      norm above the radius    ValueError from specs and populations; params project to the ball
      NaN in a vector          ValueError from specs and populations; the zero vector in params
      entry above 1e15 radius  clipped to that by the params, before the projection
      =======================  =================================================================

    Args:
      dim: d, the dimension; 1 to 2**20.
      epsilon: privacy parameter, in [1e-4, 30].
      radius: r > 0, rounded to float32.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import PrivUnitG
      >>> unit = PrivUnitG(dim=64, epsilon=1.0)
      >>> round(unit.threshold, 6)
      0.397463
      >>> round(unit.worst_case_variance(num_users=1), 5)
      6.33004

    References:
      Asi, Feldman, Talwar (2022), Optimal algorithms for mean estimation under local differential
      privacy. The condition m = gamma, the isotropy and the last coordinate are derived here.
    """

    dim: int = field(DIM)
    epsilon: float = field(EPSILON)
    radius: float = field(RADIUS, default=1.0)

    def _solution(self) -> Solution:
        return solve(None, self.epsilon)

    def _cap_dim(self) -> None:
        return None

    def build(self, word_bits: int = 32) -> "PrivUnitGParams":
        """The params."""
        require_words(word_bits)
        solution = self._solution()
        return PrivUnitGParams(
            np.asarray(solution.threshold, np.uint32),
            np.asarray(solution.cap.mass, np.float32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.radius / (solution.cap.gamma * GRID)),
            self.dim,
        )

    def second_moments(self) -> tuple[float, float]:
        """(1 + s, s) with s = sigma**2 for the unit ball."""
        across = 1 / self.threshold**2
        return 1 + across, across

    def tail(self) -> Tail:
        """Sub-Gaussian: a normal across the input, and `_proxy_variance` along it."""
        p, q = self.probabilities()
        square = (self.radius / self.threshold) ** 2
        return Tail(square * _proxy_variance(self.threshold, p, q), 0.0)


@functools.lru_cache(maxsize=256)
def _proxy_variance(threshold: float, p: float, q: float) -> float:
    """The least s with `log E exp(t (a - E a)) <= s t**2 / 2` for the coordinate a along u.

    a is standard normal given a >= gamma with probability p, and given the opposite otherwise:
    `E exp(t a) = exp(t**2 / 2) G(t)`, `G(t) = (p / q) Q(gamma - t) + (1-p) / (1-q) Q(t - gamma)`
    with Q the normal tail. As `E a = gamma`, `log G(t) - gamma t` is concave and at most 0 for
    t > 0, and convex and at most `gamma |t|` for t < 0: s is a little more than 1, attained for
    some t in (-40, 0).
    """
    t = -np.geomspace(1e-2, 40.0, 4000)
    tails = np.array([math.erfc((threshold - x) / math.sqrt(2)) / 2 for x in t])
    grown = np.log((p / q) * tails + (1 - p) / (1 - q) * (1 - tails)) - threshold * t
    return 1 + 1e-4 + max(0.0, float(np.max(2 * grown / t**2)))


@params
class PrivUnitGParams(FloatVectorRound):
    """The params of `PrivUnitG`: a pytree.

    Attributes:
      threshold: uint32[], p * 2**32.
      tail: float32[], q.
      radius: float32[], of the ball.
      unit: float64[], radius / gamma over the grid, what 1 in a report stands for.
      dim: d, static.
    """

    threshold: UInt32[Array | np.ndarray, ""]
    tail: Float32[Array | np.ndarray, ""]
    radius: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    dim: int = static()

    @property
    def vector_words(self) -> int:
        """One for the side of the half-space, one for the coordinate along u, d for the others."""
        return 2 + self.dim

    @property
    def grid(self) -> int:
        """Steps of the grid for a standard deviation."""
        return GRID

    @property
    def largest_report(self) -> int:
        """16 standard deviations."""
        return _REACH * GRID

    def _along(self, words: Words) -> Float32[Array, ""]:
        return truncated_normal(words[1], words[0] < self.threshold, self.tail)

    def vector(self, words: Words, value: Float[Array, " d"]) -> Float32[Array, " m"]:
        """The vector V in R^(d + 1); its last coordinate is not used."""
        normals = standard_normal(words[2 : 2 + self.dim])
        return report(value, self.radius, self._along(words), normals)

    def _sum(self, key: jax.Array, counts: Count, inputs: jax.Array) -> Float[Array, " d"]:
        def draw(words: Words) -> tuple[jax.Array, jax.Array]:
            return self._along(words), jnp.float32(0)  # across, the sum is Gaussian

        return sum_of_caps(key, counts, inputs, self.radius, draw, 2, None)

    def _sum_cost(self, work: Work) -> float:
        # Two words for a user; a vector for an input.
        return work.words(20.0 * (work.num_users + work.num_bins) + 4.0 * self.dim * work.num_bins)

    @property
    def squares_law(self) -> TallyLaw[dict[str, Count]]:
        """Draws {"sum", "users", "squares"}: a scalar for a user, O(d**2) for an input.

        The report of a user with the unit vector (head, last) is `w + head t` with `t = a - head^T
        w / (1 + last)`, w standard normal and a the coordinate along the vector. The sums over the
        users of one value need the sum and the sum of squares of their a, and, given these, the
        sums of w, of a w and of w w^T: two normal vectors, and a Wishart matrix of two degrees
        fewer by its Cholesky factor (Bartlett 1933).
        """
        return TallyLaw(self._draw_squares, self._squares_cost, distance=self._distance)

    def _squares_cost(self, work: Work) -> float:
        each = self.dim * (200.0 + 8.0 * self.dim)
        return work.words(40.0 * (work.num_users + work.num_bins) + work.num_bins * each)

    @compiled_in_float64
    def _draw_squares(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        k, dim = inputs.shape
        along_key, matrix_key, size_key, grid_key = (jax.random.fold_in(key, i) for i in range(4))

        def along(power: int) -> jax.Array:
            def part(words: Words, _: Tree) -> tuple[jax.Array, jax.Array]:
                return self._along(words) ** power, jnp.float32(0)

            return sum_parts(along_key, counts, part, 2, None, None)[0]

        first, second, users = along(1), along(2), counts.f64()
        order = jnp.arange(dim, dtype=jnp.int32).astype(jnp.float64)
        degrees = jnp.maximum(users[:, None] - 2 - order[None, :], 0.0)
        diagonal = jnp.sqrt(_chi_square(size_key, degrees))

        def add(number, totals):
            row = jnp.asarray(number, jnp.int32)
            words = user_words(matrix_key, Count.of(row), (dim + 2) * dim)[:]
            normals = standard_normal(words).astype(jnp.float64).reshape(dim + 2, dim)
            head, last = (x.astype(jnp.float64) for x in embed(inputs[row], self.radius))
            moments = users[row], first[row], second[row]
            sums = _sums_and_squares(*moments, head, last, normals, diagonal[row])
            return jax.tree.map(lambda x, y: x + y, totals, sums)

        zero = jnp.zeros(dim, jnp.float64)
        total, squares = lax.fori_loop(0, k, add, (zero, zero))
        # Rounding to the grid adds e of mean 0 and, on average over reports, variance 1/6 to each
        # entry v: its square grows by 2 v e + e**2.
        scale, size = float(self.grid), counts.sum()
        noise = normal(grid_key, (2, dim)) * jnp.sqrt(1 / 6)
        total = total * scale + noise[0] * jnp.sqrt(size.f64())
        squares = squares * scale**2
        squares = squares + 2 * noise[1] * jnp.sqrt(squares) + size.f64() / 6
        return {
            "sum": Count.from_float(jnp.rint(total)),
            "users": size,
            "squares": Count.from_float(jnp.rint(squares)),
        }


def _chi_square(key: jax.Array, degrees: Float[Array, "k l"]) -> Float[Array, "k l"]:
    """Chi-square draws of whole degrees of freedom; inside an x64 block."""
    pairs = jnp.floor(degrees / 2)
    sums = gamma(jax.random.fold_in(key, 0), Count.from_float(pairs))
    shape = degrees.shape
    words = user_words(jax.random.fold_in(key, 1), 0, int(np.prod(shape)))[:]
    normals = standard_normal(words).astype(jnp.float64).reshape(shape)
    return 2 * sums + jnp.where(degrees > 2 * pairs, normals**2, 0.0)


def _sums_and_squares(
    n: Float[Array, ""],
    first: Float[Array, ""],
    second: Float[Array, ""],
    head: Float[Array, " l"],
    last: Float[Array, ""],
    normals: Float[Array, "l+2 l"],
    diagonal: Float[Array, " l"],
) -> tuple[Float[Array, " l"], Float[Array, " l"]]:
    """The sums over the n users of one value of their vectors and of the squares.

    Args:
      n: users.
      first: the sum of their coordinates a.
      second: the sum of the squares of these.
      head: of the unit vector of the value.
      last: of the unit vector.
      normals: standard.
      diagonal: of the Cholesky factor.
    """
    dim, base = head.shape[0], 1 + last
    some = jnp.where(n > 0, 1.0, 0.0)
    common = normals[0] * some  # along the constant direction of the users
    other = normals[1] * jnp.where(n > 1, 1.0, 0.0)  # along the direction of a minus its mean
    below = jnp.tril(jnp.ones((dim, dim), bool), -1) & (diagonal > 0)[None, :]
    factor = jnp.where(below, normals[2:], 0.0)
    factor = factor + jnp.where(jnp.eye(dim, dtype=bool), diagonal[None, :], 0.0)
    size = jnp.sqrt(jnp.maximum(n, 1.0))
    spread = jnp.sqrt(jnp.maximum(second - (first / size) ** 2, 0.0))
    across = size * common
    mixed = first / size * common + spread * other  # the sum of a w
    sides = jnp.stack([common, other])
    # head^T W for W = factor factor^T + common common^T + other other^T, the sum of w w^T
    lower, upper = jnp.sum(factor * head[:, None], axis=0), jnp.sum(sides * head[None, :], axis=1)
    turned = jnp.sum(factor * lower[None, :], axis=1) + jnp.sum(sides * upper[:, None], axis=0)
    diagonals = jnp.sum(factor**2, axis=1) + jnp.sum(sides**2, axis=0)
    total = across + head * (first - jnp.sum(head * across) / base)
    level = second - 2 * jnp.sum(head * mixed) / base + jnp.sum(head * turned) / base**2
    squares = diagonals + 2 * head * (mixed - turned / base) + head**2 * level
    return some * total, some * squares
