"""Randomizers of a third party: every protocol that takes a randomizer takes theirs."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.learning import AgnosticLearner
from jaxdp.linear import (
    ColumnQueries,
    FactorizedQueries,
    HierarchicalQueries,
    HistogramQuery,
    OracleQueries,
    Projected,
    ProjectionMechanism,
    best,
)
from jaxdp.workloads import prefix, thresholds
from tests.linear.measured import check_prediction
from tests.marks import slow
from tests.strangers import OneCoordinate, Stranger

COUNTS = [800, 0, 600, 200, 400]


def uncounted(num_values, epsilon):
    return Stranger(num_values, False, epsilon)


def counted(num_values, epsilon):
    return Stranger(num_values, True, epsilon)


ORACLES = {
    "histogram": HistogramQuery(counted(5, 2.0)),
    "histogram-uncounted": HistogramQuery(uncounted(5, 2.0)),
    "queries": OracleQueries(prefix(5), uncounted(5, 2.0)),
    "tree": HierarchicalQueries(prefix(5), 2.0, branching=2, oracle=counted),
    "tree-uncounted": HierarchicalQueries(prefix(5), 2.0, oracle=uncounted),
}
VECTORS = {
    "factors": FactorizedQueries(prefix(5), 2.0, randomizer=OneCoordinate),
    "columns": ColumnQueries(prefix(5), 2.0, OneCoordinate),
}


QUICK = ("histogram", "tree-uncounted", "factors")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else slow(name) for name in (*ORACLES, *VECTORS)]
)
def test_predicted_errors_are_those_of_simulations(name, key):
    spec = (ORACLES | VECTORS)[name]
    check_prediction(spec, COUNTS, key, num_trials=600)
    assert spec.exact_epsilon() <= 2.0


def test_projections_take_them(key):
    users = jaxdp.Population.from_histogram(COUNTS)
    for spec in (
        ProjectionMechanism(prefix(5), 2.0, OneCoordinate),
        Projected(ORACLES["tree-uncounted"]),
        Projected(ORACLES["histogram"], "simplex"),
    ):
        bound = spec.total_variance(COUNTS)
        errors = jaxdp.simulate(spec, users, key, num_trials=50).errors
        assert 0 < np.mean(np.sum(errors**2, axis=1)) < 1.5 * bound


def test_learners_take_them(key):
    learner = AgnosticLearner(thresholds(4), 2.0, randomizer=OneCoordinate)
    users = jaxdp.Population.from_histogram([300, 200, 100, 0, 0, 100, 200, 300])
    losses = jaxdp.run(learner, users, key)
    deviation = np.sqrt(learner.variance(users.counts().numpy()))
    assert np.all(np.abs(losses - learner.truth(users.counts().numpy())) < 7 * deviation)
    with pytest.raises(ValueError, match="known tail"):
        learner.min_users(0.1, 0.1)


def test_candidates_of_a_ranking():
    """A sequence of their specs, beside ours and alone; functions need names."""
    theirs = [counted(4, 1.0), HierarchicalQueries(prefix(4), 1.0, oracle=uncounted)]
    ranking = best(prefix(4), 1000, 1.0, candidates=theirs)
    names = ["Stranger, candidate 1", "HierarchicalQueries, candidate 2"]
    found = {entry.name: entry for entry in ranking.entries}
    assert found.keys() > set(names)
    assert found["Stranger, candidate 1"].protocol == OracleQueries(prefix(4), theirs[0])
    for name in names:
        assert found[name].max_error == found[name].protocol.worst_case_variance(1000)
    # Randomized response by another name has the error of ours.
    assert found[names[0]].max_error == pytest.approx(found["KRR"].max_error, rel=1e-12)
    alone = best(prefix(4), 1000, 1.0, candidates=theirs, defaults=False)
    assert sorted(entry.name for entry in alone.entries) == sorted(names)
    with pytest.raises(TypeError, match="given by name"):
        best(prefix(4), 1000, 1.0, candidates=[counted])
    less_private = best(prefix(4), 1000, 1.0, candidates=[counted(4, 1.1)])
    assert "epsilon = 1.1" in dict(less_private.refused)["Stranger, candidate 1"]


@pytest.mark.slow
def test_both_paths_agree(key):
    """The counted stranger has no law of its tally: users are visited one by one."""
    tree = ORACLES["tree"]
    assert tree.build().law is None
    check_prediction(tree, COUNTS, jax.random.fold_in(key, 1), num_trials=600, method="per_user")
