"""Queries whose users report the column of their value: predictions, noise, printed variants."""

import functools
import math

import jax
import numpy as np
import pytest
from scipy.stats import binom

import jaxdp
from jaxdp.linear import (
    FactorizedQueries,
    GaussianQueries,
    LaplaceQueries,
    RejectionQueries,
    _encoded,
)
from jaxdp.linear._rejection_queries import _accepted
from jaxdp.randomizers import (
    Gaussian,
    GaussianRejection,
    L2Ball,
    PrivUnit,
    PrivUnitG,
    ProjUnit,
)
from jaxdp.randomizers._gaussian_rejection_law import ratio_error
from jaxdp.workloads import identity, parity, prefix
from tests import stats

QUERIES = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0.5, 0, 0, -1, 2]])

RANDOMIZERS = (
    L2Ball,
    PrivUnit,
    PrivUnitG,
    GaussianRejection,
    functools.partial(ProjUnit, num_projected=2),
    functools.partial(Gaussian, delta=1e-3),
)


@pytest.mark.parametrize("make", RANDOMIZERS, ids=lambda make: str(getattr(make, "func", make)))
def test_short_form_of_a_covariance_is_that_of_the_moments(make):
    spec = make(dim=3, epsilon=1.0, radius=2.0)
    form = spec.covariance_form()
    assert form is not None
    isotropic, along = form
    for value in ((0.0, 0.0, 0.0), (1.0, -1.0, 0.5), (0.0, 2.0, 0.0)):
        mean, covariance = spec.moments(np.array(value))
        np.testing.assert_allclose(mean, value, atol=1e-7)
        expected = isotropic * np.eye(3) + along * np.outer(value, value)
        np.testing.assert_allclose(covariance, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_other_covariances_are_read_from_the_moments(monkeypatch):
    """As they would be for a randomizer without a short form."""
    assert GaussianRejection(3, 1.0, 2.0, "as_printed", 1000).covariance_form() is None
    spec = FactorizedQueries(QUERIES, 1.0, randomizer=L2Ball)
    expected = spec.contributions()
    monkeypatch.setattr(L2Ball, "covariance_form", lambda self: None)
    found = _encoded._contributions.__wrapped__(spec)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_laplace_noise_is_for_the_better_center():
    """0 for the histogram, the middle column for prefixes, 1/2 for queries of many signs."""
    signs = np.array([[0, 1, 0, 1], [0, 0, 1, 1]])
    for workload, bound in ((identity(5), 1), (prefix(9), 4), (signs, 1), (np.ones((2, 3)), 1e-9)):
        spec = LaplaceQueries(workload, 1.0)
        assert spec.encoding().randomizer.bound == pytest.approx(bound)
        worst = spec.worst_case_variance(1)  # noise that is cut has less than 8 bound**2
        assert 0.6 * 8 * bound**2 < worst <= 8 * bound**2
        np.testing.assert_allclose(spec.contributions()[0], workload, atol=1e-6)


def test_variances_by_entry_are_those_of_the_moments():
    """Laplace has no short form: the variance of each entry, or what the covariance says."""
    spec = LaplaceQueries(QUERIES, 1.0)
    encoding = spec.encoding()
    moments = [encoding.randomizer.moments(x)[1] for x in encoding.embedding.astype(float)]
    expected = np.stack([np.diagonal(covariance) for covariance in moments], axis=1)
    np.testing.assert_allclose(spec.contributions()[1], expected, rtol=1e-9)


def test_gaussian_noise_is_for_the_two_columns_that_are_farthest_apart():
    spec = GaussianQueries(QUERIES, 1.0, 1e-6)
    assert 1 <= spec.sigma / (8.449 / 2 * math.sqrt(10)) < 1.001  # the last two; and the grid
    assert spec.encoding().randomizer.diameter == pytest.approx(math.sqrt(10), rel=1e-6)
    np.testing.assert_allclose(spec.contributions()[0], QUERIES, atol=1e-6)
    assert (
        spec.exact_delta() <= 1e-6 < GaussianQueries(QUERIES, 1.0, 1e-6, "as_printed").exact_delta()
    )
    assert spec.worst_case_total_variance(10) == pytest.approx(3 * spec.sigma**2 / 10, rel=1e-5)
    threshold = 9 * math.log(2e6) / (8 * math.log(5))
    assert spec.projection_threshold() == pytest.approx(threshold)
    assert GaussianQueries(QUERIES[:, :1], 1.0, 1e-6).projection_threshold() == math.inf


@pytest.mark.parametrize(
    "make",
    [
        lambda w: GaussianQueries(w, 1.0, 1e-6),
        lambda w: RejectionQueries(w, 1.0),
        lambda w: LaplaceQueries(w, 1.0),
    ],
    ids=["gaussian", "rejection", "laplace"],
)
def test_what_all_columns_share_needs_no_noise(make):
    """A constant added to a query moves its answer and nothing else; constant queries are free."""
    for workload in (np.zeros((2, 3)), np.array([[5.0] * 4, [-1.0] * 4])):
        spec = make(workload)
        assert spec.worst_case_variance(1) < 1e-12
        np.testing.assert_allclose(spec.contributions()[0], workload)
    moved = prefix(8) + np.arange(8.0)[:, None]
    found, plain = (make(w).worst_case_total_variance(10) for w in (moved, prefix(8)))
    assert found == pytest.approx(plain, rel=1e-3)


def test_columns_are_centered():
    """The smallest ball around prefixes has r**2 = 15 / 4, that around parities less than 11."""
    full = GaussianRejection(16, 1.0, 4.0).worst_case_variance(1)
    spec = RejectionQueries(prefix(16), 1.0)
    assert spec.encoding().randomizer.radius == pytest.approx(math.sqrt(15) / 2, rel=1e-3)
    assert spec.worst_case_variance(1) == pytest.approx(full * 15 / 64, rel=0.05)
    subsets = parity(4, 2)  # 11 queries, one of them constant
    printed = GaussianQueries(subsets, 1.0, 1e-6, "as_printed").encoding().randomizer
    assert printed.radius == pytest.approx(math.sqrt(11), rel=1e-6)
    assert GaussianQueries(subsets, 1.0, 1e-6).encoding().randomizer.radius < math.sqrt(10.01)


def test_largest_distance_of_many_vectors(rng):
    vectors = rng.normal(size=(50, 7)).astype(np.float32)
    exact = max(np.linalg.norm(a - b) for a in vectors.astype(float) for b in vectors.astype(float))
    radius = float(np.linalg.norm(vectors, axis=1).max()) * 1.001
    found = _encoded.largest_distance(vectors, radius)
    assert exact <= found <= exact * (1 + 1e-6)
    assert _encoded.largest_distance(vectors, exact / 2) == exact  # never more than 2 radius


def test_domain_of_another_size_is_refused():
    population = jaxdp.Population.from_histogram([5, 6, 7])
    with pytest.raises(ValueError, match=r"3.*workload's number of columns = 5"):
        jaxdp.run(GaussianQueries(QUERIES, 1.0, 1e-3), population, jax.random.key(0))
    with pytest.raises(ValueError, match="transpose"):
        GaussianQueries(QUERIES, 1.0, 1e-3).variance([5, 6, 7])
    with pytest.raises(ValueError, match="pass its transpose"):  # QUERIES is [3, 5]
        jaxdp.run(LaplaceQueries(QUERIES, 1.0), population, jax.random.key(0))
    with pytest.raises(ValueError, match="must name one domain"):
        jaxdp.run(LaplaceQueries(QUERIES[:2], 1.0), population, jax.random.key(0))


def test_printed_rejection_is_predicted_for_independent_users():
    """`population_variance` is the mean of the errors about W p over all histograms of 3 users."""
    spec = RejectionQueries(QUERIES[:, [0, 4]], 1.0, "as_printed", 1000)
    p, target = 0.3, QUERIES[:, [0, 4]] @ [0.3, 0.7]
    kept, mean, spread = _accepted(spec)
    expected = sum(
        binom.pmf(c, 3, p)
        * ratio_error(np.array([c, 3.0 - c]), kept, mean - target, spread, target)
        for c in range(4)
    )
    np.testing.assert_allclose(spec.population_variance([p, 1 - p], 3), expected, rtol=1e-6)
    assert np.all(spec.variance([3, 0]) <= spec.worst_case_variance(3))
    assert spec.variance([1, 2]).sum() <= spec.worst_case_total_variance(3)
    assert spec.exact_epsilon() == math.inf


@pytest.mark.slow
def test_printed_rejection_is_biased(key):
    """Kept reports average 0.78 of a column of norm r at n = 1e4."""
    spec = RejectionQueries(np.array([[1.0, -1.0]]), 1.0, "as_printed", 10**4)
    users = jaxdp.Population.from_histogram([10**4, 0])
    trials = jaxdp.simulate(spec, users, key, num_trials=300, method="tally")
    variance = spec.variance([10**4, 0]) - 0.22**2
    stats.check_mean(trials.estimates, 0.78, variance=variance * 1.1)
    stats.must_fail(stats.check_mean, trials.estimates, 1.0, variance=variance * 1.1)
    assert spec.projection_threshold(100) == pytest.approx(math.log(100) / (4 * math.log(2)))


def test_printed_rejection_warns_of_few_users():
    with pytest.warns(UserWarning, match="num_users = 100"):
        RejectionQueries(QUERIES, 1.0, "as_printed", 100)


@pytest.mark.parametrize("users", [None, 1000])
def test_kept_reports_have_the_errors_of_the_randomizer_of_columns(users):
    """Also for users who do not balance each other, whose target is far from 0."""
    variant = "repaired" if users is None else "as_printed"
    protocol = RejectionQueries(QUERIES, 0.5, variant, users)
    counts = np.array([900, 0, 50, 30, 20])
    columns = QUERIES.T.astype(np.float32)
    radius = float(np.sqrt((QUERIES**2).sum(axis=0)).max())
    if users is not None:
        randomizer = GaussianRejection(3, 0.5, radius, variant, users)
        expected = randomizer.variance(counts, columns)
        np.testing.assert_allclose(protocol.variance(counts), expected, rtol=1e-6)
    flipped = RejectionQueries(-QUERIES, 0.5, variant, users)
    np.testing.assert_allclose(flipped.variance(counts), protocol.variance(counts), rtol=1e-9)
