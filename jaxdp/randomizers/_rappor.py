"""RAPPOR: Bloom filters with permanent and instantaneous randomized response."""

import functools
import hashlib
import itertools
import math
import struct
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Float32, Int32, UInt32
from numpy.typing import ArrayLike

from jaxdp_kernels.randomize_and_tally import count_reports

from .._checks import By, Epsilon, Integer, Real
from .._contract import Kernels, Round, TallyLaw, Tree, Words, Work, field, params, spec, static
from .._spec import check_int
from .._x64 import compiled_in_float64
from ..accounting import PairLaw
from ..random import Count, binomials, count_bits, everyone, multinomial
from ._bit_planes import NoisyBits, num_lanes, num_packed
from ._exact import exp_lower, log_upper
from ._pair_laws import MOST_SHUFFLED_EPSILON, filter_pair_laws
from ._randomizer import check_word_bits, values_of
from ._support import LinearOracle, packed, packed_limits

MAX_VALUES = 2**11
MAX_HASHES = 8
MAX_BITS = 2**14
MAX_COHORTS = 2**8
MAX_WORDS = 2**16
_MAX_REPORTS = 2**16  # columns of a channel that is listed
_MAX_CONDITION = 1e6
_SOME_VALUES = 8  # that a lower end of shuffled reports looks at
_FEW_COHORTS = 16  # whose bits are counted a cohort after the other


class _Thresholds(NamedTuple):
    """Words below which a permanent bit is flipped, a 0 is sent as 1, and a 1 is."""

    flip: int
    p: int
    q: int


def _check_cohorts(name: str, value: object) -> int:
    """A number of cohorts, or raises unless it is a power of two in range."""
    cohorts = check_int(name, value, low=1, high=MAX_COHORTS)
    if cohorts & (cohorts - 1):
        raise ValueError(
            f"{name} must be a power of two, got {cohorts}: a word picks the cohort without bias."
        )
    return cohorts


@spec
class Rappor(LinearOracle):
    """RAPPOR: repeated reports of a Bloom filter of one value, randomized twice.

    A user is in one of C cohorts for good, at random. Its value sets h of the B bits of a filter,
    as the public hash functions of the cohort say. Each bit is flipped *permanently* with
    probability f / 2. Then, in each of R rounds, the user sends 1 with probability q for a bit that
    is permanently 1, and with probability p for a 0 (*instantaneous* response).

    Numbers of 32 bits decide as in `UnaryEncoding`, and their digits lie across words as there. A
    report is packed into words: the cohort, and the bits of each round. The builder takes the
    smallest f / 2, a multiple of 2**-32, with `((1 - f/2) / (f/2))**(2 h) <= e**epsilon`; p and q
    are rounded to multiples of 2**-32.

    The analyst counts the ones of each bit in each cohort, over all rounds. Unbiased estimates of
    the number of users who set a bit follow, and from these the users of each candidate value by
    least squares, since a value's users are in each cohort with probability 1 / C.

    Formal guarantees:
      * Privacy: pure epsilon-LDP for any number of rounds, exactly, since all reports are made of
        the permanent bits. Two values differ in at most 2 h bits; where some do, `exact_epsilon()`
        is the limit of many rounds. `report_epsilon(R)` is what R rounds reveal. It holds for every
        int32 input, since values outside the domain are clamped into it.
      * Shuffled reports: `shuffle_bracket` is of any number of rounds too; many attain its `lower`.
      * Estimate: the counts of all values, without bias.
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
      num_rounds: R, reports of each user. A user takes `1 + (1 + R) L` words, at most 2**16,
        L being B rounded up to a power of two, and above 32 to a multiple of 32.
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

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())
    num_bits: int = field(Integer(2, MAX_BITS), default=32)
    num_hashes: int = field(Integer(1, MAX_HASHES), default=2)
    num_cohorts: int = field(By(_check_cohorts, (0, 3, 2 * MAX_COHORTS, 8.0, "8")), default=8)
    num_rounds: int = field(Integer(1), default=1)
    p: float = field(Real(0.0, 1.0, closed=True), default=0.5)
    q: float = field(Real(0.0, 1.0, closed=True), default=0.75)
    seed: int = field(Integer(0, 2**63 - 1), default=0)

    def validate(self) -> None:
        """Raises ValueError if words cannot realise the law, or filters cannot separate values."""
        check_int("num_bits", self.num_bits, low=2 * self.num_hashes, high=MAX_BITS)
        num_words = 1 + (1 + self.num_rounds) * num_lanes(self.num_bits)
        if num_words > MAX_WORDS:
            raise ValueError(
                f"num_rounds = {self.num_rounds} with num_bits = {self.num_bits} takes {num_words} "
                f"words a user, more than {MAX_WORDS}; take fewer."
            )
        self._thresholds(32)
        _solution(self.design)

    @property
    def design(self) -> "BloomDesign":
        """The settings on which the public Bloom filters depend."""
        return BloomDesign(
            self.num_values, self.num_cohorts, self.num_bits, self.num_hashes, self.seed
        )

    def _thresholds(self, word_bits: int) -> _Thresholds:
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
        # The share of epsilon was rounded: the condition itself decides.
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
        return _Thresholds(flip, low, high)

    @property
    def f(self) -> float:
        """The realised f: a permanent bit is random with probability f, else the filter's."""
        return 2 * self._thresholds(32).flip / 2**32

    def build(self, word_bits: int = 32) -> "RapporParams":
        """The params; `word_bits=8` makes a twin with words of 8 bits."""
        exact = _solution(self.design)
        high = exact.astype(np.float32)
        return RapporParams(
            np.asarray(self._thresholds(word_bits), np.uint32),
            bloom_positions(self.design),
            high,
            (exact - high).astype(np.float32),
            self.num_bits,
            self.num_rounds,
            word_bits,
        )

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities (q*, p*) that a sent bit is 1, if the filter's bit is 1, and if 0."""
        return self._pattern(1, 1, 1, word_bits), self._pattern(0, 1, 1, word_bits)

    def _pattern(self, bit: int, rounds: int, ones: int, word_bits: int = 32) -> Fraction:
        """The probability of one sequence of reported bits, with so many ones, given the bit."""
        flip, p, q = (Fraction(w, 2**word_bits) for w in self._thresholds(word_bits))
        permanent = 1 - flip if bit else flip
        zeros = rounds - ones
        return permanent * q**ones * (1 - q) ** zeros + (1 - permanent) * p**ones * (1 - p) ** zeros

    def _listed_channel(self) -> None:
        """None: `channel` is of some rounds, and what is claimed holds of any number of them."""
        return None

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """Values without a common bit hide least; and some that are there, for the lower end.

        All reports are made of the cohort and the permanent bits, so what is proven holds for any
        number of rounds; many rounds attain the lower end, as they do `exact_epsilon()`.
        """
        if self.epsilon > MOST_SHUFFLED_EPSILON:
            return None
        positions = bloom_positions(self.design)[:, :_SOME_VALUES]
        return filter_pair_laws(positions, self._thresholds(32).flip / 2**32)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter of all reports: 2 h ln((1 - f/2) / (f/2)), rounded up.

        The supremum over all numbers of rounds, for two values without a common bit.
        """
        flip = self._thresholds(word_bits).flip
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

    def reports(self) -> np.ndarray | None:
        """The report of each column of `channel`: uint32[m, 1 + R ceil(B / 32)], cohorts slowest.

        The bits of the rounds run from all zeros to all ones, the first one slowest. None where
        there are more than 2**16 reports.
        """
        bits = self._listed_bits()
        if bits is None:
            return None
        # So few reports have at most 16 bits in a round: one word.
        sent = (bits << np.arange(self.num_bits, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)
        cohorts = np.repeat(np.arange(self.num_cohorts, dtype=np.uint32), len(sent))
        return np.column_stack([cohorts, np.tile(sent, (self.num_cohorts, 1))])

    def _listed_bits(self) -> np.ndarray | None:
        """What may be sent in a cohort, uint32[m, R, B] of bits; None where that is too much."""
        length = self.num_rounds * self.num_bits
        if self.num_cohorts * 2**length > _MAX_REPORTS:
            return None
        number = np.arange(2**length, dtype=np.uint32)[:, None]
        bits = (number >> np.arange(length, dtype=np.uint32)[::-1]) & 1
        return bits.reshape(-1, self.num_rounds, self.num_bits)

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact probabilities of the reports, a row for each input, columns as in `reports`.

        Args:
          word_bits: bits of a word.
          inputs: int[m], the values of the rows; None for all.
        """
        bits, rounds = self._listed_bits(), self.num_rounds
        if bits is None:
            return None
        ones: list[list[int]] = bits.sum(axis=1).tolist()
        law = [
            [self._pattern(bit, rounds, m, word_bits) for m in range(rounds + 1)] for bit in (0, 1)
        ]
        share = Fraction(1, self.num_cohorts)
        filters = bloom_filters(self.design).astype(int).tolist()
        return [
            [
                share * math.prod(law[b][m] for b, m in zip(filters[c][x], column, strict=True))
                for c, column in itertools.product(range(self.num_cohorts), ones)
            ]
            for x in values_of(inputs, self.num_values)
        ]

    def _bit_variances(self) -> tuple[float, float]:
        """The variance of a user's estimate of a bit that its filter has as 0, and as 1."""
        flip, p, q = (w / 2**32 for w in self._thresholds(32))

        def of(permanent):
            # Given the permanent bit, rounds are independent; the bit itself varies once.
            fresh = permanent * q * (1 - q) + (1 - permanent) * p * (1 - p)
            lasting = (q - p) ** 2 * flip * (1 - flip)
            return (fresh / self.num_rounds + lasting) / ((1 - 2 * flip) * (q - p)) ** 2

        return of(flip), of(1 - flip)

    def _user_variances(self) -> np.ndarray:
        # The estimate is `sum_b weights[v, c, b] (noisy bit b)` in the user's random cohort c. Its
        # second moments in the cohorts are averaged; its mean is 1 for v = x, else 0.
        zero, one = self._bit_variances()
        weights, filters = _weights(self.design)
        squares = weights**2
        noise = zero * squares.sum(axis=(1, 2))[:, None]
        noise = noise + (one - zero) * np.einsum("vcb,cxb->vx", squares, filters, optimize=True)
        means = np.einsum("vcb,cxb->vcx", weights, filters, optimize=True)
        return (noise + (means**2).sum(axis=1)) / self.num_cohorts - np.eye(self.num_values)

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of the estimate from one user, float64[k, k].

        Args:
          value: the user's value, an int in [0, k).
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        zero, one = self._bit_variances()
        weights, filters = _weights(self.design)
        bits = filters[:, value]
        spread = np.where(bits, one, zero)
        noise = np.einsum("vcb,cb,wcb->vw", weights, spread, weights, optimize=True)
        means = np.einsum("vcb,cb->vc", weights, bits)
        second = (noise + means @ means.T) / self.num_cohorts
        second[value, value] -= 1.0
        return second

    def _forms(self, queries: np.ndarray) -> np.ndarray:
        # As `_user_variances`, a cohort at a time: given it, the bits of a report are independent.
        filters = bloom_filters(self.design).astype(np.float64)
        weights = queries @ _solution(self.design)
        zero, one = self._bit_variances()
        second = np.zeros(queries.shape)
        for cohort in filters:
            bits = weights @ cohort
            noise = zero * np.square(bits).sum(axis=1, keepdims=True)
            second += noise + (one - zero) * bits**2 @ cohort.T + (bits @ cohort.T) ** 2
        return second / len(filters) - queries**2


class BloomDesign(NamedTuple):
    """A family of Bloom filters: one for each value in each cohort.

    Attributes:
      num_values: k, the values are 0 .. k-1.
      num_cohorts: C.
      num_bits: B, at least `num_hashes`.
      num_hashes: h, at most `MAX_HASHES`.
      seed: picks the hash functions, in [0, 2**63).
    """

    num_values: int
    num_cohorts: int
    num_bits: int
    num_hashes: int
    seed: int


@functools.lru_cache(maxsize=16)
def bloom_positions(design: BloomDesign) -> np.ndarray:
    """The bits that each value sets in the filter of each cohort.

    The digest of (seed, cohort, value) under BLAKE2b, a hash function that is the same on every
    machine, picks h distinct bits by Floyd's algorithm from words of 64 bits, uniformly up to
    `B / 2**64`.

    Args:
      design: the family.

    Returns:
      int32[C, k, h], read-only; each row sorted and without repeats.

    References:
      Bloom (1970), Space/time trade-offs in hash coding with allowable errors; RFC 7693 (2015), The
      BLAKE2 cryptographic hash.
    """
    k, cohorts, b, h, seed = design
    table = np.empty((cohorts, k, h), np.int32)
    for cohort in range(cohorts):
        for value in range(k):
            message = struct.pack("<3q", seed, cohort, value)
            digest = hashlib.blake2b(message, person=b"jaxdp bloom").digest()
            bits: set[int] = set()
            for word, last in zip(struct.unpack("<8Q", digest), range(b - h, b), strict=False):
                bit = word % (last + 1)
                bits.add(last if bit in bits else bit)
            table[cohort, value] = sorted(bits)
    table.setflags(write=False)
    return table


def bloom_filters(design: BloomDesign) -> np.ndarray:
    """The filters themselves, bool[C, k, B]."""
    return _filters(bloom_positions(design), design.num_bits)


def _filters(positions: np.ndarray, num_bits: int) -> np.ndarray:
    """Positions as bits, int[..., h] to bool[..., B]."""
    return np.any(positions[..., None] == np.arange(num_bits), axis=-2)


@functools.lru_cache(maxsize=16)
def _solution(design: BloomDesign) -> np.ndarray:
    """The matrix of the least-squares decoder, float64[k, k], read-only: `C (X'X)^-1`.

    Let X hold the filters as k columns of C B bits. A user is in each cohort with probability
    `1 / C`, so the numbers of users with a bit have mean `X counts / C`. Least squares gives
    `C (X'X)^-1 X' bits`: without bias for any bits of that mean.

    Raises:
      ValueError: X does not have full rank, or nearly.
    """
    filters = bloom_filters(design).transpose(1, 0, 2)
    columns = filters.reshape(design.num_values, -1).astype(np.float64)
    gram = columns @ columns.T
    eigenvalues = np.linalg.eigvalsh(gram)
    if eigenvalues[0] * _MAX_CONDITION < eigenvalues[-1]:
        raise ValueError(
            f"num_bits = {design.num_bits} in {design.num_cohorts} cohorts do not tell "
            f"{design.num_values} values apart: some combination of their filters is zero, or "
            "nearly; take more bits or cohorts, or another seed."
        )
    inverse = design.num_cohorts * np.linalg.inv(gram)
    inverse.setflags(write=False)
    return inverse


def _weights(design: BloomDesign) -> tuple[np.ndarray, np.ndarray]:
    """The least-squares weight of each bit, float64[k, C, B], and the filters, float64[C, k, B]."""
    filters = bloom_filters(design).astype(np.float64)
    return np.einsum("vx,cxb->vcb", _solution(design), filters), filters


@params
class RapporParams(Round[dict[str, Count]]):
    """The params of `Rappor`: a pytree.

    Attributes:
      thresholds: uint32[3], words below which a permanent bit is flipped, a 0 is sent as 1, and a 1
        is.
      positions: int32[C, k, h], the bits that each value sets in each cohort.
      solution_high: float32[k, k], the matrix of the least-squares decoder, with the next one.
      solution_low: float32[k, k], what the first one lacks.
      num_bits: B, static.
      num_rounds: R, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    thresholds: UInt32[Array | np.ndarray, "3"]
    positions: Int32[Array | np.ndarray, "C k h"]
    solution_high: Float32[Array | np.ndarray, "k k"]
    solution_low: Float32[Array | np.ndarray, "k k"]
    num_bits: int = static()
    num_rounds: int = static()
    word_bits: int = static(default=32)

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.positions.shape[-2]

    @property
    def _bits(self) -> NoisyBits:
        flip, p, q = jnp.asarray(self.thresholds)
        keep = np.uint32(2**self.word_bits % 2**32) - flip  # modulo 2**32
        return NoisyBits(
            jnp.stack([flip, keep, p, q]).reshape(2, 2),
            self._user,
            self.num_bits,
            num_first=1,
            num_rounds=self.num_rounds,
            word_bits=self.word_bits,
        )

    def _user(
        self, words: UInt32[Array, "1"], value: Int32[Array, ""]
    ) -> tuple[UInt32[Array, "1"], Int32[Array, " h"]]:
        """The cohort, and which bits its filter has of the value."""
        value = jnp.clip(value.astype(jnp.int32), 0, self.positions.shape[-2] - 1)
        cohort = words & np.uint32(self._num_cohorts - 1)
        return cohort, jnp.asarray(self.positions)[cohort[0].astype(jnp.int32), value]

    @property
    def num_words(self) -> int:
        """One word for the cohort, and those of the permanent and of all reported bits."""
        return self._bits.num_words

    @property
    def report_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The cohort, and B bits in each round."""
        low, high = packed_limits(self.num_bits)
        low, high = (np.tile(x, self.num_rounds) for x in (low, high))
        return np.append(0, low), np.append(self._num_cohorts - 1, high)

    @property
    def permanent_words(self) -> int:
        """Words that draw the cohort and the permanent bits."""
        return 1 + num_lanes(self.num_bits)

    def extreme_reports(self, queries: np.ndarray | None = None) -> UInt32[np.ndarray, "r length"]:
        """For each query, the two cohorts and the bits in them that move it most."""
        filters = _filters(np.asarray(self.positions), self.num_bits).astype(np.float64)
        high, low = (np.asarray(x, np.float64) for x in (self.solution_high, self.solution_low))
        rows = high + low if queries is None else queries @ (high + low)
        found = []
        for row in np.atleast_2d(rows):
            # A report adds to the query the weights of its bits that are 1, less a share of all.
            weights = row @ filters
            for sign in (-1, 1):
                best = np.maximum(sign * weights, 0).sum(axis=1)
                cohort = int(np.argmax(best - sign * self._base * weights.sum(axis=1)))
                bits = np.tile(packed(sign * weights[cohort] > 0), self.num_rounds)
                found.append(np.append(np.uint32(cohort), bits))
        return np.stack(found)

    @property
    def _base(self) -> float:
        """How likely a report's bit is 1 where the filter's is 0."""
        flip, p, q = np.asarray(self.thresholds) / 2.0**self.word_bits
        return p + flip * (q - p)

    @property
    def kernels(self) -> Kernels[dict[str, Count]]:
        """On a CPU a few digits of all bits first."""
        return self._bits.kernels

    @property
    def _num_cohorts(self) -> int:
        return self.positions.shape[-3]

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """Draws the reports of given users; see `_draw`.

        Counts of independent users are drawn first: the bits of a cohort are dependent otherwise,
        and one multinomial would have a cell for each of 2**B filters.
        """
        return TallyLaw(self._draw, self._cost)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> UInt32[Array, " length"]:
        """One user's report: its cohort, then the bits of each round in ceil(B / 32) words.

        A value outside the domain is clamped into it.
        """
        return self._bits.report(words, value)

    def tally(
        self, reports: UInt32[Array, "n length"], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"ones": Count[C, B], each bit over all rounds, "users": Count[C]}, by cohort."""
        counted, cohort = everyone(reports, mask), reports[:, 0].astype(jnp.int32)
        users = count_reports(cohort, counted, self._num_cohorts)
        sent, width = reports[:, 1:], 32 * num_packed(self.num_bits)
        if self._num_cohorts <= _FEW_COHORTS:

            def count(number: jax.Array) -> Count:
                return count_bits(sent, width * self.num_rounds, counted & (cohort == number))

            ones = lax.map(count, jnp.arange(self._num_cohorts, dtype=jnp.int32))
            ones = ones.reshape(-1, self.num_rounds, width).sum(1)[:, : self.num_bits]
            return {"ones": ones, "users": Count.of(users)}
        bits = sent.reshape(-1, self.num_rounds, width // 32, 1)
        bits = (bits >> np.arange(32, dtype=np.uint32).reshape(1, 1, 1, 32)) & np.uint32(1)
        bits = jnp.sum(bits, axis=1, dtype=jnp.uint32).reshape(-1, width)[:, : self.num_bits]
        bits = jnp.where(counted[:, None], bits, np.uint32(0)).astype(jnp.int32)
        ones = jax.ops.segment_sum(bits, cohort, self._num_cohorts)
        return {"ones": Count.of(ones), "users": Count.of(users)}

    def _chances(self) -> Float[Array, "3"]:
        """The realised f / 2, p and q as float64; only inside an x64 block."""
        return jnp.asarray(self.thresholds).astype(jnp.float64) / 2.0**self.word_bits

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, "*batch k"]:
        """Unbiased counts of the users' values.

        Args:
          outcome: {"ones": Count[C, B], "users": Count[C]}.
        """
        flip, p, q = self._chances()
        ones = outcome["ones"].f64() / self.num_rounds
        base = p + flip * (q - p)  # of a report's bit to be 1 where the filter's is 0
        bits = (ones - outcome["users"].f64()[..., None] * base) / ((1 - 2 * flip) * (q - p))
        # X' bits: for each value the sum over its bits in all cohorts.
        cohorts = jnp.arange(self._num_cohorts, dtype=jnp.int32)[:, None, None]
        seen = bits[..., cohorts, jnp.asarray(self.positions)].sum(axis=(-3, -1))
        solution = self.solution_high, self.solution_low
        high, low = (jnp.asarray(x).astype(jnp.float64) for x in solution)
        matrix = (high + low).reshape((1,) * (seen.ndim - 1) + high.shape)
        return jnp.sum(matrix * seen[..., None, :], axis=-1)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        """The tally of given users, exact in law, in C (k + 4 B) draws.

        Given the cohorts' members, bits are independent of each other: of the users of a cohort
        those with a permanent 1 are counted, then the ones that these and the others send.
        """
        del inputs
        flip, p, q = self._chances()
        keys = jax.random.split(key, 5)
        members = multinomial(keys[0], counts, jnp.ones(self._num_cohorts, jnp.float64))
        members = jax.tree.map(jnp.transpose, members)
        users = members.sum(axis=1)
        positions = jnp.asarray(self.positions)
        first = jnp.arange(self._num_cohorts, dtype=jnp.int32)[:, None, None] * self.num_bits
        spread = Count.zeros(positions.shape) + members[:, :, None]
        cells = self._num_cohorts * self.num_bits
        have = spread.reshape(-1).segment_sum((positions + first).ravel(), cells)
        have = have.reshape(self._num_cohorts, self.num_bits)
        total = Count.zeros(have.shape) + users[:, None]
        kept, turned = binomials([(keys[1], have, 1 - flip), (keys[2], total - have, flip)])
        rounds, permanent = np.uint32(self.num_rounds), kept + turned
        of_ones, of_zeros = permanent.times(rounds), (total - permanent).times(rounds)
        true, false = binomials([(keys[3], of_ones, q), (keys[4], of_zeros, p)])
        return {"ones": true + false, "users": users}

    def _cost(self, work: Work) -> float:
        return work.draws(self._num_cohorts * (work.num_bins + 4 * self.num_bits))
