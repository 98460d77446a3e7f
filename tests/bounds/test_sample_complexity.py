"""Upper and lower sample complexities are public here too, in both models, for any workload."""

import numpy as np
import pytest

from jaxdp import bounds


@pytest.mark.slow
def test_lower_bounds_are_below_upper_bounds_for_a_rectangular_workload():
    matrix = np.array([[1.0, 0.0, 0.5], [1.0, -1.0, 0.25]])
    epsilon, error = 0.5, 0.05
    variance = ((np.e**epsilon + 1) / (np.e**epsilon - 1)) ** 2  # of the best one-bit reports
    local = bounds.local_lower_bound(matrix, epsilon, error)
    assert 0 < local <= bounds.local_upper_bound(matrix, variance, error)
    central = bounds.central_lower_bound(matrix, epsilon, 1e-6, error)
    gaussian = np.sqrt(2 * np.log(1.25e6)) / epsilon
    assert 0 < central <= bounds.central_upper_bound(matrix, gaussian, error)
