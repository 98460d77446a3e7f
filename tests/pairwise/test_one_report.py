"""One report of a vector: errors exactly as predicted, and those of the norms."""

import functools
import itertools

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.data import load_flights
from jaxdp.factorization import explicit, gamma2, signed
from jaxdp.pairwise import (
    AUC,
    CollisionEntropy,
    GiniCoefficient,
    GiniDiversity,
    GiniMeanDifference,
    KendallTau,
    OneReport,
    PairKernel,
    TwoReport,
)
from jaxdp.random import Count
from jaxdp.randomizers import CandidateResponse, Gaussian, L2Ball, PrivUnit, PrivUnitG
from tests import stats

NOISE = PrivUnitG(1, 1.0).worst_case_variance(1)  # 6.33
COUNTS = np.array([3, 1, 4, 2, 5, 2])
GINI = GiniMeanDifference()
LINEAR = {  # all of six values, so that solvers are compiled once
    "gini": (GINI, 6),
    "kendall": (KendallTau(), (2, 3)),
    "auc": (AUC(class_sizes=(4, 6)), (2, 3)),
    "diversity": (GiniDiversity(), 6),
    "any": (PairKernel.from_matrix(np.cos(np.add.outer(np.arange(6), np.arange(6)))), None),
}


@pytest.mark.parametrize("name", LINEAR)
def test_vectors_give_the_matrix(name):
    """The norm is that of gamma_2 less a constant for each row, and signs alone give gamma_2."""
    kernel, bins = LINEAR[name]
    matrix = kernel.matrix(bins or 6)
    protocol = OneReport(kernel, 1.0, bins)
    assert protocol.bias < 1e-6 * np.abs(matrix).max()
    norm = float(gamma2(matrix, shift=True).upper)
    linear = protocol.worst_case_variance(10**9) * 10**9
    assert linear == pytest.approx(4 * norm**2 * NOISE, rel=1e-4)
    assert norm <= float(signed(matrix, shift=True).upper) * (1 + 1e-6)
    plain = OneReport(kernel, 1.0, bins, shift=False)
    norm = float(gamma2(matrix).upper)
    assert plain.worst_case_variance(10**9) * 10**9 == pytest.approx(4 * norm**2 * NOISE, rel=1e-4)
    assert not np.any(plain.build().linear)
    assert 0.999 < protocol.exact_epsilon() <= 1.0
    assert protocol.exact_delta() == 0


def test_rows_of_constants_save_noise():
    """The lesser of two bins: 2.5 with a constant for each row, 5 without."""
    least = np.minimum.outer(np.arange(6), np.arange(6))
    for shift, norm in ((True, 2.5), (False, 5.0)):
        worst = OneReport(least, 1.0, shift=shift).worst_case_variance(10**9)
        assert worst * 10**9 == pytest.approx(4 * norm**2 * NOISE, rel=1e-4)


@pytest.mark.slow
def test_rows_of_constants_save_noise_of_kendall():
    """10 x 10: 3.78 against 3.96, 9 % of the variance."""
    kendall = KendallTau().matrix((10, 10))
    assert float(gamma2(kendall, shift=True).upper) == pytest.approx(3.78102, rel=1e-5)
    assert float(signed(kendall, shift=True).upper) == pytest.approx(3.95554, rel=1e-5)


@pytest.mark.parametrize("form", ["u", "v"])
def test_the_estimate_is_the_formula(form, rng):
    """Recomputes it from the vectors of 40 reports, one by one."""
    protocol = OneReport(KendallTau(), 2.0, (2, 3), form=form)
    params, n = protocol.build(), 40
    dim = params.embedding.shape[1]
    reports = rng.integers(-3000, 3000, size=(n, dim)).astype(np.int32)
    found = float(params.estimate(params.tally(reports)))
    y = np.asarray(params.inner.decode(reports), np.float64)
    total, d = y.sum(axis=0), params.scales[0]
    square, pairs = total @ (d * total), n * n
    if form == "u":
        square, pairs = square - np.sum(y**2 @ d), n * (n - 1)
    else:
        square -= n * params.level[0]
    expected = square / pairs + 2 * params.linear[0] @ total / n + params.constant[0]
    assert found == pytest.approx(expected, rel=1e-4)
    assert params.level[0] == pytest.approx(
        protocol.embedding().randomizer.worst_case_variance(1) * d.sum()
    )


@pytest.mark.parametrize("form", ["u", "v"])
def test_the_truth_and_the_two_variances_obey_the_law_of_total_variance(form):
    """Over all data sets of 3 users: the mean of `variance` plus the variance of `truth`."""
    matrix = np.sin(np.add.outer(np.arange(6.0), np.arange(6.0)) ** 2)
    protocol = OneReport(matrix, 1.2, form=form)
    p, n = np.array([0.3, 0.2, 0.2, 0.1, 0.15, 0.05]), 3
    within, truths, weights = [], [], []
    for values in itertools.product(range(6), repeat=n):
        counts = np.bincount(values, minlength=6)
        within.append(float(protocol.variance(counts)))
        truths.append(float(protocol.truth(counts)))
        weights.append(np.prod(p[list(values)]))
        assert within[-1] <= protocol.worst_case_variance(n) * (1 + 1e-9)
    weights, truths = np.array(weights), np.array(truths)
    target = float(protocol.population_truth(p, n))
    expected = weights @ within + weights @ (truths - target) ** 2
    assert protocol.population_variance(p, n) == pytest.approx(expected, rel=1e-6)


def test_half_the_error_of_two_reports():
    """The first term is twice smaller, the second eight times, for epsilon <= 1."""
    for epsilon, first, second in ((0.25, 1.99, 7.9), (0.5, 1.99, 7.9), (1.0, 1.98, 7.8)):
        one = OneReport(KendallTau(), epsilon, (2, 3), shift=False)
        two = TwoReport(KendallTau(), epsilon, (2, 3), shift=False)
        assert 1.95 <= first < two.worst_case_variance(10**12) / one.worst_case_variance(10**12) < 2
        few = [p.worst_case_variance(2) - 5e11 * p.worst_case_variance(10**12) for p in (two, one)]
        assert second < few[0] / few[1] < 8


def test_averages_share_a_report():
    """Squared vectors in proportion to gamma, which minimises the sum of the errors."""
    kernels = (GINI, GiniDiversity())
    protocol = OneReport(kernels, 1.0, 6)
    alone = [OneReport(kernel, 1.0, 6) for kernel in kernels]
    norms = [np.sqrt(p.worst_case_variance(10**12) * 10**12 / 4 / NOISE) for p in alone]
    found = protocol.variance(COUNTS * 10**9)
    pairs = zip(alone, norms, strict=True)
    expected = [p.variance(COUNTS * 10**9) * sum(norms) / g for p, g in pairs]
    np.testing.assert_allclose(found, expected, rtol=0.01)  # norms of columns need not all be equal
    weighed = OneReport(kernels, 1.0, 6, weights=(1.0, 100.0)).variance(COUNTS * 10**9)
    assert weighed[0] > found[0]
    assert weighed[1] < found[1]
    np.testing.assert_allclose(protocol.truth(COUNTS), [p.truth(COUNTS) for p in alone])
    assert protocol.population_truth(COUNTS / 17, 10).shape == (2,)
    assert protocol.worst_case_variance(100) >= protocol.variance(np.eye(6)[0] * 100).max()


def test_plug_in_errors_are_those_of_the_linearised_statistic():
    """At the exact averages: the variance of the combination with the slopes of the link."""
    kernel, counts = AUC(), np.array([[40, 20, 30], [10, 30, 60]])
    protocol = OneReport(kernel, 3.0, (2, 3))
    n = counts.sum()
    matrices = kernel.matrices((2, 3))
    h = counts.ravel()
    means = np.array([(h @ w @ h - np.diagonal(w) @ h) / (n * (n - 1)) for w in matrices])
    slopes = np.array([1 / means[1], -means[0] / means[1] ** 2])
    params, code = protocol.build(), protocol.embedding()
    d, g = slopes @ params.scales, slopes @ params.linear
    columns = code.vectors.astype(np.float64)
    steep = 2 * ((h @ columns - columns) * d + (n - 1) * g)
    noise = code.randomizer.worst_case_variance(1)
    expected = noise * (h @ np.sum(steep**2, axis=1)) + 2 * n * (n - 1) * noise**2 * np.sum(d**2)
    expected /= (n * (n - 1)) ** 2
    assert protocol.variance(h) == pytest.approx(expected, rel=1e-5)
    assert protocol.worst_case_variance(100) == np.inf
    none = Count.zeros((d.size,))
    tally = {"sum": none, "squares": none, "users": Count.of(np.int64(9))}
    assert params.averages(tally).shape == (2,)


def test_few_users_get_fewer_coordinates():
    kernel, bins = KendallTau(), (2, 3)
    for n in (20, 200, 20_000):
        chosen = OneReport(kernel, 1.0, bins, num_users=n)
        full = OneReport(kernel, 1.0, bins)
        assert chosen.worst_case_variance(n) <= full.worst_case_variance(n) * (1 + 1e-6)
    assert OneReport(kernel, 1.0, bins, num_users=20).bias > 0.01
    assert OneReport(kernel, 1.0, bins, num_users=20_000).bias < 1e-6
    three = OneReport(kernel, 1.0, bins, rank=3)
    assert three.build().embedding.shape == (6, 3)
    counts = np.arange(6)
    embedding = three.embedding()
    matrix = embedding.forms[0].matrix(embedding.vectors.astype(np.float64))
    gap = counts @ (matrix - kernel.matrix(bins)) @ counts
    gap -= counts @ np.diagonal(matrix - kernel.matrix(bins))
    bias = gap / (15 * 14)
    assert abs(bias) <= three.bias
    noise = three.variance(counts) - bias**2
    assert 0 < noise < OneReport(kernel, 1.0, bins).variance(counts)


def test_given_factorizations():
    matrix = GINI.matrix(6)
    found = signed(matrix, shift=True)
    spec = OneReport(GINI, 1.0, 6, factorization=found)
    triple = (found.left, found.signs, found.shift)
    assert spec == OneReport(GINI, 1.0, 6, factorization=triple)
    assert spec == OneReport(GINI, 1.0, 6, factorization=spec.factorization)
    assert spec.worst_case_variance(10**9) == pytest.approx(25 * NOISE / 10**9, rel=1e-4)
    rows = OneReport(GINI, 1.0, 6, factorization=gamma2(matrix, shift=True))
    assert rows.bias < 1e-6
    diversity = explicit.gini_diversity(6)
    explicitly = OneReport(GiniDiversity(), 1.0, 6, factorization=diversity)
    assert explicitly.bias < 1e-6


def test_any_randomizer_serves():
    for make in (PrivUnit, L2Ball, CandidateResponse, functools.partial(Gaussian, delta=1e-3)):
        spec = OneReport(GINI, 1.0, 6, randomizer=make)
        noise = make(dim=5, epsilon=1.0, radius=1.0).worst_case_variance(1)
        worst = spec.worst_case_variance(10**9) * 10**9
        assert worst == pytest.approx(25 * noise, rel=0.01)
        assert spec.variance(COUNTS) <= spec.worst_case_variance(17)
        assert (spec.exact_delta() > 0) == isinstance(make, functools.partial)


def test_matrices_that_are_not_symmetric():
    upper = np.triu(np.ones((6, 6)))
    with pytest.warns(UserWarning, match="not symmetric"):
        spec = OneReport(upper, 1.0)
    assert spec == OneReport((upper + upper.T) / 2, 1.0)
    counts = np.array([1, 2, 3, 4, 0, 0])
    pairs = counts @ upper @ counts - np.diagonal(upper) @ counts
    assert spec.truth(counts) == pytest.approx(pairs / 90)


def test_constant_statistics_cost_nothing(key):
    spec = OneReport(np.full((6, 6), 2.5), 1.0)
    assert spec.worst_case_variance(2) < 1e-20
    assert jaxdp.run(spec, jaxdp.Population.from_histogram(COUNTS), key) == pytest.approx(2.5)


@pytest.mark.slow
def test_kendall_of_delays(key):
    """327,346 flights by departure and arrival delay class, tau_a at each epsilon, and tau_b.

    With 400 trials an offset of 0.4 standard deviations and a variance off by a factor of 1.8 are
    seen with power 0.999.
    """
    table = load_flights()["dep_arr_delay_table"]
    population = jaxdp.Population.from_histogram(table.ravel())
    specs = [
        OneReport(KendallTau(), e, (10, 10), form="v") for e in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    ]
    for number, spec in enumerate([*specs, OneReport(KendallTau("b"), 1.0, (10, 10), form="v")]):
        trials = jaxdp.simulate(
            spec, population, jax.random.fold_in(key, number), num_trials=400, method="tally"
        )
        variance = float(spec.variance(table.ravel()))
        stats.check_mean(trials.errors[:, None], 0.0, variance=variance)
        stats.check_variance(trials.errors[:, None], variance, mean=0.0, kurtosis=3.5)
        wide = 2 * trials.errors[:, None]
        stats.must_fail(stats.check_variance, wide, variance, mean=0.0, kurtosis=3.5)


@pytest.mark.slow
def test_sums_of_squares_at_once(key):
    """Values of 0, 1, 2, 3 and more users than coordinates: the law of the U-form's tally.

    20,000 trials detect 3 % of a standard deviation in a mean.
    """
    counts = np.array([0, 1, 2, 3, 6, 30])
    spec = OneReport(GINI, 2.0, 6)
    population = jaxdp.Population.from_histogram(counts)
    drawn, sent = (
        jaxdp.simulate(spec, population, key, num_trials=20_000, method=method).errors
        for method in ("tally", "per_user")
    )
    variance = float(spec.variance(counts))
    for errors in (drawn, sent):
        stats.check_mean(errors[:, None], 0.0, variance=variance)
        stats.check_variance(errors[:, None], variance, mean=0.0, kurtosis=6.0)
    stats.check_two_samples(drawn[:, None], sent[:, None])
    stats.must_fail(stats.check_two_samples, drawn[:, None], 1.2 * sent[:, None])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["u", "v"])
def test_three_users(form, key):
    """So few that the terms of a single user count; 40,000 trials see 4 % of the variance."""
    counts = np.array([2, 0, 1, 0, 0, 0])
    spec = OneReport(GINI, 4.0, 6, form=form)
    population = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, population, key, num_trials=40_000, method="per_user")
    variance = float(spec.variance(counts))
    stats.check_mean(trials.errors[:, None], 0.0, variance=variance)
    stats.check_variance(trials.errors[:, None], variance, mean=0.0, kurtosis=12.0)
    wide = 1.2 * trials.errors[:, None]
    stats.must_fail(stats.check_variance, wide, variance, mean=0.0, kurtosis=12.0)


def test_bins_of_other_statistics_fit():
    """Entropy, Gini's coefficient, tau_b: averages of one report, unbiased each."""
    for kernel, bins in (
        (CollisionEntropy(), 6),
        (GiniCoefficient(), 6),
        (KendallTau("b"), (2, 3)),
    ):
        spec = OneReport(kernel, 1.0, bins)
        matrices = kernel.matrices(bins)
        assert spec.build().scales.shape[0] == len(matrices)
        assert spec.bias < 1e-6
        counts = np.arange(1, 1 + len(matrices[0])) * 100
        assert 0 < spec.variance(counts) < np.inf
        assert spec.population_variance(counts / counts.sum(), 1000) > 0
