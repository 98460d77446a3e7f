"""Moments of frequency oracles, and queries answered through them."""

import numpy as np
import pytest

from jaxdp.data import load_flights
from jaxdp.linear import HistogramQuery, OracleQueries
from jaxdp.randomizers import (
    KRR,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    ProjectiveGeometryResponse,
    Rappor,
    SubsetSelection,
    SupportOracle,
    UnaryEncoding,
)
from jaxdp.workloads import prefix
from tests.linear.measured import check_prediction

ORACLES = {
    "krr": KRR(5, 1.0),
    "krr-2": KRR(2, 0.5),
    "optimal-unary": UnaryEncoding(5, 1.0),
    "symmetric-unary": UnaryEncoding(6, 1.0, kind="symmetric"),
    "hadamard-bit": HadamardBit(5, 1.0),
    "subsets": SubsetSelection(7, 1.0),
    "subsets-of-one": SubsetSelection(6, 3.0),
    "subsets-2": SubsetSelection(2, 1.0),
    "local-hashing": LocalHashing(6, 1.0),
    "hadamard": HadamardResponse(7, 1.0),
    "hadamard-blocks": HadamardResponse(11, 3.0),
    "hadamard-rows": HadamardResponse(7, 1.0, num_blocks=2),
    "hadamard-alone": HadamardResponse(4, 4.0, num_blocks=4),
    "projective": ProjectiveGeometryResponse(9, 1.0),
    "projective-line": ProjectiveGeometryResponse(6, 3.0),
    "rappor": Rappor(9, 2.0, num_bits=8, num_hashes=2, num_cohorts=4, num_rounds=2),
}
oracles = pytest.mark.parametrize("oracle", ORACLES.values(), ids=ORACLES)


def by_covariance(oracle, queries):
    """The variances of queries from their definition, `w^T S_v w`."""
    covariances = np.stack([oracle.covariance(v) for v in range(oracle.num_values)])
    return np.einsum("mi,vij,mj->mv", queries, covariances, queries)


@oracles
def test_query_variances_are_those_of_the_covariances(oracle, rng):
    queries = rng.normal(size=(6, oracle.num_values)) + 2
    found, expected = oracle.query_variances(queries), by_covariance(oracle, queries)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@oracles
def test_variances_of_counts(oracle, rng):
    single = oracle.query_variances(np.eye(oracle.num_values))
    p = rng.dirichlet(np.ones(oracle.num_values))
    np.testing.assert_allclose(oracle.expected_variances(p), single @ p, rtol=1e-12)
    np.testing.assert_allclose(
        oracle.worst_case_total_variance(1), single.sum(axis=0).max(), rtol=1e-12
    )


@pytest.mark.parametrize(
    "make", [KRR, HadamardResponse, HadamardBit, SubsetSelection, ProjectiveGeometryResponse]
)
def test_a_thousand_queries_on_a_thousand_values(make, rng, monkeypatch):
    """Without any covariance matrix, and equal to one for some queries."""
    oracle = make(1024, 1.0)
    queries = rng.normal(size=(1024, 1024))
    covariance = oracle.covariance(1000)
    monkeypatch.setattr(make, "covariance", None)
    found = oracle.query_variances(queries)
    expected = np.sum((queries[:3] @ covariance) * queries[:3], axis=1)
    np.testing.assert_allclose(found[:3, 1000], expected, rtol=1e-9)


def test_an_oracle_of_ones_own(rng):
    """An oracle that gives its covariance alone is asked for nothing else."""

    class Coarse(KRR):
        __slots__ = ()

        def covariance(self, value):
            return 4 * KRR(5, 1.0).covariance(value)

        def joint_support(self):
            return None

        def noise(self):
            return SupportOracle.noise(self)

    queries = rng.normal(size=(3, 5))
    expected = OracleQueries(queries, KRR(5, 1.0)).contributions()[1]
    found = OracleQueries(queries, Coarse(5, 1.0)).contributions()[1]
    np.testing.assert_allclose(found, 4 * expected)


@oracles
def test_the_identity_is_the_histogram(oracle):
    k = oracle.num_values
    histogram, queries = HistogramQuery(oracle), OracleQueries(np.eye(k), oracle)
    counts, p = np.arange(1, k + 1), np.arange(1, k + 1) / (k * (k + 1) / 2)
    for one, two in (
        (histogram.variance(counts), queries.variance(counts)),
        (histogram.population_variance(p, 50), queries.population_variance(p, 50)),
        (histogram.worst_case_variance(50), queries.worst_case_variance(50)),
        (histogram.worst_case_total_variance(50), queries.worst_case_total_variance(50)),
        (histogram.total_variance(counts), queries.total_variance(counts)),
    ):
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_randomized_response_answers_a_constant_query_exactly():
    queries = OracleQueries(np.ones((1, 5)), KRR(5, 1.0))
    assert queries.worst_case_variance(num_users=1) < 1e-12
    assert OracleQueries(np.ones((1, 5)), UnaryEncoding(5, 1.0)).worst_case_variance(1) > 1


def test_sizes_that_differ_are_both_named():
    with pytest.raises(ValueError, match="num_values = 4, but the workload has 5 columns"):
        OracleQueries(prefix(5), KRR(4, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("make", [KRR, HadamardResponse])
def test_distribution_of_arrival_delays(make, key):
    """1,359 values: the predicted error of every point of the distribution function."""
    counts = load_flights()["arr_delay_hist"]
    spec = OracleQueries(prefix(counts.size), make(counts.size, 2.0))
    check_prediction(spec, counts, key, num_trials=1000)
