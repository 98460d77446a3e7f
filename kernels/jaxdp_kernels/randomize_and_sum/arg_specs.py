"""Arguments on which `randomize_and_sum` is tested and timed."""

import dataclasses

import jax
import jax.numpy as jnp

from .._samples import Noise


@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """One set of arguments: users with vectors, a first word, a block."""

    name: str
    seed: int
    num_users: int
    dim: int
    start: int = 0
    block_size: int | None = None

    def arguments(self):
        """(randomizer, key_data, start, values, signs); the last entry of a report has no sign."""
        key = jax.random.key(self.seed)
        start = jnp.array([self.start >> 32, self.start & 0xFFFFFFFF], jnp.uint32)
        values = jax.random.uniform(jax.random.fold_in(key, 1), (self.num_users, self.dim))
        signs = jnp.where(jnp.arange(max(self.dim - 1, 1)) % 2 == 0, 1.0, -1.0)
        return Noise(jnp.float32(0.5), self.dim), jax.random.key_data(key), start, values, signs


ARG_SPECS = (
    ArgSpec("one user", 0, 1, 1),
    ArgSpec("odd", 1, 1001, 5, start=2**32 - 300, block_size=64),
    ArgSpec("many users", 2, 2**16, 64),
)
