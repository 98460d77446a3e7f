"""Arguments on which `randomize_and_count` is tested and timed."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._samples import Bits, Response


@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """One set of arguments: a channel over k values, users, a first word, a block."""

    name: str
    seed: int
    channel: Literal["response", "bits"]
    num_values: int
    num_users: int
    start: int = 0
    block_size: int | None = None

    def arguments(self):
        """(randomizer, key_data, start, values, num_reports)."""
        k, key = self.num_values, jax.random.key(self.seed)
        keep, other = np.uint32(0xA0000000), np.uint32(0x40000000)
        if self.channel == "response":
            randomizer = Response(jnp.asarray(keep), k)
        else:
            randomizer = Bits(jnp.array([keep, other]), k)
        start = jnp.array([self.start >> 32, self.start & 0xFFFFFFFF], jnp.uint32)
        values = jax.random.randint(jax.random.fold_in(key, 1), (self.num_users,), 0, k, jnp.int32)
        return randomizer, jax.random.key_data(key), start, values, k


ARG_SPECS = (
    ArgSpec("one user", 0, "response", 3, 1),
    ArgSpec("two values", 1, "response", 2, 1000, block_size=64),
    ArgSpec("odd", 2, "response", 5, 1001, start=2**32 - 300, block_size=128),
    ArgSpec("odd bits", 3, "bits", 7, 101, start=2**32 - 300, block_size=16),
    ArgSpec("many users", 4, "response", 256, 2**22),
    ArgSpec("many bits", 5, "bits", 128, 2**15),
)
