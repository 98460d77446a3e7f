"""`randomize_and_sum` on any platform, block by block."""

import jax
import jax.numpy as jnp

from .._users import Randomizer, fold_blocks


def randomize_and_sum_xla(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    values: jax.Array,
    signs: jax.Array,
    block_size: int | None,
) -> tuple[jax.Array, jax.Array]:
    """The sum of the users' reports and of their quadratic forms; see `randomize_and_sum`."""
    dim = signs.shape[0]

    def add(state, reports):
        reports = reports[:, :dim]
        sums = jnp.sum(reports, axis=0), jnp.sum(reports * reports, axis=0)
        return tuple(_add_compensated(*pair) for pair in zip(state, sums, strict=True))

    zero = jnp.zeros(dim, jnp.float32)
    state = ((zero, zero), (zero, zero))
    state = fold_blocks(randomizer, key_data, start, values, block_size, add, state)
    total, squares = (total + lost for total, lost in state)
    return total, jnp.sum(squares * signs)


def _add_compensated(state, term):
    """Adds a block's sum to (total, what rounding lost of it)."""
    total, lost = state
    new = total + term
    back = new - total
    return new, lost + ((total - (new - back)) + (term - back))
