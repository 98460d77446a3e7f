"""Words of consecutive users that are made as they are read."""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .ref import StreamKey, users_words

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, eq=False)
class FlatWords:
    """The words of consecutive users, made as they are indexed, for many threads.

    `words[j]` is uint32[n], and `words[i:j]` uint32[n (j - i)], the bits of `words` of one user
    after the other. Each word follows from its place in this flat array: XLA for GPUs would make
    what depends on the user alone, or on j alone, in kernels of their own. It would also store the
    words, were they brought into another shape before they are read.

    Attributes:
      key: the stream's.
      start: uint32[2], the counter of the first block of the first user's tile, who begins it; see
        `jaxdp_kernels.threefry_words`.
      num_users: n, static.
      num_words: of a user, static.
    """

    key: StreamKey
    start: jax.Array
    num_users: int
    num_words: int

    def __getitem__(self, index: int | slice) -> jax.Array:
        """The words of this index of all users."""
        if isinstance(index, int):
            return self._made(range(self.num_words)[index], 1)
        first, stop, _ = index.indices(self.num_words)
        return self._made(first, stop - first)

    def repeated(self, first: int, size: int, number: int) -> jax.Array:
        """uint32[n number]: of each user, entry i is word `first + i % size`; all static."""
        return self._made(first, number, size)

    def quick(self, enough: jax.Array, quick: Callable[[], T], exact: Callable[[], T]) -> T:
        """What `exact` returns; kernels that can branch call `quick` where it is enough, bool[]."""
        del enough, quick
        return exact()

    def _made(self, first: int, number: int, size: int | None = None) -> jax.Array:
        place = lax.iota(jnp.uint32, self.num_users * number)
        user = place // np.uint32(number)
        word = place - user * np.uint32(number)
        if size is not None:
            word = word % np.uint32(size)
        word = word + np.uint32(first)
        return users_words(self.key, self.start, user, self.num_words)[word]
