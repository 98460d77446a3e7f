"""Predicted and measured errors on the routes of real flights, protocol by protocol."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.data import load_flights
from jaxdp.linear import (
    AdaptiveQueries,
    GaussianQueries,
    LaplaceQueries,
    OptimizedStrategy,
    OracleQueries,
    ProjectionMechanism,
    RejectionQueries,
)
from jaxdp.randomizers import KRR, SubsetSelection
from jaxdp.workloads import prefix
from tests import stats
from tests.linear.measured import check_prediction

K = 223
CUMULATED = prefix(K)

PROTOCOLS = {
    "gaussian": lambda: GaussianQueries(CUMULATED, 2.0, 1e-6),
    "laplace": lambda: LaplaceQueries(np.eye(K), 2.0),
    "rejection": lambda: RejectionQueries(CUMULATED, 2.0),
    "subsets": lambda: OracleQueries(CUMULATED, SubsetSelection(K, 2.0)),
    "columns": lambda: ProjectionMechanism(CUMULATED, 2.0).protocol,
    "channel": lambda: OptimizedStrategy(
        CUMULATED, 2.1, channel=np.array(KRR(K, 2.0).channel(), np.float64)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS)
def test_routes(name, key):
    """327,346 flights on 223 routes; other protocols and data sets have tests of their own."""
    counts = load_flights()["route_counts"]
    assert counts.size == K
    check_prediction(PROTOCOLS[name](), counts, key, num_trials=300)


def ask(round, answers):
    """Shares of the first 50, 100 and 150 routes, whatever the answers."""
    return jnp.asarray(CUMULATED[49:150:50], jnp.float32)[round]


@pytest.mark.slow
def test_rounds_on_routes(key):
    """Errors of queries fixed in advance are exact: 2,000 trials tell 1.5 times them apart."""
    counts = load_flights()["route_counts"]
    protocol = AdaptiveQueries(K, 2.0, 3, ask, traceable=True)
    users = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(protocol, users, key, num_trials=2000)
    queries = CUMULATED[49:150:50]
    np.testing.assert_allclose(trials.truth[0], queries @ counts / counts.sum(), rtol=1e-6)
    predicted = protocol.variance(counts, queries)
    checked = dict(mean=0.0, kurtosis=3.1)  # means of 100,000 bits
    stats.check_variance(trials.errors, predicted, **checked)
    stats.must_fail(stats.check_variance, trials.errors, predicted / 1.5, **checked)
    stats.must_fail(stats.check_variance, trials.errors, predicted * 1.5, **checked)
