"""One trial of a protocol, and the estimate it leads to."""

import dataclasses

import jax

from ..population import DistributionSource, Population
from ..random import ROUND, TALLY, Count, stream
from ._config import Config
from ._stream import ValueCounts, stream_tally


def play(params, population, key, config: Config):
    """One trial: its outcome, and the true counts where the config wants them (else None).

    The outcome is what `estimate` takes: of an interactive protocol the estimate itself, of others
    the tally. Estimates are computed by a program of their own, the same for every mesh and block
    size, so that they do not differ in the last bit.
    """
    population = population.bind(key)

    def collect(params, population, round=0):
        if config.method == "tally":
            return _draw_tally(params, population, stream(key, TALLY + round), config)
        return stream_tally(
            params,
            population,
            stream(key, ROUND + round),
            mesh=config.mesh,
            block_size=config.block_size,
        )

    if hasattr(params, "play"):
        outcome = params.play(key, population, collect)
    else:
        outcome = collect(params, population)
    return outcome, _true_counts(population, config) if config.want_counts else None


def estimate(params, outcome):
    """The estimate of an outcome; see `play`."""
    return outcome if hasattr(params, "play") else params.estimate(outcome)


def _draw_tally(params, population, key, config: Config):
    source = population.source
    iid = isinstance(source, DistributionSource) and not config.want_counts
    if iid and source.values is None and hasattr(params, "sample_tally_iid"):
        return params.sample_tally_iid(key, source.size, source.weights)
    return params.sample_tally(key, population.counts(), population.inputs)


def _true_counts(population, config: Config) -> Count:
    """The counts of the users at hand, as the path of the config meets them."""
    if config.method == "tally":
        return population.counts()
    source = population.source
    if isinstance(source, DistributionSource):
        source = dataclasses.replace(source, values=None)
    return stream_tally(
        ValueCounts(source.num_values or 1),
        Population(source),
        jax.random.key(0),
        mesh=config.mesh,
        block_size=None,
    )
