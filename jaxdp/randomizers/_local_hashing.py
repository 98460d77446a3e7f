"""Local hashing: randomized response on a random hash of the value."""

import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, UInt32

from .._checks import Epsilon, Integer, Optional
from .._contract import Words, field, params, spec, static
from ..random import Count, everyone, part_of
from ._krr import KRR, KRRParams
from ._support import SupportOracle, SupportRound

MAX_VALUES = 2**20
MAX_RANGE = 2**16

# Irreducible polynomials over GF(2), without their leading term.
_POLYNOMIALS = {4: 0x3, 8: 0x1B, 32: 0x8D}


@spec
class LocalHashing(SupportOracle):
    """Local hashing: hash your value with a function of your own, then report the hash by k-RR.

    The hash of v is the bucket of `a v**2 + b v + c` in the field GF(2**32), where v stands for the
    polynomial of its bits and a, b, c are three of the user's words, sent along. The field is cut
    into g intervals of `2**32 // g` elements, of which the last also takes the remainder. The
    fourth word randomizes the hash over the g buckets as `KRR(g, epsilon)` does, with
    probabilities p for the true bucket and q' for each other one.

    A random polynomial of degree 2 takes independent uniform values at any three points. So the
    hashes of three values are independent, of bucket y with probability w_y (equal up to
    `g / 2**32`), and the laws below are exact. They are not for four and more values: whole tallies
    do not follow the law of ideal hashing, so none is drawn at once.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: given the hash function, which does not depend on the
        value, the report is that of `KRR(g, epsilon)`. It holds for every int32 input, since values
        outside the domain are clamped into it.
      * Estimate: `(N_v - n q) / (p - q)` counts the users with value v without bias, N_v being the
        number of users whose reported bucket is the hash of v, and
        `q = q' + (p - q') sum(w_y**2)` the probability of it for users of other values.
      * Variance, exact for a fixed data set with counts c_v:
        `(c_v p (1 - p) + (n - c_v) q (1 - q)) / (p - q)**2`.

    Edge cases:
      ===================================  ======================================================
      epsilon above 22.18 or so            ValueError: one word of 32 bits cannot realise it
      epsilon below about `g**2 / 2**32`   ValueError: p and q' would be the same
      value outside the domain             ValueError from a Population; the params clamp it
      `channel()`                          ValueError: a report has more than 96 bits
      ===================================  ======================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**20. Decoding takes k steps a user.
      epsilon: privacy parameter, > 0.
      hash_range: g, 2 to 2**16; 2 is binary local hashing. None for the one with the least sum of
        variances, near `e**epsilon + 1`: optimal local hashing.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import LocalHashing
      >>> olh = LocalHashing(num_values=1000, epsilon=2.0)
      >>> olh.hash_range
      8
      >>> olh.exact_epsilon() <= 2.0
      True

    References:
      Bassily and Smith (2015), Local, private, efficient protocols for succinct histograms; Wang,
      Blocki, Li, Jha (2017), Locally differentially private protocols for frequency estimation,
      section 4.4; Wegman and Carter (1981), New hash functions and their use in authentication and
      set equality.
    """

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())
    hash_range: int | None = field(Optional(Integer(2, MAX_RANGE)), default=None)

    def validate(self) -> None:
        """Settles the range of hashes; raises ValueError where a word cannot realise epsilon."""
        if self.hash_range is None:
            self.settle(hash_range=_best_range(self.num_values, self.epsilon))
        try:
            self._response()
        except ValueError as error:
            message = str(error).replace("num_values", "hash_range")
            raise ValueError(message) from None

    def _response(self) -> KRR:
        """What a user does with its hash."""
        assert self.hash_range is not None
        return KRR(self.hash_range, self.epsilon)

    def build(self, word_bits: int = 32) -> "LocalHashingParams":
        """The params; `word_bits` of 4 or 8 makes a twin in a smaller field."""
        if word_bits not in _POLYNOMIALS or self.num_values > 2**word_bits:
            raise ValueError(
                f"word_bits must be one of {[*_POLYNOMIALS]} with at least num_values = "
                f"{self.num_values} words, got {word_bits}."
            )
        return LocalHashingParams(self._response().build(word_bits), self.num_values)

    def _collision(self, number: int, word_bits: int = 32) -> Fraction:
        """The probability that the hashes of up to three distinct values are equal."""
        response = self._response()
        g, space = response.num_values, 2**word_bits
        width = space // g
        last = space - width * (g - 1)
        return Fraction((g - 1) * width**number + last**number, space**number)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities (p, q) that the bucket is the hash of the value, and of another."""
        p, other = self._response().probabilities(word_bits)
        return p, other + (p - other) * self._collision(2, word_bits)

    def joint_support(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """How often a report supports the user's value and another given one, and two others.

        They are `p sum(w_y**2)` and `sum(w_y**2 (q' + (p - q') w_y))`, for any two values, since
        the hashes of three are independent.
        """
        p, other = self._response().probabilities(word_bits)
        twice, thrice = self._collision(2, word_bits), self._collision(3, word_bits)
        return p * twice, other * twice + (p - other) * thrice

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p / q'), rounded up; at most `epsilon`."""
        return self._response().exact_epsilon(word_bits)


def _best_range(k: int, epsilon: float) -> int:
    """The hash range with the least sum of variances, p (1 - p) + (k - 1) q (1 - q) over a square.

    Hashes are taken as uniform, q = 1 / g; the difference is below 1e-9.
    """
    g = np.arange(2, MAX_RANGE + 1)
    p, q = 1 / (1 + (g - 1) * math.exp(-epsilon)), 1 / g
    with np.errstate(divide="ignore", invalid="ignore"):  # epsilons too small are refused elsewhere
        return 2 + int(np.argmin((p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2))


@params
class LocalHashingParams(SupportRound):
    """The params of `LocalHashing`: a pytree.

    Attributes:
      response: the params of randomized response on the hashes.
      num_values: k, static.
    """

    response: KRRParams
    num_values: int = static()

    @property
    def num_words(self) -> int:
        """Three words for the hash function and one for the response."""
        return 4

    @property
    def _width(self) -> int:
        """Field elements of each bucket but the last."""
        return 2**self.response.word_bits // self.response.num_values

    @property
    def _last(self) -> int:
        """The last bucket."""
        return self.response.num_values - 1

    def probabilities(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The realised (p, q) as float64; only inside an x64 block."""
        p, other = self.response.probabilities()
        g, space = self.response.num_values, 2**self.response.word_bits
        last = space - self._width * (g - 1)
        collision = ((g - 1) * self._width**2 + last**2) / space**2
        return p, other + (p - other) * collision

    def _basis(
        self, a: UInt32[Array, "*users"], b: UInt32[Array, "*users"]
    ) -> UInt32[Array, "bits *users"]:
        """What bit i of v adds to a v**2 + b v: a x**(2 i) + b x**i, as squaring is linear."""
        word_bits = self.response.word_bits
        top, mask = np.uint32(word_bits - 1), np.uint32(2**word_bits - 1)

        def times_x(z):
            # x**word_bits is the polynomial without its leading term.
            reduced = (z >> top) * np.uint32(_POLYNOMIALS[word_bits])
            return ((z << np.uint32(1)) & mask) ^ reduced

        basis = []
        for _ in range((self.num_values - 1).bit_length()):
            basis.append(a ^ b)
            a, b = times_x(times_x(a)), times_x(b)
        return jnp.stack(basis)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> UInt32[Array, "4"]:
        """The coefficients a, b, c of one user's hash function, and a bucket in [0, g).

        A value outside the domain is clamped into it.
        """
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1).astype(jnp.uint32)
        a, b, c = words[0], words[1], words[2]
        point = c
        for i, term in enumerate(self._basis(a, b)):
            point = point ^ (((value >> np.uint32(i)) & np.uint32(1)) * term)
        bucket = jnp.minimum(point // np.uint32(self._width), np.uint32(self._last))
        reported = self.response.from_bits(part_of(words, 3, 1), bucket.astype(jnp.int32))
        return jnp.stack([a, b, c, reported.astype(jnp.uint32)])

    def tally(
        self, reports: UInt32[Array, "n 4"], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"support": Count[k], how many buckets are the hash of each value, "users": Count[]}."""
        counted = everyone(reports, mask)
        a, b, c, bucket = reports.T
        # From one value to the next, the lowest bits flip up to the first zero: one precomputed sum
        # in the field leads from hash to hash.
        flips = lax.associative_scan(jnp.bitwise_xor, self._basis(a, b), axis=0)
        low = bucket * np.uint32(self._width)
        rest = np.uint32(2**self.response.word_bits - self._last * self._width)
        width = jnp.where(bucket == self._last, rest, np.uint32(self._width))
        width = jnp.where(counted, width, np.uint32(0))

        def visit(point, lowest):
            # Below the bucket the difference wraps to at least 2**32 - low, which no width exceeds.
            support = jnp.sum(point - low < width, dtype=jnp.int32)
            return point ^ flips[lowest], support

        after = np.arange(1, self.num_values + 1)
        lowest = np.minimum(np.log2(after & -after).astype(np.int32), flips.shape[0] - 1)
        _, support = lax.scan(visit, c, lowest)
        users = jnp.sum(counted, dtype=jnp.int32)
        return {"support": Count.of(support), "users": Count.of(users)}
