"""TwoRound: exact errors by enumeration, golden numbers, and other queries within their bounds."""

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import jaxdp
from jaxdp.linear import FactorizedQueries, HistogramQuery, OracleQueries
from jaxdp.pairwise import KendallTau, TwoRound
from jaxdp.pairwise.rounds._two_round import Model
from jaxdp.randomizers import KRR, L2Ball
from tests import stats
from tests.marks import slow

W = np.array([[0.3, 1.0, -0.4], [1.0, 0.0, 0.6], [-0.4, 0.6, 0.9]])
VALUES = np.array([0, 0, 1, 2, 2, 2])
ball = functools.partial(FactorizedQueries, randomizer=L2Ball)
KINDS = [("users", "u", ball), ("users", "v", FactorizedQueries), ("budget", "u", ball)]
KINDS += [("budget", "v", FactorizedQueries)]


def direct(spec, values, first, second):
    """Mean, noise and answers' noise for given groups, by sums over users and full covariances."""
    code, n = spec.protocol.encoding(), len(values)
    form = code.randomizer.covariance_form()
    assert form is not None
    isotropic, along = form
    columns, matrix = code.embedding.astype(np.float64), spec.matrices()[0]
    step, own = 1.0, 0.0
    if spec.sharing == "budget" and spec.form == "u":
        step, own = n / (n - 1), -1 / (n - 1)
    elif spec.sharing == "users" and spec.form == "v":
        step, own = (n - 1) / n, 1 / n
    held = columns[values[first]]
    identity = np.eye(columns.shape[1])
    covariance = sum(isotropic * identity + along * np.outer(x, x) for x in held) / len(first) ** 2
    answers = step * (code.decoder @ held.mean(axis=0) + code.offset) + own * np.diagonal(matrix)
    heard = code.decoder[values[second]]
    pooled = step * heard.mean(axis=0)
    squares = answers[values[second]] ** 2
    squares = squares + step**2 * np.sum((heard @ covariance) * heard, axis=1)
    bit = spec.scalar_randomizer.magnitude**2 * spec.tau**2
    return answers[values[second]].mean(), pooled @ covariance @ pooled, (bit - squares).mean()


@pytest.mark.parametrize(("sharing", "form", "queries"), KINDS)
def test_error_for_given_users(sharing, form, queries):
    """Six users: all pairs of groups."""
    spec = TwoRound(W, 1.0, form=form, queries=queries, sharing=sharing, tau=3.0)
    counts, truth = np.bincount(VALUES), float(spec.truth(np.bincount(VALUES)))
    model = Model(spec, counts.astype(float), 6.0, False, np.ones(1))
    everyone = np.arange(6)
    for a in (2, 4) if sharing == "users" else (6,):
        groups = [
            (list(first), [i for i in everyone if i not in first] or everyone)
            for first in itertools.combinations(range(6), a)
        ]
        mean, noise, bit = np.array([direct(spec, VALUES, *group) for group in groups]).T
        sizes = np.array([[a], [len(groups[0][1])]]) * 1.0
        assert mean.mean() == pytest.approx(truth, abs=1e-6)
        assert model.split(sizes)[0] == pytest.approx(mean.var(), abs=1e-6)
        assert model.noise(sizes)[0] == pytest.approx(noise.mean(), rel=1e-6)
        assert model.scalar(sizes)[0] == pytest.approx(bit.mean(), rel=1e-6)


@pytest.mark.parametrize(("sharing", "form", "queries"), KINDS)
def test_error_for_independent_users(sharing, form, queries):
    """The errors of all samples of five users, by their probability."""
    spec = TwoRound(W[:2, :2], 1.0, form=form, queries=queries, sharing=sharing, tau=3.0)
    p, sizes = np.array([0.3, 0.7]), np.array([[3.0], [2.0]])
    if sharing == "budget":
        sizes = np.full((2, 1), 5.0)
    target, expected = float(spec.population_truth(p, 5)), np.zeros(3)
    for ones in range(6):
        counts = np.array([5 - ones, ones])
        model = Model(spec, counts.astype(float), 5.0, False, np.ones(1))
        found = np.array([model.split(sizes), model.noise(sizes), model.scalar(sizes)])[:, 0]
        found[0] += (float(spec.truth(counts)) - target) ** 2
        expected += binom.pmf(ones, 5, p[1]) * found
    model = Model(spec, p, 5.0, True, np.ones(1))
    found = np.array([model.split(sizes), model.noise(sizes), model.scalar(sizes)])[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_the_papers_two_rounds_in_closed_form():
    """`s**2 |R|**2 |R h|**2 / n + v tau**2 / n`, v the worst variance of a number."""
    spec: Any = TwoRound(W, 1.0, form="v", sharing="budget", share=0.6, scalar="laplace", tau=9.0)
    counts = np.array([4000, 2500, 3500])
    code: Any = spec.protocol.encoding()
    h = counts / 10**4
    pooled = code.decoder.T @ h
    noise = code.randomizer.worst_case_variance(10**4) * pooled @ pooled
    expected = noise + spec.scalar_randomizer.worst_case_variance(10**4) * 81
    assert expected < noise + 8 * 81 / (0.16 * 10**4)  # the paper's Laplace noise
    assert spec.variance(counts) == pytest.approx(expected, rel=1e-5)
    assert 0.999999 < spec.exact_epsilon() <= 1
    parts = spec.protocol.exact_epsilon(), spec.scalar_randomizer.exact_epsilon()
    assert spec.exact_epsilon() == sum(parts)
    assert TwoRound(W, 1.0).exact_epsilon() <= 1


def oracle(workload, epsilon):
    return OracleQueries(workload, KRR(len(workload), epsilon))


@pytest.mark.slow
def test_any_queries_within_the_bound(key):
    """k-ary randomized response in the first round: unbiased, and no exact prediction."""
    counts = [180, 80, 140]
    spec, users = TwoRound(W, 2.0, queries=oracle), jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, key, num_trials=400, method="tally")
    bound = spec.variance(counts)
    estimates, truth = trials.estimates, spec.truth(counts)
    stats.check_mean(estimates, truth, variance=bound)
    stats.check_variance(estimates, bound, mean=truth, kurtosis=6, at_most=True)
    moved = estimates + 0.8 * np.sqrt(bound)
    stats.must_fail(stats.check_mean, moved, truth, variance=bound)


@pytest.mark.parametrize("sharing", ["users", slow("budget")])
@pytest.mark.parametrize("scalar", ["bit", slow("laplace")])
@pytest.mark.parametrize("form", ["u", slow("v")])
def test_unclipped_errors_are_predicted(form, scalar, sharing, key):
    """The range has the mean square of fixed normal draws."""
    counts = [900, 400, 700]
    spec = TwoRound(W, 1.0, form=form, scalar=scalar, sharing=sharing)
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, key, num_trials=4000, method="tally")
    predicted = spec.variance(counts)
    assert spec.variance_kind == "delta"
    about: Any = dict(mean=spec.truth(counts), kurtosis=8)
    stats.check_variance(trials.estimates, predicted, **about)
    stats.must_fail(stats.check_variance, trials.estimates, 1.7 * predicted, **about)


def test_bounds_are_ordered():
    counts = np.array([900, 400, 700])
    every: Any = ({}, {"tau": 4.0}, {"tau": 6.0, "sharing": "budget"})
    other: Any = ({"queries": oracle}, {"queries": oracle, "tau": 3.0})
    for options in (*every, *other):
        spec = TwoRound(W, 1.0, **options)
        assert 0 < spec.variance(counts) <= spec.worst_case_variance(2000) < np.inf
        assert spec.population_variance(counts / 2000, 2000) > 0
    assert TwoRound(W, 1.0).variance(counts) < TwoRound(W, 1.0, tau=4.0).variance(counts)


def test_bad_input():
    for make, name in (
        (lambda: TwoRound(W, 1.0, share=0.0), "share"),
        (lambda: TwoRound(W, 1.0, sharing="both"), "sharing"),
        (lambda: TwoRound(KendallTau("b"), 1.0, num_values=(2, 2), tau=1.0), "tau"),
        (lambda: TwoRound(W, 1.0, queries=lambda w, e: KRR(3, e)), "queries"),  # pyright: ignore
        (lambda: TwoRound(W, 1.0, queries=lambda w, e: HistogramQuery(KRR(4, e))), "queries"),
        (lambda: TwoRound(W, 1.0, queries=3), "queries"),  # pyright: ignore
    ):
        with pytest.raises((ValueError, TypeError), match=name):
            make()
