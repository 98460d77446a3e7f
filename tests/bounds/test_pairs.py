"""Theorems 4 and 5 of Bell et al. (2020)."""

import numpy as np
import pytest

from jaxdp.bounds._auc import HierarchicalAUCBounds
from jaxdp.bounds._pairs import (
    all_pairs_mse,
    one_round_auc_mse,
    optimal_num_permutations,
    pair_sampling_mse,
)


def test_the_rates_of_theorem_4():
    """In alpha 3, 2 and 2, in n -1, in eps -2; and it is Theorem 3 with the right variance."""
    n = 10**12

    def error(height=6, users=n, epsilon=0.01, **options):
        return one_round_auc_mse(users, users, height, epsilon, **options)

    for options, power in (
        ({}, 3),
        ({"splitting": "users"}, 2),
        ({"delta": 1e-8, "method": "advanced"}, 2),
    ):
        assert np.log2(error(24, **options) / error(12, **options)) == pytest.approx(
            power, abs=0.15
        )
        assert error(users=4 * n, **options) / error(**options) == pytest.approx(1 / 4, rel=0.1)
        assert error(epsilon=0.02, **options) / error(**options) == pytest.approx(1 / 4, rel=0.1)
    spread = 6 * ((np.e + 1) / (np.e - 1)) ** 2
    assert one_round_auc_mse(400, 600, 6, 1.0, splitting="users") == pytest.approx(
        HierarchicalAUCBounds(400, 600, 6, spread).theorem()
    )


def test_the_noise_is_that_of_the_laplace_variables(rng):
    """A sum of P n / 2 of them of scale P / eps, drawn; the printed half of it is refuted.

    20,000 sums of 12 draws: the relative standard error of their variance is 1.2 %.
    """
    n, p, epsilon = 8, 3, 0.5
    noise = rng.laplace(scale=p / epsilon, size=(20_000, p * n // 2)).mean(axis=1)
    found = pair_sampling_mse(n, epsilon, p, zeta_1=0.0, zeta_2=0.0)
    assert found == pytest.approx(4 * p / (n * epsilon**2))
    assert 0.9 < noise.var() / found < 1.1


def test_one_matching_and_all_that_there_are():
    assert pair_sampling_mse(10, 1.0, 1) == pytest.approx(2 / 10 * 0.25 + 4 / 10)
    # A kernel that is a sum of functions of one user: only sampling and noise, for every P.
    for p in (1, 2, 9):
        found = pair_sampling_mse(10, 1.0, p, zeta_1=0.1, zeta_2=0.2)
        assert found == pytest.approx(4 * 0.1 / 10 + 4 * p / 10)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 4.1, 9.0, 30.0])
@pytest.mark.parametrize("zetas", [(0.0, 0.25), (0.02, 0.2), (0.1, 0.2)])
def test_the_optimal_number_of_matchings(epsilon, zetas):
    """No other one of the first 60 does better with 10**12 users."""
    options = dict(zeta_1=zetas[0], zeta_2=zetas[1])
    errors = [pair_sampling_mse(10**12, epsilon, p, **options) for p in range(1, 61)]
    best = optimal_num_permutations(epsilon, **options)
    assert errors[best - 1] == pytest.approx(min(errors), rel=1e-9)


def test_all_pairs_by_advanced_composition():
    """About 8 ln(1/delta) / (n eps**2) at small eps; optimal composition is better."""
    n, delta = 10**6, 1e-8
    found = all_pairs_mse(n, 0.1, delta)
    assert found == pytest.approx(8 * np.log(1 / delta) / (n * 0.1**2), rel=0.01)
    assert all_pairs_mse(1000, 1.0, delta, method="optimal") < all_pairs_mse(1000, 1.0, delta)
    assert all_pairs_mse(1000, 1.0, delta, u_statistic_variance=1.0) > 1


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("num_users", lambda: pair_sampling_mse(7, 1.0, 1)),
        ("num_permutations", lambda: pair_sampling_mse(8, 1.0, 8)),
        ("epsilon", lambda: pair_sampling_mse(8, 0.0, 1)),
        ("zeta_2", lambda: pair_sampling_mse(8, 1.0, 1, zeta_2=0.3)),
        ("zeta_1", lambda: pair_sampling_mse(8, 1.0, 1, zeta_1=0.2)),
        ("zeta_1", lambda: optimal_num_permutations(1.0, zeta_1=0.2)),
        ("num_users", lambda: all_pairs_mse(1, 1.0, 0.1)),
        ("height", lambda: one_round_auc_mse(1, 1, 0, 1.0)),
        ("splitting", lambda: one_round_auc_mse(1, 1, 2, 1.0, splitting="both")),
        ("delta", lambda: one_round_auc_mse(1, 1, 2, 1.0, splitting="users", delta=0.1)),
        ("num_positive", lambda: one_round_auc_mse(1, 0, 2, 1.0)),
        (r"\bdelta\b", lambda: all_pairs_mse(10, 1.0, 0.0)),
        (r"\bdelta\b", lambda: all_pairs_mse(10, 1.0, 1.0)),
        (r"\bdelta\b", lambda: one_round_auc_mse(1, 1, 2, 1.0, delta=1.0, method="optimal")),
    ],
)
def test_bad_input(name, bad):
    with pytest.raises(ValueError, match=name):
        bad()
