"""Interactive against non-interactive protocols: explicit constants of Theorems 23 and 24."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from jaxdp import factorization
from jaxdp.bounds._interactive import (
    hard_queries_mse,
    linear_queries_lower_mse,
    quadratic_form_lower_mse,
    rounds_separation,
    three_round_mse,
)
from jaxdp.linear import FactorizedQueries
from jaxdp.randomizers import Laplace
from jaxdp.workloads import prefix
from tests.marks import slow


def hadamard(log2):
    matrix = np.ones((1, 1))
    for _ in range(log2):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def test_two_point_inequality(rng):
    """`2 r**2 >= d**2 int p q / (p + q)`, attained by the mean of both points given the report."""
    for _ in range(20):
        p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
        best = q / (p + q)  # of 0 and 1
        least = np.sum(p * best**2 + q * (1 - best) ** 2)
        triangle = np.sum((p - q) ** 2 / (p + q))
        assert least == pytest.approx(0.5 - triangle / 4)
        entropies = np.sum(p * np.log(p / q)), np.sum(q * np.log(q / p))
        assert triangle <= np.mean(entropies)


def test_hard_queries_bound_a_protocol():
    """A protocol's exact error is above: two distributions of one bit, randomized response."""
    for epsilon, n in itertools.product((0.1, 1.0), (10, 10**4)):
        c = 1 / math.tanh(epsilon / 2)
        bound = hard_queries_mse(2.0, 2.0, n, epsilon)  # all mass on -1, or on 1
        assert min(0.1 * c**2 / n, 0.25) < bound < c**2 / n
    small = hard_queries_mse(2.0, 2.0, 1, 1e-3)
    assert small == pytest.approx(1.0, rel=1e-3)  # as without reports
    many = hard_queries_mse(0.5, 0.1, 10**6, 1.0)
    limit = (2 - 2 * math.log(2)) * 25 * 4 / (1e6 * math.expm1(1) ** 2)
    assert 0.95 * limit < many < limit


@pytest.mark.parametrize("epsilon", [slow(0.2), 1.0])
def test_linear_queries(epsilon):
    """Below the error of the factorization mechanism, and of one mind with numbers of users."""
    n, workload = 10**6, prefix(8)
    upper = FactorizedQueries(workload, epsilon).worst_case_variance(n)
    lower = linear_queries_lower_mse(workload, n, epsilon)
    assert upper / 4 < lower < upper
    # An error of that size in the mean square is less in the mean.
    assert n / 2 < factorization.local_lower_bound(workload, epsilon, math.sqrt(lower)) < n
    assert linear_queries_lower_mse(np.ones((2, 3)), n, epsilon) == 0
    assert quadratic_form_lower_mse(lower, 1.0, n) < lower / 6.25
    assert quadratic_form_lower_mse(1e-9, 1.0, n) == 0


def test_three_rounds():
    n = 10**10
    for epsilon in (0.5, 1.0):
        paper = three_round_mse(2.0, 30.0, 1000, n, epsilon)
        # 17 |W|**2 v / n; the paper has the v of Laplace noise whose ends are not cut
        cut = Laplace(epsilon / 4).worst_case_variance(1)
        assert paper == pytest.approx(17 * 4 * cut / n, rel=0.01)
        assert paper < 2176 * 4 / (n * epsilon**2)
        tuned = three_round_mse(2.0, 30.0, 1000, n, epsilon, variant="tuned")
        bit = 1 / math.tanh(epsilon / 2) ** 2
        assert 16 * bit / (0.5 * n) < tuned < 1.3 * 16 * bit / (0.5 * n)
    few = three_round_mse(1.0, 30.0, 1000, 4000, 1.0)
    assert few > 1  # where the noise of y counts, and clipping
    assert three_round_mse(1.0, 30.0, 1000, 4000, 1.0, rank=10) <= few
    for bad, name in (
        ({"norm": 0.0}, "norm"),
        ({"variant": "our"}, "variant"),
        ({"gamma2": 1e300}, "gamma2"),
        ({"rank": 2**21}, "rank"),
    ):
        with pytest.raises(ValueError, match=name):
            three_round_mse(**({"norm": 1.0, "gamma2": 2.0} | bad), **OPTIONS)


OPTIONS = {"num_values": 3, "num_users": 10**4, "epsilon": 1.0}


def test_separation_of_signs():
    """All norms of a Hadamard matrix are known; 1024 values separate at epsilon = 0.05."""
    found = rounds_separation(hadamard(10), 0.05)
    assert found.gamma2 == pytest.approx(32)
    assert found.separation == pytest.approx(2)
    assert found.spread == pytest.approx(2 / 32 * math.sqrt(1024 / 1023))
    n: Any = found.num_users
    assert 10**9 < n < 10**10

    def wins(users):
        linear = hard_queries_mse(found.separation, found.spread, users, 0.1)
        lower = quadratic_form_lower_mse(linear, 1.0, users)
        options: Any = dict(rank=1024, variant="tuned", shares=found.shares)
        return lower > three_round_mse(1.0, found.gamma2, 1024, users, 0.05, **options)

    assert wins(n)
    assert wins(100 * n)
    assert not wins(n - n // 1000)


@pytest.mark.slow
def test_no_separation():
    small = rounds_separation(hadamard(4), 0.05)
    assert small.num_users is None
    assert small.lower < small.upper
    assert rounds_separation(np.zeros((3, 3)), 0.1).num_users is None
    with pytest.raises(ValueError, match="rank must be given"):
        three_round_mse(1.0, 1.0, 2**21, 10**6, 1.0)
    with pytest.raises(ValueError, match="matrix must have a gamma_2"):
        rounds_separation(np.full((2, 2), 1e-320), 1.0)
    with pytest.raises(ValueError, match="matrix must have entries"):
        linear_queries_lower_mse(np.full((2, 2), 1e308), 10, 1.0)
    with pytest.raises(ValueError, match="symmetric"):
        rounds_separation(np.array([[0.0, 1.0], [0.0, 0.0]]), 0.1)


@pytest.mark.slow
def test_random_signs_separate():
    signs = np.sign(np.random.default_rng(0).normal(size=(2048, 2048)))
    found = rounds_separation(np.triu(signs) + np.triu(signs, 1).T, 0.1)
    assert found.gamma2 == pytest.approx(0.85 * math.sqrt(2048), rel=0.03)
    assert found.separation / found.spread == pytest.approx(0.85 * math.sqrt(2048), rel=0.05)
    assert found.num_users is not None
    assert 10**9 < found.num_users < 10**10
