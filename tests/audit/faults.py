"""Randomizers that claim more privacy than they give, or give more than they use."""

import dataclasses
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp._contract import params, spec
from jaxdp.accounting import gaussian_sigma
from jaxdp.randomizers import KRR, BinaryResponse
from jaxdp.randomizers._krr import KRRParams


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
