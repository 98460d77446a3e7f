"""The users of one of many rounds, of which each user takes part in exactly one."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels import register_dataclass

from .._bits import mul_32x32
from .._x64 import compiled_in_float64
from ..random import Count, binomial
from ._derived import _Assigned


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class RoundSource(_Assigned):
    """The users of one round, where every user joins one of the rounds, all equally likely.

    User i joins round `floor(w d / 2**32)`, w being the user's word in the trial's `Stream.ASSIGN`
    and d the number of rounds: the assignment is fixed before any round is run. A round's
    probability is 1/d up to 2**-32, and both the per-user and the drawn assignments realise it.
    Unlike a group of `Population.split`, a round takes no memory and no time per round, so that
    there may be thousands of rounds, and its number may be traced.

    Attributes:
      base: all users.
      key: the trial's key.
      round: int32[], which round this is.
      num_rounds: d, static, at most 2**16.
    """

    MAX_ROUNDS: ClassVar[int] = 2**16
    noun = "round of"

    round: jax.Array | np.ndarray
    num_rounds: int = dataclasses.field(metadata={"static": True})

    def _joins(self, word: jax.Array) -> jax.Array:
        # The upper half of the 64-bit product is floor(w d / 2**32).
        joined, _ = mul_32x32(word, jnp.uint32(self.num_rounds))
        return joined == jnp.asarray(self.round).astype(jnp.uint32)

    @compiled_in_float64
    def counts(self) -> Count:
        """The number of users of this round with each value, Count[k].

        The counts of all rounds are the leaves of one random binary tree, whose nodes split their
        users between two halves of their rounds, and are jointly right. A round computes the nodes
        on its own path only.
        """
        return self._share(self.base.counts())

    @compiled_in_float64
    def drawn_size(self) -> Count:
        """The number of users of this round, Count[], drawn as `counts` would be.

        It serves instead of `counts` where values are independent of all else; the two are not
        drawn jointly.
        """
        return self._share(self.base.size)

    def _share(self, total: Count) -> Count:
        """What this round gets of a total, inside an x64 block."""
        depth = (self.num_rounds - 1).bit_length()
        number = jnp.asarray(self.round).astype(jnp.int32)
        nodes = self.draws(6)

        def edge(first):  # words below it belong to earlier rounds; exact for up to 2**16 rounds
            first = jnp.minimum(first, self.num_rounds).astype(jnp.float64)
            return jnp.ceil(first * 2.0**32 / self.num_rounds)

        def descend(level, state):
            total, node, first = state
            half = jnp.left_shift(np.int32(1), np.int32(depth - 1) - level)
            middle = first + half
            begin = edge(first)
            # The share of the left half among the words of this node. The key is the node's, so all
            # rounds below it draw the same split and follow their own side of it.
            p = (edge(middle) - begin) / (edge(middle + half) - begin)
            left = binomial(jax.random.fold_in(nodes, node), total, p)
            later = number >= middle
            total = jax.tree.map(lambda a, b: jnp.where(later, a, b), total - left, left)
            return total, 2 * node + later.astype(jnp.int32), jnp.where(later, middle, first)

        root = (total, jnp.int32(1), jnp.int32(0))
        return lax.fori_loop(0, depth, descend, root)[0]
