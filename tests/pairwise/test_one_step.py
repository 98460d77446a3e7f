"""OneStep: exact errors by enumeration of the split and of the users, and what is broadcast."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, truncnorm

import jaxdp
from jaxdp.engine import outcome
from jaxdp.pairwise import KendallTau, OneStep
from jaxdp.pairwise.rounds._group_errors import check_groups, clipped, group_sizes, squared_range
from jaxdp.pairwise.rounds._one_step import conditional_error
from jaxdp.randomizers import PrivUnit, PrivUnitG, Tail
from tests import stats
from tests.marks import slow

W = np.array([[0.3, 1.0, -0.4], [1.0, 0.0, 0.6], [-0.4, 0.6, 0.9]])


def split_moments(spec, values, first, n):
    """Mean and variance of the estimate for given users and group A, from the reports' cumulants.

    An independent derivation: sums over users, nothing averaged.
    """
    factor = spec.factor
    columns = factor.columns.astype(np.float64)
    signs, gamma = factor.scales, spec.vector_randomizer.threshold
    t, bit = factor.radius**2 / gamma**2, spec.scalar_randomizer
    a, b = len(first), n - len(first)
    step, own = a / (a + 1), 1 / (a + 1)
    if spec.form == "v":
        step, own = step * (n - 1) / n, own * (n - 1) / n + 1 / n
    held = columns[values]
    group = np.isin(np.arange(n), first)
    one, two = held[group], held[~group]
    d_one, d_two = (np.sum(x**2 * signs, axis=1) for x in (one, two))
    mean = one.mean(axis=0)
    answers = 2 * step * two @ (signs * mean) + own * d_two
    expected = answers.mean() - step * mean @ (signs * mean) + factor.constant
    slope = two.mean(axis=0) - mean
    linear = a * (2 * step / a) ** 2 * t * slope @ slope
    square = (step / a**2) ** 2 * (2 * t**2 * len(signs) * a**2 + np.sum(d_one**2) / gamma**2)
    cross = (
        -2 * (2 * step / a) * (step / a**2) * -np.sum(d_one * (one @ (signs * slope))) / gamma**2
    )
    noise = 4 * step**2 * t / a * np.sum(two**2, axis=1)
    answered = np.sum(bit.magnitude**2 * spec.tau**2 - answers**2 - noise) / b**2
    return expected, linear + square + cross, answered


@pytest.mark.parametrize("form", [slow("u"), "v"])
def test_error_is_that_of_every_split(form):
    """Six users: all groups A of each size; with the error of one term left out as the control."""
    spec = OneStep(W, 1.0, form=form, tau=3.0)
    values = np.array([0, 0, 1, 2, 2, 2])
    counts = np.bincount(values).astype(float)
    truth = float(spec.truth(counts.astype(int)))
    for a in (2, 3, 5):
        found = [
            split_moments(spec, values, first, 6) for first in itertools.combinations(range(6), a)
        ]
        mean, noise, answered = np.array(found).T
        assert mean.mean() == pytest.approx(truth, abs=1e-6)
        split, numbers = conditional_error(
            spec, spec.factor, counts, 6.0, np.array([[a], [6 - a]]) * 1.0, False
        )
        expected = np.mean((mean - truth) ** 2 + noise)
        assert split[0] == pytest.approx(expected, rel=1e-5)
        assert abs(split[0] / np.mean(noise) - 1) > 1e-3
        assert numbers[0] == pytest.approx(answered.mean(), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["u", "v"])
def test_error_for_independent_users(form):
    """The errors of all samples of five users, by their probability."""
    spec = OneStep(W[:2, :2], 1.0, form=form, tau=3.0)
    p = np.array([0.3, 0.7])
    sizes, target = np.array([[3.0], [2.0]]), float(spec.population_truth(p, 5))
    expected = np.zeros(2)
    for ones in range(6):
        counts = np.array([5.0 - ones, ones])
        split, numbers = conditional_error(spec, spec.factor, counts, 5.0, sizes, False)
        bias = float(spec.truth(counts.astype(int))) - target
        expected += binom.pmf(ones, 5, p[1]) * np.array([split[0] + bias**2, numbers[0]])
    found = np.array(conditional_error(spec, spec.factor, p, 5.0, sizes, True))[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_cumulants_of_a_report():
    """Along the padded input a report has the third and fourth cumulants -gamma and gamma**2."""
    spec = PrivUnitG(4, 1.3)
    (p, _), gamma = spec.probabilities(), spec.threshold
    parts = ((p, truncnorm(gamma, np.inf)), (1 - p, truncnorm(-np.inf, gamma)))
    raw = [sum(w * law.moment(k) for w, law in parts) for k in (1, 2, 3, 4)]
    mean = raw[0]
    assert mean == pytest.approx(gamma, rel=1e-6)
    third = raw[2] - 3 * mean * raw[1] + 2 * mean**3
    fourth = raw[3] - 4 * mean * raw[2] + 6 * mean**2 * raw[1] - 3 * mean**4
    assert third == pytest.approx(-gamma, rel=1e-5)
    assert fourth - 3 == pytest.approx(gamma**2, rel=1e-5)


@pytest.mark.parametrize(("n", "shares"), [(200, (0.3, 0.7)), (900, (0.2, 0.3, 0.5))])
def test_sizes_of_groups(n, shares):
    groups = group_sizes(n, shares)
    np.testing.assert_allclose(groups.sizes.sum(axis=0), n)
    for size, share in zip(groups.sizes, shares, strict=True):
        a = np.arange(2, n)
        law = binom.pmf(a, n, share)
        for f in (lambda x: 1 / x, lambda x: (x - 2) / (x * (x - 1)), lambda x: x**2):
            assert groups.weights @ f(size) == pytest.approx(law @ f(a) / law.sum(), rel=1e-8)
    with pytest.raises(ValueError, match="num_users"):
        check_groups(20, shares)


def test_ranges_and_clipping_are_bounded(rng):
    """Normal numbers with known means; both bounds hold, the first within a factor of 2."""
    means, sd = np.array([-1.0, 0.2, 1.5]), np.array([0.3, 0.2, 0.4])
    tails = [Tail(s**2, 0.0) for s in sd]
    drawn = means + sd * rng.normal(size=(100_000, 3))
    square = (np.ptp(drawn, axis=1) / 2) ** 2
    bound = squared_range(means, means, tails)
    assert square.mean() < bound < 2 * square.mean()
    second, excess = clipped(np.abs(means), 2.0, tails)
    beyond = np.maximum(np.abs(drawn) - 2.0, 0)
    assert np.all((beyond**2).mean(axis=0) <= second)
    assert np.all((beyond**2 + 4 * beyond).mean(axis=0) <= excess)
    assert second[2] < 40 * (beyond[:, 2] ** 2).mean()
    assert clipped(np.array([2.0]), 1.0, tails[:1])[0][0] == math.inf
    assert squared_range(means, means, [Tail(0.0, 0.0)] * 3) == pytest.approx(1.25**2)


@pytest.mark.parametrize("randomizer", [PrivUnitG, slow(PrivUnit)])
@pytest.mark.parametrize("form", ["u", slow("v")])
@pytest.mark.parametrize("counts", [slow((900, 400, 700)), (2000, 0, 0), slow((1000, 0, 1000))])
def test_unclipped_errors_are_predicted(counts, form, randomizer, key):
    """By default nothing is clipped, and the range has the mean square of fixed normal draws."""
    spec = OneStep(W, 1.0, form=form, randomizer=randomizer)
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, users, key, num_trials=4000, method="tally")
    predicted = spec.variance(counts)
    assert spec.variance_kind == "delta"
    about: Any = dict(mean=spec.truth(counts), kurtosis=6)
    stats.check_variance(trials.estimates, predicted, **about)
    stats.must_fail(stats.check_variance, trials.estimates, 1.6 * predicted, **about)


def test_bounds_are_ordered():
    counts, wide = [900, 400, 700], OneStep(W, 1.0, tau=4.0)
    assert OneStep(W, 1.0).variance(counts) < OneStep(W, 1.0).worst_case_variance(2000)
    assert OneStep(W, 1.0).worst_case_variance(2000) < wide.variance(counts)
    for n in (2000, 10**7):
        assert wide.variance(np.array(counts) * n // 2000) <= wide.worst_case_variance(n)


def test_leading_error_does_not_depend_on_the_factorization():
    """`(c**2 tau**2 - E g**2) / b + 4 zeta_1 a / (n b)` and the rest is of second order."""
    spec: Any = OneStep(W, 1.0, tau=4.0)
    h, n = np.array([0.45, 0.2, 0.35]), 10**9
    centred = W - spec.factor.constant
    g = 2 * centred @ h
    bit = spec.scalar_randomizer.magnitude**2 * 16 - h @ g**2
    spread = h @ (W @ h) ** 2 - (h @ W @ h) ** 2
    leading = (bit + 4 * spread) / (n / 2)  # for independent users
    assert spec.population_variance(h, n) == pytest.approx(leading, rel=1e-6)
    given = (bit + 2 * spread) / (n / 2)
    assert spec.variance((h * n).round().astype(int)) == pytest.approx(given, rel=1e-6)


@pytest.mark.slow
def test_what_is_broadcast(key):
    spec: Any = OneStep(W, 1.0)
    users = jaxdp.Population.from_histogram([900, 400, 700])
    found = outcome(spec, users, key, method="tally")
    told = found.broadcasts
    assert np.abs(told["values"]).max() == 1
    answers = told["middle"] + told["tau"] * told["values"]
    a = float(found.tallies["vectors"]["users"].numpy())
    direct = 2 * a / (a + 1) * spec.factor.columns @ (spec.factor.scales * told["mean"])
    direct += np.diagonal(spec.factor.centred) / (a + 1)
    np.testing.assert_allclose(answers, direct, atol=1e-5)
    numbers = {name: count.numpy() for name, count in found.tallies["numbers"].items()}
    mean = spec.scalar_randomizer.magnitude * numbers["sum"] / numbers["users"]
    number = told["middle"] + told["tau"] * mean
    estimate = jaxdp.run(spec, users, key, method="tally")
    assert estimate == pytest.approx(number - told["square"] + spec.factor.constant, abs=1e-5)


def test_bad_input():
    for make, name in (
        (lambda: OneStep(W, 1.0, share=1.0), "share"),
        (lambda: OneStep(W, 1.0, tau=0.0), "tau"),
        (lambda: OneStep(W, 1.0, scalar="bits"), "scalar"),
        (lambda: OneStep(KendallTau("b"), 1.0, num_values=(2, 2), tau=1.0), "tau"),
    ):
        with pytest.raises(ValueError, match=name):
            make()
    with pytest.raises(ValueError, match="num_users"):
        OneStep(W, 1.0).check_population(jaxdp.Population.from_histogram([3, 4, 5]))
    tight = OneStep(W, 1.0, tau=0.5)
    assert tight.variance([900, 400, 700]) == math.inf
