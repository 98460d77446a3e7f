"""ThreeRound: the printed constants, and errors within their bounds."""

from typing import Any

import numpy as np
import pytest

import jaxdp
from jaxdp._contract import Work
from jaxdp.bounds._interactive import three_round_mse
from jaxdp.engine import outcome
from jaxdp.pairwise import KendallTau, ThreeRound
from jaxdp.projections import hull
from jaxdp.random import Count
from jaxdp.randomizers import Laplace, PrivUnit, PrivUnitG
from tests import stats
from tests.marks import slow

W = np.array([[0.3, 1.0, -0.4], [1.0, 0.0, 0.6], [-0.4, 0.6, 0.9]])
PAPER: Any = ThreeRound(W, 1.0, form="v", variant="paper")
COUNTS = np.array([900, 400, 700])


def test_the_papers_constant():
    """Both numbers' noise is 17 |W|**2 v / n, less than the paper's 2176 |W|**2 / (eps**2 n)."""
    for epsilon in (0.5, 1.0):
        spec = ThreeRound(3 * W, epsilon, form="v", variant="paper")
        n = 10**9
        golden = 17 * 9 * Laplace(epsilon / 4).worst_case_variance(n)
        assert golden < 0.6 * 2176 * 9 / (epsilon**2 * n)
        assert golden < spec.worst_case_variance(n) < 1.002 * golden
        assert spec.variance(COUNTS * 10**6) == pytest.approx(golden / 2, rel=2e-3)
    assert PAPER.tau is None
    assert float(PAPER.build().tau) == 4 * PAPER.norm == 4.0


@pytest.mark.slow
def test_privacy_adds_up():
    scalar = PAPER.scalar_randomizer.exact_epsilon()
    vector = PAPER.vector_randomizer.exact_epsilon()
    assert 0.2499 < vector <= 0.25
    assert PAPER.exact_epsilon() == 2 * vector + 2 * scalar <= 1
    assert 0.9999 < ThreeRound(W, 1.0).exact_epsilon() <= 1


@pytest.mark.slow
def test_paper_errs_as_predicted(key):
    """400 trials; the bound is tight here, so that it is tested from both sides."""
    users = jaxdp.Population.from_histogram(COUNTS)
    trials = jaxdp.simulate(PAPER, users, key, num_trials=400, method="tally")
    bound, truth = PAPER.variance(COUNTS), PAPER.truth(COUNTS)
    stats.check_mean(trials.estimates, truth, variance=bound)
    stats.check_variance(trials.estimates, bound, mean=truth, kurtosis=4)
    stats.must_fail(stats.check_variance, trials.estimates, 3 * bound, mean=truth, kurtosis=4)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["u", "v"])
@pytest.mark.parametrize("method", ["tally", "per_user"])
def test_tuned_errs_within_its_bound(form, method, key):
    spec, users = (
        ThreeRound(W, 1.0, form=form, tau="bound"),
        jaxdp.Population.from_histogram(COUNTS),
    )
    trials = jaxdp.simulate(spec, users, key, num_trials=1000, method=method)
    bound, truth = spec.variance(COUNTS), spec.truth(COUNTS)
    stats.check_mean(trials.estimates, truth, variance=bound)
    about: Any = dict(mean=truth, kurtosis=6, at_most=True)
    stats.check_variance(trials.estimates, bound, **about)
    stats.must_fail(stats.check_variance, trials.estimates, bound / 8, **about)


@pytest.mark.parametrize("form", ["u", slow("v")])
@pytest.mark.parametrize("randomizer", [PrivUnitG, slow(PrivUnit)])
@pytest.mark.parametrize("counts", [slow((900, 400, 700)), (2000, 0, 0), slow((1000, 0, 1000))])
def test_unclipped_errors_are_predicted(counts, randomizer, form, key):
    """By fixed normal draws; the bound that it replaced was twice the error."""
    spec = ThreeRound(W, 1.0, form=form, randomizer=randomizer)
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, key, num_trials=4000, method="tally")
    predicted, truth = spec.variance(counts), spec.truth(counts)
    assert spec.variance_kind == "delta"
    about: Any = dict(mean=truth, kurtosis=6)
    stats.check_variance(trials.estimates, predicted, **about)
    stats.must_fail(stats.check_variance, trials.estimates, 1.6 * predicted, **about)


@pytest.mark.slow
def test_what_is_broadcast(key):
    """mu is in the hull, and the estimate is what the transcript says."""
    spec: Any = ThreeRound(W, 1.0)
    population = jaxdp.Population.from_histogram(COUNTS)
    found = outcome(spec, population, key, method="tally")
    told, factor = found.broadcasts, spec.factor
    center = factor.scales * told["center"]
    again = hull(center, factor.columns.T.astype(float), tol=1e-12, float64=True)
    np.testing.assert_allclose(again.point, center, atol=1e-4)
    answers = factor.columns @ (told["center"] + factor.scales * told["mean"])
    numbers = told["numbers"]
    np.testing.assert_allclose(
        numbers["middle"] + numbers["tau"] * numbers["values"], answers, atol=1e-5
    )
    groups = [found.tallies[name]["users"].numpy().sum() for name in ("center", "mean")]
    total, users = (found.tallies["numbers"][name].numpy() for name in ("sum", "users"))
    assert sum(groups) + users == 2000
    scale = numbers["tau"] * spec.scalar_randomizer.magnitude / users
    expected = numbers["middle"] + scale * total - told["constant"] + factor.constant
    estimate = jaxdp.run(spec, population, key, method="tally")
    assert estimate == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("form", ["u", "v"])
def test_numbers_stay_in_the_data_independent_bound(form):
    """All users hold one value; noise of y up to the bound is let through, and more is clipped."""
    spec: Any = ThreeRound(W, 1.0, form=form, tau="bound")
    params, factor, users = spec.build(), spec.factor, 400
    limit, margin = spec.clip
    assert limit == 2 * np.abs(factor.centred).max()
    variance = spec.vector_randomizer.tail().variance
    assert margin == pytest.approx(factor.radius * np.sqrt(2 * np.log(2e9) * variance))
    tau = limit + margin / np.sqrt(users)
    held = factor.columns[0].astype(np.float64)
    center = (factor.scales * held).astype(np.float32)
    for share in (0.99, 1.01):
        added = share * tau - 2 * factor.centred[0, 0]
        mean = held + factor.scales * held * added / (held @ held)
        total = np.rint(users * mean / params.vectors.inner.unit).astype(np.int64)
        tally = {"sum": Count.of(total), "users": Count.of(np.int64(users))}
        told = params._numbers({"center": center}, tally, Count.of(np.int64(10**9)))["numbers"]
        assert float(told["tau"]) == pytest.approx(tau)
        assert float(told["values"][0]) == pytest.approx(min(share, 1.0), abs=1e-3)


@pytest.mark.parametrize("num_users", [300, slow(10**4), slow(10**7)])
@pytest.mark.parametrize("epsilon", [0.3, slow(1.0), slow(4.0)])
@pytest.mark.parametrize("size", [3, slow(8)])
def test_the_range_has_less_predicted_error_than_the_bound(size, epsilon, num_users, rng):
    """Why it is the default: in the worst case, and for given users."""
    matrix = W if size == 3 else np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    counts = rng.multinomial(num_users, np.full(size, 1 / size))
    one, other = (ThreeRound(matrix, epsilon, tau=tau) for tau in (None, "bound"))
    assert one.worst_case_variance(num_users) < other.worst_case_variance(num_users) < np.inf
    assert one.variance(counts) < 0.7 * other.variance(counts)
    assert other.variance(counts) <= other.worst_case_variance(num_users)


def test_bounds_are_ordered():
    every: Any = ({}, {"tau": 4.0}, {"tau": "bound"}, {"form": "v"})
    for options in every:
        spec = ThreeRound(W, 1.0, **options)
        assert spec.variance(COUNTS) <= spec.worst_case_variance(2000)
        given, drawn = spec.variance(COUNTS), spec.population_variance(COUNTS / 2000, 2000)
        assert 0.98 * given < drawn < 2 * given
    assert PAPER.variance(COUNTS) <= PAPER.worst_case_variance(2000)
    assert PAPER.variance(COUNTS) < PAPER.population_variance(COUNTS / 2000, 2000)


def test_bounds_without_the_matrix():
    """`bounds.three_round_mse` of the norms is that of the worst data, or more."""
    n, factor = 10**6, PAPER.factor
    options: Any = dict(num_values=3, num_users=n, epsilon=1.0, rank=factor.scales.size)
    alone = three_round_mse(PAPER.norm, factor.radius**2, **options)
    assert alone == pytest.approx(PAPER.worst_case_variance(n), rel=1e-6)
    spec = ThreeRound(W, 1.0)
    norm = float(np.abs(spec.factor.centred).max())
    alone = three_round_mse(norm, spec.factor.radius**2, variant="tuned", **options)
    assert spec.worst_case_variance(n) < alone < 3 * spec.worst_case_variance(n)


def test_bad_input():
    for make, name in (
        (lambda: ThreeRound(W, 1.0, variant="paper"), "form"),
        (lambda: ThreeRound(W, 1.0, variant="theirs"), "variant"),
        (lambda: ThreeRound(W, 1.0, shares=(0.5, 0.5)), "shares"),  # pyright: ignore
        (lambda: ThreeRound(W, 1.0, shares=(0.5, 0.5, 0.5)), "shares"),
        (lambda: ThreeRound(KendallTau("b"), 1.0, num_values=(2, 2), tau=1.0), "tau"),
        (lambda: ThreeRound(W, 1.0, tau=-1.0), "tau"),
        (lambda: ThreeRound(W, 1.0, tau="range"), "tau"),
        (lambda: ThreeRound(W, 1.0, form="v", variant="paper", tau="bound"), "tau"),
    ):
        with pytest.raises((ValueError, TypeError), match=name):
            make()
    with pytest.raises(ValueError, match="num_users"):
        ThreeRound(W, 1.0).check_population(jaxdp.Population.from_histogram([30, 20, 10]))


def test_per_user_costs_are_of_all_users_in_each_round():
    # Those of the other groups are masked, not skipped.
    work = Work(num_users=1e6, num_bins=4)
    params = ThreeRound(KendallTau(), epsilon=1.0, num_values=(2, 2)).build()
    each = sum(step.round.user_cost(step.work) for step in params.rounds(work))
    assert params.cost(work).per_user == pytest.approx(1e6 * each)
    assert sum(step.work.num_users for step in params.rounds(work)) == pytest.approx(1e6)
