"""Small randomizers, the arguments on which the operations over users are tested and timed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Response:
    """k-ary randomized response: the value where the word is below the threshold."""

    threshold: jax.Array
    num_values: int = dataclasses.field(metadata={"static": True})

    num_words = 1
    lazy_words = False

    def from_bits(self, words, value):
        """int32[], the report."""
        k = self.num_values
        step = (words[0] - self.threshold) % np.uint32(k - 1)
        other = (value + 1 + step.astype(jnp.int32)) % k
        return jnp.where(words[0] < self.threshold, value, other)

    def tally(self, reports, mask):
        """int32[k], the number of each report."""
        return jax.ops.segment_sum(mask.astype(jnp.int32), reports, self.num_values)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Bits:
    """Unary encoding: bit v is 1 where word v is below the threshold of v's kind."""

    thresholds: jax.Array
    num_words: int = dataclasses.field(metadata={"static": True})

    lazy_words = False

    def from_bits(self, words, value):
        """bool[k], the report."""
        truth = jnp.arange(self.num_words, dtype=jnp.int32) == value
        return words[:] < jnp.where(truth, self.thresholds[0], self.thresholds[1])

    def tally(self, reports, mask):
        """int32[k], the number of users who set each bit."""
        return jnp.sum(reports & mask[:, None], axis=0, dtype=jnp.int32)
