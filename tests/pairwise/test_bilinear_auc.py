"""The bilinear AUC: factors, exact errors, the published numbers."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.factorization import gamma2
from jaxdp.pairwise import BilinearAUC
from jaxdp.pairwise.auc._bilinear_auc import sign_factors
from tests import stats
from tests.pairwise.test_hierarchical_auc import APART, UNIFORM


@pytest.mark.parametrize("d", [2, 3, 8, 65])
def test_factors_are_exact_and_shortest(d):
    left, right = sign_factors(d)
    place = np.arange(d)
    signs = np.sign(place[:, None] - place) / 2
    np.testing.assert_allclose(left.T @ right, signs, atol=1e-12)
    squares = np.concatenate([np.sum(x**2, axis=0) for x in (left, right)])
    np.testing.assert_allclose(squares, squares[0])
    if d == 8:
        certified = gamma2(signs)
        assert certified.lower <= squares[0] * (1 + 1e-6)
        assert squares[0] <= certified.upper * (1 + 1e-6)


def test_errors_are_the_published_ones():
    """d = 64, epsilon = 1, 4,000 and 6,000 users: at most 0.007, and 0.0015 on uniform scores."""
    spec = BilinearAUC(64, 1.0)
    worst = spec.worst_case_variance(10_000, 6000)
    assert 0.0065 < worst <= 0.007
    assert 0.0013 < float(spec.variance(UNIFORM)) <= 0.0015
    assert float(spec.variance(APART)) == pytest.approx(worst, rel=1e-6)
    assert worst < spec.worst_case_variance(10_000)


def test_the_variance_is_that_of_moments_of_reports():
    """From the covariance of each value's report, summed user by user."""
    spec = BilinearAUC(3, 2.0)
    counts = np.array([3, 1, 2, 1, 4, 2])
    columns = spec.build().embedding.astype(np.float64)
    means, covariances = zip(*(spec.vector_randomizer.moments(c) for c in columns), strict=True)
    sides = []
    for part in (slice(0, 3), slice(3, 6)):
        n = counts[part].sum()
        mean = counts[part] @ np.array(means)[part] / n
        sides.append((mean, np.tensordot(counts[part], np.array(covariances)[part], 1) / n**2))
    (low, of_low), (high, of_high) = sides
    expected = low @ of_high @ low + high @ of_low @ high + np.sum(of_low * of_high)
    assert float(spec.variance(counts)) == pytest.approx(expected, rel=1e-5)
    assert 0.5 + low @ high == pytest.approx(float(spec.truth(counts)), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["public", "private"])
def test_users_visited_one_by_one(labels, key):
    """1,000 trials of 300 users: offsets of 0.36 in the mean, of three fifths in the variance.

    Reports are told apart by their labels on this path only. The classes are far apart, so that
    labels that are mixed up show in the mean.
    """
    spec = BilinearAUC(2, 6.0, labels)
    counts = np.array([90, 10, 20, 180])
    population = jaxdp.Population.from_histogram(counts)
    trials = jaxdp.simulate(spec, population, key, num_trials=1000, method="per_user")
    expected, errors = float(spec.variance(counts)), trials.errors.ravel()
    stats.check_mean(errors, 0.0, variance=1.1 * expected)
    stats.check_variance(errors, expected, mean=0.0, kurtosis=4.0)
    swapped = 1 - 2 * (trials.estimates.ravel() - errors) - errors  # the truth of other labels
    stats.must_fail(stats.check_mean, swapped, 0.0, variance=1.1 * expected)
    stats.must_fail(stats.check_variance, 1.5 * errors, expected, mean=0.0, kurtosis=4.0)


def test_private_labels():
    """Averages over pairs are those of the kernel; errors, their bound, and known labels."""
    spec = BilinearAUC(3, 2.0, "private")
    counts = np.array([3, 1, 2, 1, 4, 2])
    params, kernel = spec.build(), spec.kernel
    columns = params.embedding.astype(np.float64)
    forms = zip(params.scales, params.constant, strict=True)
    found = np.stack([(columns * scale) @ columns.T + constant for scale, constant in forms])
    np.testing.assert_allclose(found, kernel.matrices((2, 3)), atol=1e-6)
    assert spec.exact_epsilon() <= 2.0
    # The linearised ratio, pair by pair.
    means, covariances = zip(*(spec.vector_randomizer.moments(c) for c in columns), strict=True)
    area = float(spec.truth(counts))
    weights = np.diag(params.scales[0] - area * params.scales[1])
    users = np.repeat(np.arange(6), counts)
    total = counts @ np.array(means)
    expected = 0.0
    for i, user in enumerate(users):
        slope = 2 * weights @ (total - means[user])
        expected += slope @ covariances[user] @ slope
        for other in np.delete(users, i):
            expected += 2 * np.sum((weights @ covariances[user]).T * (weights @ covariances[other]))
    share = 2 * counts[:3].sum() * counts[3:].sum()
    assert float(spec.variance(counts)) == pytest.approx(expected / share**2, rel=1e-4)
    apart = BilinearAUC(64, 1.0, "private")
    worst = apart.worst_case_variance(10_000, 6000)
    for table in (UNIFORM, APART):
        public = float(BilinearAUC(64, 1.0).variance(table))
        assert public < float(apart.variance(table)) <= worst
    assert worst < 1.1 * float(apart.variance(APART))
    assert worst < apart.worst_case_variance(10_000)


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["public", "private"])
def test_population_errors(labels, key):
    """Independent users: the mean of 4,000 trials, and their variance within a quarter."""
    spec = BilinearAUC(3, 4.0, labels)
    p = np.array([0.2, 0.1, 0.1, 0.1, 0.2, 0.3])
    population = jaxdp.Population.from_distribution(p, 500)
    trials = jaxdp.simulate(
        spec, population, key, num_trials=4000, method="tally", truth="population"
    )
    expected = float(spec.population_variance(p, 500))
    errors = trials.errors.ravel()
    stats.check_mean(errors, 0.0, variance=1.3 * expected)
    stats.check_variance(errors, expected, mean=0.0, kurtosis=6.0)
    stats.must_fail(stats.check_variance, 1.5 * errors, expected, mean=0.0, kurtosis=6.0)


def test_bad_populations():
    spec = BilinearAUC(4, 1.0)
    with pytest.raises(ValueError, match="both labels"):
        spec.variance([1, 2, 3, 4, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="2 \\* num_scores = 8"):
        jaxdp.run(spec, jaxdp.Population.from_histogram([5, 5, 5]), jax.random.key(0))
