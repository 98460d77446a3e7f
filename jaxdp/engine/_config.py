"""What a call runs: its params, checked, and how."""

import dataclasses
import math
from typing import Any, Literal

import jax

from .._contract import Params, Runnable, params_of, work_of
from .._spec import check_choice, check_key, is_traced
from ..population import Population
from ._plan import check_block_size, check_num_users

Method = Literal["auto", "per_user", "tally"]
Rounds = Literal[13, 20]

_VMAP_BELOW = 2**16  # numbers a batch of vmapped trials may hold


@dataclasses.dataclass(frozen=True)
class Config:
    """What a compiled run depends on besides shapes."""

    method: str
    mesh: jax.sharding.Mesh | None
    block_size: int | None
    rounds: int = 20
    platform: str = "cpu"
    want_counts: bool = False
    trial_batch: int | None = None


def build_params(protocol: Runnable, name: str = "protocol") -> Params[Any]:
    """The params of a spec, built once; params as they are; `name` is what messages call it."""
    params = params_of(protocol)
    if params is None:
        raise TypeError(
            f"{name} must be a spec such as jaxdp.randomizers.KRR(4, 1.0), or its params, got "
            f"{protocol!r}; one of your own derives from jaxdp.engine.Spec."
        )
    return params


def prepare(protocol: Runnable, population: Population, key: jax.Array) -> Params[Any]:
    """The params, after every check that can be made before any work."""
    params = build_params(protocol)
    if not isinstance(population, Population):
        raise TypeError(
            f"population must be a jaxdp.Population, got {type(population).__name__}; make one "
            "with Population.from_values, from_histogram or from_distribution."
        )
    check_key(key)
    if not is_traced(population):
        with jax.ensure_compile_time_eval():  # concrete users are checked inside jit too
            protocol.check_population(population)
    return params


def configure(
    params: Params[Any],
    population: Population,
    method: Method,
    mesh: jax.sharding.Mesh | None,
    block_size: int | None,
    rounds: Rounds = 20,
) -> Config:
    """The configuration of a call, its options checked and its method chosen."""
    check_choice("method", method, ("auto", "per_user", "tally"))
    if mesh is not None and not isinstance(mesh, jax.sharding.Mesh):
        raise TypeError(f"mesh must be a jax.sharding.Mesh or None, got {mesh!r}.")
    if mesh is not None:  # `shard_map` splits users by itself, whatever kind of axes it is given
        mesh = jax.sharding.Mesh(mesh.devices, mesh.axis_names)
    work = work_of(population)
    played = [step.round for step in params.rounds(work)]
    lawless = [round for round in played if round.law is None]
    if method == "tally" and lawless:
        raise ValueError(
            f"method='tally' needs the law of the tally, which {type(lawless[0]).__name__} does "
            "not have; use method='per_user'."
        )
    device = None if mesh is None else mesh.devices.flat[0].platform
    check_block_size(block_size)
    check_choice("rounds", rounds, (13, 20))
    chosen = str(method)
    if method == "auto":
        cost = params.cost(work)
        cheaper = cost.tally < cost.per_user
        chosen = "tally" if cheaper and math.isfinite(cost.tally) else "per_user"
    if chosen == "per_user" and not is_traced(population.size):
        check_num_users(population.num_users, played, block_size, device or work.platform)
    return Config(chosen, mesh, block_size, int(rounds), device or work.platform)


def bounded(population: Population, config: Config) -> Population:
    """The population as programs take it: on accelerators with a bound on the number of users."""
    if config.platform == "cpu" or config.method == "tally":
        return population
    return Population(population.source.bounded())


def default_batch(params: Params[Any], population: Population, config: Config) -> int:
    """Trials to run side by side: as many as fill a core's cache on CPU, and more on a GPU."""
    if config.mesh is not None:
        return 1
    work = work_of(population)
    numbers = max(work.num_bins, 1)
    if config.method == "per_user":
        words = [step.round.num_words for step in params.rounds(work)]
        numbers = population.num_users * max(*words, 1)
    room = _VMAP_BELOW if work.platform == "cpu" else _VMAP_BELOW * 64
    return max(room // numbers, 1)
