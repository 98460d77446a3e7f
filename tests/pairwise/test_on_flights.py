"""Predicted errors are the measured ones on real data, for every protocol, at epsilon 0.25 to 8."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jaxdp
from jaxdp._ranking import whole_users
from jaxdp.data import load_flights
from jaxdp.pairwise import (
    AUC,
    BilinearAUC,
    GiniCoefficient,
    GiniMeanDifference,
    HierarchicalAUC,
    KendallTau,
    OneReport,
    OneStep,
    OracleStatistic,
    QuantizedRR,
    ThreeRound,
    TwoReport,
    TwoRound,
)
from jaxdp.randomizers import HadamardResponse, SubsetSelection
from jaxdp.trusted import PairSampling
from tests import stats

TRIALS = 1500
KURTOSIS = 4.0  # that of a normal, and of a quadratic form that is a fourth of the variance


@functools.cache
def data(name: str) -> np.ndarray:
    """The table of delay classes, arrival delays in 16 bins of 20 minutes, scores in 16 bins."""
    flights = load_flights()
    if name == "delays":
        return flights["dep_arr_delay_table"].astype(np.int64).ravel()
    if name == "minutes":
        minutes = np.arange(flights["arr_delay_hist"].size)
        return np.bincount(np.minimum(minutes // 20, 15), flights["arr_delay_hist"]).astype(int)
    classes = [flights[f"score_hist_{label}4096"] for label in ("neg", "pos")]
    return np.concatenate([scores.reshape(16, -1).sum(axis=1) for scores in classes])


TABLES = {"delays": (10, 10), "minutes": 16, "scores": (2, 16)}
TAU, GINI = KendallTau(), GiniMeanDifference()


@dataclasses.dataclass(frozen=True)
class Run:
    """A protocol on one of the data sets.

    Attributes:
      data: the name of the data.
      make: from epsilon to the spec.
      bound: whether its prediction is a bound.
      epsilons: those to test.
      num_users: how many users, in proportion; None for all.
    """

    data: str
    make: Callable[[float], Any]
    bound: bool = False
    epsilons: tuple[float, ...] = (0.25, 1.0, 8.0)
    num_users: int | None = None


def oracle(kernel, of):
    shape = TABLES[of]
    size = int(np.prod(shape))
    return lambda e: OracleStatistic(kernel, HadamardResponse(size, e), shape)


RUNS = {
    "quantized-kendall": Run("delays", lambda e: QuantizedRR(TAU, e, (10, 10))),
    "quantized-coefficient": Run(
        "minutes", lambda e: QuantizedRR(GiniCoefficient(), e, 16), epsilons=(1.0, 8.0)
    ),
    "hadamard-kendall": Run("delays", oracle(TAU, "delays")),
    "hadamard-gini": Run("minutes", oracle(GINI, "minutes")),
    "hadamard-auc": Run("scores", oracle(AUC(), "scores"), epsilons=(4.0,)),
    "subset-gini": Run(
        "minutes", lambda e: OracleStatistic(GINI, SubsetSelection(16, e)), epsilons=(0.25, 2.0)
    ),
    "one-report-kendall": Run("delays", lambda e: OneReport(TAU, e, (10, 10), form="v")),
    "one-report-gini": Run("minutes", lambda e: OneReport(GINI, e, 16), epsilons=(1.0,)),
    "one-report-coefficient": Run(
        "minutes", lambda e: OneReport(GiniCoefficient(), e, 16, form="v"), epsilons=(0.25, 1.0)
    ),
    "two-report-kendall": Run("delays", lambda e: TwoReport(TAU, e, (10, 10), form="v")),
    "two-report-gini": Run("minutes", lambda e: TwoReport(GINI, e, 16, form="v")),
    "two-round-gini": Run("minutes", lambda e: TwoRound(GINI, e, 16, tau=16.0)),
    "one-step-kendall": Run(
        "delays", lambda e: OneStep(TAU, e, (10, 10)), bound=True, epsilons=(0.25, 1.0)
    ),
    "one-step-gini": Run("minutes", lambda e: OneStep(GINI, e, 16, tau=30.0)),
    "three-round-kendall": Run("delays", lambda e: ThreeRound(TAU, e, (10, 10)), bound=True),
    "bilinear": Run("scores", lambda e: BilinearAUC(16, e)),
    "bilinear-private": Run(
        "scores", lambda e: BilinearAUC(16, e, labels="private"), epsilons=(1.0, 8.0)
    ),
    "hierarchical": Run("scores", lambda e: HierarchicalAUC(16, e, threshold=0.0)),
    "hierarchical-private": Run(
        "scores",
        lambda e: HierarchicalAUC(16, e, labels="private", threshold=0.0),
        epsilons=(1.0, 4.0),
    ),
    "hierarchical-randomized": Run(
        "scores",
        lambda e: HierarchicalAUC(16, e, labels="randomized", threshold=0.0),
        epsilons=(2.0, 8.0),
    ),
    "hierarchical-pruned": Run("scores", lambda e: HierarchicalAUC(16, e), bound=True),
    "pairs-kendall": Run(
        "delays", lambda e: PairSampling(TAU, e, (10, 10), num_permutations=2), num_users=20_000
    ),
    "pairs-gini": Run("minutes", lambda e: PairSampling(GINI, e, 16), num_users=20_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_predicted_errors_are_the_measured_ones(name, key):
    run = RUNS[name]
    counts, cells = data(run.data), len(run.epsilons)
    if run.num_users is not None:
        counts = whole_users(counts, run.num_users, counts.size)
    users = jaxdp.Population.from_histogram(counts)
    for epsilon in run.epsilons:
        spec = run.make(epsilon)
        trials = jaxdp.simulate(spec, users, key, num_trials=TRIALS)
        truth, predicted = trials.truth, float(spec.variance(counts))
        assert truth is not None
        stats.check_variance(
            trials.estimates,
            predicted,
            kurtosis=KURTOSIS,
            mean=truth,
            at_most=run.bound,
            cells=cells,
        )
        if not run.bound:
            stats.check_mean(trials.estimates, truth, variance=predicted, cells=cells)
        more = stats.detectable_variance(TRIALS, KURTOSIS, cells=cells)
        measured = np.mean((trials.estimates - truth) ** 2)
        stats.must_fail(
            stats.check_variance,
            trials.estimates,
            measured / (1 + 1.1 * more),
            kurtosis=KURTOSIS,
            mean=truth,
            at_most=run.bound,
            cells=cells,
        )
