"""Who plays the trials of a call: its params, or a round of more bins that stands for them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxdp_kernels import register_dataclass

from .._contract import Params, Round
from .._spec import Tree
from ..population import HistogramSource, Population
from ._config import Config


def _uncut(outcomes: Tree) -> Tree:
    return outcomes


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Cast:
    """Who plays the trials; a pytree.

    Attributes:
      params: those of the call, or a round that stands for them.
      population: its users.
      cut: from its outcomes to those of the call's params, static.
    """

    params: Params[Any]
    population: Population
    cut: Callable[[Tree], Tree] = dataclasses.field(default=_uncut, metadata={"static": True})


def cast_of(params: Params[Any], population: Population, config: Config) -> Cast:
    """Has a padded round draw the tallies of bins, where one can, so that no k needs its own."""
    source = population.source
    drawn = config.method == "tally" and config.mesh is None and not config.want_counts
    if not (drawn and isinstance(params, Round) and isinstance(source, HistogramSource)):
        return Cast(params, population)
    padded = None if params.law is None or source.values is not None else params.law.padded
    if padded is None or type(params).play is not Round.play:
        return Cast(params, population)
    counts = np.zeros(padded.round.num_bins or 0, np.int64)
    counts[: source.num_values] = source.histogram.numpy()
    return Cast(padded.round, Population(HistogramSource.make(counts, None)), padded.cut)
