"""Small randomizers, the arguments on which the operations over users are tested and timed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ._pytree import register_dataclass
from .randomize_and_tally.ref import Counted, Draft


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Response:
    """k-ary randomized response: the value where the word is below the threshold."""

    threshold: jax.Array
    num_values: int = dataclasses.field(metadata={"static": True})

    num_words = 1
    lazy_words = False
    draft = None

    def from_bits(self, words, value):
        """int32[], the report."""
        return jnp.where(words[0] < self.threshold, value, self._other(words[0], value))

    def _other(self, word, value):
        k = self.num_values
        step = (word - self.threshold) % np.uint32(k - 1)
        return (value + 1 + step.astype(jnp.int32)) % k

    @property
    def counted(self):
        """The counts are the tally."""
        return Counted(self.num_values, lambda counts: counts)

    def tally(self, reports, mask):
        """int32[k], the number of each report."""
        return jax.ops.segment_sum(mask.astype(jnp.int32), reports, self.num_values)

    def merge(self, first, second):
        """int32[k], their sum."""
        return first + second


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Bits:
    """Unary encoding: bit v is 1 where word v is below the threshold of v's kind."""

    thresholds: jax.Array
    num_words: int = dataclasses.field(metadata={"static": True})

    lazy_words = False
    draft = None
    counted = None

    def from_bits(self, words, value):
        """bool[k], the report."""
        truth = jnp.arange(self.num_words, dtype=jnp.int32) == value
        return words[:] < jnp.where(truth, self.thresholds[0], self.thresholds[1])

    def tally(self, reports, mask):
        """int32[k], the number of users who set each bit."""
        return jnp.sum(reports & mask[:, None], axis=0, dtype=jnp.int32)

    def merge(self, first, second):
        """int32[k], their sum."""
        return first + second


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Tied(Response):
    """`Response` from thresholds of 40 bits: where the upper 8 are equal a second word decides."""

    num_words = 2

    @property
    def draft(self):
        """From the first word."""
        return Draft(1, self._draft)

    def from_bits(self, words, value):
        """int32[], the report."""
        upper = words[0] >> np.uint32(24)
        limit = self.threshold >> np.uint32(24)
        stays = (upper < limit) | ((upper == limit) & (words[1] < self.threshold))
        return jnp.where(stays, value, self._other(words[0], value))

    def _draft(self, words, values):
        upper, limit = words[0] >> np.uint32(24), self.threshold >> np.uint32(24)
        reports = jnp.where(upper < limit, values, self._other(words[0], values))
        return jnp.where(upper != limit, reports, Draft.UNSURE)
