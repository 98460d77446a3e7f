"""Small randomizers, the arguments on which the operations over users are tested and timed."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._pytree import register_dataclass
from ._table import Table
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


def start_of(tile: int, num_words: int) -> jax.Array:
    """uint32[2], the counter of the first block of a tile of users, as (high, low) halves."""
    counter = tile * num_words * 1024
    return jnp.array([counter >> 32, counter & 0xFFFFFFFF], jnp.uint32)


class Added(NamedTuple):
    """What users add, as `randomize_and_sum` asks for it."""

    numbers: Callable[..., jax.Array]
    size: int
    alone: Callable[..., tuple[jax.Array, ...]]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Steps:
    """A vector in steps of a grid, rounded at random, with a step from a table added, or negated.

    Attributes:
      scale: float32[], steps in 1.
      table: int32[16], a step for each draw of four bits, but for the last, where another word
        decides.
      dim: of the vector, even.
    """

    scale: jax.Array
    table: jax.Array
    dim: int = dataclasses.field(metadata={"static": True})

    @property
    def num_words(self):
        """For each entry one for its step, one more for the last draw, half of one to round it."""
        return self.dim * 2 + self.dim // 2 + 1

    @property
    def summed(self):
        """The steps."""
        return Added(self._numbers, self.dim, lambda words: (words[-1],))

    def _numbers(self, words, values, alone):
        dim, shape = self.dim, values.shape
        draws = (words[:dim].reshape(shape) & np.uint32(15)).astype(jnp.int32)
        last = draws == 15

        def decided():
            others = words[dim : 2 * dim].reshape(shape)
            return jnp.where(last, (others & np.uint32(1)).astype(jnp.int32), self._step(draws))

        steps = words.quick(~last, lambda: self._step(draws), decided)
        upper = jax.lax.broadcasted_iota(jnp.int32, shape, 1) >= dim // 2
        both = words.repeated(2 * dim, dim // 2, dim).reshape(shape)
        dither = jnp.where(upper, both >> np.uint32(16), both & np.uint32(0xFFFF))
        low = jnp.floor(values * self.scale)
        up = dither.astype(jnp.float32) < (values * self.scale - low) * np.float32(2**16)
        made = low.astype(jnp.int32) + up.astype(jnp.int32) + steps
        return jnp.where(alone[0][:, None] >> np.uint32(31) == 0, made, -made)

    def _step(self, draws):
        if isinstance(self.table, Table):
            return self.table.read(draws)
        return jnp.asarray(self.table)[draws]


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
