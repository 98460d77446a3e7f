"""One trial of a protocol, and the estimate it leads to.

Params of an interactive protocol have `play(key, population, collect)`, which runs rounds by
calling `collect(params, population, round)` with the params of a non-interactive round; it returns
the outcome of the trial. They may also have

  * `estimate(outcome)`: the estimate, where the outcome holds more than that;
  * `target(outcome, histogram)`: what the estimate aims at, given the normalised histogram of the
    users, where that depends on what was asked;
  * `traceable = False`: `play` calls Python that cannot be traced. It then runs on the host, a
    trial at a time, its rounds compiled, with tallies of NumPy arrays.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..population import DistributionSource, Population
from ..population._rounds import RoundSource
from ..random import ROUND, TALLY, Count
from ._config import Config
from ._stream import ValueCounts, stream_tally


def play(params, population, key, config: Config):
    """One trial: its outcome, and the true counts where the config wants them (else None).

    The outcome is what `estimate` takes: of a non-interactive protocol the tally. Estimates are
    computed by a program of their own, the same for every mesh and block size, so that they do not
    differ in the last bit.
    """
    population = population.bind(key)
    if hasattr(params, "play"):
        collect = functools.partial(_collect, key=key, config=config)
        outcome = params.play(key, population, collect)
    else:
        outcome = _collect(params, population, key=key, config=config)
    return outcome, _true_counts(population, config) if config.want_counts else None


def play_on_host(params, population, key, config: Config):
    """`play` for params that are not traceable, with NumPy leaves; every round is compiled."""
    config = dataclasses.replace(config, trial_batch=None)  # the same programs for one or many

    def collect(params, population, round=0):
        with jax.enable_x64(True):
            tally = _collect_compiled(params, population, np.uint32(round), key=key, config=config)
            return jax.tree.map(np.asarray, tally)

    population = population.bind(key)
    outcome = jax.tree.map(np.asarray, params.play(key, population, collect))
    counts = None
    if config.want_counts:
        with jax.enable_x64(True):
            counts = jax.tree.map(np.asarray, _count_compiled(population, config))
    return outcome, counts


def is_traceable(params) -> bool:
    """Whether a whole trial can be compiled."""
    return getattr(params, "traceable", True)


def estimate(params, outcome):
    """The estimate of an outcome; see `play`."""
    return params.estimate(outcome) if hasattr(params, "estimate") else outcome


def _collect(params, population, round=0, *, key, config: Config):
    """The tally of one round; its number may be traced."""

    def stream(first):
        return jax.random.fold_in(key, jnp.asarray(round).astype(jnp.uint32) + np.uint32(first))

    if config.method == "tally":
        return _draw_tally(params, population, stream(TALLY), config)
    return stream_tally(
        params, population, stream(ROUND), mesh=config.mesh, block_size=config.block_size
    )


def _draw_tally(params, population, key, config: Config):
    if not config.want_counts and hasattr(params, "sample_tally_iid"):
        if found := _independent(population.source):
            return params.sample_tally_iid(key, *found)
    return params.sample_tally(key, population.counts(), population.inputs)


def _independent(source) -> tuple[Count, Count] | None:
    """How many users are drawn independently, and the weights of their bins, if they are."""
    if isinstance(source, RoundSource):
        found = _independent(source.base)
        return found and (source.drawn_size(), found[1])
    if isinstance(source, DistributionSource) and source.values is None:
        return source.size, source.weights
    return None


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


_collect_compiled = jax.jit(_collect, static_argnames="config")
_count_compiled = jax.jit(_true_counts, static_argnames="config")
