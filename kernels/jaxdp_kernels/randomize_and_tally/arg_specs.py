"""Arguments on which `randomize_and_tally` is tested and timed."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._samples import Bits, Response, Tied, start_of
from ..threefry_words import StreamKey


@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """One set of arguments: a channel over k values, users, a first tile."""

    name: str
    seed: int
    channel: Literal["response", "bits", "tied"]
    num_values: int
    num_users: int
    tile: int = 0
    first: int | None = None

    def arguments(self):
        """(randomizer, key, start, first, values, mask)."""
        k, key = self.num_values, jax.random.key(self.seed)
        threshold, other = np.uint32(0xA0000000), np.uint32(0x40000000)
        if self.channel != "bits":
            made = Response if self.channel == "response" else Tied
            randomizer = made(jnp.asarray(threshold), k)
        else:
            randomizer = Bits(jnp.array([threshold, other]), k)
        start = start_of(self.tile, randomizer.num_words)
        first = None if self.first is None else jnp.uint32(self.first)
        values = jax.random.randint(jax.random.fold_in(key, 1), (self.num_users,), 0, k, jnp.int32)
        mask = jax.random.bernoulli(jax.random.fold_in(key, 2), 0.9, (self.num_users,))
        return randomizer, StreamKey.of(key), start, first, values, mask


ARG_SPECS = (
    ArgSpec("one user", 0, "response", 3, 1),
    ArgSpec("two values", 1, "response", 2, 1000, first=64),
    ArgSpec("odd", 2, "response", 5, 3001, tile=2**22 - 1),
    ArgSpec("odd bits", 3, "bits", 7, 1101, tile=2**42 - 1, first=1500),
    ArgSpec("bits of tiles", 9, "bits", 7, 3001, tile=1),
    ArgSpec("few with ties", 6, "tied", 5, 300),
    ArgSpec("ties", 7, "tied", 5, 5001, tile=3),
    ArgSpec("ties from the middle", 8, "tied", 5, 3000, first=1500),
    ArgSpec("many users", 4, "response", 256, 2**20),
    ArgSpec("many bits", 5, "bits", 128, 2**13),
)
