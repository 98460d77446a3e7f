"""Twenty questions, each solved for users, epsilon and error: simulations have what was planned."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.design import (
    Comparison,
    Histogram,
    LinearQueries,
    Marginals,
    Mean,
    PairStatistic,
    Quantiles,
    TopK,
    plan,
)
from jaxdp.pairwise import GiniDiversity, KendallTau
from jaxdp.workloads import all_range, parity, prefix

FEW, TRIALS = 20_000, 3000
WITHIN = 0.02  # of the error that was planned
SIGMAS = 6.2  # a false alarm of 1e-9 or less
FALLING = np.array([40, 25, 15, 8, 6, 3, 2, 1.0])
ROWS = np.random.default_rng(0).random((50, 5)) < 0.3

# A question, what is given beside it, and the protocols that compete: not those that take long to
# build.
QUESTIONS = {
    "histogram": (Histogram(20), {}, None),
    "histogram, many values": (Histogram(300), {}, ["SubsetSelection", "HadamardResponse"]),
    "histogram, worst": (Histogram(9), {"loss": "worst"}, None),
    "histogram, relative": (Histogram(9), {"relative": True}, None),
    "histogram, half-width": (Histogram(9), {"confidence": 0.9}, None),
    "histogram, zipf": (Histogram(16), {"data": "zipf"}, ["KRR"]),
    "histogram, largest": (Histogram(8), {"data": FALLING, "loss": "max"}, ["SubsetSelection"]),
    "histogram, often": (Histogram(8), {"num_reports": 4}, None),
    "quantiles": (Quantiles(8), {}, ["SubsetSelection", "HierarchicalQueries"]),
    "quantiles, data": (Quantiles(8), {"data": FALLING}, ["HierarchicalQueries"]),
    "parities": (LinearQueries(parity(3, 2)), {}, ["FactorizedQueries, PrivUnit"]),
    "ranges": (LinearQueries(all_range(6)), {}, ["SubsetSelection", "LaplaceQueries"]),
    "with delta": (
        LinearQueries(prefix(6)),
        {"delta": 1e-6, "num_reports": 3},
        ["GaussianQueries"],
    ),
    "mean": (Mean(-1.0, 3.0), {}, None),
    "mean, data": (Mean(0, 10), {"data": [1.0, 2.0, 2.0, 9.0]}, None),
    "diversity": (PairStatistic(GiniDiversity(), 4), {}, ["OneReport, PrivUnit"]),
    "kendall": (PairStatistic(KendallTau(), (3, 3)), {"data": "uniform"}, ["OneReport, PrivUnit"]),
    "marginals": (Marginals(5, 2), {"data": ROWS}, ["MarginalQueries, PrivUnitG"]),
    "groups": (Comparison(Mean(0, 1), 0.25), {}, None),
    "top": (TopK(8, 4), {"data": FALLING}, ["HadamardResponse"]),
}
assert len(QUESTIONS) == 20


def holds(simulated, planned):
    """Within 2 % of what was planned, and what chance adds."""
    spread = SIGMAS * (simulated.stderr + planned.stderr)
    return abs(simulated - planned) < WITHIN * planned + spread


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_simulations_have_the_error_that_was_planned(name, key):
    question, given, protocols = QUESTIONS[name]
    if protocols is not None:
        makers = question.candidates(given.get("delta"))
        given = {**given, "candidates": {p: makers[p] for p in protocols}, "defaults": False}
    error = plan(question, users=FEW, epsilon=1.5, **given)
    target = float(error.best.error)
    plans = [
        error,
        plan(question, users=FEW, error=target, **given),
        plan(question, epsilon=1.5, error=target, **given),
    ]
    for number, found in enumerate(plans):
        best = found.best
        trials = 20_000 if name == "top" else TRIALS  # chances are known less well than means
        simulated = found.simulate(trials, jax.random.fold_in(key, number))
        assert holds(simulated, best.error), (name, simulated, best.error)
        assert simulated.stderr < (0.06 if name == "top" else 0.02) * best.error
        # the same check finds out a plan that is wrong by half
        wrong = jaxdp.engine.Prediction(1.5 * best.error, best.error.kind, best.error.stderr)
        assert not holds(simulated, wrong)
