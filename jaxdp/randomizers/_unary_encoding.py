"""Unary encodings: one randomized bit for each value."""

import dataclasses
import math
from fractions import Fraction
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, UInt32
from numpy.typing import ArrayLike

from .._checks import Choice, Epsilon, Integer
from .._contract import Kernels, Padded, TallyLaw, Tree, Words, field, params, spec, static
from .._x64 import compiled_in_float64
from ..accounting import PairLaw
from ..random import Count, binomials
from ._bit_planes import NoisyBits
from ._count_noise import SetNoise
from ._exact import exp_lower, log_upper
from ._pair_laws import set_pair_law
from ._params import padded_bins
from ._randomizer import check_word_bits, values_of
from ._support import SetRound, SupportOracle, symmetric_noise

MAX_VALUES = 2**20
_MAX_REPORTS = 2**16  # columns of a channel that is listed


@spec
class UnaryEncoding(SupportOracle):
    """Unary encoding: send a bit for each value, each bit flipped at random on its own.

    Bit v of a report is 1 with probability p if v is the user's value and q otherwise.
    "optimal" (OUE) has `p = 1/2` and `q = 1 / (e**epsilon + 1)`; "symmetric" (basic RAPPOR) has
    `p = 1 - q` and `q = 1 / (e**(epsilon/2) + 1)`.

    A random number of 32 bits decides a bit of the report: it is 1 where the number is below a
    threshold. The builder rounds q up to the next multiple of 2**-32, then p is exactly 1/2 or
    1 - q. A user takes as many words as there are values, rounded up to a power of two, and above
    32 to a multiple of 32. The digits of the numbers lie across them, the most significant ones
    first: a CPU compares 32 numbers at a time, and makes other words than the first only for the
    few numbers whose first 12 bits are those of their threshold.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: the likelihood ratio of two values is at most
        `p (1 - q) / (q (1 - p)) <= e**epsilon`, in rational arithmetic, and it is attained.
        `exact_epsilon()` is its logarithm. It holds for every int32 input, since values outside the
        domain are clamped into it.
      * Estimate: `(N_v - n q) / (p - q)` counts the users with value v without bias, N_v being the
        number of reports whose bit v is 1.
      * Variance, exact for a fixed data set with counts c_v:
        `(c_v p (1 - p) + (n - c_v) q (1 - q)) / (p - q)**2`. The estimated counts are independent.

    Edge cases:
      ===================================  ======================================================
      epsilon above 22.18 (44.36)          ValueError: a word of 32 bits has no such probability
      epsilon below about 1e-9             ValueError: p and q would be the same multiple of 2**-32
      value outside the domain             ValueError from a Population; the params clamp it
      num_values above 16                  `channel()` raises ValueError: it has 2**k columns
      ===================================  ======================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**20.
      epsilon: privacy parameter, > 0.
      kind: "optimal" or "symmetric".

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import UnaryEncoding
      >>> oue = UnaryEncoding(num_values=8, epsilon=1.0)
      >>> oue.variance([100, 900, 0, 0, 0, 0, 0, 0])[0].round(4).item()
      3782.6944

    References:
      Wang, Blocki, Li, Jha (2017), Locally differentially private protocols for frequency
      estimation, section 4; Erlingsson, Pihur, Korolova (2014), RAPPOR.
    """

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())
    kind: Literal["optimal", "symmetric"] = field(Choice("optimal", "symmetric"), default="optimal")

    def validate(self) -> None:
        """Raises ValueError where a word cannot realise epsilon."""
        self._thresholds(32)

    def _thresholds(self, word_bits: int) -> tuple[int, int]:
        """How many of the 2**word_bits words set the bit of the user's value, and another bit."""
        word_bits = check_word_bits(word_bits)
        space = 2**word_bits
        share = 1 if self.kind == "optimal" else 2  # a symmetric bit pays for both 0 and 1
        highest = share * math.log(space - 1)
        if self.epsilon > highest:
            raise ValueError(
                f"epsilon must be at most {highest:.6g} for kind = {self.kind!r}, got "
                f"{self.epsilon!r}: a word of {word_bits} bits has no smaller probability than "
                f"2**-{word_bits}."
            )
        other = math.ceil(space / (exp_lower(self.epsilon / share) + 1))
        if 2 * other >= space:
            raise ValueError(
                f"epsilon must be at least about {4 * share / space:.3g} for kind = {self.kind!r}, "
                f"got {self.epsilon!r}: both probabilities round to the same multiple of "
                f"2**-{word_bits}."
            )
        return (space // 2 if self.kind == "optimal" else space - other), other

    def build(self, word_bits: int = 32) -> "UnaryEncodingParams":
        """The params; `word_bits=8` makes a twin with words of 8 bits."""
        thresholds = np.asarray(self._thresholds(word_bits), np.uint32)
        return UnaryEncodingParams(thresholds, self.num_values, word_bits)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """The realised (p, q)."""
        own, other = self._thresholds(word_bits)
        return Fraction(own, 2**word_bits), Fraction(other, 2**word_bits)

    def reports(self) -> np.ndarray | None:
        """The report of each column of `channel`, uint32[2**k, 1]: that of column j is j.

        None for k > 16, where there are too many to list.
        """
        if 2**self.num_values > _MAX_REPORTS:
            return None
        return np.arange(2**self.num_values, dtype=np.uint32)[:, None]

    def joint_support(self) -> tuple[Fraction, Fraction]:
        """Returns (p q, q q), since the bits of a report are independent."""
        p, q = self.probabilities()
        return p * q, q * q

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact probabilities of all reports, row x, column as in `reports`; None for k > 16.

        Args:
          word_bits: bits of a word.
          inputs: the values of the rows; all of them when None.
        """
        reports = self.reports()
        if reports is None:
            return None
        p, q = self.probabilities(word_bits)
        k = self.num_values
        bits = (reports >> np.arange(k, dtype=np.uint32)) & 1
        others = [q**ones * (1 - q) ** (k - 1 - ones) for ones in range(k)]
        ones = bits.sum(axis=1).tolist()
        return [
            [
                p * others[m - 1] if bit else (1 - p) * others[m]
                for m, bit in zip(ones, bits[:, x].tolist(), strict=True)
            ]
            for x in values_of(inputs, k)
        ]

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """One kind: the bits of both values, and of a third one; all others are one bit's."""
        k = self.num_values
        if k == 2:
            return None
        p, q = (float(x) for x in self.probabilities())
        ones = np.indices((2, 2, 2)).sum(axis=0)
        patterns = q**ones * (1 - q) ** (3 - ones)
        patterns[1, 1, 1] -= q**k  # all bits are 1: as likely under all values
        return (set_pair_law(patterns, p / q, (1 - p) / (1 - q), p * q ** (k - 1)),)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p (1 - q) / (q (1 - p))), rounded up."""
        p, q = self.probabilities(word_bits)
        return log_upper(p * (1 - q) / (q * (1 - p)))

    def noise(self) -> SetNoise:
        """The moments of the noise: bits are independent."""
        p, q = map(float, self.probabilities())
        powers = q ** np.arange(5)
        inclusion = np.stack([(1 - p) * powers, p * powers])
        symmetric = symmetric_noise(self.probabilities(), self.joint_support())
        return SetNoise.of_sets(symmetric, p, q, inclusion)


@params
class UnaryEncodingParams(SetRound):
    """The params of `UnaryEncoding`: a pytree.

    Attributes:
      thresholds: uint32[2], words below which the bit of the user's value, or another, is 1.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    thresholds: UInt32[Array | np.ndarray, "2"]
    num_values: int = static()
    word_bits: int = static(default=32)

    @property
    def _bits(self) -> NoisyBits:
        thresholds = self.thresholds[::-1][None]  # of other values, and of the user's
        return NoisyBits(thresholds, self._user, self.num_values, word_bits=self.word_bits)

    def _user(
        self, words: UInt32[Array, "0"], value: Int32[Array, ""]
    ) -> tuple[UInt32[Array, "0"], Int32[Array, "1"]]:
        """Nothing but the bits, of which that of the value is 1."""
        return words, jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)[None]

    @property
    def num_words(self) -> int:
        """One word for each value, of as many as there are lanes."""
        return self._bits.num_words

    @property
    def kernels(self) -> Kernels[dict[str, Count]]:
        """On a CPU a few digits of all bits first."""
        return self._bits.kernels

    def probabilities(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The realised (p, q) as float64, exact; only inside an x64 block."""
        p, q = jnp.asarray(self.thresholds).astype(jnp.float64) / 2.0**self.word_bits
        return p, q

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> UInt32[Array, " W"]:
        """One user's report: bit v is bit `v % 32` of entry `v // 32`.

        A value outside the domain is clamped into it.
        """
        return self._bits.report(words, value)

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """Two binomials for each bit: given the users' values the bits are independent.

        They are not for users drawn from a distribution, so the counts of these are drawn first.
        """
        return TallyLaw(
            self._draw, lambda work: work.draws(2 * self.num_values), padded=self._padded
        )

    @property
    def _padded(self) -> Padded[dict[str, Count]] | None:
        bins = padded_bins(self.num_values)
        if bins is None:
            return None

        def cut(tally: dict[str, Count]) -> dict[str, Count]:
            return tally | {"support": tally["support"][..., : self.num_values]}

        return Padded(dataclasses.replace(self, num_values=bins), cut)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        del inputs
        p, q = self.probabilities()
        users = counts.sum()
        others = Count.zeros(counts.shape) + users - counts
        true_key, false_key = jax.random.split(key)
        true, false = binomials([(true_key, counts, p), (false_key, others, q)])
        return {"support": true + false, "users": users}
