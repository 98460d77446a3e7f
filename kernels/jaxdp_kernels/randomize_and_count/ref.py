"""The definition of `randomize_and_count`, in plain JAX: all reports, then their counts."""

import jax
import jax.numpy as jnp
import numpy as np

from .._users import Randomizer, user_reports


def count_reports(reports: jax.Array, num_reports: int) -> jax.Array:
    """int32[num_reports]: how often each report occurs or, of bit vectors, each bit is set."""
    if reports.ndim == 2:
        return jnp.sum(reports, axis=0, dtype=jnp.int32)
    if num_reports == 2:  # one comparison is faster than a scatter
        ones = jnp.sum(reports == 1, dtype=jnp.int32)
        return jnp.stack([np.int32(reports.size) - ones, ones])
    return jax.ops.segment_sum(jnp.ones(reports.shape, jnp.int32), reports, num_reports)


def randomize_and_count_ref(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    values: jax.Array,
    num_reports: int,
    block_size: int | None = None,
) -> jax.Array:
    """The counts of the users' reports; see `randomize_and_count`."""
    del block_size
    return count_reports(user_reports(randomizer, key_data, start, values), num_reports)
