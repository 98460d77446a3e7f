"""Predicted and measured errors on the routes of real flights, protocol by protocol."""

import numpy as np
import pytest

from jaxdp.data import load_flights
from jaxdp.linear._gaussian_queries import GaussianQueries
from jaxdp.linear._laplace_queries import LaplaceQueries
from jaxdp.linear._optimized_strategy import OptimizedStrategy
from jaxdp.linear._oracle_queries import OracleQueries
from jaxdp.linear._projection_mechanism import ProjectionMechanism
from jaxdp.linear._rejection_queries import RejectionQueries
from jaxdp.randomizers import KRR, SubsetSelection
from jaxdp.workloads import prefix
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
