"""Projective geometry response."""

import dataclasses
import functools
import math
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._spec import check_epsilon, check_int
from .._x64 import compiled_in_float64
from ..random import Count, multinomial
from ._butterfly import thin
from ._exact import exp_lower, log_upper
from ._hadamard_words import check_listable
from ._params import IndependentUsersParams
from ._projective_geometry_correlation import correlate
from ._projective_geometry_points import (
    MAX_POINTS,
    difference_set,
    dimension_for,
    num_points,
    prime_powers,
)
from ._projective_geometry_words import divide, divisor, halves, less, pair, subtract
from ._randomizer import check_word_bits
from ._support import SupportOracle

MAX_VALUES = 2**22
_MOST_ROWS = 2**14  # cells that `sample_tally` draws at a time


@dataclasses.dataclass(frozen=True, slots=True)
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

    num_values: int
    epsilon: float
    order: int | None = None

    def __post_init__(self):
        k = check_int("num_values", self.num_values, low=2, high=MAX_VALUES)
        object.__setattr__(self, "num_values", k)
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if self.order is None:
            object.__setattr__(self, "order", _best_order(k, self.epsilon))
        order = check_int("order", self.order, low=2, high=MAX_POINTS - 1)
        object.__setattr__(self, "order", order)
        if order not in prime_powers(order):
            raise ValueError(
                f"order must be a power of a prime, got {order}; leave it out for the best one."
            )
        if self.num_points > MAX_POINTS:
            raise ValueError(
                f"order = {order} is too large for num_values = {k}: the reports would be "
                f"{self.num_points} points, and at most 2**24 are supported; take a smaller order."
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
        """K, the number of reports."""
        return num_points(self._order, self.dimension)

    def _sizes(self) -> tuple[int, int, int]:
        """K, s and i: points of the space, of a hyperplane and of two hyperplanes."""
        order, t = self._order, self.dimension
        return num_points(order, t), num_points(order, t - 1), num_points(order, t - 2)

    def _weights(self, word_bits: int) -> tuple[int, int]:
        """Of all pairs of words, h for each point of S_v and m for each other one."""
        word_bits = check_word_bits(word_bits)
        points, inside, _ = self._sizes()
        space, outside, e = 4**word_bits, points - inside, exp_lower(self.epsilon)
        low = math.ceil(space / (e * inside + outside))
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
        return ProjectiveGeometryResponseParams(
            border=np.array(halves(low * points * unit), np.uint32),
            uniform=divisor(low * unit, points),
            inside=divisor((high - low) * unit, inside),
            hyperplane=difference_set(self._order, self.dimension),
            num_values=self.num_values,
            num_points=points,
            num_shared=shared,
            word_bits=word_bits,
        )

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """The realised p and q: a report is in the hyperplane of one's own value; of another."""
        high, low = self._weights(word_bits)
        _, inside, shared = self._sizes()
        other = shared * high + (inside - shared) * low
        return Fraction(inside * high, 4**word_bits), Fraction(other, 4**word_bits)

    def channel(self, word_bits: int = 32) -> list[list[Fraction]]:
        """The exact `Pr[report = y | x]` as Fractions, row x, column y.

        Raises:
          ValueError: it has more than 2**22 entries.
        """
        points, _, _ = self._sizes()
        check_listable(self.num_values, points)
        high, low = (Fraction(weight, 4**word_bits) for weight in self._weights(word_bits))
        hyperplane = set(difference_set(self._order, self.dimension).tolist())
        return [
            [high if (y + x) % points in hyperplane else low for y in range(points)]
            for x in range(self.num_values)
        ]

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(h / m), rounded up; at most `epsilon`."""
        return log_upper(Fraction(*self._weights(word_bits)))

    def covariance(self, value) -> np.ndarray:
        """The exact covariance of one user's estimate, float64[k, k].

        Args:
          value: int, the user's value.
        """
        k = self.num_values
        value = check_int("value", value, low=0, high=k - 1)
        points, _, shared = self._sizes()
        high, low = (weight / 2.0**64 for weight in self._weights(32))
        hyperplane = difference_set(self._order, self.dimension)
        member = np.zeros(points)
        member[hyperplane] = 1
        own = member[(hyperplane[:, None] - value + np.arange(k)) % points]  # points of S_v
        both = np.where(np.eye(k, dtype=bool), hyperplane.size, shared)
        p, q = map(float, self.probabilities())
        mean = np.where(np.arange(k) == value, p, q)
        joint = low * both + (high - low) * (own.T @ own)
        return (joint - np.outer(mean, mean)) / (p - q) ** 2


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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ProjectiveGeometryResponseParams(IndependentUsersParams):
    """The params of `ProjectiveGeometryResponse`: a pytree.

    Attributes:
      border: uint32[2], m K in halves: below it, a pair of words picks one of all points.
      uniform: uint32[4], the divisor m.
      inside: uint32[4], the divisor h - m.
      hyperplane: int32[s], the difference set D.
      num_values: k, static.
      num_points: K, static.
      num_shared: i, static.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    border: jax.Array | np.ndarray
    uniform: jax.Array | np.ndarray
    inside: jax.Array | np.ndarray
    hyperplane: jax.Array | np.ndarray
    num_values: int = dataclasses.field(metadata={"static": True})
    num_points: int = dataclasses.field(metadata={"static": True})
    num_shared: int = dataclasses.field(metadata={"static": True})
    word_bits: int = dataclasses.field(default=32, metadata={"static": True})

    iid_stream: ClassVar[int] = 3

    @property
    def num_words(self) -> int:
        """Two words per user."""
        return 2

    @property
    def _size(self) -> int:
        """The points of a hyperplane, s."""
        return self.hyperplane.shape[0]

    @property
    def num_reports(self) -> int:
        """K."""
        return self.num_points

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[2].
          value: int32[] in [0, k); clamped into it.

        Returns:
          int32[] in [0, K).
        """
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)
        high, low = pair(words, self.word_bits)
        border = jnp.asarray(self.border)
        anywhere = less(high, low, border[0], border[1])
        beyond = subtract(high, low, border[0], border[1])
        high, low = jnp.where(anywhere, high, beyond[0]), jnp.where(anywhere, low, beyond[1])
        index = divide(high, low, jnp.where(anywhere, self.uniform, self.inside)).astype(jnp.int32)
        own = jnp.asarray(self.hyperplane).at[index].get(mode="clip") - value
        own = jnp.where(own < 0, own + self.num_points, own)
        return jnp.where(anywhere, index, own)

    def _weights(self):
        """The probabilities m and h - m, as float64; only inside an x64 block."""

        def number(parts):
            parts = jnp.asarray(parts).astype(jnp.float64)
            return parts[0] / 2.0**32 + parts[1] / 2.0**64

        return number(self.uniform), number(self.inside)

    def probabilities(self):
        """The realised (p, q) as float64; only inside an x64 block."""
        low, gap = self._weights()
        return self._size * (low + gap), self._size * low + self.num_shared * gap

    def _correlate(self, numbers):
        """The sum of the entries in each hyperplane S_0 .. S_{K-1}, float64[..., K]."""
        inside = jnp.zeros(self.num_points).at[self.hyperplane].set(1.0)
        return correlate(numbers, jnp.broadcast_to(inside, numbers.shape))

    @compiled_in_float64
    def estimate(self, tally: Count):
        """Unbiased counts of the users' values, float[k]."""
        reports = tally.f64()
        p, q = self.probabilities()
        users = jnp.sum(reports, axis=-1, keepdims=True)
        support = jnp.rint(self._correlate(reports)[..., : self.num_values])  # whole numbers
        return (support - users * q) / (p - q)

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None) -> Count:
        """A tally drawn at once, exact in law, in O(k s + K) draws for any number of users.

        A report is certainly in the user's hyperplane with probability `s (h - m) / 2**64`, and
        uniform over all points otherwise: a binomial and a multinomial over its hyperplane for each
        value, and one multinomial.

        Args:
          key: a key; it is folded.
          counts: Count[k], the users' values.
          inputs: unused; the values are the bins.

        Returns:
          Count[K].
        """
        del inputs
        _, gap = self._weights()
        certain = thin(jax.random.fold_in(key, 0), counts, self._size * gap)
        rest = counts.sum() - certain.sum()
        uniform = multinomial(jax.random.fold_in(key, 1), rest, jnp.ones(self.num_points))
        rows = min(max(_MOST_ROWS // self._size, 1), self.num_values)
        steps = -(-self.num_values // rows)
        cells, values = jnp.ones(self._size), jnp.arange(steps * rows, dtype=jnp.int32)
        padded = jnp.pad(certain.f64(), (0, steps * rows - self.num_values))
        spread = jax.random.fold_in(key, 2)

        def add(total, step):
            number, users, value = step
            drawn = multinomial(jax.random.fold_in(spread, number), Count.from_float(users), cells)
            point = (jnp.asarray(self.hyperplane)[None] - value[:, None]) % self.num_points
            return total.at[point].add(drawn.f64()), None

        numbers = jnp.arange(steps, dtype=jnp.int32)
        steps_of = (numbers, padded.reshape(steps, rows), values.reshape(steps, rows))
        inside, _ = lax.scan(add, uniform.f64(), steps_of)
        return Count.from_float(inside)

    def report_law(self, law):
        low, gap = self._weights()
        padded = jnp.pad(law, (0, self.num_points - self.num_values))
        inside = jnp.maximum(self._correlate(padded), 0.0)  # rounded, it may be below 0
        return low + gap * inside

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly: it draws k s + K binomials."""
        del num_users
        return 400.0 * (num_bins * (self._size + 1) + self.num_points)
