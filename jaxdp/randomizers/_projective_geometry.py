"""Projective geometry response."""

import functools
import math
from fractions import Fraction
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, UInt32
from numpy.typing import ArrayLike

from .._bits import mul_32x32
from .._checks import Epsilon, Integer, Optional
from .._contract import Draft, Words, field, params, spec, static
from .._lapack import one_at_a_time
from .._spec import check_int
from .._x64 import compiled_in_float64
from ..accounting import PairLaw
from ..random import Count
from ._count_noise import TableNoise
from ._exact import exp_lower, log_upper
from ._mixture import MixtureRound
from ._pair_laws import symmetric_pair_law
from ._projective_geometry_points import (
    MAX_POINTS,
    difference_set,
    dimension_for,
    num_points,
    prime_powers,
)
from ._randomizer import check_word_bits, listed_rows
from ._support import SupportOracle, table_noise

MAX_VALUES = 2**22


@spec
class ProjectiveGeometryResponse(SupportOracle):
    """Projective geometry response: report a point, more often one of your value's hyperplane.

    The reports are the `K = (Q**t - 1) / (Q - 1)` points of the projective space PG(t-1, Q), and
    each value v has a hyperplane S_v of `s = (Q**(t-1) - 1) / (Q - 1)` points. Any two of them
    share `i = (Q**(t-2) - 1) / (Q - 1)`. A point of S_v is e**epsilon times as likely as another
    one: `Pr[report = y | v] = e**epsilon / Z` if y is in S_v, else `1 / Z`, with
    `Z = (e**epsilon - 1) s + K`. With Q near `e**epsilon + 1` the variance is close to that of
    `SubsetSelection`, and a report takes log2 K bits.

    Points are numbered such that hyperplanes are the cyclic shifts of one of them, a difference set
    D (Singer): y is in S_v where `(y + v) mod K` is in D. So a uniform point of S_v is one look-up,
    and the decoder is a cyclic correlation.

    Two words decide, as one number of 64 bits: each point of S_v has h of them and each other one
    m, the least m with `h / m <= e**epsilon` for which `s h + (K - s) m = 2**64` has an integer h.
    That is every s-th m, since s and `K - s = Q**(t-1)` have no common factor.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: `h / m <= e**epsilon`. It holds for every int32 input,
        since values outside the domain are clamped into it.
      * Estimate: `(N_v - n q) / (p - q)` counts the users with value v without bias, N_v being the
        number of reports in S_v, with `p = s h / 2**64` and `q = (i h + (s - i) m) / 2**64`.
      * Variance, exact for a fixed data set with counts c_v:
        `(c_v p (1 - p) + (n - c_v) q (1 - q)) / (p - q)**2`.

    Edge cases:
      ==================================  ========================================================
      epsilon too large, above 17.3       ValueError: m would be below 1,024 s: too coarse
      epsilon too small: at most 1e-5     ValueError: h would not exceed m
      value outside the domain            ValueError from a Population; the params clamp it
      k K above 2**22                     `channel()` raises ValueError
      t = 2, as for large epsilon         S_v is one point: randomized response with Q + 1 values
      ==================================  ========================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**22.
      epsilon: privacy parameter, > 0.
      order: Q, a prime power; t is the least one with K >= k, and K is at most 2**24. None for the
        order with the least sum of variances, which does not depend on the data.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import ProjectiveGeometryResponse
      >>> response = ProjectiveGeometryResponse(num_values=100, epsilon=1.0)
      >>> response.order, response.dimension, response.num_points
      (4, 5, 341)
      >>> response.variance([1000] + 99 * [0])[1].round(2).item()
      3664.23

    References:
      Feldman, Nelson, Nguyen, Talwar (2022), Private frequency estimation via projective geometry,
      whose decoder is a dynamic programme of O(K Q t) steps over vectors; Singer (1938), A theorem
      in finite projective geometry and some applications to number theory.
    """

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())
    order: int | None = field(Optional(Integer(2, MAX_POINTS - 1)), default=None)

    def validate(self) -> None:
        """Settles the order; raises ValueError where two words cannot realise epsilon."""
        if self.order is None:
            self.settle(order=_best_order(self.num_values, self.epsilon))
        order = self._order
        if order not in prime_powers(order):
            raise ValueError(
                f"order must be a power of a prime, got {order}; leave it out for the best one."
            )
        if self.num_points > MAX_POINTS:
            raise ValueError(
                f"order = {order} is too large for num_values = {self.num_values}: the reports "
                f"would be {self.num_points} points, and at most 2**24 are supported; take a "
                "smaller order."
            )
        self._weights(32)

    @property
    def _order(self) -> int:
        assert self.order is not None
        return self.order

    @property
    def dimension(self) -> int:
        """t, the dimension of the vectors that stand for points."""
        return dimension_for(self._order, self.num_values)

    @property
    def num_points(self) -> int:
        """Number of distinct reports, K."""
        return num_points(self._order, self.dimension)

    def _sizes(self) -> tuple[int, int, int]:
        """K, s and i: points of the space, of a hyperplane and of two hyperplanes."""
        order, t = self._order, self.dimension
        return num_points(order, t), num_points(order, t - 1), num_points(order, t - 2)

    def _hyperplane(self) -> np.ndarray:
        """The difference set D, int32[s]."""
        return difference_set(self._order, self.dimension)

    def _weights(self, word_bits: int) -> tuple[int, int]:
        """The pairs of words that lead to a point: h in S_v, and m for any other."""
        word_bits = check_word_bits(word_bits)
        points, inside, _ = self._sizes()
        space, outside, e = 4**word_bits, points - inside, exp_lower(self.epsilon)
        low = math.ceil(space / (e * inside + outside))
        # The least m above with m (K - s) = 4**word_bits (mod s), so that h is an integer.
        fit = space * pow(outside, -1, inside) % inside
        low += (fit - low) % inside
        high = (space - low * outside) // inside
        if high <= low:
            raise ValueError(
                f"epsilon must be at least about {2 * inside * points / space:.3g} for "
                f"{points} points, got {self.epsilon!r}: every point would be equally likely, or "
                "nearly."
            )
        if low < 1024 * inside and word_bits == 32:
            highest = math.log(Fraction(space, 1024 * inside**2) - Fraction(outside, inside))
            raise ValueError(
                f"epsilon must be at most about {highest:.6g} for {points} points, got "
                f"{self.epsilon!r}: two words of 32 bits cannot realise it closely."
            )
        return high, low

    def build(self, word_bits: int = 32) -> "ProjectiveGeometryResponseParams":
        """The params; `word_bits=8` makes a twin whose pairs of words can be enumerated."""
        high, low = self._weights(word_bits)
        points, inside, shared = self._sizes()
        unit = 2 ** (64 - 2 * word_bits)  # the words are the leading bits of 64
        divisors = low * unit, (high - low) * unit
        reciprocals, index_bits = _quick(divisors, (points, inside))
        return ProjectiveGeometryResponseParams(
            border=np.array(_halves(low * points * unit), np.uint32),
            uniform=divisor(divisors[0], points),
            inside=divisor(divisors[1], inside),
            reciprocals=reciprocals,
            index_bits=index_bits,
            hyperplane=self._hyperplane(),
            num_values=self.num_values,
            num_points=points,
            num_shared=shared,
            word_bits=word_bits,
        )

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities (p, q) that a report is in S_v, v the user's value, and another."""
        high, low = self._weights(word_bits)
        _, inside, shared = self._sizes()
        other = shared * high + (inside - shared) * low
        return Fraction(inside * high, 4**word_bits), Fraction(other, 4**word_bits)

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact `Pr[report = y | x]`, row x of the inputs, column y.

        Args:
          word_bits: bits of a word.
          inputs: int[m], the values of the rows; None for all.
        """
        points = self.num_points
        rows = listed_rows(self.num_values, points, inputs)
        if rows is None:
            return None
        high, low = (Fraction(weight, 4**word_bits) for weight in self._weights(word_bits))
        hyperplane = set(self._hyperplane().tolist())
        return [
            [high if (y + x) % points in hyperplane else low for y in range(points)] for x in rows
        ]

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """One kind: points by which of three hyperplanes they are in.

        Any two hyperplanes share i points. S_v is the kernel of the form f(a**v x), and 1, a, a**2
        are independent over the field of Q elements for t >= 3, since a is in no smaller field than
        that of Q**t. So S_0, S_1 and S_2 share those of t - 3 dimensions.

        Others share i. Call hyperplanes through what two of them share a line; s lines go through
        each. As t is the least, the values include 0, .., s. Were no three of these on one line,
        each of the s lines through any of them would hold exactly one other, and so it would be
        for 1, .., s + 1, by a shift. Then the one line through x, 1 <= x <= s, that holds no other
        of 1, .., s leads to 0, and to s + 1 as well: all of these x would be on the line through
        0 and s + 1, which holds but one of them.
        """
        if self.num_values == 2:
            return None
        high, low = (weight / 2.0**64 for weight in self._weights(32))
        points, inside, shared = self._sizes()
        thirds = [num_points(self._order, max(self.dimension - 3, 0))]
        if self.dimension > 2:
            thirds.append(shared)
        return tuple(
            symmetric_pair_law((inside, shared, third), points, high, low) for third in thirds
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(h / m), rounded up; at most `epsilon`."""
        return log_upper(Fraction(*self._weights(word_bits)))

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of the estimate from one user, float64[k, k].

        Args:
          value: the user's value, an int in [0, k).
        """
        k = self.num_values
        value = check_int("value", value, low=0, high=k - 1)
        points, _, shared = self._sizes()
        high, low = (weight / 2.0**64 for weight in self._weights(32))
        hyperplane = self._hyperplane()
        member = np.zeros(points)
        member[hyperplane] = 1
        # Column q: which points of S_v, v the user's value, are in S_q as well.
        common = member[(hyperplane[:, None] - value + np.arange(k)) % points]
        # Any two hyperplanes share the same number of points.
        both = np.where(np.eye(k, dtype=bool), hyperplane.size, shared)
        p, q = map(float, self.probabilities())
        mean = np.where(np.arange(k) == value, p, q)
        joint = low * both + (high - low) * (common.T @ common)
        return (joint - np.outer(mean, mean)) / (p - q) ** 2

    def noise(self) -> TableNoise:
        """The moments of the noise, from the table of the K reports."""
        return table_noise(self.build(), self.num_values)

    @property
    def _query_width(self) -> int:
        return self.num_points

    def _forms(self, queries: np.ndarray) -> np.ndarray:
        points, inside, shared = self._sizes()
        p, q = self.probabilities()
        high = p / inside
        low = (q - shared * high) / (inside - shared)
        member = np.zeros(points)
        member[self._hyperplane()] = 1
        spectrum = np.fft.rfft(member)

        def in_hyperplanes(numbers):
            return np.fft.irfft(spectrum * np.conj(np.fft.rfft(numbers, points)), points)

        # A report decodes to the sum of a query over the values whose hyperplane it is in; all of
        # them are shifted by their mean over the points, which has no variance.
        total = queries.sum(axis=1, keepdims=True)
        centre = total * (inside / points)
        decoded = in_hyperplanes(queries) - centre
        squares = decoded**2
        second = float(high - low) * in_hyperplanes(squares)[:, : self.num_values]
        second = second + float(low) * squares.sum(axis=1, keepdims=True)
        mean = float(p - q) * queries + float(q) * total - centre
        return (second - mean**2) / float(p - q) ** 2


@functools.lru_cache(maxsize=256)
def _best_order(num_values: int, epsilon: float) -> int:
    """The prime power with the least sum of variances, among those of at most 2**24 points."""
    e = math.exp(min(epsilon, 100.0))

    def total(order):
        t = dimension_for(order, num_values)
        points, inside, shared = (num_points(order, d) for d in (t, t - 1, t - 2))
        if points > MAX_POINTS:
            return math.inf
        weight = (e - 1) * inside + points
        p, q = e * inside / weight, ((e - 1) * shared + inside) / weight
        spread = p * (1 - p) + (num_values - 1) * q * (1 - q)
        return spread / (p - q) ** 2 if p > q else math.inf

    # At t = 2 the least order is the best: a larger one only adds points that nobody has.
    largest = next(q for q in prime_powers(2 * num_values) if q >= num_values - 1)
    return min(prime_powers(largest), key=total)


@functools.partial(one_at_a_time, axes=1)
def _correlate(
    numbers: Float[Array, "*batch points"], weights: Float[Array, "*batch points"]
) -> Float[Array, "*batch points"]:
    """`sum over y of weights[(y + v) mod K] numbers[y]` for each v."""
    product = jnp.fft.rfft(weights) * jnp.conj(jnp.fft.rfft(numbers))
    return jnp.fft.irfft(product, numbers.shape[-1])


def _pair(words: Words, word_bits: int) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    """Two words as the leading bits of a 64-bit number, in halves (high, low)."""
    if word_bits == 32:
        return words[0], words[1]
    high = (words[0] << np.uint32(32 - word_bits)) | (words[1] << np.uint32(32 - 2 * word_bits))
    return high, jnp.zeros_like(high)


def _halves(number: int) -> list[int]:
    """An int below 2**64 as its 32-bit halves (high, low)."""
    return [number >> 32, number & 0xFFFFFFFF]


def divisor(value: int, quotients: int) -> np.ndarray:
    """What `divide` needs to know of a divisor.

    Args:
      value: the divisor d, at least 1.
      quotients: dividends are below `quotients * d`, at most 2**64; at most 2**25.

    Returns:
      uint32[4]: d in halves, a shift s, and `floor(2**(32 + s) / d)`. Dividends have at most
      32 + s bits.
    """
    shift = max((quotients * value - 1).bit_length() - 32, 1)
    reciprocal = min(2 ** (32 + shift) // value, 2**32 - 1)
    return np.array([*_halves(value), shift, reciprocal], np.uint32)


def divide(
    high: UInt32[Array, "*s"], low: UInt32[Array, "*s"], by: UInt32[Array, "4"]
) -> UInt32[Array, "*s"]:
    """The exact quotient of a 64-bit number in halves.

    A product with the rounded reciprocal is at most two too small: the upper 32 bits of the
    dividend lose less than 1 of the quotient, the reciprocal's rounding less than 1, and the floor
    takes the rest.

    Args:
      high: the upper halves of the dividends.
      low: the lower halves.
      by: a `divisor`.
    """
    upper = (high << (np.uint32(32) - by[2])) | ((low >> np.uint32(1)) >> (by[2] - np.uint32(1)))
    quotient, _ = mul_32x32(upper, by[3])
    carry, product = mul_32x32(quotient, by[1])
    high, low = _subtract(high, low, carry + quotient * by[0], product)
    for _ in range(2):
        more = ~_less(high, low, by[0], by[1])
        quotient = quotient + more.astype(jnp.uint32)
        lower = _subtract(high, low, by[0], by[1])
        high, low = jnp.where(more, lower[0], high), jnp.where(more, lower[1], low)
    return quotient


def _quick(divisors: tuple[int, int], quotients: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The reciprocals of two divisors d at a common precision, and b, the bits of `2**64 / d`.

    An upper half alone tells a quotient to 2**(b - 32), and leaves 2**(b - 30) of all in doubt. A
    divisor of more bits, which is rarely used, has the reciprocal 0: it leaves all in doubt.
    """
    bits = [(2**64 // d).bit_length() for d in divisors]
    shares = [d * number / 2**64 for d, number in zip(divisors, quotients, strict=True)]

    def unsure(most: int) -> float:
        return 2.0 ** (most - 30) + sum(
            share for share, own in zip(shares, bits, strict=True) if own > most
        )

    best = min(bits, key=unsure)
    reciprocals = [
        2 ** (96 - best) // d if own <= best else 0 for d, own in zip(divisors, bits, strict=True)
    ]
    return np.array(reciprocals, np.uint32), np.asarray(best, np.uint32)


def _less(a_high: Array, a_low: Array, b_high: Array, b_low: Array) -> Bool[Array, "*s"]:
    """Whether a < b, for 64-bit numbers in halves."""
    return (a_high < b_high) | ((a_high == b_high) & (a_low < b_low))


def _subtract(a_high: Array, a_low: Array, b_high: Array, b_low: Array) -> tuple[Array, Array]:
    """The difference a - b of 64-bit numbers in halves, modulo 2**64."""
    return a_high - b_high - (a_low < b_low).astype(jnp.uint32), a_low - b_low


@params
class ProjectiveGeometryResponseParams(MixtureRound):
    """The params of `ProjectiveGeometryResponse`: a pytree.

    Attributes:
      border: uint32[2], m K in halves: below it, a pair of words picks one of all points.
      uniform: uint32[4], the divisor m.
      inside: uint32[4], the divisor h - m.
      reciprocals: uint32[2], `floor(2**(96 - b) / d)` of both divisors d, for the draft; or 0.
      index_bits: uint32[], b.
      hyperplane: int32[s], the difference set D.
      num_values: k, static.
      num_points: K, static.
      num_shared: i, static.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    border: UInt32[Array | np.ndarray, "2"]
    uniform: UInt32[Array | np.ndarray, "4"]
    inside: UInt32[Array | np.ndarray, "4"]
    reciprocals: UInt32[Array | np.ndarray, "2"]
    index_bits: UInt32[Array | np.ndarray, ""]
    hyperplane: Int32[Array | np.ndarray, " s"]
    num_values: int = static()
    num_points: int = static()
    num_shared: int = static()
    word_bits: int = static(default=32)

    independent_stream: ClassVar[int] = 3

    @property
    def num_words(self) -> int:
        """Two words per user."""
        return 2

    @property
    def num_reports(self) -> int:
        """Number of distinct reports, K."""
        return self.num_points

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, ""]:
        """One user's point, in [0, K); a value outside the domain is clamped into it."""
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)
        high, low = _pair(words, self.word_bits)
        border = jnp.asarray(self.border)
        # Pairs below m K pick any point, m of them each; the others one of S_v, h - m of them each.
        anywhere = _less(high, low, border[0], border[1])
        beyond = _subtract(high, low, border[0], border[1])
        high, low = jnp.where(anywhere, high, beyond[0]), jnp.where(anywhere, low, beyond[1])
        index = divide(high, low, jnp.where(anywhere, self.uniform, self.inside)).astype(jnp.int32)
        return self._point(index, anywhere, value)

    def _point(
        self, index: Int32[Array, "*s"], anywhere: Bool[Array, "*s"], value: Int32[Array, "*s"]
    ) -> Int32[Array, "*s"]:
        """The point at an index among all points, or among those of the value's hyperplane."""
        point = jnp.asarray(self.hyperplane).at[index].get(mode="clip") - value
        point = jnp.where(point < 0, point + self.num_points, point)
        return jnp.where(anywhere, index, point)

    @property
    def draft(self) -> Draft | None:
        """The first word, which alone decides all but about one in `2**(30 - b)` reports."""
        return Draft(1, self._draft) if self.word_bits == 32 else None

    def _draft(self, words: UInt32[Array, "1 n"], values: Int32[Array, " n"]) -> Int32[Array, " n"]:
        values = jnp.clip(values.astype(jnp.int32), 0, self.num_values - 1)
        high, border = words[0], jnp.asarray(self.border)[0]
        anywhere = high < border
        upper = jnp.where(anywhere, high, high - border)
        uniform, inside = jnp.asarray(self.reciprocals)
        quotient, _ = mul_32x32(upper, jnp.where(anywhere, uniform, inside))
        # The quotient of the dividend itself, in units of 2**-shift: less than 1 is lost here, and
        # less than 1 by the reciprocal; the lower halves add less than 1, or take as much away.
        shift = np.uint32(32) - self.index_bits
        unit = np.uint32(1) << shift
        fraction = quotient & (unit - np.uint32(1))
        sure = (high != border) & (fraction - np.uint32(1) < unit - np.uint32(3))
        point = self._point((quotient >> shift).astype(jnp.int32), anywhere, values)
        return jnp.where(sure, point, Draft.UNSURE)

    def _weights(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The probabilities m and h - m, as float64; only inside an x64 block."""

        def number(parts):
            parts = jnp.asarray(parts).astype(jnp.float64)
            return parts[0] / 2.0**32 + parts[1] / 2.0**64

        return number(self.uniform), number(self.inside)

    def probabilities(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The realised (p, q) as float64; only inside an x64 block."""
        low, gap = self._weights()
        return self.set_size * (low + gap), self.set_size * low + self.num_shared * gap

    def _in_hyperplanes(self, numbers: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
        """The sum of the entries in each hyperplane S_0 .. S_{K-1}."""
        member = jnp.zeros(self.num_points).at[self.hyperplane].set(1.0)
        return _correlate(numbers, jnp.broadcast_to(member, numbers.shape))

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, "*batch k"]:
        """Unbiased counts of the users' values: `(N_v - n q) / (p - q)`."""
        reports = outcome.f64()
        p, q = self.probabilities()
        users = jnp.sum(reports, axis=-1, keepdims=True)
        # Supports are whole numbers, the transform's rounding is below 1/2.
        support = jnp.rint(self._in_hyperplanes(reports)[..., : self.num_values])
        return (support - users * q) / (p - q)

    @property
    def set_size(self) -> int:
        """The points of a hyperplane, s."""
        return self.hyperplane.shape[0]

    def set_probability(self) -> Float[Array, ""]:
        """A report is certainly in S_v with probability s (h - m) / 2**64."""
        return self.set_size * self._weights()[1]

    def members(self, values: Int32[Array, " m"]) -> Int32[Array, "m s"]:
        """The points of the values' hyperplanes."""
        return (jnp.asarray(self.hyperplane)[None] - values[:, None]) % self.num_points

    def report_law(self, law: Float[Array, " k"]) -> Float[Array, " K"]:
        # Point y is of S_v where y + v is in D: m, and h - m for the users whose S_v it is in.
        low, gap = self._weights()
        padded = jnp.pad(law, (0, self.num_points - self.num_values))
        return low + gap * self._in_hyperplanes(padded)

    @property
    def transform_cost(self) -> float:
        return 1.6 * self.num_points * math.log2(self.num_points)

    def over_reports(self, numbers: Float[Array, " K"]) -> Float[Array, " k"]:
        low, gap = self._weights()
        inside = self._in_hyperplanes(numbers)[: self.num_values]
        return low * jnp.sum(numbers) + gap * inside
