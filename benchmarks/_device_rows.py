"""The rows of `benchmarks.gpu`, part by part: what is measured, the most important first."""

import dataclasses
import functools
import importlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp import factorization, projections, workloads
from jaxdp import randomizers as lib
from jaxdp.pairwise import GiniDiversity, TwoRound
from jaxdp_kernels import OPERATIONS

from . import _randomizers, _timing
from ._device import INPUTS, KEY, Row, Scale, calls, per_user
from ._randomizers import EPSILON, Setting
from .projections import noisy_similarities, polytope_problem
from .throughput import many_users

TRIALS = 2**7  # of the first call of a batch


def hot(scale: Scale) -> list[Row]:
    """The paths of `run` that simulations spend their time on, user by user, and its latency."""
    k, d = scale(128, 4), scale(64, 4)
    first, *larger = (
        Setting(lib.KRR(k, EPSILON), k, bins=True) for k in scale((256, 16, 4096), (4,))
    )
    finite = (
        lib.UnaryEncoding(k, EPSILON),
        lib.HadamardResponse(k, EPSILON),
        lib.SubsetSelection(k, EPSILON),
        lib.LocalHashing(k, EPSILON),
    )
    vectors = (
        lib.Gaussian(d, EPSILON, 1e-6),
        lib.PrivUnitG(d, EPSILON),
        lib.PrivUnit(d, EPSILON),
        lib.L2Ball(d, EPSILON),
    )
    settings = [
        first,
        *(Setting(spec, d, normals=d) for spec in vectors),
        *(Setting(spec, k, bins=True) for spec in finite),
        *larger,
    ]
    return [
        *(per_user(setting, kind, scale) for setting in settings for kind in _kinds(setting)),
        per_user(first, "histogram", scale, rounds=13),
        Row(f"TwoRound({scale(16, 3)}), histogram", functools.partial(_two_round, scale)),
        Row("run of 1,000 users", functools.partial(_latency, scale)),
        *digests({"krr-5", "binary", "laplace", "gaussian", "priv-unit-g"}, "per_user"),
    ]


def _kinds(setting: Setting) -> tuple[str, ...]:
    return ("histogram", "array", "distribution") if setting.bins else ("histogram", "array")


def _two_round(scale: Scale) -> dict[str, Any]:
    """A protocol of two rounds, each over half of the users."""
    k = scale(16, 3)
    params = TwoRound(GiniDiversity(), EPSILON, tau=2.0, num_values=k).build()
    key = jax.random.key(KEY)
    setting = Setting(lib.KRR(k, EPSILON), k, bins=True)

    def prepare(users: int) -> Callable[[], Any]:
        population = setting.histogram(users, INPUTS, 0)
        return functools.partial(jaxdp.run, params, population, key, method="per_user")

    row = scale.slope(prepare, scale(2**18, 128), 2**44)
    return {"unit": "user", **row, "needs": {"words": 1.0}}


def _latency(scale: Scale) -> dict[str, Any]:
    """One call after another, each until its estimate is on the host."""
    params, key = lib.KRR(16, EPSILON).build(), jax.random.key(KEY)
    population = jaxdp.Population.from_histogram(np.bincount(np.arange(1000) % 16))
    run = functools.partial(jaxdp.run, params, population, key, method="per_user")
    return {"unit": "call", **calls(run, (), scale)}


def digests(names: Iterable[str] | None, method: str) -> list[Row]:
    """Whether results for a key have the stored bits, which are those of a CPU.

    Args:
      names: of contract cases; None for all randomizers.
      method: "per_user" or "tally".

    Returns:
      A row for each case that has results by this method.
    """
    from tests.contracts import registry, test_digests

    cases = registry.RANDOMIZERS if names is None else registry.PROTOCOLS
    kept = [case for case in cases if names is None or case.name in names]
    stored = json.loads(test_digests.STORED.read_text())
    kept = [case for case in kept if f"{method}-{case.name}" in stored]

    def measure(case: Any) -> dict[str, Any]:
        def compare() -> str:
            try:
                test_digests.test_results_for_a_key_are_the_stored_ones(case, method)
            except AssertionError as error:
                return " ".join(str(error).split())[:200] or "another tally"
            return ""

        message, times = _timing.first_call(compare)
        return {**times, "equal": not message} | ({"message": message} if message else {})

    return [
        Row(f"bits of {case.name}, {method}", functools.partial(measure, case)) for case in kept
    ]


def kernels(scale: Scale) -> list[Row]:
    """Each implementation: its results against the definition on the CPU, and its time."""
    rows = []
    for operation in OPERATIONS:
        api, specs = (
            importlib.import_module(f"jaxdp_kernels.{operation}.{part}")
            for part in ("api", "arg_specs")
        )
        largest = [
            dataclasses.replace(next(s for s in specs.ARG_SPECS if s.name == like), **changes)
            for name, like, changes in LARGEST[operation]
            for changes in [{"name": name, **changes}]
        ]
        for spec in scale((*largest, *specs.ARG_SPECS), specs.ARG_SPECS[:1]):
            rows += [
                Row(
                    f"{operation}, {spec.name}, {name}",
                    functools.partial(_kernel, operation, name, spec, scale),
                )
                for name in api.IMPLEMENTATIONS
            ]
    return rows


LARGEST: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "fwht": [
        ("2^16 of 2^10", "batch", {"shape": (2**16, 2**10)}),
        ("2^14 of 2^12", "batch", {"shape": (2**14, 2**12)}),
        ("2^12 of 2^14", "middle", {"shape": (2**12, 2**14)}),
        ("2^6 of 2^20", "middle", {"shape": (2**6, 2**20)}),
    ],
    "randomize_and_sum": [
        ("2^22 users of 64 entries", "many users", {"num_users": 2**22}),
        ("2^20 users of 512 entries", "long vectors", {"num_users": 2**20}),
    ],
    "randomize_and_tally": [
        ("2^26 users", "many users", {"num_users": 2**26}),
        ("2^26 users of 16 values", "many users", {"num_users": 2**26, "num_values": 16}),
        ("2^26 users of 4,096 values", "many users", {"num_users": 2**26, "num_values": 4096}),
        ("2^26 users of 16,384 values", "many users", {"num_users": 2**26, "num_values": 2**14}),
        ("2^19 users of 128 bits", "many bits", {"num_users": 2**19}),
    ],
    "standard_normal": [("2^26", "large", {"shape": (2**26,)})],
    "threefry_words": [
        ("2^26 users", "large", {"num_users": 2**26}),
        ("2^19 users of 128 words", "bits", {"num_users": 2**19}),
    ],
}
"""Arguments that fill a device: a name, the name of those that they are like, what differs."""

TIMED_BYTES = 2**20
"""With fewer bytes in and out, or words, the call itself would be timed."""


def _kernel(operation: str, implementation: str, spec: Any, scale: Scale) -> dict[str, Any]:
    """Equality with the definition on the CPU; integers bit for bit, floats to a few roundings."""
    arguments = spec.arguments()
    static = [i for i, x in enumerate(arguments) if isinstance(x, int)]
    api, ref = (
        importlib.import_module(f"jaxdp_kernels.{operation}.{part}") for part in ("api", "ref")
    )
    chosen = functools.partial(getattr(api, operation), implementation=implementation)
    function = jax.jit(chosen, static_argnums=static)
    try:
        found, times = _timing.first_call(lambda: function(*arguments))
    except ValueError as error:
        return {"refused": str(error)}
    cpu = jax.local_devices(backend="cpu")[0]
    define = jax.jit(getattr(ref, f"{operation}_ref"), static_argnums=static)
    expected = define(
        *(x if i in static else jax.device_put(x, cpu) for i, x in enumerate(arguments))
    )
    row = {**times, "equal": equal(found, expected)}
    moved = sum(x.nbytes for x in jax.tree.leaves((arguments, found)) if isinstance(x, jax.Array))
    needs = {"bytes": float(moved)}
    if operation == "threefry_words":
        needs["words"] = float(found.size)
    elif operation in ("randomize_and_sum", "randomize_and_tally"):
        needs["words"] = float(spec.num_users * arguments[0].num_words)
    if max(needs.values()) >= scale(TIMED_BYTES, 0):
        row = {"unit": "call", **calls(function, arguments, scale), **row, "needs": needs}
    return row


def equal(found: Any, expected: Any) -> bool:
    """Whether two pytrees of arrays are equal, floats to a few roundings of the largest entry."""

    def same(a: np.ndarray, b: np.ndarray) -> bool:
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return False
        if a.dtype.kind != "f":
            return np.array_equal(a, b)
        return np.allclose(a, b, rtol=0, atol=1e-5 * np.max(np.abs(b), initial=0))

    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(same(np.asarray(a), np.asarray(b)) for a, b in pairs)


def randomizers(scale: Scale) -> list[Row]:
    """Every randomizer over an array of users, and the bits of each."""
    settings = _randomizers.settings(scale((128, 16), (4,)), scale((64, 1), (4,)))
    rows = [per_user(setting, "array", scale) for setting in settings]
    return [*rows, *digests(None, "per_user")]


def trials(scale: Scale) -> list[Row]:
    """Trials of `simulate`: by tallies, of users one by one, and the bits of every tally."""
    k = scale(1024, 4)
    settings = _randomizers.settings([scale(256, 4)], [scale(64, 4)])
    small = [s for s in settings if s.name in ("KRR", "UnaryEncoding", "Gaussian", "PrivUnitG")]
    lawful = [s for s in settings if s.spec.build().law is not None]
    return [
        Row(f"KRR({k}), 10^12 users, tally", functools.partial(_many_users, k, scale)),
        *(_trials(setting, 10**4, "per_user", scale) for setting in small),
        *(_trials(setting, 10**6, "tally", scale) for setting in lawful),
        *digests(None, "tally"),
    ]


def _many_users(k: int, scale: Scale) -> dict[str, Any]:
    params, population = lib.KRR(k, EPSILON).build(), many_users(k)
    row = _simulated(params, population, "tally", k, scale)
    return row | {"needs": {"words": float(k)}}


def _trials(setting: Setting, users: int, method: str, scale: Scale) -> Row:
    """Trials of a population given by counts; the fewest words are those of users, or of cells."""
    users = scale(users, 100)

    def measure() -> dict[str, Any]:
        params, population = setting.spec.build(), setting.histogram(users, INPUTS, 0)
        cells = setting.size or 1
        draws, what = cells, "words"
        if method == "per_user":
            draws, what = users * setting.draws, "normals" if setting.normals else "words"
        row = _simulated(params, population, method, cells, scale)
        return row | {"needs": {what: float(draws)}}

    size = f"({setting.size})" if setting.size else ""
    return Row(f"{setting.name}{size}, {users:,} users, {method}", measure)


def _simulated(
    params: Any, population: jaxdp.Population, method: Any, cells: int, scale: Scale
) -> dict[str, Any]:
    """A batch of trials, whose estimates of so many cells fit into a host's memory."""
    key = jax.random.key(KEY)

    def prepare(number: int) -> Callable[[], Any]:
        return lambda: (
            jaxdp.simulate(params, population, key, num_trials=number, method=method).estimates
        )

    return {"unit": "trial", **scale.slope(prepare, TRIALS, 2**24 // cells)}


def solvers(scale: Scale) -> list[Row]:
    """Factorizations with their certified gaps: whole calls, compiled before."""

    def row(name: str, sizes: tuple[int, ...], make: Callable[[np.ndarray], Any]) -> list[Row]:
        measure = functools.partial(_solver, make, scale)
        return [Row(f"{name}, prefix sums of {k}", functools.partial(measure, k)) for k in sizes]

    small = scale((256,), (4,))
    return [
        *row("gamma2", scale((64, 256), (4,)), factorization.gamma2),
        *row("gamma_f", small, factorization.gamma_f),
        *row("gamma2_approx", small, lambda w: factorization.gamma2_approx(w, 0.1)),
        *row("zeta", small, lambda w: factorization.zeta(w, weight=2.0)),
        *row(
            "projected_gradient",
            small,
            lambda w: factorization.projected_gradient(w, len(w) // 2, 0.3),
        ),
        *row("gamma2", scale((1024,), ()), factorization.gamma2),
    ]


def _solver(make: Callable[[np.ndarray], Any], scale: Scale, k: int) -> dict[str, Any]:
    """A whole call; each step reads and writes a float64 matrix at the least."""
    matrix = workloads.prefix(k)
    found, row = _whole(lambda: make(matrix), scale)
    gap = float(factorization.certify(matrix, found).gap)
    return row | {"gap": gap, "needs": {"bytes": 16.0 * matrix.size * row["steps"]}}


def _whole(call: Callable[[], Any], scale: Scale) -> tuple[Any, dict[str, Any]]:
    """What an iterative solver finds, and the row of its calls, the first and later ones."""
    found, first = _timing.first_call(call)
    _, seconds, _ = _timing.timed(call, scale(3, 1), first=lambda: None)
    steps = max(int(np.max(found.num_steps)), 1)
    return found, {"unit": "call", "seconds": seconds, **first, "steps": steps}


def projected(scale: Scale) -> list[Row]:
    """Projections of batches, from array to array on the device; the last ones iterate."""
    shapes = scale(((2**16, 16), (1000, 4096), (1, 2**20)), ((3, 4),))
    simple = (projections.simplex, projections.l1_ball, projections.l2_ball)
    n = scale((256, 1024), (4,))
    return [
        *(
            Row(f"{f.__name__}, {a} × {b}", functools.partial(_elementary, f, (a, b), scale))
            for a, b in shapes
            for f in simple
        ),
        *(
            Row(f"{f.__name__}, {scale(1000, 2)} points", functools.partial(_polytope, f, scale))
            for f in (projections.hull, projections.symmetric_polytope)
        ),
        *(Row(f"psd, n = {size}", functools.partial(_psd, size, scale)) for size in n),
        *(Row(f"correlation, n = {s}", functools.partial(_correlation, s, scale)) for s in n),
    ]


def _elementary(project: Callable, shape: tuple[int, int], scale: Scale) -> dict[str, Any]:
    x = jax.random.normal(jax.random.key(KEY), shape, jnp.float32)
    row = calls(jax.jit(project), (x,), scale)  # or what the host checks would be timed
    return {"unit": "call", **row, "needs": {"bytes": 2.0 * x.nbytes}}


def _polytope(project: Callable, scale: Scale) -> dict[str, Any]:
    points, rows, columns = scale((1000, 256, 4096), (2, 4, 8))
    y, a = polytope_problem("normal", 1.0, points, rows, columns)
    found, row = _whole(lambda: project(y, a), scale)
    gap = float(jnp.max(found.gap / jnp.sum(y**2, axis=1)))
    passed = a.nbytes + 8 * points * columns  # in a step: the matrix, the weights in and out
    return row | {"gap": gap, "needs": {"bytes": float(row["steps"] * passed)}}


def _psd(n: int, scale: Scale) -> dict[str, Any]:
    x = jnp.asarray(noisy_similarities(n, 1.0), jnp.float32)
    return {
        "unit": "call",
        **calls(jax.jit(projections.psd), (x,), scale),
        "needs": {"bytes": 8.0 * n * n},
    }


def _correlation(n: int, scale: Scale) -> dict[str, Any]:
    with jax.enable_x64(True):
        x = jnp.asarray(noisy_similarities(n, 1.0))
        found, row = _whole(lambda: projections.correlation(x), scale)
        gap = float(found.gap / jnp.sum(found.point**2))
    return row | {"gap": gap, "needs": {"bytes": 16.0 * n * n * row["steps"]}}


PARTS: dict[str, Callable[[Scale], list[Row]]] = {
    "hot": hot,
    "kernels": kernels,
    "randomizers": randomizers,
    "solvers": solvers,
    "projections": projected,
    "trials": trials,
}
"""By name, what is measured in a part."""
