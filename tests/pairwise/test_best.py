"""The ranking of protocols for statistics of pairs: its order, errors, refusals, simulations."""

import itertools

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp._ranking import whole_users
from jaxdp.pairwise import (
    AUC,
    BilinearAUC,
    CollisionEntropy,
    GiniMeanDifference,
    Grid,
    KendallTau,
    QuantizedRR,
    ThreeRound,
)
from jaxdp.pairwise._best import StatisticRanking, best
from jaxdp.randomizers import HadamardBit
from jaxdp.randomizers._oracles import FREQUENCY_ORACLES

USERS = np.array([500, 100, 300, 100])


@pytest.fixture(scope="module")
def ranking() -> StatisticRanking:
    return best(GiniMeanDifference(), 1000, 1.0, 4, 3, USERS)


@pytest.mark.slow
def test_the_best_comes_first_and_all_are_there(ranking):
    errors = [entry.error for entry in ranking.entries]
    assert errors == sorted(errors)
    assert ranking.protocol is ranking.entries[0].protocol
    assert {entry.rounds for entry in ranking.entries} == {1, 2, 3}
    names = {entry.name for entry in ranking.entries}
    assert names >= {f"OracleStatistic, {name}" for name in FREQUENCY_ORACLES if name != "KRR"} | {
        "QuantizedRR",
        "OneReport, PrivUnit",
        "OneReport, PrivUnitG, fitted",
        "TwoReport, PrivUnit",
        "TwoReport, PrivUnitG",
        "TwoRound",
        "TwoRound, budget",
        "OneStep, PrivUnitG",
        "OneStep, PrivUnit",
        "ThreeRound, PrivUnitG",
        "ThreeRound, PrivUnit",
    }
    assert ranking.refused == ()


def test_errors_are_the_protocols_own_predictions(ranking):
    for entry in ranking.entries:
        assert entry.error == entry.protocol.variance(USERS)
        assert entry.protocol.exact_epsilon() <= 1.0
    assert str(ranking).splitlines()[2].split("|")[-2].strip() == "1.000"


def test_fewer_rounds_are_a_part_of_the_ranking(ranking):
    single = best(GiniMeanDifference(), 1000, 1.0, 4, 1, USERS)
    expected = [(entry.name, entry.error) for entry in ranking.entries if entry.rounds == 1]
    assert [(entry.name, entry.error) for entry in single.entries] == expected


def test_without_a_histogram_errors_are_those_of_the_worst_data():
    ranking = best(1 - np.eye(4), 100, 1.0)  # of the shapes above, so all is compiled
    for entry in ranking.entries:
        assert entry.error == entry.protocol.worst_case_variance(100)


def test_a_bound_is_never_first_where_an_error_is_known():
    """For 20,000 users in the worst case TwoRound's bound is below the least error of one round."""
    ranking = best(GiniMeanDifference(), 20_000, 1.0, 8, 2)
    kinds = [entry.error.kind for entry in ranking.entries]
    assert kinds == sorted(kinds, key="bound".__eq__)
    assert kinds[0] == "exact"
    for kind in ("exact", "bound"):
        errors = [entry.error for entry in ranking.entries if entry.error.kind == kind]
        assert errors == sorted(errors)
    (line,) = (x for x in str(ranking).splitlines() if x.startswith("| TwoRound  "))
    assert 0.9 < float(line.split("<=")[1].strip(" |")) < 1


def test_an_auc_has_protocols_of_its_own():
    users = np.array([500] * 2 + [750] * 2)
    ranking = best(AUC(), 2500, 1.0, (2, 2), 1, users)
    errors = {entry.name: entry.error for entry in ranking.entries}
    expected = BilinearAUC(2, 1.0, labels="private").variance(users)
    assert errors["BilinearAUC, private, PrivUnitG"] == expected
    assert {"HierarchicalAUC, randomized", "HierarchicalAUC, private, pruned"} <= errors.keys()
    assert "BilinearAUC, private, PrivUnit" in errors
    assert min(errors.values()) == ranking.entries[0].error
    counted = best(AUC("zero"), 2500, 1.0, (2, 2), 1, users)
    assert "BilinearAUC, private, PrivUnit" not in {entry.name for entry in counted.entries}


def test_an_epsilon_that_some_randomizers_lack():
    ranking = best(1 - np.eye(4), 100, 25.0)
    assert "QuantizedRR" in dict(ranking.refused)
    assert "OneReport, PrivUnit" in {entry.name for entry in ranking.entries}


def test_a_matrix_that_is_not_symmetric():
    lopsided = np.triu(np.ones((4, 4)), 1)
    with pytest.warns(UserWarning, match="not symmetric") as caught:
        ranking = best(lopsided, 100, 1.0)
    assert caught[0].filename == __file__
    same = best((lopsided + lopsided.T) / 2, 100, 1.0)
    assert ranking.entries[0].error == same.entries[0].error


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"kernel": np.ones((2, 3))}, "kernel"),
        ({"num_users": 1}, "num_users"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"num_values": None}, "num_values"),
        ({"rounds": 4}, "rounds"),
        ({"histogram": [1, 2]}, "histogram"),
        ({"form": "w"}, "form"),
        ({"kernel": AUC(), "num_values": (2, 2)}, "histogram"),
    ],
)
def test_bad_input(arguments, name):
    given = {"kernel": GiniMeanDifference(), "num_users": 10, "epsilon": 1.0, "num_values": 3}
    with pytest.raises(ValueError, match=name):
        best(**(given | arguments))


KERNELS = {
    "gini": (GiniMeanDifference(), 6),
    "kendall": (KendallTau(), (3, 3)),
    "diversity": (1 - np.eye(5), None),
    "random": (np.triu(np.sin(np.arange(25)).reshape(5, 5)) * 2, None),
    "auc": (AUC(class_sizes=(500, 500)), (2, 3)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the smaller class:UserWarning")
@pytest.mark.parametrize(
    ("name", "num_users", "epsilon"),
    list(itertools.product(KERNELS, (1000, 5000, 20_000), (0.5, 3.0))),
)
def test_no_protocol_beats_the_best(name, num_users, epsilon, key):
    """Simulated, the winner is below every other within 7 standard errors of the difference.

    Sixty trials at a time, 300 in all, of which a protocol has no more than show it to be worse.
    The V-form is that of 5,000 users.
    """
    kernel, num_values = KERNELS[name]
    if name == "random":
        kernel = np.asarray(kernel) + np.asarray(kernel).T
    size = len(kernel) if num_values is None else int(np.prod(num_values))
    users = whole_users(np.arange(1, size + 1), num_users, size)
    if name == "auc":
        kernel = AUC(class_sizes=(int(users[:3].sum()), int(users[3:].sum())))
    form = "v" if num_users == 5000 else "u"
    ranking = best(kernel, num_users, epsilon, num_values, 3, users, form=form)
    population = jaxdp.Population.from_histogram(users)

    def squares(i: int, batch: int) -> np.ndarray:
        place = jax.random.fold_in(jax.random.fold_in(key, i), batch)
        trials = jaxdp.simulate(ranking.entries[i].protocol, population, place, num_trials=60)
        return np.square(trials.errors).ravel()

    winner = np.concatenate([squares(0, batch) for batch in range(5)])
    for i in range(1, len(ranking.entries)):
        other = np.empty(0)
        for batch in range(5):
            other = np.append(other, squares(i, batch))
            worse = other.mean() - winner.mean()
            stderr = np.sqrt(winner.var() / len(winner) + other.var() / len(other))
            if worse > 7 * stderr:
                break
        assert worse > -7 * stderr, ranking.entries[i].name


GINI = GiniMeanDifference()


def test_costs_are_counted_or_timed(monkeypatch):
    """Tables have all columns; seconds are those of this machine."""
    monkeypatch.setattr("jaxdp.reports._costs._LONG", 1e-4)
    grid = Grid.uniform(4)
    for domain, candidate in (
        (4, QuantizedRR(GINI, 1.0, 4)),
        (grid, QuantizedRR),
    ):
        given = dict(num_values=domain, candidates={"mine": candidate}, defaults=False)
        counted = best(GINI, 100, 1.0, **given)
        columns = str(counted).splitlines()[0]
        assert all(name in columns for name in ("rounds", "kind", "bytes", "client", "server"))
        assert "Users trust nobody" in str(counted)
        assert counted.entries[0].cost.client_seconds is None
        timed = best(GINI, 100, 1.0, **given, timed=True)
        assert timed.entries[0].cost.client_seconds > 0
        assert counted.entries[0].cost.cells[0] not in str(timed)


def test_vectors_without_padding_compete():
    """Variances of five answers' mean difference; a coordinate that pads vectors costs 11 to 70 %.

    That of epsilon = 1 is 5.609 without padding in an independent computation.
    """
    expected = {
        1.0: {"OneReport, PrivUnit unpadded": 5.60933},
        4.0: {
            "OneReport, PrivUnit unpadded": 0.0652845,
            "OneReport, PrivUnit": 0.0727213,
            "OneReport, PrivUnitG": 0.111321,
        },
    }
    for epsilon, errors in expected.items():
        ranking = best(GINI, 15, epsilon, 5, histogram=[3, 1, 4, 2, 5])
        found = {entry.name: entry.error for entry in ranking.entries}
        for name, error in errors.items():
            np.testing.assert_allclose(found[name], error, rtol=1e-5)
            assert found[name].kind == "exact"
    of_vectors = [name for name in found if name.startswith(("OneReport", "TwoReport"))]
    assert of_vectors[0] == "OneReport, PrivUnit unpadded"
    # Reports of values beat them there.
    assert ranking.entries[0].error < 0.01


def test_errors_that_are_only_bounded_are_simulated():
    few = {
        "three": lambda k, e: ThreeRound(k, e, 3, tau="bound"),
        "one": lambda k, e: QuantizedRR(k, e, 3),
    }
    given = dict(histogram=[300, 500, 200], candidates=few, defaults=False)
    bounds = {e.name: e.error for e in best(GINI, 1000, 2.0, 3, 3, **given).entries}
    ranking = best(GINI, 1000, 2.0, 3, 3, **given, num_trials=400)
    found = {e.name: e.error for e in ranking.entries}
    assert [bounds[name].kind for name in few] == ["bound", "exact"]
    assert [found[name].kind for name in few] == ["simulated", "exact"]
    assert found["one"] == bounds["one"]
    assert 0 < found["three"].stderr < 0.2 * found["three"]
    assert found["three"] < bounds["three"]
    assert "simulated" in str(ranking)


def test_what_is_not_nearly_linear_is_marked_and_simulated():
    """Collision entropies: of 100 users the delta method is off, and says so; of many it is not."""
    given = dict(histogram=[5, 3, 2], candidates=[HadamardBit(3, 1.0)], defaults=False)
    few, many = (best(CollisionEntropy(), n, 1.0, 3, **given) for n in (100, 100_000))
    assert few.entries[0].noisy
    assert not many.entries[0].noisy
    assert "delta, noisy" in str(few)
    assert "num_trials" in str(few)
    assert "noisy" not in str(many).lower()
    simulated = best(CollisionEntropy(), 100, 1.0, 3, **given, num_trials=4000).entries[0]
    assert simulated.error.kind == "simulated"
    assert not simulated.noisy
    predicted, measured = few.entries[0].error, simulated.error
    assert abs(predicted - measured) > 0.1 * measured + 5 * measured.stderr
    # The control: of an average the error is exact, however large it is.
    mean = best(GINI, 20, 0.1, 3, candidates=[HadamardBit(3, 0.1)], defaults=False).entries[0]
    assert mean.error > 1
    assert not mean.noisy


def test_what_is_simulated_has_users():
    with pytest.raises(ValueError, match="histogram"):
        best(GINI, 1000, 2.0, 3, num_trials=100)
