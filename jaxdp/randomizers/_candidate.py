"""Candidate response: the index of one of many public vectors, private whatever the floats do."""

import dataclasses
import functools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, Float32, Int32, UInt32
from numpy.typing import ArrayLike

from .._checks import By, Integer, Optional
from .._contract import Words, Work, field, params, spec, static
from .._spec import check_int
from ..accounting import PairLaw, opposite_pairs
from ..random import Count, standard_normal, user_words
from ..random._normal import unit
from ._cap import embed
from ._chi_square import propose_chi_square
from ._exact import exp_lower, log_upper
from ._mean import SelfMoments, Tail
from ._pair_laws import MOST_SHUFFLED_EPSILON
from ._sphere import WORDS, regularized_beta, solve
from ._tilt import CELLS, REACH, Tilt
from ._tilted_normal import TiltedNormalRound
from ._vector import (
    DIM,
    EPSILON,
    GRID,
    RADIUS,
    VectorRandomizer,
    padded_self_moments,
    require_words,
)

_LARGEST = 6490  # steps of the largest normal, that of a word of 0 or of all ones: 6.338 GRID
_FAR = 12.0  # where the law of a coordinate ends: a tail of 1e-33
_PUBLIC_KEY = np.array([0x6A617864, 0x70000001], np.uint32)  # what candidates are made with


def _check_candidates(name: str, value: object) -> int:
    """A power of two from 4 to 2**16."""
    number = check_int(name, value, low=4, high=2**16)
    if number & (number - 1):
        raise ValueError(f"{name} must be a power of two, got {value!r}.")
    return number


@dataclasses.dataclass(frozen=True)
class Ranks:
    """How often each rank is reported, in integers.

    The `num_high` candidates nearest to a vector have `threshold` of the 2**32 first words, the
    others have the rest; second words choose one of them, as evenly as 2**32 words can.

    Attributes:
      num_candidates: M.
      num_high: k.
      threshold: words that choose a near candidate.
    """

    num_candidates: int
    num_high: int
    threshold: int

    @classmethod
    def of(cls, epsilon: float, num_candidates: int, num_high: int) -> "Ranks":
        """The largest threshold whose realised epsilon is at most `epsilon`."""
        ratio = exp_lower(epsilon)
        # threshold * high <= (WORDS - threshold) * low, solved for the threshold.
        high = -(-WORDS // num_high)  # the most words of a near candidate
        low = ratio * (WORDS // (num_candidates - num_high))
        return cls(num_candidates, num_high, math.floor(WORDS * low / (high + low)))

    @property
    def signal(self) -> float:
        """The probability of a near candidate beyond what all candidates have."""
        high, others = self.threshold / WORDS, self.num_candidates - self.num_high
        return high - self.num_high * (1 - high) / others

    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of a report at two inputs."""
        others, rest = self.num_candidates - self.num_high, WORDS - self.threshold
        up = Fraction(-(-WORDS // self.num_high) * self.threshold, (WORDS // others) * rest)
        down = Fraction(-(-WORDS // others) * rest, (WORDS // self.num_high) * self.threshold)
        return max(up, down)

    def words_of(self, place: np.ndarray, size: int) -> np.ndarray:
        """How many second words choose each place among `size`."""
        # Those with floor(word size / 2**32) = place: from ceil(place 2**32 / size) up to where the
        # next place begins. See `_part`.
        place = place.astype(np.int64)
        return -(-(place + 1) * WORDS // size) + (-place * WORDS // size)


class CoordinateLaw:
    """The law of the coordinate X of the reported candidate along the unit vector of the input.

    Candidates are M / 2 normals and their opposites. X is a standard normal, but with probability
    `signal` it is that of one of the k nearest: positive, of density `(M / k) phi(x) pi(x)` with
    `pi(x) = Pr[Bin(M / 2 - 1, 2 Q(x)) < k]`, Q the normal tail.

    Attributes:
      raw: E[X**j] for j = 0, .., 4.
      proxy_variance: an s with `log E exp(t (X - E X)) <= s t**2 / 2` for all t.
    """

    def __init__(self, ranks: Ranks):
        nodes, weights = _quadrature()
        near = weights * _near_density(ranks.num_candidates, ranks.num_high)
        moments = [float(near @ nodes**j) for j in range(5)]
        normal = (1.0, 0.0, 1.0, 0.0, 3.0)
        s = ranks.signal
        self.raw = tuple(s * x + (1 - s) * z for x, z in zip(moments, normal, strict=True))
        self._ranks = ranks

    @functools.cached_property
    def proxy_variance(self) -> float:
        """Over a grid of t, up to 1e-3: E exp(t X) = exp(t**2 / 2) G(t), with G an integral."""
        nodes, weights = _quadrature()
        density = weights * _near_density(self._ranks.num_candidates, self._ranks.num_high)
        positive = np.geomspace(1e-3, 40.0, 1000)
        t = np.concatenate([-positive[::-1], positive])
        shift = np.exp(np.outer(t, nodes) - t[:, None] ** 2 / 2)
        # Beyond the nodes all candidates are near: a normal tail.
        tails = np.array([math.erfc((_FAR - x) / math.sqrt(2)) / 2 for x in t])
        far = tails * self._ranks.num_candidates / self._ranks.num_high
        grown = np.log(1 - self._ranks.signal + self._ranks.signal * (shift @ density + far))
        # Each t asks for s >= 1 + excess, which is the variance as t -> 0, and 1 as |t| grows.
        excess = 2 * (grown - self.raw[1] * t) / t**2
        variance = self.raw[2] - self.raw[1] ** 2
        return max(1.0, variance, 1 + float(np.max(excess))) + 1e-3


@functools.cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss and Legendre on 256 pieces of [0, 12]."""
    x, w = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(0.0, _FAR, 257)
    half = (edges[1:] - edges[:-1]) / 2
    nodes = (edges[:-1] + half)[:, None] + half[:, None] * x[None, :]
    return nodes.ravel(), (half[:, None] * w[None, :]).ravel()


@functools.lru_cache(maxsize=256)
def _near_density(num_candidates: int, num_high: int) -> np.ndarray:
    """The density of the coordinate of one of the nearest candidates, at the nodes."""
    nodes, _ = _quadrature()
    normal = np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)
    pairs = num_candidates // 2
    if num_high < pairs:
        outside = np.array([math.erf(x / math.sqrt(2)) for x in nodes])  # 1 - 2 Q(x)
        # Pr[Bin(n, p) < k] = I_{1-p}(n - k + 1, k), here for n = M / 2 - 1 and p = 2 Q(x).
        normal = normal * regularized_beta(pairs - num_high, num_high, outside)
    return normal * (num_candidates / num_high)


def _tilt(ranks: Ranks) -> Tilt:
    """The coordinate X: standard normal, but for what the nearest have more than their share."""
    nodes, weights = (x.reshape(256, -1) for x in _quadrature())
    masses = weights * _near_density(ranks.num_candidates, ranks.num_high).reshape(256, -1)
    # Cells are pairs of the pieces, from the first on that matters; the last ones end at 12.
    size = 2 * CELLS
    assert size * _FAR == 256 * REACH
    start = min(int(np.argmax(masses.sum(axis=1) > 1e-20)), 256 - size)
    part = slice(start, start + size)
    return Tilt.of(
        1 - ranks.signal, nodes[part].reshape(CELLS, -1), masses[part].reshape(CELLS, -1)
    )


@functools.lru_cache(maxsize=256)
def _law(epsilon: float, num_candidates: int, num_high: int) -> CoordinateLaw:
    return CoordinateLaw(Ranks.of(epsilon, num_candidates, num_high))


@functools.lru_cache(maxsize=256)
def _best_high(epsilon: float, num_candidates: int) -> int:
    """The number of near candidates of the smallest worst variance, about a share q of them."""
    share = solve(None, epsilon).cap.mass  # of the half-space of `PrivUnitG`
    low, high = int(0.7 * share * num_candidates), int(1.4 * share * num_candidates) + 2
    low, high = max(low, 1), min(high, num_candidates // 2)

    def worst(number: int) -> float:
        _, mean, square, _, _ = _law(epsilon, num_candidates, number).raw
        return max(1.0, square - mean**2) / mean**2

    while high - low > 2:  # the cost falls, then rises
        left, right = low + (high - low) // 3, high - (high - low) // 3
        if worst(left) < worst(right):
            high = right - 1 if right - 1 > low else right
        else:
            low = left + 1
    return min(range(low, high + 1), key=worst)


@spec
class CandidateResponse(VectorRandomizer["CandidateResponseParams"]):
    """Report the index of one of M public vectors, more often of one near your vector.

    A vector x of the ball of radius r in R^d becomes the unit vector
    `u = (x, sqrt(r**2 - |x|**2)) / r` of R^(d + 1). Each user has a public seed, and from it M
    candidates: M / 2 standard normal vectors and their opposites. It reports its seed and the index
    of a candidate: with probability p one of the k candidates with the largest products with u,
    evenly, and otherwise one of the others, evenly. The analyst makes the candidate again. It
    stands for `(r / m) V`, without its last coordinate, with m the mean of `<V, u>`; the estimate
    is the mean. The report has 32 bits of seed, which may be the user's number, and log2(M) bits.

    As M grows this is `PrivUnitG`. But a client computes floats only to rank public vectors.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, bit by bit, and for release. Exactly k indices are likely,
        whatever the input, the candidates, their order and the floats are: for each of them the
        words that lead to it are counted in integers, and `exact_epsilon()` is the log-ratio of the
        most and the fewest. What is proven of shuffled reports asks for random seeds: a seed that
        is the user's number names the user.
      * Bias: none, over the seeds.
      * Variance: as for all `VectorRandomizer`s; 0.3 % and 1.4 % above that of `PrivUnitG` for
        epsilon = 1 and 4 with M = 256, 0.8 % for epsilon = 8 with M = 4096.

    Edge cases:
      =======================  =================================================================
      zero vector              as any other: u is the last axis
      norm above the radius    ValueError from specs and populations; params project to the ball
      NaN in a vector          ValueError from specs and populations; the zero vector in params
      a client's time          M (d + 1) / 2 normals: 15 us at d = 64, M = 256
      =======================  =================================================================

    Args:
      dim: d, the dimension; 1 to 2**20.
      epsilon: privacy parameter, in [1e-4, 30].
      radius: r > 0, rounded to float32.
      num_candidates: M, a power of two up to 2**16; None for 256, or 4096 above epsilon = 5.
      num_high: k, from 1 to M / 2; None for the smallest worst variance.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import CandidateResponse, PrivUnitG
      >>> spec = CandidateResponse(dim=64, epsilon=1.0)
      >>> spec.exact_epsilon() <= 1.0
      True
      >>> best = PrivUnitG(dim=64, epsilon=1.0)
      >>> round(spec.worst_case_variance(1) / best.worst_case_variance(1), 4)
      1.0031

    References:
      Asi, Feldman, Talwar (2022), Optimal algorithms for mean estimation under local differential
      privacy, for the limit; Shah, Chen, Ballé, Kairouz, Theis (2022), Optimal compression of
      locally differentially private mechanisms, for candidates. The exact form is derived here.
    """

    dim: int = field(DIM)
    epsilon: float = field(EPSILON)
    radius: float = field(RADIUS, default=1.0)
    num_candidates: int | None = field(
        Optional(By(_check_candidates, (0, 3, 2**17, 1.5, "1"))), default=None
    )
    num_high: int | None = field(Optional(Integer(1)), default=None)

    def validate(self) -> None:
        """Raises ValueError unless at most half of the candidates are near."""
        if self.num_high is not None:
            check_int("num_high", self.num_high, low=1, high=self._num_candidates // 2)

    @property
    def _num_candidates(self) -> int:
        return self.num_candidates or (256 if self.epsilon <= 5 else 4096)

    def ranks(self) -> Ranks:
        """The probabilities with which ranks are reported."""
        number = self._num_candidates
        return Ranks.of(self.epsilon, number, self.num_high or _best_high(self.epsilon, number))

    def _law(self) -> CoordinateLaw:
        ranks = self.ranks()
        return _law(self.epsilon, ranks.num_candidates, ranks.num_high)

    def build(self, word_bits: int = 32) -> "CandidateResponseParams":
        """The params; the sampler needs words of 32 bits."""
        require_words(word_bits)
        ranks = self.ranks()
        return CandidateResponseParams(
            np.asarray(ranks.threshold, np.uint32),
            np.asarray(round(ranks.signal * WORDS), np.uint32),
            np.asarray(self.radius, np.float32),
            np.asarray(self.radius / (self._law().raw[1] * GRID)),
            _tilt(ranks),
            self.dim,
            ranks.num_candidates,
            ranks.num_high,
        )

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter: the log-ratio of counts of words, rounded up."""
        require_words(word_bits)
        return log_upper(self.ranks().worst_ratio())

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """Vectors whose near candidates differ, as those of opposite ones: no pair hides less.

        Given a seed, each vector has the same probabilities, in another order. Seeds have to be
        random: where they are the users' numbers, no shuffler hides who sent a report.

        The second pair is attained, over the seeds: opposite vectors, among others with one that is
        orthogonal to them, whose near candidates are then independent of theirs.
        """
        if self.epsilon > MOST_SHUFFLED_EPSILON:
            return None
        ranks = self.ranks()
        k, number = ranks.num_high, ranks.num_candidates
        chosen = ranks.threshold / WORDS
        high, low = (ranks.words_of(np.arange(size), size) / WORDS for size in (k, number - k))
        row = np.append(chosen * high, (1 - chosen) * low)
        proven = opposite_pairs(np.stack([row, row[::-1]]), np.full(number, row.min()))[0]
        # The candidates that are near to the opposite vector come first among the others.
        far, rest = (1 - chosen) * low[:k].sum(), (1 - chosen) * low[k:].sum()
        near = k / number
        by_chance = np.array([near, near, 1 - 2 * near])
        third = np.array([near, 1 - near])
        laws = (
            (np.array([chosen, far, rest]), third),
            (np.array([far, chosen, rest]), third),
            (by_chance * row.min() * number, third),
            (by_chance, np.array([chosen, 1 - chosen])),
        )
        first, second, least, other = (np.outer(*law).ravel() for law in laws)
        return proven, PairLaw(first, second, least, np.stack([other, first, second]))

    def second_moments(self) -> tuple[float, float]:
        """`E[X**2] / m**2` and `1 / m**2`."""
        _, mean, square, _, _ = self._law().raw
        return square / mean**2, 1 / mean**2

    def self_moments(self, means: np.ndarray, weights: np.ndarray) -> SelfMoments:
        """The moments of `z^T D z`, exact; see `padded_self_moments`."""
        law = self._law()
        scale = self.radius / law.raw[1]
        return padded_self_moments(law.raw, None, scale, means / self.radius, weights)

    def tail(self) -> Tail:
        """Sub-Gaussian: a normal across the input, and `CoordinateLaw.proxy_variance` along it."""
        law = self._law()
        return Tail((self.radius / law.raw[1]) ** 2 * law.proxy_variance, 0.0)

    def log_density(self, reports: ArrayLike, value: ArrayLike) -> np.ndarray:
        """The log-probability of the index of reports of a value, given their seeds; exact.

        Args:
          reports: uint32[n, 2].
          value: float[dim].

        Returns:
          float64[n].
        """
        built, ranks = self.build(), self.ranks()
        value = jnp.asarray(self.check_value(value), jnp.float32)
        near, place = map(np.asarray, _places_of(built, jnp.asarray(reports), value))
        others = ranks.num_candidates - ranks.num_high
        high = ranks.threshold * ranks.words_of(place, ranks.num_high).astype(np.float64)
        low = (WORDS - ranks.threshold) * ranks.words_of(place, others).astype(np.float64)
        # Of 2**64 pairs of second and third words.
        return np.log(np.where(near, high, low)) - 64 * math.log(2)


@params
class CandidateResponseParams(TiltedNormalRound):
    """The params of `CandidateResponse`: a pytree.

    Attributes:
      threshold: uint32[], words that choose a near candidate.
      signal: uint32[], 2**32 times how much more often than by chance that is.
      radius: float32[], of the ball.
      unit: float64[], r / m over the grid, what 1 in a candidate stands for.
      tilt: the law of the coordinate along u.
      dim: d, static.
      num_candidates: M, static.
      num_high: k, static.
    """

    threshold: UInt32[Array | np.ndarray, ""]
    signal: UInt32[Array | np.ndarray, ""]
    radius: Float32[Array | np.ndarray, ""]
    unit: Float[Array | np.ndarray, ""]
    tilt: Tilt
    dim: int = static()
    num_candidates: int = static()
    num_high: int = static()

    @property
    def num_words(self) -> int:
        """One for the seed, one for near or far, one for which."""
        return 3

    @property
    def lazy_words(self) -> bool:
        """False: all of them are read."""
        return False

    @property
    def grid(self) -> int:
        """Steps of the grid for a standard deviation."""
        return GRID

    @property
    def report_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """A seed of 32 bits, and the number of a candidate."""
        return np.zeros(2, np.int64), np.array([2**32 - 1, self.num_candidates - 1])

    @property
    def largest_report(self) -> int:
        """6.3 standard deviations: candidates are normals of 32-bit words."""
        return _LARGEST

    def extreme_tallies(self) -> list[dict[str, Count]]:
        """Every entry at its least, and at its largest.

        Some seed has a candidate with each of these, but for a probability of `e**-M`: an entry is
        made of one word in `2**32`, and there are `2**31 M` words. Which seed is not known.
        """
        ends = np.full((2, self.dim), [[-_LARGEST], [_LARGEST]])
        return [{"sum": Count.of(ends), "users": Count.of(np.ones(2, np.int64))}]

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a user, roughly: its candidates are normals."""
        return work.words(6.0 * self.num_candidates * (self.dim + 1))

    def _candidate(self, seed: UInt32[Array, ""], number: jax.Array) -> Float32[Array, " m"]:
        """The normal vector of a number in [0, M / 2)."""
        key = jax.random.wrap_key_data(jnp.asarray(_PUBLIC_KEY), impl="threefry2x32")
        index = Count.of(seed).times(self.num_candidates // 2) + Count.of(number)
        return standard_normal(user_words(key, index, self.dim + 1)[:])

    def _order(
        self, seed: UInt32[Array, ""], value: Float[Array, " d"]
    ) -> tuple[Int32[Array, " pairs"], Bool[Array, " pairs"]]:
        """The pairs of opposite candidates, the nearest first; whether the first of each is near.

        Args:
          seed: of the user.
          value: projected to the ball; NaN counts as the zero vector.
        """
        head, last = embed(value, jnp.asarray(self.radius))

        def product(number: jax.Array) -> jax.Array:
            normals = self._candidate(seed, number)
            return jnp.sum(normals[:-1] * head) + normals[-1] * last

        products = lax.map(product, jnp.arange(self.num_candidates // 2, dtype=jnp.int32))
        return jnp.argsort(-jnp.abs(products)).astype(jnp.int32), products >= 0

    def from_bits(self, words: Words, value: Float[Array, " d"], /) -> UInt32[Array, "2"]:
        """One user's report: its seed and the index `2 pair + side` of a candidate."""
        order, positive = self._order(words[0], value)
        k, pairs = self.num_high, self.num_candidates // 2
        near = words[1] < self.threshold
        place = jnp.where(near, _part(words[2], k), _part(words[2], self.num_candidates - k))
        # Near: the near sides of the first k pairs. Others: the far sides of all, then the near
        # sides of the pairs from number k on.
        far_side = ~near & (place < pairs)
        pair = order[jnp.where(near | far_side, place, place - np.int32(pairs - k))]
        side = (positive[pair] == far_side).astype(jnp.uint32)
        return jnp.stack([words[0], 2 * pair.astype(jnp.uint32) + side])

    def place_of(
        self, report: UInt32[Array, "2"], value: Float[Array, " d"]
    ) -> tuple[Bool[Array, ""], Int32[Array, ""]]:
        """Whether a report is one of the k nearest to a value, and its place among such."""
        order, positive = self._order(report[0], value)
        k, pairs = self.num_high, self.num_candidates // 2
        pair, side = (report[1] >> np.uint32(1)).astype(jnp.int32), report[1] & np.uint32(1)
        rank = jnp.argmax(order == pair).astype(jnp.int32)
        far_side = positive[pair] == (side == 1)
        near = ~far_side & (rank < k)
        return near, jnp.where(near | far_side, rank, rank + np.int32(pairs - k))

    def summands(self, reports: UInt32[Array, "*n 2"]) -> Int32[Array, "*n d"]:
        """The candidates that are reported, on the grid."""

        def one(report: jax.Array) -> jax.Array:
            normals = self._candidate(report[0], report[1] >> np.uint32(1))[: self.dim]
            steps = jnp.rint(normals * np.float32(GRID)).astype(jnp.int32)
            return jnp.where(report[1] & np.uint32(1) == 1, -steps, steps)

        flat = jax.vmap(one)(reports.reshape(-1, 2))
        return flat.reshape(*reports.shape[:-1], self.dim)

    @property
    def along_words(self) -> int:
        """One for near or far, one for a share, and two for each of two chi-squares."""
        return 6

    @property
    def along_cost(self) -> float:
        """Two chi-squares."""
        return 50.0

    @property
    def rounding(self) -> float:
        """The variance of rounding a candidate, a normal, to the nearest step: Sheppard's 1/12."""
        return 1 / 12

    def propose_along(self, words: Words) -> tuple[Float32[Array, ""], Bool[Array, ""]]:
        """The coordinate X of the reported candidate along the unit vector of the input."""
        # The tail probability 2 Q(X) of a near candidate has a density proportional to
        # Pr[B > p] for B ~ Beta(k, M / 2 - k): a uniform part of B, biased by its size.
        k, pairs = self.num_high, self.num_candidates // 2
        share, accepted = unit(words[1]), jnp.asarray(True)
        if k < pairs:
            a, right = propose_chi_square(words, 2, 2 * k + 2)
            b, also = propose_chi_square(words, 4, 2 * (pairs - k))
            share, accepted = share * (a / (a + b)), right & also
        near = -ndtri(share * np.float32(0.5))
        a = jnp.where(words[0] < self.signal, near, standard_normal(words[1]))
        return a, accepted


@jax.jit
def _places_of(
    params: CandidateResponseParams, reports: UInt32[Array, "n 2"], value: Float[Array, " d"]
) -> tuple[Bool[Array, " n"], Int32[Array, " n"]]:
    """`place_of` of many reports, in one program."""
    return jax.vmap(lambda report: params.place_of(report, value))(reports)


def _part(word: UInt32[Array, ""], size: int) -> Int32[Array, ""]:
    """`floor(word size / 2**32)` for a static size up to 2**16."""
    # By halves of the word: no product reaches 2**32.
    high, low = word >> np.uint32(16), word & np.uint32(2**16 - 1)
    whole = high * np.uint32(size) + (low * np.uint32(size) >> np.uint32(16))
    return (whole >> np.uint32(16)).astype(jnp.int32)
