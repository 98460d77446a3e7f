"""PrivUnit: a unit vector from a cap around your vector, or from its complement."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64
from ..random import Count, standard_normal
from ._cap import cap_coordinate, coordinate_words, report
from ._sphere import Solution, solve
from ._vector import PaddedCapRandomizer, VectorParams, require_words
from ._vector_sums import sum_of_caps


@dataclasses.dataclass(frozen=True, slots=True)
class PrivUnit(PaddedCapRandomizer):
    """PrivUnit with the best parameters, and the same isotropic noise for every input.

    A vector x of the ball of radius r in R^d becomes the unit vector
    `u = (x, sqrt(r**2 - |x|**2)) / r` of R^D, D = d + 1. The report V is uniform on the cap
    {V: <V, u> >= gamma} of the unit sphere with probability p, and on the rest of it otherwise. It
    stands for `(r / m) V`, without its last coordinate. The estimate is the mean.

    With `q = Pr[X >= gamma]` and `h = E[X 1{X >= gamma}]`, X being a coordinate of a uniform unit
    vector, `p = E q / (1 - q + E q)` gives the density ratio `E = e**epsilon`, and
    `m = h (E - 1) / (1 + (E - 1) q)`. Among all gamma the largest m is where `m = gamma`. There the
    second moment of `V / m` along u exceeds that across it by exactly 1, which the square of the
    mean takes away: the noise is the same in all directions.

    p is realised as a multiple of 2**-32, and gamma is then the optimum of the realised epsilon, so
    that `m = gamma` and all statements below hold for what is built.

    Formal guarantees:
      * Privacy: pure epsilon-LDP in real arithmetic: the density relative to the uniform law takes
        two values, of ratio `p (1 - q) / (q (1 - p)) <= e**epsilon`; `exact_epsilon()` is what is
        realised, with p exact and q in float64, rounded up. The rejection sampler fails with a
        probability below 2**-64 that does not depend on the input; the report is then the zero
        vector. `exact_epsilon()` includes this.
      * Bias: none.
      * Covariance of a report's vector, exact and the same for every x in the ball: `sigma**2 I`
        with `sigma**2 = r**2 (1 - gamma**2) / (D gamma**2)`.

    Edge cases:
      =======================  =================================================================
      zero vector              as any other: u is the last axis
      norm above the radius    ValueError from specs and populations; params project to the ball
      NaN in a vector          ValueError from specs and populations; the zero vector in params
      entry above 1e15 radius  clipped to that by the params, before the projection
      epsilon near 30, d = 1   2**-32 is coarse for 1 - p: 0.3 % of epsilon is not spent
      =======================  =================================================================

    Args:
      dim: d, the dimension; 1 to 2**20.
      epsilon: privacy parameter, in [1e-4, 30].
      radius: r > 0, rounded to float32.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import PrivUnit
      >>> unit = PrivUnit(dim=3, epsilon=1.0)
      >>> round(unit.threshold, 8)
      0.20892285
      >>> unit.variance([3, 1], [[1, 0, 0], [0, 0, 0]]).round(5).tolist()
      [1.36938, 1.36938, 1.36938]

    References:
      Bhowmick, Duchi, Freudiger, Kapoor, Rogers (2018), Protection against reconstruction and its
      applications in private federated learning; Asi, Feldman, Talwar (2022), Optimal algorithms
      for mean estimation under local differential privacy. The condition m = gamma, the isotropy
      and the last coordinate are derived here.
    """

    dim: int
    epsilon: float
    radius: float = 1.0

    def __post_init__(self):
        self._check()

    def _solution(self) -> Solution:
        return solve(self.dim + 1, self.epsilon)

    def build(self, word_bits: int = 32) -> "PrivUnitParams":
        """The params."""
        require_words(word_bits)
        solution = self._solution()
        edge = math.sqrt((self.dim - 0.5) * solution.level)
        return PrivUnitParams(
            np.asarray(solution.keep, np.uint32),
            np.asarray(math.erfc(edge / math.sqrt(2)) / 2, np.float32),
            np.asarray(solution.level, np.float32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.radius / solution.cap.gamma),
            self.dim,
        )

    def second_moments(self) -> tuple[float, float]:
        """(1 + s, s) with s = sigma**2 for the unit ball."""
        square = self.threshold**2
        across = (1 - square) / ((self.dim + 1) * square)
        return 1 + across, across


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PrivUnitParams(VectorParams):
    """The params of `PrivUnit`: a pytree.

    Attributes:
      keep: uint32[], p * 2**32.
      tail: float32[], the mass of the cap under the sampler's proposal.
      level: float32[], `-ln(1 - gamma**2)`.
      radius: float32[], of the ball.
      unit: float64[], radius / gamma, what 1 in a report stands for.
      dim: d, static.
    """

    keep: jax.Array | np.ndarray
    tail: jax.Array | np.ndarray
    level: jax.Array | np.ndarray
    radius: jax.Array | np.ndarray
    unit: jax.Array | np.ndarray
    dim: int = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self) -> int:
        """One for the side of the cap, one for each coordinate, two for each proposal of X."""
        return 1 + self.dim + coordinate_words(self.dim + 1)

    def _part(self, words, first: int):
        """X, the coordinate along u, and `sqrt(1 - X**2)`; both 0 where the sampler fails."""
        high = words[0] < jnp.asarray(self.keep)
        tail, level = jnp.asarray(self.tail), jnp.asarray(self.level)
        return cap_coordinate(words, first, self.dim + 1, high, tail, level)

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words], read as far as needed.
          value: float32[dim] in the ball; projected to it, NaN counts as the zero vector.

        Returns:
          float32[dim + 1], a unit vector; its last coordinate is not used.
        """
        along, across = self._part(words, 1 + self.dim)
        normals = standard_normal(words[1 : 1 + self.dim])
        return report(value, jnp.asarray(self.radius), along, normals, length=across)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law: O(1) scalars for a user, a vector for an input.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each vector.
          inputs: float32[k, dim], the vectors.

        Returns:
          As `tally`, of Fixed and Count.
        """
        total = sum_of_caps(
            key,
            counts,
            inputs,
            self.radius,
            lambda w: self._part(w, 1),
            1 + coordinate_words(self.dim + 1),
            self.dim,
        )
        return self.fixed_sum(total, counts.sum())

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: scalars for each user, a vector for each bin."""
        return 120.0 * (num_users + num_bins) + 4.0 * self.dim * num_bins
