"""Arguments on which `threefry_words` is tested and timed."""

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """One set of arguments: a seed, a first index, a number of words."""

    name: str
    seed: int
    start: int
    num_words: int

    def arguments(self):
        """(key_data, start, num_words)."""
        start = jnp.array([self.start >> 32, self.start & 0xFFFFFFFF], jnp.uint32)
        return jax.random.key_data(jax.random.key(self.seed)), start, self.num_words


ARG_SPECS = (
    ArgSpec("one", 0, 0, 1),
    ArgSpec("odd", 1, 5, 1001),
    ArgSpec("block", 2, 0, 2**16),
    ArgSpec("carry", 3, 2**32 - 300, 1024),
    ArgSpec("high", 4, 2**53 - 7, 4096),
    ArgSpec("large", 5, 2**40, 2**22),
)
