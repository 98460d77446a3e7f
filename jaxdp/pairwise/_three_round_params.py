"""The functions of `ThreeRound` that run inside jit."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64, dot
from ..linear._encoded import EncodedLawParams
from ..population import Population
from ..projections import hull, symmetric_polytope
from ..random import Count
from ._exact import Form
from ._rounds import (
    RoundsOutcome,
    broadcast,
    scalar_mean,
    scalar_round,
)
from ._rounds_protocol import RoundsParams

_TOL = 1e-9


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ThreeRoundParams(RoundsParams):
    """The params of `ThreeRound`: a pytree.

    Attributes:
      vectors: the params of the first two rounds.
      scalar: the params of the randomizer of numbers in [-1, 1].
      signs: float64[l], the diagonal of D.
      diagonal: float64[k], of W less the shift.
      shift: float64[], what was taken out of W.
      norm: float32[], `|W|`.
      tau: float32[], the clipping bound; or None for the range.
      margin: float64[], what is added to it, times the root of the size of the second round.
      shares: of the users in each round, static.
      variant: static.
      form: static.
    """

    vectors: EncodedLawParams
    scalar: Any
    signs: jax.Array | np.ndarray
    diagonal: jax.Array | np.ndarray
    shift: jax.Array | np.ndarray
    norm: jax.Array | np.ndarray
    tau: jax.Array | np.ndarray | None
    margin: jax.Array | np.ndarray
    shares: tuple[float, float, float] = dataclasses.field(metadata={"static": True})
    variant: str = dataclasses.field(metadata={"static": True})
    form: Form = dataclasses.field(metadata={"static": True})

    @property
    def first_round(self):
        return self.vectors

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds that drawing all rounds' tallies takes, roughly."""
        return 2 * self.vectors.tally_cost(num_users, num_bins) + 800.0 * num_bins

    def play(self, key, population: Population, collect) -> RoundsOutcome:
        """All rounds.

        Args:
          key: the trial's key.
          population: the users.
          collect: runs a round; see `jaxdp.engine`.

        Returns:
          Broadcasts "center" float32[l], D mu; "mean" float32[l], y; and the numbers asked, each
          with "values", "middle", "tau": "numbers" and, in "paper", "alone", those of mu only.
          Tallies of the same names.
        """
        groups = (population,) * 3
        if self.variant == "tuned":
            groups = population.split(key, self.shares)
        first = collect(self.vectors, groups[0], 0)
        center = self._center(first)
        second = collect(self.vectors, groups[1], 1)
        told = {"center": center} | self._numbers(center, second, population.size)
        tallies = {"center": first, "mean": second}
        tallies["numbers"] = collect(scalar_round(self.scalar, told["numbers"]), groups[2], 2)
        if self.variant == "paper":
            tallies["alone"] = collect(scalar_round(self.scalar, told["alone"]), population, 3)
        return RoundsOutcome(told, tallies)

    def _mean(self, tally):
        """The mean of reports, float64[l]; inside an x64 block."""
        unit = jnp.asarray(self.vectors.vector.unit).astype(jnp.float64)
        return tally["sum"].f64() * (unit / jnp.maximum(tally["users"].f64(), 1.0))

    @compiled_in_float64
    def _center(self, tally):
        vertices = jnp.asarray(self.vectors.columns).astype(jnp.float64).T
        project = symmetric_polytope if self.variant == "paper" else hull
        point = project(self._mean(tally), vertices, tol=_TOL).point
        return (jnp.asarray(self.signs).astype(jnp.float64) * point).astype(jnp.float32)

    @compiled_in_float64
    def _numbers(self, center, tally, num_users: Count):
        n = num_users.f64()
        center, columns, signs, own = (
            jnp.asarray(x).astype(jnp.float64)
            for x in (center, self.vectors.columns, self.signs, self.diagonal)
        )
        mean = self._mean(tally)
        alone, along = dot(columns, center), dot(columns, signs * mean)
        constant = jnp.sum(mean * center)
        told = {"mean": mean.astype(jnp.float32)}
        if self.variant == "paper":
            numbers = broadcast(along - constant, self.tau)
            return told | {"alone": broadcast(alone, self.norm), "numbers": numbers}
        if self.form == "u":
            step, extra = jnp.ones_like(n), jnp.zeros_like(n)
        else:
            step, extra = 1 - 1 / n, 1 / n
        tau = self.tau
        if tau is not None:
            users = jnp.maximum(tally["users"].f64(), 1.0)
            margin = jnp.asarray(self.margin).astype(jnp.float64) / jnp.sqrt(users)
            tau = jnp.asarray(tau).astype(jnp.float64) + margin
        numbers = broadcast(step * (alone + along) + extra * own, tau)
        return told | {"constant": (step * constant).astype(jnp.float32), "numbers": numbers}

    @compiled_in_float64
    def estimate(self, outcome: RoundsOutcome):
        """The estimated statistic, float[]."""
        told, tallies = outcome.broadcasts, outcome.tallies
        found = scalar_mean(self.scalar, told["numbers"], tallies["numbers"])
        if self.variant == "paper":
            return found + scalar_mean(self.scalar, told["alone"], tallies["alone"])
        constant, shift = (
            jnp.asarray(x).astype(jnp.float64) for x in (told["constant"], self.shift)
        )
        return found - constant + shift
