"""PrivUnitG: a Gaussian vector from a half-space towards your vector, or from its complement."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, UInt32

from .._contract import Summed, Words, field, params, spec, static
from ..random import Count, FlatWords, standard_normal
from ..random._normal import truncated_normal
from ._cap import report, report_parts
from ._mean import Tail, added_up
from ._sphere import WORDS, Cap, Solution, solve
from ._tilt import Tilt, quadrature
from ._tilted_normal import TiltedNormalRound
from ._vector import (
    DIM,
    EPSILON,
    GRID,
    RADIUS,
    FloatVectorRound,
    PaddedCapRandomizer,
    require_words,
    to_grid,
)

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
        """Builds the params, which users and the analyst run."""
        require_words(word_bits)
        solution = self._solution()
        return PrivUnitGParams(
            np.asarray(solution.threshold, np.uint32),
            np.asarray(solution.cap.mass, np.float32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.radius / (solution.cap.gamma * GRID)),
            _tilt(solution.cap, solution.threshold / WORDS),
            self.dim,
        )

    def second_moments(self) -> tuple[float, float]:
        """Second moments along and across the vector: (1 + s, s) with s = sigma**2, radius 1."""
        across = 1 / self.threshold**2
        return 1 + across, across

    def tail(self) -> Tail:
        """Sub-Gaussian: a normal across the input, and `_proxy_variance` along it."""
        p, q = self.probabilities()
        square = (self.radius / self.threshold) ** 2
        return Tail(square * _proxy_variance(self.threshold, p, q), 0.0)

    def expected_largest(self, complexity: float, radius: float, num_users: int) -> float:
        """`sigma (complexity + sqrt(2) radius) / sqrt(n)`.

        A report is sigma times `g + (a - b) u` for independent normals g, the user's vector u over
        r, of norm at most 1, b their part along u with its padding, and a of variance 1 independent
        of g. The means of `(a - b) u` have an expected norm of at most `sqrt(2 / n)`.
        """
        sigma = self.radius / self.threshold
        return sigma * (complexity + math.sqrt(2.0) * radius) / math.sqrt(num_users)


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


def _tilt(cap: Cap, p: float) -> Tilt:
    """The coordinate a: standard normal, but for what the half-space has more than its share."""
    nodes, weights = quadrature(cap.gamma)
    return Tilt.of((1 - p) / (1 - cap.mass), nodes, weights * np.exp(-(nodes**2) / 2))


@params
class PrivUnitGParams(TiltedNormalRound, FloatVectorRound):
    """The params of `PrivUnitG`: a pytree.

    Attributes:
      threshold: uint32[], p * 2**32.
      tail: float32[], q.
      radius: float32[], of the ball.
      unit: float64[], radius / gamma over the grid, what 1 in a report stands for.
      tilt: the law of the coordinate along u.
      dim: d, static.
    """

    threshold: UInt32[Array | np.ndarray, ""]
    tail: Float32[Array | np.ndarray, ""]
    radius: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    tilt: Tilt
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

    @property
    def along_words(self) -> int:
        """One for the side of the half-space, one for the coordinate along u."""
        return 2

    @property
    def along_cost(self) -> float:
        """Two words, and the quantile of a normal."""
        return 30.0

    def along(self, words: Words | FlatWords) -> Float32[Array, "*n"]:
        """The coordinate along u; of n users from `FlatWords`."""
        return truncated_normal(words[1], words[0] < self.threshold, self.tail)

    def propose_along(self, words: Words) -> tuple[Float32[Array, ""], Bool[Array, ""]]:
        """The coordinate along u, which is never refused."""
        return self.along(words), jnp.asarray(True)

    def vector(self, words: Words, value: Float[Array, " d"]) -> Float32[Array, " m"]:
        """The vector V in R^(d + 1); its last coordinate is not used."""
        normals = standard_normal(words[2 : 2 + self.dim])
        return report(value, self.inverse_radius, self.along(words), normals)

    @property
    def summed(self) -> Summed[dict[str, Count]]:
        """The sum of the coordinates that are used."""
        inverse = self.inverse_radius

        def alone(words: FlatWords) -> tuple[Float32[Array, " n"], UInt32[Array, " n"]]:
            return self.along(words), words[self.vector_words]

        def numbers(
            words: FlatWords,
            values: Float[Array, "n d"],
            alone: tuple[Float32[Array, " n"], UInt32[Array, " n"]],
        ) -> Int32[Array, "n d"]:
            normals = standard_normal(words[2 : 2 + self.dim]).reshape(values.shape)
            along, rounding = alone
            each = jax.vmap(report_parts, (0, None, 0, 0))
            used, _ = each(values, inverse, along, normals)
            steps = used * np.float32(self.grid)
            return jax.vmap(to_grid, (0, 0, None))(steps, rounding, self.largest_report)

        return Summed(numbers, self.dim, self.largest_report, added_up, alone)
