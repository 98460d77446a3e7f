"""`randomize_and_tally` on any platform."""

from typing import Any

import jax
import jax.numpy as jnp

from ..threefry_words import threefry_words
from .ref import Randomizer, randomize_and_tally_ref


def randomize_and_tally_xla(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    first: jax.Array | None,
    values: Any,
    mask: jax.Array,
) -> Any:
    """The tally of the reports of consecutive users; see `randomize_and_tally`."""
    if randomizer.lazy_words or first is not None:
        return randomize_and_tally_ref(randomizer, key_data, start, first, values, mask)
    words = threefry_words(key_data, start, mask.shape[0], randomizer.num_words)
    reports = jax.vmap(randomizer.from_bits, in_axes=(-1, 0), out_axes=-1)(words, values)
    return randomizer.tally(jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), reports), mask)
