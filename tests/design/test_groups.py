"""Groups with an epsilon each, weights, who does not report, changes, and priors that are wrong."""

import math

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.design import (
    Change,
    Histogram,
    Mean,
    TopK,
    design_effect,
    plan,
    pooled,
    several,
)
from jaxdp.linear import HistogramQuery, Projected
from jaxdp.population import maximum_entropy
from jaxdp.randomizers import KRR, Memoised
from tests.marks import slow

EPSILONS, SHARES = {"careful": 0.5, "open": 2.0}, {"careful": 3, "open": 1}
FEW = {"KRR": lambda e, _: HistogramQuery(KRR(4, e))}


def close(simulated, predicted):
    """Within what chance explains, at a false alarm of 1e-9."""
    return abs(simulated - predicted) < 6.2 * simulated.stderr


@pytest.mark.parametrize("alike", [False, True])
def test_pooled_errors_are_those_of_the_average(alike, key):
    """Each group runs its protocol on data of its own, alike or not."""
    found = pooled(Histogram(4), EPSILONS, SHARES, users=20_000, data="uniform", alike=alike)
    held = {"careful": [1, 1, 1, 1], "open": [1, 1, 1, 1] if alike else [4, 2, 1, 1]}
    estimates, truth = 0.0, 0.0
    for place, (name, option) in enumerate(found.options.items()):
        counts = np.array(held[name]) * (option.num_users // sum(held[name]))
        users = jaxdp.Population.from_histogram(counts)
        trials = jaxdp.simulate(
            option.protocol, users, jax.random.fold_in(key, place), num_trials=4000
        )
        weight = found.weights[name]
        estimates = estimates + weight * trials.estimates
        truth = truth + counts / counts.sum() * SHARES[name] / 4
    squares = np.square(estimates - truth).mean(axis=1)
    error = math.sqrt(squares.mean())
    stderr = squares.std() / math.sqrt(len(squares)) / (2 * error)
    assert abs(error - found.error) < 6.2 * stderr + (0.05 if not alike else 0.0) * found.error
    assert found.error.kind == "exact"
    assert sum(found.weights.values()) == pytest.approx(1.0)


def test_pooled_users_are_solved_for():
    found = pooled(Histogram(10), EPSILONS, SHARES, error=0.01)
    assert found.error <= 0.01
    assert pooled(Histogram(10), EPSILONS, SHARES, users=found.num_users).error == found.error
    fewer = round(0.999 * found.num_users)
    assert pooled(Histogram(10), EPSILONS, SHARES, users=fewer).error > 0.01
    alike = pooled(Histogram(10), EPSILONS, SHARES, error=0.01, alike=True)
    assert alike.num_users < found.num_users
    assert "| careful |" in str(found)
    one = plan(Histogram(10), users=20_000, epsilon=1.0).best.error
    same = pooled(Histogram(10), {"a": 1.0, "b": 1.0}, {"a": 1, "b": 1}, users=20_000)
    assert same.error == pytest.approx(one, rel=1e-3)


def test_pooled_epsilons_are_solved_for():
    """By a common factor: the round trip, what is least, and what does not exist."""
    for alike in (False, True):
        given = dict(users=20_000, data="uniform", alike=alike)
        found = pooled(Histogram(10), EPSILONS, SHARES, error=0.01, **given)
        assert found.error <= 0.01
        reached = {name: option.epsilon for name, option in found.options.items()}
        assert reached == {name: found.factor * e for name, e in EPSILONS.items()}
        assert pooled(Histogram(10), reached, SHARES, **given).error == found.error
        less = {name: 0.999 * epsilon for name, epsilon in reached.items()}
        assert pooled(Histogram(10), less, SHARES, **given).error > 0.01
    assert pooled(Histogram(10), EPSILONS, SHARES, users=20_000).factor == 1
    in_proportion = {name: 100 * e for name, e in EPSILONS.items()}
    again = pooled(Histogram(10), in_proportion, SHARES, error=0.01, **given)
    assert again.factor == pytest.approx(found.factor / 100, rel=2e-4)
    with pytest.raises(ValueError, match="needs epsilon above"):
        pooled(Histogram(10), EPSILONS, SHARES, users=50, error=1e-9)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(shares={"careful": 1}), "shares must be of the groups that have epsilons"),
        (dict(users=None), "users and error must all be given but one"),
        (dict(users=5), "shares must leave two users to each group, 'open' has 1"),
        (dict(loss="max"), "loss must be one of 'rmse', 'worst'"),
        (dict(question=TopK(4, 1)), "question must be one whose answers are numbers"),
        (dict(shares={"careful": -1, "open": 2}), "shares must be finite"),
    ],
)
def test_pooled_refuses(changed, message):
    given = dict(question=Histogram(4), epsilons=EPSILONS, shares=SHARES, users=100) | changed
    with pytest.raises(ValueError, match=message):
        pooled(**given)


def test_different_epsilons_have_a_remedy():
    for given in (dict(users=100, epsilon=[0.5, 1.0]), dict(users=[10, 20], epsilon=1.0)):
        with pytest.raises(ValueError, match=r"must be one number.*use jaxdp\.design\.pooled"):
            plan(Histogram(4), **given)


def test_weights_and_who_does_not_report():
    effect = design_effect([1, 1, 2, 4])
    assert effect == 4 * 22 / 64
    plain = plan(Histogram(10), epsilon=1.0, error=0.01)
    found = plan(Histogram(10), epsilon=1.0, error=0.01, response=0.5, design_effect=effect)
    assert found.best == plain.best
    assert found.num_asked == math.ceil(plain.best.num_users * effect / 0.5)
    again = plan(
        Histogram(10), users=found.num_asked, epsilon=1.0, response=0.5, design_effect=effect
    )
    assert again.best.num_users == plain.best.num_users
    assert again.num_asked == found.num_asked
    assert found.to_json()["asked"] == found.num_asked
    words = " ".join(found.in_words().split())
    assert f"Whom to ask: {found.num_asked:,} people, of whom 50% are expected to report" in words
    assert "design effect of 1.38" in words
    assert plan(Histogram(10), epsilon=1.0, error=0.01, design_effect=effect).least_error == 0
    with pytest.raises(ValueError, match="response must be"):
        plan(Histogram(10), epsilon=1.0, error=0.01, response=0.0)
    with pytest.raises(ValueError, match="design_effect must be"):
        plan(Histogram(10), epsilon=1.0, error=0.01, design_effect=0.9)
    with pytest.raises(ValueError, match="users must leave two whose reports count"):
        plan(Histogram(10), users=3, epsilon=1.0, response=0.5)
    with pytest.raises(ValueError, match="weights must be"):
        design_effect([0.0])


def test_weighted_errors_are_those_of_the_design_effect(key):
    """On the worst data, where all users' noise is alike: exactly as planned."""
    weights, sizes = np.array([1.0, 3.0]), np.array([600, 200])
    effect = design_effect(np.repeat(weights, sizes))
    found = plan(
        Histogram(4),
        users=800,
        epsilon=1.0,
        design_effect=effect,
        candidates=FEW,
        defaults=False,
    )
    spec, total = found.best.protocol, float(weights @ sizes)
    estimates = 0.0
    for place, (weight, size) in enumerate(zip(weights, sizes, strict=True)):
        users = jaxdp.Population.from_histogram([size, 0, 0, 0])
        part = jaxdp.simulate(spec, users, jax.random.fold_in(key, place), num_trials=4000)
        estimates = estimates + weight * size / total * part.estimates
    squares = np.square(estimates - np.eye(4)[0]).mean(axis=1)
    error = math.sqrt(squares.mean())
    stderr = squares.std() / math.sqrt(len(squares)) / (2 * error)
    assert abs(error - found.best.error) < 6.2 * stderr + 2e-3 * error


CHANGES = {"histogram": Change(Histogram(6), 0.2), "mean": Change(Mean(0.0, 4.0), 0.5)}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("data", ["worst", slow("uniform")])
def test_changes_have_the_noise_of_those_who_changed(name, data, key):
    asked = CHANGES[name]
    first = next(iter(asked.question.candidates()))
    only = {first: asked.question.candidates()[first]}
    found = plan(asked, users=5000, epsilon=2.0, data=data, candidates=only, defaults=False)
    exact = next(o for o in found.options if o.error.kind == "exact")
    simulated = found.simulate(4000, key, option=found.options.index(exact))
    assert close(simulated, exact.error)
    assert exact.protocol.exact_epsilon() <= 1.0  # two reports of a person have 2
    assert found.num_reports == 2
    some = round(asked.changed * 5000)
    alone = plan(asked.question, users=some, epsilon=1.0, data=data, candidates=only)
    one = next(o for o in alone.options if o.name == first)
    assert exact.error == pytest.approx(asked.changed * math.sqrt(2) * one.error, rel=1e-6)
    assert "2 reports of a person" in " ".join(found.statement().split())


def test_remembered_reports_cancel(key):
    """Users with permanent reports: simulated as their devices act, all of them."""
    spec, changed = HistogramQuery(KRR(4, 1.0)), 0.1
    size, some = 1000, 100
    params = spec.build()
    values = np.zeros(size, np.int32)
    after = values.copy()
    after[:some] = 1

    @jax.jit
    def difference(key):
        old, new = (jax.random.split(jax.random.fold_in(key, i), size) for i in (0, 1))
        first = jax.vmap(params.privatize)(old, values)
        fresh = jax.vmap(params.privatize)(new, after)
        second = jax.numpy.where(jax.numpy.arange(size) < some, fresh, first)
        return params.estimate(params.tally(second)) - params.estimate(params.tally(first))

    found = np.stack([np.asarray(difference(jax.random.fold_in(key, t))) for t in range(2000)])
    truth = np.array([-0.1, 0.1, 0.0, 0.0])
    squares = np.square(found - truth).mean(axis=1)
    asked = Change(Histogram(4), changed)
    users = asked.users(([1, 0, 0, 0], [0, 1, 0, 0]), size)
    predicted = asked.errors(spec, size, users).mean
    assert abs(squares.mean() - predicted) < 6.2 * squares.std() / math.sqrt(len(squares))
    whole = Change(Histogram(4), 1.0)
    fresh = whole.errors(spec, size, whole.users(([1, 0, 0, 0], [0, 1, 0, 0]), size)).mean
    assert predicted == pytest.approx(0.1 * fresh, rel=1e-6)


def test_changes_refuse():
    memoised = {"two stages": lambda e, _: HistogramQuery(Memoised(KRR(4, e), KRR(4, 3.0)))}
    given = dict(users=1000, epsilon=2.0, candidates=memoised, defaults=False)
    with pytest.raises(ValueError, match=r"see jaxdp\.randomizers\.Memoised\.change_variance"):
        plan(Change(Histogram(4), 0.1), **given)
    assert plan(Change(Histogram(4), 1.0), **given).best.error > 0  # all fresh
    with pytest.raises(ValueError, match="changed must be of two users"):
        plan(Change(Histogram(4), 0.0), users=1000, epsilon=1.0)
    with pytest.raises(ValueError, match="trust must be 'local' for 2 reports"):
        plan(Change(Histogram(4)), users=1000, epsilon=1.0, delta=1e-6, trust="central")
    with pytest.raises(ValueError, match="question must be one whose answers are numbers"):
        Change(Change(Histogram(4)))
    both = several({"a": Change(Histogram(4), 0.5), "b": Mean(0, 1)}, users=10_000, epsilon=1.0)
    assert both.best.name == "groups"


def test_a_prior_that_is_wrong():
    prior = maximum_entropy(range(8), 1.0)
    found = plan(Histogram(8), users=5000, epsilon=1.0, data=prior, num_trials=100)
    assert isinstance(found.best.protocol, Projected) or found.best.error.kind == "simulated"
    shown = found.sensitivity({"own": prior, "uniform": "uniform", "worst": "worst"})
    assert shown.errors["own"] == shown.planned
    assert shown.errors["worst"][0].kind == "bound"
    assert shown.errors["uniform"][0] > found.best.error
    assert "(1.00 times)" in str(shown)
    assert str(shown).count("<= ") == sum(e.kind == "bound" for e in shown.errors["worst"])
    names = found.sensitivity(num_options=1)
    assert list(names.errors) == ["uniform", "zipf", "worst"]
    with pytest.raises(TypeError, match="data must be by name"):
        found.sensitivity("zipf")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="data must be one of"):
        found.sensitivity(["normal"])
    top = plan(TopK(4, 1), users=2000, epsilon=1.0, data=[4, 2, 1, 1], num_trials=50)
    assert list(top.sensitivity(["zipf", "worst"]).errors) == ["zipf"]
