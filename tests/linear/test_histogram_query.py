"""Histograms through frequency oracles, raw and projected."""

import functools
import math
import time

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp import projections
from jaxdp.data import load_flights, load_military
from jaxdp.linear import HistogramQuery, ProjectedHadamard
from jaxdp.randomizers import (
    KRR,
    HadamardBit,
    HadamardResponse,
    LocalHashing,
    UnaryEncoding,
)
from tests import stats
from tests.linear.measured import check_prediction


@pytest.mark.parametrize("make", [HadamardResponse, HadamardBit, UnaryEncoding])
def test_predictions_for_a_million_values(make):
    """Without any k x k matrix, which would have 8 TB."""
    k, n = 2**20, 10**6
    query = HistogramQuery(make(k, 2.0))
    counts = np.zeros(k, np.int64)
    counts[:2] = 600_000, 400_000
    began = time.perf_counter()
    variance, sampled = query.variance(counts), query.population_variance(counts / n, n)
    assert time.perf_counter() - began < 5
    np.testing.assert_allclose(variance, query.oracle.variance(counts) / n**2)
    np.testing.assert_allclose(sampled[:2] - variance[:2], 0.24 / n, rtol=1e-3)
    assert query.worst_case_variance(n) >= variance.max() * (1 - 1e-12)
    assert query.worst_case_total_variance(n) >= variance.sum() * (1 - 1e-12)


@pytest.mark.slow
def test_what_the_oracle_lacks_is_lacking(key):
    """Local hashing has no law of a tally."""
    query = HistogramQuery(LocalHashing(3, 1.0))
    params, users = query.build(), jaxdp.Population.from_histogram([3, 4, 5])
    assert params.law is None
    law = HistogramQuery(KRR(3, 1.0)).build().law
    assert law is not None
    assert law.independent is not None
    with pytest.raises(ValueError, match="per_user"):
        jaxdp.run(query, users, key, method="tally")
    assert jaxdp.run(query, users, key).shape == (3,)


POSTPROCESS = ("simplex", "norm_sub", "clip", "none")


def test_raw_estimates_are_always_there():
    tally = jaxdp.random.Count.of(np.array([40, 30, 0, 9, 1, 0, 20, 0]))
    params = {name: ProjectedHadamard(7, 1.0, name).build() for name in POSTPROCESS}
    raw = np.asarray(params["none"].estimate(tally))
    assert raw.min() < 0
    assert raw.max() > 1
    for name, expected in {
        "simplex": projections.simplex(raw),
        "norm_sub": projections.simplex(raw),
        "clip": np.clip(raw, 0, 1),
        "none": raw,
    }.items():
        np.testing.assert_array_equal(params[name].raw(tally), raw)
        np.testing.assert_allclose(params[name].estimate(tally), expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("num_users", [100, 100_000])
def test_errors_are_below_the_bound(num_users, key):
    """Both terms of the bound are the least once.

    They bound the mean of what bounds the error in every outcome: with w the projection of h + z,
    `|w - h|**2 <= max z - <z, h>`, and at most `|z|**2`.
    """
    k = 63
    spec = ProjectedHadamard(k, 1.0)
    counts = np.full(k, num_users // k)
    counts[: num_users - counts.sum()] += 1
    bound = spec.total_variance(counts)
    c = (math.e + 1) / (math.e - 1)
    raw, largest = (k * c**2 - 1) / num_users, c * math.sqrt(2 * math.log(k) / num_users)
    assert bound == pytest.approx(min(raw, largest), rel=1e-5)
    assert (raw < largest) == (num_users == 100_000)

    users, h = jaxdp.Population.from_histogram(counts), counts / num_users
    estimates = jaxdp.simulate(spec.histogram, users, key, num_trials=500, method="tally").estimates
    noise = estimates - h
    projected = np.asarray(projections.simplex(estimates), np.float64)
    error = np.square(projected - h).sum(axis=1)
    assert np.all(error <= noise.max(axis=1) - noise @ h + 1e-5)
    assert np.all(error <= np.square(noise).sum(axis=1) + 1e-5)
    if num_users == 100:
        size, check = np.sqrt(error), functools.partial(stats.check_variance, mean=0.0)
        check(size, bound, kurtosis=2 / bound, at_most=True)  # no error is above 2
        stats.must_fail(stats.check_variance, size, 0.02, mean=0.0, kurtosis=100, at_most=True)


def test_predictions_of_each_postprocessing():
    counts = np.array([50, 30, 15, 5, 0, 0, 0])
    specs = {name: ProjectedHadamard(7, 1.0, name) for name in POSTPROCESS}
    raw = HistogramQuery(HadamardResponse(7, 1.0, num_blocks=1))
    np.testing.assert_array_equal(specs["none"].variance(counts), raw.variance(counts))
    assert specs["none"].total_variance(counts) == raw.total_variance(counts)
    assert specs["none"].worst_case_variance(100) == raw.worst_case_variance(100)
    for spec in specs.values():
        assert np.all(spec.variance(counts) <= max(1, raw.variance(counts).max()))
        assert spec.total_variance(counts) <= raw.total_variance(counts)
        assert spec.worst_case_total_variance(1) >= spec.worst_case_variance(1)
        assert spec.exact_epsilon() <= 1.0
    p = counts / 100
    assert specs["simplex"].worst_case_total_variance(1) == 2.0
    extra = specs["none"].population_variance(p, 100) - raw.variance(counts)
    np.testing.assert_allclose(extra, p * (1 - p) / 100, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ProjectedHadamard(1, 1.0), "num_values"),
        (lambda: ProjectedHadamard(4, 0.0), "epsilon"),
        (lambda: ProjectedHadamard(4, float("nan")), "epsilon"),
        (lambda: ProjectedHadamard(4, 1.0, "project"), "postprocess"),
        (lambda: jaxdp.run(ProjectedHadamard(4, 1.0), USERS, jax.random.key(0)), "num_values = 4"),
        (lambda: ProjectedHadamard(4, 1.0).variance([1, 2, 3]), "counts must have 4 entries"),
    ],
)
def test_bad_input(make, name):
    with pytest.raises(ValueError, match=name):
        make()


USERS = jaxdp.Population.from_histogram([1, 2, 3])


@pytest.mark.slow
@pytest.mark.parametrize("make", [KRR, HadamardResponse, HadamardBit])
@pytest.mark.parametrize("data", ["tail numbers", "military"])
def test_large_histograms(make, data, key):
    """4,037 aircraft, and 1,646 cells of the armed forces."""
    counts = {
        "tail numbers": lambda: load_flights()["tailnum_counts"],
        "military": lambda: load_military()["counts"],
    }[data]()
    check_prediction(HistogramQuery(make(counts.size, 2.0)), counts, key, num_trials=500)


@pytest.mark.slow
@pytest.mark.parametrize("make", [HadamardResponse, UnaryEncoding])
def test_routes(make, key):
    """223 pairs of airports."""
    counts = load_flights()["route_counts"]
    query = HistogramQuery(make(counts.size, 1.0))
    check_prediction(query, counts, key, num_trials=1000, method="tally")


@pytest.mark.slow
def test_a_million_values(key):
    k = 2**20
    counts = np.zeros(k, np.int64)
    counts[[7, k - 1]] = 600_000, 400_000
    users = jaxdp.Population.from_histogram(counts)
    shares = jaxdp.run(ProjectedHadamard(k, 2.0), users, key, method="per_user")
    assert shares.sum() == pytest.approx(1)
    assert abs(shares[7] - 0.6) < 0.02
    assert abs(shares[k - 1] - 0.4) < 0.02
