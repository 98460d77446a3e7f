"""`randomize_and_count` on any platform, block by block."""

import jax
import jax.numpy as jnp

from .._users import Randomizer, fold_blocks
from .ref import count_reports


def randomize_and_count_xla(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    values: jax.Array,
    num_reports: int,
    block_size: int | None,
) -> jax.Array:
    """The counts of the users' reports; see `randomize_and_count`."""

    def add(total, reports):
        return total + count_reports(reports, num_reports)

    zero = jnp.zeros(num_reports, jnp.int32)
    return fold_blocks(randomizer, key_data, start, values, block_size, add, zero)
