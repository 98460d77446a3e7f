"""Questions about sets, groups and features: their errors are those of simulations."""

import math

import jax
import numpy as np
import pytest

from jaxdp.design import Comparison, Histogram, Marginals, Mean, PairStatistic, TopK, plan
from jaxdp.engine import simulate
from jaxdp.linear import HistogramQuery
from jaxdp.pairwise import CollisionEntropy, GiniDiversity
from jaxdp.randomizers import KRR
from tests.marks import slow

FEW = 20_000
ROWS = np.random.default_rng(0).random((40, 4)) < [0.9, 0.5, 0.3, 0.1]


def close(simulated, predicted):
    """Within what chance explains, at a false alarm of 1e-9."""
    return abs(simulated - predicted) < 6.2 * simulated.stderr


COMPARED = {
    "mean": Comparison(Mean(-1.0, 3.0), 0.3),
    "histogram": Comparison(Histogram(6)),
    "pairs": Comparison(PairStatistic(GiniDiversity(), 3)),
}


@pytest.mark.parametrize("data", ["worst", slow("uniform")])
@pytest.mark.parametrize("name", ["mean", slow("histogram"), slow("pairs")])
def test_errors_of_groups_add_up(name, data, key):
    asked = COMPARED[name]
    makers = asked.question.candidates()
    first = "OneReport, PrivUnitG" if name == "pairs" else next(iter(makers))
    makers = {first: makers[first]}
    found = plan(asked, users=FEW, epsilon=1.0, data=data, candidates=makers, defaults=False)
    exact = next(o for o in found.options if o.error.kind in ("exact", "delta"))
    simulated = found.simulate(4000, key, option=found.options.index(exact))
    assert simulated.stderr < 0.02 * exact.error
    assert close(simulated, exact.error), (simulated, exact.error)
    one = plan(asked.question, users=FEW, epsilon=1.0, data=data, candidates=makers)
    alone = next(o for o in one.options if o.name == exact.name)
    assert exact.error > 1.5 * alone.error  # of a group of half the users, and twice
    assert not close(simulated, alone.error)


def test_groups_have_data_of_their_own():
    asked = Comparison(Histogram(4), 0.25)
    users = asked.users(([1, 0, 0, 0], [0, 0, 1, 1]), 400)
    assert users is not None
    assert users.first.counts.tolist() == [100, 0, 0, 0]
    assert users.second.counts.tolist() == [0, 0, 150, 150]
    protocol = HistogramQuery(KRR(4, 1.0))
    trials = asked.trials(protocol, users, jax.random.key(0), 10)
    assert trials.truth is not None
    np.testing.assert_allclose(trials.truth, [-1.0, 0.0, 0.5, 0.5], atol=1e-12)
    with pytest.raises(ValueError, match="data must be given for both groups"):
        asked.users(("worst", "uniform"), 400)
    with pytest.raises(ValueError, match="share must leave two users"):
        Comparison(Histogram(4), 0.001).users("uniform", 400)
    with pytest.raises(ValueError, match="question must be one whose answers are numbers"):
        Comparison(TopK(4, 1))
    with pytest.raises(ValueError, match="question must be one whose answers are numbers"):
        Comparison(asked)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["worst", "uniform", "rows"])
def test_marginals_of_every_protocol(data, key):
    asked = Marginals(4, 2)
    given = ROWS if data == "rows" else data
    found = plan(asked, users=FEW, epsilon=1.0, data=given, num_trials=50)
    names = [o.name for o in found.options]
    for name in ("MarginalQueries, PrivUnitG", "MarginalQueries, CandidateResponse", "KRR"):
        option = found.options[names.index(name)]
        if option.error.kind != "exact":
            continue
        simulated = found.simulate(2000, key, option=names.index(name))
        assert simulated.stderr < 0.02 * option.error
        assert close(simulated, option.error), (name, simulated, option.error)
        assert not close(simulated, 1.2 * option.error)


def test_marginals_are_of_the_sets_they_say(key):
    asked = Marginals(4, 2)
    users = asked.users(ROWS, 40)
    truths = []
    for name in ("MarginalQueries, PrivUnitG", "KRR"):
        protocol = asked.candidates()[name](1.0, 40)
        truths.append(asked.trials(protocol, users, key, 2).truth)
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    expected = [*ROWS.mean(axis=0), *((ROWS[:, i] & ROWS[:, j]).mean() for i, j in pairs)]
    for truth in truths:
        np.testing.assert_allclose(truth, expected, atol=1e-12)


def test_curators_answer_marginals(key):
    found = plan(Marginals(4, 2), users=2_000, epsilon=0.5, delta=1e-6, trust="central")
    assert found.best.trust == "central"
    simulated = found.simulate(2000, key, data=ROWS)
    assert close(simulated, found.best.error)


def test_marginals_refuse():
    with pytest.raises(ValueError, match="order must leave at most"):
        Marginals(40, 6)
    with pytest.raises(ValueError, match="features must be 0 or 1"):
        plan(Marginals(2, 1), users=10, epsilon=1.0, data=[[0, 2]])
    with pytest.raises(ValueError, match="features are not listed; draw some"):
        plan(Marginals(20, 1), users=10, epsilon=1.0, data="uniform")


def test_sets_are_wrong_as_often_as_planned(key):
    asked, data = TopK(8, 2), [40, 25, 15, 8, 6, 3, 2, 1]
    krr = {"KRR": lambda e, _: HistogramQuery(KRR(8, e))}
    given = dict(data=data, candidates=krr, defaults=False)
    found = plan(asked, users=FEW, error=0.05, **given)
    assert found.best.error.kind == "simulated"
    assert found.best.error <= 0.05
    trials = simulate(found.best.protocol, asked.users(data, FEW).population, key, num_trials=4000)
    top = np.sort(np.argsort(-trials.estimates, axis=1)[:, :2], axis=1)
    wrong = np.any(top != [0, 1], axis=1)
    spread = math.hypot(found.best.error.stderr, wrong.std() / math.sqrt(wrong.size))
    assert spread < 0.01
    assert abs(wrong.mean() - 0.05) < 6.2 * spread
    with pytest.raises(ValueError, match="loss must be one of"):
        plan(asked, users=FEW, epsilon=1.0, loss="rmse", **given)
    with pytest.raises(ValueError, match="data must be given for loss='max'"):
        plan(asked, users=FEW, epsilon=1.0)
    with pytest.raises(ValueError, match="data must separate the first 2 values"):
        plan(asked, users=FEW, epsilon=1.0, data=[4, 2, 2, 1, 1, 1, 1, 1])


@pytest.mark.slow
def test_least_errors_are_below_every_protocol():
    for asked in (Histogram(12), Mean(0, 1), Marginals(3, 1)):
        for epsilon in (0.5, 2.0):
            found = plan(asked, users=FEW, epsilon=epsilon)
            assert 0.1 * found.best.error < found.least_error < found.best.error
            relative = plan(asked, users=FEW, epsilon=epsilon, relative=True)
            assert relative.least_error == pytest.approx(found.least_error / asked.typical)
    assert plan(Histogram(12), users=FEW, epsilon=1.0, data="zipf", num_trials=50).least_error == 0
    assert "No protocol that is as private has an error below" in " ".join(
        plan(Histogram(12), users=FEW, epsilon=1.0).in_words().split()
    )


def test_errors_that_are_not_nearly_linear_are_simulated_or_marked():
    """Collision entropies, of which the delta method is off where it predicts large errors."""
    question = PairStatistic(CollisionEntropy(), 3)
    few = {"QuantizedRR": question.candidates()["QuantizedRR"]}
    given: dict = dict(data=[5, 3, 2], epsilon=1.0, candidates=few, defaults=False)
    many = plan(question, users=100_000, **given)
    assert (many.best.error.kind, many.best.noisy) == ("delta", False)
    found = plan(question, users=50, **given, num_trials=400)
    assert (found.best.error.kind, found.best.noisy) == ("simulated", False)
    marked = plan(question, users=50, **given, num_trials=0)
    assert (marked.best.error.kind, marked.best.noisy) == ("delta", True)
    assert "delta, noisy" in str(marked)
    assert "off by more than a tenth" in " ".join(marked.in_words().split())
