"""Two reports of half of the budget: the errors of Lemma 11, and factors that fit the users."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.data import load_flights
from jaxdp.factorization import gamma2, gamma2_approx
from jaxdp.pairwise import AUC, GiniMeanDifference, KendallTau, TwoReport
from jaxdp.randomizers import L2Ball, PrivUnit, PrivUnitG
from tests import stats

HALF = PrivUnitG(1, 0.5).worst_case_variance(1)  # 25.18, of a report with half of epsilon = 1
COUNTS = np.array([3, 1, 4, 2, 5, 2])
GINI, KENDALL = GiniMeanDifference(), KendallTau()


def test_lemma_11():
    """Exactly, for the V-form: `C^2 sigma^2 (|L h|^2 + |R h|^2) / n + l C^4 sigma^4 / n^2`."""
    protocol = TwoReport(GINI, 1.0, 6, form="v")
    code, n = protocol.embedding(), COUNTS.sum()
    left, right = (side.astype(np.float64).T @ COUNTS / n for side in (code.left, code.right))
    noise = code.randomizer.worst_case_variance(1)
    assert noise == pytest.approx(HALF, rel=1e-6)
    (scale,) = code.scale
    expected = scale**2 * noise * (left @ left + right @ right) / n
    expected += code.left.shape[1] * scale**2 * noise**2 / n**2
    assert protocol.variance(COUNTS) == pytest.approx(expected, rel=1e-6)
    assert scale == pytest.approx(2.5)  # gamma_2 of |i - j| less a constant
    worst = protocol.worst_case_variance(10**9) * 10**9
    assert worst == pytest.approx(2 * 2.5**2 * HALF, rel=1e-4)
    assert protocol.bias < 1e-6
    assert 0.999 < protocol.exact_epsilon() <= 1.0
    assert protocol.exact_delta() == 0


def test_golden_numbers():
    """At epsilon = 1 the first term is 50.4 gamma_2**2, the second 634 l gamma_2**2."""
    protocol = TwoReport(KENDALL, 1.0, (2, 3), shift=False)
    norm, rank = float(gamma2(KENDALL.matrix((2, 3))).upper), protocol.embedding().left.shape[1]
    first = protocol.worst_case_variance(10**12) * 10**12
    assert first == pytest.approx(50.36 * norm**2, rel=1e-3)
    second = 2 * protocol.worst_case_variance(2) - first
    assert second == pytest.approx(634.0 * rank * norm**2, rel=1e-3)


@pytest.mark.parametrize("form", ["u", "v"])
def test_the_estimate_is_the_formula(form, rng):
    """Recomputes it from the vectors of 30 users, one by one."""
    protocol = TwoReport(KENDALL, 2.0, (2, 3), form=form)
    params, n = protocol.build(), 30
    reports = rng.integers(-3000, 3000, size=(n, 2, params.left.shape[1])).astype(np.int32)
    found = float(params.estimate(params.tally(reports)))
    y, z = np.moveaxis(np.asarray(params.inner.decode(reports), np.float64), 1, 0)
    products = y @ z.T
    if form == "u":
        expected = (products.sum() - np.trace(products)) / (n * (n - 1))
    else:
        expected = products.sum() / n**2
    assert found == pytest.approx(params.scale[0] * expected + params.constant[0], rel=1e-4)


@pytest.mark.parametrize("form", ["u", "v"])
def test_errors_of_any_randomizer_are_consistent(form):
    """Law of total variance over all data sets of 3 users, with covariances that differ."""
    protocol = TwoReport(GINI, 1.2, 6, form=form, randomizer=L2Ball)
    p, n = np.array([0.5, 0.0, 0.2, 0.0, 0.3, 0.0]), 3
    held = np.flatnonzero(p)
    target, expected = float(protocol.population_truth(p, n)), 0.0
    for values in np.stack(np.meshgrid(*[held] * n), axis=-1).reshape(-1, n):
        counts = np.bincount(values, minlength=6)
        error = float(protocol.variance(counts)) + (float(protocol.truth(counts)) - target) ** 2
        expected += np.prod(p[values]) * error
        assert protocol.variance(counts) <= protocol.worst_case_variance(n) * (1 + 1e-9)
    assert protocol.population_variance(p, n) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_factors_for_a_number_of_users():
    exact = TwoReport(KENDALL, 1.0, (2, 3))
    for n in (40, 400, 10**6):
        for reduction in ("spectral", "jl"):
            chosen = TwoReport(KENDALL, 1.0, (2, 3), num_users=n, reduction=reduction)
            worst = chosen.worst_case_variance(n)
            assert worst <= exact.worst_case_variance(n) * (1 + 1e-6)
            if n == 10**6:
                assert chosen.bias < 1e-5
            if n == 40:
                assert chosen.bias > 0.1
                assert worst < 0.5 * exact.worst_case_variance(n)


@pytest.mark.slow
def test_approximate_and_reduced_factors():
    matrix = KENDALL.matrix((2, 3))
    allowed = TwoReport(KENDALL, 1.0, (2, 3), alpha=0.25, shift=False)
    norm = float(gamma2_approx(matrix, 0.25, tol=1e-3).upper)
    assert allowed.bias <= 0.25 * (1 + 1e-5)
    assert allowed.embedding().scale == pytest.approx(norm, rel=1e-3)
    found = {}
    for reduction in ("spectral", "jl"):
        spec = TwoReport(KENDALL, 1.0, (2, 3), rank=3, alpha=0.25, reduction=reduction)
        assert spec.build().left.shape == (6, 3)
        n = COUNTS.sum()
        gap = (
            spec.embedding().scale
            * spec.embedding().left.astype(np.float64)
            @ spec.embedding().right.T
        )
        gap = gap + spec.embedding().constant - matrix
        found[reduction] = np.abs(gap).max()  # what both reductions try to keep small
        bias = (COUNTS @ gap @ COUNTS - np.diagonal(gap) @ COUNTS) / (n * (n - 1))
        assert abs(bias) <= spec.bias * (1 + 1e-6)
        assert spec.variance(COUNTS) > bias**2
    assert found["spectral"] < found["jl"]


def test_given_factorizations():
    matrix = GINI.matrix(6) - 2.5
    found = gamma2(matrix)
    spec = TwoReport(GINI, 1.0, 6, factorization=(found.left, found.right, 2.5))
    assert spec.bias < 1e-6
    assert spec == TwoReport(GINI, 1.0, 6, factorization=spec.factorization)
    rough = gamma2_approx(GINI.matrix(6), 0.5, tol=1e-2)
    given = TwoReport(GINI, 1.0, 6, factorization=rough)
    assert given.alpha == 0.5
    assert 0.4 < given.bias <= 0.5 * (1 + 1e-6)
    # W need not equal its transpose, only the mean of both has to be right.
    lopsided = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    turned = TwoReport(GINI, 1.0, 6, factorization=(lopsided, lopsided @ GINI.matrix(6)))
    assert turned.bias < 1e-5


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (TwoReport(AUC(), 8.0, num_values=(2, 2)), "of 2 averages; the V-form does not"),
        (TwoReport(GiniMeanDifference(), 1.0, 4, randomizer=PrivUnit), "of PrivUnitParams; the"),
    ],
)
def test_what_cannot_be_drawn_at_once_says_why(spec, reason, key):
    users = jaxdp.Population.from_histogram([900] * 4)
    with pytest.raises(ValueError, match=f"use method='per_user'. The U-form .*{reason}"):
        jaxdp.run(spec, users, key, method="tally")
    with pytest.raises(ValueError, match=reason):
        spec.built.sample_tally(key, users.counts())
    other = dataclasses.replace(spec, form="v")
    jax.eval_shape(lambda key: jaxdp.run(other, users, key, method="tally"), key)


@pytest.mark.slow
def test_constant_statistics_cost_nothing(key):
    spec = TwoReport(np.full((6, 6), 2.5), 1.0)
    assert spec.worst_case_variance(2) < 1e-20
    assert jaxdp.run(spec, jaxdp.Population.from_histogram(COUNTS), key) == pytest.approx(2.5)


@pytest.mark.slow
def test_kendall_of_delays(key):
    """327,346 flights by departure and arrival delay class; 300 trials as in test_one_report."""
    table = load_flights()["dep_arr_delay_table"].ravel()
    population = jaxdp.Population.from_histogram(table)
    for number, epsilon in enumerate((0.5, 2.0, 8.0)):
        spec = TwoReport(KENDALL, epsilon, (10, 10), form="v")
        trials = jaxdp.simulate(
            spec, population, jax.random.fold_in(key, number), num_trials=300, method="tally"
        )
        variance = float(spec.variance(table))
        stats.check_mean(trials.errors[:, None], 0.0, variance=variance)
        stats.check_variance(trials.errors[:, None], variance, mean=0.0, kurtosis=3.5)
        wide = 2 * trials.errors[:, None]
        stats.must_fail(stats.check_variance, wide, variance, mean=0.0, kurtosis=3.5)
