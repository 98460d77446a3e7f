"""Who plays the trials of a call: its params, or a round of more sizes that stands for them."""

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
    """Has another round play the trials whose programs more params share, where there is one."""
    alone = type(params).play is Round.play and config.mesh is None
    if not isinstance(params, Round) or not alone:
        return Cast(params, population)
    if config.method == "tally":
        return _padded(params, population, config)
    # Blocks are whole tiles by default, but for shares of an array.
    tiled = population.source.most is None and config.block_size is None
    shared = params.shared if tiled and config.platform == "cpu" else None
    return Cast(shared or params, population)


def _padded(params: Round[Any], population: Population, config: Config) -> Cast:
    """Has a padded round draw the tallies of bins, where one can, so that no k needs its own."""
    source, padded = population.source, params.law and params.law.padded
    if padded is None or not isinstance(source, HistogramSource):
        return Cast(params, population)
    if source.values is not None or config.want_counts:
        return Cast(params, population)
    counts = np.zeros(padded.round.num_bins or 0, np.int64)
    counts[: source.num_values] = source.histogram.numpy()
    return Cast(padded.round, Population(HistogramSource.make(counts, None)), padded.cut)
