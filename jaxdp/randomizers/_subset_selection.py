"""Subset selection."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int32, UInt32
from numpy.typing import ArrayLike

from jaxdp_kernels.randomize_and_tally import randomize_and_tally
from jaxdp_kernels.randomize_and_tally.xla import merged
from jaxdp_kernels.threefry_words import TILE, StreamKey
from jaxdp_kernels.threefry_words.ref import LANES, first_blocks, pairs_users
from jaxdp_kernels.threefry_words.xla import joined, separated, stored

from .._checks import Epsilon, Integer, Optional
from .._contract import (
    Draft,
    Kernels,
    Padded,
    Round,
    TallyLaw,
    Tree,
    Words,
    Work,
    field,
    params,
    spec,
    static,
)
from .._spec import check_int
from .._x64 import as_float64, compiled_in_float64
from ..accounting import PairLaw
from ..random import Count
from ._count_noise import SetNoise
from ._exact import exp_lower, log_upper
from ._floyd import NO_LABEL, Floyd, bit
from ._pair_laws import set_pair_law, set_patterns
from ._params import padded_bins
from ._randomizer import check_word_bits, values_of
from ._set_tallies import draw_sets
from ._support import SetRound, SupportOracle, symmetric_noise

MAX_VALUES = 2**20
_MAX_REPORTS = 2**16  # columns of a channel that is listed
_MAX_EMPTY = Fraction(1, 100)
_PAIRS = 2**12  # pairs of users whose sets are made at a time: they stay in a cache
_WINDOW = 31  # rows of users, by what their sets still have to take, that are drawn at once


@spec
class SubsetSelection(SupportOracle):
    """Subset selection: report a random set of d values, which holds yours more often than not.

    With probability `p* = d e**epsilon / (d e**epsilon + k - d)` the set is the user's value and a
    uniformly random set of d - 1 others, else a uniformly random set of d others. It has the least
    variance of the oracles that support sets of one size, d near `k / (e**epsilon + 1)`.

    The first word decides whether the set holds the user's value: the builder takes the smallest
    `m` with `(2**32 - m (k - d)) / (m d) <= e**epsilon`, and `p* = 1 - m (k - d) / 2**32`. If it
    does not, the word also picks a first other value. Each further word adds one of the others by
    Floyd's algorithm. A word picks uniformly out of j where it is below the largest multiple of j;
    in the rare case that one of them is not, the user sends the empty set. That happens with the
    same probability r, below `d k / 2**32`, for every value, and the estimate takes it into
    account. A pick depends on all before it, so a user takes about twice as long as its d words.

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

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())
    subset_size: int | None = field(Optional(Integer(1, MAX_VALUES - 1)), default=None)

    def validate(self) -> None:
        """Settles the size of sets; raises ValueError where words cannot realise epsilon."""
        k = self.num_values
        if self.subset_size is None:
            self.settle(subset_size=_best_size(k, self.epsilon))
        check_int("subset_size", self.subset_size, low=1, high=k - 1)
        self._outside(32)
        # Exact products of many moduli take minutes: what is clearly too much is seen in floats.
        moduli = _floyd_of(k, self._size, 32).moduli.astype(np.float64)
        empty = -math.expm1(np.log1p(-(2.0**32 % moduli) / 2.0**32).sum())
        if empty > 2 * _MAX_EMPTY or self._empty(32) > _MAX_EMPTY:
            raise ValueError(
                f"num_values = {k} with subset_size = {self._size} is too large: with words of 32 "
                f"bits {empty:.1%} of the users would send nothing; take a "
                "smaller subset_size, or UnaryEncoding or HadamardResponse."
            )

    @property
    def _size(self) -> int:
        assert self.subset_size is not None
        return self.subset_size

    def _outside(self, word_bits: int) -> int:
        """m: the words with which the set lacks the user's value are m times the k - d picks."""
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
                f"num_values = {k} and subset_size = {d}, got {self.epsilon!r}: the user's value"
                f" would be in the set as rarely as any other, in words of {word_bits} bits."
            )
        return m

    def _inclusion(self, word_bits: int) -> Fraction:
        """The realised p*."""
        outside = self._outside(word_bits) * (self.num_values - self._size)
        return 1 - Fraction(outside, 2**word_bits)

    def _empty(self, word_bits: int) -> Fraction:
        """r, the probability of the empty set."""
        return 1 - _floyd_of(self.num_values, self._size, word_bits).heard

    def build(self, word_bits: int = 32) -> "SubsetSelectionParams":
        """The params; `word_bits=8` makes a twin with words of 8 bits."""
        k, d = self.num_values, self._size
        threshold = 2**word_bits - self._outside(word_bits) * (k - d)
        return SubsetSelectionParams(np.asarray(threshold, np.uint32), k, d, word_bits)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities (p, q) that the set holds the user's value, and another given one."""
        inclusion, nonempty = self._inclusion(word_bits), 1 - self._empty(word_bits)
        others = self._size - inclusion  # of the user's set that is not empty, on average
        return nonempty * inclusion, nonempty * others / (self.num_values - 1)

    def joint_support(self) -> tuple[Fraction, Fraction]:
        """Probabilities that the set holds the user's value and another, and two others."""
        k, d, nonempty = self.num_values, self._size, 1 - self._empty(32)
        p, _ = self.probabilities()
        # Of d - 1 or d uniform others: pairs of them over all pairs.
        pairs = p * (d - 1) * (d - 2) + (nonempty - p) * d * (d - 1)
        others = pairs / ((k - 1) * (k - 2)) if k > 2 else Fraction(0)
        return p * Fraction(d - 1, k - 1), others

    def _sets(self) -> list[tuple[int, ...]] | None:
        k, d = self.num_values, self._size
        if math.comb(k, d) + 1 > _MAX_REPORTS:
            return None
        empty = [()] if self._empty(32) or self._empty(8) else []
        return [*itertools.combinations(range(k), d), *empty]

    def reports(self) -> np.ndarray | None:
        """The report of each column of `channel`, uint32[m, ceil(k / 32)].

        All sets of d in lexicographic order, and last the empty one if it ever occurs; None where
        there are more than 2**16.
        """
        sets = self._sets()
        if sets is None:
            return None
        packed = np.zeros((len(sets), _num_lanes(self.num_values)), np.uint32)
        for row, members in zip(packed, sets, strict=True):
            for v in members:
                row[v // 32] |= np.uint32(1 << v % 32)
        return packed

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact probabilities of the sets, a row for each input, columns as in `reports`.

        Args:
          word_bits: bits of a word.
          inputs: int[m], the values of the rows; None for all.
        """
        k, d, sets = self.num_values, self._size, self._sets()
        if sets is None:
            return None
        inclusion, empty = self._inclusion(word_bits), self._empty(word_bits)
        inside = (1 - empty) * inclusion / math.comb(k - 1, d - 1)
        outside = (1 - empty) * (1 - inclusion) / math.comb(k - 1, d)
        return [
            [empty if not s else inside if x in s else outside for s in sets]
            for x in values_of(inputs, k)
        ]

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """One kind: sets by which of both values, and of a third one, they hold."""
        k, d = self.num_values, self._size
        if k == 2:
            return None
        inclusion, empty = self._inclusion(32), self._empty(32)
        inside = float((1 - empty) * inclusion * k / d)
        outside = float((1 - empty) * (1 - inclusion) * k / (k - d))
        return (set_pair_law(set_patterns(k, d), inside, outside, float(empty)),)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter ln(p* (k - d) / ((1 - p*) d)), rounded up."""
        k, d, m = self.num_values, self._size, self._outside(word_bits)
        return log_upper(Fraction(2**word_bits - m * (k - d), m * d))

    def noise(self) -> SetNoise:
        """The moments of the noise: the set holds uniform others, given that it holds the value."""
        exact_p, exact_q = self.probabilities()
        p, k, d = float(exact_p), self.num_values, self._size
        without = float((exact_p + (k - 1) * exact_q) / d) - p  # of nonempty sets
        inclusion = np.empty((2, 5))
        for row, weight, members in zip(inclusion, (without, p), (d, d - 1), strict=True):
            row[0] = weight
            for j in range(4):  # j + 1 given others are among the members
                row[j + 1] = row[j] * max(members - j, 0) / max(k - 1 - j, 1)
        inclusion[0, 0] = 1 - p  # empty sets too
        return SetNoise.of_sets(
            symmetric_noise(self.probabilities(), self.joint_support()),
            p,
            float(exact_q),
            inclusion,
        )


def _best_size(k: int, epsilon: float) -> int:
    """The set size with the least sum of variances, p (1 - p) + (k - 1) q (1 - q) over a square."""
    d = np.arange(1, k)
    p = d / (d + (k - d) * math.exp(-epsilon))
    q = (d - p) / (k - 1)
    with np.errstate(divide="ignore", invalid="ignore"):  # epsilons too small are refused elsewhere
        return 1 + int(np.argmin((p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2))


def _num_lanes(num_values: int) -> int:
    """Words of a packed set."""
    return -(-num_values // 32)


@functools.lru_cache(maxsize=1024)
def _floyd_of(num_values: int, size: int, word_bits: int) -> Floyd:
    """Adds one of the k - 1 others for each word but the first."""
    return Floyd(num_values - 1, size - 1, word_bits)


@params
class SubsetSelectionParams(SetRound):
    """The params of `SubsetSelection`: a pytree.

    Attributes:
      threshold: uint32[], the user's value is in the set when the first word is below it.
      num_values: k, static.
      subset_size: d, static.
      word_bits: words are uniform on [0, 2**word_bits); static.
    """

    threshold: UInt32[Array | np.ndarray, ""]
    num_values: int = static()
    subset_size: int = static()
    word_bits: int = static(default=32)

    @property
    def num_words(self) -> int:
        """One word for each member of the set."""
        return self.subset_size

    @property
    def law(self) -> TallyLaw[dict[str, Count]]:
        """Draws the sets of given users; see `_draw`.

        Counts of independent users are drawn first: their reports are one multinomial, but with a
        cell for each of the (k choose d) sets.
        """
        return TallyLaw(self._draw, self._cost, padded=self._padded)

    @property
    def _padded(self) -> Padded[dict[str, Count]] | None:
        """The params of the next power of two of values, of which k and d are leaves."""
        bins = padded_bins(self.num_values)
        if bins is None:
            return None
        k = self.num_values
        cut = lambda tally: tally | {"support": tally["support"][..., :k]}  # noqa: E731
        return Padded(self._with_leaves(bins, bins), cut)

    def _with_leaves(self, num_values: int, most: int) -> "PaddedSubsetSelectionParams":
        """These params with leaves for k and d.

        Args:
          num_values: at least k, static.
          most: a power of two, at least d, static.
        """
        floyd, at_once = self._floyd, _floyd_of(self.num_values, most, self.word_bits).at_once
        steps = floyd.steps(at_once)
        return PaddedSubsetSelectionParams(
            self.threshold,
            num_values,
            most,
            self.word_bits,
            size=np.asarray(self.num_values, np.uint32),
            members=np.asarray(self.subset_size, np.uint32),
            nonempty=np.asarray(self._nonempty, np.float64),
            steps=np.pad(steps, [(0, -(-most // at_once) - len(steps)), (0, 0), (0, 0)]),
        )

    @property
    def _size(self) -> int | jax.Array:
        """How many values, k."""
        return self.num_values

    @property
    def _members(self) -> int | jax.Array:
        """How many of them a set has, d."""
        return self.subset_size

    @property
    def _floyd(self) -> Floyd:
        return _floyd_of(self.num_values, self.subset_size, self.word_bits)

    @property
    def _steps(self) -> tuple[UInt32[Array | np.ndarray, "steps 5 at_once"], int | jax.Array]:
        """The table of `Floyd.sets`, and how many steps are made."""
        steps = self._floyd.steps(self._floyd.at_once)
        return steps, len(steps)

    @property
    def _nonempty(self) -> float | jax.Array:
        return float(self._floyd.heard)

    def _inclusion(self) -> Float[Array, ""]:
        """The realised p* as float64; only inside an x64 block."""
        return jnp.asarray(self.threshold).astype(jnp.float64) / 2.0**self.word_bits

    def probabilities(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The realised (p, q) as float64; only inside an x64 block."""
        inclusion, nonempty = self._inclusion(), self._nonempty
        others = self.subset_size - inclusion
        return nonempty * inclusion, nonempty * others / (self.num_values - 1)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> UInt32[Array, " lanes"]:
        """One user's set: v is in it where bit `v % 32` of entry `v // 32` is 1.

        A value outside the domain is clamped into it.
        """
        return self._of_words(words[0 : self.num_words][:, None], value[None])[:, 0]

    @property
    def draft(self) -> Draft:
        """All words: the sets of many users at a time."""
        return Draft(self.num_words, self._of_words, complete=True)

    def _of_words(
        self, words: UInt32[Array, "w n"], values: Int32[Array, " n"]
    ) -> UInt32[Array, "lanes n"]:
        rows = self._floyd.rows(words[1:])
        (sets,) = self._sets(words[0], rows, lambda row: (row,), (values,), lambda make: make())
        return sets

    @property
    def kernels(self) -> Kernels[dict[str, Count]]:
        """On a CPU the same sets, those of the two users of each block of words together.

        That pays but for the smallest sets: XLA makes the picks anew for each lane.
        """
        pays = self._floyd.num_lanes > 2 or self._floyd.num_picks > 2
        return Kernels(tally={"cpu": self._paired_tally} if pays else {})

    @property
    def shared(self) -> Round[dict[str, Count]] | None:
        """The params of which d is a leaf, where there is the kernel."""
        bins = padded_bins(self.num_values)
        return self._with_leaves(self.num_values, bins) if bins and self.kernels.tally else None

    def _first_block(self, start: UInt32[Array, "2"]) -> UInt32[Array, "2"]:
        """The counter of the first block of the tile whose counter by `num_words` is this."""
        return start

    def _paired_tally(
        self,
        round: Round[Any],
        key: StreamKey,
        start: jax.Array,
        first: jax.Array | None,
        values: Tree,
        mask: jax.Array,
    ) -> Tree:
        """The tally of the reports of consecutive users; see `randomize_and_tally`."""
        size = mask.shape[0]
        if first is not None or size <= LANES:
            return randomize_and_tally(round, key, start, first, values, mask)
        pairs = min(-(-size // TILE) * LANES, _PAIRS)
        pieces = -(-size // (2 * pairs))
        begin, rows = self._first_block(start), self._steps[0][:, 0] + np.uint32(1)

        def piece(given: tuple[jax.Array, jax.Array, jax.Array]) -> Tree:
            number, held, members = given
            place = lax.iota(jnp.uint32, pairs) + number * np.uint32(pairs)
            place = first_blocks(place, self._members)

            def read(word: jax.Array) -> tuple[jax.Array, jax.Array]:
                return key.blocks((begin[0], begin[1]), place + word * np.uint32(LANES))

            def store(make: Callable[[], jax.Array]) -> jax.Array:
                return stored(make, start)

            sets = self._sets(jnp.uint32(0), rows, read, tuple(pairs_users(held)), store)
            reports = jnp.concatenate(sets, axis=1)
            return round.tally(reports.T, pairs_users(members).ravel())

        values, mask = (
            jnp.pad(leaf, (0, pieces * 2 * pairs - size)).reshape(pieces, -1)
            for leaf in (values, mask)
        )
        tallies = lax.map(piece, (lax.iota(jnp.uint32, pieces), values, mask))
        return merged(round, tallies, pieces)

    def _sets(
        self,
        first: jax.Array,
        rows: jax.Array | np.ndarray,
        read: Callable[[jax.Array], Sequence[UInt32[Array, " n"]]],
        values: Sequence[Int32[Array, " n"]],
        store: Callable[[Callable[[], jax.Array]], jax.Array],
    ) -> list[UInt32[Array, "lanes n"]]:
        """The sets of users in one part or two, from their words; see `Floyd.sets`.

        Labels 0 .. k - 2 stand for the values other than the user's; `first` are the first words.
        """
        others = jnp.asarray(self._size - self._members, jnp.uint32)

        def begin() -> jax.Array:
            return joined(
                *(
                    jnp.where(word < self.threshold, NO_LABEL, (word - self.threshold) % others)
                    for word in read(first)
                )
            )

        begun = store(begin)
        steps, number = self._steps
        made = self._floyd.sets(begun, jnp.asarray(rows), steps, number, read, store)
        return [
            jnp.where(silent[None], np.uint32(0), self._with_value(labels, value, one == NO_LABEL))
            for (labels, silent), value, one in zip(made, values, separated(begun), strict=True)
        ]

    def _with_value(
        self, labels: UInt32[Array, "lanes n"], value: Int32[Array, " n"], holds: Bool[Array, " n"]
    ) -> UInt32[Array, "lanes n"]:
        """The sets of others as sets of values, with the users' own where they hold it."""
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1).astype(jnp.uint32)
        lanes, lane = np.arange(len(labels), dtype=np.uint32)[:, None], (value >> 5)[None]
        own = jnp.where(lanes == lane, bit(value)[None], np.uint32(0))
        below = jnp.where(lanes < lane, np.uint32(2**32 - 1), own - (own != 0).astype(jnp.uint32))
        # Labels from the value's on stand for the next value: their bits move up by one.
        carried = jnp.concatenate([jnp.zeros_like(labels[:1]), labels[:-1] >> 31])
        moved = (labels << 1) | carried
        return (labels & below) | (moved & ~(below | own)) | jnp.where(holds[None], own, 0)

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
        """The tally of given users, exact in law; see `draw_sets`."""
        del inputs
        # What is drawn depends on the window.
        window = min(padded_bins(self.num_values) or _WINDOW, _WINDOW)
        support = draw_sets(
            key,
            counts,
            *as_float64(self._size, self._members, self._inclusion(), self._nonempty),
            most=self.subset_size,
            window=window,
        )
        return {"support": support, "users": counts.sum()}

    def _cost(self, work: Work) -> float:
        del work
        k, d = self.num_values, self.subset_size
        rows = min(d + 1, 4 * math.sqrt(d * (1 - d / k)))  # that hold users, on average
        return k * (7e3 + 500.0 * rows)

    def user_cost(self, work: Work) -> float:
        """Nanoseconds of a user, roughly: each pick looks at all lanes of those before."""
        return work.words(10.0 + self.subset_size * max(6.2, 0.7 * self._floyd.num_lanes))


@params
class PaddedSubsetSelectionParams(SubsetSelectionParams):
    """`SubsetSelectionParams` of fewer values and smaller sets, which share programs.

    The law draws their tallies, and the kernel for CPUs makes them, of whole tiles. (Users would
    have other words, for there is room for those of larger sets.)

    Attributes:
      size: uint32[], k.
      members: uint32[], d.
      nonempty: float64[], the probability that a set is not empty.
      steps: uint32[steps, 5, at_once], of `Floyd.sets`; the first ones are made.
    """

    size: jax.Array | np.ndarray = dataclasses.field(kw_only=True)
    members: jax.Array | np.ndarray = dataclasses.field(kw_only=True)
    nonempty: jax.Array | np.ndarray = dataclasses.field(kw_only=True)
    steps: jax.Array | np.ndarray = dataclasses.field(kw_only=True)

    @property
    def _padded(self) -> None:
        """It is what stands for others."""
        return None

    @property
    def shared(self) -> None:
        """It is what others share."""
        return None

    @property
    def _size(self) -> jax.Array:
        return jnp.asarray(self.size)

    @property
    def _members(self) -> jax.Array:
        return jnp.asarray(self.members)

    @property
    def _nonempty(self) -> jax.Array:
        return jnp.asarray(self.nonempty)

    @property
    def _steps(self) -> tuple[jax.Array, jax.Array]:
        picks, at_once = self._members.astype(jnp.int32) - 1, self.steps.shape[2]
        return jnp.asarray(self.steps), -(-picks // at_once)

    @property
    def kernels(self) -> Kernels[dict[str, Count]]:
        """The kernel for CPUs, of users with d words."""
        return Kernels(tally={"cpu": self._paired_tally})

    def _first_block(self, start: UInt32[Array, "2"]) -> UInt32[Array, "2"]:
        room = self.num_words * LANES  # a power of two
        tile = Count(start[0].astype(jnp.int32), start[1]) >> (room.bit_length() - 1)
        first = tile.times(self._members).times(LANES)
        return jnp.stack([first.hi.astype(jnp.uint32), first.lo])
