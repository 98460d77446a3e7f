"""What protocols share whose rounds have users of their own."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .._contract import Cost, Interactive, Step, Work
from ..population import Population, RoundSource

O = TypeVar("O")  # the outcome of a trial: a pytree  # noqa: E741


class SplitRounds(Interactive[O]):
    """Base of the params of d rounds, of which every user joins one at random, before the first.

    What the estimate aims at is chosen on the way. A subclass has `user`, the first round, and
    `num_rounds`, d: fields, or properties.
    """

    user: Any  # Round[Any]
    num_rounds: Any  # int

    def rounds(self, work: Work) -> tuple[Step, ...]:
        """Each of the d rounds visits all users, to find those who take part."""
        return (Step(self.user, work, self.num_rounds),)

    def cost(self, work: Work) -> Cost:
        """The cost of all rounds, and of splitting the counts of each down a tree of rounds."""
        depth = (self.num_rounds - 1).bit_length()
        splits = work.draws(self.num_rounds * work.num_bins * depth)
        return super().cost(work) + Cost(0.0, splits)

    def users_of_round(
        self, users: Population, key: jax.Array, number: jax.Array | int
    ) -> Population:
        """Those who join a round.

        Args:
          users: of all rounds.
          key: the trial's key.
          number: of the round, from 0; may be traced.
        """
        number = jnp.asarray(number, np.int32)
        return Population(RoundSource(users.source, key, number, self.num_rounds))

    @property
    def has_target(self) -> bool:
        """True: what is asked is chosen on the way."""
        return True
