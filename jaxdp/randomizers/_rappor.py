"""RAPPOR: Bloom filters with permanent and instantaneous randomized response."""

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from .._spec import check_epsilon, check_int, check_real
from ._bloom import MAX_HASHES, BloomDesign, bloom_filters, bloom_positions
from ._exact import exp_lower, log_upper
from ._randomizer import check_word_bits
from ._rappor_decoder import solution, user_covariance, user_variances
from ._rappor_params import RapporParams
from ._support import LinearOracle

MAX_VALUES = 2**11
MAX_COHORTS = 2**8
MAX_WORDS = 2**16
_MAX_REPORTS = 2**16  # columns of a channel that is listed


@dataclasses.dataclass(frozen=True, slots=True)
class Rappor(LinearOracle):
    """RAPPOR: repeated reports of a Bloom filter of one value, randomized twice.

    A user is in one of C cohorts for good, at random. Its value sets h of the B bits of a filter,
    as the public hash functions of the cohort say. Each bit is flipped *permanently* with
    probability f / 2. Then, in each of R rounds, the user sends 1 with probability q for a bit that
    is permanently 1, and with probability p for a 0 (*instantaneous* response).

    Words decide as in `UnaryEncoding`. The builder takes the smallest f / 2, a multiple of 2**-32,
    with `((1 - f/2) / (f/2))**(2 h) <= e**epsilon`; p and q are rounded to multiples of 2**-32.

    The analyst counts the ones of each bit in each cohort, over all rounds. Unbiased estimates of
    the number of users who set a bit follow, and from these the users of each candidate value by
    least squares, since a value's users are in each cohort with probability 1 / C.

    Formal guarantees:
      * Privacy: pure epsilon-LDP for any number of rounds, exactly, since all reports are made of
        the permanent bits. Two values may differ in 2 h bits, and do if `exact_epsilon()` is
        attained in the limit of many rounds. `report_epsilon(R)` is what R rounds reveal. It holds
        for every int32 input, since values outside the domain are clamped into it.
      * Estimate: of the counts of all values, without bias.
      * Variance, exact for a fixed data set, over cohorts and noise: `variance`, by linear algebra.

    Edge cases:
      ===================================  ======================================================
      epsilon above 44.36 h                ValueError: a word of 32 bits has no such probability
      epsilon below about `h / 2**29`      ValueError: f would be 1
      q = 1                                realised as 1 - 2**-32
      filters do not tell values apart     ValueError: take more bits or cohorts
      value outside the domain             ValueError from a Population; the params clamp it
      more than 2**16 reports              `channel()` raises ValueError
      ===================================  ======================================================

    Args:
      num_values: k, the candidates {0, .., k-1}; 2 to 2**11.
      epsilon: privacy parameter of all reports of a user together, > 0. A given f corresponds to
        `epsilon = 2 h ln((2 - f) / f)`.
      num_bits: B, bits of a filter, at least 2 h.
      num_hashes: h, bits that a value sets; 1 to 8.
      num_cohorts: C, a power of two up to 256.
      num_rounds: R, reports of each user. A user takes `1 + (1 + R) B` words, at most 2**16.
      p: probability to send 1 for a permanent 0, in [0, q).
      q: probability to send 1 for a permanent 1, in (p, 1].
      seed: picks the public hash functions, >= 0.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import Rappor
      >>> rappor = Rappor(num_values=20, epsilon=4.0, num_bits=16, num_hashes=2, num_cohorts=8)
      >>> rappor.exact_epsilon() <= 4.0, round(rappor.report_epsilon(), 3)
      (True, 0.992)

    References:
      Erlingsson, Pihur, Korolova (2014), RAPPOR: randomized aggregatable privacy-preserving ordinal
      response; its filters may set fewer than h bits, where two hashes fall together.
    """

    num_values: int
    epsilon: float
    num_bits: int = 32
    num_hashes: int = 2
    num_cohorts: int = 8
    num_rounds: int = 1
    p: float = 0.5
    q: float = 0.75
    seed: int = 0

    def __post_init__(self):
        def keep(name, value):
            object.__setattr__(self, name, value)

        keep("num_values", check_int("num_values", self.num_values, low=2, high=MAX_VALUES))
        keep("epsilon", check_epsilon(self.epsilon))
        hashes = check_int("num_hashes", self.num_hashes, low=1, high=MAX_HASHES)
        keep("num_hashes", hashes)
        keep("num_bits", check_int("num_bits", self.num_bits, low=2 * hashes, high=2**14))
        cohorts = check_int("num_cohorts", self.num_cohorts, low=1, high=MAX_COHORTS)
        if cohorts & (cohorts - 1):
            raise ValueError(
                f"num_cohorts must be a power of two, got {cohorts}: a word picks the cohort "
                "without bias."
            )
        keep("num_cohorts", cohorts)
        keep("num_rounds", check_int("num_rounds", self.num_rounds, low=1))
        num_words = 1 + (1 + self.num_rounds) * self.num_bits
        if num_words > MAX_WORDS:
            raise ValueError(
                f"num_rounds = {self.num_rounds} with num_bits = {self.num_bits} takes {num_words} "
                f"words a user, more than {MAX_WORDS}; take fewer."
            )
        keep("p", check_real("p", self.p, low=0.0, high=1.0, open_ends=False))
        keep("q", check_real("q", self.q, low=0.0, high=1.0, open_ends=False))
        keep("seed", check_int("seed", self.seed, low=0, high=2**63 - 1))
        self._law(32)
        solution(self.design)

    @property
    def design(self) -> BloomDesign:
        """What the public Bloom filters depend on."""
        return BloomDesign(
            self.num_values, self.num_cohorts, self.num_bits, self.num_hashes, self.seed
        )

    def _law(self, word_bits: int) -> "_Law":
        """The realised f / 2, p and q as numbers of words."""
        word_bits = check_word_bits(word_bits)
        space, share = 2**word_bits, 2 * self.num_hashes
        highest = share * math.log(space - 1)
        if self.epsilon > highest:
            raise ValueError(
                f"epsilon must be at most {highest:.6g} for num_hashes = {self.num_hashes}, got "
                f"{self.epsilon!r}: a word of {word_bits} bits has no smaller probability than "
                f"2**-{word_bits}."
            )
        flip = math.ceil(space / (exp_lower(self.epsilon / share) + 1))
        while Fraction(space - flip, flip) ** share > exp_lower(self.epsilon):
            flip += 1
        if 2 * flip >= space:
            raise ValueError(
                f"epsilon must be at least about {4 * share / space:.3g} for num_hashes = "
                f"{self.num_hashes}, got {self.epsilon!r}: f would be 1 in words of {word_bits} "
                "bits."
            )
        low, high = (min(round(x * space), space - 1) for x in (self.p, self.q))
        if low >= high:
            raise ValueError(
                f"p must be below q by 2**-{word_bits} at least, got p = {self.p!r} and q = "
                f"{self.q!r}: reports would not depend on the value."
            )
        return _Law(flip, low, high)

    @property
    def f(self) -> float:
        """The realised f: a permanent bit is random with probability f, and the filter's else."""
        return 2 * self._law(32).flip / 2**32

    def build(self, word_bits: int = 32) -> "RapporParams":
        """The params; `word_bits=8` makes a twin with words of 8 bits."""
        exact = solution(self.design)
        high = exact.astype(np.float32)
        return RapporParams(
            np.asarray(self._law(word_bits), np.uint32),
            bloom_positions(self.design),
            high,
            (exact - high).astype(np.float32),
            self.num_bits,
            self.num_rounds,
            word_bits,
        )

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """The realised (q*, p*): of a report's bit to be 1 if the filter's bit is 1, and if 0."""
        return self._pattern(1, 1, 1, word_bits), self._pattern(0, 1, 1, word_bits)

    def _pattern(self, bit: int, rounds: int, ones: int, word_bits: int = 32) -> Fraction:
        """The probability of one sequence of reported bits, with so many ones, given the bit."""
        flip, p, q = (Fraction(w, 2**word_bits) for w in self._law(word_bits))
        set_ = 1 - flip if bit else flip
        zeros = rounds - ones
        return set_ * q**ones * (1 - q) ** zeros + (1 - set_) * p**ones * (1 - p) ** zeros

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter of all reports: 2 h ln((1 - f/2) / (f/2)), rounded up.

        The supremum over all numbers of rounds, for two values without a common bit.
        """
        flip = self._law(word_bits).flip
        return log_upper(Fraction(2**word_bits - flip, flip) ** (2 * self.num_hashes))

    def report_epsilon(self, num_rounds: int = 1, word_bits: int = 32) -> float:
        """The exact privacy parameter of the reports of some rounds, rounded up.

        The likelihood ratio of a bit is monotone in its number of ones. So the worst reports
        are constant over the rounds, 1 where only one filter has a 1, and 0 where only the other
        has: h bits each, for two values without a common bit.

        Args:
          num_rounds: number of reports; 1 for a single one.
          word_bits: bits of a word.
        """
        r = check_int("num_rounds", num_rounds, low=1, high=2**12)
        ones, zeros = (
            [self._pattern(bit, r, ones, word_bits) for bit in (0, 1)] for ones in (r, 0)
        )
        return log_upper((ones[1] / ones[0] * zeros[0] / zeros[1]) ** self.num_hashes)

    def reports(self) -> np.ndarray:
        """The report of each column of `channel`: uint8[m, 1 + R B], cohorts slowest."""
        length = self.num_rounds * self.num_bits
        number = self.num_cohorts * 2**length
        if number > _MAX_REPORTS:
            raise ValueError(
                f"num_bits = {self.num_bits} in {self.num_rounds} rounds and {self.num_cohorts} "
                f"cohorts make {number} reports, too many to list; `probabilities()` gives the "
                "structure of the channel."
            )
        cohorts = range(self.num_cohorts)
        bits = itertools.product((0, 1), repeat=length)
        return np.array([(c, *b) for c, b in itertools.product(cohorts, bits)], np.uint8)

    def channel(self, word_bits: int = 32) -> list[list[Fraction]]:
        """The exact probabilities of all reports as Fractions, row x, column as in `reports`."""
        reports, rounds = self.reports(), self.num_rounds
        ones = reports[:, 1:].reshape(-1, rounds, self.num_bits).sum(axis=1).tolist()
        law = [
            [self._pattern(bit, rounds, m, word_bits) for m in range(rounds + 1)] for bit in (0, 1)
        ]
        share = Fraction(1, self.num_cohorts)
        filters = bloom_filters(self.design).astype(int).tolist()
        return [
            [
                share * math.prod(law[b][m] for b, m in zip(filters[c][x], column, strict=True))
                for c, column in zip(reports[:, 0].tolist(), ones, strict=True)
            ]
            for x in range(self.num_values)
        ]

    def _bit_variances(self) -> tuple[float, float]:
        """The variance of a user's estimate of a bit that its filter has as 0, and as 1."""
        flip, p, q = (w / 2**32 for w in self._law(32))

        def of(permanent):
            fresh = permanent * q * (1 - q) + (1 - permanent) * p * (1 - p)
            lasting = (q - p) ** 2 * flip * (1 - flip)
            return (fresh / self.num_rounds + lasting) / ((1 - 2 * flip) * (q - p)) ** 2

        return of(flip), of(1 - flip)

    def _user_variances(self) -> np.ndarray:
        return user_variances(self.design, *self._bit_variances())

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of one user's estimate, float64[k, k].

        Args:
          value: the user's value, an int in [0, k).
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        return user_covariance(self.design, *self._bit_variances(), value)


class _Law(NamedTuple):
    """Thresholds in words: to flip a permanent bit, and to send 1 for a 0 and for a 1."""

    flip: int
    p: int
    q: int
