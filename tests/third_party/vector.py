"""A randomizer of vectors that jaxdp does not have, written from its public names."""

import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp.engine import TallyLaw, Tree, Words, Work, checks, field, params, spec, static
from jaxdp.random import Count, binomial, multinomial
from jaxdp.randomizers import MeanRound, SelfMoments, VectorRandomizer, exp_lower, log_upper


def _float32(name: str, value: Any) -> float:
    """A positive number, rounded to float32 as users' vectors are."""
    return float(np.float32(checks.Real(1e-20, 1e20)(name, value)))


@spec
class CoordinateSampling(VectorRandomizer):
    """Report the sign of a random coordinate, flipped more often where the coordinate is small.

    A user with the vector x in the L2 ball of radius r picks a coordinate j, and reports j and a
    sign s, which is +1 with probability `1/2 + x_j / (2 c r)`, `c = (e**epsilon + 1) /
    (e**epsilon - 1)`. The report stands for the vector that is `s c r dim` at j and 0 elsewhere,
    whose mean is x, and whose second moments are `(c r)**2 dim` in every direction.

    Each coordinate has `w = 2**32 // dim` of the words; for the few that are left over the report
    is of no coordinate, so in place of dim there is `2**32 / w` above. The sign is +1 where a
    second word is below `2**31 + round(t x_j / r)`, with the largest integer t of at most 24 bits
    for which the probabilities of the signs have a ratio of at most e**epsilon; `c = 2**31 / t`.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, in integers, whatever the floats are.
      * Bias: none but for rounding, `2**-24 |x|` and `c r 2**-31`.
      * Variance: `(c r)**2 dim - x_j**2` at coordinate j, for one user.

    Args:
      dim: from 1 to 1024.
      epsilon: privacy parameter, from 0.001 to 12.
      radius: r > 0, rounded to float32.

    References:
      Duchi, Jordan, Wainwright (2018), Minimax optimal procedures for locally private estimation,
      for one coordinate; Nguyên et al. (2016), Collecting and analyzing data from smart device
      users with local differential privacy, for a random one.
    """

    dim: int = field(checks.Integer(1, 1024))
    epsilon: float = field(checks.Real(0.001, 12.0, closed=True))
    radius: float = field(checks.By(_float32, (0.0, -1.0, "1", None)), default=1.0)

    def reach(self, word_bits: int) -> int:
        """t, how far a coordinate of r moves the border of the signs."""
        bits = checks.Integer(1, 32)("word_bits", word_bits)
        ratio = exp_lower(self.epsilon)
        reach = math.floor(2 ** (bits - 1) * (ratio - 1) / (ratio + 1))
        excess = max(reach.bit_length() - 24, 0)  # beyond what float32 holds
        if reach == 0 or self.dim > 2**bits:
            raise ValueError(
                f"word_bits must be more for dim = {self.dim} and epsilon = {self.epsilon!r}, got "
                f"{bits}: a word is too coarse."
            )
        return reach >> excess << excess

    def build(self, word_bits: int = 32) -> "CoordinateParams":
        """What users and the analyst run."""
        return CoordinateParams(
            np.asarray(self.reach(word_bits), np.int32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.radius * self._factor(word_bits) * _dim(self.dim, word_bits)),
            self.dim,
            word_bits,
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The log-ratio of the probabilities of a sign, rounded up."""
        half, reach = 2 ** (word_bits - 1), self.reach(word_bits)
        return log_upper(Fraction(half + reach, half - reach))

    def second_moments(self) -> tuple[float, float]:
        """`c**2 dim` both along and across the input: coordinates are as likely for all inputs."""
        square = self._factor(32) ** 2 * _dim(self.dim, 32)
        return square, square

    def self_moments(self, means: np.ndarray, weights: np.ndarray) -> SelfMoments:
        """The moments of `z^T D z` for the noise z of a report, over all reports."""
        size, chance = self.radius * self._factor(32), 1 / _dim(self.dim, 32)
        decoded = np.concatenate([np.eye(self.dim), -np.eye(self.dim), np.zeros((1, self.dim))])
        decoded *= size / chance
        signs = np.concatenate([means, -means], axis=1) / size
        none = np.full((len(means), 1), 1 - self.dim * chance)
        law = np.concatenate([chance * (1 + signs) / 2, none], axis=1)
        noise = decoded - means[:, None]  # an input, a report, a coordinate
        squares = np.sum((noise @ weights) * noise, axis=2)
        third = np.einsum("kr,kr,krd->kd", law, squares, noise)
        mean = np.sum(law * squares, axis=1)
        return SelfMoments(third, np.sum(law * squares**2, axis=1) - mean**2)

    def _factor(self, word_bits: int) -> float:
        """The factor c of what a report stands for."""
        return 2.0 ** (word_bits - 1) / self.reach(word_bits)

    def channel(self, word_bits: int = 32, inputs: Any = None) -> list[list[Fraction]]:
        """The exact probabilities of `2 j + (s > 0)` and of no coordinate, a row for each input."""
        inputs = self.extreme_inputs() if inputs is None else np.asarray(inputs)
        borders = np.asarray(self.build(word_bits).borders(jnp.asarray(inputs, jnp.float32)))
        words = 2**word_bits
        picked = Fraction(words // self.dim, words)
        rows = []
        for row in borders.tolist():
            signs = [(1 - Fraction(plus, words), Fraction(plus, words)) for plus in row]
            rows.append([picked * p for pair in signs for p in pair] + [1 - self.dim * picked])
        return rows


def _dim(dim: int, word_bits: int) -> float:
    """`2**32 / w`, dim up to what is left over; one over the probability of a coordinate."""
    return 2**word_bits / (2**word_bits // dim)


@params
class CoordinateParams(MeanRound):
    """What a user of `CoordinateSampling` runs, and what the analyst makes of the summed reports.

    Attributes:
      reach: int32[], t.
      radius: float32[], r.
      unit: float64[], `c r 2**32 / w`, what 1 at a coordinate stands for.
      dim: static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    reach: jax.Array | np.ndarray
    radius: jax.Array | np.ndarray
    unit: jax.Array | np.ndarray
    dim: int = static()
    word_bits: int = static(default=32)

    @property
    def num_words(self) -> int:
        """One for the coordinate, one for the sign."""
        return 2

    @property
    def value_shape(self) -> tuple[int, ...]:
        """(dim,)."""
        return (self.dim,)

    @property
    def largest_report(self) -> int:
        """A report adds 1 or -1 to a coordinate of the sum."""
        return 1

    def borders(self, values: jax.Array) -> jax.Array:
        """Words below which the sign of each coordinate is +1, uint32[...]; NaN counts as 0."""
        reach = jnp.asarray(self.reach).astype(jnp.float32)  # exact: 24 bits
        moved = jnp.rint(jnp.nan_to_num(values) * (reach / jnp.asarray(self.radius)))
        steps = jnp.clip(moved, -reach, reach).astype(jnp.int32)
        return np.uint32(2 ** (self.word_bits - 1)) + steps.astype(jnp.uint32)

    def from_bits(self, words: Words, value: jax.Array, /) -> jax.Array:
        """One user's report: `2 j + (s > 0)`, or `2 dim` for no coordinate; int32[]."""
        place = (words[0] // np.uint32(2**self.word_bits // self.dim)).astype(jnp.int32)
        picked = place < self.dim
        plus = words[1] < self.borders(value)[jnp.where(picked, place, 0)]
        return jnp.where(picked, 2 * place + plus.astype(jnp.int32), 2 * self.dim)

    def summands(self, reports: jax.Array) -> jax.Array:
        """The vectors of -1, 0 and 1 that reports add to the sum, int32[..., dim].

        A report of no coordinate adds 0, as `one_hot` of an index out of range is 0.
        """
        signs = 2 * (reports & 1) - 1
        return signs[..., None] * jax.nn.one_hot(reports >> 1, self.dim, dtype=jnp.int32)

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """Draws the tally at once: for each input who picks which coordinate, and the signs."""

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
            drawn = self._drawn(key, counts, inputs)
            return {name: drawn[name] for name in ("sum", "users")}

        return TallyLaw(draw, self._cost)

    @property
    def squares_law(self) -> TallyLaw[dict[str, Count]]:
        """The same with the sums of the squares, which say who picks which coordinate."""
        return TallyLaw(self._drawn, self._cost)

    def _cost(self, work: Work) -> float:
        return work.draws(2 * work.num_bins * self.dim)

    def _drawn(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        words = 2**self.word_bits
        shares = np.append(np.full(self.dim, words // self.dim), words % self.dim)
        with jax.enable_x64(True):
            users = multinomial(jax.random.fold_in(key, 0), counts, shares.astype(np.float64))
            picked = users[:, : self.dim]
            plus = self.borders(jnp.asarray(inputs)).astype(jnp.float64) / words
            up = binomial(jax.random.fold_in(key, 1), picked, plus)
        total, squares = (up + up - picked).sum(axis=0), picked.sum(axis=0)
        return {"sum": total, "users": counts.sum(), "squares": squares}
