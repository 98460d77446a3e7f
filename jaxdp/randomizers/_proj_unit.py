"""ProjUnit: PrivUnit on a random projection."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, UInt32
from numpy.typing import ArrayLike

from .._checks import Integer
from .._contract import Words, Work, field, params, spec, static
from .._spec import check_int
from ..random import Count, standard_normal
from ._cap import PROPOSAL_WORDS, Coordinate, coordinate_words, report
from ._chi_square import propose_chi_square
from ._sphere import Solution, half_ratio, regularized_beta, solve
from ._vector import (
    EPSILON,
    MAX_DIM,
    RADIUS,
    CapRandomizer,
    FloatVectorRound,
    require_words,
    sphere_grid,
)
from ._vector_sums import sum_of_caps


@spec
class ProjUnit(CapRandomizer):
    """ProjUnit: a user sends PrivUnit of a random projection of its vector to l dimensions.

    As in `PrivUnit` a vector x of the ball of radius r in R^d becomes a unit vector u of R^D,
    D = d + 1. Q is an l x D matrix with orthonormal rows: uniform, public, and another one for each
    user. The user sends the unit vector `PrivUnit(Q u / |Q u|)` of R^l, l numbers instead of d; the
    analyst turns it back to `V = Q^T PrivUnit(Q u / |Q u|)`. V stands for `(r / (m R)) V`, without
    its last coordinate, where `R = E |Q u|` makes it unbiased exactly. The estimate is the mean.

    A simulation needs the law of V only: `V = T u + sqrt(1 - T**2) W` with W uniform across u and
    independent of T, and `T = X |Q u|`, X being PrivUnit's coordinate in R^l and
    `|Q u|**2 ~ Beta(l / 2, (D - l) / 2)` independent of it. That costs O(d) for a user, where Q
    would cost O(d l).

    Private in real arithmetic; not for release, since reports are computed in floats. The release
    form is `CandidateResponse`.

    Formal guarantees:
      * Privacy: pure epsilon-LDP in real arithmetic, as for `PrivUnit` in R^l, given Q.
      * Bias: none. (The published scale has no R, which biases towards 0 by O(1 / l).)
      * Covariance of a report's vector, exact: `r**2 s I + (a - s - 1) x x^T` where
        `a = E[X**2] / (m R)**2 * l / D` and `s = (1 / (m R)**2 - a) / (D - 1)`.

    Edge cases:
      =======================  =================================================================
      num_projected = dim + 1  ValueError: this is `PrivUnit`
      one Q for all users      not offered: all reports lie in one subspace, and the error of their
                               mean does not vanish
      norm above the radius    ValueError from specs and populations; params project to the ball
      NaN in a vector          ValueError from specs and populations; the zero vector in params
      entry above 1e15 radius  clipped to that by the params, before the projection
      =======================  =================================================================

    Args:
      dim: d, the dimension; 2 to 2**20.
      epsilon: privacy parameter, in [1e-4, 30].
      num_projected: l, from 2 to dim.
      radius: r > 0, rounded to float32.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import ProjUnit
      >>> unit = ProjUnit(dim=63, epsilon=1.0, num_projected=16)
      >>> round(unit.worst_case_variance(num_users=1), 4)
      6.2981

    References:
      Asi, Feldman, Nelson, Nguyen, Talwar (2023), Fast optimal locally private mean estimation via
      random projections.
    """

    dim: int = field(Integer(2, MAX_DIM))
    epsilon: float = field(EPSILON)
    num_projected: int = field(Integer(2))
    radius: float = field(RADIUS, default=1.0)

    def validate(self) -> None:
        """Raises ValueError unless the projection has fewer dimensions than the padded vector."""
        check_int("num_projected", self.num_projected, low=2, high=self.dim)

    def _solution(self) -> Solution:
        return solve(self.num_projected, self.epsilon)

    def _cap_dim(self) -> int:
        # Opposite vectors have opposite projections, whose caps are disjoint whatever Q is.
        return self.num_projected

    def _length(self) -> float:
        """The length 1 / (m R) of a decoded report for the unit ball."""
        # R = E |Q u|, a ratio of mean norms of Gaussian vectors of R^l and R^D.
        projected = half_ratio(self.num_projected) / half_ratio(self.dim + 1)
        return 1 / (self._solution().cap.gamma * projected)

    def build(self, word_bits: int = 32) -> "ProjUnitParams":
        """Builds the params, which users and the analyst run."""
        require_words(word_bits)
        solution = self._solution()
        edge = math.sqrt((self.num_projected - 1.5) * solution.level)
        return ProjUnitParams(
            np.asarray(solution.threshold, np.uint32),
            np.asarray(math.erfc(edge / math.sqrt(2)) / 2, np.float32),
            np.asarray(solution.level, np.float32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.radius * self._length() / sphere_grid(self.dim)),
            self.dim,
            self.num_projected,
        )

    def second_moments(self) -> tuple[float, float]:
        """Second moments along and across the vector, (a, s); see the class."""
        inner, square = self._solution().cap.gamma ** 2, self._length() ** 2
        along = square * (1 + (self.num_projected - 1) * inner) / (self.dim + 1)
        return along, (square - along) / self.dim

    def log_density(self, reports: ArrayLike, value: ArrayLike) -> np.ndarray:
        """The log-density of the vectors V relative to the uniform law on the unit sphere in R^D.

        Given V with `T = <V, u>`, `|Q u|**2 = T**2 + (1 - T**2) b` with
        `b ~ Beta((l - 1) / 2, (D - l) / 2)`, so the density is PrivUnit's, on average over b.

        Args:
          reports: int[n, dim + 1], unit vectors on the grid.
          value: float[dim].

        Returns:
          float64[n].
        """
        value = self.check_value(value)
        solution, head = self._solution(), value / self.radius
        unit = np.append(head, math.sqrt(max(1 - float(head @ head), 0.0)))
        t = np.asarray(reports, np.float64) @ unit / sphere_grid(self.dim)
        t = np.clip(t, 0.0, 1 - 1e-12)
        share = np.clip(t**2 * (solution.cap.gamma**-2 - 1) / (1 - t**2), 0.0, 1.0)
        shapes = (self.num_projected - 1) / 2, (self.dim + 1 - self.num_projected) / 2
        inside = regularized_beta(*shapes, share)
        p, q = self.probabilities()
        return np.log(inside * p / q + (1 - inside) * (1 - p) / (1 - q))


@params
class ProjUnitParams(FloatVectorRound):
    """The params of `ProjUnit`: a pytree.

    Attributes:
      threshold: uint32[], p * 2**32.
      cap_mass: float32[], the mass of the cap under the sampler's proposal.
      level: float32[], `-ln(1 - gamma**2)`.
      radius: float32[], of the ball.
      unit: float64[], radius / (m R) over the grid, what 1 in a report stands for.
      dim: d, static.
      num_projected: l, static.
    """

    threshold: UInt32[Array | np.ndarray, ""]
    cap_mass: Float32[Array | np.ndarray, ""]
    level: Float32[Array | np.ndarray, ""]
    radius: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    dim: int = static()
    num_projected: int = static()

    @property
    def vector_words(self) -> int:
        """One for the side of the cap, 2 d + 1 for normals, two for each proposal of X."""
        return 2 + 2 * self.dim + coordinate_words(self.num_projected)

    @property
    def mean_words(self) -> float:
        """Nearly always one proposal, whose price is that of a dozen words."""
        return 14.0 + 2 * self.dim

    def _coordinate(self, words: Words) -> Coordinate:
        """A user's coordinate X in R^l."""
        in_cap = words[0] < self.threshold
        return Coordinate(self.num_projected, in_cap, self.cap_mass, self.level)

    def _parts(
        self,
        x: Float32[Array, ""],
        across: Float32[Array, ""],
        kept: Float32[Array, ""],
        lost: Float32[Array, ""],
    ) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
        """T and `sqrt(1 - T**2)` of X and `sqrt(1 - X**2)`, `|Q u|**2 = kept / (kept + lost)`."""
        # 1 - T**2 = 1 - X**2 + X**2 (1 - |Q u|**2), a sum that does not cancel.
        across = jnp.sqrt(across**2 + x**2 * (lost / (kept + lost)))
        return x * jnp.sqrt(kept / (kept + lost)), across

    def vector(self, words: Words, value: Float[Array, " d"]) -> Float32[Array, " m"]:
        """The unit vector V in R^D; its last coordinate is not used."""
        first = 2 + 2 * self.dim
        squares = jnp.square(standard_normal(words[1 + self.dim : first]))
        kept = jnp.sum(squares[: self.num_projected])
        lost = jnp.sum(squares[self.num_projected :])
        x, across = self._coordinate(words).draw(words, first)
        along, across = self._parts(x, across, kept, lost)
        normals = standard_normal(words[1 : 1 + self.dim])
        return report(value, self.inverse_radius, along, normals, length=across)

    def _sum(self, key: jax.Array, counts: Count, inputs: jax.Array) -> Float[Array, " d"]:
        lost_degrees = self.dim + 1 - self.num_projected
        first = 1 + PROPOSAL_WORDS

        def attempt(words: Words) -> tuple[jax.Array, jax.Array, jax.Array]:
            x, across, accepted = self._coordinate(words).propose(words, 1)
            kept, right = propose_chi_square(words, first, self.num_projected)
            lost, also = propose_chi_square(words, first + 2, lost_degrees)
            return *self._parts(x, across, kept, lost), accepted & right & also

        return sum_of_caps(key, counts, inputs, self.radius, attempt, first + 4)

    def _sum_cost(self, work: Work) -> float:
        # Two chi-squares, a proposal, a merge for a user; a tree of lanes; a vector for an input.
        singly = 8e5 + 30.0 * (work.num_users + work.num_bins)
        return work.words(singly + 4.0 * self.dim * work.num_bins)
