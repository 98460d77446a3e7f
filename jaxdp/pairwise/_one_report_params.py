"""The params of OneReport."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._x64 import compiled_in_float64, dot
from ..linear._encoded import VectorCodeLawParams, VectorCodeParams
from ._exact import Form

Link = tuple[Callable, int]
"""A statistic as a function of averages, and of how many."""


def linked(links: tuple[Link, ...], single: bool, averages, num_users):
    """The statistics of averages float64[..., m]: float64[..., s], or float64[...] of a single one.

    Only inside an x64 block.
    """
    found, start = [], 0
    for link, size in links:
        found.append(link(averages[..., start : start + size], num_users))
        start += size
    return found[0] if single else jnp.stack(found, axis=-1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OneReportParams(VectorCodeParams):
    """The params of `OneReport`: a pytree.

    Average j of the m is estimated by the diagonal quadratic form `scales[j]` of the reports, plus
    twice `linear[j]` of their mean, plus `constant[j]`.

    Attributes:
      vector: the params of the randomizer of vectors.
      columns: float32[k, l], the vector of each value.
      scales: float64[m, l].
      linear: float64[m, l].
      constant: float64[m].
      noise: float64[m], the mean of the form of one report's noise.
      links: the statistics as functions of averages, static.
      single: whether there is one statistic, and no axis for it, static.
      form: "u" or "v", static.
    """

    vector: Any
    columns: jax.Array | np.ndarray
    scales: jax.Array | np.ndarray
    linear: jax.Array | np.ndarray
    constant: jax.Array | np.ndarray
    noise: jax.Array | np.ndarray
    links: tuple[Link, ...] = dataclasses.field(metadata={"static": True})
    single: bool = dataclasses.field(metadata={"static": True})
    form: Form = dataclasses.field(metadata={"static": True})

    def tally(self, reports, mask):
        """The sum of the masked reports, for the U-form that of their squares, and the users.

        Args:
          reports: float32[n, ..].
          mask: bool[n].

        Returns:
          {"sum": float32[l], "users": int32[]}, in units of the randomizer, and "squares":
          float32[l].
        """
        tally = self.vector.tally(reports, mask)
        if self.form == "u":
            kept = jnp.where(mask[:, None], self.vector.summands(reports), np.float32(0))
            tally["squares"] = jnp.sum(kept * kept, axis=0)
        return tally

    @compiled_in_float64
    def averages(self, tally):
        """Unbiased estimates of the averages that the statistics are functions of, float[m].

        Args:
          tally: as `tally` returns it, of Fixed and Count.
        """
        scales, linear, constant, noise, unit = (
            jnp.asarray(x).astype(jnp.float64)
            for x in (self.scales, self.linear, self.constant, self.noise, self.vector.unit)
        )
        n = tally["users"].f64()
        mean = tally["sum"].f64() * (unit / n)
        shifted = 2 * dot(linear, mean) + constant
        if self.form == "v":
            return dot(scales, mean**2) - noise / n + shifted
        own = tally["squares"].f64() * (unit**2 / n)
        return dot(scales, n * mean**2 - own) / (n - 1) + shifted

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated statistic, float[], or statistics, float[s].

        Args:
          tally: as `tally` returns it, of Fixed and Count.
        """
        return linked(self.links, self.single, self.averages(tally), tally["users"].f64())


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OneReportLawParams(VectorCodeLawParams, OneReportParams):
    """`OneReportParams` where the law of the tally is known."""
