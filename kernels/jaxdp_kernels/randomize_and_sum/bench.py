"""`python -m jaxdp_kernels.randomize_and_sum.bench`: sums of reports against bare normals."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp

from .._bench import Case, report, timed
from ..standard_normal import standard_normal
from ..threefry_words import threefry_words
from .api import randomize_and_sum
from .arg_specs import ARG_SPECS

MIN_WORDS = 2**16
"""Of fewer words, the call itself would take most of the time."""

_BLOCK = 2**18


def sum_normals(key_data: jax.Array, num_words: int) -> jax.Array:
    """The sum of as many normals of the stream, block by block: what no implementation can save."""

    def add(number, total):
        start = jnp.stack([jnp.uint32(0), number.astype(jnp.uint32) * jnp.uint32(_BLOCK)])
        return total + jnp.sum(standard_normal(threefry_words(key_data, start, _BLOCK)))

    return jax.lax.fori_loop(jnp.int32(0), jnp.int32(num_words // _BLOCK), add, jnp.float32(0))


def cases() -> Iterator[Case]:
    """The arguments that are timed."""
    for spec in ARG_SPECS:
        words = spec.num_users * spec.dim
        if words < MIN_WORDS:
            continue
        arguments = spec.arguments()
        yield Case(
            spec.name,
            spec.num_users,
            "user",
            lambda a=arguments: jax.block_until_ready(randomize_and_sum(*a)),
            timed(lambda data, n=words: sum_normals(data, n), arguments[1]),
            "the sum of its normals",
        )


if __name__ == "__main__":
    report("randomize_and_sum", cases())
