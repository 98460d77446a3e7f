"""Hadamard response."""

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, UInt32
from numpy.typing import ArrayLike

from jaxdp_kernels.fwht import fwht

from .._bits import parity
from .._checks import Epsilon, Integer, Optional
from .._contract import Padded, Round, Tree, Words, Work, field, params, spec, static
from .._prediction import Prediction
from .._spec import check_int
from .._x64 import compiled_in_float64
from ..accounting import PairLaw
from ..random import Count, multinomial
from ._butterfly import butterfly, thin
from ._count_noise import TableNoise
from ._exact import exp_lower, log_upper
from ._hadamard_words import chosen, grain, num_words, random_row
from ._pair_laws import parity_patterns
from ._params import BinRound, DrawnCountsRound, padded_bins
from ._randomizer import check_bins, check_word_bits, listed_rows
from ._support import FrequencyOracle, table_noise

MAX_VALUES = 2**24 - 1


@spec
class HadamardResponse(FrequencyOracle):
    """Hadamard response: report a column in which the row of your value has a +1, or another one.

    The K reports are B blocks of the b columns of a Hadamard matrix. Value v has row
    `r_v = 1 + v // B` of block `v % B`, and its set C_v are the b / 2 columns of that block with
    `<r_v, y> = 0` (the parity of r_v AND y). With `D = e**epsilon + 2 B - 1` a report is in C_v
    with probability `e**epsilon / D`, uniformly there, and uniform elsewhere: it is e**epsilon
    times as likely in C_v. b is the least power of two above k / B; B = 1 is the version with
    `K = 2**ceil(log2(k + 1))`.

    The user draws a report uniform on {0, .., K-1} from the lower bits of the first word. Where the
    last word is below a threshold, with probability `a = (e**epsilon - 1) / D`, it is moved into
    C_v: to the value's block, and where the parity is odd the bit of the last 1 of r_v is flipped.
    Up to K = 256 one word serves both, and a is a multiple of `K / 2**32`; else of `2**-32`. It is
    rounded down.

    Formal guarantees:
      * Privacy: pure epsilon-LDP, exactly: the likelihood ratio `1 + 2 B a / (1 - a)` is at most
        e**epsilon in rational arithmetic. It holds for every int32 input, since values outside the
        domain are clamped into it.
      * Estimate: `(N(C_v) - N(block of v without C_v)) / a` counts the users with value v without
        bias: one Walsh-Hadamard transform for each block of the tally.
      * Variance, exact for a fixed data set with counts c_v:
        `(n (1 - a) / B + m_v a) / a**2 - c_v`, with m_v users whose values share the block of v.
        For B = 1 it is `n c**2 - c_v` with `c = 1 / a = (e**epsilon + 1) / (e**epsilon - 1)`.
        Estimated counts of one block are correlated: see `covariance`.

    Edge cases:
      ==================================  ========================================================
      epsilon too large: 17.3 at least    ValueError: no smaller probability than 2**-24 is left,
                                          or than 2**-32 where there are two words
      epsilon below 1e-7 B at the most    ValueError: a would be 0
      value outside the domain            ValueError from a Population; the params clamp it
      k K above 2**22                     `channel()` raises ValueError
      ==================================  ========================================================

    Args:
      num_values: k, the size of the domain {0, .., k-1}; 2 to 2**24 - 1.
      epsilon: privacy parameter, > 0.
      num_blocks: B, a power of two, at most k. None for the one with the least sum of variances, in
        the worst case over data sets; it is near `(e**epsilon - 1) / 2`. Other numbers of blocks
        would save at most 3 % of variance, and words could not draw from them exactly.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is not a number, or is traced.

    Example:
      >>> from jaxdp.randomizers import HadamardResponse
      >>> response = HadamardResponse(num_values=3, epsilon=1.0)
      >>> response.num_blocks, response.block_size
      (1, 4)
      >>> response.variance([0, 10, 10]).round(4).tolist()
      [93.6539, 83.6539, 83.6539]

    References:
      Acharya, Sun, Zhang (2019), Hadamard response: estimating distributions privately, efficiently
      and with little communication, sections 4 and 5; Bassily (2019), Linear queries estimation
      with local differential privacy, section 4, whose equation (11) counts the reports w.
    """

    num_values: int = field(Integer(2, MAX_VALUES))
    epsilon: float = field(Epsilon())
    num_blocks: int | None = field(Optional(Integer(1, MAX_VALUES)), default=None)

    def validate(self) -> None:
        """Settles the number of blocks; raises ValueError where a word cannot realise epsilon."""
        if self.num_blocks is None:
            self.settle(num_blocks=_best_blocks(self.num_values, self.epsilon))
        blocks = check_int("num_blocks", self.num_blocks, low=1, high=self.num_values)
        if blocks & (blocks - 1):
            raise ValueError(
                f"num_blocks must be a power of two, got {blocks}; leave it out for the best one."
            )
        self._threshold(32)

    @property
    def _blocks(self) -> int:
        assert self.num_blocks is not None
        return self.num_blocks

    @property
    def block_size(self) -> int:
        """Number of columns of a block, b: a power of two."""
        return _block_size(self.num_values, self._blocks)

    def _threshold(self, word_bits: int) -> int:
        """The number of last words with which a report is moved into C_v."""
        word_bits = check_word_bits(word_bits)
        blocks = self._blocks
        unit = grain((blocks * self.block_size).bit_length() - 1, word_bits)
        space = 2**word_bits // unit
        highest = math.log(1 + 2 * blocks * (space - 1))
        if self.epsilon > highest:
            raise ValueError(
                f"epsilon must be at most {highest:.6g} for num_values = {self.num_values} and "
                f"num_blocks = {blocks}, got {self.epsilon!r}: no smaller probability than "
                f"1 / {space} is left."
            )
        # 1 - a = 2 B / (e**epsilon + 2 B - 1) is the probability not to be moved, rounded up.
        uniform = math.ceil(2 * blocks * space / (exp_lower(self.epsilon) + 2 * blocks - 1))
        if uniform >= space:
            raise ValueError(
                f"epsilon must be at least about {2 * blocks / space:.3g} for num_values = "
                f"{self.num_values} and num_blocks = {blocks}, got {self.epsilon!r}: a report "
                "would not depend on the value."
            )
        return (space - uniform) * unit

    def build(self, word_bits: int = 32) -> "HadamardResponseParams":
        """The params; `word_bits=8` makes a twin whose words can be enumerated."""
        threshold = np.asarray(self._threshold(word_bits), np.uint32)
        return HadamardResponseParams(threshold, self.num_values, self._blocks, word_bits)

    def probabilities(self, word_bits: int = 32) -> tuple[Fraction, Fraction]:
        """Exact probabilities of each report in C_v, and of each other one."""
        moved = Fraction(self._threshold(word_bits), 2**word_bits)
        other = (1 - moved) / (self._blocks * self.block_size)
        return other + 2 * moved / self.block_size, other

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact `Pr[report = y | x]`, row x of the inputs; y is column y % b of its block.

        Args:
          word_bits: bits of a word.
          inputs: int[m], the values of the rows; None for all.
        """
        size, blocks = self.block_size, self._blocks
        values = listed_rows(self.num_values, blocks * size, inputs)
        if values is None:
            return None
        inside, outside = self.probabilities(word_bits)
        rows = []
        for value in values:
            block, row = value % blocks, 1 + value // blocks
            seen = [inside if (row & y).bit_count() % 2 == 0 else outside for y in range(size)]
            before, after = [outside] * (block * size), [outside] * ((blocks - 1 - block) * size)
            rows.append(before + seen + after)
        return rows

    def pair_laws(self) -> tuple[PairLaw, ...]:
        """Two kinds: values of one block and of two.

        Rows of a block are distinct and not 0, so any two of them are independent.
        """
        k, blocks = self.num_values, self._blocks
        found = []
        for other in sorted({blocks, 1}):
            if other < k:
                tried = {1, 2, blocks, 2 * blocks, 3 * blocks, other + blocks} - {other}
                found.append(self._pair_law([0, other, *(v for v in sorted(tried) if v < k)]))
        return tuple(found)

    def _pair_law(self, values: list[int]) -> PairLaw:
        """The law of the first two values, among others who have any one of the values."""
        blocks, size = self._blocks, self.block_size
        inside, outside = (float(p) for p in self.probabilities())
        used = sorted({value % blocks for value in values})
        # Columns elsewhere are in no set.
        counts, held = [(blocks - len(used)) * size], [np.zeros(len(values), bool)]
        for block in used:
            here = np.array([value % blocks == block for value in values])
            rows = [1 + value // blocks for value in values if value % blocks == block]
            patterns = parity_patterns(rows)
            counts += [size / len(patterns)] * len(patterns)
            for pattern in patterns:
                columns = np.zeros(len(values), bool)
                columns[here] = ~pattern
                held.append(columns)
        if blocks == 1:  # column 0 is in the set of every value
            counts, held = [1, *counts], [np.ones(len(values), bool), *held]
            counts[2] -= 1  # the first pattern, 0, is that of column 0 too
        weights = np.array(counts, float)
        laws = weights * np.where(np.array(held).T, inside, outside)
        least = weights * outside
        if blocks == 1:
            least[0] = inside
        return PairLaw(laws[0], laws[1], least, laws)

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter, rounded up; at most `epsilon`."""
        inside, outside = self.probabilities(word_bits)
        return log_upper(inside / outside)

    def _shares(self) -> tuple[float, float]:
        """a, and the probability (1 - a) / B of each block of a report that is not moved."""
        moved = Fraction(self._threshold(32), 2**32)
        return float(moved), float((1 - moved) / self._blocks)

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The exact variance of each estimated count, float64[k].

        Args:
          counts: int[k], the number of users with each value.
          inputs: unused; the values are the bins.
        """
        del inputs
        counts = check_bins(counts, self.num_values)
        moved, rest = self._shares()
        block = np.arange(self.num_values) % self._blocks
        # A user adds +-1 / a to its report's block: to the value's if the report is moved.
        near = np.bincount(block, weights=counts, minlength=self._blocks)[block]
        return (counts.sum() * rest + near * moved) / moved**2 - counts

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest variance of one estimated count over all data sets of `num_users`; exact.

        It is attained where all users have one other value of the same block, or, where blocks hold
        one value each, that value.
        """
        n = check_int("num_users", num_users, low=1)
        moved, rest = self._shares()
        alone = self.num_values <= self._blocks
        return Prediction(n * ((rest + moved) / moved**2 - alone))

    def worst_case_total_variance(self, num_users: int) -> Prediction:
        """The largest sum of the variances of all counts; exact, attained by users of value 0.

        The sum depends on the block of a user's value alone, and that of value 0 is a fullest one.
        """
        n = check_int("num_users", num_users, low=1)
        return Prediction(
            n * float(self.variance(np.eye(1, self.num_values, dtype=np.int64)).sum())
        )

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of the estimate from one user, float64[k, k].

        Its entries q, q' of one block are `1 / a` where the rows of q and q' add up (XOR) to the
        row of the user's value, also of that block, and on the diagonal those of `variance`; all
        others are 0.

        Args:
          value: the user's value, an int in [0, k).
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        row, block = np.divmod(np.arange(self.num_values), self._blocks)
        row = row + 1
        same = (block[:, None] == block) & (block == value % self._blocks)
        moved, _ = self._shares()
        # In a report y of the block the estimates of q and q' have the product
        # (-1)**<r_q ^ r_q', y> / a**2, which is 0 on average for a uniform y, and for a moved one
        # unless r_q ^ r_q' is the row of the value.
        mixed = (same & ((row[:, None] ^ row) == row[value])) / moved
        return mixed + np.diag(self.variance(np.eye(self.num_values, dtype=np.int64)[value]))

    def noise(self) -> TableNoise:
        """The moments of the noise, from the table of the K reports."""
        return table_noise(self.build(), self.num_values)

    def _forms(self, queries: np.ndarray) -> np.ndarray:
        m, k = queries.shape
        blocks, size = self._blocks, self.block_size
        inside, outside = self.probabilities()
        moved = float((inside - outside) * size / 2)
        rest = float(outside * size)  # of each block, for reports that are not moved
        padded = np.pad(queries, ((0, 0), (0, blocks * (size - 1) - k)))
        rows = np.zeros((m, blocks, size))  # row 0 is of no value
        rows[..., 1:] = padded.reshape(m, size - 1, blocks).swapaxes(1, 2)
        # Values of one block covary where their rows add up, as XOR, to the row of the user's
        # value: the sum over such pairs is a convolution over XOR, two transforms.
        with jax.enable_x64(True):
            sums = np.asarray(fwht(fwht(jnp.asarray(rows)) ** 2)) / size
        near = np.square(rows).sum(axis=-1, keepdims=True) + sums
        near = near[..., 1:].swapaxes(1, 2).reshape(m, -1)[:, :k]
        total = np.square(queries).sum(axis=1, keepdims=True)
        return rest / moved**2 * total + near / moved - queries**2


def _block_size(num_values: int, num_blocks: int) -> int:
    """The least power of two with a row above 0 for each value of a block."""
    return 2 ** (-(-num_values // num_blocks)).bit_length()


def _best_blocks(num_values: int, epsilon: float) -> int:
    """The power of two with the least sum of variances, all users in one of the fullest blocks."""
    e = math.exp(min(epsilon, 100.0))

    def total(blocks):
        fullest = -(-num_values // blocks)
        # The sum of `variance` over all values, up to a factor and a term without B.
        return (e + 2 * blocks - 1) * (2 * num_values + fullest * (e - 1))

    return min((2**i for i in range(num_values.bit_length())), key=total)


@params
class HadamardResponseParams(BinRound[Count], DrawnCountsRound):
    """The params of `HadamardResponse`: a pytree.

    Attributes:
      threshold: uint32[], a report is moved into C_v when the last word is below it.
      num_values: k, static.
      num_blocks: B, static.
      word_bits: words are uniform on [0, 2**word_bits); static, 32 but for enumerable twins.
    """

    threshold: UInt32[Array | np.ndarray, ""]
    num_values: int = static()
    num_blocks: int = static()
    word_bits: int = static(default=32)

    independent_stream: ClassVar[int] = 3

    @property
    def block_size(self) -> int:
        """Number of columns of a block, b."""
        return _block_size(self.num_values, self.num_blocks)

    @property
    def num_reports(self) -> int:
        """Number of distinct reports, K = B b."""
        return self.num_blocks * self.block_size

    @property
    def _block_bits(self) -> int | jax.Array:
        """The binary logarithm of B."""
        return self.num_blocks.bit_length() - 1

    @property
    def shared(self) -> Round[Count] | None:
        """The params of as many reports in any number of blocks."""
        blocks = np.asarray(self._block_bits, np.int32)
        return SharedHadamardResponseParams(
            self.threshold, self.num_values, self.num_reports, self.word_bits, blocks=blocks
        )

    @property
    def num_words(self) -> int:
        """One word per user up to K = 256, else two."""
        return num_words(self.num_reports.bit_length() - 1)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, ""]:
        """One user's report, in [0, K); a value outside the domain is clamped into it."""
        report_bits, block_bits = self.num_reports.bit_length() - 1, self._block_bits
        value = jnp.clip(value.astype(jnp.int32), 0, self.num_values - 1)
        block, row = value & ((1 << block_bits) - 1), 1 + (value >> block_bits)
        report = random_row(words, report_bits)
        column = report & ((1 << (report_bits - block_bits)) - 1)
        # Flipping the bit of the last 1 of the row makes an odd parity even, and is one to one.
        column = column ^ (parity(column & row) * (row & -row))
        moved = (block << (report_bits - block_bits)) + column
        return jnp.where(chosen(words, report_bits, self.threshold), moved, report)

    def _share(self) -> Float[Array, ""]:
        """The realised a as float64; only inside an x64 block."""
        return jnp.asarray(self.threshold).astype(jnp.float64) / 2.0**self.word_bits

    def _in_rows(self, values: Float[Array, " k"]) -> Float[Array, "blocks rows"]:
        """Numbers of the values, by block and row; row 0 is 0."""
        room = (0, self.num_blocks * (self.block_size - 1) - self.num_values)
        rows = jnp.pad(values, room).reshape(-1, self.num_blocks).T
        return jnp.pad(rows, ((0, 0), (1, 0)))

    @compiled_in_float64
    def estimate(self, outcome: Count, /) -> Float[Array, "*batch k"]:
        """Unbiased counts of the users' values: a transform of each block of the tally, over a."""
        batch = outcome.shape[:-1]
        signed = fwht(outcome.f64().reshape(*batch, self.num_blocks, self.block_size))
        values = jnp.swapaxes(signed[..., 1:], -1, -2).reshape(*batch, -1)
        return values[..., : self.num_values] / self._share()

    @compiled_in_float64
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        """O(K log K) draws: a binomial for each value says how many of its reports are moved.

        The others are uniform, as if of users with row 0: they are spread over the blocks, and then
        all draw their columns together (`butterfly`).
        """
        del inputs
        moved_key, uniform_key, columns_key = jax.random.split(key, 3)
        moved = thin(moved_key, counts, self._share())
        rest = counts.sum() - moved.sum()
        uniform = multinomial(uniform_key, rest, jnp.ones(self.num_blocks))
        rows = self._in_rows(moved.f64()).at[:, 0].set(uniform.f64())
        state = jnp.stack([rows, jnp.zeros_like(rows)], axis=1)
        columns = butterfly(columns_key, state, forced=True)[:, 0]
        return Count.from_float(columns.reshape(self.num_reports))

    @property
    def padded(self) -> Padded[Count] | None:
        """The params of a value for each row of each block."""
        bins = self.num_blocks * (self.block_size - 1)
        if padded_bins(bins) is None:
            return None
        return Padded(dataclasses.replace(self, num_values=bins), lambda tally: tally)

    def report_law(self, law: Float[Array, " k"]) -> Float[Array, " reports"]:
        # A moved report is column y of its value's block with probability (1 + (-1)**<r_v, y>) / b.
        a = self._share()
        rows = self._in_rows(law)
        inside = jnp.sum(rows, axis=-1, keepdims=True) + fwht(rows)
        return ((1 - a) / self.num_blocks + a * inside).reshape(self.num_reports)

    @property
    def transform_cost(self) -> float:
        return 0.7 * self.num_reports * self.block_size.bit_length()

    def over_reports(self, numbers: Float[Array, " reports"]) -> Float[Array, " k"]:
        a = self._share()
        blocks = numbers.reshape(self.num_blocks, self.block_size)
        inside = jnp.sum(blocks, axis=-1, keepdims=True) + fwht(blocks)
        values = inside[:, 1:].T.reshape(-1)[: self.num_values]
        return (1 - a) / self.num_blocks * jnp.sum(numbers) + a * values

    def _cost(self, work: Work) -> float:
        # A binomial for each bin and block, and 2 halves for each report and level at a quarter of
        # its price.
        levels = self.block_size.bit_length() - 1
        return work.draws(work.num_bins + self.num_blocks + levels * self.num_reports / 2)


@params
class SharedHadamardResponseParams(HadamardResponseParams):
    """`HadamardResponseParams` of `num_blocks` reports, in blocks whose number is a leaf.

    Users send what those of the others do. The law of their tally is that of one block, not theirs:
    tallies that are drawn at once are padded.

    Attributes:
      blocks: int32[], the binary logarithm of the number of blocks.
    """

    blocks: jax.Array | np.ndarray = dataclasses.field(kw_only=True)

    @property
    def num_reports(self) -> int:
        return self.num_blocks

    @property
    def _block_bits(self) -> jax.Array:
        return jnp.asarray(self.blocks)

    @property
    def shared(self) -> None:
        """It is what others share."""
        return None
