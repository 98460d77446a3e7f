"""One trial of a protocol, and the estimate it leads to."""

import dataclasses
import functools
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels.threefry_words import StreamKey

from .._contract import Independent, Params, Round, TallyLaw
from ..population import DistributionSource, Population, RoundSource, Source
from ..random import Count, Stream
from ._config import Config
from ._programs import OwnProgram
from ._stream import Census, stream_tally

T = TypeVar("T")


def play(params: Params[Any], population: Population, key: jax.Array, config: Config):
    """One trial: its outcome, and the true counts where the config wants them (else None).

    The outcome is what `estimate` takes: of a non-interactive protocol the tally. Estimates are
    computed by a program of their own, the same for every mesh and block size, so that they do not
    differ in the last bit.
    """
    users = population.bind(key)
    outcome = params.play(key, users, functools.partial(_collect, key=key, config=config))
    return outcome, _true_counts(users, config) if config.want_counts else None


def play_on_host(params: Params[Any], population: Population, key: jax.Array, config: Config):
    """`play` for params that are not traceable, with NumPy leaves; every round is compiled."""
    config = dataclasses.replace(config, trial_batch=None)  # the same programs for one or many

    def collect(round, users, number):
        with jax.enable_x64(True):
            tally = OwnProgram(_collect, config)(round, users, np.uint32(number), key=key)
            return jax.tree.map(np.asarray, tally)

    users = population.bind(key)
    outcome = jax.tree.map(np.asarray, params.play(key, users, collect))
    counts = None
    if config.want_counts:
        with jax.enable_x64(True):
            counts = jax.tree.map(np.asarray, OwnProgram(_true_counts, config)(users))
    return outcome, counts


def _collect(
    round: Round[T], users: Population, number: Any, *, key: jax.Array, config: Config
) -> T:
    """The tally of one round; its number may be traced."""

    def stream(first: int) -> jax.Array:
        return jax.random.fold_in(key, jnp.asarray(number).astype(jnp.uint32) + np.uint32(first))

    law = round.law
    if config.method == "tally":
        assert law is not None, "checked by `configure`"
        return _draw_tally(round, law, users, stream(Stream.TALLY), config)
    words = StreamKey.of(stream(Stream.ROUND), config.rounds)
    return stream_tally(round, users, words, config=config)


def _draw_tally(
    round: Round[T], law: TallyLaw[T], users: Population, key: jax.Array, config: Config
) -> T:
    independent = None if config.want_counts else _independent(users.source)
    if law.independent is not None and independent is not None:
        return law.independent(key, independent)
    kernels = round.kernels.draw
    if not kernels:
        return law.draw(key, users.counts(), users.inputs)
    return lax.platform_dependent(
        round,
        key,
        users.counts(),
        users.inputs,
        default=lambda round, key, counts, inputs: law.draw(key, counts, inputs),
        **kernels,
    )


def _independent(source: Source) -> Independent | None:
    """How users are drawn independently from a distribution, if they are."""
    if isinstance(source, RoundSource):
        found = _independent(source.base)
        return found and dataclasses.replace(found, size=source.drawn_size())
    if isinstance(source, DistributionSource):
        return Independent(source.size, source.weights, source.values)
    return None


def _true_counts(users: Population, config: Config) -> Count:
    """The counts of the users at hand, as the path of the config meets them."""
    if config.method == "tally":
        return users.counts()
    source = users.source
    if isinstance(source, DistributionSource):
        source = dataclasses.replace(source, values=None)
    return stream_tally(
        Census(source.num_values or 1),
        Population(source),
        StreamKey.of(jax.random.key(0)),
        config=dataclasses.replace(config, block_size=None),
    )
