"""The functions of `OneStep` that run inside jit."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64, dot
from ..linear._encoded import EncodedLawParams
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
class OneStepParams(RoundsParams):
    """The params of `OneStep`: a pytree.

    Attributes:
      vectors: the params of the first round.
      scalar: the params of the randomizer of numbers in [-1, 1].
      signs: float64[l], the diagonal of D.
      diagonal: float64[k], of W less the shift.
      shift: float64[], c.
      noise: float64[], the variance of an entry of a report.
      tau: float32[], the clipping bound; or None for the range.
      share: of the users in the first round, static.
      form: "u" or "v", static.
    """

    vectors: EncodedLawParams
    scalar: Any
    signs: jax.Array | np.ndarray
    diagonal: jax.Array | np.ndarray
    shift: jax.Array | np.ndarray
    noise: jax.Array | np.ndarray
    tau: jax.Array | np.ndarray | None
    share: float = dataclasses.field(metadata={"static": True})
    form: Form = dataclasses.field(metadata={"static": True})

    @property
    def first_round(self):
        return self.vectors

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds that drawing both rounds' tallies takes, roughly."""
        return self.vectors.tally_cost(num_users, num_bins) + 300.0 * num_bins

    def play(self, key, population: Population, collect) -> RoundsOutcome:
        """Both rounds.

        Args:
          key: the trial's key.
          population: the users.
          collect: runs a round; see `jaxdp.engine`.

        Returns:
          Broadcast "mean" float32[l], y; "values", "middle", "tau": what g is; "square" float32[],
          the term in y alone; "users", a. Tallies "vectors" and "numbers".
        """
        first, second = population.split(key, (self.share, 1 - self.share))
        vectors = collect(self.vectors, first, 0)
        told = self._broadcast(vectors, population.size)
        numbers = collect(scalar_round(self.scalar, told), second, 1)
        return RoundsOutcome(told, {"vectors": vectors, "numbers": numbers})

    @compiled_in_float64
    def _broadcast(self, tally, num_users: Count):
        a, n = jnp.maximum(tally["users"].f64(), 2.0), num_users.f64()
        step, own = weights_of(self.form, n, a)
        columns, signs, diagonal, noise = (
            jnp.asarray(x).astype(jnp.float64)
            for x in (self.vectors.columns, self.signs, self.diagonal, self.noise)
        )
        unit = jnp.asarray(self.vectors.vector.unit).astype(jnp.float64)
        mean = tally["sum"].f64() * (unit / a)
        values = 2 * step * dot(columns, signs * mean) + own * diagonal
        square = step * (jnp.sum(signs * mean**2) - noise * jnp.sum(signs) / a)
        found = {"mean": mean.astype(jnp.float32), "square": square.astype(jnp.float32)}
        return broadcast(values, self.tau) | found

    @compiled_in_float64
    def estimate(self, outcome: RoundsOutcome):
        """The estimated statistic, float[]."""
        told, numbers = outcome.broadcasts, outcome.tallies["numbers"]
        mean = scalar_mean(self.scalar, told, numbers)
        square, shift = (jnp.asarray(x).astype(jnp.float64) for x in (told["square"], self.shift))
        return mean - square + shift


def weights_of(form: Form, num_users, a):
    """The factors of g and of d in what users of B answer."""
    scale, extra = (1.0, 0.0) if form == "u" else (1 - 1 / num_users, 1 / num_users)
    return scale * a / (a + 1), scale / (a + 1) + extra
