"""The programs whose speed matters most."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import jaxdp
from jaxdp import factorization, projections, randomizers
from jaxdp.engine import _simulate as engine
from jaxdp_kernels.fwht import fwht

from ._device import compile_for, mesh_of
from ._program import Measured, measure

ENGINE = {"cuda": "gpu", "tpu": "tpu"}
"""What a configuration of the engine calls a platform."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A call to be compiled.

    Attributes:
      function: jitted.
      arguments: its arguments; their shapes matter.
      static: its static arguments.
      num_users: whom one device serves in one run of every round; 0 if users are not streamed.
      where: the mesh; None for one device.
      x64: whether it runs in float64.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    static: dict[str, Any] = dataclasses.field(default_factory=dict)
    num_users: int = 0
    where: jax.sharding.Mesh | None = None
    x64: bool = True


Program = Callable[[str], Call]
"""A call to be compiled for a platform."""

KEY = jax.eval_shape(lambda: jax.random.key(0))


def _users(kind: str, num_values: int, log_users: int) -> jaxdp.Population:
    number = 2**log_users
    if kind == "array":
        return jaxdp.Population.from_values(np.zeros(number, np.int32), num_values=num_values)
    if kind == "histogram":
        return jaxdp.Population.from_histogram(np.full(num_values, number // num_values))
    return jaxdp.Population.from_distribution(np.full(num_values, 1 / num_values), number)


def _configured(params, population, method: str, mesh, platform: str, **changes: Any):
    config = engine.configure(params, population, method, mesh, None)
    if "platform" in {field.name for field in dataclasses.fields(config)}:
        changes["platform"] = ENGINE[platform]
    return dataclasses.replace(config, **changes)


def _run(
    spec: Any, population: jaxdp.Population, method: str, platform: str, mesh: Any = None
) -> Call:
    """`jaxdp.run` without its estimate, which is a program of its own."""
    params = engine.build_params(spec)
    config = _configured(params, population, method, mesh, platform)
    share = population.num_users // (1 if mesh is None else mesh.size)
    num_users = share if method == "per_user" else 0
    arguments = (params, population, KEY)
    return Call(engine._play_compiled, arguments, {"config": config}, num_users, mesh)


def _trials(
    spec: Any, population: jaxdp.Population, method: str, number: int, platform: str, mesh: Any
) -> Call:
    """`jaxdp.simulate`, as many trials as one call plays, without their estimates."""
    params = engine.build_params(spec)
    config = _configured(params, population, method, mesh, platform)
    batch = engine.default_batch(params, population, config)
    config = dataclasses.replace(config, trial_batch=batch)
    trials = np.arange(number, dtype=np.uint32)
    arguments = (params, population, KEY, trials)
    return Call(engine._play_trials, arguments, {"config": config}, where=mesh)


def _per_user(spec: Any, kind: str = "array", num_values: int = 0, log_users: int = 24) -> Program:
    values = num_values or spec.num_values
    return lambda platform: _run(spec, _users(kind, values, log_users), "per_user", platform)


def _vectors(spec: Any) -> Program:
    vectors = jaxdp.Population.from_values(np.zeros((2**20, spec.dim), np.float32))
    return lambda platform: _run(spec, vectors, "per_user", platform)


def _laplace(platform: str) -> Call:
    numbers = jaxdp.Population.from_values(np.zeros(2**24, np.float32))
    return _run(randomizers.Laplace(1.0), numbers, "per_user", platform)


def _tally(platform: str) -> Call:
    return _run(randomizers.KRR(256, 1.0), _users("histogram", 256, 40), "tally", platform)


def _tally_trials(platform: str) -> Call:
    users = _users("histogram", 16, 40)
    return _trials(randomizers.KRR(16, 1.0), users, "tally", 1000, platform, None)


def _rounds(platform: str) -> Call:
    spec = jaxdp.pairwise.TwoRound(1.0 - np.eye(8), 1.0)
    return _run(spec, _users("array", 8, 22), "per_user", platform)


def _fwht(platform: str) -> Call:
    del platform
    return Call(jax.jit(fwht), (np.zeros((1024, 4096), np.float32),), x64=False)


def _gamma2(platform: str) -> Call:
    del platform
    return Call(jax.jit(factorization.gamma2), (np.zeros((64, 64)),))


def _projection(platform: str) -> Call:
    del platform
    return Call(jax.jit(projections.simplex), (np.zeros((1024, 256), np.float32),), x64=False)


def _user_mesh(platform: str) -> Call:
    mesh = mesh_of(platform, 4, names=("users",))
    return _run(randomizers.KRR(256, 1.0), _users("array", 256, 24), "per_user", platform, mesh)


def _trial_mesh(platform: str) -> Call:
    mesh = mesh_of(platform, 4, names=("trials",))
    users = _users("array", 256, 16)
    return _trials(randomizers.KRR(256, 1.0), users, "per_user", 64, platform, mesh)


PROGRAMS: dict[str, Program] = {
    "KRR 256, array": _per_user(randomizers.KRR(256, 1.0)),
    "KRR 256, histogram": _per_user(randomizers.KRR(256, 1.0), "histogram"),
    "KRR 256, distribution": _per_user(randomizers.KRR(256, 1.0), "distribution"),
    "UnaryEncoding 128": _per_user(randomizers.UnaryEncoding(128, 1.0), log_users=22),
    "SubsetSelection 128": _per_user(randomizers.SubsetSelection(128, 1.0), log_users=22),
    "LocalHashing 128": _per_user(randomizers.LocalHashing(128, 1.0), log_users=22),
    "HadamardResponse 256": _per_user(randomizers.HadamardResponse(256, 1.0)),
    "DiscreteLaplace 128": _per_user(randomizers.DiscreteLaplace(0, 127, 1.0), num_values=128),
    "Gaussian 64": _vectors(randomizers.Gaussian(64, 1.0, 1e-6)),
    "PrivUnitG 64": _vectors(randomizers.PrivUnitG(64, 1.0)),
    "Laplace": _laplace,
    "TwoRound 8": _rounds,
    "KRR 256, tally": _tally,
    "KRR 16, 1,000 tallies": _tally_trials,
    "KRR 256, users on 4": _user_mesh,
    "KRR 256, trials on 4": _trial_mesh,
    "fwht 4096": _fwht,
    "gamma2 64": _gamma2,
    "simplex 256": _projection,
}


@functools.cache
def measured(name: str, platform: str) -> Measured:
    """What a program does on a platform."""
    call = PROGRAMS[name](platform)
    with jax.enable_x64(call.x64):
        compiled, seconds = compile_for(
            platform, call.function, *call.arguments, where=call.where, **call.static
        )
    return measure(compiled, platform, seconds, call.num_users)
