"""One randomized bit of a random Hadamard coefficient."""

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp_kernels.fwht import fwht

from .._spec import check_epsilon, check_int
from .._x64 import compiled_in_float64
from ..random import Count
from ._butterfly import butterfly, thin
from ._exact import exp_lower, log_upper
from ._hadamard_words import check_listable, chosen, grain, num_words, parity, random_row
from ._params import IndependentUsersParams
from ._randomizer import check_word_bits
from ._support import SupportOracle

MAX_VALUES = 2**24


@dataclasses.dataclass(frozen=True, slots=True)
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

    num_values: int
    epsilon: float

    def __post_init__(self):
        object.__setattr__(
            self, "num_values", check_int("num_values", self.num_values, low=2, high=MAX_VALUES)
        )
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        self._true(32)

    @property
    def _row_bits(self) -> int:
        return (self.num_values - 1).bit_length()

    def _true(self, word_bits: int) -> int:
        """The number of last words that tell the truth."""
        word_bits = check_word_bits(word_bits)
        unit = grain(self._row_bits, word_bits)
        space = 2**word_bits // unit
        highest = math.log(space - 1) if space > 1 else -math.inf
        if self.epsilon > highest:
            raise ValueError(
                f"epsilon must be at most {highest:.6g} for num_values = {self.num_values}, got "
                f"{self.epsilon!r}: no smaller probability of a lie than 1 / {space} is left."
            )
        true = space - math.ceil(space / (exp_lower(self.epsilon) + 1))
        if 2 * true <= space:
            raise ValueError(
                f"epsilon must be at least about {4 / space:.3g} for num_values = "
                f"{self.num_values}, got {self.epsilon!r}: the bit would be no better than a coin."
            )
        return true * unit

    def build(self, word_bits: int = 32) -> "HadamardBitParams":
        """The params; `word_bits=8` makes a twin whose words can be enumerated."""
        true = np.asarray(self._true(word_bits), np.uint32)
        return HadamardBitParams(true, self.num_values, word_bits)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """The realised p, and 1/2: how often a report supports one's own value, and another."""
        return Fraction(self._true(word_bits), 2**word_bits), Fraction(1, 2)

    def channel(self, word_bits: int = 32) -> list[list[Fraction]]:
        """The exact `Pr[report = y | x]` as Fractions, row x, column `y = j + D b`.

        Raises:
          ValueError: it has more than 2**22 entries.
        """
        k, size = self.num_values, 2**self._row_bits
        check_listable(k, 2 * size)
        p, _ = self.probabilities(word_bits)
        truth, lie = p / size, (1 - p) / size
        return [
            [truth if (j & x).bit_count() % 2 == b else lie for b in (0, 1) for j in range(size)]
            for x in range(k)
        ]

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p / (1 - p)), rounded up; at most `epsilon`."""
        p, _ = self.probabilities(word_bits)
        return log_upper(p / (1 - p))

    def covariance(self, value) -> np.ndarray:
        """The exact covariance of one user's estimate, float64[k, k]: `c**2 - 1{q = v}`, diagonal.

        Args:
          value: int, the user's value.
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        return np.diag(self.variance(np.eye(self.num_values, dtype=np.int64)[value]))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HadamardBitParams(IndependentUsersParams):
    """The params of `HadamardBit`: a pytree.

    Attributes:
      true: uint32[], a user's bit is true when its last word is below `true`.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    true: jax.Array | np.ndarray
    num_values: int = dataclasses.field(metadata={"static": True})
    word_bits: int = dataclasses.field(default=32, metadata={"static": True})

    iid_stream: ClassVar[int] = 2

    @property
    def row_bits(self) -> int:
        """log2 D."""
        return (self.num_values - 1).bit_length()

    @property
    def num_words(self) -> int:
        """One word per user up to D = 256, else two."""
        return num_words(self.row_bits)

    @property
    def num_reports(self) -> int:
        """2 D."""
        return 2 ** (self.row_bits + 1)

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words].
          value: int32[] in [0, k); clamped into it.

        Returns:
          int32[] in [0, 2 D): `j + D b`.
        """
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)
        row = random_row(words, self.row_bits)
        lie = ~chosen(words, self.row_bits, self.true)
        return row | ((parity(row & value) ^ lie.astype(jnp.int32)) << self.row_bits)

    def probabilities(self):
        """The realised (p, 1/2) as float64; only inside an x64 block."""
        p = jnp.asarray(self.true).astype(jnp.float64) / 2.0**self.word_bits
        return p, jnp.full_like(p, 0.5)

    @compiled_in_float64
    def estimate(self, tally: Count):
        """Unbiased counts of the users' values, float[k]."""
        p, _ = self.probabilities()
        reports = tally.f64().reshape(*tally.shape[:-1], 2, -1)
        signed = fwht(reports[..., 0, :] - reports[..., 1, :])
        return signed[..., : self.num_values] / (2 * p - 1)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """A tally drawn at once, exact in law, in O(D log D) draws for any number of users.

        A binomial for each value says how many of its users tell the truth; then all of them draw
        their rows together (`butterfly`).

        Args:
          key: a key; it is folded.
          counts: Count[k], the users' values.
          inputs: unused; the values are the bins.

        Returns:
          Count[2 D].
        """
        del inputs
        p, _ = self.probabilities()
        users = counts.f64()
        true = thin(jax.random.fold_in(key, 0), counts, p).f64()
        size = 2**self.row_bits
        state = jnp.zeros((1, 2, size)).at[0, :, : self.num_values].set([true, users - true])
        rows = butterfly(jax.random.fold_in(key, 1), state, forced=False)
        return Count.from_float(rows.reshape(2 * size))

    def report_law(self, law):
        p, _ = self.probabilities()
        mean = (2 * p - 1) * fwht(jnp.pad(law, (0, 2**self.row_bits - self.num_values)))
        return jnp.concatenate([1 + mean, 1 - mean])

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: it draws 2 D log2 D halves."""
        del num_users
        return 200.0 * num_bins + 100.0 * self.row_bits * 2**self.row_bits
