"""Programs that the engine itself calls: their options, and who compiles and runs them."""

import contextlib
import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from .._contract import Params
from .._spec import Tree, num_cores
from ..population import Population
from ._config import Config
from ._halves import Halves, cut

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
        method = config.method if config.platform == "cpu" else None
        self._program = _own_program(function, method)
        self._config, self._may_be_cut = config, method == "tally" and config.mesh is None

    def compile(self, *args: Any, **kwargs: Any) -> Callable[..., Tree]:
        """The program for arguments like these, which may be called from any thread."""
        with while_tracing():
            traced, halves = self._trace(args, kwargs)
            if halves is None:
                return traced.lower().compile()
            compiled = halves.compile()
        return lambda *args, **kwargs: _called(compiled, traced, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Tree:
        with while_tracing():
            traced, halves = self._trace(args, kwargs)
            if halves is None:
                traced.lower()
        if halves is None:
            return self._program(*args, **kwargs, config=self._config)
        return _called(halves, traced, args, kwargs)

    def _trace(self, args: Any, kwargs: Any) -> tuple[jax.stages.Traced, Halves | None]:
        """The program as traced, and its halves if it is long; found again if they are there."""
        traced = self._program.trace(*args, **kwargs, config=self._config)
        if not self._may_be_cut:
            return traced, None
        program, leaves = traced.jaxpr, jax.tree.leaves((args, kwargs))
        # Halves are compiled for jax's default device.
        elsewhere = any(isinstance(x, jax.Array) and x.committed for x in leaves)
        if elsewhere or len(program.invars) != len(leaves):
            return traced, None
        if program not in _halves:
            _halves[program] = cut(program, traced.fun_name, _known_options("tally"))
        return traced, _halves[program]


def _called(
    function: Callable[..., list[jax.Array]], traced: jax.stages.Traced, args: Any, kwargs: Any
) -> Tree:
    """What the traced function returns, by one of lists."""
    found = function(jax.tree.leaves((args, kwargs)))
    return jax.tree.unflatten(jax.tree.structure(traced.out_info), found)


def on_all_cores(
    program: OwnProgram,
    params: Params[Any],
    population: Population,
    key: jax.Array,
    trials: np.ndarray,
) -> Tree:
    """Calls a program of (params, population, key, trials), its trials shared by all cores.

    Args:
      program: returns a pytree whose leaves have an axis of trials.
      params: what is run.
      population: the users.
      key: of all trials.
      trials: consecutive numbers, uint32[t].

    Returns:
      What one call would return, with NumPy leaves; every share is the same program.
    """
    share = -(-trials.size // num_cores())
    starts = range(0, trials.size, share)
    first = trials[0] + np.arange(share, dtype=np.uint32)
    # Compiled here: threads would each compile it, and know no settings of the caller's context.
    compiled = program.compile(params, population, key, first)

    def run(start: int) -> Tree:
        with jax.enable_x64(True):  # holds for a thread
            found = compiled(params, population, key, first + np.uint32(start))
            return jax.tree.map(np.asarray, found)

    with ThreadPoolExecutor(len(starts)) as threads:
        shares = list(threads.map(run, starts))
    # The last share may go beyond the last trial.
    return jax.tree.map(lambda *parts: np.concatenate(parts)[: trials.size], *shares)


# By the program: jax keeps it for as long as it may be called again.
_halves: weakref.WeakKeyDictionary[ClosedJaxpr, Halves | None] = weakref.WeakKeyDictionary()


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
