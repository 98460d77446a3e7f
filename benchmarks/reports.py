"""Real reports: how fast files of them are counted, and how often intervals hold the truth.

    python -m benchmarks.reports                   # all sections, some minutes
    python -m benchmarks.reports --only counting   # one section

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/reports/. Sections that are not run keep their last results. A library that is
not installed, or has no server for the reports, has no number.
"""

import functools
import importlib
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxdp import Population
from jaxdp._contract import Spec
from jaxdp.engine import outcome
from jaxdp.linear import (
    ColumnQueries,
    FactorizedQueries,
    GaussianQueries,
    GramQueries,
    HierarchicalQueries,
    HistogramQuery,
    LaplaceQueries,
    MarginalQueries,
    OptimizedStrategy,
    OracleQueries,
)
from jaxdp.pairwise import (
    BilinearAUC,
    GiniDiversity,
    HierarchicalAUC,
    KendallTau,
    OneReport,
    OracleStatistic,
    QuantizedRR,
    TwoReport,
)
from jaxdp.randomizers import (
    KRR,
    AffineHashing,
    BinaryResponse,
    CandidateResponse,
    DiscreteLaplace,
    FiniteChannel,
    Gaussian,
    HadamardBit,
    HadamardResponse,
    Laplace,
    LocalHashing,
    Memoised,
    Piecewise,
    ProjectiveGeometryResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from jaxdp.reports import Aggregate, Client, Collection
from jaxdp.workloads import prefix

from ._report import RESULTS, Rows, choose_sections

FOLDER = RESULTS / "reports"
NUMBER = 2**24  # reports in a file
OTHERS = ("pure-ldp", "multi-freq-ldpy", "opendp")
LOOP = 20_000  # reports of a library that goes one by one
TRIALS = 10_000
USERS = 20_000


def counting() -> Rows:
    """16.8 million reports of a file, to the estimate; others: 20,000 of theirs from memory."""
    rows = []
    for spec, others in (
        (KRR(16, 1.0), ("direct_encoding", "DE", "GRR")),
        (UnaryEncoding(128, 1.0), ("unary_encoding", "UE", "UE")),
        (HadamardResponse(1024, 1.0), None),
        (Laplace(1.0), None),
    ):
        collection = Collection(spec)
        report = _reports(collection)
        seconds = {name: _count(collection, report, name) for name in ("raw", "parquet")}
        ours = min(seconds.values())
        found = dict.fromkeys(OTHERS, 0.0) if others is None else _others(spec, *others)
        rows.append(
            {
                "randomizer": repr(spec),
                "bytes a report": collection.report_bytes,
                "raw file (10⁶ reports/s)": f"{NUMBER / seconds['raw'] / 1e6:.0f}",
                "Parquet (10⁶ reports/s)": f"{NUMBER / seconds['parquet'] / 1e6:.0f}",
                **{
                    f"{name} / ours": f"{each / (ours / NUMBER):,.0f}" if each else "none"
                    for name, each in found.items()
                },
            }
        )
    return rows


def _reports(collection: Collection) -> np.ndarray:
    """The bytes of many reports, of which each is sent several times."""
    client, rng = Client(collection.to_json()), np.random.default_rng(0)
    bins = collection.params.num_bins
    values = rng.uniform(-1, 1, 2**15) if bins is None else rng.integers(bins, size=2**15)
    return np.tile(client.reports(values), (NUMBER // 2**15, 1))


def _count(collection: Collection, reports: np.ndarray, kind: str) -> float:
    """Seconds of the fastest of five aggregations of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "reports" if kind == "raw" else "reports.parquet")
        if kind == "raw":
            path.write_bytes(reports.tobytes())
        else:
            pyarrow = importlib.import_module("pyarrow")
            parquet = importlib.import_module("pyarrow.parquet")
            width = collection.report_bytes
            buffer = pyarrow.py_buffer(reports.tobytes())
            column = pyarrow.FixedSizeBinaryArray.from_buffers(
                pyarrow.binary(width), len(reports), [None, buffer]
            )
            parquet.write_table(
                pyarrow.table({"report": column}), path, compression="none", use_dictionary=False
            )
        taken = []
        for _ in range(6):  # the first compiles
            aggregate = Aggregate(collection)
            begin = time.perf_counter()
            added = aggregate.add(path)
            aggregate.estimate()
            taken.append(time.perf_counter() - begin)
            assert added.accepted == NUMBER
    return min(taken[1:])


def _others(spec: Any, module: str, pure: str, freq: str) -> dict[str, float]:
    """Seconds a report of the servers of other libraries; 0 of one that is not there."""
    values = np.random.default_rng(0).integers(spec.num_values, size=LOOP).tolist()

    def pure_ldp() -> Callable[[], Any]:
        oracles = importlib.import_module(f"pure_ldp.frequency_oracles.{module}")
        settings = dict(epsilon=spec.epsilon, d=spec.num_values, index_mapper=lambda value: value)
        client = getattr(oracles, f"{pure}Client")(**settings)
        reports = [client.privatise(value) for value in values]

        def count() -> None:
            server = getattr(oracles, f"{pure}Server")(**settings)
            for report in reports:
                server.aggregate(report)
            server.estimate_all(range(spec.num_values), suppress_warnings=True)

        return count

    def multi_freq() -> Callable[[], Any]:
        oracles = importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{freq}")
        more = () if freq == "GRR" else (True,)  # the optimized encoding
        client, server = (getattr(oracles, f"{freq}_{x}") for x in ("Client", "Aggregator_MI"))
        reports = [client(value, spec.num_values, spec.epsilon, *more) for value in values]
        arguments = (spec.num_values,) if freq == "GRR" else ()
        return lambda: server(reports, *arguments, spec.epsilon, *more)

    def opendp() -> Callable[[], Any] | None:
        if freq != "UE":  # the only server that it has is of bits
            return None
        prelude = importlib.import_module("opendp.prelude")
        prelude.enable_features("contrib")
        flip = 2 / (1 + np.exp(spec.epsilon / 2))
        space = prelude.bitvector_domain(max_weight=1), prelude.discrete_distance()
        client = prelude.m.make_randomized_response_bitvec(*space, flip)
        bits = np.packbits(np.eye(spec.num_values, dtype=np.uint8), axis=1)
        reports = [client(bits[value]) for value in values]
        return lambda: prelude.m.debias_randomized_response_bitvec(reports, flip)

    found = {}
    for name, make in zip(OTHERS, (pure_ldp, multi_freq, opendp), strict=True):
        try:
            count = make()
        except ImportError as error:
            print(f"{name}: {error}")
            count = None
        if count is None:
            found[name] = 0.0
            continue
        begin = time.perf_counter()
        count()
        found[name] = (time.perf_counter() - begin) / LOOP
    return found


def coverage() -> Rows:
    """Intervals at 95 %: 10,000 times 20,000 users; best: those of who knows the users."""
    rng = np.random.default_rng(0)
    zipf = rng.multinomial(USERS, 1 / np.arange(1, 17) / np.sum(1 / np.arange(1, 17)))
    numbers = np.linspace(-0.5, 0.9, 5)
    vectors = rng.normal(size=(5, 3))
    vectors /= 1.2 * np.linalg.norm(vectors, axis=1, keepdims=True)
    fifths = np.full(5, USERS // 5)
    features = rng.integers(2, size=(5, 4)).astype(np.float64)
    members: list[tuple[Spec[Any], Population]] = [
        *(
            (spec, Population.from_histogram(zipf))
            for spec in (
                KRR(16, 1.0),
                HadamardBit(16, 1.0),
                HadamardResponse(16, 1.0),
                ProjectiveGeometryResponse(16, 1.0),
                SubsetSelection(16, 1.0),
                UnaryEncoding(16, 1.0),
                Rappor(16, 1.0),
                LocalHashing(16, 1.0),
                AffineHashing(16, 1.0),
                Memoised(KRR(16, 2.0), KRR(16, 1.0)),
                DiscreteLaplace(0, 15, 1.0),
                HistogramQuery(HadamardResponse(16, 1.0)),
                OracleQueries(prefix(16), SubsetSelection(16, 1.0)),
                HierarchicalQueries(prefix(16), 1.0),
                QuantizedRR(GiniDiversity(), 1.0, num_values=16),
                QuantizedRR(KendallTau(), 1.0, num_values=(4, 4)),
                OracleStatistic(GiniDiversity(), HadamardResponse(16, 1.0)),
                HierarchicalAUC(8, 4.0, threshold=0.0),
                HierarchicalAUC(8, 4.0, threshold=0.0, labels="private"),
                FiniteChannel(np.array(KRR(16, 1.0).channel(), np.float64)),
                OptimizedStrategy(prefix(16), 1.0),
                LaplaceQueries(prefix(16), 1.0),
                GaussianQueries(prefix(16), 1.0, 1e-6),
                FactorizedQueries(prefix(16), 1.0, randomizer=CandidateResponse),
                ColumnQueries(prefix(16), 1.0, randomizer=CandidateResponse),
                OneReport(GiniDiversity(), 4.0, num_values=16, randomizer=CandidateResponse),
                TwoReport(GiniDiversity(), 4.0, num_values=16, randomizer=CandidateResponse),
                BilinearAUC(8, 4.0, randomizer=CandidateResponse),
                BilinearAUC(8, 4.0, "private", randomizer=CandidateResponse),
            )
        ),
        *(
            (spec, Population.from_histogram(fifths, numbers))
            for spec in (BinaryResponse(1.0), Laplace(1.0), Piecewise(1.0))
        ),
        *(
            (spec, Population.from_histogram(fifths, vectors))
            for spec in (Gaussian(3, 1.0, 1e-6), CandidateResponse(3, 1.0))
        ),
        *(
            (spec, Population.from_histogram(fifths, rows))
            for spec, rows in (
                (MarginalQueries(4, 2, 1.0, randomizer=CandidateResponse), features),
                (GramQueries(4, 1.0, randomizer=CandidateResponse), 1 - 2 * features),
            )
        ),
    ]
    return [_coverage(spec, population) for spec, population in members]


def _coverage(spec: Spec[Any], population: Population) -> dict[str, Any]:
    params: Any = spec.built
    counts, inputs = population.counts(), population.inputs
    keys = jax.random.split(jax.random.key(0), TRIALS)
    if params.law is None:
        every = [outcome(spec, population, key) for key in keys]
        tallies = jax.tree.map(lambda *leaves: np.stack(leaves), *every)
    else:
        draw = functools.partial(params.sample_tally, counts=counts, inputs=inputs)
        some = jax.jit(lambda keys: jax.lax.map(draw, keys, batch_size=256))  # fits in memory
        tallies = jax.device_get(some(keys))
    truth = np.asarray(spec.truth(counts.numpy(), inputs))
    exact = np.sqrt(np.asarray(getattr(spec, "variance")(counts.numpy(), inputs)))  # noqa: B009
    z = statistics.NormalDist().inv_cdf(0.975)
    inside, errors = np.zeros(truth.shape), np.zeros(truth.shape)
    for trial in range(TRIALS):
        tally = jax.tree.map(lambda x, t=trial: x[t], tallies)
        variance = spec.reported_variance(tally, population.num_users)
        assert variance is not None
        error = np.sqrt(variance)
        inside += np.abs(np.asarray(params.estimate(tally)) - truth) <= z * error
        errors += error
    random = exact > 1e-6 * exact.max()  # entries that any data set answers alike have no error
    share, width = inside[random] / TRIALS, errors[random] / TRIALS / exact[random]
    spread = np.sqrt(0.95 * 0.05 / TRIALS)
    return {
        "protocol": type(spec).__name__
        + ", private labels" * (getattr(spec, "labels", None) == "private"),
        "ε": f"{spec.exact_epsilon():.2f}",
        "least coverage": f"{share.min():.4f}",
        "largest": f"{share.max():.4f}",
        "standard error": f"{spread:.4f}",
        "least width / best": f"{width.min():.3f}",
        "largest width / best": f"{width.max():.3f}",
    }


SECTIONS = {"counting": counting, "coverage": coverage}


def main() -> None:
    """Runs the chosen sections and keeps earlier results of the others."""
    choose_sections(__doc__, SECTIONS, FOLDER)


if __name__ == "__main__":
    main()
