"""Subset selection."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np

from .._spec import check_epsilon, check_int
from ._exact import exp_lower, log_upper
from ._randomizer import check_word_bits
from ._subset_selection_params import SubsetSelectionParams, num_lanes, speaking
from ._support import SupportOracle

MAX_VALUES = 2**20
_MAX_REPORTS = 2**16  # columns of a channel that is listed
_MAX_SILENT = Fraction(1, 100)


@dataclasses.dataclass(frozen=True, slots=True)
class SubsetSelection(SupportOracle):
    """Subset selection: report a random set of d values, which holds your own more often than not.

    With probability `p* = d e**epsilon / (d e**epsilon + k - d)` the set is the user's value and a
    uniformly random set of d - 1 others, else a uniformly random set of d others. It has the least
    variance of the oracles that support sets of one size, d near `k / (e**epsilon + 1)`.

    The first word decides whether the own value is in: the builder takes the smallest `m` with
    `(2**32 - m (k - d)) / (m d) <= e**epsilon`, and `p* = 1 - m (k - d) / 2**32`. Where it is not
    in, the word also picks a first other value. Each further word adds one of the others by Floyd's
    algorithm. A word picks uniformly out of j where it is below the largest multiple of j; in the
    rare case that one of them is not, the user sends the empty set. That happens with the same
    probability r, below `d k / 2**32`, for every value, and the estimate takes it into account. A
    pick depends on all before it, so a user takes several times as long as its d words.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: a report is a set without an order, the sets of d are
        exactly uniform given that they hold the value, or not, and r is the same for all values.
        The ratio is `p* (k - d) / ((1 - p*) d) <= e**epsilon` in rational arithmetic.
        It holds for every int32 input, since values outside the domain are clamped into it.
      * Estimate: `(N_v - n q) / (p - q)` counts the users with value v without bias, N_v being the
        number of sets with v, `p = (1 - r) p*` and `q = (1 - r) (d - p*) / (k - 1)`.
      * Variance, exact for a fixed data set with counts c_v:
        `(c_v p (1 - p) + (n - c_v) q (1 - q)) / (p - q)**2`.

    Edge cases:
      ===================================  ======================================================
      epsilon too large                    ValueError: one word of 32 bits cannot realise it
      epsilon below `k**2 / (2**32 d)`     ValueError: p* would be that of no information
      r above 1 %: k d above about 8e7     ValueError: too many users would be silent
      value outside the domain             ValueError from a Population; the params clamp it
      more than 2**16 sets                 `channel()` raises ValueError
      ===================================  ======================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**20. A user takes d words.
      epsilon: privacy parameter, > 0.
      subset_size: d, 1 to k - 1; None for the one with the least sum of variances, which does not
        depend on the data.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import SubsetSelection
      >>> subset = SubsetSelection(num_values=8, epsilon=1.0)
      >>> subset.subset_size
      2
      >>> subset.variance([100, 900, 0, 0, 0, 0, 0, 0])[0].round(4).item()
      2687.2661

    References:
      Wang, Huang, Wang, Nie, Xu, Yang, Li, Qiao (2016), Mutual information optimally local private
      discrete distribution estimation; Ye and Barg (2018), Optimal schemes for discrete
      distribution estimation under locally differential privacy.
    """

    num_values: int
    epsilon: float
    subset_size: int | None = None

    def __post_init__(self):
        k = check_int("num_values", self.num_values, low=2, high=MAX_VALUES)
        object.__setattr__(self, "num_values", k)
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if self.subset_size is None:
            object.__setattr__(self, "subset_size", _best_size(k, self.epsilon))
        else:
            size = check_int("subset_size", self.subset_size, low=1, high=k - 1)
            object.__setattr__(self, "subset_size", size)
        self._outside(32)
        if self._silence(32) > _MAX_SILENT:
            raise ValueError(
                f"num_values = {k} with subset_size = {self._size} is too large: with words of 32 "
                f"bits {float(self._silence(32)):.1%} of the users would send nothing; take a "
                "smaller subset_size, or UnaryEncoding or HadamardResponse."
            )

    @property
    def _size(self) -> int:
        assert self.subset_size is not None
        return self.subset_size

    def _outside(self, word_bits: int) -> int:
        """m: the words that leave the own value out are m times the k - d first picks."""
        word_bits = check_word_bits(word_bits)
        space, k, d = 2**word_bits, self.num_values, self._size
        highest = math.log((space - k + d) / d) if space > k - d else -math.inf
        if self.epsilon > highest:
            raise ValueError(
                f"epsilon must be at most {highest:.6g} for num_values = {k} and subset_size = {d},"
                f" got {self.epsilon!r}: a word of {word_bits} bits has no smaller probability than"
                f" 2**-{word_bits}."
            )
        m = math.ceil(space / (exp_lower(self.epsilon) * d + k - d))
        if m * k >= space:
            raise ValueError(
                f"epsilon must be at least about {math.log1p(k * k / (d * space)):.3g} for "
                f"num_values = {k} and subset_size = {d}, got {self.epsilon!r}: the own value would"
                f" be in the set as rarely as any other, in words of {word_bits} bits."
            )
        return m

    def _silence(self, word_bits: int) -> Fraction:
        """r, the probability of the empty set."""
        return 1 - speaking(self.num_values, self._size, word_bits)

    def build(self, word_bits: int = 32) -> "SubsetSelectionParams":
        """The params; `word_bits=8` makes a twin with words of 8 bits."""
        k, d = self.num_values, self._size
        keep = 2**word_bits - self._outside(word_bits) * (k - d)
        return SubsetSelectionParams(np.asarray(keep, np.uint32), k, d, word_bits)

    def _inclusion(self, word_bits: int) -> Fraction:
        """The realised p*."""
        outside = self._outside(word_bits) * (self.num_values - self._size)
        return 1 - Fraction(outside, 2**word_bits)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """The realised (p, q): the own value, and another one, in the set."""
        own, speaking = self._inclusion(word_bits), 1 - self._silence(word_bits)
        return speaking * own, speaking * (self._size - own) / (self.num_values - 1)

    def _sets(self) -> list[tuple[int, ...]]:
        k, d = self.num_values, self._size
        if math.comb(k, d) + 1 > _MAX_REPORTS:
            raise ValueError(
                f"num_values = {k} and subset_size = {d} have {math.comb(k, d)} sets, too many to "
                "list; `probabilities()` gives the structure of the channel."
            )
        empty = [()] if self._silence(32) or self._silence(8) else []
        return [*itertools.combinations(range(k), d), *empty]

    def reports(self) -> np.ndarray:
        """The report of each column of `channel`, uint32[m, ceil(k / 32)].

        All sets of d in lexicographic order, and last the empty one if it ever occurs.
        """
        sets = self._sets()
        packed = np.zeros((len(sets), num_lanes(self.num_values)), np.uint32)
        for row, members in zip(packed, sets, strict=True):
            for v in members:
                row[v // 32] |= np.uint32(1 << v % 32)
        return packed

    def channel(self, word_bits: int = 32) -> list[list[Fraction]]:
        """The exact probabilities of all reports as Fractions, row x, column as in `reports`."""
        k, d = self.num_values, self._size
        own, silent = self._inclusion(word_bits), self._silence(word_bits)
        inside = (1 - silent) * own / math.comb(k - 1, d - 1)
        outside = (1 - silent) * (1 - own) / math.comb(k - 1, d)
        return [
            [silent if not s else inside if x in s else outside for s in self._sets()]
            for x in range(k)
        ]

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p* (k - d) / ((1 - p*) d)), rounded up."""
        k, d, m = self.num_values, self._size, self._outside(word_bits)
        return log_upper(Fraction(2**word_bits - m * (k - d), m * d))

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of one user's estimate, float64[k, k].

        Args:
          value: the user's value, an int in [0, k).
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        k, d = self.num_values, self._size
        own, speaking = self._inclusion(32), 1 - self._silence(32)
        p, q = self.probabilities()
        with_own = speaking * own * Fraction(d - 1, k - 1)
        pairs = own * (d - 1) * (d - 2) + (1 - own) * d * (d - 1)
        without = speaking * pairs / ((k - 1) * (k - 2)) if k > 2 else Fraction(0)
        table = np.full((k, k), float(without - q * q))
        np.fill_diagonal(table, float(q * (1 - q)))
        table[value, :] = table[:, value] = float(with_own - p * q)
        table[value, value] = float(p * (1 - p))
        return table / float(p - q) ** 2


def _best_size(k: int, epsilon: float) -> int:
    """The set size with the least sum of variances, p (1 - p) + (k - 1) q (1 - q) over a square."""
    d = np.arange(1, k)
    p = d / (d + (k - d) * math.exp(-epsilon))
    q = (d - p) / (k - 1)
    return 1 + int(np.argmin((p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2))
