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
from jaxdp.engine._config import for_trials
from jaxdp.pairwise import PairKernel, TwoRound
from jaxdp_kernels.fwht import fwht

from ._device import compile_for, mesh_of
from ._engine import configured
from ._program import Measured, measure


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

KRR = randomizers.KRR(256, 1.0)
KEY = jax.eval_shape(lambda: jax.random.key(0))


def _abstract(*shape: int, num_values: int | None = None) -> jaxdp.Population:
    """An array of users by its shape: of numbers or vectors, or of one of some values each."""
    values = jax.ShapeDtypeStruct(shape, np.float32 if num_values is None else np.int32)
    make = functools.partial(jaxdp.Population.from_values, num_values=num_values)
    return jax.eval_shape(make, values)


def _users(kind: str, num_values: int, number: int) -> jaxdp.Population:
    if kind == "array":
        return _abstract(number, num_values=num_values)
    if kind == "histogram":
        return jaxdp.Population.from_histogram(np.full(num_values, number // num_values))
    return jaxdp.Population.from_distribution(np.full(num_values, 1 / num_values), number)


def _run(spec: Any, users: jaxdp.Population, number: int, platform: str, mesh: Any = None) -> Call:
    """`jaxdp.run` user by user, without its estimate, which is a program of its own."""
    users, config = configured(users, platform, "per_user", mesh)
    arguments = (engine.build_params(spec), users, KEY)
    share = number // (1 if mesh is None else mesh.size)
    return Call(engine._play_compiled, arguments, {"config": config}, share, mesh)


def _draw(spec: Any, users: jaxdp.Population, platform: str) -> Call:
    """`jaxdp.run` with a tally that is drawn at once."""
    users, config = configured(users, platform, "tally")
    arguments = (engine.build_params(spec), users, KEY)
    return Call(engine._play_compiled, arguments, {"config": config})


@functools.partial(jax.jit, static_argnames="config")
def _simulate(params, population, key, trials, config):
    """Both programs of a simulation, one after the other."""
    outcomes, _ = engine._play_trials(params, population, key, trials, config)
    return engine._finish_trials(params, (None, None), outcomes, None, config)


def _trials(
    spec: Any,
    users: jaxdp.Population,
    method: str,
    number: int,
    platform: str,
    mesh: jax.sharding.Mesh | None = None,
) -> Call:
    """`jaxdp.simulate`, as many trials as one call plays."""
    params = engine.build_params(spec)
    users, config = configured(users, platform, method, mesh)
    config = for_trials(config, params, users)
    arguments = (params, users, KEY, np.arange(number, dtype=np.uint32))
    return Call(_simulate, arguments, {"config": config}, where=mesh)


def _per_user(spec: Any, kind: str = "array", num_values: int = 0, number: int = 2**26) -> Program:
    values = num_values or spec.num_values
    return lambda platform: _run(spec, _users(kind, values, number), number, platform)


def _vectors(spec: Any) -> Program:
    number = 2**22
    return lambda platform: _run(spec, _abstract(number, spec.dim), number, platform)


def _laplace(platform: str) -> Call:
    return _run(randomizers.Laplace(1.0), _abstract(2**26), 2**26, platform)


def _rounds(platform: str) -> Call:
    spec = TwoRound(PairKernel.from_matrix(1.0 - np.eye(8)), 1.0)
    return _run(spec, _users("array", 8, 2**24), 2**24, platform)


def _user_mesh(platform: str) -> Call:
    mesh = mesh_of(platform, 4, names=("users",))
    return _run(KRR, _users("array", 256, 2**28), 2**28, platform, mesh)


def _trial_mesh(platform: str) -> Call:
    mesh = mesh_of(platform, 4, names=("trials",))
    users = jaxdp.Population.from_values(np.zeros(2**16, np.int32), num_values=256)
    return _trials(KRR, users, "per_user", 64, platform, mesh)


def _tally(platform: str) -> Call:
    return _draw(KRR, _users("histogram", 256, 2**40), platform)


def _vector_tally(platform: str) -> Call:
    values = np.eye(256, 64, dtype=np.float32)
    vectors = jaxdp.Population.from_histogram(np.full(256, 2**30), values)
    return _draw(randomizers.PrivUnitG(64, 1.0), vectors, platform)


def _tally_trials(platform: str) -> Call:
    users = _users("histogram", 16, 2**40)
    return _trials(randomizers.KRR(16, 1.0), users, "tally", 1000, platform)


def _fwht(platform: str) -> Call:
    del platform
    return Call(jax.jit(fwht), (np.zeros((1024, 4096), np.float32),), x64=False)


def _gamma2(platform: str) -> Call:
    del platform
    return Call(jax.jit(factorization.gamma2), (np.zeros((64, 64)),))


def _projected_gradient(platform: str) -> Call:
    del platform
    search = functools.partial(factorization.projected_gradient, rank=64, alpha=0.3)
    return Call(jax.jit(search), (np.zeros((256, 256)),))


def _simplex(platform: str) -> Call:
    del platform
    return Call(jax.jit(projections.simplex), (np.zeros((1024, 256), np.float32),), x64=False)


PROGRAMS: dict[str, Program] = {
    "KRR 256, array": _per_user(KRR),
    "KRR 256, histogram": _per_user(KRR, "histogram"),
    "KRR 256, distribution": _per_user(KRR, "distribution"),
    "UnaryEncoding 128": _per_user(randomizers.UnaryEncoding(128, 1.0), number=2**22),
    "SubsetSelection 128": _per_user(randomizers.SubsetSelection(128, 1.0), number=2**22),
    "LocalHashing 128": _per_user(randomizers.LocalHashing(128, 1.0)),
    "HadamardResponse 256": _per_user(randomizers.HadamardResponse(256, 1.0)),
    "DiscreteLaplace 128": _per_user(randomizers.DiscreteLaplace(0, 127, 1.0), num_values=128),
    "Gaussian 64": _vectors(randomizers.Gaussian(64, 1.0, 1e-6)),
    "PrivUnitG 64": _vectors(randomizers.PrivUnitG(64, 1.0)),
    "Laplace": _laplace,
    "TwoRound 8": _rounds,
    "KRR 256, users on 4": _user_mesh,
    "KRR 256, trials on 4": _trial_mesh,
    "KRR 256, tally": _tally,
    "PrivUnitG 64, tally": _vector_tally,
    "KRR 16, 1,000 tallies": _tally_trials,
    "fwht 4096": _fwht,
    "gamma2 64": _gamma2,
    "projected_gradient 256": _projected_gradient,
    "simplex 256": _simplex,
}
"""By the names that the budgets use."""


def measured(name: str, platform: str) -> Measured:
    """What a program does on a platform."""
    call = PROGRAMS[name](platform)
    with jax.enable_x64(call.x64):
        compiled = compile_for(
            platform, call.function, *call.arguments, where=call.where, **call.static
        )
    return measure(compiled, call.num_users)
