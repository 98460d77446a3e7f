"""PrivUnit and PrivUnitG: constants against scipy, optimality, and the laws of their reports."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

import jaxdp
from jaxdp.random import Count, user_words
from jaxdp.randomizers._cap import Coordinate, coordinate_words, embed, point, rounds
from jaxdp.randomizers._l2_ball import L2Ball
from jaxdp.randomizers._priv_unit import PrivUnit
from jaxdp.randomizers._priv_unit_g import PrivUnitG
from jaxdp.randomizers._proj_unit import ProjUnit
from jaxdp.randomizers._sphere import half_ratio, regularized_beta, solve, sphere_cap
from jaxdp_kernels import register_dataclass
from tests import stats
from tests.marks import slow

GRID = [(d, e) for d in (2, 3, 4, 65, 1001, 100_001) for e in (0.01, 1.0, 5.0, 20.0)]


@pytest.mark.parametrize(
    ("a", "b"),
    [(97.0, 30.0), (23_768.0, 9000.0), (0.5, 3.0), (126.0, 1.0), (1.0, 1.0), (200.5, 0.5)],
)
def test_regularized_beta(a, b, rng):
    ends = np.exp(-rng.uniform(0, 30, 100))
    x = np.concatenate([[0.0, 1.0, a / (a + b)], rng.beta(a, b, 100), ends, 1 - ends])
    want = special.betainc(a, b, x)
    # Logs of gamma functions of 2e4 are about 2e5, known to 3e-11.
    np.testing.assert_allclose(
        regularized_beta(a, b, x), want, rtol=0, atol=1e-15 * (a + b) + 1e-13
    )


def mean_and_masses(dim, epsilon, gamma):
    """m(gamma), p and q of the mechanism on the sphere (dim None: Gaussian), by scipy."""
    if dim is None:
        h, q = math.exp(-(gamma**2) / 2) / math.sqrt(2 * math.pi), special.ndtr(-gamma)
    else:
        a = (dim - 1) / 2
        h = math.exp(a * math.log1p(-(gamma**2)) - special.betaln(0.5, a)) / (2 * a)
        q = 0.5 * special.betaincc(0.5, a, gamma**2)
    e = math.expm1(epsilon)
    return h * e / (1 + e * q), (1 + e) * q / (1 + e * q), q


def fixed_point(dim, epsilon):
    """The root of m(gamma) = gamma."""
    high = 8.0 if dim is None else 1 - 1e-12
    excess = lambda g: mean_and_masses(dim, epsilon, g)[0] - g  # noqa: E731
    return float(optimize.brentq(excess, 1e-9, high, xtol=1e-15))  # pyright: ignore


@pytest.mark.parametrize(("dim", "epsilon"), [*GRID, *((None, e) for e in (0.01, 1.0, 5.0, 20.0))])
def test_built_parameters_are_the_optimum_of_the_realised_epsilon(dim, epsilon):
    solution = solve(dim, epsilon)
    assert epsilon * (1 - 2e-6) - 2e-8 <= solution.epsilon <= epsilon
    gamma = fixed_point(dim, solution.epsilon - 2e-12 * (1 + solution.epsilon))
    m, p, q = mean_and_masses(dim, solution.epsilon, gamma)
    rtol = 3e-9 if dim == 2 or (dim or 0) > 10**4 else 2e-10  # scipy's 1 - gamma**2, its betaln
    np.testing.assert_allclose(solution.cap.gamma, gamma, rtol=rtol)
    np.testing.assert_allclose([solution.threshold / 2**32, solution.cap.mass], [p, q], rtol=1e-8)
    realised = solution.threshold / 2**32 / solution.cap.mass - (1 - solution.threshold / 2**32) / (
        1 - solution.cap.mass
    )
    np.testing.assert_allclose(solution.cap.moment * realised, solution.cap.gamma, rtol=1e-10)
    assert m >= mean_and_masses(dim, solution.epsilon, gamma * 0.999)[0]
    assert m >= mean_and_masses(dim, solution.epsilon, gamma + 0.001 * abs(1 - gamma))[0]


@pytest.mark.parametrize("dim", [2, 3, 4, 65, 100_001])
@pytest.mark.parametrize("z", [1e-3, 0.3, 1.0, 2.0, 5.0])
def test_cap_masses(dim, z):
    cap = sphere_cap(dim, z**2 / (dim - 1.5))
    expected = 0.5 * special.betainc((dim - 1) / 2, 0.5, math.exp(-(z**2) / (dim - 1.5)))
    np.testing.assert_allclose(cap.mass, expected, rtol=1e-10 if dim < 10**4 else 1e-7)


def test_half_ratio():
    dims = np.array([1, 2, 3, 59, 60, 61, 1000, 10**6])
    expected = special.poch(dims / 2, 0.5)
    np.testing.assert_allclose([half_ratio(int(d)) for d in dims], expected, rtol=1e-9)
    exact = math.sqrt(math.pi) * math.comb(200, 100) * 100 / 2**200  # of Gamma(100.5) / Gamma(100)
    np.testing.assert_allclose(half_ratio(200), exact, rtol=1e-15)


def test_golden_numbers():
    for epsilon, gamma in (
        (0.25, 0.09971218),
        (0.5, 0.19928445),
        (1, 0.39746301),
        (2, 0.78648026),
        (4, 1.51563766),
        (8, 2.74294479),
    ):
        np.testing.assert_allclose(PrivUnitG(7, epsilon).threshold, gamma, rtol=4e-8)
    for epsilon, gamma, length in (
        (0.5, 0.10568667, 9.461932),
        (1, 0.20892285, 4.786456),
        (2, 0.39960556, 2.502468),
        (4, 0.68607518, 1.457566),
    ):
        unit = PrivUnit(3, epsilon)
        np.testing.assert_allclose(unit.threshold, gamma, rtol=1e-7)
        np.testing.assert_allclose(float(unit.build().unit) * unit.build().grid, length, rtol=3e-7)
    unit = PrivUnit(7, 1.0)
    np.testing.assert_allclose(unit.probabilities(), (0.60006, 0.35565), atol=1e-5)
    np.testing.assert_allclose(8 * unit.worst_case_variance(1), 47.098044, rtol=1e-7)


@pytest.mark.parametrize("dim", [slow(2), slow(3), slow(4), 65])
@pytest.mark.parametrize("epsilon", [1.0, slow(8.0)])
def test_coordinates_in_and_outside_of_a_cap(dim, epsilon, key):
    """100,000 draws a branch; detects a Kolmogorov distance of 0.017 with power 0.999."""
    solution = solve(dim, epsilon)
    tail = special.ndtr(-math.sqrt((dim - 1.5) * solution.level))
    words = jax.random.bits(key, (200_000, coordinate_words(dim)), jnp.uint32)
    high = jnp.arange(200_000) % 2 == 0
    sample = jax.jit(
        jax.vmap(lambda w, h, t, s: Coordinate(dim, h, t, s).draw(w, 0), (0, 0, None, None))
    )
    x, across = sample(words, high, jnp.float32(tail), jnp.float32(solution.level))
    x, across = np.asarray(x, np.float64), np.asarray(across, np.float64)
    np.testing.assert_allclose(x**2 + across**2, 1, rtol=1e-6)
    q = solution.cap.mass

    def above(x):
        half = 0.5 * special.betaincc(0.5, (dim - 1) / 2, np.minimum(x**2, 1))
        return np.where(x > 0, half, 1 - half)

    def inside(x):
        return 1 - np.clip(above(x) / q, 0, 1)

    def outside(x):
        return np.clip((1 - above(x)) / (1 - q), 0, 1)

    stats.check_cdf(x[::2], inside)
    stats.check_cdf(x[1::2], outside)
    stats.must_fail(stats.check_cdf, x[1::2] * 0.9, outside)
    stats.must_fail(stats.check_cdf, x[::2], lambda x: inside(x) ** 1.1)


def test_rounds_suffice():
    """The share of refused proposals in a cap, by quadrature, is at most 1 / (2 dim - 2)."""
    t0 = np.array([1e-6, 0.1, 1.0, 5.0, 20.0])
    for dim in (2, 3, 10, 1000):
        assert (2 * dim - 2.0) ** -rounds(dim) < 2.0**-64
        nu = dim - 1.5
        for t in t0:
            z = np.sqrt(nu * t) + np.linspace(0, 12, 200_001)
            s = z**2 / nu
            log_keep = 0.5 * (np.log(s / 2) - s / 2 - np.log(-np.expm1(-s) / 2))
            weight = np.exp(-(z**2 - z[0] ** 2) / 2)
            kept = np.sum(weight * np.exp(log_keep - log_keep[0])) / np.sum(weight)
            assert kept > 1 - 1 / (2 * dim - 2)


def test_failures_leave_the_zero_vector():
    """Where all proposals are refused the report is 0, whatever the input."""
    params = PrivUnit(3, 4.0).build()
    words = jnp.full(params.num_words, 2**32 - 1, jnp.uint32).at[0].set(0)
    words = words.at[4::2].set(0)  # proposals far in the tail, and the least favourable coins
    for value in ((0.0, 0.0, 0.0), (0.6, 0.8, 0.0)):
        report = params.from_bits(words, jnp.array(value, jnp.float32))
        np.testing.assert_array_equal(report, np.zeros(4))


def test_point_has_the_given_parts(rng):
    for head in ([0.0, 0.0, 0.0], [0.6, 0.0, -0.8], [0.1, -0.2, 0.3]):
        head = np.array(head, np.float32)
        last = np.sqrt(max(1 - float(head @ head), 0)).astype(np.float32)
        across = rng.normal(size=3).astype(np.float32)
        found = np.append(*point(jnp.asarray(head), jnp.asarray(last), jnp.float32(0.7), across))
        np.testing.assert_allclose(found @ np.append(head, last), 0.7, atol=1e-6)
        np.testing.assert_allclose(found @ found, 0.49 + across @ across, rtol=1e-5)


@pytest.mark.parametrize("make", [PrivUnit, PrivUnitG])
def test_vectors_outside_of_the_ball_are_projected(make):
    params = make(3, 1.0, radius=2.0).build()
    key = jax.random.key(5)
    edge = params.privatize(key, [1.2, 0.0, -1.6])
    np.testing.assert_allclose(
        params.privatize(key, [12.0, 0.0, -16.0]), edge, atol=2e-3 * params.grid
    )
    np.testing.assert_allclose(
        params.privatize(key, [1.2e30, 0.0, -1.6e30]), edge, atol=params.grid
    )
    zero = params.privatize(key, [0.0, 0.0, 0.0])
    for lost in ([np.nan, 1.0, 0.0], [np.nan, -np.inf, 3e38], [np.nan] * 3):
        np.testing.assert_array_equal(params.privatize(key, lost), zero)
    for bad in ([np.inf, 0, 0], [-np.inf, np.inf, 1e38], [3e38, 3e38, 3e38], [1e-45, 0, 0]):
        head, last = embed(jnp.array(bad, jnp.float32), jnp.float32(2.0))
        np.testing.assert_allclose(np.square(head).sum() + np.square(last), 1, atol=1e-6)
    head, last = embed(jnp.full(2**20, -np.inf), jnp.float32(2.0))  # as long as a vector can be
    np.testing.assert_array_equal(head, np.full(2**20, -(2.0**-10)))
    assert last == 0
    for bad, remedy in (([[3.0, 0, 0]], "radius"), ([[np.nan, 0, 0]], "finite")):
        with pytest.raises(ValueError, match=remedy):
            make(3, 1.0, radius=2.0).variance([1], bad)


@pytest.mark.slow
@pytest.mark.parametrize("make", [PrivUnit, PrivUnitG])
def test_trials_side_by_side_are_trials_one_by_one(make, key):
    """A program of batched trials that sums products has been seen to be compiled wrongly."""
    values = np.array([[-0.5, 0.7], [0.0, 0.9], [-0.8, 0.0]], np.float32)
    population = jaxdp.Population.from_histogram([300, 1, 200], values)
    one, eight = (
        jaxdp.simulate(
            make(2, 1.0), population, key, num_trials=8, method="per_user", trial_batch=batch
        ).estimates
        for batch in (1, 8)
    )
    np.testing.assert_allclose(one, eight, atol=1e-4)


def check_covariance(spec, value, key, num_samples):
    """Means and a quadratic form per direction of 10^6 reports of one input.

    Every direction (each axis, the input, the sum of the axes) is an entry, its kurtosis that of a
    Gaussian or less than 6. Detects a variance off by 2.5 % with power 0.999.
    """
    params, dim = spec.build(), spec.dim
    mean, covariance = spec.moments(value)
    axes = np.eye(dim)[:: -(-dim // 8)]
    directions = np.vstack([axes, np.ones(dim) / math.sqrt(dim), value / np.linalg.norm(value)])
    basis = jnp.asarray(directions.T, jnp.float32)

    def block(k):
        reports = jax.vmap(params.privatize, (0, None))(jax.random.split(k, 2000), value)
        return jnp.matmul(params.decode(reports), basis, precision="highest")

    keys = jax.random.split(key, num_samples // 2000)
    samples = np.asarray(jax.jit(lambda k: jax.lax.map(block, k))(keys))
    samples = samples.reshape(num_samples, -1)
    expected, variance = directions @ mean, np.sum(directions @ covariance * directions, axis=1)
    stats.check_mean(samples, expected, variance=variance)
    stats.check_variance(samples, variance, mean=expected, kurtosis=6.0)
    stats.must_fail(stats.check_variance, samples, 1.05 * variance, mean=expected, kurtosis=6.0)


@pytest.mark.slow
@pytest.mark.parametrize("make", [PrivUnit, PrivUnitG])
@pytest.mark.parametrize("dim", [2, 3, 4, 8, 64, 512])
def test_covariance(make, dim, key):
    value = np.zeros(dim, np.float32)
    value[0], value[-1] = 0.6, -0.7
    check_covariance(make(dim, 2.0), value, key, 10**6)


def unpadded(dim, epsilon, radius=1.0):
    """`PrivUnit` of vectors that all have the norm `radius`."""
    return PrivUnit(dim, epsilon, radius, padded=False)


@pytest.mark.parametrize("dim", [2, slow(3), slow(64)])
def test_covariance_without_padding(dim, key):
    """The noise is that of one dimension less, in the directions of all signs of the last axis."""
    for sign in (1.0, -1.0) if dim == 2 else (-1.0,):
        value = np.zeros(dim, np.float32)
        value[0], value[-1] = 0.6, 0.8 * sign
        check_covariance(unpadded(dim, 2.0), value, key, 10**5 if dim == 2 else 10**6)
    assert unpadded(dim, 2.0).threshold == solve(dim, 2.0).cap.gamma
    assert unpadded(dim, 2.0).worst_case_variance(1) < PrivUnit(dim, 2.0).worst_case_variance(1)


def test_vectors_without_padding_have_one_norm():
    spec = unpadded(3, 1.0, radius=2.0)
    with pytest.raises(ValueError, match="padded=True"):
        spec.variance([1], [[1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="radius"):
        spec.variance([1], [[3.0, 0.0, 0.0]])
    population = jaxdp.Population.from_histogram([1, 1], np.array([[2.0, 0, 0], [0, 1.9, 0]]))
    with pytest.raises(ValueError, match=r"1\.9.*padded=True"):
        jaxdp.run(spec, population, jax.random.key(0))
    params, key = spec.build(), jax.random.key(5)
    assert params.num_words == PrivUnit(3, 1.0).build().num_words - 1 + 2 * (rounds(3) - rounds(4))
    edge = params.privatize(key, [1.2, 0.0, -1.6])
    far = params.privatize(key, [6.0, 0.0, -8.0])
    np.testing.assert_allclose(far, edge, atol=1e-3 * params.grid)
    np.testing.assert_array_equal(
        params.privatize(key, [0.0, 0.0, 0.0]), params.privatize(key, [2.0, 0.0, 0.0])
    )


def scan_reports(params, value, key, num_users: int) -> tuple[int, np.ndarray]:
    """How many of the decoded reports of one input are not finite, and the means of blocks."""
    block = min(num_users, 2**16)

    @jax.jit
    def scan(params, value, key):
        def report(user):
            words = user_words(key, user, params.num_words)
            return params.from_bits(words if params.lazy_words else words[:], value)

        def in_block(number):
            users = Count.of(number).times(block) + Count.of(jnp.arange(block, dtype=jnp.uint32))
            reports = params.decode(jax.vmap(report)(users))
            return jnp.sum(~jnp.isfinite(reports), dtype=jnp.int32), jnp.mean(reports, axis=0)

        return jax.lax.map(in_block, jnp.arange(num_users // block, dtype=jnp.uint32))

    infinite, means = scan(params, jnp.asarray(value, jnp.float32), key)
    return int(infinite.sum()), np.asarray(means, np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("make", [PrivUnit, PrivUnitG])
def test_many_reports_are_finite_and_unbiased(make, key):
    """2**27 reports with one coordinate across: where a normal near 0 is scaled to a given length.

    Power 0.999 for a bias of 0.0012 deviations. Beside this, all words are enumerated for the maps
    of one word that reports are made of, in `tests/random/test_normal.py` and
    `tests/kernels/test_standard_normal.py`.
    """
    spec, value = make(1, 4.0), [0.6]
    params = spec.build()
    mean, covariance = spec.moments(value)
    expected = {"mean": mean, "variance": covariance[0] / 2**16}
    infinite, means = scan_reports(params, value, key, 2**27)
    assert infinite == 0
    stats.check_mean(means, **expected)
    stats.must_fail(stats.check_mean, means + 1.2e-3 * np.sqrt(covariance[0]), **expected)

    biased = dataclasses.replace(params, threshold=np.uint32(int(params.threshold) * 0.99))
    stats.must_fail(stats.check_mean, scan_reports(biased, value, key, 2**25)[1], **expected)

    class Broken(type(params)):
        def from_bits(self, words, value):
            report = super().from_bits(words, value).astype(jnp.float32)
            return report / (words[0] >> np.uint32(12)).astype(jnp.float32)

    register_dataclass(Broken)
    fields = {name: getattr(params, name) for name in params.__dataclass_fields__}
    infinite, means = scan_reports(Broken(**fields), value, key, 2**25)
    assert infinite > 0  # 32 are expected
    stats.must_fail(stats.check_mean, means, **expected)


MAKERS = {
    "l2-ball": L2Ball,
    "priv-unit": PrivUnit,
    "priv-unit-g": PrivUnitG,
    "proj-unit": lambda dim, epsilon: ProjUnit(dim, epsilon, 64),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_a_hundred_thousand_dimensions(name, key):
    """Parts along the input of 200 reports at both ends of epsilon; sees 0.8 deviations."""
    value = np.full(10**5, 10**-2.5, np.float32)
    draw = jax.jit(
        lambda params, key, value: jax.lax.map(
            lambda k: params.decode(params.privatize(k, value)), jax.random.split(key, 200)
        )
    )
    for epsilon in (0.01, 20.0):
        spec = MAKERS[name](10**5, epsilon)
        reports = np.asarray(draw(spec.build(), key, value))
        assert np.isfinite(reports).all()
        along, variance = reports @ value, spec.second_moments()[0] - 1
        stats.check_mean(along, 1.0, variance=variance)
        stats.must_fail(stats.check_mean, along + math.sqrt(variance), 1.0, variance=variance)
        square = np.square(reports, dtype=np.float64).sum(axis=1)  # all but constant
        np.testing.assert_allclose(square, spec.second_moments()[1] * 10**5, rtol=0.03)
