"""Arguments on which `threefry_words` is tested and timed."""

import dataclasses

import jax

from .._samples import start_of
from .ref import StreamKey


@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """One set of arguments: a seed, a first tile, a number of users and of their words."""

    name: str
    seed: int
    tile: int
    num_users: int
    num_words: int

    def arguments(self):
        """(key, start, num_users, num_words)."""
        start = start_of(self.tile, self.num_words)
        return StreamKey.of(jax.random.key(self.seed)), start, self.num_users, self.num_words


ARG_SPECS = (
    ArgSpec("one", 0, 0, 1, 1),
    ArgSpec("some", 1, 3, 700, 5),
    ArgSpec("tile", 2, 1, 2048, 3),
    ArgSpec("odd", 3, 0, 5000, 2),
    ArgSpec("carry", 4, 2**22 - 1, 4096, 1),
    ArgSpec("high", 5, 2**42 - 1, 2048, 7),
    ArgSpec("bits", 6, 2**20, 2**14, 128),
    ArgSpec("large", 7, 2**30, 2**22, 1),
)
