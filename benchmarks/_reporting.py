"""Clients that cannot be enumerated, or are compiled, as makers of many reports of one input.

Each entry of `LIBRARIES` takes a relative excess, 0 for the clients as they are. With another one
they are run at an epsilon that is larger by it, and still claim the smaller one: an audit that does
not find this out would not have found out anything of its size.
"""

import dataclasses
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxdp.audit import AuditReport, estimate_epsilon_from_reports, reports_needed
from jaxdp.randomizers import KRR, DiscreteLaplace, SubsetSelection
from jaxdp.reports import Client, Collection

EXCESS = 0.05  # of a claim, which the audits are to show
NUM_TESTS = 80  # statistics of a vector's entries, for two orders of two inputs


@dataclasses.dataclass(frozen=True)
class Reporting:
    """A client at one claim, for two inputs.

    Attributes:
      library: its name on PyPI.
      name: what is called.
      domain: of its inputs.
      epsilon: the claim.
      probability: of an event that is e**-epsilon times as likely under the other input, if the
        client is what it says.
      reports: reports of an input, given how many.
      inputs: the two.
      statistics: of reports, beside those of their entries.
    """

    library: str
    name: str
    domain: str
    epsilon: float
    probability: float
    reports: Callable[[Any, int], Any]
    inputs: tuple[Any, Any] = (0, 1)
    statistics: Sequence[Callable] = ()

    def audit(self, size: int | None = None) -> AuditReport:
        """The audit, by as many reports as show `EXCESS` with a power of 0.99."""
        if size is None:
            size = reports_needed(
                self.epsilon, self.probability, excess=EXCESS, num_tests=NUM_TESTS
            )
        reports = {x: self.reports(x, size) for x in self.inputs}
        return estimate_epsilon_from_reports(reports, self.epsilon, statistics=self.statistics)


def entries(reports: np.ndarray) -> np.ndarray:
    """The entry of the first input minus that of the second."""
    return 1.0 * reports[:, 0] - reports[:, 1]


def one_by_one(report: Callable[[Any], Any]) -> Callable[[Any, int], list[Any]]:
    """Many reports by a function that makes one."""
    return lambda value, size: [report(value) for _ in range(size)]


def multi_freq_ldpy(excess: float = 0.0) -> list[Reporting]:
    """The compiled clients of multi-freq-ldpy."""
    numba = importlib.import_module("numba")
    xxhash = importlib.import_module("xxhash")
    folder = "multi_freq_ldpy.pure_frequency_oracles"
    grr, ue, ss, lh, he = (
        getattr(importlib.import_module(f"{folder}.{name}"), f"{name}_Client")
        for name in ("GRR", "UE", "SS", "LH", "HE")
    )

    def rows(client: Callable, k: int, epsilon: float, dtype: Any) -> Callable[[int, int], Any]:
        """Reports as rows, by a compiled loop."""

        @numba.njit
        def fill(value, out):
            for i in range(len(out)):
                out[i] = client(value, k, epsilon)

        def reports(value: int, size: int) -> np.ndarray:
            width = np.size(client(value, k, epsilon))
            out = np.empty(size if client is grr else (size, width), dtype)
            fill(value, out)
            return out

        return reports

    spent = 1.0 + excess
    lists = rows(ss, 100, spent, np.int8)
    buckets = round(math.e) + 1

    def agrees(reports: np.ndarray) -> np.ndarray:
        """Whether the bucket is the one of the first input, minus whether of the second."""

        def bucket(value: int) -> np.ndarray:
            hashes = [xxhash.xxh32(str(value), seed=s).intdigest() for s in reports[:, 1].tolist()]
            return np.array(hashes) % buckets

        return 1.0 * (reports[:, 0] == bucket(0)) - (reports[:, 0] == bucket(1))

    def holds(reports: np.ndarray) -> np.ndarray:
        """Whether the first input is in the set, minus whether the second is."""
        return 1.0 * (reports == 0).any(axis=1) - (reports == 1).any(axis=1)

    def later(reports: np.ndarray) -> np.ndarray:
        """Whether the first input is in a place behind the first, minus whether the second is."""
        return holds(reports[:, 1:])

    def hashing(value: int, size: int) -> np.ndarray:
        return np.array([lh(value, 100, spent) for _ in range(size)])

    truthful = 27 * math.e / (27 * math.e + 73)  # that a set of 27 of 100 holds the value
    only = truthful * 73 / 99  # that it holds the value, and not the other one
    mine = math.e / (1 + math.e)
    both = mine * (1 - 1 / buckets)  # that a bucket is of the value, and not of the other one
    library = "multi-freq-ldpy"
    return [
        Reporting(
            library,
            "GRR_Client",
            "k = 16",
            1.0,
            math.e / (math.e + 15),
            rows(grr, 16, spent, np.int8),
        ),
        Reporting(
            library,
            "UE_Client",
            "k = 16",
            1.0,
            mine / 2,
            rows(ue, 16, spent, np.int8),
            statistics=(entries,),
        ),
        Reporting(
            library, "SS_Client, as a list", "k = 100", 1.0, only, lists, statistics=(later,)
        ),
        Reporting(
            library, "SS_Client, first entry", "k = 100", 1.0, only, lambda x, n: lists(x, n)[:, 0]
        ),
        Reporting(
            library,
            "SS_Client, as a set",
            "k = 100",
            1.0,
            only,
            lambda x, n: np.sort(lists(x, n), axis=1),
            statistics=(holds,),
        ),
        Reporting(library, "LH_Client", "k = 100", 1.0, both / 2, hashing, statistics=(agrees,)),
        Reporting(
            library,
            "HE_Client",
            "k = 4",
            1.0,
            0.25,
            rows(he, 4, spent, np.float64),
            statistics=(entries,),
        ),
    ]


def pure_ldp(excess: float = 0.0) -> list[Reporting]:
    """The client of pure-ldp whose reports are floats, and RAPPOR with a filter of 16 bits."""
    oracles = importlib.import_module("pure_ldp.frequency_oracles")
    hashed = importlib.import_module("pure_ldp.core").generate_hash(16, 0)
    histogram = oracles.HEClient(1.0 + excess, 4, index_mapper=lambda x: x)
    f = oracles.RAPPORClient.convert_eps_to_f(None, 1.0 + excess)
    rappor = oracles.RAPPORClient(f, 16, [[hashed]], num_of_cohorts=1, index_mapper=lambda x: x)

    def noisy(value: int, size: int) -> np.ndarray:
        return np.array([histogram.privatise(value) for _ in range(size)])

    def filters(value: int, size: int) -> np.ndarray:
        return np.array([rappor.privatise(value)[0] for _ in range(size)], np.int8)

    kept = (1 - f / 2) ** 2  # that the bits of both inputs are as they were
    return [
        Reporting("pure-ldp", "HEClient", "d = 4", 1.0, 0.25, noisy, statistics=(entries,)),
        Reporting("pure-ldp", "RAPPORClient, k = 1", "m = 16", 1.0, kept, filters),
    ]


def sok_ldp_analysis(excess: float = 0.0) -> list[Reporting]:
    """The frequency oracle of sok_ldp_analysis that randomizes many users together."""
    folder = "sok_ldp_analysis.ldp.distribution.frequency"
    nguyen = importlib.import_module(f"{folder}.nguyen2016").Nguyen2016FO(1.0 + excess, 4)

    def signs(value: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        rows, numbers = nguyen.response(np.full(size, value))
        return rows, np.sign(numbers).astype(int)

    return [
        Reporting("sok_ldp_analysis", "Nguyen2016FO, many users", "d = 4", 1.0, 0.18, signs),
    ]


def opendp(excess: float = 0.0) -> list[Reporting]:
    """OpenDP's randomized response of values and of bits, and noise; claims are its own."""
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    more = 1 + excess
    e = math.exp(2 * more)
    values = dp.m.make_randomized_response(list(range(4)), e / (e + 3))
    flag = dp.m.make_randomized_response_bool(e / (e + 1))
    f = 2 / (math.exp(more) + 1)  # a bit is wrong with half that probability
    bits = dp.m.make_randomized_response_bitvec(
        dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=f
    )
    floats = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    laplace = dp.m.make_laplace(*floats, scale=1 / more)
    integers = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    geometric = dp.m.make_geometric(*integers, scale=1 / more)

    def one_hot(value: int, size: int) -> np.ndarray:
        sent = np.packbits(np.arange(8) == value).tobytes()
        packed = np.array([list(bits(sent)) for _ in range(size)], np.uint8)
        return np.unpackbits(packed, axis=1)

    def noised(measurement: Callable, kind: type) -> Callable[[Any, int], np.ndarray]:
        return lambda value, size: np.array(measurement([kind(value)] * size))

    return [
        Reporting(
            "opendp",
            "make_randomized_response",
            "k = 4",
            values.map(1) / more,
            e / (e + 3),
            one_by_one(values),
        ),
        Reporting(
            "opendp",
            "make_randomized_response_bool",
            "k = 2",
            flag.map(1) / more,
            e / (e + 1),
            one_by_one(flag),
            (False, True),
        ),
        Reporting(
            "opendp",
            "make_randomized_response_bitvec",
            "8 bits",
            bits.map(1) / more,
            (1 - f / 2) ** 2,
            one_hot,
            statistics=(entries,),
        ),
        Reporting(
            "opendp",
            "make_laplace",
            "floats, 1 apart",
            laplace.map(1.0) / more,
            0.5,
            noised(laplace, float),
        ),
        Reporting(
            "opendp",
            "make_geometric",
            "integers, 1 apart",
            geometric.map(1) / more,
            0.73,
            noised(geometric, int),
        ),
    ]


def jaxdp(excess: float = 0.0) -> list[Reporting]:
    """The bytes that this package's client sends, without their header."""

    def sent(spec: Any) -> Callable[[Any, int], np.ndarray]:
        collection = Collection(spec)
        client, header = Client(collection.to_json()), len(collection.header)
        return lambda value, size: client.reports(np.full(size, value))[:, header:]

    spent = 1.0 + excess
    sets, integers = SubsetSelection(8, spent), DiscreteLaplace(0, 4, spent)
    return [
        Reporting("jaxdp", "KRR", "k = 16", 1.0, math.e / (math.e + 15), sent(KRR(16, spent))),
        Reporting("jaxdp", "SubsetSelection", "k = 8", 1.0, 0.39, sent(sets)),
        Reporting("jaxdp", "DiscreteLaplace", "5 integers", 1.0, 0.5, sent(integers), (0, 4)),
    ]


LIBRARIES: dict[str, Callable[[float], list[Reporting]]] = {
    "pure-ldp": pure_ldp,
    "multi-freq-ldpy": multi_freq_ldpy,
    "opendp": opendp,
    "sok_ldp_analysis": sok_ldp_analysis,
    "jaxdp": jaxdp,
}
