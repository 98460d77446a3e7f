"""Small randomizers, the arguments on which the operations over users are tested and timed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from .standard_normal import standard_normal


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Response:
    """k-ary randomized response: the value where the word is below `keep`, else another one."""

    keep: jax.Array
    num_values: int = dataclasses.field(metadata={"static": True})

    num_words = 1

    def from_bits(self, words, value):
        """int32[], the report."""
        k = self.num_values
        step = (words[0] - self.keep) % np.uint32(k - 1)
        other = (value + 1 + step.astype(jnp.int32)) % k
        return jnp.where(words[0] < self.keep, value, other)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Bits:
    """Unary encoding: bit v is 1 where word v is below the threshold of v's kind."""

    thresholds: jax.Array
    num_words: int = dataclasses.field(metadata={"static": True})

    def from_bits(self, words, value):
        """bool[k], the report."""
        own = jnp.arange(self.num_words, dtype=jnp.int32) == value
        return words < jnp.where(own, self.thresholds[0], self.thresholds[1])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Noise:
    """The value plus Gaussian noise."""

    sigma: jax.Array
    num_words: int = dataclasses.field(metadata={"static": True})

    def from_bits(self, words, value):
        """float32[d], the report."""
        return value + self.sigma * standard_normal(words)
