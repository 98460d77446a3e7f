"""Local hashing: randomized response on a random hash of the value."""

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._spec import check_epsilon, check_int
from ..random import part_of
from ._krr import KRR, KRRParams
from ._support import SupportOracle, SupportParams

MAX_VALUES = 2**20
MAX_RANGE = 2**16

# Irreducible polynomials over GF(2), without their leading term.
_POLYNOMIALS = {4: 0x3, 8: 0x1B, 32: 0x8D}


@dataclasses.dataclass(frozen=True, slots=True)
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

    num_values: int
    epsilon: float
    hash_range: int | None = None

    def __post_init__(self):
        k = check_int("num_values", self.num_values, low=2, high=MAX_VALUES)
        object.__setattr__(self, "num_values", k)
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if self.hash_range is None:
            object.__setattr__(self, "hash_range", _best_range(k, self.epsilon))
        else:
            g = check_int("hash_range", self.hash_range, low=2, high=MAX_RANGE)
            object.__setattr__(self, "hash_range", g)
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

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """The realised (p, q): a report's bucket is the hash of the own value, and of another."""
        p, other = self._response().probabilities(word_bits)
        return p, other + (p - other) * self._collision(2, word_bits)

    def _collision(self, number: int, word_bits: int = 32) -> Fraction:
        """The probability that the hashes of up to three distinct values are equal."""
        response = self._response()
        g, space = response.num_values, 2**word_bits
        width = space // g
        last = space - width * (g - 1)
        return Fraction((g - 1) * width**number + last**number, space**number)

    def channel(self, word_bits: int = 32) -> list[list[Fraction]]:
        """Raises ValueError: three words and a bucket have too many values to list."""
        raise ValueError(
            f"a report of LocalHashing is one of 2**{3 * word_bits} hash functions and a bucket; "
            "`probabilities()` gives the structure of the channel."
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p / q'), rounded up; at most `epsilon`."""
        return self._response().exact_epsilon(word_bits)

    def pair_probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """The probability to support the own value and another one, and to support two others.

        They are `p sum(w_y**2)` and `sum(w_y**2 (q' + (p - q') w_y))`, for any two values, since
        the hashes of three are independent.
        """
        own, other = self._response().probabilities(word_bits)
        twice, thrice = self._collision(2, word_bits), self._collision(3, word_bits)
        return own * twice, other * twice + (own - other) * thrice

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of one user's estimate, float64[k, k].

        Args:
          value: the user's value, an int in [0, k).
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        p, q = self.probabilities()
        with_own, others = self.pair_probabilities()
        table = np.full((self.num_values, self.num_values), float(others - q * q))
        np.fill_diagonal(table, float(q * (1 - q)))
        table[value, :] = table[:, value] = float(with_own - p * q)
        table[value, value] = float(p * (1 - p))
        return table / float(p - q) ** 2


def _best_range(k: int, epsilon: float) -> int:
    """The hash range with the least sum of variances, p (1 - p) + (k - 1) q (1 - q) over a square.

    Hashes are taken as uniform, q = 1 / g; the difference is below 1e-9.
    """
    g = np.arange(2, MAX_RANGE + 1)
    p, q = 1 / (1 + (g - 1) * math.exp(-epsilon)), 1 / g
    return 2 + int(np.argmin((p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LocalHashingParams(SupportParams):
    """The params of `LocalHashing`: a pytree.

    Attributes:
      response: the params of randomized response on the hashes.
      num_values: k, static.
    """

    response: KRRParams
    num_values: int = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self) -> int:
        """Three words for the hash function and one for the response."""
        return 4

    @property
    def _width(self) -> int:
        """Field elements of each bucket but the last."""
        return 2**self.response.word_bits // self.response.num_values

    def probabilities(self):
        """The realised (p, q) as float64; only inside an x64 block."""
        p, other = self.response.probabilities()
        g, space = self.response.num_values, 2**self.response.word_bits
        last = space - self._width * (g - 1)
        collision = ((g - 1) * self._width**2 + last**2) / space**2
        return p, other + (p - other) * collision

    def _basis(self, a, b):
        """What bit i of a value v adds to a v**2 + b v, uint32[bits, ...]: a x**(2 i) + b x**i."""
        word_bits = self.response.word_bits
        top, mask = np.uint32(word_bits - 1), np.uint32(2**word_bits - 1)

        def times_x(z):
            reduced = (z >> top) * np.uint32(_POLYNOMIALS[word_bits])
            return ((z << np.uint32(1)) & mask) ^ reduced

        basis = []
        for _ in range((self.num_values - 1).bit_length()):
            basis.append(a ^ b)
            a, b = times_x(times_x(a)), times_x(b)
        return jnp.stack(basis)

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[4].
          value: int32[] in [0, k); clamped into it.

        Returns:
          uint32[4]: the coefficients a, b, c of the hash function, and a bucket in [0, g).
        """
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1).astype(jnp.uint32)
        a, b, c = words[0], words[1], words[2]
        point = c
        for i, term in enumerate(self._basis(a, b)):
            point = point ^ (((value >> np.uint32(i)) & np.uint32(1)) * term)
        bucket = jnp.minimum(point // np.uint32(self._width), np.uint32(self._last))
        reported = self.response.from_bits(part_of(words, 3, 1), bucket.astype(jnp.int32))
        return jnp.stack([a, b, c, reported.astype(jnp.uint32)])

    @property
    def _last(self) -> int:
        return self.response.num_values - 1

    def tally(self, reports, mask):
        """The number of masked reports whose bucket is the hash of each value, and of all.

        From one value to the next, the lowest bits of a value flip up to its first zero: one
        precomputed sum in the field leads from hash to hash.

        Args:
          reports: uint32[n, 4].
          mask: bool[n].

        Returns:
          {"support": int32[k], "users": int32[]}.
        """
        a, b, c, bucket = reports.T
        flips = lax.associative_scan(jnp.bitwise_xor, self._basis(a, b), axis=0)
        low = bucket * np.uint32(self._width)
        rest = np.uint32(2**self.response.word_bits - self._last * self._width)
        width = jnp.where(bucket == self._last, rest, np.uint32(self._width))
        width = jnp.where(mask, width, np.uint32(0))

        def visit(point, lowest):
            support = jnp.sum(point - low < width, dtype=jnp.int32)
            return point ^ flips[lowest], support

        after = np.arange(1, self.num_values + 1)
        lowest = np.minimum(np.log2(after & -after).astype(np.int32), flips.shape[0] - 1)
        _, support = lax.scan(visit, c, lowest)
        return {"support": support, "users": jnp.sum(mask, dtype=jnp.int32)}
