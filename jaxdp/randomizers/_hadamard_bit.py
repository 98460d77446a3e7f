"""One randomized bit of a random Hadamard coefficient."""

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, UInt32
from numpy.typing import ArrayLike

from jaxdp_kernels.fwht import fwht

from .._bits import parity
from .._checks import Epsilon, Integer
from .._contract import Padded, Tree, Words, Work, field, params, spec, static
from .._x64 import compiled_in_float64
from ..accounting import PairLaw
from ..random import Count
from ._butterfly import butterfly, thin
from ._count_noise import TableNoise
from ._exact import exp_lower, log_upper
from ._hadamard_words import chosen, grain, num_words, random_row
from ._pair_laws import set_pair_law
from ._params import BinRound, DrawnCountsRound, padded_bins
from ._randomizer import check_word_bits, listed_rows
from ._support import SupportOracle, table_noise

MAX_VALUES = 2**24


@spec
class HadamardBit(SupportOracle):
    """One-bit Hadamard response: one randomized entry of the value's column of a Hadamard matrix.

    With D the least power of two >= k, the user draws j uniformly from {0, .., D-1} and reports j
    together with the bit `b = <j, v>` (the parity of j AND v), which is flipped with probability
    `1 - p`, where `p = e**epsilon / (e**epsilon + 1)`. The report is the number `j + D b`. Where j
    is public randomness, the message is one bit.

    j is the lower bits of the first word; the bit is true where the last word is below a threshold.
    Up to D = 256 one word serves both, and p is a multiple of `D / 2**32`; else p is a multiple of
    `2**-32`. It is rounded down.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: `p / (1 - p) <= e**epsilon` in rational arithmetic, and
        j is exactly uniform. It holds for every int32 input, since values outside the domain are
        clamped into it.
      * Estimate: `c sum_i (-1)**(<j_i, v> + b_i)`, with `c = 1 / (2 p - 1)`, counts the users with
        value v without bias: a Walsh-Hadamard transform of the tally.
      * Variance, exact for a fixed data set with counts c_v: `n c**2 - c_v`. Two estimated counts
        are uncorrelated; they are not independent.

    Edge cases:
      =================================  =========================================================
      epsilon too large: 16.6 at least   ValueError: no smaller probability than 2**-24 is left, or
                                         than 2**-32 where there are two words
      epsilon below 2e-7 at the most     ValueError: p would be 1/2
      value outside the domain           ValueError from a Population; the params clamp it
      2 k D above 2**22                  `channel()` raises ValueError
      =================================  =========================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**24.
      epsilon: privacy parameter, > 0.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import HadamardBit
      >>> bit = HadamardBit(num_values=3, epsilon=1.0)
      >>> bit.variance([0, 10, 10]).round(4).tolist()
      [93.6539, 83.6539, 83.6539]

    References:
      Bassily, Smith (2015), Local, private, efficient protocols for succinct histograms; Bell,
      Bellet, Gascón, Kulkarni (2020), Algorithms 2 and 3. Printed with a factor `1 / sqrt(D)` in
      both, these estimate `c_v / D`; here both are left out. Their equation (23) bounds the mean
      squared error by `4 n e**epsilon / (e**epsilon - 1)**2 = n (c**2 - 1)`, which is exceeded by
      the users who do not have the value: it is attained at c_v = n only. "Independent" in their
      Lemma 6 is to be read as uncorrelated.
    """

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())

    def validate(self) -> None:
        """Raises ValueError where a word cannot realise epsilon."""
        self._threshold(32)

    @property
    def _row_bits(self) -> int:
        return (self.num_values - 1).bit_length()

    def _threshold(self, word_bits: int) -> int:
        """The number of last words with which the bit is true."""
        word_bits = check_word_bits(word_bits)
        unit = grain(self._row_bits, word_bits)
        space = 2**word_bits // unit
        highest = math.log(space - 1) if space > 1 else -math.inf
        if self.epsilon > highest:
            raise ValueError(
                f"epsilon must be at most {highest:.6g} for num_values = {self.num_values}, got "
                f"{self.epsilon!r}: no smaller probability of a lie than 1 / {space} is left."
            )
        # The least probability of a lie that is allowed, in units, is rounded up.
        true = space - math.ceil(space / (exp_lower(self.epsilon) + 1))
        if 2 * true <= space:
            raise ValueError(
                f"epsilon must be at least about {4 / space:.3g} for num_values = "
                f"{self.num_values}, got {self.epsilon!r}: the bit would be no better than a coin."
            )
        return true * unit

    def build(self, word_bits: int = 32) -> "HadamardBitParams":
        """The params; `word_bits=8` makes a twin whose words can be enumerated."""
        threshold = np.asarray(self._threshold(word_bits), np.uint32)
        return HadamardBitParams(threshold, self.num_values, word_bits)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities (p, 1/2) that a report supports the user's value, and another one."""
        return Fraction(self._threshold(word_bits), 2**word_bits), Fraction(1, 2)

    def joint_support(self) -> tuple[Fraction, Fraction]:
        """Returns (p / 2, 1 / 4): whether two values are supported is independent."""
        p, q = self.probabilities()
        return p * q, q * q

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact `Pr[report = y | x]`, row x of the inputs, column `y = j + D b`.

        Args:
          word_bits: bits of a word.
          inputs: int[m], the values of the rows; None for all.
        """
        size = 2**self._row_bits
        rows = listed_rows(self.num_values, 2 * size, inputs)
        if rows is None:
            return None
        p, _ = self.probabilities(word_bits)
        # Each row j has probability 1 / D, whatever the value is.
        truth, lie = p / size, (1 - p) / size
        return [
            [truth if (j & x).bit_count() % 2 == b else lie for b in (0, 1) for j in range(size)]
            for x in rows
        ]

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """One kind: the bits of both values, and of a third one, are independent over the rows."""
        size = 2**self._row_bits
        if self.num_values == 2:
            return None
        p, _ = (float(x) for x in self.probabilities())
        patterns = np.full((2, 2, 2), 1 / 8)
        # Row 0 has one bit for all values, every other row both.
        patterns[0, 0, 0] -= 1 / (2 * size)
        patterns[1, 1, 1] -= 1 / (2 * size)
        return (set_pair_law(patterns, 2 * p, 2 * (1 - p), 1 / size),)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p / (1 - p)), rounded up; at most `epsilon`."""
        p, _ = self.probabilities(word_bits)
        return log_upper(p / (1 - p))

    def noise(self) -> TableNoise:
        """The moments of the noise, from the table of the 2 D reports."""
        return table_noise(self.build(), self.num_values)


@params
class HadamardBitParams(BinRound[Count], DrawnCountsRound):
    """The params of `HadamardBit`: a pytree.

    Attributes:
      threshold: uint32[], a user's bit is true when its last word is below it.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    threshold: UInt32[Array | np.ndarray, ""]
    num_values: int = static()
    word_bits: int = static(default=32)

    independent_stream: ClassVar[int] = 2

    @property
    def row_bits(self) -> int:
        """Number of bits of a row, log2 D."""
        return (self.num_values - 1).bit_length()

    @property
    def num_words(self) -> int:
        """One word per user up to D = 256, else two."""
        return num_words(self.row_bits)

    @property
    def num_reports(self) -> int:
        """Number of distinct reports, 2 D."""
        return 2 ** (self.row_bits + 1)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, ""]:
        """One user's report `j + D b`; a value outside the domain is clamped into it."""
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)
        row = random_row(words, self.row_bits)
        lie = ~chosen(words, self.row_bits, self.threshold)
        return row | ((parity(row & value) ^ lie.astype(jnp.int32)) << self.row_bits)

    def probabilities(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The realised (p, 1/2) as float64; only inside an x64 block."""
        p = jnp.asarray(self.threshold).astype(jnp.float64) / 2.0**self.word_bits
        return p, jnp.full_like(p, 0.5)

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, "*batch k"]:
        """Unbiased counts of the users' values: the transform of the signed rows, times c."""
        p, _ = self.probabilities()
        reports = outcome.f64().reshape(*outcome.shape[:-1], 2, -1)
        signed = fwht(reports[..., 0, :] - reports[..., 1, :])
        return signed[..., : self.num_values] / (2 * p - 1)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        """O(D log D) draws: a binomial for each value says how many of its users tell the truth.

        Then all of them draw their rows together (`butterfly`).
        """
        del inputs
        return self._draw_rows(key, counts, None)

    @compiled_in_float64
    def draw_coarse(self, key: jax.Array, counts: Count, bits: Int32[Array, ""]) -> Count:
        """Draws the tally of fewer values, of any number 2**bits, by one program.

        Args:
          key: a key; it is folded.
          counts: Count[k], the users; those with value v of the 2**bits are at `v D / 2**bits`, and
            all other entries are 0.
          bits: at most log2 D.

        Returns:
          Count[2 D]: the users with bit b whose row has the upper bits j are at `j + D b`, for j in
          [0, 2**bits).
        """
        return self._draw_rows(key, counts, bits)

    def _draw_rows(self, key: jax.Array, counts: Count, bits: Int32[Array, ""] | None) -> Count:
        p, _ = self.probabilities()
        users = counts.f64()
        truthful_key, rows_key = jax.random.split(key)
        truthful = thin(truthful_key, counts, p).f64()
        size = 2**self.row_bits
        signs = jnp.zeros((1, 2, size)).at[0, :, : self.num_values]
        state = signs.set([truthful, users - truthful])
        rows = butterfly(rows_key, state, forced=False, bits=bits)
        return Count.from_float(rows.reshape(2 * size))

    @property
    def padded(self) -> Padded[Count] | None:
        """The params of all D values."""
        bins = padded_bins(self.num_values)
        if bins is None:
            return None
        return Padded(dataclasses.replace(self, num_values=bins), lambda tally: tally)

    def report_law(self, law: Float[Array, " k"]) -> Float[Array, " reports"]:
        # Pr[j, b] is (1 + (-1)**b (2 p - 1) E (-1)**<j, v>) / (2 D), without the 2 D.
        p, _ = self.probabilities()
        mean = (2 * p - 1) * fwht(jnp.pad(law, (0, 2**self.row_bits - self.num_values)))
        return jnp.concatenate([1 + mean, 1 - mean])

    @property
    def transform_cost(self) -> float:
        return 0.7 * self.num_reports * self.row_bits

    def over_reports(self, numbers: Float[Array, " reports"]) -> Float[Array, " k"]:
        p, _ = self.probabilities()
        plus, minus = jnp.split(numbers, 2)
        return jnp.sum(numbers) + (2 * p - 1) * fwht(plus - minus)[: self.num_values]

    def _cost(self, work: Work) -> float:
        # A binomial for each bin, and 2 halves for each row and bit at a quarter of its price.
        return work.draws(work.num_bins + self.row_bits * 2**self.row_bits / 2)
