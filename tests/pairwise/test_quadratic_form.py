"""Exact moments of quadratic forms in reports, by enumeration and quadrature."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from jaxdp.pairwise.vectors._quadratic_form import (
    QuadraticForm,
    Reports,
    expectation,
    iid_variance,
    variance,
    worst_case_variance,
)
from jaxdp.randomizers import CandidateResponse, Gaussian, L2Ball, PrivUnit, PrivUnitG, SelfMoments

USERS = [0, 1, 1, 2]
COUNTS = np.bincount(USERS).astype(float)


@pytest.fixture(scope="module")
def discrete():
    """Reports of three values among four points of the plane, and a form."""
    rng = np.random.default_rng(7)
    points, laws = rng.normal(size=(4, 2)), rng.dirichlet(np.ones(4), size=3)
    means = laws @ points
    off = points - means[:, None]
    covariances = np.einsum("vj,vja,vjb->vab", laws, off, off)
    weights = rng.normal(size=(2, 2))
    form = QuadraticForm(weights + weights.T, rng.normal(size=2), 0.3)
    square = np.einsum("vja,ab,vjb->vj", off, form.weights, off)
    fourth = np.sum(laws * square**2, axis=1) - np.sum(laws * square, axis=1) ** 2
    own = SelfMoments(np.einsum("vj,vj,vja->va", laws, square, off), fourth)
    return points, laws, form, general(means, covariances), own


def general(means, covariances):
    """Reports of any covariances, from their factors."""
    values, vectors = np.linalg.eigh(covariances)
    factors = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    return Reports(means, along=1.0, factors=np.moveaxis(factors, 2, 0))


def enumerated(points, laws, form, kind):
    """Mean and variance of the estimate over all reports of users with these laws."""
    n, found, weights = len(laws), [], []
    for chosen in itertools.product(range(len(points)), repeat=n):
        y = points[list(chosen)]
        total = y.sum(axis=0)
        square, pairs = total @ form.weights @ total, n * n
        if kind == "u":
            square, pairs = square - sum(v @ form.weights @ v for v in y), n * (n - 1)
        found.append(square / pairs + 2 * form.linear @ total / n + form.constant)
        weights.append(math.prod(law[j] for law, j in zip(laws, chosen, strict=True)))
    found, weights = np.array(found), np.array(weights)
    mean = weights @ found
    return mean, weights @ (found - mean) ** 2


@pytest.mark.parametrize("kind", ["u", "v"])
def test_moments_are_those_of_all_reports(discrete, kind):
    points, laws, form, reports, own = discrete
    own = own if kind == "v" else None
    mean, spread = enumerated(points, laws[USERS], form, kind)
    level = reports.level(form.weights) / 4 if kind == "v" else 0.0  # n r / n**2
    assert expectation(form, reports, COUNTS, kind) + level == pytest.approx(mean)
    assert variance(form, reports, COUNTS, own) == pytest.approx(spread)
    assert spread <= worst_case_variance(form, reports, 4, own)
    p = np.array([0.2, 0.5, 0.3])
    _, spread = enumerated(points, np.tile(p @ laws, (4, 1)), form, kind)
    assert iid_variance(form, reports, p, 4, own) == pytest.approx(spread)


def test_a_diagonal_says_what_its_matrix_says(rng):
    reports, p = Reports(rng.normal(size=(3, 4)), 1.3, -0.2), np.array([0.2, 0.5, 0.3])
    linear, weights = rng.normal(size=4), rng.normal(size=4)
    own = SelfMoments(rng.normal(size=(3, 4)), np.ones(3))
    short, full = (QuadraticForm(w, linear, 0.3) for w in (weights, np.diag(weights)))
    np.testing.assert_array_equal(short.dense, full.dense)
    for moments in (None, own):
        for function, about in ((variance, COUNTS), (worst_case_variance, 4)):
            found = [function(form, reports, about, moments) for form in (short, full)]
            assert found[0] == pytest.approx(found[1], rel=1e-12)
        found = [iid_variance(form, reports, p, 4, moments) for form in (short, full)]
        assert found[0] == pytest.approx(found[1], rel=1e-12)
    for kind in ("u", "v"):
        found = [expectation(form, reports, COUNTS, kind) for form in (short, full)]
        assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_covariances_in_two_parameters_are_covariances(rng):
    means, weights = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    form = QuadraticForm(weights + weights.T, rng.normal(size=4), 0.0)
    short = Reports(means, 1.3, 0.4)
    covariances = 1.3 * np.eye(4) + 0.4 * means[:, :, None] * means[:, None, :]
    full = general(means, covariances)
    counts, p = np.array([3.0, 2.0, 5.0]), np.array([0.2, 0.5, 0.3])
    own = SelfMoments(rng.normal(size=(3, 4)), rng.random(3))
    for moments in (None, own):
        assert variance(form, short, counts, moments) == pytest.approx(
            variance(form, full, counts, moments)
        )
        assert iid_variance(form, short, p, 10, moments) == pytest.approx(
            iid_variance(form, full, p, 10, moments)
        )
    np.testing.assert_allclose(short.traces(form.weights), full.traces(form.weights))
    assert np.all(short.largest() >= np.linalg.eigvalsh(covariances)[:, -1] * (1 - 1e-12))


def test_the_worst_case_of_isotropic_reports_is_attained(rng):
    means, weights = rng.normal(size=(5, 3)), rng.normal(size=(3, 3))
    form = QuadraticForm(weights + weights.T, rng.normal(size=3), 0.0)
    reports = Reports(means, 0.7)
    worst = worst_case_variance(form, reports, 6)
    alone = max(variance(form, reports, 6 * row) for row in np.eye(5))
    assert worst == pytest.approx(alone)
    for _ in range(20):
        counts = rng.multinomial(6, rng.dirichlet(np.ones(5))).astype(float)
        assert variance(form, reports, counts) <= worst * (1 + 1e-12)


def test_the_worst_case_holds_where_a_form_vanishes_on_each_report():
    """Noises along (1, 1) and (1, -1): x^2 - y^2 is 0 on both, but not between them."""
    directions = np.array([[1.0, 1.0], [1.0, -1.0]])
    covariances = directions[:, :, None] * directions[:, None, :]
    reports = general(np.zeros((2, 2)), covariances)
    form = QuadraticForm(np.diag([1.0, -1.0]), np.zeros(2), 0.0)
    found = variance(form, reports, np.array([3, 3]))
    assert 0 < found <= worst_case_variance(form, reports, 6)


def test_matrices_and_combinations_of_forms(rng):
    means = rng.normal(size=(4, 2))
    forms = [QuadraticForm(np.diag(rng.normal(size=2)), rng.normal(size=2), 0.5) for _ in range(2)]
    both = QuadraticForm.combined(forms, np.array([2.0, -1.0]))
    expected = 2 * forms[0].matrix(means) - forms[1].matrix(means)
    np.testing.assert_allclose(both.matrix(means), expected)
    v, w = means[1], means[3]
    own = v @ forms[0].weights @ w + forms[0].linear @ (v + w) + 0.5
    assert forms[0].matrix(means)[1, 3] == pytest.approx(own)


@pytest.mark.parametrize("value", [0.0, 1.1, -2.0])
def test_moments_of_one_report_on_the_circle(value):
    """PrivUnit in one dimension reports a point of a circle: by quadrature over its angle."""
    randomizer = PrivUnit(1, 1.5, 2.0)
    p, q = randomizer.probabilities()
    centre, edge = math.acos(value / 2.0), math.acos(randomizer.threshold)

    def moment(f):
        def density(angle):
            return (p / q if abs(angle) <= edge else (1 - p) / (1 - q)) / (2 * math.pi)

        def integrand(angle):
            # The cap is around the padded vector, at the angle `centre` from the first axis.
            y = 2.0 / randomizer.threshold * math.cos(centre + angle)
            return density(angle) * f(y - value)

        return integrate.quad(integrand, -math.pi, math.pi, points=[-edge, edge])[0]

    check_own_moments(randomizer, value, moment)


def test_moments_of_one_gaussian_cap():
    """PrivUnitG in one dimension: by quadrature along the padded vector, and across it."""
    randomizer, value = PrivUnitG(1, 1.5, 2.0), 1.1
    p, q = randomizer.probabilities()
    gamma, cos = randomizer.threshold, value / 2.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    weights = weights / weights.sum()

    def moment(f):
        def integrand(along):
            density = p / q if along >= gamma else (1 - p) / (1 - q)
            y = 2.0 / gamma * (along * cos + nodes * math.sqrt(1 - cos**2))
            return density * stats.norm.pdf(along) * (weights @ f(y - value))

        return sum(integrate.quad(integrand, *ends)[0] for ends in ((-12, gamma), (gamma, 12)))

    check_own_moments(randomizer, value, moment)


def check_own_moments(randomizer, value, moment):
    assert moment(lambda z: z**0) == pytest.approx(1)
    assert moment(lambda z: z) == pytest.approx(0, abs=1e-7)
    second = moment(lambda z: z**2)
    assert second == pytest.approx(randomizer.worst_case_variance(1), rel=1e-7)
    own = randomizer.self_moments(np.array([[value]]), np.array([[0.7]]))
    assert own is not None
    assert own.third[0, 0] == pytest.approx(0.7 * moment(lambda z: z**3), rel=1e-6, abs=1e-6)
    fourth = 0.7**2 * (moment(lambda z: z**4) - second**2)
    assert own.fourth[0] == pytest.approx(fourth, rel=1e-6)


def test_own_moments_do_not_depend_on_the_basis(rng):
    """Turning the vectors and the form together turns the moments; in five dimensions."""
    turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    means = rng.normal(size=(3, 5))
    means /= 1.2 * np.linalg.norm(means, axis=1).max()
    weights = rng.normal(size=(5, 5))
    weights = weights + weights.T
    made = PrivUnit(5, 1.0), PrivUnitG(5, 1.0), CandidateResponse(5, 1.0), Gaussian(5, 1.0, 1e-3)
    for randomizer in made:
        one = randomizer.self_moments(means, weights)
        two = randomizer.self_moments(means @ turn, turn.T @ weights @ turn)
        assert one is not None
        assert two is not None
        np.testing.assert_allclose(one.third @ turn, two.third, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(one.fourth, two.fourth, rtol=1e-9)
    assert L2Ball(5, 1.0).self_moments(means, weights) is None


def test_golden_gini_by_thresholds():
    """`|i - j| = (k - 1) / 2 - 2 <L_i, L_j>` for thresholds, unpadded: k = 5, epsilon = 1."""
    k, gamma = 5, 0.20892285
    bins = np.arange(k)
    columns = np.where(np.arange(k - 1) < bins[:, None], 0.5, -0.5)
    form = QuadraticForm(-2 * np.eye(k - 1), np.zeros(k - 1), (k - 1) / 2)
    np.testing.assert_allclose(form.matrix(columns), np.abs(bins[:, None] - bins))
    square = (k - 1) / 4
    reports = Reports(columns, square * (1 - gamma**2) / ((k - 1) * gamma**2))
    counts = np.array([3.0, 1, 4, 2, 5])
    assert expectation(form, reports, counts, "u") == pytest.approx(1.7714285714)
    assert expectation(form, reports, counts, "v") == pytest.approx(1.6533333333)
    assert variance(form, reports, counts) == pytest.approx(5.60933189, rel=1e-6)
