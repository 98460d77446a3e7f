"""Projected estimates: never worse, of the same reports, and below their bounds."""

import math
from typing import Any

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.linear import (
    FactorizedQueries,
    GaussianQueries,
    HistogramQuery,
    LaplaceQueries,
    Projected,
    ProjectionMechanism,
    RejectionQueries,
)
from jaxdp.linear._encoded import ball_center
from jaxdp.randomizers import KRR, Gaussian
from tests import stats

QUERIES = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0.5, 0, 0, -1, 2]])
COUNTS = np.array([40, 0, 10, 30, 20])
USERS = jaxdp.Population.from_histogram(COUNTS)
RAW = GaussianQueries(QUERIES, 1.0, 1e-3)
HISTOGRAM = HistogramQuery(KRR(5, 1.0))


def nearest(spec, raw):
    """The projections of raw estimates, float64[n, m]."""
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(spec.build()._nearest)(jax.numpy.asarray(raw)))


KINDS = [
    Projected(RAW, tol=1e-9),
    Projected(RAW, "polytope", tol=1e-9),
    Projected(RAW, "clip"),
    Projected(HISTOGRAM),
    Projected(HISTOGRAM, "polytope"),
    Projected(HISTOGRAM, "norm_sub"),
    Projected(HISTOGRAM, "clip"),
]


@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: f"{spec.onto}-{spec.num_queries}")
def test_projection_never_hurts(spec, rng):
    """For every outcome: `|P - a|**2 <= <z, P - a>`, P the projection of the raw estimate a + z."""
    truth = spec.truth(COUNTS)
    noise = rng.normal(size=(300, truth.size)) * np.geomspace(1e-3, 30, 300)[:, None]
    error = nearest(spec, truth + noise) - truth
    slack = 1e-4 * (1e-6 + np.square(noise).sum(axis=1))
    assert np.all(np.square(error).sum(axis=1) <= (noise * error).sum(axis=1) + slack)
    assert np.square(error).sum() < 0.1 * np.square(noise).sum()
    again = nearest(spec, truth + error)
    np.testing.assert_allclose(again, truth + error, atol=1e-3)


BOUNDED = {
    LaplaceQueries(QUERIES, 1.0): ("clip",),
    FactorizedQueries(QUERIES, 1.0, alpha=0.4): ("hull", "clip"),
    ProjectionMechanism(QUERIES, 1.0).protocol: ("hull", "polytope"),
}


@pytest.mark.slow
@pytest.mark.parametrize("raw", BOUNDED, ids=lambda raw: type(raw).__name__)
def test_errors_are_below_the_bounds(raw, key):
    """Power 0.999 to see a mean square 1.4 times the bound."""
    for scale in (1, 30):
        counts = COUNTS * scale
        users = jaxdp.Population.from_histogram(counts)
        trials = jaxdp.simulate(raw, users, key, num_trials=2000, method="tally")
        for onto in BOUNDED[raw]:
            spec = Projected(raw, onto)
            errors = nearest(spec, trials.estimates) - trials.truth
            total = np.sqrt(np.square(errors).sum(axis=1, keepdims=True))
            bound = spec.total_variance(counts)
            options: Any = dict(mean=0.0, kurtosis=6.0, at_most=True)
            assert bound <= raw.total_variance(counts)
            assert bound <= spec.worst_case_total_variance(counts.sum()) * (1 + 1e-9)
            stats.check_variance(total, bound, **options)
            each = spec.variance(counts)
            assert np.all(each <= spec.worst_case_variance(counts.sum()) * (1 + 1e-9))
            stats.check_variance(errors, each, **options)
            measured = np.square(total).mean()
            stats.must_fail(stats.check_variance, total, measured / 2, **options)


def test_many_queries_cost_no_more_than_few(rng):
    """The bound on the hull of 64 columns of norm 1 hardly depends on the number of queries."""
    bounds, raw = [], []
    for m in (2**8, 2**12):
        signs = rng.choice([-1.0, 1.0], size=(m, 64)) / math.sqrt(m)
        spec = ProjectionMechanism(signs, 1.0)
        bounds.append(spec.worst_case_total_variance(100))
        raw.append(spec.protocol.worst_case_total_variance(100))
    assert bounds[1] < 1.1 * bounds[0] < 1.5
    assert raw[1] > 15 * raw[0] * 0.9


@pytest.mark.slow
def test_reports_and_raw_estimate_are_those_of_the_protocol(key):
    params, inner = Projected(RAW).build(), RAW.build()
    words = jax.random.bits(key, (inner.num_words,), np.uint32)
    np.testing.assert_array_equal(params.from_bits(words, 3), inner.from_bits(words, 3))
    how = {"method": "per_user"}  # "auto" looks at what the projection costs, too
    tally = jaxdp.engine.outcome(Projected(RAW), USERS, key, **how)
    raw, estimate = params.raw(tally), params.estimate(tally)
    np.testing.assert_allclose(raw, jaxdp.run(RAW, USERS, key, **how), rtol=1e-6)
    np.testing.assert_allclose(estimate, jaxdp.run(Projected(RAW), USERS, key, **how), atol=1e-6)
    found = params.projection(tally)
    assert bool(found.converged)
    assert float(found.gap) <= 1e-6 * np.sum(np.square(raw))
    np.testing.assert_allclose(QUERIES @ np.asarray(found.weights), estimate, atol=1e-5)
    both = jax.vmap(params.estimate)(jax.tree.map(lambda x: np.stack([x, x]), tally))
    np.testing.assert_allclose(both, np.stack([estimate, estimate]), rtol=1e-5)


@pytest.mark.slow
def test_threshold_rule(key):
    """Algorithm 2: fewer users than the threshold are projected, others are not."""
    tally = jaxdp.engine.outcome(RAW, USERS, key)
    always = Projected(RAW, "polytope").build().estimate(tally)
    for below, projected in ((101, True), (100, False), (99.5, False), (math.inf, True)):
        spec = Projected(RAW, "polytope", below=below)
        found, raw = spec.build().estimate(tally), RAW.build().estimate(tally)
        np.testing.assert_allclose(found, always if projected else raw, rtol=1e-6)
        assert np.abs(np.asarray(found) - raw).max() > 0.1 or not projected
        if not projected:
            np.testing.assert_array_equal(spec.variance(COUNTS), RAW.variance(COUNTS))
            assert spec.worst_case_variance(100) == RAW.worst_case_variance(100)
            assert spec.worst_case_total_variance(100) == RAW.worst_case_total_variance(100)
            p = COUNTS / 100
            np.testing.assert_array_equal(
                spec.population_variance(p, 100), RAW.population_variance(p, 100)
            )
        else:
            assert spec.total_variance(COUNTS) <= RAW.total_variance(COUNTS)


@pytest.mark.slow
def test_threshold_rule_counts_who_did_not_drop_out(key):
    """Algorithm 4: of 1,000 users some hundred are kept, and these are compared with `below`."""
    segment, counts, p = QUERIES[:, [0, 4]], np.array([700, 300]), np.array([0.7, 0.3])
    printed = RejectionQueries(segment, 1.0, "as_printed", 1000)
    tally = jaxdp.engine.outcome(printed, jaxdp.Population.from_histogram(counts), key)
    kept = int(tally["active"])
    assert 100 < kept < 900
    raw = printed.build().estimate(tally)
    for below, projected in ((kept + 1, True), (kept, False), (999, True)):
        spec = Projected(printed, below=below)
        moved = np.abs(np.asarray(spec.build().estimate(tally)) - raw).max()
        assert (moved > 1e-3) == projected
        # Which of the two it will be is not known before: bounds hold for both.
        assert np.all(spec.variance(counts) >= printed.variance(counts))
        drawn = printed.population_variance(p, 1000)
        assert np.all(spec.population_variance(p, 1000) >= drawn)
        assert spec.total_variance(counts) == pytest.approx(printed.total_variance(counts))
        assert spec.worst_case_variance(1000) == printed.worst_case_total_variance(1000)
    repaired = Projected(RejectionQueries(segment, 1.0), below=500)
    np.testing.assert_array_equal(repaired.variance(counts), repaired.protocol.variance(counts))


@pytest.mark.parametrize("below", [100, 101])
def test_threshold_rule_of_an_oracle(below, key):
    """A tally of counted reports tells the number of its users, 100 here."""
    tally = jaxdp.engine.outcome(HISTOGRAM, USERS, key)
    found = Projected(HISTOGRAM, below=below).build().estimate(tally)
    expected = HISTOGRAM if below == 100 else Projected(HISTOGRAM)
    np.testing.assert_array_equal(found, expected.build().estimate(tally))


def test_bad_arguments(key):
    with pytest.raises(TypeError, match="protocol"):
        Projected(KRR(3, 1.0))  # pyright: ignore[reportArgumentType]
    for onto in ("simplex", "norm_sub"):
        with pytest.raises(ValueError, match="onto"):
            Projected(RAW, onto)
    with pytest.raises(ValueError, match="onto"):
        Projected(RAW, "ball")
    for below in (0, -1, math.nan):
        with pytest.raises(ValueError, match="below"):
            Projected(RAW, below=below)
    with pytest.raises(ValueError, match="tol"):
        Projected(RAW, tol=0)
    with pytest.raises(ValueError, match="projection"):
        Projected(RAW, "clip").build().projection(jaxdp.engine.outcome(RAW, USERS, key))
    for make, name in (
        (lambda: ProjectionMechanism(QUERIES * np.nan, 1.0), "workload"),
        (lambda: ProjectionMechanism(QUERIES, 0.0), "epsilon"),
    ):
        with pytest.raises(ValueError, match=name):
            make()
    with pytest.raises(TypeError, match=r"Gaussian.*'delta'.*functools.partial"):
        ProjectionMechanism(QUERIES, 1.0, randomizer=Gaussian)


def test_center_of_the_columns():
    """Within 1 % of the smallest ball; 0 or the mean where that is better."""
    angle = 2 * np.pi * np.arange(7) / 7
    points = np.stack([np.cos(angle) * 3 + 5, np.sin(angle) * 3 - 2])
    radius = np.linalg.norm(points - ball_center(points)[:, None], axis=0).max()
    assert 3 * (1 - 1e-9) <= radius <= 3.03
    np.testing.assert_allclose(ball_center(np.eye(4)), 0.25)
