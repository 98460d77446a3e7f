"""PrivUnit: a unit vector from a cap around your vector, or from its complement."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, UInt32

from .._checks import Choice
from .._contract import Population, Words, Work, field, params, spec, static
from .._spec import is_traced
from ..random import Count, standard_normal
from ._cap import (
    PROPOSAL_WORDS,
    Coordinate,
    axis_of,
    coordinate_words,
    point,
    report,
)
from ._mean import Tail
from ._sphere import Solution, solve
from ._vector import (
    DIM,
    EPSILON,
    RADIUS,
    FloatVectorRound,
    PaddedCapRandomizer,
    require_words,
    sphere_grid,
)
from ._vector_sums import sum_of_caps

_EQUAL = 1e-5  # relative difference of norms that pass for equal, as those of solved factors


@spec
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

    Vectors that all have the norm r, as the columns of many factorizations do, need no padding:
    with `padded=False` u is `x / r`, D = d, and the noise is that of one dimension less: at
    epsilon = 4 a quarter less variance for d = 2, a tenth less for d = 4.

    p is realised as a multiple of 2**-32, and gamma is then the optimum of the realised epsilon, so
    that `m = gamma` and all statements below hold for what is built.

    Private in real arithmetic; not for release, since reports are computed in floats. The release
    form is `CandidateResponse`.

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
      not padded, other norm   ValueError from specs and populations; params take `r x / |x|`, and
                               r along the first axis for the zero vector
      NaN in a vector          ValueError from specs and populations; the zero vector in params
      entry above 1e15 radius  clipped to that by the params, before the projection
      epsilon near 30, d = 1   2**-32 is coarse for 1 - p: 0.3 % of epsilon is not spent
      =======================  =================================================================

    Args:
      dim: d, the dimension; 1 to 2**20.
      epsilon: privacy parameter, in [1e-4, 30].
      radius: r > 0, rounded to float32.
      padded: whether vectors are those of the ball; False if all have the norm r, for d >= 2.

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

    dim: int = field(DIM)
    epsilon: float = field(EPSILON)
    radius: float = field(RADIUS, default=1.0)
    padded: bool = field(Choice(True, False), default=True)

    def validate(self) -> None:
        """Raises ValueError unless there is a sphere of at least one dimension."""
        if not self.padded and self.dim < 2:
            raise ValueError(
                "dim must be at least 2 with padded=False, got 1: two points have no caps."
            )

    def _solution(self) -> Solution:
        return solve(self._cap_dim(), self.epsilon)

    def _cap_dim(self) -> int:
        return self.dim + self.padded

    def extreme_inputs(self) -> np.ndarray:
        """The two ends of the first axis, and 0 where vectors are padded."""
        return PaddedCapRandomizer.extreme_inputs(self)[: 3 if self.padded else 2]

    def check_range(self, name: str, values: np.ndarray) -> None:
        """Raises unless vectors are in the ball; on its sphere where they are not padded."""
        PaddedCapRandomizer.check_range(self, name, values)
        if not self.padded:
            self._check_least(name, float(np.linalg.norm(values, axis=-1).min()))

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are vectors in the ball, or on its sphere."""
        PaddedCapRandomizer.check_population(self, population)
        inputs = population.inputs
        if not self.padded and not is_traced(inputs):
            with jax.ensure_compile_time_eval():
                least = float(jnp.sqrt(jnp.min(jnp.sum(jnp.square(inputs), axis=1))))
            self._check_least("the population's values", least)

    def _check_least(self, name: str, least: float) -> None:
        if least < self.radius * (1 - _EQUAL):
            raise ValueError(
                f"{name} must all have the L2 norm radius = {self.radius:g} with padded=False, got "
                f"one of {least:g}; use padded=True."
            )

    def build(self, word_bits: int = 32) -> "PrivUnitParams":
        """Builds the params, which users and the analyst run."""
        require_words(word_bits)
        solution = self._solution()
        edge = math.sqrt((self._cap_dim() - 1.5) * solution.level)
        return PrivUnitParams(
            np.asarray(solution.threshold, np.uint32),
            np.asarray(math.erfc(edge / math.sqrt(2)) / 2, np.float32),
            np.asarray(solution.level, np.float32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.radius / (solution.cap.gamma * sphere_grid(self.dim))),
            self.dim,
            self.padded,
        )

    def second_moments(self) -> tuple[float, float]:
        """Second moments along and across the vector: (1 + s, s) with s = sigma**2, radius 1."""
        square = self.threshold**2
        across = (1 - square) / (self._cap_dim() * square)
        return 1 + across, across

    def tail(self) -> Tail:
        """Bernstein's inequality: decoded reports have the length r / gamma."""
        largest = self.radius * (1 / self.threshold + 1)
        return Tail(self.worst_case_variance(1), largest / 3)


@params
class PrivUnitParams(FloatVectorRound):
    """The params of `PrivUnit`: a pytree.

    Attributes:
      threshold: uint32[], p * 2**32.
      cap_mass: float32[], the mass of the cap under the sampler's proposal.
      level: float32[], `-ln(1 - gamma**2)`.
      radius: float32[], of the ball.
      unit: float64[], radius / gamma over the grid, what 1 in a report stands for.
      dim: d, static.
      padded: whether vectors have another coordinate, static.
    """

    threshold: UInt32[Array | np.ndarray, ""]
    cap_mass: Float32[Array | np.ndarray, ""]
    level: Float32[Array | np.ndarray, ""]
    radius: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    dim: int = static()
    padded: bool = static()

    @property
    def _across(self) -> int:
        """The dimension of the space across u."""
        return self.dim - 1 + self.padded

    @property
    def vector_words(self) -> int:
        """One for the side of the cap, one for each coordinate, two for each proposal of X."""
        return 1 + self._across + coordinate_words(self._across + 1)

    @property
    def mean_words(self) -> float:
        """Nearly always one proposal, whose price is that of a dozen words."""
        return 13.0 + self.dim

    def _coordinate(self, words: Words) -> Coordinate:
        """A user's coordinate X along u."""
        in_cap = words[0] < self.threshold
        return Coordinate(self._across + 1, in_cap, self.cap_mass, self.level)

    def vector(self, words: Words, value: Float[Array, " d"]) -> Float32[Array, " m"]:
        """The unit vector V in R^D; a coordinate of padding is not used."""
        along, across = self._coordinate(words).draw(words, 1 + self._across)
        normals = standard_normal(words[1 : 1 + self._across])
        if self.padded:
            return report(value, self.inverse_radius, along, normals, length=across)
        head, last, sign = axis_of(value, self.radius)
        normals = normals * (across / jnp.sqrt(jnp.sum(normals * normals)))
        return jnp.append(*point(head, last, sign * along, normals))

    def _sum(self, key: jax.Array, counts: Count, inputs: jax.Array) -> Float[Array, " d"]:
        def attempt(words: Words) -> tuple[jax.Array, jax.Array, jax.Array]:
            return self._coordinate(words).propose(words, 1)

        num_words = 1 + PROPOSAL_WORDS
        return sum_of_caps(key, counts, inputs, self.radius, attempt, num_words, self.padded)

    def _sum_cost(self, work: Work) -> float:
        # A proposal and a merge for a user; a tree that merges lanes; a vector for an input.
        singly = 5e5 + 20.0 * (work.num_users + work.num_bins)
        return work.words(singly + 4.0 * self.dim * work.num_bins)
