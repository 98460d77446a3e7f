"""Affine hashing: local hashing with so few functions that reports are counted."""

import functools
import math
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32
from numpy.typing import ArrayLike

from .._checks import Epsilon, Integer, Optional
from .._contract import Tree, Words, Work, field, params, spec, static
from .._spec import check_int
from .._x64 import compiled_in_float64
from ..accounting import PairLaw
from ..random import Count, merge, multinomial, part_of
from ._count_noise import TableNoise
from ._krr import KRR, KRRParams
from ._pair_laws import symmetric_pair_law
from ._parallel_classes import (
    MAX_ORDER,
    add,
    class_vector,
    hyperplanes_of_points,
    orders,
    points_of_hyperplanes,
    product,
    spread_over_classes,
)
from ._params import BinRound, DrawnCountsRound
from ._projective_geometry_points import num_points
from ._randomizer import listed_rows
from ._support import SupportOracle, table_noise

MAX_VALUES = 2**22
MAX_REPORTS = 2**24
_MOST_HELD = 2**22  # of a table of values and reports


@spec
class AffineHashing(SupportOracle):
    """Affine hashing: hash your value by a random linear function, then report the hash by k-RR.

    The value v stands for the vector of its t digits to the base g, over the field of g elements,
    and hashes are inner products: `h_a(v) = <a, v>`. Vectors a that are multiples of each other cut
    the values into the same g buckets, so there is one function for each of the
    `N = (g**t - 1) / (g - 1)` directions. The user draws one of them, adds to its hash the noise by
    which `KRR(g, epsilon)` changes a value, and reports function and bucket as one number,
    `function g + bucket`. In the terms of geometry, a report is a hyperplane of an affine space,
    and a function a class of parallel ones.

    Any two values collide under `(g**(t-1) - 1) / (g**t - 1)` of all functions, a little less than
    1/g. So the variance is less than that of local hashing with ideal functions, and where
    k is g**t, so that all buckets hold k / g values, it is that of `SubsetSelection` with sets of
    this size. There are g N reports, fewer than `k g**2 / (g - 1)`. They are counted, at a cost
    that does not depend on k; how many support each value follows from the counts, once; and the
    law of the counts is known. `LocalHashing` has 2**96 functions, under which the hashes of any
    three values are independent: here they are not where the three points lie on a line.

    Of the first word, each function has `floor(2**32 / N)` values; with the others, fewer than N, a
    user says nothing: it reports the number g N, a blank, whatever its value. The second word is
    that of `KRR`.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: given the function, which does not depend on the value,
        the report is that of `KRR(g, epsilon)`. It holds for every int32 input, since values
        outside the domain are clamped into it.
      * Estimate: `(N_v - n q) / (p - q)` counts the users with value v without bias, N_v being the
        number of users whose reported bucket is the hash of v. With p' and q' the probabilities of
        the true bucket and of each other, c that of a collision and b that of a blank,
        `p = (1 - b) p'` and `q = (1 - b) (c p' + (1 - c) q')`.
      * Variance, exact for a fixed data set with counts c_v:
        `(c_v p (1 - p) + (n - c_v) q (1 - q)) / (p - q)**2`.

    Edge cases:
      ===================================  ======================================================
      epsilon above 22.18 or so            ValueError: one word of 32 bits cannot realise it
      epsilon below about `g**2 / 2**32`   ValueError: p' and q' would be the same
      value outside the domain             ValueError from a Population; the params clamp it
      k (g N + 1) above 2**22              `channel()` raises ValueError
      k at most g                          one function: k-RR with g values
      ===================================  ======================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**22.
      epsilon: privacy parameter, > 0.
      hash_range: g, a prime or a power of two from 2 to 1,024; t is the least with `g**t >= k`, and
        g N at most 2**24. None for the one with the least sum of variances, near `e**epsilon + 1`.
        Decoding takes (t - 1) g additions for each of the g N reports.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import AffineHashing
      >>> hashing = AffineHashing(num_values=266, epsilon=1.0)
      >>> hashing.hash_range, hashing.num_functions
      (4, 341)
      >>> hashing.variance([1000] + 265 * [0])[1].round(2).item()
      3682.28

    References:
      Wang, Blocki, Li, Jha (2017), Locally differentially private protocols for frequency
      estimation, section 4.4; Carter and Wegman (1979), Universal classes of hash functions; Bose
      (1942), A note on the resolvability of balanced incomplete block designs; Feldman, Nelson,
      Nguyen, Talwar (2022), Private frequency estimation via projective geometry, whose reports are
      hyperplanes as well, of all classes together.
    """

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())
    hash_range: int | None = field(Optional(Integer(2, MAX_ORDER)), default=None)

    def validate(self) -> None:
        """Settles the range of hashes; raises ValueError where words cannot realise epsilon."""
        if self.hash_range is None:
            self.settle(hash_range=_best_range(self.num_values, self.epsilon))
        if self._order not in orders():
            raise ValueError(
                f"hash_range must be a prime or a power of two, got {self._order}; leave it out "
                "for the best one."
            )
        reports = self._order * self.num_functions
        if reports > MAX_REPORTS:
            raise ValueError(
                f"hash_range = {self._order} is too large for num_values = {self.num_values}: "
                f"there would be {reports} reports, and at most 2**24 are supported; take a "
                "smaller one."
            )
        try:
            self._response()
        except ValueError as error:
            message = str(error).replace("num_values", "hash_range")
            raise ValueError(message) from None

    @property
    def _order(self) -> int:
        assert self.hash_range is not None
        return self.hash_range

    @property
    def _dimension(self) -> int:
        return dimension_for(self._order, self.num_values)

    @property
    def num_functions(self) -> int:
        """Number of hash functions, N."""
        return num_points(self._order, self._dimension)

    def _response(self) -> KRR:
        """What a user does with its hash."""
        return KRR(self._order, self.epsilon)

    def build(self, word_bits: int = 32) -> "AffineHashingParams":
        """The params; `word_bits=8` makes a twin whose pairs of words can be enumerated."""
        response = self._response().build(word_bits)
        if self.num_functions > 2**word_bits:
            raise ValueError(
                f"word_bits = {word_bits} is too small for {self.num_functions} hash functions."
            )
        return AffineHashingParams(response, self.num_values, word_bits)

    def _heard(self, word_bits: int) -> Fraction:
        """The probability that a report is no blank."""
        functions, space = self.num_functions, 2**word_bits
        return Fraction(functions * (space // functions), space)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities (p, q) that the bucket is the hash of the value, and of another."""
        p, other = self._response().probabilities(word_bits)
        collision = Fraction(num_points(self._order, self._dimension - 1), self.num_functions)
        heard = self._heard(word_bits)
        return heard * p, heard * (other + (p - other) * collision)

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact `Pr[report = y | x]`, row x of the inputs (of all values if None), column y."""
        g, functions = self._order, self.num_functions
        rows = listed_rows(self.num_values, g * functions + 1, inputs)
        if rows is None:
            return None
        heard = self._heard(word_bits)
        weights = [
            heard / functions * weight for weight in self._response().probabilities(word_bits)
        ]
        vectors = class_vector(np.arange(functions, dtype=np.uint32), g, self._dimension)
        listed = []
        for value in rows:
            hashes = product(vectors, np.full_like(vectors, value), g, self._dimension)
            true = (hashes[:, None] == np.arange(g)).ravel().tolist()
            listed.append([weights[not hit] for hit in true] + [1 - heard])
        return listed

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """One kind: function and bucket, by which of three values are hashed to the bucket.

        Two values collide under the functions of a hyperplane of directions, whichever they are.
        Of the others, one may be on the line of both, as 0, 1 and 2 are: it collides with both or
        with none. If it is not, as 0, 1 and g are not, all three collide under those of two
        hyperplanes.
        """
        if self.num_values == 2:
            return None
        g, t, functions = self._order, self._dimension, self.num_functions
        p, other = (float(x) for x in self._response().probabilities())
        heard = float(self._heard(32))
        twice = num_points(g, t - 1) / functions
        thirds = [twice] if g > 2 else []
        if self.num_values > g:
            thirds.append(num_points(g, t - 2) / functions)
        return tuple(
            symmetric_pair_law(
                (heard, heard * twice, heard * thrice), heard * g, p, other, 1 - heard
            )
            for thrice in thirds
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p' / q'), rounded up; at most `epsilon`."""
        return self._response().exact_epsilon(word_bits)

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of the estimate from one user, float64[k, k].

        For values u and w other than the user's value v, let c be the share of functions under
        which u and v collide, and d that under which u, v and w do. Then u and w collide under c of
        them as well, so a report supports both with probability `(1 - b) (d p' + (c - d) q')`. If
        the three are on a line, all collide where two do, d = c; otherwise
        `d = (g**(t-2) - 1) / (g**t - 1)`.

        Args:
          value: the user's value, an int in [0, k).
        """
        k, g, t = self.num_values, self._order, self._dimension
        value = check_int("value", value, low=0, high=k - 1)
        p, other = self._response().probabilities()
        heard, functions = self._heard(32), self.num_functions
        two = Fraction(num_points(g, t - 1), functions)
        three = Fraction(num_points(g, t - 2), functions) if t > 1 else two
        line = heard * two * p
        plane = heard * (three * p + (two - three) * other)
        direction = _directions(value, k, g, t)
        # The user's value is on a line with any other.
        same = (direction[:, None] == direction) | (direction == 0) | (direction[:, None] == 0)
        joint = np.where(same, float(line), float(plane))
        p, q = map(float, self.probabilities())
        mean = np.where(np.arange(k) == value, p, q)
        np.fill_diagonal(joint, mean)
        return (joint - np.outer(mean, mean)) / (p - q) ** 2

    def noise(self) -> TableNoise:
        """The moments of the noise, from the table of the reports."""
        return table_noise(self.build(), self.num_values)

    @property
    def _query_width(self) -> int:
        return self._order * self.num_functions

    def _forms(self, queries: np.ndarray) -> np.ndarray:
        g, t, k = self._order, self._dimension, self.num_values
        p, q = map(float, self.probabilities())
        true, other = map(float, self._response().probabilities())
        each = float(self._heard(32)) / self.num_functions  # of a function
        # A report decodes to the sum of a query over the values of its bucket; all of them are
        # shifted by their mean over the buckets, which has no variance.
        total = queries.sum(axis=1, keepdims=True)
        centre = total / g
        if k * self._query_width <= _MOST_HELD:
            # Of few values on the host: a program would serve one hash range alone.
            holds = _holds(k, g, t)
            squares = (queries @ holds - centre) ** 2
            through = squares @ holds.T
        else:
            with jax.enable_x64(True):
                padded = jnp.asarray(np.pad(queries, ((0, 0), (0, g**t - k))))
                sums = (_in_buckets(padded, g, t) - centre) ** 2
                through = np.asarray(_through_values(sums, g, t))[:, :k]
                squares = np.asarray(sums)
        everywhere = squares.sum(axis=1, keepdims=True)
        second = each * ((true - other) * through + other * everywhere)
        second = second + (1 - each * self.num_functions) * centre**2
        mean = (p - q) * queries + q * total - centre
        return (second - mean**2) / (p - q) ** 2


def dimension_for(order: int, values: int) -> int:
    """The least t >= 1 with `order**t >= values`."""
    t = 1
    while order**t < values:
        t += 1
    return t


def _holds(num_values: int, order: int, dimension: int) -> Float[np.ndarray, "k buckets"]:
    """Whether each bucket of each function holds each value, 1 or 0."""
    functions = np.arange(num_points(order, dimension), dtype=np.uint32)
    values = np.arange(num_values, dtype=np.uint32)[:, None]
    vectors = np.asarray(class_vector(functions, order, dimension))
    vectors, values = np.broadcast_arrays(vectors, values)
    heard = np.asarray(product(vectors, values, order, dimension)).astype(np.int64)
    holds = np.zeros((num_values, len(functions) * order))
    holds[np.arange(num_values)[:, None], functions * np.int64(order) + heard] = 1.0
    return holds


@functools.partial(jax.jit, static_argnums=(1, 2))
def _in_buckets(numbers: Array, order: int, dimension: int) -> Array:
    return jax.vmap(lambda row: hyperplanes_of_points(row, order, dimension))(numbers)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _through_values(numbers: Array, order: int, dimension: int) -> Array:
    return jax.vmap(lambda row: points_of_hyperplanes(row, order, dimension))(numbers)


def _directions(value: int, size: int, order: int, dimension: int) -> np.ndarray:
    """A number for the line on which each value lies with a given one; 0 for that one itself."""
    elements = np.arange(order, dtype=np.uint32)
    table = product(*np.meshgrid(elements, elements, indexing="ij"), order)
    inverse = np.argmax(table == 1, axis=1)
    minus = np.argmax(add(*np.meshgrid(elements, elements, indexing="ij"), order) == 0, axis=1)
    powers = order ** np.arange(dimension)
    entries = (np.arange(size)[:, None] // powers % order).astype(np.uint32)
    origin = np.broadcast_to(entries[value], entries.shape)
    away = add(entries, minus[origin].astype(np.uint32), order)
    # Over its first entry that is not 0; without one it is the origin.
    first = np.argmax(away != 0, axis=1)
    scale = inverse[away[np.arange(size), first]].astype(np.uint32)
    scaled = product(away, np.broadcast_to(scale[:, None], away.shape), order)
    return np.asarray(scaled) @ powers


@functools.lru_cache(maxsize=256)
def _best_range(num_values: int, epsilon: float) -> int:
    """The hash range with the least sum of variances, of those with at most 2**24 reports."""
    e = math.exp(min(epsilon, 100.0))

    def total(g):
        t = dimension_for(g, num_values)
        functions = num_points(g, t)
        if g * functions > MAX_REPORTS:
            return math.inf
        p, other = e / (e + g - 1), 1 / (e + g - 1)
        q = other + (p - other) * num_points(g, t - 1) / functions
        spread = p * (1 - p) + (num_values - 1) * q * (1 - q)
        return spread / (p - q) ** 2 if p > q else math.inf

    return min(orders(), key=total)


@params
class AffineHashingParams(BinRound[Count], DrawnCountsRound):
    """The params of `AffineHashing`: a pytree.

    Attributes:
      response: the params of randomized response on the hashes.
      num_values: k, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    response: KRRParams
    num_values: int = static()
    word_bits: int = static(default=32)

    independent_stream: ClassVar[int] = 4

    @property
    def order(self) -> int:
        """Buckets of a function, g."""
        return self.response.num_values

    @property
    def dimension(self) -> int:
        """Digits of a value, t."""
        return dimension_for(self.order, self.num_values)

    @property
    def num_functions(self) -> int:
        """Number of hash functions, N."""
        return num_points(self.order, self.dimension)

    @property
    def num_reports(self) -> int:
        """Number of distinct reports, g N and the blank."""
        return self.order * self.num_functions + 1

    @property
    def num_words(self) -> int:
        """One word for the function and one for the response."""
        return 2

    @property
    def _each(self) -> int:
        """The words that lead to each function."""
        return 2**self.word_bits // self.num_functions

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, ""]:
        """One user's report, in [0, g N]; a value outside the domain is clamped into it."""
        g = self.order
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)
        noise = self.response.from_bits(part_of(words, 1, 1), jnp.zeros_like(value))
        if self.num_functions == 1:  # the hash is the value
            report = add(value.astype(jnp.uint32), noise.astype(jnp.uint32), g)
            return jnp.asarray(report, jnp.int32)
        function = words[0] // np.uint32(self._each)
        vector = class_vector(function, g, self.dimension)
        bucket = product(vector, value.astype(jnp.uint32), g, self.dimension)
        report = function * np.uint32(g) + add(bucket, noise.astype(jnp.uint32), g)
        return jnp.minimum(report, np.uint32(self.num_reports - 1)).astype(jnp.int32)

    def _shares(self) -> tuple[float, Float[Array, ""], Float[Array, ""]]:
        """The probability that a report is no blank, and p' and q'; only inside an x64 block."""
        heard = self.num_functions * self._each / 2**self.word_bits
        return heard, *self.response.probabilities()

    def probabilities(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The realised (p, q) as float64; only inside an x64 block."""
        heard, p, other = self._shares()
        collision = num_points(self.order, self.dimension - 1) / self.num_functions
        return heard * p, heard * (other + (p - other) * collision)

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, "*batch k"]:
        """Unbiased counts of the users' values: `(N_v - n q) / (p - q)`."""
        p, q = self.probabilities()
        reports = outcome.f64()
        users = jnp.sum(reports, axis=-1, keepdims=True)
        rows = reports[..., :-1].reshape(-1, self.num_reports - 1)
        support = _through_values(rows, self.order, self.dimension)[:, : self.num_values]
        return (support.reshape(*outcome.shape[:-1], -1) - users * q) / (p - q)

    def _as_points(self, numbers: Float[Array, "*values"]) -> Float[Array, "*points"]:
        """Numbers of the values, with 0 for the points that are no values."""
        room = self.order**self.dimension - self.num_values
        return jnp.pad(numbers, [(0, room)] + [(0, 0)] * (numbers.ndim - 1))

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        """Draws t (k + g (g - 1) N) binomials, roughly.

        With probability `(1 - b) (p' - q')` the reported bucket is the hash for certain, and these
        reports are spread over the functions digit by digit. Of the others, all but the blanks are
        uniform.
        """
        del inputs
        g, t = self.order, self.dimension
        heard, p, other = self._shares()
        # By the place of the 1 in the vector of a certain report's function; last, the other ones.
        places = np.array([g**j / self.num_functions for j in range(t)])
        certain = heard * (p - other)
        parts = jnp.append(certain * places, 1 - certain)
        parts_key, rest_key, spread_key = jax.random.split(key, 3)
        drawn = multinomial(parts_key, counts, parts[None])
        anywhere = jnp.full(self.num_reports, heard * other / self.num_functions)
        law = anywhere.at[-1].set(1 - heard)
        rest = multinomial(rest_key, drawn[:, -1].sum(), law)
        users = self._as_points(drawn[:, :-1].f64())
        spread = spread_over_classes(spread_key, users, g, t)
        return merge(rest, Count.from_float(jnp.pad(spread, (0, 1))))

    def report_law(self, law: Float[Array, " k"]) -> Float[Array, " reports"]:
        heard, p, other = self._shares()
        inside = hyperplanes_of_points(self._as_points(law), self.order, self.dimension)
        reports = heard / self.num_functions * (other + (p - other) * inside)
        return jnp.append(reports, 1 - heard)

    @property
    def transform_cost(self) -> float:
        return 5.0 * self.num_reports * self.dimension * self.order

    def over_reports(self, numbers: Float[Array, " reports"]) -> Float[Array, " k"]:
        heard, p, other = self._shares()
        pairs = numbers[:-1]
        through = points_of_hyperplanes(pairs, self.order, self.dimension)[: self.num_values]
        chosen = other * jnp.sum(pairs) + (p - other) * through
        return heard / self.num_functions * chosen + (1 - heard) * numbers[-1]

    def _cost(self, work: Work) -> float:
        return work.draws(
            work.num_bins * self.dimension
            + self.num_reports * (1 + (self.dimension - 1) * (self.order - 1))
        )
