"""One trial of a protocol, and the estimate it leads to."""

import contextlib
import dataclasses
import functools
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdp_kernels.threefry_words import StreamKey

from .._contract import Independent, Params, Round, TallyLaw
from .._spec import Tree, num_cores
from ..population import DistributionSource, Population, RoundSource, Source
from ..random import Count, Stream
from ._config import Config
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
            program = OwnProgram(_collect, config)
            tally = program(round, users, np.uint32(number), key=key, config=config)
            return jax.tree.map(np.asarray, tally)

    users = population.bind(key)
    outcome = jax.tree.map(np.asarray, params.play(key, users, collect))
    counts = None
    if config.want_counts:
        with jax.enable_x64(True):
            program = OwnProgram(_true_counts, config)
            counts = jax.tree.map(np.asarray, program(users, config))
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


# Vectors as wide as any CPU has: XLA takes half, with which words take half as long again.
_WIDE = {"xla_cpu_prefer_vector_width": 512}

_CPU_OPTIONS: dict[str, dict[str, int | bool | str]] = {
    "per_user": {**_WIDE},
    # The older of two code generators, and few of LLVM's optimizations: draws take as long, and
    # half as long to compile. A sum, or a question of any lane, would be cut into sums of 32
    # numbers, each a kernel to compile: a fifth of all there is. Draws add up whole numbers, the
    # same in any order. (Where users' vectors are added such sums take half as long again.)
    # Barriers are kept, so that what `stored` is given is stored: the last pass listed drops them.
    "tally": {
        **_WIDE,
        "xla_cpu_use_fusion_emitters": False,
        "xla_backend_optimization_level": 1,
        "xla_disable_hlo_passes": "tree_reduction_rewriter,cse_barrier_expander",
    },
}
"""Options of XLA for programs that run by a method."""


@contextlib.contextmanager
def while_tracing() -> Iterator[None]:
    """A block that traces and lowers programs, and collects no garbage.

    A trace is many objects that live on, and each collection would look at all that there are: a
    tenth of the time of a first call, and more in a large process.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class OwnProgram:
    """A function with a static `config` as a program that the engine itself calls.

    Within another program it must not be called: jax refuses compiler options there.
    """

    def __init__(self, function: Callable[..., Tree], config: Config):
        self._program = _own_program(function, config.method if config.platform == "cpu" else None)

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """The program for arguments like these, as yet without code; found again if it is there."""
        with while_tracing():
            return self._program.lower(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Tree:
        self.lower(*args, **kwargs)
        return self._program(*args, **kwargs)


def on_all_cores(
    program: OwnProgram,
    params: Params[Any],
    population: Population,
    key: jax.Array,
    trials: np.ndarray,
    config: Config,
) -> Tree:
    """Calls a program of (params, population, key, trials), its trials shared by all cores.

    Args:
      program: returns a pytree whose leaves have an axis of trials.
      params: what is run.
      population: the users.
      key: of all trials.
      trials: consecutive numbers, uint32[t].
      config: static.

    Returns:
      What one call would return, with NumPy leaves; every share is the same program.
    """
    share = -(-trials.size // num_cores())
    starts = range(0, trials.size, share)
    first = trials[0] + np.arange(share, dtype=np.uint32)
    # Compiled here: threads would each compile it, and know no settings of the caller's context.
    compiled = program.lower(params, population, key, first, config).compile()

    def run(start: int) -> Tree:
        with jax.enable_x64(True):  # holds for a thread
            found = compiled(params, population, key, first + np.uint32(start))
            return jax.tree.map(np.asarray, found)

    with ThreadPoolExecutor(len(starts)) as threads:
        shares = list(threads.map(run, starts))
    # The last share may go beyond the last trial.
    return jax.tree.map(lambda *parts: np.concatenate(parts)[: trials.size], *shares)


@functools.cache
def _own_program(function: Callable[..., Tree], method: str | None) -> jax.stages.Wrapped:
    options = None if method is None else _known_options(method)
    return jax.jit(function, static_argnames="config", compiler_options=options)


@functools.cache
def _known_options(method: str) -> dict[str, int | bool | str] | None:
    """The options for a method; None if this XLA does not know them."""
    try:
        jax.jit(lambda: 0, compiler_options=_CPU_OPTIONS[method]).lower().compile()
    except jax.errors.JaxRuntimeError:
        return None
    return _CPU_OPTIONS[method]
