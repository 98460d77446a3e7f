"""The approximate factorization mechanism: its errors are those of the norms."""

import functools

import numpy as np
import pytest

from jaxdp.data import load_flights
from jaxdp.factorization import explicit, gamma2, gamma2_approx, gamma_f, zeta
from jaxdp.linear import FactorizedQueries
from jaxdp.randomizers import Gaussian, L2Ball, PrivUnit, PrivUnitG
from jaxdp.workloads import prefix
from tests.linear.measured import check_prediction

NOISE = PrivUnitG(1, 1.0).worst_case_variance(1)  # 6.33
PREFIX = np.tril(np.ones((8, 8)))


@pytest.mark.slow
def test_shifted_prefixes():
    """Constants for the rows save 41 % of the variance of 64 prefixes."""
    shifted = FactorizedQueries(prefix(64), 1.0).worst_case_variance(100)
    plain = FactorizedQueries(prefix(64), 1.0, shift=False).worst_case_variance(100)
    assert shifted == pytest.approx(1.61754**2 * NOISE / 100, rel=1e-4)
    assert plain == pytest.approx(2.11136666**2 * NOISE / 100, rel=1e-5)
    assert shifted / plain < 0.59


def test_worst_case_errors_are_those_of_the_norms(rng):
    workload = rng.normal(size=(8, 8))
    worst = FactorizedQueries(workload, 1.0, shift=False).worst_case_variance(10)
    assert worst == pytest.approx(gamma2(workload).upper ** 2 * NOISE / 10, rel=1e-6)
    mean = FactorizedQueries(workload, 1.0, shift=False, norm="mean")
    total = 8 * gamma_f(workload).upper ** 2 * NOISE / 10
    assert mean.worst_case_total_variance(10) == pytest.approx(total, rel=1e-6)
    assert mean.worst_case_variance(10) > worst
    assert mean.bias < 1e-6


def test_given_alpha_bounds_the_bias():
    spec = FactorizedQueries(PREFIX, 1.0, alpha=0.25, shift=False)
    assert 0.24 < spec.bias <= 0.25 * (1 + 1e-6)
    norm = float(gamma2_approx(PREFIX, 0.25, tol=1e-3).upper)
    assert spec.worst_case_variance(1) <= (norm**2 * NOISE + 0.25**2) * (1 + 1e-6)
    assert norm == pytest.approx(0.989912, rel=1e-3)
    np.testing.assert_allclose(spec.contributions()[0], spec.factors().matrix, atol=1e-6)
    alone = np.eye(8, dtype=int)[3] * 10
    bias = (spec.factors().matrix - PREFIX)[:, 3]
    noise = spec.contributions()[1][:, 3] / 10
    np.testing.assert_allclose(spec.variance(alone), noise + bias**2, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("num_users", [20, 200])
def test_alpha_for_a_number_of_users_is_the_best(num_users):
    """Within a percent of the best alpha of a grid, and no worse than that of zeta."""
    exact = FactorizedQueries(PREFIX, 1.0)
    chosen = FactorizedQueries(PREFIX, 1.0, num_users=num_users)
    noise = NOISE / num_users
    rest = PREFIX - exact.factors().shift[:, None]
    norms = {a: float(gamma2_approx(rest, a, tol=1e-3).upper) for a in (0.05, 0.1, 0.2, 0.3, 0.4)}
    priced = zeta(rest, weight=noise**-0.5, tol=1e-3)
    by_zeta = (priced.upper - noise**-0.5 * priced.alpha) ** 2 * noise + priced.alpha**2
    errors = [*(g**2 * noise + a**2 for a, g in norms.items()), by_zeta]
    worst = chosen.worst_case_variance(num_users)
    assert worst <= 1.015 * min(*errors, exact.worst_case_variance(num_users))
    assert (chosen.bias > 0.01) == (worst < 0.99 * exact.worst_case_variance(num_users))


def test_too_few_users_warn():
    spec = FactorizedQueries(PREFIX, 0.1, num_users=3)
    with pytest.warns(UserWarning, match="num_users = 3"):
        worst = spec.worst_case_variance(3)
    assert worst < 0.2501


def test_many_users_are_answered_without_bias():
    assert FactorizedQueries(PREFIX, 1.0, num_users=10**6).bias < 1e-6


@pytest.mark.parametrize("make", [PrivUnit, L2Ball, functools.partial(Gaussian, delta=1e-3)])
def test_any_randomizer_serves(make):
    """Its variance takes the place of that of PrivUnitG; (epsilon, delta) where it is not pure."""
    spec = FactorizedQueries(PREFIX, 1.0, shift=False, randomizer=make)
    noise = make(dim=8, epsilon=1.0, radius=1.0).worst_case_variance(1)
    norm = float(gamma2(PREFIX).upper)
    worst = spec.worst_case_variance(1)
    assert 0.8 * norm**2 * noise < worst <= norm**2 * noise * (1 + 1e-6)
    assert spec.exact_delta() <= 1e-3
    assert (spec.exact_delta() > 0) == isinstance(make, functools.partial)


def test_given_factorizations(rng):
    found = gamma2(PREFIX, shift=True)
    spec = FactorizedQueries(PREFIX, 1.0, factorization=found)
    assert spec == FactorizedQueries(
        PREFIX, 1.0, factorization=(found.left, found.right, found.shift), alpha=0.0
    )
    assert spec.worst_case_variance(1) == pytest.approx(found.upper**2 * NOISE, rel=1e-6)
    biased = gamma2_approx(PREFIX, 0.25, tol=1e-2)
    assert FactorizedQueries(PREFIX, 1.0, factorization=biased).alpha == 0.25
    with pytest.raises(ValueError, match=r"factorization.*workload"):
        FactorizedQueries(PREFIX + 1, 1.0, factorization=biased)


def test_reports_have_as_many_coordinates_as_the_workload_has_rank(rng):
    workload = rng.normal(size=(7, 3)) @ rng.normal(size=(3, 6))
    factors = FactorizedQueries(workload, 1.0, shift=False).factors()
    assert factors.right.shape == (3, 6)
    np.testing.assert_allclose(factors.matrix, workload, atol=1e-9)
    assert factors.norm == pytest.approx(gamma2(workload).upper, rel=1e-6)
    assert np.linalg.norm(factors.right, axis=0).max() == pytest.approx(1)


@pytest.mark.slow
def test_constant_queries_cost_nothing():
    spec = FactorizedQueries(np.ones((2, 4)) * [[3.0], [-1.0]], 1.0)
    assert spec.worst_case_variance(1) < 1e-12
    np.testing.assert_allclose(spec.encoding().offset, [3, -1], atol=1e-6)
    assert not np.any(spec.build().decoder)


@pytest.mark.slow
def test_distribution_of_delays(key):
    """1,359 prefixes of the arrival delays of 327,346 flights, by an explicit factorization."""
    counts = load_flights()["arr_delay_hist"]
    found = explicit.toeplitz_prefix(counts.size)
    spec = FactorizedQueries(prefix(counts.size), 1.0, factorization=found)
    check_prediction(spec, counts, key, num_trials=300)


def test_the_mean_error_is_traded_for_bias():
    """For few users: the norm of the mean, of a workload whose worst query is not like the rest."""
    workload = np.vstack([prefix(6), 3 * np.eye(6)[:1]])
    few = 400
    exact = FactorizedQueries(workload, 1.0, norm="mean")
    traded = FactorizedQueries(workload, 1.0, num_users=few, norm="mean")
    assert exact.bias < 1e-6 < traded.bias
    counts = np.full(6, few // 6)

    def mean_error(protocol):
        return float(np.mean(protocol.variance(counts)))

    assert mean_error(traded) < 0.99 * mean_error(exact)
    given = FactorizedQueries(workload, 1.0, alpha=0.1, norm="mean")
    assert given.bias <= 0.1 + 1e-6


def test_a_small_query_keeps_its_direction():
    workload = prefix(6).copy()
    workload[2] = 1e-10 * (np.arange(6) % 2)
    factors = FactorizedQueries(workload, 1.0).factors()
    error = np.abs(factors.matrix - workload).max(axis=1)
    assert np.all(error <= 1e-6 * np.ptp(workload, axis=1))
