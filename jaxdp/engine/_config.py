"""What a call runs: its params, checked, and how."""

import dataclasses
import math
from typing import Any, Literal

import jax
import numpy as np

from .._contract import Params, Round, Runnable, params_of, work_of
from .._spec import check_choice, check_key, is_traced
from ..population import Population
from ._fused import WORTH_ADDING, WORTHWHILE, check_fused, have_kernel, try_fused
from ._plan import check_block_size, check_num_users

Method = Literal["auto", "per_user", "tally"]
Rounds = Literal[13, 20]
Implementation = Literal["kernel", "xla"] | None
Mesh = jax.sharding.Mesh | Literal["local"] | None

_CACHED = 2**16  # numbers of a batch of vmapped trials on CPU, where a core's cache holds them
_SHARE = 2**12  # elsewhere one for so many bytes: with its temporaries it takes 1 KiB at most
_CLEARLY = 2.0  # costs are rough, and draws of tallies take longer to compile
_MEMORY = 2**34  # bytes, of a device that does not say


@dataclasses.dataclass(frozen=True)
class Config:
    """What a compiled run depends on besides shapes.

    Attributes:
      method: "per_user" or "tally".
      mesh: devices, on axes of type Auto; None for one.
      block_size: users per block; None for the platform's.
      rounds: of threefry2x32 for users' words.
      platform: "cpu", "gpu" or "tpu": where rounds are played.
      host: whether estimates, and tallies that are drawn at once, are computed on the host's CPU.
      fused: whether rounds that have one kernel for reports and their counts use it.
      want_counts: whether trials return the true counts of their users.
      trial_axes: the axes of the mesh that trials are split over; users are over all others.
      trial_batch: how many trials a device runs side by side.
    """

    method: str
    mesh: jax.sharding.Mesh | None
    block_size: int | None
    rounds: int = 20
    platform: str = "cpu"
    host: bool = False
    fused: bool = False
    want_counts: bool = False
    trial_axes: tuple[str, ...] = ()
    trial_batch: int | None = None

    @property
    def num_shares(self) -> int:
        """How many parts trials are split into."""
        return 1 if self.mesh is None else math.prod(self.mesh.shape[a] for a in self.trial_axes)

    @property
    def finishing(self) -> "Config":
        """What estimates depend on: one program for whatever made their outcomes."""
        if self.host:
            return Config("", None, None)
        mesh = self.mesh if self.trial_axes else None
        return Config("", mesh, None, platform=self.platform, trial_axes=self.trial_axes)


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
    mesh: Mesh,
    block_size: int | None,
    rounds: Rounds = 20,
    implementation: Implementation = None,
    num_trials: int = 1,
) -> Config:
    """The configuration of a call, its options checked and its method chosen."""
    check_choice("method", method, ("auto", "per_user", "tally"))
    work = work_of(population)
    mesh = _auto_mesh(mesh, work.platform)
    played = [step.round for step in params.rounds(work)]
    lawless = [round for round in played if round.law is None]
    if method == "tally" and lawless:
        raise ValueError(
            f"method='tally' needs the law of the tally, which {type(lawless[0]).__name__} does "
            f"not have; use method='per_user'.{lawless[0].lawless}"
        )
    platform = work.platform if mesh is None else _platform_of(mesh)
    check_block_size(block_size)
    check_choice("rounds", rounds, (13, 20))
    fused = _may_fuse(implementation, platform, mesh)
    chosen = str(method)
    if method == "auto":
        cost = params.cost(work)
        cheaper = _CLEARLY * cost.tally < cost.per_user
        chosen = "tally" if cheaper and math.isfinite(cost.tally) else "per_user"
    if chosen == "per_user" and not is_traced(population.size):
        check_num_users(population.num_users, played, block_size, platform)
    if fused and chosen == "per_user":
        maker, most = population.source.maker, _most_users(population)
        for round in played:
            if implementation is not None:
                check_fused(round, maker)
            elif _pays(round, most * num_trials):
                try_fused(round, maker)
    host = platform == "tpu" and _has_host(population)
    if host and chosen == "tally":
        platform, mesh = "cpu", None
    return Config(chosen, mesh, block_size, int(rounds), platform, host, fused)


def _pays(round: Round[Any], users: int) -> bool:
    """Whether it pays to compare a kernel with XLA, for so many users in all trials."""
    if round.counted is not None or round.summed is None:
        return users >= WORTHWHILE
    return users * round.summed.size >= WORTH_ADDING


def _platform_of(mesh: jax.sharding.Mesh) -> str:
    return mesh.devices.flat[0].platform


def _has_host(population: Population) -> bool:
    """Whether this process has a CPU to compute on, and all users at hand.

    A TPU has no float64: what promises exact laws and counts to 2**53 is left to its host, which
    also compiles it in a tenth of the time.
    """
    leaves = [x for x in jax.tree.leaves(population) if isinstance(x, jax.Array)]
    if is_traced(population) or not all(x.is_fully_addressable for x in leaves):
        return False
    try:
        return bool(jax.local_devices(backend="cpu"))
    except RuntimeError:  # JAX_PLATFORMS leaves it out
        return False


def _may_fuse(
    implementation: Implementation, platform: str, mesh: jax.sharding.Mesh | None
) -> bool:
    """Whether one kernel may serve rounds; raises where it is asked for and there is none."""
    if implementation is not None:
        check_choice("implementation", implementation, ("kernel", "xla"))
    if implementation == "kernel" and platform != "gpu":
        raise ValueError(
            f"implementation='kernel' needs an NVIDIA GPU, and this would run on {platform!r}; "
            "leave it out."
        )
    if implementation is None and platform == "gpu":
        return have_kernel(_on(platform) if mesh is None else list(mesh.devices.flat))
    return implementation == "kernel"


def _on(platform: str) -> list[Any]:
    """The device of a platform that runs what is not split."""
    return jax.local_devices(backend=platform)[:1]


def _most_users(population: Population) -> int:
    """How many users there are, or can be where they are traced; 0 where nothing is known."""
    if is_traced(population.size):
        return population.source.most or 0
    return population.num_users


def _auto_mesh(mesh: Mesh, platform: str) -> jax.sharding.Mesh | None:
    """The mesh that a caller means, on axes of type Auto; None for one device."""
    if mesh is None:
        return None
    if isinstance(mesh, jax.sharding.Mesh):
        # `shard_map` splits users by itself, whatever kind of axes it is given.
        return jax.sharding.Mesh(mesh.devices, mesh.axis_names)
    if not isinstance(mesh, str) or mesh != "local":
        raise TypeError(f"mesh must be a jax.sharding.Mesh, 'local' or None, got {mesh!r}.")
    devices = np.asarray(jax.local_devices(backend=platform))
    return jax.sharding.Mesh(devices, ("trials",)) if devices.size > 1 else None


def bounded(population: Population, config: Config) -> Population:
    """The population as programs take it: on accelerators with a bound on the number of users."""
    if config.platform == "cpu" or config.method == "tally":
        return population
    return dataclasses.replace(population, source=population.source.bounded())


def for_trials(
    config: Config, params: Params[Any], population: Population, trial_batch: int | None = None
) -> Config:
    """The configuration of many trials: which axes split them, and how many run side by side.

    Trials are split over the axis "trials"; drawn tallies over all axes, unless the users lie split
    over some. A protocol that calls Python runs a trial at a time, its users over all axes.
    """
    if config.mesh is not None and params.traceable:
        whole = config.method == "tally" and not _lies_split(population)
        axes = tuple(name for name in config.mesh.axis_names if whole or name == "trials")
        config = dataclasses.replace(config, trial_axes=axes)
    batch = trial_batch or _default_batch(params, population, config)
    return dataclasses.replace(config, trial_batch=batch)


def _lies_split(population: Population) -> bool:
    leaves = jax.tree.leaves(population)
    return any(isinstance(x, jax.Array) and not x.sharding.is_fully_replicated for x in leaves)


def _default_batch(params: Params[Any], population: Population, config: Config) -> int:
    """Trials a device runs side by side: as many as its cache on CPU, or its memory, holds."""
    if config.platform == "cpu" and config.method == "per_user" and population.source.most is None:
        return 1  # a block is large, whatever the number of users, for whom there is one program
    work = work_of(population)
    numbers = max(work.num_bins, 1)
    if config.method == "per_user":
        words = [step.round.num_words for step in params.rounds(work)]
        sharing = 1 if config.mesh is None else config.mesh.size // config.num_shares
        numbers = -(-population.num_users // sharing) * max(*words, 1)
    room = _CACHED if config.platform == "cpu" else _memory(config.mesh) // _SHARE
    return max(room // numbers, 1)


def _memory(mesh: jax.sharding.Mesh | None) -> int:
    """Bytes of memory of a device that runs trials."""
    if mesh is not None and mesh.is_multi_process:
        return _MEMORY  # every process must run the same program
    device = jax.local_devices()[0] if mesh is None else mesh.devices.flat[0]
    try:
        stats = device.memory_stats()
    except jax.errors.JaxRuntimeError:  # a device that is compiled for, and is not here
        stats = None
    return (stats or {}).get("bytes_limit", _MEMORY)
