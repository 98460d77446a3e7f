"""The functions of `TwoRound` that run inside jit."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64
from ..population import Population
from ..random import Count
from ._exact import Form
from ._rounds import (
    RoundsOutcome,
    broadcast,
    scalar_mean,
    scalar_round,
)
from ._rounds_protocol import RoundsParams


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TwoRoundParams(RoundsParams):
    """The params of `TwoRound`: a pytree.

    Attributes:
      queries: the params of the first round.
      scalar: the params of the randomizer of numbers in [-1, 1].
      diagonal: float64[k], of W.
      tau: float32[], the clipping bound; or None for the range.
      share: of the users in the first round; None if everyone is in both; static.
      form: "u" or "v", static.
    """

    queries: Any
    scalar: Any
    diagonal: jax.Array | np.ndarray
    tau: jax.Array | np.ndarray | None
    share: float | None = dataclasses.field(metadata={"static": True})
    form: Form = dataclasses.field(metadata={"static": True})

    @property
    def first_round(self):
        return self.queries

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds that drawing both rounds' tallies takes, roughly."""
        first = getattr(self.queries, "tally_cost", lambda n, k: 0.0)
        return first(num_users, num_bins) + 300.0 * num_bins

    def play(self, key, population: Population, collect) -> RoundsOutcome:
        """Both rounds.

        Args:
          key: the trial's key.
          population: the users.
          collect: runs a round; see `jaxdp.engine`.

        Returns:
          Broadcast "values", "middle", "tau": what f is. Tallies "queries" and "numbers".
        """
        first = second = population
        if self.share is not None:
            first, second = population.split(key, (self.share, 1 - self.share))
        queries = collect(self.queries, first, 0)
        told = self._broadcast(queries, population.size)
        numbers = collect(scalar_round(self.scalar, told), second, 1)
        return RoundsOutcome(told, {"queries": queries, "numbers": numbers})

    @compiled_in_float64
    def _broadcast(self, tally, num_users: Count):
        answers, n = self.queries.estimate(tally), num_users.f64()
        own = jnp.asarray(self.diagonal).astype(jnp.float64)
        if self.share is None and self.form == "u":
            answers = (n * answers - own) / (n - 1)
        elif self.share is not None and self.form == "v":
            answers = ((n - 1) * answers + own) / n
        return broadcast(answers, self.tau)

    def estimate(self, outcome: RoundsOutcome):
        """The estimated statistic, float[]."""
        return scalar_mean(self.scalar, outcome.broadcasts, outcome.tallies["numbers"])
