"""Arguments on which `standard_normal` is tested and timed."""

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """One set of arguments: words of this shape from this seed."""

    name: str
    seed: int
    shape: tuple[int, ...]

    def arguments(self) -> tuple[jax.Array]:
        """(words,)."""
        return (jax.random.bits(jax.random.key(self.seed), self.shape, jnp.uint32),)


ARG_SPECS = (
    ArgSpec("scalar", 0, ()),
    ArgSpec("odd", 1, (3, 67)),
    ArgSpec("block", 2, (2**14, 64)),
    ArgSpec("large", 3, (2**22,)),
)
