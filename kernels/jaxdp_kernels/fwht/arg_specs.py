"""Arguments on which `fwht` is tested and timed."""

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """One set of arguments: whole numbers of this shape and dtype from this seed."""

    name: str
    seed: int
    shape: tuple[int, ...]
    dtype: str

    def arguments(self) -> tuple[jax.Array]:
        """(x,): whole numbers, small enough for exact sums in float32."""
        numbers = jax.random.randint(jax.random.key(self.seed), self.shape, -7, 8, jnp.int32)
        return (numbers.astype(self.dtype),)


ARG_SPECS = (
    ArgSpec("one", 0, (3, 1), "float32"),
    ArgSpec("two", 1, (2,), "int32"),
    ArgSpec("short", 2, (2, 5, 32), "float32"),
    ArgSpec("odd bits", 3, (3, 2**9), "float32"),
    ArgSpec("integers", 4, (3, 2**11), "int32"),
    ArgSpec("batch", 5, (2**12, 2**8), "float32"),
    ArgSpec("middle", 6, (2**6, 2**14), "float32"),
    ArgSpec("long", 7, (2**20,), "float32"),
    ArgSpec("long integers", 8, (2**20,), "int32"),
)
