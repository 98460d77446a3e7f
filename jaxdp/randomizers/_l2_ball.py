"""Duchi, Jordan and Wainwright's randomizer for the L2 ball."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, UInt32
from numpy.typing import ArrayLike

from .._contract import Words, Work, field, params, spec, static
from ..accounting import PairLaw
from ..random import Count, standard_normal
from ._cap import PROPOSAL_WORDS, Coordinate, axis_of, direction
from ._exact import exp_lower, log_upper
from ._mean import Tail
from ._pair_laws import cap_pair_law
from ._sphere import half_ratio
from ._vector import (
    DIM,
    EPSILON,
    RADIUS,
    FloatVectorRound,
    VectorRandomizer,
    require_words,
    sphere_grid,
)
from ._vector_sums import sum_parts, sum_points

_HALF = 2**31


@spec
class L2Ball(VectorRandomizer):
    """Duchi, Jordan and Wainwright's randomizer: a random unit vector on the side of your vector.

    For x in the ball of radius r in R^d the report is a uniform unit vector V, turned to the side
    of x, `<V, x> >= 0`, with probability `1/2 + |x| / (2 c r)` and to the other side otherwise. It
    stands for `r B V` with `c = (e**epsilon + 1) / (e**epsilon - 1)` and
    `B = c sqrt(pi) Gamma((d + 1) / 2) / Gamma(d / 2)`. The estimate is the mean.

    The probability is that of the paper's two steps: round x to the sphere, then choose a side. It
    is realised as the threshold `2**31 + rint(limit |x| / r)` of a word, where `limit` is as
    large as float32 and e**epsilon allow, and `c = 2**31 / limit`.

    Private in real arithmetic; not for release, since reports are computed in floats. The release
    form is `CandidateResponse`.

    Formal guarantees:
      * Privacy: pure epsilon-LDP: the density relative to the uniform law on the sphere takes the
        values `1 + |x| / (c r)` and `1 - |x| / (c r)`. The sides are chosen by integers, exactly;
        for the uniform unit vector it holds in real arithmetic.
      * Bias: none, up to the rounding of `limit |x| / r`: at most `r c 2**-31 + |x| 2**-24`.
      * Covariance of a report's vector, exact: `(r B)**2 / d I - x x^T`; `B**2 / d` tends to
        `c**2 pi / 2`.
      * Sub-Gaussian in every direction; see `sub_gaussian_scale`.

    Edge cases:
      =======================  =================================================================
      zero vector              a uniform unit vector
      norm above the radius    ValueError from specs and populations; params project to the ball
      NaN in a vector          ValueError from specs and populations; the zero vector in params
      entry above 1e15 radius  clipped to that by the params, before the projection
      epsilon above about 12   less is spent, 17.3 at most: a float32 threshold has 24 bits; B is
                               within 1e-7 of that for the whole epsilon, so nothing is lost
      =======================  =================================================================

    Args:
      dim: d, the dimension; 1 to 2**20.
      epsilon: privacy parameter, in [1e-4, 30].
      radius: r > 0, rounded to float32.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import L2Ball
      >>> ball = L2Ball(dim=4, epsilon=1.0)
      >>> round(ball.magnitude, 6)
      5.098695
      >>> ball.variance([3, 1], [[1, 0, 0, 0], [0, 0, 0, 0]]).round(3).tolist()
      [1.437, 1.625, 1.625, 1.625]

    References:
      Duchi, Jordan, Wainwright (2018), Minimax optimal procedures for locally private estimation,
      section 4.2.3. The sub-Gaussian constant is derived here. Protocols that ask for a randomizer
      with these three properties, as those of Edmonds, Nikolov, Ullman (2020, Lemma 9) and of Ghazi
      et al. (2023, Theorem 9) do, may use it.
    """

    dim: int = field(DIM)
    epsilon: float = field(EPSILON)
    radius: float = field(RADIUS, default=1.0)

    @property
    def _limit(self) -> int:
        """The words by which an input on the sphere moves the threshold: a float32."""
        e = exp_lower(self.epsilon)
        limit = math.floor(_HALF * (e - 1) / (e + 1))
        # Down to the 24 bits of a float32, so that params hold it exactly.
        excess = max(limit.bit_length() - 24, 0)
        return (limit >> excess) << excess

    @property
    def magnitude(self) -> float:
        """B, the length of a decoded report in units of the radius."""
        return _HALF / self._limit * math.sqrt(math.pi) * half_ratio(self.dim)

    def build(self, word_bits: int = 32) -> "L2BallParams":
        """Builds the params, which users and the analyst run."""
        require_words(word_bits)
        return L2BallParams(
            np.asarray(self._limit, np.float32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.radius * self.magnitude / sphere_grid(self.dim)),
            self.dim,
        )

    def pair_laws(self) -> tuple[PairLaw, ...]:
        """Opposite vectors on the sphere, whose sides are disjoint; see `cap_pair_law`.

        A vector inside the ball is a mixture of two on the sphere, and delta is convex.
        """
        share = self._limit / _HALF
        return (cap_pair_law(1 + share, 1 - share, 0.5),)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up: the log-ratio of the extreme thresholds."""
        require_words(word_bits)
        return log_upper(Fraction(_HALF + self._limit, _HALF - self._limit))

    def second_moments(self) -> tuple[float, float]:
        """`B**2 / d`, twice: the law of a report's axis does not depend on the input."""
        square = self.magnitude**2 / self.dim
        return square, square

    def tail(self) -> Tail:
        """Bernstein's inequality: decoded reports have the length r B."""
        largest = self.radius * (self.magnitude + 1)
        return Tail(self.worst_case_variance(1), largest / 3)

    def sub_gaussian_scale(self) -> float:
        """The s with `E exp(<Y, v>**2 / s**2) <= 2` for every unit vector v and every input.

        Y is a decoded report. The densities of V and -V, relative to the uniform law, add up to 2,
        so an even function of V has its uniform expectation. A coordinate V_1 of a uniform unit
        vector has `E exp(l V_1**2) = sum_j (1/2)_j / (d/2)_j l**j / j! <= (1 - 2 l / d)**(-1/2)`,
        because `(d/2)_j >= (d/2)**j`. That is 2 at `l = 3 d / 8 = (r B / s)**2`.
        """
        return self.radius * self.magnitude * math.sqrt(8 / (3 * self.dim))

    def log_density(self, reports: ArrayLike, value: ArrayLike) -> np.ndarray:
        """The log-density of reports relative to the uniform law on the unit sphere.

        Args:
          reports: int[n, dim], unit vectors on the grid.
          value: float[dim].

        Returns:
          float64[n].
        """
        value = self.check_value(value)
        norm = min(float(np.linalg.norm(value)) / self.radius, 1.0)
        shift = np.rint(self._limit * norm) / _HALF
        side = np.where(np.asarray(reports, np.float64) @ value >= 0, 1.0, -1.0)
        return np.log1p(side * shift)


@params
class L2BallParams(FloatVectorRound):
    """The params of `L2Ball`: a pytree.

    Attributes:
      limit: float32[], words by which an input on the sphere moves the threshold of its side.
      radius: float32[], of the ball.
      unit: float64[], radius * B over the grid, what 1 in a report stands for.
      dim: d, static.
    """

    limit: Float32[Array | np.ndarray, ""]
    radius: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    dim: int = static()

    @property
    def vector_words(self) -> int:
        """One word for the side, and one for each coordinate."""
        return 1 + self.dim

    def _threshold(self, norm: Float32[Array, "*k"]) -> UInt32[Array, "*k"]:
        """Words below which a report is on the side of an input, for its norm over the radius."""
        return np.uint32(_HALF) + jnp.rint(self.limit * norm).astype(jnp.uint32)

    def vector(self, words: Words, value: Float[Array, " d"]) -> Float32[Array, " d"]:
        """The unit vector V."""
        axis, norm = direction(value, self.radius)
        normals = standard_normal(words[1 : 1 + self.dim])
        side = words[0] < self._threshold(norm)
        # Turned unless it lies on the chosen side already.
        turn = (jnp.sum(axis * normals) >= 0) == side
        length = jnp.sqrt(jnp.sum(normals * normals))
        return normals * (jnp.where(turn, np.float32(1), np.float32(-1)) / length)

    def _sum(self, key: jax.Array, counts: Count, inputs: jax.Array) -> Float[Array, " d"]:
        def attempt(words: Words, threshold: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            x, across, accepted = Coordinate(self.dim).propose(words, 1)
            return jnp.where(words[0] < threshold, jnp.abs(x), -jnp.abs(x)), across, accepted

        def along_value(value: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            return axis_of(value, self.radius)

        norms = jax.vmap(lambda x: direction(x, self.radius)[1])(inputs)
        parts_key, points_key = jax.random.split(key)
        along, lengths = sum_parts(
            parts_key,
            counts,
            attempt,
            1 + PROPOSAL_WORDS,
            self._threshold(norms),
            self.dim - 1 or None,
        )
        return sum_points(points_key, along, lengths, inputs, along_value, gaussian=False)

    def _sum_cost(self, work: Work) -> float:
        # A proposal and a merge for a user; a tree that merges lanes; a vector for an input.
        singly = 5e5 + 13.0 * (work.num_users + work.num_bins)
        return work.words(singly + 4.0 * self.dim * work.num_bins)
