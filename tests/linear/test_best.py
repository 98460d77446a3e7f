"""The ranking of protocols: its order, its errors, its refusals, and simulations of it."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp._ranking import whole_users
from jaxdp.linear import (
    FactorizedQueries,
    HierarchicalQueries,
    LaplaceQueries,
    OracleQueries,
    Ranking,
    best,
)
from jaxdp.randomizers import KRR, HadamardResponse
from jaxdp.randomizers._oracles import FREQUENCY_ORACLES
from jaxdp.workloads import prefix
from tests import stats

USERS = np.array([500, 100, 300, 100])


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    return best(prefix(4), 1000, 1.0, USERS, delta=1e-6, objective="mean", num_trials=0)


def test_the_best_comes_first_and_all_are_there(ranking):
    errors = [entry.mean_error for entry in ranking.entries]
    assert errors == sorted(errors)
    assert ranking.protocol is ranking.entries[0].protocol
    names = {entry.name for entry in ranking.entries}
    assert names >= FREQUENCY_ORACLES.keys() | {
        "HierarchicalQueries",
        "LaplaceQueries",
        "RejectionQueries",
        "FactorizedQueries, PrivUnit",
        "FactorizedQueries, PrivUnit unpadded",
        "GaussianQueries",
    }
    refused = [name for name, _ in ranking.refused]
    assert refused == ["FactorizedQueries, approximate", "OptimizedStrategy"]


def test_errors_are_the_protocols_own_predictions(ranking):
    for entry in ranking.entries:
        errors = entry.protocol.variance(USERS)
        assert entry.max_error == errors.max()
        assert entry.mean_error == pytest.approx(errors.mean(), rel=1e-12)
        assert entry.protocol.exact_epsilon() <= 1.0


def test_estimates_compete_for_a_prior_as_people_use_them():
    """Of few users: after projection the error is a fraction, as its own simulation says."""
    given = dict(histogram="zipf", objective="mean")
    raw = best(np.eye(16), 1000, 0.5, **given, num_trials=0)
    ranking = best(np.eye(16), 1000, 0.5, **given)
    better = [e for e in ranking.entries if e.name.endswith((", projected", ", likelihood"))]
    assert len(better) == 6
    assert len(ranking.entries) == len(raw.entries) + 6
    first = ranking.entries[0]
    assert first in better
    assert first.mean_error.kind == "simulated"
    assert "| simulated ±" in str(ranking).splitlines()[2]
    assert first.mean_error < 0.5 * raw.entries[0].mean_error
    users = whole_users("zipf", 1000, 16)
    assert users.sum() == 1000
    np.testing.assert_allclose(users / users[0], 1 / np.arange(1, 17), atol=0.01)
    population = jaxdp.Population.from_histogram(users)
    again = jaxdp.simulate(first.protocol, population, jax.random.key(1), num_trials=200).error()
    spread = np.hypot(again.stderr, first.mean_error.stderr)
    assert abs(again - first.mean_error) < 6 * spread
    with pytest.raises(ValueError, match="histogram"):
        best(np.eye(4), 100, 1.0, "normal")


def test_what_takes_too_long_is_not_simulated(monkeypatch):
    monkeypatch.setattr("jaxdp.linear._best._TOO_LONG", 1.0)
    ranking = best(np.eye(4), 1000, 1.0, "uniform")
    assert {entry.mean_error.kind for entry in ranking.entries} == {"exact"}
    reason = dict(ranking.refused)["KRR, projected"]
    assert reason == "8 simulated runs would take more than 1e-09 s; for them give num_trials."
    given = best(np.eye(4), 1000, 1.0, "uniform", num_trials=2)  # as many as were asked for
    assert {entry.mean_error.kind for entry in given.entries} == {"exact", "simulated"}


def test_few_runs_of_what_is_slow(monkeypatch):
    """Their number is what there is time for, within limits; the standard error says what it is."""
    errors = {}
    for patience in (1.0, 1e12):
        monkeypatch.setattr("jaxdp.linear._best._PATIENCE", patience)
        ranking = best(np.eye(4), 1000, 1.0, "uniform")
        errors[patience] = {entry.name: entry.mean_error for entry in ranking.entries}
    few, many = errors[1.0]["KRR, projected"], errors[1e12]["KRR, projected"]
    assert (few.stderr / few) > 2 * (many.stderr / many)  # 5 times, roughly
    with pytest.raises(ValueError, match="num_trials must be 0 or at least 2"):
        best(np.eye(4), 1000, 1.0, "uniform", num_trials=1)


def test_likely_distributions_of_many_values_are_ranked():
    """Which took a second each, with tables, and were left out."""
    given = dict(objective="mean", num_trials=5, defaults=False)
    ranking = best(
        np.eye(512), 20_000, 1.0, "zipf", candidates={"hr": HadamardResponse(512, 1.0)}, **given
    )
    names = [entry.name for entry in ranking.entries]
    assert sorted(names[:2]) == ["hr, likelihood", "hr, projected"]
    assert names[2:] == ["hr"]
    assert ranking.refused == ()


def test_padding_costs_a_fifth_for_three_values():
    """PrivUnitG's spherical law, with a coordinate more, against PrivUnit with one and without."""
    ranking = best(prefix(3), 1000, 1.0)
    errors = {entry.name: entry.max_error for entry in ranking.entries}
    padded = errors["FactorizedQueries, PrivUnit"]
    np.testing.assert_allclose(errors["FactorizedQueries, PrivUnitG"] / padded, 1.211, atol=1e-3)
    unpadded = errors["FactorizedQueries, PrivUnit unpadded"]
    np.testing.assert_allclose(padded / unpadded, 1.097, atol=1e-3)


def test_the_table_has_a_line_for_each(ranking):
    lines = str(ranking).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == len(ranking.entries) + 2
    assert len({len(line) for line in table}) == 1
    assert ranking.entries[0].name in table[2]
    assert " client | server |" in table[0]
    assert "users trust nobody" in str(ranking)
    assert table[2].split("|")[-2].strip() == "1.000"


def test_without_a_histogram_errors_are_those_of_the_worst_data():
    ranking = best(np.eye(4), 100, 2.0)
    for entry in ranking.entries:
        assert entry.max_error == entry.protocol.worst_case_variance(100)
    errors = [entry.max_error for entry in ranking.entries]
    assert errors == sorted(errors)


def test_what_cannot_be_built_is_named_with_the_reason():
    ranking = best([[0.0, 1.0]], 10**6, 22.5)
    reasons = dict(ranking.refused)
    assert "epsilon" in reasons["RejectionQueries"]
    assert "Left out: RejectionQueries: epsilon" in str(ranking)
    assert "optimize=True" in reasons["OptimizedStrategy"]
    assert "delta" in reasons["GaussianQueries"]


def test_candidates_join_and_replace():
    """Protocols, oracles and functions that make them, ranked by what they predict."""
    mine = {
        "tree": HierarchicalQueries(prefix(4), 1.0, branching=2),
        "oracle": KRR(4, 0.9),
        "made": lambda workload, epsilon: LaplaceQueries(workload, epsilon / 2),
        "KRR": lambda workload, epsilon: KRR(4, epsilon / 2),
    }
    ranking = best(prefix(4), 1000, 1.0, candidates=mine)
    found = {entry.name: entry for entry in ranking.entries}
    assert found.keys() >= mine.keys() | FREQUENCY_ORACLES.keys()
    assert found["oracle"].protocol == OracleQueries(prefix(4), KRR(4, 0.9))
    assert found["KRR"].protocol.exact_epsilon() <= 0.5
    for entry in ranking.entries:
        assert entry.max_error == entry.protocol.worst_case_variance(1000)
    alone = best(prefix(4), 1000, 1.0, candidates=mine, defaults=False)
    assert {entry.name for entry in alone.entries} == mine.keys()
    assert alone.refused == ()


def test_candidates_that_cannot_be_compared_are_refused():
    def unlucky(workload, epsilon):
        raise ValueError("not today.")

    ranking = best(
        prefix(4),
        1000,
        1.0,
        candidates={
            "good": KRR(4, 1.0),
            "more values": KRR(5, 1.0),
            "other queries": LaplaceQueries(np.eye(4), 1.0),
            "less private": KRR(4, 1.1),
            "unlucky": unlucky,
            "factors": FactorizedQueries,
        },
        defaults=False,
    )
    assert {entry.name for entry in ranking.entries} == {"good", "factors"}
    reasons = dict(ranking.refused)
    assert "4 columns" in reasons["more values"]
    assert "other queries" in reasons["other queries"]
    assert "epsilon = 1.1" in reasons["less private"]
    assert reasons["unlucky"] == "not today."
    with pytest.raises(TypeError, match="oracle"):
        best(prefix(4), 10, 1.0, candidates={"number": lambda workload, epsilon: epsilon})
    with pytest.raises(ValueError, match="candidates must hold"):
        best(prefix(4), 10, 1.0, defaults=False)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([1, 1, 1], [4, 3, 3]), ([0, 2.5, 2.5], [0, 5, 5]), ([1, 0, 1e-9], [10, 0, 0])],
)
def test_proportions_become_whole_users(shares, expected):
    assert whole_users(shares, 10, 3).tolist() == expected


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"workload": np.eye(3) * np.nan}, "workload"),
        ({"num_users": 0}, "num_users"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 0.0}, "delta"),
        ({"objective": "sum"}, "objective"),
        ({"histogram": [1, 2]}, "histogram"),
        ({"histogram": [1, 2, -1]}, "histogram"),
        ({"histogram": [0, 0, 0]}, "histogram"),
        ({"histogram": ["a", "b", "c"]}, "histogram"),
    ],
)
def test_bad_input(options, name):
    arguments = {"workload": np.eye(3), "num_users": 10, "epsilon": 1.0} | options
    with pytest.raises((ValueError, TypeError), match=name):
        best(**arguments)


WORKLOADS = {
    "prefix": prefix(8),
    "identity": np.eye(8),
    "parity": jaxdp.workloads.parity(3, 2),
    "range": jaxdp.workloads.all_range(4),
    "random": np.random.default_rng(0).normal(size=(3, 8)),
}


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("num_users", [100, 2000])
@pytest.mark.parametrize("name", WORKLOADS)
def test_nothing_is_better_by_simulation(name, num_users, epsilon, key):
    """Every protocol has the predicted errors, so that the winner has the least.

    The mean over the answers, and the answer that is predicted to be the worst, in 1,000 trials of
    every protocol in the ranking. The largest share of an error that one user has is far below one,
    so that it is nearly Gaussian.
    """
    workload = WORKLOADS[name]
    users = whole_users(np.arange(1, workload.shape[1] + 1), num_users, workload.shape[1])
    given = dict(objective="mean", optimize=True, num_trials=0)
    ranking = best(workload, num_users, epsilon, users, **given)
    population = jaxdp.Population.from_histogram(users)
    squares: dict[str, list[np.ndarray]] = {"mean_error": [], "max_error": []}
    for i, entry in enumerate(ranking.entries):
        trials = jaxdp.simulate(
            entry.protocol, population, jax.random.fold_in(key, i), num_trials=1000
        )
        errors = trials.errors.reshape(1000, -1)
        predicted = entry.protocol.variance(users)
        random = predicted > 1e-6 * predicted.max()  # or but for reports that fail once in 2**28
        stats.check_variance(errors[:, random], predicted[random], mean=0.0, kurtosis=6.0)
        squares["mean_error"].append(np.square(errors).mean(axis=1))
        squares["max_error"].append(np.square(errors[:, predicted.argmax()]))
    for objective, found in squares.items():
        winner = found[np.argmin([getattr(entry, objective) for entry in ranking.entries])]
        for other in found:
            spread = (other.var() + winner.var()) / 1000
            assert winner.mean() < other.mean() + 7 * np.sqrt(spread)
