"""Arguments on which `randomize_and_sum` is tested and timed."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from .._samples import Steps, start_of
from ..threefry_words import TILE, StreamKey


@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """One set of arguments: vectors of a length, users, who of them counts, a first tile."""

    name: str
    seed: int
    dim: int
    num_users: int
    members: Literal["first", "masked", "by tile"] = "first"
    tile: int = 0
    row: int = 2 * TILE

    def arguments(self):
        """(randomizer, key, start, values, members, row)."""
        key, n = jax.random.key(self.seed), self.num_users
        table = jax.random.randint(jax.random.fold_in(key, 0), (16,), -9, 10, jnp.int32)
        randomizer = Steps(jnp.float32(3.5), table, self.dim)
        start = start_of(self.tile, randomizer.num_words)
        rows = n // TILE if self.members == "by tile" else n
        values = jax.random.normal(jax.random.fold_in(key, 1), (rows, self.dim), jnp.float32)
        who = jax.random.fold_in(key, 2)
        if self.members == "first":
            members = jnp.uint32(n - n // 10)
        elif self.members == "masked":
            members = jax.random.bernoulli(who, 0.9, (n,))
        else:
            members = jax.random.randint(who, (rows,), 0, TILE + 1, jnp.int32).astype(jnp.uint32)
        return randomizer, StreamKey.of(key), start, values, members, self.row


ARG_SPECS = (
    ArgSpec("few", 0, 16, 100),
    ArgSpec("masked", 1, 32, 5000, "masked", tile=2**20 - 1),
    ArgSpec("by tile", 2, 16, 5 * TILE, "by tile", tile=2**42 - 1),
    ArgSpec("short rows", 3, 6, 3000, "masked", row=2**9),
    ArgSpec("long vectors", 4, 512, TILE, row=TILE),
    ArgSpec("many users", 5, 64, 2**16),
)
