"""`python -m jaxdp_kernels.randomize_and_sum.bench`: against words that are stored before."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._bench import Case, report, timed
from ..threefry_words import threefry_words
from .api import randomize_and_sum
from .arg_specs import ARG_SPECS
from .ref import users_of

MIN_WORDS = 2**16
"""With fewer words, the call itself would take most of the time."""


class StoredWords:
    """Stands for the `FlatWords` of users whose words are in memory, uint32[words, n]."""

    def __init__(self, words: jax.Array) -> None:
        self.users = words.T

    def __getitem__(self, index: int | slice) -> jax.Array:
        return self.users[:, index].reshape(-1)

    def repeated(self, first: int, size: int, number: int) -> jax.Array:
        """Words `first + i % size` of each user."""
        return self.users[:, first + np.arange(number) % size].reshape(-1)

    def quick(self, enough: jax.Array, quick: Callable[[], Any], exact: Callable[[], Any]) -> Any:
        """What `exact` returns."""
        del enough, quick
        return exact()


def by_stored_words(
    randomizer: Any, key: Any, start: jax.Array, values: Any, members: jax.Array
) -> jax.Array:
    """The sum of what all users add, int32[m]."""
    values, counts = users_of(values, members, 2)
    words = StoredWords(threefry_words(key, start, counts.shape[0], randomizer.num_words))
    summed = randomizer.summed
    made = summed.numbers(words, values, summed.alone(words))
    return jnp.sum(jnp.where(counts[:, None], made, 0), axis=0, dtype=jnp.int32)


def cases() -> Iterator[Case]:
    """The arguments that are timed; a user's words are counted as items."""
    for spec in ARG_SPECS:
        randomizer, *others, row = spec.arguments()
        words, arguments = spec.num_users * randomizer.num_words, (randomizer, *others)
        if words < MIN_WORDS:
            continue
        yield Case(
            spec.name,
            words,
            "word",
            timed(functools.partial(randomize_and_sum, row=row), *arguments),
            timed(by_stored_words, *arguments),
            "stored words",
        )


if __name__ == "__main__":
    report("randomize_and_sum", cases())
