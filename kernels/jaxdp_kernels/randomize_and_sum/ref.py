"""The definition of `randomize_and_sum`, in plain JAX: all reports, then their sums."""

import jax
import jax.numpy as jnp

from .._users import Randomizer, user_reports


def randomize_and_sum_ref(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    values: jax.Array,
    signs: jax.Array,
    block_size: int | None = None,
) -> tuple[jax.Array, jax.Array]:
    """The sum of the users' reports and of their quadratic forms; see `randomize_and_sum`."""
    del block_size
    reports = user_reports(randomizer, key_data, start, values)[:, : signs.shape[0]]
    return jnp.sum(reports, axis=0), jnp.sum(reports * reports * signs[None, :])
