"""One user's words, made as they are read."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxdp_kernels.threefry_words import threefry2x32

from .._spec import check_key
from ._count import Count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class UserWords:
    """The words of one user, `w[j]`, computed when they are indexed.

    It stands for the row of `words` that belongs to the user, and holds the same bits. A sampler
    with rejection, whose address space is much larger than what it reads, asks for it with
    `lazy_words = True` in its params.

    Attributes:
      key_data: uint32[2], the stream key.
      start: Count[], the counter of the user's word 0.
      num_words: words per user, static.

    Example:
      >>> import jax
      >>> key = jax.random.key(7)
      >>> w = UserWords.of_key(key, 6)
      >>> bool((w[2:5] == jax.random.bits(key, (6,))[2:5]).all())
      True
    """

    key_data: jax.Array
    start: Count
    num_words: int = dataclasses.field(metadata={"static": True})

    @classmethod
    def of_user(cls, key: jax.Array, user: Count, num_words: int) -> "UserWords":
        """The words of a user in a stream."""
        return cls(jax.random.key_data(check_key(key)), user.times(num_words), num_words)

    @classmethod
    def of_key(cls, key: jax.Array, num_words: int) -> "UserWords":
        """The words of a key for one user alone: those of `jax.random.bits(key, (num_words,))`."""
        return cls.of_user(key, Count.zeros(), num_words)

    def __getitem__(self, index: Any) -> jax.Array:
        """uint32, of the shape of the index: an int or int32 array in range, or a static slice."""
        if isinstance(index, slice):
            index = jnp.arange(*index.indices(self.num_words), dtype=jnp.uint32)
        index = jnp.asarray(index).astype(jnp.uint32)
        counter = self.start + Count.of(index)
        high = counter.hi.astype(jnp.uint32)
        x0, x1 = threefry2x32((self.key_data[0], self.key_data[1]), (high, counter.lo))
        return x0 ^ x1
