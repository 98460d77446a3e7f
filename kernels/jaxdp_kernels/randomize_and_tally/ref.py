"""The definition of `randomize_and_tally`, in plain JAX: each user's words, report, tally."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from ..threefry_words import UserWords, users_words


class Randomizer(Protocol):
    """A local randomizer: a pytree with the number of a user's words, its channel, its sums."""

    @property
    def num_words(self) -> int:
        """Words of a user, static."""
        ...

    @property
    def lazy_words(self) -> bool:
        """Whether a user reads so few of its words that they are made one at a time; static."""
        ...

    def from_bits(self, words: Any, value: Any, /) -> Any:
        """One user's report, from its words, indexed like uint32[num_words], and its value."""
        ...

    def tally(self, reports: Any, mask: jax.Array, /) -> Any:
        """The sums of the reports of the users in the mask."""
        ...


def randomize_and_tally_ref(
    randomizer: Randomizer,
    key_data: jax.Array,
    start: jax.Array,
    first: jax.Array | None,
    values: Any,
    mask: jax.Array,
) -> Any:
    """The tally of the reports of consecutive users; see `randomize_and_tally`."""
    users = lax.iota(jnp.uint32, mask.shape[0])
    users = users if first is None else users + first
    num_words = randomizer.num_words
    words = users_words(key_data, start, users, num_words)
    axes = UserWords(None, 0, 0, 0, num_words)  # pyright: ignore[reportArgumentType]

    def report(words, value):
        return randomizer.from_bits(words if randomizer.lazy_words else words[:], value)

    return randomizer.tally(jax.vmap(report, in_axes=(axes, 0))(words, values), mask)
