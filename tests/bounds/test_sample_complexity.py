"""Upper and lower sample complexities are public here too, in both models, for any workload."""

import math

import numpy as np
import pytest

from jaxdp import bounds, factorization, workloads
from jaxdp.linear import FactorizedQueries
from jaxdp.randomizers import PrivUnitG

WORKLOADS = {
    "thresholds": workloads.prefix(8),
    "parities": workloads.parity(3, 2),
    "marginals": workloads.marginal(3, 2, negations=True),
    "uneven": np.array([[1.0, 0.0, 0.5], [1.0, -1.0, 0.25]]),
}
LOSSES = {"gamma2": np.max, "gamma_f": np.mean}


def populations(rng, num_values):
    """Random ones, and pairs of values, where the answers vary most."""
    yield from rng.dirichlet(np.ones(num_values) / 2, size=20)
    for first in range(num_values):
        for second in range(first):
            yield np.eye(num_values)[[first, second]].mean(axis=0)


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


@pytest.mark.parametrize("norm", LOSSES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_local_bounds_enclose_the_exact_error_of_a_protocol(name, norm, rng):
    """One loss on both sides: with `upper` users no population errs more, at `lower` some do."""
    matrix, loss = WORKLOADS[name], LOSSES[norm]
    for epsilon, error in ((0.5, 0.02), (4.0, 0.01)):
        factors = getattr(factorization, norm)(matrix, shift=True)
        protocol = FactorizedQueries(matrix, epsilon, factorization=factors, randomizer=PrivUnitG)
        form = PrivUnitG(dim=3, epsilon=epsilon).covariance_form()
        assert form is not None

        def worst(num_users, protocol=protocol):
            values = populations(rng, matrix.shape[1])
            errors = (loss(protocol.population_variance(p, num_users)) for p in values)
            return math.sqrt(max(errors))

        bound = bounds.local_upper_bound(matrix, form[0], error, norm=norm, population=True)
        assert 0.9 * error < worst(math.ceil(bound)) < 1.02 * error  # biased factors save 2 %
        lower = bounds.local_lower_bound(matrix, epsilon, error, norm=norm, power=2)
        assert 0 < lower < bound
        assert worst(math.floor(lower)) > error
        # The answers of the users themselves are easier: with so many the population's are off.
        easier = bounds.local_upper_bound(matrix, form[0], error, norm=norm)
        assert easier < bound
