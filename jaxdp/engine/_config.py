"""What a call runs: its params, checked, and how."""

import dataclasses
import functools
from typing import Any, Literal

import jax

from .._spec import check_choice, check_key, is_traced
from ..population import Population
from ._plan import check_block_size, check_num_users

Method = Literal["auto", "per_user", "tally"]

_PER_USER_COST = 1.5  # nanoseconds a word, roughly, for method="auto"
_VMAP_BELOW = 2**16  # numbers a batch of vmapped trials may hold


@dataclasses.dataclass(frozen=True)
class Config:
    """What a compiled run depends on besides shapes."""

    method: str
    mesh: jax.sharding.Mesh | None
    block_size: int | None
    want_counts: bool = False
    trial_batch: int | None = None


@functools.lru_cache(maxsize=1024)
def _build_cached(spec):
    return spec.build()


def build_params(protocol: Any) -> Any:
    """The params of a spec, built once; params as they are."""
    if hasattr(protocol, "build"):
        return _build_cached(protocol)
    if hasattr(protocol, "from_bits") or hasattr(protocol, "play"):
        return protocol
    raise TypeError(
        f"protocol must be a spec such as jaxdp.randomizers.KRR(4, 1.0), or its params, got "
        f"{protocol!r}."
    )


def prepare(protocol: Any, population: Any, key: Any) -> Any:
    """The params, after every check that can be made before any work."""
    params = build_params(protocol)
    if not isinstance(population, Population):
        raise TypeError(
            f"population must be a jaxdp.Population, got {type(population).__name__}; make one "
            "with Population.from_values, from_histogram or from_distribution."
        )
    check_key(key)
    if hasattr(protocol, "check_population") and not is_traced(population):
        with jax.ensure_compile_time_eval():  # concrete users are checked inside jit too
            protocol.check_population(population)
    return params


def configure(params, population, method, mesh, block_size) -> Config:
    """The configuration of a call, its options checked and its method chosen."""
    check_choice("method", method, ("auto", "per_user", "tally"))
    if mesh is not None and not isinstance(mesh, jax.sharding.Mesh):
        raise TypeError(f"mesh must be a jax.sharding.Mesh or None, got {mesh!r}.")
    can = hasattr(params, "sample_tally")
    if method == "tally" and not can:
        raise ValueError(
            f"method='tally' needs the law of the tally, which {type(params).__name__} does not "
            "have; use method='per_user'."
        )
    num_words = getattr(params, "num_words", 1)
    check_block_size(block_size, num_words)
    concrete = not is_traced(population.size)
    if method == "auto":
        method = "per_user"
        if can:
            bins = population.num_values or population.source.rows or 1
            users = population.num_users if concrete else 2**31
            by_tally = getattr(params, "tally_cost", lambda n, k: 0.0)(users, bins)
            method = "tally" if by_tally < users * num_words * _PER_USER_COST else "per_user"
    if method == "per_user" and concrete:
        check_num_users(population.num_users, num_words, block_size)
    return Config(method, mesh, block_size)


def default_batch(params, population, config: Config) -> int:
    """Trials to run side by side: as many as fill a core's cache on CPU, and more on a GPU."""
    if config.mesh is not None:
        return 1
    if config.method == "tally":
        work = max(population.num_values or population.source.rows or 1, 1)
    else:
        work = population.num_users * max(getattr(params, "num_words", 1), 1)
    room = _VMAP_BELOW if jax.default_backend() == "cpu" else _VMAP_BELOW * 64
    return max(room // work, 1)
