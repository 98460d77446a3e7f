"""Planted faults: what claims more privacy than it gives, or gives more than it uses.

Each has a switch, or a twin, without the fault; `tests.audit.planted` is the table of them.
"""

import dataclasses
import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp._contract import Interactive, Step, TallyLaw, Through, Work, params, spec
from jaxdp.accounting import gaussian_sigma
from jaxdp.engine import Census
from jaxdp.random import Count, user_words
from jaxdp.randomizers import KRR, BinaryResponse, LocalHashing
from jaxdp.randomizers._krr import KRRParams
from jaxdp.randomizers._local_hashing import LocalHashingParams


class Reporter:
    """A function from (key, value) to a report, by `num_words` and `from_bits`."""

    num_words: int

    def from_bits(self, words, value):
        raise NotImplementedError

    def __call__(self, key, value):
        return self.from_bits(jax.random.bits(key, (self.num_words,)), value)


def uniforms(words):
    """Floats in (0, 1) from words."""
    return (words >> np.uint32(8)).astype(jnp.float32) * np.float32(2**-24) + np.float32(2**-25)


def normals(words):
    """Standard normals from words."""
    return jax.scipy.special.ndtri(uniforms(words))


@dataclasses.dataclass(frozen=True)
class OrderedSubset(Reporter):
    """Subset selection whose report is a list, with the user's own value first if it is in it.

    As a set the report is epsilon-private. The list is not private at all: whoever is in it but not
    first is not its sender.
    """

    truth: int
    num_values: int
    subset_size: int

    @classmethod
    def make(cls, num_values: int, epsilon: float, subset_size: int) -> "OrderedSubset":
        weight = subset_size * math.exp(epsilon)
        truth = math.floor(2**32 * weight / (weight + num_values - subset_size))
        return cls(truth, num_values, subset_size)

    @property
    def num_words(self) -> int:
        return 1 + self.num_values

    def from_bits(self, words, value):
        own = jnp.arange(self.num_values, dtype=jnp.int32) == value
        last = jnp.where(own, np.uint32(0xFFFFFFFF), words[1:] >> np.uint32(1))
        others = jnp.argsort(last).astype(jnp.int32)[: self.subset_size]
        mine = jnp.concatenate([jnp.reshape(value, (1,)), others[:-1]])
        return jnp.where(words[0] < np.uint32(self.truth), mine, others)


@params
class BlindParams(KRRParams):
    """k-RR of the value 0, whoever reports."""

    def from_bits(self, words, value):
        return KRRParams.from_bits(self, words, jnp.zeros_like(value))


@spec
class Blind(KRR):
    """Claims a channel that its params do not play."""

    def build(self, word_bits: int = 32) -> BlindParams:
        krr = KRR(self.num_values, self.epsilon).build(word_bits)
        return BlindParams(krr.threshold, krr.num_values, krr.word_bits)


@spec
class KeepsOneMore(KRR):
    """k-RR whose threshold is one step too high, as when it is rounded up; its channel says so."""

    def build(self, word_bits: int = 32) -> KRRParams:
        krr = KRR(self.num_values, self.epsilon).build(word_bits)
        return dataclasses.replace(krr, threshold=krr.threshold + np.uint32(1))

    def channel(self, word_bits: int = 32, inputs=None) -> list[list[Fraction]]:
        k, space = self.num_values, 2**word_bits
        keep = int(self.build(word_bits).threshold)
        share, larger = divmod(space - keep, k - 1)
        lies = [Fraction(share + (j < larger), space) for j in range(k - 1)]
        rows = []
        for x in range(k) if inputs is None else inputs:
            row = [Fraction(keep, space)] * k
            for j, lie in enumerate(lies):
                row[(x + 1 + j) % k] = lie
            rows.append(row)
        return rows


@spec
class KeepsOneMoreUnsaid(KRR):
    """The same, with the channel of what was intended."""

    def build(self, word_bits: int = 32) -> KRRParams:
        return KeepsOneMore(self.num_values, self.epsilon).build(word_bits)


@spec
class ScalesByOneUlpMore(BinaryResponse):
    """One-bit response whose scale is the next float32: as if rounded up. Its channel says so."""

    def _scale(self, word_bits: int) -> np.float32:
        return np.nextafter(BinaryResponse._scale(self, word_bits), np.float32(np.inf))


@dataclasses.dataclass(frozen=True)
class PrintedRejection(Reporter):
    """Algorithm 3 of Bassily (2018) as printed, for n users and columns of norm at most 1."""

    sigma: float
    cut: float
    dim: int

    @classmethod
    def make(cls, dim: int, epsilon: float, num_users: int) -> "PrintedRejection":
        sigma = math.sqrt(2 * math.log(num_users**2)) / epsilon
        return cls(sigma, epsilon / 4, dim)

    @property
    def num_words(self) -> int:
        return self.dim + 1

    def from_bits(self, words, value):
        y = self.sigma * normals(words[1:])
        log_ratio = (jnp.sum(y * value) - jnp.sum(value**2) / 2) / self.sigma**2
        accept = uniforms(words[0]) < 0.5 * jnp.exp(log_ratio)
        sent = accept & (jnp.abs(log_ratio) <= self.cut)
        return jnp.where(sent, y, 0.0), sent


@dataclasses.dataclass(frozen=True)
class HalfSensitivity(Reporter):
    """Gaussian noise for vectors of norm at most 1, calibrated to inputs at distance 1, not 2."""

    sigma: float
    dim: int

    @classmethod
    def make(cls, dim: int, epsilon: float, delta: float, sensitivity: float) -> "HalfSensitivity":
        sigma = gaussian_sigma(epsilon, delta, sensitivity)
        return cls(sigma, dim)

    @property
    def num_words(self) -> int:
        return self.dim

    def from_bits(self, words, value):
        return value + self.sigma * normals(words)


@dataclasses.dataclass(frozen=True)
class SignOfProduct(Reporter):
    """Two normals of random signs, whose product is positive for 1 and negative for 0, mostly."""

    flip: float

    @property
    def num_words(self) -> int:
        return 3

    def from_bits(self, words, value):
        first, second = normals(words[:2])
        positive = (value == 1) ^ (uniforms(words[2]) < self.flip)
        sign = jnp.where(positive, 1.0, -1.0) * jnp.sign(first) * jnp.sign(second)
        return jnp.stack([first, second * sign])


@dataclasses.dataclass(frozen=True)
class GridLaplace(Reporter):
    """Numbers in [-1, 1] plus Laplace noise, both whole multiples of 2**-8, in floats.

    Attributes:
      scale: of the noise; 2 / epsilon is right.
      clips: whether a number beyond the bound is clamped.
      knows_nan: whether NaN counts as 0.
      grid: whether reports are rounded; a float plus float noise tells the float in its last bits.
    """

    scale: float
    clips: bool = True
    knows_nan: bool = True
    grid: bool = True

    @property
    def num_words(self) -> int:
        return 2

    def from_bits(self, words, value):
        value = jnp.where(jnp.isnan(value), 0.0, value) if self.knows_nan else value
        value = jnp.clip(value, -1.0, 1.0) if self.clips else value
        size = -self.scale * jnp.log(uniforms(words[0]))
        noise = jnp.where(words[1] >> np.uint32(31) == 0, size, -size)
        if not self.grid:
            return value + noise
        return jnp.round(value * 2**8) / 2**8 + jnp.round(noise * 2**8) / 2**8


@dataclasses.dataclass(frozen=True)
class LastMantissaBit(Reporter):
    """A normal number with a bit of the value in its last place, which is flipped now and then."""

    flip: float

    @property
    def num_words(self) -> int:
        return 2

    def from_bits(self, words, value):
        bit = (value > 0) ^ (uniforms(words[1]) < self.flip)
        bits = lax.bitcast_convert_type(normals(words[0]), jnp.uint32)
        return lax.bitcast_convert_type(bits & ~np.uint32(1) | bit.astype(jnp.uint32), jnp.float32)


@dataclasses.dataclass(frozen=True)
class ParityOfVector(Reporter):
    """Integers of which all but one are uniform; their parity is the value, flipped sometimes."""

    flip: float

    @property
    def num_words(self) -> int:
        return 9

    def from_bits(self, words, value):
        entries = words[:8] >> np.uint32(8)
        bit = (value == 1) ^ (uniforms(words[8]) < self.flip)
        odd = jnp.sum(entries) & np.uint32(1)
        return entries.at[0].add(odd ^ bit.astype(jnp.uint32)).astype(jnp.int32)


@params
class ForgetfulParams(LocalHashingParams):
    """Local hashing whose client hashes with 0 for a coefficient that it sends along."""

    def from_bits(self, words, value):
        sent = jnp.stack([words[0], words[1], words[2], words[3]])
        return LocalHashingParams.from_bits(self, sent.at[0].set(0), value).at[0].set(words[0])


@spec
class ForgetsCoefficient(LocalHashing):
    """Local hashing without the quadratic term of the hash on the client's side."""

    def build(self, word_bits: int = 32) -> ForgetfulParams:
        right = LocalHashing(self.num_values, self.epsilon, self.hash_range).build(word_bits)
        return ForgetfulParams(right.response, right.num_values)


@params
class OneWordParams(LocalHashingParams):
    """Local hashing that randomizes the hash by a word that it sends along."""

    def from_bits(self, words, value):
        shared = jnp.stack([words[0], words[1], words[2], words[2]])
        return LocalHashingParams.from_bits(self, shared, value)


@spec
class SharesAWord(LocalHashing):
    """Local hashing whose third coefficient is the word of its randomized response too."""

    def build(self, word_bits: int = 32) -> OneWordParams:
        right = LocalHashing(self.num_values, self.epsilon, self.hash_range).build(word_bits)
        return OneWordParams(right.response, right.num_values)


@params
class Lawless(Through[Count]):
    """A round that is run user by user only."""

    inner: KRRParams

    @property
    def law(self) -> TallyLaw[Count] | None:
        return None

    def estimate(self, outcome):
        return self.inner.estimate(outcome)


@params
class InRepeatedBlocks(Lawless):
    """The same, to be run by an engine that gives every block of users the same words."""


@params
class UnmaskedParams(KRRParams):
    """k-RR whose tally may count the rows that fill up the last block as well."""

    counts_all: jax.Array | np.ndarray = dataclasses.field(default_factory=lambda: np.array(True))

    @property
    def law(self) -> Any:
        return None

    def tally(self, reports, mask=None):
        return KRRParams.tally(self, reports, None if mask is None else mask | self.counts_all)


@spec
class Unmasked(KRR):
    """k-RR with a tally that may ignore its mask."""

    counts_all: bool = True

    def build(self, word_bits: int = 32) -> UnmaskedParams:
        krr = KRR(self.num_values, self.epsilon).build(word_bits)
        return UnmaskedParams(krr.threshold, krr.num_values, word_bits, np.array(self.counts_all))


@params
class OtherLaw(Lawless):
    """A round whose tally, of one user, is drawn as if another one had been run."""

    drawn: KRRParams

    @property
    def law(self) -> TallyLaw[Count]:
        def draw(key, counts, inputs):
            del inputs
            value = jnp.argmax(counts.lo).astype(jnp.int32)
            report = self.drawn.from_bits(user_words(key, 0, 1), value)
            return self.drawn.tally(report[None])

        return TallyLaw(draw, lambda work: 0.0)


@params
class TwoQuestions(Interactive):
    """Users are asked for their bit twice.

    Attributes:
      first: what they run at first.
      second: what they run then.
      number: int32[], of the second round; that of the first is 0.
      raw: bool[], whether the analyst keeps the true counts instead of the second tally.
    """

    first: Lawless
    second: Lawless
    number: jax.Array
    raw: jax.Array | np.ndarray

    @classmethod
    def make(cls, first: float, second: float, number: int = 1, raw: bool = False):
        once, twice = (Lawless(KRR(2, epsilon).build()) for epsilon in (first, second))
        return cls(once, twice, jnp.asarray(number, jnp.int32), np.array(raw))

    def rounds(self, work: Work) -> list[Step]:
        return [Step(self.first, work), Step(self.second, work)]

    def play(self, key, users, collect):
        del key
        once, twice = collect(self.first, users, 0), collect(self.second, users, self.number)
        true = collect(Census(2), users, 2)
        return once, jax.tree.map(lambda x, y: jnp.where(self.raw, x, y), true, twice)

    def estimate(self, outcome):
        return self.first.estimate(outcome[0])
