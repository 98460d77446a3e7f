"""Plans: each of three solved for, what is simulated is what was planned, refusals."""

import math

import numpy as np
import pytest

import jaxdp
from jaxdp.design import Histogram, LinearQueries, Mean, PairStatistic, Quantiles, plan, rank
from jaxdp.linear import HistogramQuery
from jaxdp.pairwise import GiniDiversity, GiniMeanDifference
from jaxdp.randomizers import KRR
from tests.marks import slow

QUESTIONS = {
    "histogram": Histogram(20),
    "queries": LinearQueries(jaxdp.workloads.parity(3, 2)),
    "quantiles": Quantiles(8),
    "mean": Mean(-1.0, 3.0),
    "pairs": PairStatistic(GiniDiversity(), 4),
}
FEW = 20_000
WITHIN = 0.02  # of the error that was planned: what users are told


def some_data(name):
    return [0.5, 1.0, 2.5, -1.0] if name == "mean" else np.arange(1.0, sizes(name) + 1)


def sizes(name):
    return {"histogram": 20, "queries": 8, "quantiles": 8, "pairs": 4}[name]


def options(name):
    """Not the protocols that take seconds to build."""
    makers = QUESTIONS[name].candidates()
    kept = {
        "queries": ["SubsetSelection", "LaplaceQueries", "FactorizedQueries, PrivUnitG"],
        "quantiles": ["SubsetSelection", "HierarchicalQueries"],
        "pairs": ["QuantizedRR", "OneReport, PrivUnit", "TwoReport, PrivUnit"],
    }.get(name, list(makers)[:3])
    return {"candidates": {k: makers[k] for k in kept}, "defaults": False}


@pytest.fixture(scope="module", params=QUESTIONS)
def answered(request):
    """For a question, what is solved for each of the three: the error at n and epsilon = 1.5."""
    name = request.param
    given = dict(question=QUESTIONS[name], **options(name))
    error = plan(**given, users=FEW, epsilon=1.5)
    target = float(error.best.error)
    return name, [
        error,
        plan(**given, users=FEW, error=target),
        plan(**given, epsilon=1.5, error=target),
    ]


def test_two_of_three_give_the_third(answered):
    _, (error, epsilon, users) = answered
    assert error.solved == "error"
    assert epsilon.best.name == users.best.name == error.best.name
    assert epsilon.best.epsilon == pytest.approx(1.5, rel=1e-3)
    assert users.best.num_users == pytest.approx(FEW, rel=1e-3)
    for found in (epsilon, users):
        target = float(error.best.error)
        assert target * (1 - 1e-3) <= found.best.error <= target


def test_options_are_in_order_and_all_reach_the_error(answered):
    _, (error, epsilon, users) = answered
    assert [o.error for o in error.options] == sorted(o.error for o in error.options)
    assert [o.epsilon for o in epsilon.options] == sorted(o.epsilon for o in epsilon.options)
    assert [o.num_users for o in users.options] == sorted(o.num_users for o in users.options)
    for option in (*epsilon.options, *users.options):
        assert option.error <= error.best.error
        assert option.protocol.exact_epsilon() <= option.epsilon * (1 + 1e-12)


@pytest.mark.parametrize("number", [0, slow(1), slow(2)], ids=["error", "epsilon", "users"])
def test_simulations_have_the_error_that_was_planned(answered, number, key):
    """On the worst data, of each of the three plans: within 2 % and what chance adds."""
    name, plans = answered
    found = plans[number]
    if found.best.error.kind == "bound":
        return
    simulated = found.simulate(2000, key)
    stats_error = 7 * simulated.stderr / found.best.error  # a false alarm of 1e-9 or less
    assert abs(simulated / found.best.error - 1) < WITHIN + stats_error, name
    assert stats_error < 6 * WITHIN


@pytest.mark.parametrize(
    "name", [slow(n) if n in ("queries", "quantiles") else n for n in QUESTIONS]
)
def test_given_data_are_planned_for(name):
    data = some_data(name)
    found = plan(QUESTIONS[name], **options(name), users=FEW, epsilon=1.5, data=data, num_trials=50)
    exact = [o for o in found.options if o.error.kind == "exact"]
    users = QUESTIONS[name].users(data, FEW)
    for option in exact:
        errors = option.protocol.variance(users.counts, users.inputs)
        assert option.error == pytest.approx(math.sqrt(np.mean(errors)), rel=1e-12)
    projected = [o for o in found.options if o.name.endswith("projected")]
    assert len(projected) == (2 if name in ("histogram", "queries", "quantiles") else 0)
    for option in projected:
        assert option.error.kind == "simulated"
        raw = next(o for o in exact if o.name == option.name.removesuffix(", projected"))
        # A projection never hurts; 50 trials know its error to some parts of a hundred.
        assert option.error < raw.error + 6 * option.error.stderr


@pytest.mark.slow
def test_projected_errors_are_solved_for(key):
    krr = {"KRR": lambda e, _: HistogramQuery(KRR(20, e))}
    given = dict(data="zipf", candidates=krr, defaults=False, error=0.02)
    found = plan(Histogram(20), users=2_000, **given)
    *better, raw = found.options
    assert {o.name for o in better} == {"KRR, projected", "KRR, likelihood"}
    assert raw.name == "KRR"
    assert all(option.epsilon < raw.epsilon for option in better)
    for place, option in enumerate(better):
        simulated = found.simulate(1000, key, option=place)
        spread = math.hypot(simulated.stderr, option.error.stderr)
        assert abs(simulated - 0.02) < 0.02 * WITHIN + 7 * spread


def test_the_largest_error_is_simulated(key):
    krr = {"KRR": lambda e, _: HistogramQuery(KRR(5, e))}
    given = dict(candidates=krr, defaults=False, loss="max", num_trials=400)
    found = plan(Histogram(5), epsilon=1.0, error=0.02, data="uniform", **given)
    raw = next(o for o in found.options if o.name == "KRR")
    trials = jaxdp.simulate(
        raw.protocol,
        jaxdp.Population.from_histogram([raw.num_users // 5] * 5),
        key,
        num_trials=2000,
    )
    largest = trials.max_error
    spread = largest.std() / math.sqrt(len(largest))
    spread = math.hypot(spread, raw.error.stderr)
    assert abs(largest.mean() - 0.02) < 0.02 * WITHIN + 7 * spread
    with pytest.raises(ValueError, match="data must be given for loss='max'"):
        plan(Histogram(5), epsilon=1.0, error=0.02, **given)


def test_losses_scale_the_error():
    given = dict(users=10_000, epsilon=1.0)
    plain, question = plan(Histogram(20), **given).best.error, Histogram(20)
    assert plan(question, **given, relative=True).best.error == pytest.approx(20 * plain)
    half = plan(question, **given, confidence=0.95).best.error
    assert half == pytest.approx(1.959964 * plain, rel=1e-6)
    worst = plan(question, **given, loss="worst").best
    assert worst.error == worst.protocol.worst_case_variance(10_000) ** 0.5


def test_the_example_of_a_thousand_values():
    """50,000 users and an error of 0.01 a cell."""
    found = plan(Histogram(1000), users=50_000, error=0.01)
    best = found.best
    assert best.name == "AffineSubsets"
    assert best.epsilon == pytest.approx(0.866, abs=1e-3)
    total = best.protocol.worst_case_total_variance(50_000)
    assert 0.01 * (1 - 1e-3) <= math.sqrt(total / 1000) <= 0.01
    lines = str(found).splitlines()
    assert "AffineSubsets" in lines[2]
    assert "| exact |" in lines[2]
    document = found.to_json()
    assert document["users"] == 50_000
    assert document["protocol"]["spec"].endswith("HistogramQuery")


def test_bounds_are_marked():
    found = plan(PairStatistic(GiniMeanDifference(), 4), epsilon=1.0, error=0.05)
    kinds = {o.name: o.error.kind for o in found.options}
    assert kinds["QuantizedRR"] == "bound"
    assert kinds["OneReport, PrivUnit"] == "exact"
    assert "| bound |" in str(found)


def test_what_cannot_reach_the_error_is_named():
    with pytest.raises(
        ValueError, match=r"no protocol reaches the error.*KRR: needs epsilon above"
    ):
        plan(Histogram(20), users=100, error=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(users=100), "got 1 of them"),
        (dict(users=100, epsilon=1.0, error=0.1), "got 3 of them"),
        (dict(users=100, epsilon=1.0, data="normal"), "data must be one of 'worst', 'uniform'"),
        (dict(users=100, epsilon=1.0, data=[1, 2]), "data must be 20 numbers"),
        (dict(users=100, epsilon=1.0, loss="l2"), "loss must be one of"),
        (dict(users=100, epsilon=1.0, data="zipf", loss="max", confidence=0.9), "confidence"),
        (dict(users=1, epsilon=1.0), "users"),
        (dict(users=100, epsilon=-1.0), "epsilon"),
        (dict(users=100, error=0.0), "error"),
        (dict(users=100, epsilon=1.0, num_trials=1), "num_trials must be at least 2, or 0"),
        (dict(users=9, epsilon=1.0, data="zipf", loss="max", num_trials=0), "num_trials must be"),
    ],
)
def test_bad_arguments_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        plan(Histogram(20), **given)


def test_a_question_is_asked():
    with pytest.raises(TypeError, match=r"question must be one of jaxdp\.design's"):
        plan(20, users=100, epsilon=1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="high must be above low"):
        Mean(1.0, 1.0)
    with pytest.raises(ValueError, match="num_values must be given"):
        PairStatistic(GiniDiversity())


def test_worst_data_of_a_bound_are_not_known():
    found = plan(
        PairStatistic(GiniMeanDifference(), 4),
        users=1000,
        epsilon=1.0,
        candidates={"rr": PairStatistic(GiniMeanDifference(), 4).candidates()["QuantizedRR"]},
        defaults=False,
    )
    with pytest.raises(
        ValueError, match="data must be given: the error for the worst data is a bo"
    ):
        found.simulate(10)
    assert found.simulate(50, data="uniform") < found.best.error


def test_a_secure_sum_has_the_error_of_a_curator(key):
    """As far as whole steps allow; users, epsilon or the error are asked for, as of the others."""
    question, given = Histogram(6), {"delta": 1e-6}
    both = rank(question, users=5000, epsilon=0.5, trust=["secure sum", "central"])
    errors = {option.trust: option.error for option in both.options}
    assert errors["secure sum"] == pytest.approx(errors["central"], rel=1e-3)
    found = plan(question, epsilon=0.5, error=errors["central"], trust="secure sum", **given)
    assert found.best.num_users == pytest.approx(5000, rel=2e-3)
    assert found.best.protocol.num_users == found.best.num_users
    assert found.privacy[0] <= 0.5
    assert 0 < found.privacy[1] <= 1e-6
    simulated = found.simulate(2000, key)
    assert abs(simulated - found.best.error) < 7 * simulated.stderr
    assert abs(simulated - 1.3 * found.best.error) > 7 * simulated.stderr  # the control
    assert "secure sum" in found.statement()
    with pytest.raises(ValueError, match="delta must be given for trust='secure sum'"):
        plan(question, users=5000, epsilon=0.5, trust="secure sum")
    with pytest.raises(ValueError, match="trust must be of those that have protocols"):
        plan(Mean(0, 1), users=5000, epsilon=0.5, trust="secure sum", **given)


def test_less_noise_for_more_trust():
    one = {"SubsetSelection": Histogram(10).candidates()["SubsetSelection"]}
    given = dict(candidates=one, defaults=False, delta=1e-6)
    trust = ["local", "shuffler", "central"]
    ranking = plan(Histogram(10), users=10_000, epsilon=0.5, trust=trust, **given)
    errors = {o.name: (o.trust, o.error) for o in ranking.options}
    assert ranking.best.trust == "central"
    shuffled, alone = errors["SubsetSelection, shuffled"], errors["SubsetSelection"]
    assert (shuffled[0], alone[0]) == ("shuffler", "local")
    assert shuffled[1] < alone[1] / 2
    spec = next(o for o in ranking.options if o.trust == "shuffler").protocol
    assert spec.exact_epsilon() <= 0.5
    assert spec.local_epsilon() > 0.5
    assert "shuffler" in str(ranking)


@pytest.mark.parametrize("asked", ["epsilon", "users"])
def test_shuffled_plans_ask_for_no_more_than_they_need(asked):
    """With a little less of it, the calibrated protocol has a larger error."""
    one = {"KRR": Histogram(10).candidates()["KRR"]}
    given = dict(candidates=one, defaults=False, delta=1e-6, trust="shuffler")
    known = {"users": {"epsilon": 0.3}, "epsilon": {"users": 10_000}}[asked]
    best = plan(Histogram(10), error=0.004, **known, **given).best
    assert best.error == pytest.approx(0.004, rel=1e-4)
    assert best.protocol.exact_epsilon() <= best.epsilon * (1 + 1e-9)
    numbers = {"epsilon": best.epsilon, "users": best.num_users}
    numbers[asked] *= 0.995
    less = plan(Histogram(10), **(numbers | {"users": int(numbers["users"])}), **given).best
    assert less.error > 0.004


def test_shuffled_plans_have_the_error_that_was_planned(key):
    one = {"Piecewise": Mean(0, 1).candidates()["Piecewise"]}
    given = dict(candidates=one, defaults=False, delta=1e-6, trust="shuffler")
    found = plan(Mean(0, 1), users=10_000, error=0.005, **given)
    assert found.best.epsilon < 1
    assert found.best.report_bytes is not None
    assert "People trust a shuffler" in " ".join(found.in_words().split())
    simulated = found.simulate(2000, key)
    assert abs(simulated - 0.005) < 0.005 * WITHIN + 7 * simulated.stderr


def test_trust_is_known():
    with pytest.raises(ValueError, match="delta must be given for trust='central'"):
        plan(Histogram(4), users=100, epsilon=1.0, trust="central")
    with pytest.raises(ValueError, match="trust must be one of"):
        rank(Histogram(4), users=100, epsilon=1.0, trust=["nobody"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="trust must be of those that have protocols"):
        plan(Mean(0, 1), users=100, epsilon=1.0, delta=1e-6, trust="central")


@pytest.mark.slow
def test_rankings_are_of_estimates_as_people_use_them():
    """For a prior both ways to use an estimate compete, and say how well they are known."""
    names = ("SubsetSelection", "HadamardResponse")
    makers = {name: Histogram(8).candidates()[name] for name in names}
    given = dict(users=500, epsilon=0.5, data="zipf", candidates=makers, defaults=False)
    found = plan(Histogram(8), **given)
    kinds = {option.name: option.error.kind for option in found.options}
    assert kinds == {
        "SubsetSelection": "exact",
        "SubsetSelection, projected": "simulated",
        "HadamardResponse": "exact",
        "HadamardResponse, projected": "simulated",
        "HadamardResponse, likelihood": "simulated",
    }
    assert found.best.error.kind == "simulated"
    assert "| simulated ±" in str(found).splitlines()[2]
    assert found.options[-1].error > 1.5 * found.best.error
    assert " words | " in str(found)
    again = plan(Histogram(8), **given, timed=True)
    assert all(option.cost.client_seconds > 0 for option in again.options)
    formulas = plan(Histogram(8), **given, num_trials=0)
    assert {option.error.kind for option in formulas.options} == {"exact"}
    ranking = rank(Histogram(4), users=500, epsilon=0.5, trust="local", data="uniform")
    assert ranking.best.error.kind == "simulated"
