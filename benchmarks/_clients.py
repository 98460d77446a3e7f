"""The clients of other libraries, as they are released: one report at a time, to be enumerated.

Each entry of `LIBRARIES` is a function that imports its library and lists its clients, so that one
that is not installed raises an ImportError and leaves the others alone.
"""

import dataclasses
import importlib
import itertools
import types
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from jaxdp.audit import exact_epsilon
from jaxdp.randomizers import (
    KRR,
    AffineHashing,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    ProjectiveGeometryResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)

from ._plays import Draws, hashable, replaced


@dataclasses.dataclass(frozen=True)
class Client:
    """A client at one claim.

    Attributes:
      report: one report of an input, which draws from `random`, `numpy.random` or `owners`.
      inputs: the inputs that are compared.
      modules: whose Numba functions are played as Python.
      owners: what has a generator of its own, `rng`.
      neighbours: which pairs of inputs count, by their indices; None for all.
    """

    report: Callable[[Any], Any]
    inputs: Sequence[Any]
    modules: Sequence[types.ModuleType] = ()
    owners: Sequence[object] = ()
    neighbours: Iterable[tuple[int, int]] | None = None

    def exact_epsilon(self) -> float:
        """The largest log ratio of two probabilities, over all that the client can do."""
        draws = Draws()
        with replaced(draws, self.modules, self.owners):
            found = [draws.channel(lambda x=x: hashable(self.report(x))) for x in self.inputs]
        reports = list(dict.fromkeys(itertools.chain(*found)))
        rows = [[row.get(report, Fraction(0)) for report in reports] for row in found]
        if self.neighbours is None:
            return exact_epsilon(rows)
        return max(exact_epsilon([rows[i], rows[j]]) for i, j in self.neighbours)


Listed = list[tuple[str, str, Callable[[float], Client]]]
"""What a client is called, its domain, and the client by the epsilon that is claimed."""


def same(value: Any) -> Any:
    """The value: pure-ldp counts inputs from 1 unless it is told how to number them."""
    return value


def pure_ldp() -> Listed:
    """pure-ldp: the clients of its frequency oracles that draw from finite sets."""
    oracles = importlib.import_module("pure_ldp.frequency_oracles")
    hashed = importlib.import_module("pure_ldp.core").generate_hash

    def direct(epsilon: float) -> Client:
        return Client(oracles.DEClient(epsilon, 5, index_mapper=same).privatise, range(5))

    def unary(optimal: bool) -> Callable[[float], Client]:
        def make(epsilon: float) -> Client:
            client = oracles.UEClient(epsilon, 5, use_oue=optimal, index_mapper=same)
            return Client(client.privatise, range(5))

        return make

    def hashing(fast: bool) -> Callable[[float], Client]:
        def make(epsilon: float) -> Client:
            options: dict[str, Any] = dict(use_olh=True, index_mapper=same)
            kind, number = (oracles.FastLHClient, {"k": 50}) if fast else (oracles.LHClient, {})
            return Client(kind(epsilon, 4, **number, **options).privatise, range(4))

        return make

    def hadamard(epsilon: float) -> Client:
        permutation = list(range(5))
        client = oracles.HadamardResponseClient(epsilon, 5, permutation, index_mapper=same)
        return Client(client.privatise, range(5))

    def hadamard_mechanism(typed: bool) -> Callable[[float], Client]:
        def make(epsilon: float) -> Client:
            client = oracles.HadamardMechClient(epsilon, 8, 2, index_mapper=same)

            def report(value: int) -> Any:
                sent = client.privatise(value)
                return (type(sent).__name__, sent) if typed else sent

            return Client(report, range(4))

        return make

    def sketch(transformed: bool) -> Callable[[float], Client]:
        def make(epsilon: float) -> Client:
            functions = [hashed(8, seed) for seed in range(2)]
            client = oracles.CMSClient(epsilon, functions, 8, is_hadamard=transformed)
            return Client(client.privatise, range(4))

        return make

    def count_sketch(epsilon: float) -> Client:
        functions = [(hashed(6, seed), hashed(2, seed)) for seed in range(2)]
        return Client(oracles.PCSClient(epsilon, 2, 6, functions).privatise, range(4))

    def sketch_response(epsilon: float) -> Client:
        functions = [hashed(8, seed) for seed in range(2)]
        client = oracles.SketchResponseClient(epsilon, 8, functions, index_mapper=same, lh_k=20)
        return Client(client.privatise, range(4))

    return [
        ("DEClient", "d = 5", direct),
        ("UEClient", "d = 5", unary(False)),
        ("UEClient, use_oue", "d = 5", unary(True)),
        ("LHClient, use_olh", "4 values, 16 seeds", hashing(False)),
        ("FastLHClient, use_olh", "4 values, k = 50", hashing(True)),
        ("HadamardResponseClient", "d = 5", hadamard),
        ("HadamardMechClient", "4 values, d = 8, t = 2", hadamard_mechanism(False)),
        ("HadamardMechClient, with the type", "4 values, d = 8, t = 2", hadamard_mechanism(True)),
        ("CMSClient", "4 values, m = 8", sketch(False)),
        ("CMSClient, is_hadamard", "4 values, m = 8", sketch(True)),
        ("PCSClient", "4 values, w = 6", count_sketch),
        ("SketchResponseClient", "4 values, m = 8", sketch_response),
        *(
            (f"RAPPORClient, k = {number}", "2 values, m = 6", _rappor(oracles, hashed, number))
            for number in (1, 2)
        ),
    ]


def _rappor(oracles: Any, hashed: Any, number: int) -> Callable[[float], Client]:
    """RAPPOR with f from its own `convert_eps_to_f`, and this many hash functions."""

    def make(epsilon: float) -> Client:
        f = oracles.RAPPORClient.convert_eps_to_f(None, epsilon)
        functions = [hashed(6, seed) for seed in range(number)]

        def bits(value: int) -> frozenset[int]:
            return frozenset(function(str(value)) for function in functions)

        # two values that set different bits, as many as there are
        values = next(
            pair
            for pair in itertools.combinations(range(1000), 2)
            if len(bits(pair[0]) | bits(pair[1])) == 2 * number
        )
        client = oracles.RAPPORClient(f, 6, [functions], num_of_cohorts=1, index_mapper=same)
        return Client(client.privatise, values)

    return make


def multi_freq_ldpy() -> Listed:
    """multi-freq-ldpy: single attributes, single reports of longitudinal protocols, and tuples."""
    single = "multi_freq_ldpy.pure_frequency_oracles"
    names = ("GRR", "UE", "SS", "LH")
    grr, ue, ss, lh = (importlib.import_module(f"{single}.{name}") for name in names)

    def plain(module: Any, k: int, read: Callable = same, **options: Any) -> Any:
        name = f"{module.__name__.rsplit('.', 1)[-1]}_Client"

        def make(epsilon: float) -> Client:
            return Client(
                lambda x: read(getattr(module, name)(x, k, epsilon, **options)), range(k), [module]
            )

        return make

    def first(report: np.ndarray) -> Any:
        return report[0]

    def longitudinal(name: str) -> Callable[[float], Client]:
        module = importlib.import_module(f"multi_freq_ldpy.long_freq_est.{name}")

        def make(epsilon: float) -> Client:
            def report(x: int) -> Any:
                return getattr(module, f"{name}_Client")(x, 3, 2 * epsilon, epsilon)

            return Client(report, range(3), [module])

        return make

    tuples = importlib.import_module("multi_freq_ldpy.mdim_freq_est.RSpFD_solution")
    users = list(itertools.product(range(2), repeat=2))
    one_differs = [
        (i, j)
        for i, j in itertools.combinations(range(len(users)), 2)
        if sum(a != b for a, b in zip(users[i], users[j], strict=True)) == 1
    ]

    def several(name: str, every: bool) -> Callable[[float], Client]:
        def make(epsilon: float) -> Client:
            def report(x: tuple[int, ...]) -> Any:
                return getattr(tuples, f"{name}_Client")(x, [2, 2], 2, epsilon)

            return Client(report, users, [tuples], (), None if every else one_differs)

        return make

    return [
        ("GRR_Client", "k = 5", plain(grr, 5)),
        ("UE_Client, optimal=False", "k = 5", plain(ue, 5, optimal=False)),
        ("UE_Client", "k = 5", plain(ue, 5)),
        ("LH_Client", "k = 4, 16 seeds", plain(lh, 4)),
        ("SS_Client, as a list", "k = 7", plain(ss, 7)),
        ("SS_Client, first entry", "k = 7", plain(ss, 7, first)),
        ("SS_Client, as a set", "k = 7", plain(ss, 7, np.sort)),
        *(
            (f"{name}_Client, one report (eps_1)", "k = 3", longitudinal(name))
            for name in ("L_GRR", "L_SUE", "L_OUE", "L_OSUE", "L_SOUE")
        ),
        *(
            (f"{name}_Client, {which}", "k = 2, 2", several(name, every))
            for name in ("RSpFD_GRR", "RSpFD_UE_zero", "RSpFD_UE_rnd")
            for which, every in (("one attribute differs", False), ("all differ", True))
        ),
    ]


def sok_ldp_analysis() -> Listed:
    """sok_ldp_analysis: its frequency oracles, which answer for many users at once."""
    folder = "sok_ldp_analysis.ldp.distribution.frequency"

    def oracle(module: str, name: str, size: int, others: int = 0) -> Callable[[float], Client]:
        kind = getattr(importlib.import_module(f"{folder}.{module}"), name)

        def make(epsilon: float) -> Client:
            made = kind(epsilon, size)

            def last(value: int) -> Any:
                response = made.response(np.array([0] * others + [value]))
                if isinstance(response, tuple):
                    return tuple(part[-1] for part in response)
                return response[-1]

            return Client(last, range(size), owners=[made])

        return make

    return [
        ("DRandomizedResponse", "d = 5", oracle("d_randomized_response", "DRandomizedResponse", 5)),
        ("Duchi2013", "d = 5", oracle("duchi2013", "Duchi2013", 5)),
        ("KSubset", "d = 7", oracle("k_subset", "KSubset", 7)),
        ("Nguyen2016FO, third user", "d = 4", oracle("nguyen2016", "Nguyen2016FO", 4, others=2)),
    ]


OURS: dict[str, Callable[[float], Any]] = {
    "KRR": lambda epsilon: KRR(100, epsilon),
    "SubsetSelection": lambda epsilon: SubsetSelection(100, epsilon),
    "UnaryEncoding": lambda epsilon: UnaryEncoding(100, epsilon),
    "UnaryEncoding, symmetric": lambda epsilon: UnaryEncoding(100, epsilon, kind="symmetric"),
    "Rappor": lambda epsilon: Rappor(100, epsilon, num_bits=16),
    "LocalHashing": lambda epsilon: LocalHashing(100, epsilon),
    "AffineHashing": lambda epsilon: AffineHashing(100, epsilon),
    "HadamardResponse": lambda epsilon: HadamardResponse(100, epsilon),
    "HadamardBit": lambda epsilon: HadamardBit(100, epsilon),
    "ProjectiveGeometryResponse": lambda epsilon: ProjectiveGeometryResponse(100, epsilon),
}
"""This package's own, whose channels `exact_epsilon` knows, compared with what their code does."""

LIBRARIES: dict[str, Callable[[], Listed]] = {
    "pure-ldp": pure_ldp,
    "multi-freq-ldpy": multi_freq_ldpy,
    "sok_ldp_analysis": sok_ldp_analysis,
}
