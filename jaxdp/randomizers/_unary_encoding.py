"""Unary encodings: one randomized bit for each value."""

import dataclasses
import math
from fractions import Fraction
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_choice, check_epsilon, check_int
from .._x64 import compiled_in_float64
from ..random import Count, binomial
from ._exact import exp_lower, log_upper
from ._randomizer import check_word_bits
from ._support import SupportOracle, SupportParams

MAX_VALUES = 2**20
_MAX_REPORTS = 2**16  # columns of a channel that is listed


@dataclasses.dataclass(frozen=True, slots=True)
class UnaryEncoding(SupportOracle):
    """Unary encoding: send a bit for each value, each bit flipped at random on its own.

    Bit v of a report is 1 with probability p if v is the user's value and q otherwise.
    "optimal" (OUE) has `p = 1/2` and `q = 1 / (e**epsilon + 1)`; "symmetric" (basic RAPPOR) has
    `p = 1 - q` and `q = 1 / (e**(epsilon/2) + 1)`.

    One word decides a bit: it is 1 where the word is below a threshold. The builder rounds q up to
    the next multiple of 2**-32, then p is exactly 1/2 or 1 - q.

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
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**20. A user takes k words.
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

    num_values: int
    epsilon: float
    kind: Literal["optimal", "symmetric"] = "optimal"

    def __post_init__(self):
        object.__setattr__(
            self, "num_values", check_int("num_values", self.num_values, low=2, high=MAX_VALUES)
        )
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        check_choice("kind", self.kind, ("optimal", "symmetric"))
        self._thresholds(32)

    def _thresholds(self, word_bits: int) -> tuple[int, int]:
        """Of the 2**word_bits words, how many set the bit of one's own value, and another bit."""
        word_bits = check_word_bits(word_bits)
        space = 2**word_bits
        share = 1 if self.kind == "optimal" else 2  # a symmetric bit pays twice, for own and other
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

    def reports(self) -> np.ndarray:
        """The report of each column of `channel`, bool[2**k, k]: bit v of column j is that of j."""
        if 2**self.num_values > _MAX_REPORTS:
            raise ValueError(
                f"num_values must be at most 16 to list the channel, got {self.num_values}: it has "
                f"2**{self.num_values} reports; `probabilities()` gives its structure."
            )
        columns = np.arange(2**self.num_values)[:, None]
        return (columns >> np.arange(self.num_values)) & 1 == 1

    def channel(self, word_bits: int = 32) -> list[list[Fraction]]:
        """The exact probabilities of all reports as Fractions, row x, column as in `reports`."""
        p, q = self.probabilities(word_bits)
        k = self.num_values
        others = [q**ones * (1 - q) ** (k - 1 - ones) for ones in range(k)]
        ones = self.reports().sum(axis=1).tolist()
        return [
            [
                p * others[m - 1] if own else (1 - p) * others[m]
                for m, own in zip(ones, column, strict=True)
            ]
            for column in self.reports().T.tolist()
        ]

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p (1 - q) / (q (1 - p))), rounded up."""
        p, q = self.probabilities(word_bits)
        return log_upper(p * (1 - q) / (q * (1 - p)))

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of one user's estimate, float64[k, k]; diagonal.

        Args:
          value: the user's value, an int in [0, k).
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        own, other, gap = self._spreads()
        spread = np.full(self.num_values, other)
        spread[value] = own
        return np.diag(spread / gap**2)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class UnaryEncodingParams(SupportParams):
    """The params of `UnaryEncoding`: a pytree.

    Attributes:
      thresholds: uint32[2], a bit is 1 when its word is below the first (own value) or second.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    thresholds: jax.Array | np.ndarray
    num_values: int = dataclasses.field(metadata={"static": True})
    word_bits: int = dataclasses.field(default=32, metadata={"static": True})

    @property
    def num_words(self) -> int:
        """One word for each value."""
        return self.num_values

    def probabilities(self):
        """The realised (p, q) as float64, exact; only inside an x64 block."""
        p, q = jnp.asarray(self.thresholds).astype(jnp.float64) / 2.0**self.word_bits
        return p, q

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[k].
          value: int32[] in [0, k); clamped into it.

        Returns:
          bool[k].
        """
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)
        own = jnp.arange(self.num_values, dtype=jnp.int32) == value
        return words < jnp.where(own, self.thresholds[0], self.thresholds[1])

    def tally(self, reports, mask):
        """The ones of each bit among the masked reports, and their number.

        Args:
          reports: bool[n, k].
          mask: bool[n].

        Returns:
          {"support": int32[k], "users": int32[]}.
        """
        ones = jnp.sum(reports & mask[:, None], axis=0, dtype=jnp.int32)
        return {"support": ones, "users": jnp.sum(mask, dtype=jnp.int32)}

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law: two binomials for each bit.

        Given the users' values the bits are independent. They are not for users drawn from a
        distribution, for which the engine draws the counts first.

        Args:
          key: a key; it is folded.
          counts: Count[k], the users' values.
          inputs: unused; the values are the bins.

        Returns:
          {"support": Count[k], "users": Count[]}.
        """
        del inputs
        p, q = self.probabilities()
        users = counts.sum()
        others = Count.zeros(counts.shape) + users - counts
        own = binomial(jax.random.fold_in(key, 0), counts, p)
        return {
            "support": own + binomial(jax.random.fold_in(key, 1), others, q),
            "users": users,
        }

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: it draws 2k binomials."""
        del num_users, num_bins
        return 400.0 * self.num_values
