"""QuantizedRR: bias and error are exactly as predicted, by enumeration of all reports."""

import itertools
import math

import numpy as np
import pytest

from jaxdp.pairwise import (
    GiniMeanDifference,
    Grid,
    PairKernel,
    QuantizedRR,
)
from jaxdp.pairwise.oracles._moments import Users, expectation, iid_variance, variance
from tests.pairwise.enumeration import GOLDEN, LINEAR, TENT, as_counts, exact_moments, laws_of


def test_golden_numbers():
    """At the ideal probabilities by the formula, and for the built channel by enumeration."""
    counts = np.array([3, 3, 2])
    e = math.e
    users = Users(np.arange(3)[:, None], np.ones((3, 1)), counts.astype(float))
    ideal = variance(GOLDEN.weights.values, np.zeros(3), users, e / (e + 2), 1 / (e + 2)) / 56**2
    assert ideal == pytest.approx(0.2381347071, abs=5e-11)

    protocol = QuantizedRR(GOLDEN, epsilon=1.0)
    mean, square = exact_moments(protocol, np.repeat(np.eye(3), counts, axis=0))
    assert protocol.truth(counts) == pytest.approx(0.4857142857, abs=5e-11)
    assert mean == pytest.approx(float(protocol.truth(counts)), abs=1e-12)
    assert square - mean**2 == pytest.approx(float(protocol.variance(counts)), rel=1e-12)
    assert square - mean**2 == pytest.approx(0.2381347071, rel=1e-8)


@pytest.mark.parametrize(("protocol", "values"), LINEAR.values(), ids=LINEAR)
def test_the_mean_squared_error_is_exact(protocol, values):
    mean, square = exact_moments(protocol, laws_of(protocol, values))
    counts, inputs = as_counts(protocol, values)
    truth = float(protocol.truth(counts, inputs))
    expected = square - 2 * mean * truth + truth**2
    assert protocol.variance(counts, inputs) == pytest.approx(expected, rel=1e-10)
    if protocol.grid is None or protocol.kernel is GOLDEN:
        assert mean == pytest.approx(truth, abs=1e-12)  # unbiased


@pytest.mark.parametrize(("protocol", "values"), LINEAR.values(), ids=LINEAR)
def test_the_population_error_is_exact(protocol, values):
    """Users drawn from the empirical law of these values: enumerates their reports."""
    counts, inputs = as_counts(protocol, values)
    n = len(values)
    law = laws_of(protocol, values).mean(axis=0)
    mean, square = exact_moments(protocol, np.tile(law, (n, 1)))
    truth = float(protocol.population_truth(counts / n, n, inputs))
    expected = square - 2 * mean * truth + truth**2
    found = protocol.population_variance(counts / n, n, inputs)
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("form", ["u", "v"])
def test_the_truth_and_the_two_variances_obey_the_law_of_total_variance(form):
    """Over all data sets of 4 users: the mean of `variance` plus the variance of `truth`."""
    protocol = QuantizedRR(GOLDEN, 1.2, form=form)
    p, n = np.array([0.5, 0.2, 0.3]), 4
    within, truths, weights = [], [], []
    for values in itertools.product(range(3), repeat=n):
        counts = np.bincount(values, minlength=3)
        within.append(float(protocol.variance(counts)))
        truths.append(float(protocol.truth(counts)))
        weights.append(np.prod(p[list(values)]))
    weights, truths = np.array(weights), np.array(truths)
    target = float(protocol.population_truth(p, n))
    expected = weights @ within + weights @ (truths - target) ** 2
    assert protocol.population_variance(p, n) == pytest.approx(expected, rel=1e-12)


def test_population_variance_is_lemma_1_as_printed(rng):
    """C(n,2)^-1 ((2n-3) Var(e_R^T A D) / (1-b)^2 + E Var((e_R1 - b) A e_R2 | R1) / (1-b)^4)."""
    protocol, n = QuantizedRR(GOLDEN, 0.9), 50
    p, q = map(float, protocol.randomizer.probabilities())
    law = rng.dirichlet(np.ones(3))
    reports, matrix = q + (p - q) * law, GOLDEN.weights.values
    first = matrix @ law
    first = reports @ first**2 - (reports @ first) ** 2
    rows = matrix - q * matrix.sum(axis=0)  # row r holds (e_r - b)^T A
    second = reports @ (rows**2 @ reports - (rows @ reports) ** 2)
    lemma = (2 * n - 3) * first / (p - q) ** 2 + second / (p - q) ** 4
    lemma /= n * (n - 1) / 2
    assert protocol.population_variance(law, n) == pytest.approx(lemma, rel=1e-12)


def test_moments_do_not_depend_on_how_users_are_grouped(rng):
    """A randomized rounding of 300 users, as rows of their own and merged by value."""
    protocol = QuantizedRR(TENT, 1.0, grid=Grid.uniform(6), rounding="randomized")
    values = rng.random(30)
    counts = rng.integers(1, 20, 30)
    once = protocol.variance(counts, values)
    again = protocol.variance(np.ones(counts.sum(), int), np.repeat(values, counts))
    assert once == pytest.approx(float(again), rel=1e-12)


def test_variance_of_1e12_users_is_the_limit():
    """At large n the linear term is all there is: 4 (Var of W h under the reports) / n."""
    protocol = QuantizedRR(GiniMeanDifference(), 1.0, num_values=4)
    p, q = map(float, protocol.randomizer.probabilities())
    h = np.array([0.4, 0.3, 0.2, 0.1])
    n = 10**12
    slope = protocol.kernel.matrix(4) @ h
    reports = q + (p - q) * np.eye(4)
    noise = reports @ slope**2 - (reports @ slope) ** 2
    expected = 4 * (h @ noise) / (n * (p - q) ** 2)
    assert protocol.variance((h * n).astype(np.int64)) == pytest.approx(expected, rel=1e-9)


def test_expectation_and_iid_variance_agree_with_one_symbol():
    """All users alike: independent reports of one law, whichever formula is asked."""
    matrix, linear = GOLDEN.weights.values, np.array([0.1, 0.2, 0.3])
    users = Users(np.array([[1]]), np.ones((1, 1)), np.array([7.0]))
    law = np.array([0.0, 1.0, 0.0])
    given = variance(matrix, linear, users, 0.6, 0.2)
    assert given == pytest.approx(iid_variance(matrix, linear, law, 7, 0.6, 0.2))
    assert expectation(matrix, linear, users) == pytest.approx(42 * matrix[1, 1] + 7 * 0.2)


def test_randomized_rounding_is_unbiased_for_bilinear_kernels(rng):
    def product(x, y):
        return x * y

    protocol = QuantizedRR(PairKernel(product), 1.0, grid=Grid.uniform(3), rounding="randomized")
    values = rng.random(4).astype(np.float32)
    mean, _ = exact_moments(protocol, laws_of(protocol, values))
    assert mean == pytest.approx(float(protocol.truth(np.ones(4, int), values)), abs=1e-6)
    simple = QuantizedRR(PairKernel(product), 1.0, grid=Grid.uniform(3))
    mean, _ = exact_moments(simple, laws_of(simple, values))
    assert abs(mean - float(simple.truth(np.ones(4, int), values))) > 1e-4


def test_the_quantisation_error_is_estimated_from_the_same_reports(rng):
    """Remark 3: an unbiased estimate of Delta, which bounds the squared bias."""
    protocol = QuantizedRR(GiniMeanDifference(), 1.0, grid=Grid.uniform(3))
    delta = protocol.quantization_error()
    first, second = protocol.build(), delta.build()
    assert (first.inner, first.num_words) == (second.inner, second.num_words)
    assert all(np.array_equal(a, b) for a, b in zip(first.points, second.points, strict=True))
    values = rng.random(4)
    mean, _ = exact_moments(delta, laws_of(delta, values))
    counts = np.ones(4, int)
    assert mean == pytest.approx(float(delta.truth(counts, values)))
    for _ in range(30):
        values = rng.random(40) ** 3
        law = np.full(40, 1 / 40)
        bins = laws_of(protocol, values).mean(axis=0)
        quantised = bins @ GiniMeanDifference().matrix(protocol.grid) @ bins
        bias = quantised - GiniMeanDifference().of_distribution(law, values)
        assert bias**2 <= delta.population_truth(law, 40, values)
