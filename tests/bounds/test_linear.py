"""Bassily's, Ghazi et al.'s and Edmonds et al.'s bounds for linear queries, constants corrected."""

import math
from typing import Any

import numpy as np
import pytest

import jaxdp
from jaxdp.bounds._linear import (
    factorization_mse,
    projected_hadamard_error,
    projected_queries_error,
    projection_mechanism_mse,
)
from jaxdp.linear._factorized_queries import FactorizedQueries
from jaxdp.linear._gaussian_queries import GaussianQueries
from jaxdp.linear._projected import Projected
from jaxdp.linear._projected_hadamard import ProjectedHadamard
from jaxdp.linear._projection_mechanism import ProjectionMechanism
from jaxdp.linear._rejection_queries import RejectionQueries
from jaxdp.randomizers import Gaussian, GaussianRejection, Laplace
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
        (lambda: projected_queries_error(Laplace(1.0, dim=4), 4, 10), "tail"),
        (lambda: projected_hadamard_error(1, 10, 1.0), "num_values"),
        (lambda: projection_mechanism_mse(4, 10, 1.0, radius=0.0), "radius"),
        (lambda: factorization_mse(-1.0, 10, 1.0), "norm"),
        (lambda: factorization_mse(1.0, 10, 1.0, alpha=-1.0), "alpha"),
    ],
)
def test_bad_arguments(call, name):
    with pytest.raises(ValueError, match=name):
        call()
