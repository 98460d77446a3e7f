"""Numbers of users: formulas, and lower bounds below what mechanisms attain."""

import math

import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads
from jaxdp.factorization._sample_size import _reach

W = workloads.thresholds(3)


@pytest.mark.parametrize("norm", ["gamma_f", "gamma2"])
def test_central_bounds_scale_with_the_norm(norm):
    value = getattr(fz, norm)(W, shift=True)
    upper = fz.central_upper_bound(W, 4.0, 0.01, norm=norm)
    assert math.isclose(upper, 2 * 4.0 * value.upper / 0.01)
    lower = fz.central_lower_bound(W, 1.0, 0.0, 0.01, norm=norm)
    reach = math.sqrt(3)  # three points span two dimensions
    assert math.isclose(lower, reach * math.sqrt(2 / (math.exp(2) + 1)) * value.lower / 0.01)


@pytest.mark.slow
def test_central_lower_bound_of_symmetric_workloads_has_the_papers_form():
    """Columns come in pairs of mirror images, and no constant helps: 2·√c·γ_F(W)/error."""
    square = np.array([[1.0, 0, 1, 3], [2.0, 1, -1, 0], [0.0, 0, 5, 1]])
    signed = fz.symmetrize(square)
    floor = math.sqrt(2 / (math.exp(2) + 1))
    for matrix in (signed, signed + np.array([[1.0], [-2.0], [0.25]])):
        bound = fz.central_lower_bound(matrix, 1.0, 0.0, 1.0)
        assert math.isclose(bound, 2 * floor * fz.gamma_f(square).lower, rel_tol=3e-6)


def test_no_covariance_beats_the_geometry_of_the_central_bound(rng):
    """uᵀΣu ≥ (uᵀ(W_x − W_x'))² for all u and x, x' makes √(tr Σ/m) at least b·γ_F(W − v·1ᵀ)."""

    def least(matrix, shape):
        """√(tr Σ/m) of the least multiple Σ of `shape` with that property."""
        differences = (matrix[:, :, None] - matrix[:, None, :]).reshape(3, -1)
        size = np.max(np.sum(differences * (np.linalg.pinv(shape) @ differences), axis=0))
        return math.sqrt(size * np.trace(shape) / 3)

    def bound(matrix):
        return _reach(matrix) * fz.gamma_f(matrix, shift=True).lower

    matrix = rng.normal(size=(3, 3))
    for factor in rng.normal(size=(50, 3, 3)):
        assert least(matrix, factor @ factor.T) >= bound(matrix)
    simplex = workloads.identity(3)  # here the bound is attained
    assert math.isclose(least(simplex, np.eye(3) - 1 / 3), bound(simplex), rel_tol=1e-5)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0])
def test_central_lower_bound_is_below_the_laplace_mechanism(epsilon):
    """Noise Lap(2/ε) on the one answer of (1, −1) is ε-private and data-independent."""
    laplace = math.sqrt(2) * 2 / epsilon
    bound = fz.central_lower_bound([[1.0, -1.0]], epsilon, 0.0, 1.0)
    assert 0.1 * laplace < bound <= laplace


def test_delta_weakens_the_central_bound():
    bounds = [fz.central_lower_bound(W, 0.5, delta, 0.01) for delta in (0.0, 1e-3, 0.1, 1.0)]
    assert bounds[0] > bounds[1] > bounds[2] > bounds[3] == 0.0


def test_one_value_has_known_answers():
    assert fz.central_lower_bound([[1.0], [2.0]], 1.0, 0.0, 0.01) == 0.0
    assert fz.central_upper_bound([[1.0], [2.0]], 4.0, 0.01) == 0.0
    assert fz.local_lower_bound([[1.0], [2.0]], 1.0, 0.01) == 0.0


def test_local_upper_bound_trades_bias_for_noise():
    value = fz.gamma2(W, shift=True).upper
    plain = value**2 * 6.33 / 0.3**2
    assert 0.5 * plain < fz.local_upper_bound(W, 6.33, 0.3) < plain
    assert fz.local_upper_bound(W, 6.33, 2.0) == 0.0  # the zero matrix is close enough


@pytest.mark.slow
def test_local_bounds_are_consistent():
    """One-bit randomized response has variance (e^ε + 1)²/(e^ε − 1)² on one query of (1, −1)."""
    for epsilon in (0.1, 1.0):
        variance = (math.cosh(epsilon / 2) / math.sinh(epsilon / 2)) ** 2
        matrix = np.array([[1.0, -1.0]])
        for error in (0.01, 0.1):
            lower = fz.local_lower_bound(matrix, epsilon, error)
            assert 0 < lower <= fz.local_upper_bound(matrix, variance, error)


BAD = [
    (lambda: fz.local_upper_bound(W, 0.0, 0.1), "variance"),
    (lambda: fz.local_upper_bound(W, 1.0, -0.1), "error"),
    (lambda: fz.local_upper_bound(np.ones((2, 2, 2)), 1.0, 0.1), "matrix"),
    (lambda: fz.central_lower_bound(W, 0.0, 0.0, 0.1), "epsilon"),
    (lambda: fz.central_lower_bound(W, 1.0, 1.5, 0.1), "delta"),
    (lambda: fz.central_lower_bound(W, 1.0, 0.0, 0.1, norm="zeta"), "norm"),
    (lambda: fz.central_upper_bound(W, -1.0, 0.1), "noise_multiplier"),
]


@pytest.mark.parametrize(("call", "name"), BAD)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
