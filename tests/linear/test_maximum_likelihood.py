"""Estimates as people use them, and their expected errors for a prior."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.central import CosineSet, Marginals, MomentSet
from jaxdp.linear import (
    FactorizedQueries,
    GramQueries,
    HistogramQuery,
    LaplaceQueries,
    MarginalQueries,
    MaximumLikelihood,
    OracleQueries,
    Projected,
    ProjectedHadamard,
    ProjectionMechanism,
    post_processed,
)
from jaxdp.population import maximum_entropy
from jaxdp.randomizers import KRR, HadamardResponse, SubsetSelection
from jaxdp.reports import expectation_maximization, maximum_likelihood
from jaxdp.workloads import prefix

COUNTS = np.array([500, 300, 100, 60, 40])
USERS = jaxdp.Population.from_histogram(COUNTS)
RAW = HistogramQuery(HadamardResponse(5, 1.0))


@pytest.mark.parametrize("fit", ["newton", "em", "ems"])
@pytest.mark.parametrize("raw", [RAW, OracleQueries(prefix(5), HadamardResponse(5, 1.0))])
def test_answers_are_those_of_the_fit(raw, fit, key):
    spec = MaximumLikelihood(raw, fit)
    tally = jaxdp.engine.outcome(spec, USERS, key)
    if fit == "newton":
        fitted = maximum_likelihood(raw.oracle, tally)
    else:
        fitted = expectation_maximization(raw.oracle, tally, smooth=fit == "ems")
    answers = raw.answers(np.asarray(fitted.probabilities))
    np.testing.assert_allclose(jaxdp.run(spec, USERS, key), answers, atol=1e-9)
    assert spec.exact_epsilon() == raw.exact_epsilon()


def test_errors_are_below_their_bounds():
    spec = MaximumLikelihood(RAW)
    assert spec.variance_kind == spec.worst_case_variance(10).kind == "bound"
    assert spec.worst_case_total_variance(10) == 2.0
    found = spec.expected_error(COUNTS, 30, num_trials=50)
    assert found < spec.variance(COUNTS).mean()
    with pytest.raises(ValueError, match="tally counts each report"):
        MaximumLikelihood(HistogramQuery(SubsetSelection(5, 1.0)))
    with pytest.raises(TypeError, match="protocol"):
        MaximumLikelihood(LaplaceQueries(np.eye(5), 1.0))


def test_ways_to_use_an_estimate():
    ways = post_processed(HistogramQuery(KRR(5, 1.0)))
    assert {way: type(spec) for way, spec in ways.items()} == {
        "projected": Projected,
        "likelihood": MaximumLikelihood,
    }
    assert list(post_processed(FactorizedQueries(prefix(5), 1.0))) == ["projected"]


PRIORS = {
    "own": COUNTS,
    "zipf": "zipf",
    "uniform": "uniform",
    "maximum entropy": maximum_entropy(range(5), 0.8),
}
PROJECTED = {
    "Projected": Projected(RAW),
    "ProjectedHadamard": ProjectedHadamard(5, 1.0),
    "ProjectionMechanism": ProjectionMechanism(prefix(5), 1.0),
    "MaximumLikelihood": MaximumLikelihood(RAW),
}
ROWS = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", PROJECTED)
def test_expected_errors_are_those_of_other_runs(name, prior):
    """Simulated ones with their standard error: other keys agree, and bounds are above."""
    spec = PROJECTED[name]
    first = spec.expected_error(PRIORS[prior], 400, num_trials=100)
    again = spec.expected_error(PRIORS[prior], 400, num_trials=100, key=jax.random.key(1))
    assert first.kind == "simulated"
    assert first == spec.expected_error(PRIORS[prior], 400, num_trials=100)
    assert abs(first - again) < 7 * np.hypot(first.stderr, again.stderr)
    assert first < spec.worst_case_total_variance(400)
    assert spec.expected_error(PRIORS[prior], 400, num_trials=100, objective="max") >= first


@pytest.mark.parametrize("prior", [ROWS, "uniform", np.arange(8.0)], ids=["rows", "name", "cells"])
@pytest.mark.parametrize(
    "spec",
    [
        MarginalQueries(3, 2, 1.0, onto=MomentSet(3, 2)),
        Marginals(3, 2, 1.0, 1e-6),
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_expected_errors_of_marginals(spec, prior):
    found = spec.expected_error(prior, 200, num_trials=20)
    assert found.kind == "simulated"
    assert 0 < found < spec.total_variance(200)
    counts = np.asarray(spec.prior_users(prior, 200).counts(jax.random.key(0)).numpy())
    assert counts.sum() == 200


def test_expected_errors_of_inner_products():
    rows = np.array([[1.0, -1.0, 0.5], [0.0, 1.0, 1.0]])
    spec = GramQueries(3, 1.0, onto=CosineSet(3))
    assert spec.expected_error(rows, 100, num_trials=10) < spec.total_variance(100)


def test_priors_that_do_not_fit_are_refused():
    spec = MarginalQueries(3, 2, 1.0, onto=MomentSet(3, 2))
    for prior, message in (
        ("zipf", "prior must be one of 'uniform'"),
        (np.ones(5), "or a share of each of the 8 rows"),
        (np.zeros((0, 3)), "prior must have a row"),
        (np.full((2, 3), 2.0), "features must be 0 or 1"),
    ):
        with pytest.raises(ValueError, match=message):
            spec.expected_error(prior, 100)
    with pytest.raises(ValueError, match="are not listed; draw some at random"):
        MarginalQueries(20, 1, 1.0).expected_error("uniform", 100)
    with pytest.raises(ValueError, match="prior must have 5 entries"):
        Projected(RAW).expected_error([1, 2], 100)
    with pytest.raises(ValueError, match="num_trials"):
        Projected(RAW).expected_error("zipf", 100, num_trials=1)
