"""PrivUnitG: a Gaussian vector from a half-space towards your vector, or from its complement."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64
from ..random import Count, standard_normal
from ..random._normal import truncated_normal
from ._cap import report
from ._sphere import Solution, solve
from ._vector import PaddedCapRandomizer, VectorParams, require_words
from ._vector_sums import sum_of_caps


@dataclasses.dataclass(frozen=True, slots=True)
class PrivUnitG(PaddedCapRandomizer):
    """PrivUnit with a Gaussian law for the sphere: no rejection, parameters free of the dimension.

    A vector x of the ball of radius r in R^d becomes the unit vector
    `u = (x, sqrt(r**2 - |x|**2)) / r` of R^(d + 1). The report V is a standard normal vector, given
    `<V, u> >= gamma` with probability p, and given the opposite otherwise. It stands for
    `(r / m) V`, without its last coordinate. The estimate is the mean.

    With `q = Pr[X >= gamma]` and `h = phi(gamma)` for a standard normal X, p and m are as in
    `PrivUnit`, and so is the optimum `m = gamma`, where the noise is the same in all directions. p
    is realised as a multiple of 2**-32, and gamma is the optimum of the realised epsilon.

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

    dim: int
    epsilon: float
    radius: float = 1.0

    def __post_init__(self):
        self._check()

    def _solution(self) -> Solution:
        return solve(None, self.epsilon)

    def build(self, word_bits: int = 32) -> "PrivUnitGParams":
        """The params."""
        require_words(word_bits)
        solution = self._solution()
        return PrivUnitGParams(
            np.asarray(solution.keep, np.uint32),
            np.asarray(solution.cap.mass, np.float32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.radius / solution.cap.gamma),
            self.dim,
        )

    def second_moments(self) -> tuple[float, float]:
        """(1 + s, s) with s = sigma**2 for the unit ball."""
        across = 1 / self.threshold**2
        return 1 + across, across


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PrivUnitGParams(VectorParams):
    """The params of `PrivUnitG`: a pytree.

    Attributes:
      keep: uint32[], p * 2**32.
      tail: float32[], q.
      radius: float32[], of the ball.
      unit: float64[], radius / gamma, what 1 in a report stands for.
      dim: d, static.
    """

    keep: jax.Array | np.ndarray
    tail: jax.Array | np.ndarray
    radius: jax.Array | np.ndarray
    unit: jax.Array | np.ndarray
    dim: int = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self) -> int:
        """One for the side of the half-space, one for the coordinate along u, d for the others."""
        return 2 + self.dim

    def _along(self, words):
        high = words[0] < jnp.asarray(self.keep)
        return truncated_normal(words[1], high, jnp.asarray(self.tail))

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[dim + 2].
          value: float32[dim] in the ball; projected to it, NaN counts as the zero vector.

        Returns:
          float32[dim + 1]; its last coordinate is not used.
        """
        normals = standard_normal(words[2 : 2 + self.dim])
        return report(value, jnp.asarray(self.radius), self._along(words), normals)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law: a scalar for a user, a vector for an input.

        The part of a sum across u is Gaussian.

        Args:
          key: a key; it is folded.
          counts: Count[k], the number of users with each vector.
          inputs: float32[k, dim], the vectors.

        Returns:
          As `tally`, of Fixed and Count.
        """
        total = sum_of_caps(
            key, counts, inputs, self.radius, lambda w: (self._along(w), jnp.float32(0)), 2, None
        )
        return self.fixed_sum(total, counts.sum())

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: scalars for each user, a vector for each bin."""
        return 20.0 * (num_users + num_bins) + 4.0 * self.dim * num_bins
