"""Bell et al.'s bounds for U-statistics: they hold, some are tight, and one is misprinted."""

import math

import numpy as np
import pytest

from jaxdp.bounds import (
    optimal_num_bins,
    quantization_error,
    quantized_u_statistic_mse,
    u_statistic_variance,
)
from jaxdp.pairwise import GiniMeanDifference, Grid, PairKernel, QuantizedRR, balanced_num_bins


def mean_of_both(x, y):
    return (x + y) / 2


def order(x, y):
    return np.sign(x - 0.5) * np.sign(y - 0.5) / 2 + 0.5


@pytest.mark.parametrize(("n", "k", "epsilon"), [(2, 2, 0.1), (1000, 10, 1.0), (10**6, 64, 5.0)])
def test_theorem_1_is_as_printed(n, k, epsilon):
    beta = k / (k + math.exp(epsilon) - 1)
    own = 1 - beta
    printed = 1 / (n * own**2) + (1 + beta) ** 2 / (2 * n * (n - 1) * own**4)
    assert u_statistic_variance(n, k, epsilon) == pytest.approx(printed, rel=1e-9)
    stretch = 1 + k / epsilon
    simple = stretch**2 / n + stretch**4 / (2 * n * (n - 1))
    assert u_statistic_variance(n, k, epsilon, simple=True) == pytest.approx(simple)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("n", [2, 3, 1000])
def test_theorem_1_bounds_given_users_and_independent_ones(n, epsilon, rng):
    for _ in range(60):
        k = int(rng.integers(2, 7))
        matrix = rng.random((k, k))
        matrix = np.round(np.maximum(matrix, matrix.T))  # of zeros and ones, the extreme kernels
        protocol = QuantizedRR(PairKernel.from_matrix(matrix), epsilon)
        law = rng.dirichlet(np.full(k, rng.choice([0.05, 1.0])))
        for simple in (False, True):
            # The built probabilities are off the ideal ones by a few parts in a billion.
            limit = u_statistic_variance(n, k, epsilon, simple=simple) * (1 + 1e-6)
            assert protocol.population_variance(law, n) <= limit
            assert protocol.variance(rng.multinomial(n, law)) <= limit


def test_the_bound_without_the_second_factor_holds_too(rng):
    """1 / (n (1-b)^2) + 1 / (2 n (n-1) (1-b)^4), for the reason the docstring gives."""
    n, epsilon = 2, 0.5
    for _ in range(200):
        k = int(rng.integers(2, 5))
        matrix = np.round(rng.random((k, k)))
        matrix = np.maximum(matrix, matrix.T)
        protocol = QuantizedRR(PairKernel.from_matrix(matrix), epsilon)
        own = math.expm1(epsilon) / (k + math.expm1(epsilon))
        limit = 1 / (n * own**2) + 1 / (2 * n * (n - 1) * own**4)
        law = rng.dirichlet(np.full(k, 0.5))
        assert protocol.population_variance(law, n) <= limit * (1 + 1e-6)


@pytest.mark.parametrize("k", [2, 5, 100])
def test_lemma_2_needs_twice_the_printed_constant(k):
    """All users at the upper end of the first bin: off by L / k, squared; L is 1/2 here."""
    lipschitz = 0.5
    value = 1 / k * (1 - 1e-6)
    midpoint = PairKernel(mean_of_both).matrix(Grid.uniform(k))[0, 0]
    squared = (mean_of_both(value, value) - midpoint) ** 2
    assert squared > lipschitz**2 / (2 * k**2)  # what is printed
    assert squared <= quantization_error(k, lipschitz=lipschitz)
    assert squared == pytest.approx(quantization_error(k, lipschitz=lipschitz), rel=1e-4)


def quantisation_error(kernel, num_bins, law, values, rule):
    """U_f - U_A for a discrete population, squared."""
    bins = np.minimum((values * num_bins).astype(int), num_bins - 1)
    masses = np.bincount(bins, law, num_bins)
    matrix = kernel.matrix(Grid.uniform(num_bins), rule)
    return (kernel.of_distribution(law, values) - masses @ matrix @ masses) ** 2


def test_lemma_2_bounds_every_population(rng):
    for _ in range(40):
        k = int(rng.integers(2, 9))
        values = rng.random(5)
        law = rng.dirichlet(np.ones(5))
        found = quantisation_error(GiniMeanDifference(), k, law, values, "midpoint")
        assert found <= quantization_error(k, lipschitz=1.0)


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_lemma_3_bounds_smooth_densities(slope):
    """Density 1 + slope (x - 1/2); and L**2 / k**2, a quarter of the printed bound, suffices."""
    values = (np.arange(2400) + 0.5) / 2400
    law = (1 + slope * (values - 0.5)) / 2400
    for k in (3, 5):
        for kernel in (PairKernel(order), GiniMeanDifference()):
            found = quantisation_error(kernel, k, law, values, "average")
            assert found <= quantization_error(k, density_lipschitz=slope)
            assert found <= (slope / k) ** 2


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_theorem_2_bounds_the_error_about_the_population(epsilon, rng):
    for k in (2, 6):
        protocol = QuantizedRR(GiniMeanDifference(), epsilon, grid=Grid.uniform(k))
        bound = quantized_u_statistic_mse(500, k, epsilon, lipschitz=1.0)
        for _ in range(20):
            law, values = rng.dirichlet(np.full(4, 0.3)), rng.random(4)
            assert protocol.population_variance(law, 500, values) <= bound * (1 + 1e-6)
    smooth = quantized_u_statistic_mse(500, 6, epsilon, density_lipschitz=2.0)
    expected = u_statistic_variance(500, 6, epsilon) + 4 * 2**2 / 6**2 + 4 * 2**4 / 6**4
    assert smooth == pytest.approx(expected)


@pytest.mark.parametrize("constant", ["lipschitz", "density_lipschitz"])
@pytest.mark.parametrize(
    ("n", "epsilon", "scale"), [(10, 0.1, 1.0), (10**5, 1.0, 0.1), (10**6, 6, 3)]
)
def test_the_optimal_number_of_bins_is_the_minimiser(n, epsilon, scale, constant):
    found = optimal_num_bins(n, epsilon, **{constant: scale})
    errors = [quantized_u_statistic_mse(n, k, epsilon, **{constant: scale}) for k in range(2, 3000)]
    assert found == 2 + int(np.argmin(errors))


def test_corollary_1_is_the_limit_of_the_optimum():
    """At small epsilon and large n: k = n^(1/4) sqrt(L eps), and a bound of 2 L / (eps sqrt n)."""
    n, epsilon, lipschitz = 10**14, 0.05, 3.0
    k = optimal_num_bins(n, epsilon, lipschitz=lipschitz)
    assert k == pytest.approx(balanced_num_bins(n, epsilon, lipschitz), rel=0.02)
    error = quantized_u_statistic_mse(n, k, epsilon, lipschitz=lipschitz)
    assert error == pytest.approx(2 * lipschitz / (epsilon * math.sqrt(n)), rel=0.06)
    assert error > 2 * lipschitz / math.sqrt(n * epsilon)  # the order that is printed


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: u_statistic_variance(1, 5, 1.0), "num_users"),
        (lambda: u_statistic_variance(10, 1, 1.0), "num_values"),
        (lambda: u_statistic_variance(10, 5, 0.0), "epsilon"),
        (lambda: u_statistic_variance(10, 5, float("nan"), simple=True), "epsilon"),
        (lambda: quantization_error(0, lipschitz=1.0), "num_bins"),
        (lambda: quantization_error(3, lipschitz=-1.0), "lipschitz"),
        (lambda: quantization_error(3, density_lipschitz=float("inf")), "density_lipschitz"),
        (lambda: quantized_u_statistic_mse(10, 5, 1.0), "exactly one"),
        (
            lambda: quantized_u_statistic_mse(10, 5, 1.0, lipschitz=1.0, density_lipschitz=1.0),
            "exactly one",
        ),
        (lambda: quantized_u_statistic_mse(10, 1, 1.0, lipschitz=1.0), "num_bins"),
        (lambda: optimal_num_bins(10, 1.0), "exactly one"),
        (lambda: optimal_num_bins(10, 1.0, lipschitz=-1.0), "lipschitz"),
    ],
)
def test_invalid_arguments_are_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()
