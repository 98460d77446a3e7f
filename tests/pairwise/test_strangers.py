"""Randomizers of a third party in the protocols for pairs: predictions hold for theirs."""

import functools

import numpy as np
import pytest

import jaxdp
from jaxdp.linear import FactorizedQueries
from jaxdp.pairwise import (
    GiniDiversity,
    GiniMeanDifference,
    OneReport,
    OneStep,
    OracleStatistic,
    QueriesFromPairs,
    ThreeRound,
    TwoReport,
    TwoRound,
    best,
)
from jaxdp.trusted import Shuffled
from tests import stats
from tests.marks import slow
from tests.strangers import OneCoordinate, Stranger

COUNTS = [300, 100, 400, 200]
KERNEL = functools.partial(GiniMeanDifference)
OPTIONS = {"num_values": 4, "randomizer": OneCoordinate}
EXACT = {
    "one report": OneReport(KERNEL(), 4.0, **OPTIONS),
    "two reports": TwoReport(KERNEL(), 4.0, **OPTIONS),
    "oracle": OracleStatistic(KERNEL(), Stranger(4, True, 4.0)),
    "oracle of pairs": OracleStatistic(KERNEL(), Stranger(4, False, 4.0)),
}
ROUNDS = {
    "two rounds": TwoRound(
        KERNEL(),
        4.0,
        num_values=4,
        queries=functools.partial(FactorizedQueries, randomizer=OneCoordinate),
    ),
    "three rounds": ThreeRound(KERNEL(), 4.0, **OPTIONS),
    "one step": OneStep(KERNEL(), 4.0, **OPTIONS),
}


def errors_of(spec, key, num_trials=400):
    users = jaxdp.Population.from_histogram(COUNTS)
    return jaxdp.simulate(spec, users, key, num_trials=num_trials).errors.ravel()


@pytest.mark.parametrize(
    "name", ["one report", slow("two reports"), slow("oracle"), "oracle of pairs"]
)
def test_predicted_errors_are_those_of_simulations(name, key):
    spec = EXACT[name]
    errors, variance = errors_of(spec, key), float(spec.variance(COUNTS))
    stats.check_mean(errors, 0.0, variance=variance)
    stats.check_variance(errors, variance, mean=0.0, kurtosis=4.0)
    stats.must_fail(stats.check_variance, 2 * errors, variance, mean=0.0, kurtosis=4.0)
    assert spec.variance(COUNTS) <= spec.worst_case_variance(1000)


@pytest.mark.parametrize("name", ["two rounds", slow("three rounds"), "one step"])
def test_errors_of_rounds_are_predicted(name, key):
    """By the delta method: within a factor of 1.1, and 6.2 standard errors of 400 trials."""
    spec = ROUNDS[name]
    errors, predicted = errors_of(spec, key), float(spec.variance(COUNTS))
    assert predicted / 1.6 < np.mean(errors**2) < 1.6 * predicted
    assert not predicted / 1.6 < np.mean((2 * errors) ** 2) < 1.6 * predicted
    assert spec.variance_kind == "delta"
    assert spec.exact_epsilon() <= 4.0


def test_one_step_has_no_bound_without_moments_or_a_tail():
    assert ROUNDS["one step"].worst_case_variance(1000) == np.inf


def test_other_protocols_on_top(key):
    users = jaxdp.Population.from_histogram(COUNTS)
    queries = QueriesFromPairs(EXACT["oracle"])
    assert jaxdp.run(queries, users, key).shape == (4,)
    shuffled = Shuffled(EXACT["one report"], 1000, 1e-6)
    assert shuffled.exact_epsilon() < 4.0
    np.testing.assert_allclose(shuffled.variance(COUNTS), EXACT["one report"].variance(COUNTS))


def test_candidates_of_a_ranking():
    """Specs in a sequence beside ours and alone; a stranger's oracle is plugged in."""
    theirs = [Stranger(4, True, 1.0), OneReport(GiniDiversity(), 1.0, **OPTIONS)]
    names = ["Stranger, candidate 1", "OneReport, candidate 2"]
    ranking = best(GiniDiversity(), 1000, 1.0, num_values=4, candidates=theirs)
    found = {entry.name: entry for entry in ranking.entries}
    assert found.keys() > set(names)
    assert found[names[0]].protocol == OracleStatistic(GiniDiversity(), theirs[0])
    for name in names:
        entry = found[name]
        assert (entry.rounds, entry.error) == (1, entry.protocol.worst_case_variance(1000))
    alone = best(GiniDiversity(), 1000, 1.0, num_values=4, candidates=theirs[:1], defaults=False)
    assert [entry.name for entry in alone.entries] == names[:1]
    rounds = [TwoRound(GiniDiversity(), 1.0, num_values=4)]
    refused = best(GiniDiversity(), 1000, 1.0, num_values=4, candidates=rounds).refused
    assert "2 rounds" in dict(refused)["TwoRound, candidate 1"]
