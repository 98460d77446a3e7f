"""The first call of a randomizer or protocol, by name: `python -m benchmarks._first_calls KRR`."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import jaxdp
from jaxdp import central, learning, linear, pairwise, randomizers, trusted, workloads

from . import _timing

USERS, TRIALS = 100_000, 100
EPSILON, DELTA = 1.0, 1e-6
_K, _D = 64, 16

Example = tuple[Callable[[], Any], int | np.ndarray]
"""What makes a spec, and its users: how many bins they have, or their distinct values."""


def examples() -> dict[str, Example]:
    """By name, every randomizer and protocol, of a size that people begin with."""
    found: dict[str, Example] = {name: (make, _K) for name, make in _of_bins()}
    found |= {name: (make, values) for name, make, values in _of_floats()}
    found |= {name: (make, bins) for name, make, bins in _of_pairs()}
    return found


def _of_bins() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Frequency oracles and linear queries."""
    k, e = _K, EPSILON
    for name, make in randomizers.FREQUENCY_ORACLES.items():
        yield name, lambda make=make: make(k, e)
    krr, prefix = randomizers.KRR(k, e), workloads.prefix(k)
    channel = np.ones((k, k)) + np.expm1(e) * np.eye(k)
    yield "DiscreteLaplace", lambda: randomizers.DiscreteLaplace(0, k - 1, e)
    yield "FiniteChannel", lambda: randomizers.FiniteChannel(channel / channel.sum(1)[0], e)
    yield "Memoised", lambda: randomizers.Memoised(randomizers.KRR(k, 2 * e), krr)
    yield "Rappor", lambda: randomizers.Rappor(k, e)
    yield "HistogramQuery", lambda: linear.HistogramQuery(krr)
    yield "OracleQueries", lambda: linear.OracleQueries(prefix, krr)
    yield "HierarchicalQueries", lambda: linear.HierarchicalQueries(prefix, e)
    yield "FactorizedQueries", lambda: linear.FactorizedQueries(prefix, e)
    yield "GaussianQueries", lambda: linear.GaussianQueries(prefix, e, DELTA)
    yield "LaplaceQueries", lambda: linear.LaplaceQueries(prefix, e)
    yield "RejectionQueries", lambda: linear.RejectionQueries(prefix, e)
    yield "OptimizedStrategy", lambda: linear.OptimizedStrategy(prefix, e)
    yield "ProjectedHadamard", lambda: linear.ProjectedHadamard(k, e)
    yield "ProjectionMechanism", lambda: linear.ProjectionMechanism(prefix, e)
    yield "ColumnQueries", lambda: linear.ColumnQueries(prefix, e)
    yield "Projected", lambda: linear.Projected(linear.LaplaceQueries(prefix, e), "clip")
    yield "FactorizationMechanism", lambda: central.FactorizationMechanism(prefix, e, DELTA)


def _of_floats() -> Iterator[tuple[str, Callable[[], Any], np.ndarray]]:
    """Numbers and vectors, and what estimates means of their products."""
    d, e, rng = _D, EPSILON, np.random.default_rng(0)
    numbers, vectors = rng.uniform(0, 1, 100), rng.uniform(0, 1 / d, (100, d))
    features = rng.integers(0, 2, (100, 6)).astype(np.float32)
    yield "BinaryResponse", lambda: randomizers.BinaryResponse(e), numbers
    yield "Piecewise", lambda: randomizers.Piecewise(e), numbers
    yield "Laplace", lambda: randomizers.Laplace(e), numbers
    yield "Laplace, d = 16", lambda: randomizers.Laplace(e, dim=d), vectors
    yield "Gaussian", lambda: randomizers.Gaussian(d, e, DELTA), vectors
    yield "GaussianRejection", lambda: randomizers.GaussianRejection(d, e), vectors
    yield "L2Ball", lambda: randomizers.L2Ball(d, e), vectors
    yield "PrivUnit", lambda: randomizers.PrivUnit(d, e), vectors
    yield "PrivUnitG", lambda: randomizers.PrivUnitG(d, e), vectors
    yield "ProjUnit", lambda: randomizers.ProjUnit(d, e, d // 4), vectors
    candidates = 256
    yield (
        "CandidateResponse",
        lambda: randomizers.CandidateResponse(d, e, num_candidates=candidates),
        vectors,
    )
    yield "MarginalQueries", lambda: linear.MarginalQueries(6, 2, e), features
    yield "GramQueries", lambda: linear.GramQueries(6, e), features


def _of_pairs() -> Iterator[tuple[str, Callable[[], Any], int]]:
    """Statistics of pairs, learners, and trusted helpers."""
    k, e = _K, EPSILON
    gini = pairwise.GiniMeanDifference()
    near = np.exp(-np.abs(np.subtract.outer(np.arange(8), np.arange(8))) / 2)
    matrix = pairwise.PairKernel.from_matrix(near)
    quantized = pairwise.QuantizedRR(gini, e, k)
    yield "QuantizedRR", lambda: quantized, k
    yield "OracleStatistic", lambda: pairwise.OracleStatistic(gini, randomizers.KRR(k, e)), k
    yield "OneReport", lambda: pairwise.OneReport(gini, e, num_values=k), k
    yield "TwoReport", lambda: pairwise.TwoReport(gini, e, num_values=k), k
    yield "OneStep", lambda: pairwise.OneStep(matrix, e), 8
    yield "TwoRound", lambda: pairwise.TwoRound(matrix, e), 8
    yield "ThreeRound", lambda: pairwise.ThreeRound(matrix, e), 8
    yield "HierarchicalAUC", lambda: pairwise.HierarchicalAUC(k, e), 2 * k
    yield "BilinearAUC", lambda: pairwise.BilinearAUC(k, e), 2 * k
    yield "RandomConcept", lambda: learning.RandomConcept(workloads.thresholds(32), e), k
    yield "AgnosticLearner", lambda: learning.AgnosticLearner(workloads.thresholds(32), e), k
    yield "PairSampling", lambda: trusted.PairSampling(gini, e, num_values=k), k
    yield "AllPairs", lambda: trusted.AllPairs(gini, e, USERS, num_values=k), k
    yield "ShuffledSum", lambda: trusted.ShuffledSum(gini, e, DELTA, USERS, num_values=k), k
    yield "Shuffled", lambda: trusted.Shuffled(quantized, USERS, DELTA), k


def _population(users: int | np.ndarray) -> jaxdp.Population:
    """All users, evenly over bins or over distinct values."""
    distinct = users if isinstance(users, int) else len(users)
    counts = USERS // distinct + (np.arange(distinct) < USERS % distinct)
    return jaxdp.Population.from_histogram(counts, None if isinstance(users, int) else users)


def measure(name: str) -> dict[str, Any]:
    """Seconds of making the spec of this name, and of its first and second `simulate`."""
    make, users = examples()[name]
    population, key = _population(users), jax.random.key(0)

    def call(spec: Any) -> jaxdp.engine.Trials:
        return jaxdp.simulate(spec, population, key, num_trials=TRIALS)

    with _timing.compilations() as compiled:
        began, begin = time.process_time(), time.perf_counter()
        spec = make()
        spec.build()
        built = time.perf_counter() - begin
        trials = call(spec)
        seconds, busy = time.perf_counter() - begin, time.process_time() - began
    begin = time.perf_counter()
    call(spec)
    again = time.perf_counter() - begin
    row = {"name": name, "method": trials.method, "seconds": seconds, "cpu": busy, "build": built}
    return row | {"xla": compiled.seconds, "programs": compiled.programs, "again": again}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
