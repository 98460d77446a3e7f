"""Bassily's, Ghazi et al.'s and Edmonds et al.'s bounds for linear queries, constants corrected."""

import math
from typing import Any

import numpy as np
import pytest

import jaxdp
from jaxdp import factorization
from jaxdp.bounds import distribution_lower_error
from jaxdp.bounds._linear import (
    factorization_mse,
    linear_queries_lower_error,
    mean_queries_error,
    projected_hadamard_error,
    projected_queries_error,
    projection_mechanism_mse,
)
from jaxdp.linear import ColumnQueries
from jaxdp.linear._factorized_queries import FactorizedQueries
from jaxdp.linear._gaussian_queries import GaussianQueries
from jaxdp.linear._projected import Projected
from jaxdp.linear._projected_hadamard import ProjectedHadamard
from jaxdp.linear._projection_mechanism import ProjectionMechanism
from jaxdp.linear._rejection_queries import RejectionQueries
from jaxdp.randomizers import (
    KRR,
    Gaussian,
    GaussianRejection,
    L2Ball,
    Laplace,
    PrivUnitG,
    SubsetSelection,
)
from tests import stats


def test_theorem_3_2_in_its_own_terms():
    """With the printed sigma, (4 log(2 J) log(2 / delta) / (n eps**2))**(1/4), 32 log J there."""
    n, k, epsilon, delta = 10**6, 1000, 0.1, 1e-6
    many = Gaussian(10**6, epsilon, delta, calibration="as_printed")
    found = projected_queries_error(many, k, n)
    shape = math.log(2 / delta) / (n * epsilon**2)
    assert found == pytest.approx((4 * math.log(2 * k) * shape) ** 0.25, rel=1e-3)
    assert found < (32 * math.log(k) * shape) ** 0.25
    few = Gaussian(10, epsilon, delta, calibration="as_printed")
    low = projected_queries_error(few, k, n)
    assert low == pytest.approx(math.sqrt(2 * 10 * shape), rel=1e-3)


@pytest.mark.parametrize(
    "bound",
    [
        lambda d, n, r: projected_queries_error(Gaussian(d, 1.0, 1e-6, r), 64, n),
        lambda d, n, r: projected_queries_error(GaussianRejection(d, 1.0, r), 64, n),
    ],
)
def test_regimes(bound):
    """At most the diameter; then n**(-1/4) whatever d is; then sqrt(d / n); all scale with r."""
    assert bound(100, 1, 1.0) == 2
    # Up to what the noise's grid costs, below 1 % of sigma; the bound grows with its root.
    assert bound(10**4, 10**7, 1.0) == pytest.approx(bound(10**5, 10**7, 1.0), rel=5e-3)
    slope = math.log10(bound(10**5, 10**8, 1.0) / bound(10**5, 10**7, 1.0))
    assert slope == pytest.approx(-0.25, abs=0.01)
    assert bound(16, 10**8, 1.0) == pytest.approx(bound(16, 10**7, 1.0) / math.sqrt(10))
    assert bound(1600, 10**9, 1.0) == pytest.approx(10 * bound(16, 10**9, 1.0), rel=0.05)
    assert bound(16, 10**7, 5.0) == pytest.approx(5 * bound(16, 10**7, 1.0), rel=1e-5)


def test_theorem_4_2():
    k, n = 2**16, 10**6
    c = (math.e + 1) / (math.e - 1)
    assert projected_hadamard_error(k, n, 1.0) == pytest.approx(
        (2 * c**2 * math.log(k) / n) ** 0.25
    )
    assert projected_hadamard_error(16, n, 1.0) == pytest.approx(math.sqrt(c**2 * 16 / n))
    assert projected_hadamard_error(k, 1, 1.0) == math.sqrt(2)


def test_mechanisms_predict_no_more(rng):
    signs = rng.choice([-1.0, 1.0], size=(40, 30))
    mechanism = ProjectionMechanism(signs, 1.0, shift=False)
    bound = projection_mechanism_mse(30, 50, 1.0, radius=math.sqrt(40))
    assert 0.8 * bound < mechanism.worst_case_total_variance(50) <= bound * (1 + 1e-6)
    factors = FactorizedQueries(signs[:6, :6], 1.0, shift=False)
    worst = factors.worst_case_variance(50)
    assert worst == pytest.approx(factorization_mse(factors.factors().norm, 50, 1.0), rel=1e-6)
    assert factorization_mse(0.0, 50, 1.0, alpha=0.5) == 0.25


MEASURED = [
    (
        lambda a: Projected(GaussianQueries(a, 1.0, 1e-3), "polytope"),
        lambda n: projected_queries_error(Gaussian(48, 1.0, 1e-3), 32, n),
    ),
    (
        lambda a: Projected(RejectionQueries(a, 1.0)),
        lambda n: projected_queries_error(GaussianRejection(48, 1.0), 32, n),
    ),
    (lambda a: ProjectedHadamard(32, 1.0), lambda n: projected_hadamard_error(32, n, 1.0)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "bound"), MEASURED, ids=["gaussian", "rejection", "hadamard"])
def test_independent_users_are_below_the_bounds(make, bound, rng, key):
    """Before and after the bound's two branches meet, for a flat and for a peaked distribution."""
    spec = make(rng.choice([-1.0, 1.0], size=(48, 32)) / math.sqrt(48))
    peaked = np.full(32, 0.5 / 31)
    peaked[0] = 0.5
    for n in (400, 8000):
        for p in (np.full(32, 1 / 32), peaked):
            users = jaxdp.Population.from_distribution(p, n)
            trials = jaxdp.simulate(spec, users, key, num_trials=200, method="tally")
            errors = np.sqrt(np.square(trials.errors).sum(axis=1, keepdims=True))
            options: Any = dict(mean=0.0, kurtosis=4.0, at_most=True)
            stats.check_variance(errors, bound(n) ** 2, **options)
            stats.must_fail(stats.check_variance, errors, np.square(errors).mean() / 2.5, **options)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: projected_queries_error(Gaussian(4, 1.0, 0.1), 0, 10), "num_values"),
        (lambda: projected_queries_error(Gaussian(4, 1.0, 0.1), 4, 0), "num_users"),
        (lambda: projected_queries_error(Laplace(1.0, dim=4), 4, 10), "randomizer"),
        (lambda: linear_queries_lower_error(0, 4, 10, 1.0), "num_queries"),
        (lambda: linear_queries_lower_error(4, 4, 10, 1.0, radius=0.0), "radius"),
        (lambda: distribution_lower_error(4, 0, 1.0), "num_users"),
        (lambda: projected_hadamard_error(1, 10, 1.0), "num_values"),
        (lambda: projection_mechanism_mse(4, 10, 1.0, radius=0.0), "radius"),
        (lambda: factorization_mse(-1.0, 10, 1.0), "norm"),
        (lambda: factorization_mse(1.0, 10, 1.0, alpha=-1.0), "alpha"),
    ],
)
def test_bad_arguments(call, name):
    with pytest.raises(ValueError, match=name):
        call()


def test_shares_without_a_factorization():
    """The bound for the identity, of any number of values; at most 3 % more by more subsets."""
    for k in (2, 16, 50):
        for n, epsilon in ((10, 0.1), (10**3, 1.0), (10**6, 4.0), (10**9, 10.0)):
            found = distribution_lower_error(k, n, epsilon)
            dense = math.sqrt(k) * factorization.least_local_rmse(np.eye(k), epsilon, n)
            assert 0.999 * dense <= found <= 1.03 * dense
    assert distribution_lower_error(1, 10, 1.0) == 0
    assert distribution_lower_error(2**40, 10, 1e-3) < 1


def test_shares_are_attained():
    """SubsetSelection has that error where e**epsilon + 1 divides k, and none is below it."""
    n, epsilon = 10**12, math.log(3)
    least = distribution_lower_error(64, n, epsilon)
    uniform = np.full(64, 1 / 64)

    def error(oracle):
        sampling = (1 - 1 / 64) / n
        return math.sqrt(oracle.variance(uniform * n).sum() / n**2 + sampling)

    assert 1 < error(SubsetSelection(64, epsilon)) / least < 1.02
    assert error(KRR(64, epsilon)) / least > 2


def test_the_bound_for_columns_is_between():
    """From few users to many: n**(-1/4) whatever d is, then the randomizer's error."""
    for d, n in ((4, 10**4), (64, 10**6), (1024, 10**4), (1024, 10**10)):
        lower = linear_queries_lower_error(d, 2**12, n, 1.0, radius=3.0)
        ball, projected = L2Ball(d, 1.0, 3.0), PrivUnitG(d, 1.0, 3.0)
        upper = min(mean_queries_error(ball, n), projected_queries_error(projected, 2**12, n))
        assert upper / 9 < lower < upper
    few = [linear_queries_lower_error(d, 2**12, 10**4, 1.0) for d in (256, 1024)]
    assert few[0] == pytest.approx(few[1], rel=0.01)
    slope = math.log(
        linear_queries_lower_error(10**6, 10**7, 10**6, 1.0)
        / linear_queries_lower_error(10**6, 10**7, 10**4, 1.0)
    )
    assert slope / math.log(100) == pytest.approx(-0.25, abs=0.01)
    # Two columns are an interval of length 2 r, and one bit of each user is best; one is known.
    assert linear_queries_lower_error(5, 2, 10**8, 1.0) == pytest.approx(
        1e-4 / math.tanh(0.5), rel=1e-3
    )
    assert linear_queries_lower_error(5, 1, 10**8, 1.0) == 0


def test_the_mean_of_reports_has_its_bound_as_error():
    """Where all columns have norm r and the answers are 0: of L2Ball `(r B)**2 / n`."""
    ball, n = L2Ball(3, 1.0, 2.0), 6000
    columns = 2.0 * np.concatenate([np.eye(3), -np.eye(3)], axis=1)
    reports = ColumnQueries(columns, 1.0, L2Ball)
    exact = np.sum(reports.variance(np.full(6, n / 6))) + 4 / n  # and that of the sampling
    assert mean_queries_error(ball, n) == pytest.approx(math.sqrt(exact), rel=1e-6)
    for bad in (Laplace(1.0), KRR(3, 1.0)):
        with pytest.raises((TypeError, ValueError), match="randomizer"):
            mean_queries_error(bad, n)
