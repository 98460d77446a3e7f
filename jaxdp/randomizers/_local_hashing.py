"""Local hashing: randomized response on a random hash of the value."""

import math
from collections.abc import Callable
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, UInt32

from jaxdp_kernels.randomize_and_tally import count_reports, randomize_and_tally
from jaxdp_kernels.threefry_words import StreamKey, threefry_words
from jaxdp_kernels.threefry_words.xla import stored

from .._checks import Epsilon, Integer, Optional
from .._contract import Kernels, Words, field, params, spec, static
from ..accounting import PairLaw
from ..random import Count, everyone, merge, part_of
from ._krr import KRR, KRRParams
from ._pair_laws import symmetric_pair_law
from ._support import SupportOracle, SupportRound

MAX_VALUES = 2**20
MAX_RANGE = 2**16

# Irreducible polynomials over GF(2), without their leading term.
_POLYNOMIALS = {4: 0x3, 8: 0x1B, 32: 0x8D}

_COMPARED_BITS = 2  # of values whose hashes are compared at once
_MOST_CELL_BITS = 12  # of maps that are counted apart: their histogram stays in a core's cache
_MAPPED_USERS = 2**14  # whom a CPU tallies together, by their maps
_COMPARED_USERS = 2**13  # and by comparisons

_GroupCounter = Callable[[UInt32[Array, " n"]], Int32[Array, " counts"]]


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

    A tally looks at the hash of every value. Where g is 2, 4, 8 or 16, buckets are leading bits,
    and these are affine functions over GF(2) of the bits of v: users are then counted by their
    function on groups of up to 2**11 values, one look-up a group, and the counts decoded once.

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
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**20. A tally takes k comparisons a
        user, or a look-up for every 2**11, 32, 8 or 4 values where g is 2, 4, 8 or 16.
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
        """Probabilities that a report supports the user's value and another, and two others.

        They are `p sum(w_y**2)` and `sum(w_y**2 (q' + (p - q') w_y))`, for any two values, since
        the hashes of three are independent.
        """
        p, other = self._response().probabilities(word_bits)
        twice, thrice = self._collision(2, word_bits), self._collision(3, word_bits)
        return p * twice, other * twice + (p - other) * thrice

    def pair_laws(self) -> tuple[PairLaw, ...]:
        """One kind: function and bucket, by which of three values are hashed to the bucket.

        Hashes of three values are independent, so the buckets hold each with probability w_y.
        """
        p, other = (float(x) for x in self._response().probabilities())
        g = self._response().num_values
        thrice = float(self._collision(3)) if self.num_values > 2 else None
        held = (1.0, float(self._collision(2)), thrice)
        return (symmetric_pair_law(held, g, p, other),)

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
    def report_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Three coefficients of 32 bits, and a bucket."""
        return np.zeros(4, np.int64), np.array([2**32 - 1] * 3 + [self.response.num_values - 1])

    def extreme_reports(self, queries: np.ndarray | None = None) -> np.ndarray | None:
        """The hash that is 0 everywhere, with its bucket, which all values support, and another.

        None for queries: some other function is best, of 2**96.
        """
        if queries is not None:
            return None
        return np.array([[0, 0, 0, 0], [0, 0, 0, 1]], np.uint32)

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

    @property
    def _bucket_bits(self) -> int | None:
        """How many leading bits of a field element are its bucket; None for other cuts, or many."""
        return {2: 1, 4: 2, 8: 3, 16: 4}.get(self.response.num_values)

    def _low_bits(self, num_users: int) -> int:
        """The bits of a value that differ within a group of values that is visited at once."""
        most = (self.num_values - 1).bit_length() - 1
        if self._bucket_bits is None:
            return min(_COMPARED_BITS, most)
        cell_bits = min(_MOST_CELL_BITS, num_users.bit_length() - 2)
        return max(min(cell_bits // self._bucket_bits - 1, most), 0)

    def tally(
        self, reports: UInt32[Array, "n 4"], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """{"support": Count[k], how many buckets are the hash of each value, "users": Count[]}."""
        counted = everyone(reports, mask)
        a, b, c, bucket = reports.T
        basis = self._basis(a, b)
        # Values are visited in groups that share all bits but the lowest. From the first value of
        # a group to that of the next, the shared bits flip up to the first zero: one precomputed
        # sum in the field leads from hash to hash.
        low_bits = self._low_bits(counted.shape[0])
        low, high = basis[:low_bits], basis[low_bits:]
        flips = lax.associative_scan(jnp.bitwise_xor, high, axis=0)
        maps = self._bucket_bits is not None
        count = (self._count_maps if maps else self._compare)(low, bucket, counted)

        def visit(point, lowest):
            return point ^ flips[lowest], count(point)

        after = np.arange(1, -(-self.num_values >> low_bits) + 1)
        lowest = np.minimum(np.log2(after & -after).astype(np.int32), flips.shape[0] - 1)
        _, support = lax.scan(visit, c, lowest)
        if maps:
            support = self._decode_maps(support, low_bits)
        users = jnp.sum(counted, dtype=jnp.int32)
        support = support.reshape(-1)[: self.num_values]
        return {"support": Count.of(support), "users": Count.of(users)}

    def _compare(
        self, low: UInt32[Array, "low n"], bucket: UInt32[Array, " n"], counted: Bool[Array, " n"]
    ) -> _GroupCounter:
        """From the hash of a group's first value to the support of each of its values."""
        first = (bucket * np.uint32(self._width))[None]
        rest = np.uint32(2**self.response.word_bits - self._last * self._width)
        width = jnp.where(bucket == self._last, rest, np.uint32(self._width))
        width = jnp.where(counted, width, np.uint32(0))[None]
        steps = jnp.zeros((1, *counted.shape), jnp.uint32)
        for term in low:
            steps = jnp.concatenate([steps, steps ^ term[None]])

        def count(point):
            # Below the bucket the difference wraps to at least 2**32 - first: no width exceeds it.
            return jnp.sum((steps ^ point[None]) - first < width, axis=1, dtype=jnp.int32)

        return count

    def _count_maps(
        self, low: UInt32[Array, "low n"], bucket: UInt32[Array, " n"], counted: Bool[Array, " n"]
    ) -> _GroupCounter:
        """From the hash of a group's first value to the number of users with each map of the group.

        Over GF(2) the leading bits of the hash are an affine function of the low bits of v. Less
        the reported bucket, it is 0 where the report supports v: its value at the first v of the
        group and its linear part are all that matters of a user, and users with the same map are
        counted together. A look-up then serves the 2**low values of a group.
        """
        bits = self._bucket_bits
        assert bits is not None
        shift = np.uint32(self.response.word_bits - bits)
        linear = jnp.zeros_like(bucket)
        for i, term in enumerate(low):
            linear |= (term >> shift) << np.uint32(bits * i)
        above = bits * low.shape[0]

        def count(point):
            cell = (((point >> shift) ^ bucket) << np.uint32(above)) | linear
            return count_reports(cell.astype(jnp.int32), counted, 2 ** (bits + above))

        return count

    def _decode_maps(
        self, maps: Int32[Array, "groups cells"], low_bits: int
    ) -> Int32[Array, "groups values"]:
        """The support of the values of each group, from the number of users with each map."""
        groups, g = maps.shape[0], self.response.num_values
        axis = np.arange(g)
        # Where a bit of v is 1, its column of the map is added to the value at the first v. The
        # bits of v are settled one by one, the highest first; what they lead to is put last.
        moved = ((axis[:, None] ^ axis) * g + axis).ravel()
        for _ in range(low_bits):
            pairs = maps.reshape(groups, g * g, -1)
            halves = (pairs, pairs[:, moved])
            sums = [half.reshape(groups, g, g, -1).sum(axis=2, dtype=jnp.int32) for half in halves]
            maps = jnp.stack(sums, axis=-1)
        return maps.reshape(groups, g, -1)[:, 0]

    @property
    def kernels(self) -> Kernels[dict[str, Count]]:
        """A CPU visits a block by parts that stay in its caches."""
        return Kernels(tally={"cpu": lambda round, *block: _tally_on_cpu(self, *block)})


def _tally_on_cpu(
    round: LocalHashingParams,
    key: StreamKey,
    start: UInt32[Array, "2"],
    first: UInt32[Array, ""] | None,
    values: Int32[Array, " n"],
    mask: Bool[Array, " n"],
) -> dict[str, Count]:
    """`randomize_and_tally` by parts of a block, whose reports are stored.

    A tally reads reports so often that XLA would make their words again and again; and of the few
    users of a tile, maps take longer to decode than to count.
    """
    size = mask.shape[0]
    part = min(size, _COMPARED_USERS if round._bucket_bits is None else _MAPPED_USERS)
    if first is not None or size % part:
        return randomize_and_tally(round, key, start, first, values, mask)
    report = jax.vmap(round.from_bits, in_axes=(-1, 0), out_axes=-1)

    def tally(number, values, mask):
        # Each block of words serves two users; the counter of the first one has two halves.
        ahead = number * np.uint32(part // 2 * round.num_words)
        low = start[1] + ahead
        begin = jnp.stack([start[0] + (low < ahead).astype(jnp.uint32), low])
        words = threefry_words(key, begin, part, round.num_words)
        return round.tally(stored(lambda: report(words, values), begin).T, mask)

    if size == part:
        return tally(jnp.uint32(0), values, mask)
    numbers = lax.iota(jnp.uint32, size // part)
    parts = numbers, values.reshape(-1, part), mask.reshape(-1, part)
    shapes = jax.eval_shape(lambda part: tally(*part), jax.tree.map(lambda x: x[0], parts))
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return lax.scan(lambda total, part: (merge(total, tally(*part)), None), zero, parts)[0]
