"""Gaussian rejection sampling: its law by quadrature and enumeration, and what is printed wrong."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as distributions

from jaxdp.randomizers._exact import exp_lower
from jaxdp.randomizers._gaussian_rejection import GaussianRejection
from jaxdp.randomizers._gaussian_rejection_law import marginal_acceptance, ratio_error
from tests import stats

SPECS = [
    GaussianRejection(2, 0.5),
    GaussianRejection(2, 1.0, radius=3.0, noise=2.0),
    GaussianRejection(2, 8.0, noise=0.3),
    GaussianRejection(2, 0.05, noise=50.0),
]
each_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.epsilon:g}-{s.noise}")
T = np.linspace(-12, 12, 480_001)
PHI = np.exp(-(T**2) / 2) / math.sqrt(2 * math.pi) * (T[1] - T[0])


def printed(dim: int = 2, num_users: int = 10**4) -> GaussianRejection:
    return GaussianRejection(dim, 1.0, variant="as_printed", num_users=num_users)


def acceptance(spec, t: np.ndarray) -> np.ndarray:
    """The probability of keeping y, for t = <y, x> / (sigma r) of a vector x of norm r."""
    level, slope, least, most = spec._clip()
    return np.clip(np.exp(np.minimum(level + slope * t, 0)), least, most)


@each_spec
def test_bounds_on_keeping_are_private(spec):
    least, most = spec._bounds()
    assert most <= exp_lower(spec.epsilon) * least
    assert np.float32(least) == least
    assert np.float32(most) == most
    assert 0.999 * spec.epsilon < spec.exact_epsilon() <= spec.epsilon


@each_spec
def test_law_by_quadrature(spec):
    keep = acceptance(spec, T) * PHI
    kept, mean, square = keep.sum(), (T * keep).sum(), (T**2 * keep).sum()
    law = spec.kept_law(spec.radius)
    np.testing.assert_allclose(law.probability, kept, rtol=1e-7)
    np.testing.assert_allclose(law.mean, spec.sigma * mean / kept, rtol=1e-6)
    spread = spec.sigma**2 * (square / kept - (mean / kept) ** 2)
    np.testing.assert_allclose(law.variance, spread, rtol=1e-6)
    np.testing.assert_allclose(spec.gain * kept * law.mean, spec.radius, rtol=1e-6)


@each_spec
def test_level_has_the_least_variance(spec):
    level, slope, least, most = spec._clip()
    costs = []
    for shift in (-0.05, 0.0, 0.05):
        keep = np.clip(np.exp(np.minimum(level + shift + slope * T, 0)), least, most) * PHI
        costs.append(keep.sum() / (T * keep).sum() ** 2)
    assert min(costs) == costs[1]


@pytest.mark.parametrize(("epsilon", "factor"), [(0.5, 1.29), (1.0, 1.65), (2.0, 2.70)])
def test_variance_against_priv_unit_g(epsilon, factor):
    """A table made with sigma = 0.3 r; the default is a little better."""
    unit_g = {0.5: 25.179853, 1.0: 6.330042, 2.0: 1.616681}[epsilon]
    zero = [[0.0, 0.0]]
    found = GaussianRejection(2, epsilon, noise=0.3).variance([1], zero)[0] / unit_g
    assert abs(found - factor) < 0.01
    assert 0.97 * factor < GaussianRejection(2, epsilon).variance([1], zero)[0] / unit_g < factor


@pytest.mark.parametrize("hidden", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("spec", SPECS[:3], ids=lambda s: f"{s.epsilon:g}")
def test_marginal_acceptance_by_quadrature(spec, hidden):
    seen = np.array([-3.0, -0.5, 0.2, 1.0, 2.5])
    found = marginal_acceptance(*spec._clip(), seen, hidden)
    expected = [np.sum(acceptance(spec, s + hidden * T) * PHI) for s in seen]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_golden_numbers_as_printed():
    law = printed().kept_law(1.0)
    assert round(printed().sigma, 3) == 6.070
    assert round(law.probability, 4) == 0.4348
    assert round(law.mean, 4) == 0.7800
    assert printed().exact_epsilon() == math.inf
    for users, ratio in ((120, 0.669), (10**6, 0.859), (10**8, 0.912)):
        assert abs(printed(num_users=users).kept_law(1.0).mean - ratio) < 1e-3


def test_printed_variant_sends_what_other_inputs_cannot(key):
    """6.5 % of a zero vector's reports are impossible for x, and 1.3 % of x's for -x."""
    spec, draws = printed(), 100_000
    sample = jax.jit(jax.vmap(spec.build().privatize, in_axes=(0, None)))
    keys = jax.random.split(key, draws)
    sigma, x, zero = spec.sigma, np.array([0.6, 0.8]), np.zeros(2)
    edge = sigma**2 / 4
    beyond = distributions.norm(scale=sigma).sf
    from_zero = (1 - beyond(0.5 - edge) + beyond(0.5 + edge)) / 2
    from_opposite = (beyond(edge - 0.5 - 1) - beyond(edge + 0.5 - 1)) / 2
    np.testing.assert_allclose([from_zero, from_opposite], [0.0652, 0.0132], atol=5e-5)
    for value, other, expected in ((zero, x, from_zero), (x, -x, from_opposite)):
        reports = np.asarray(sample(keys, jnp.asarray(value, jnp.float32)))
        impossible = np.isneginf(spec.log_density(reports, other))
        stats.check_proportion(impossible.sum(), draws, expected)
        assert not np.any(np.isneginf(spec.log_density(reports, value)[:1000]))
    repaired = GaussianRejection(2, 1.0)
    reports = jax.jit(jax.vmap(repaired.build().privatize, (0, None)))(keys, jnp.float32(x))
    ratio = repaired.log_density(reports, x) - repaired.log_density(reports, -x)
    assert np.abs(ratio).max() <= repaired.exact_epsilon() + 1e-12


def test_error_of_the_printed_average_by_enumeration():
    """Three users, all patterns of who is kept; then a case where the average is near its limit."""
    counts, kept = np.array([2.0, 1.0]), np.array([0.3, 0.6])
    gap = np.array([[0.5, -1.0], [2.0, 0.1]])
    spread, target = np.array([[1.0, 2.0], [0.5, 3.0]]), np.array([0.7, -0.2])
    users = [0, 0, 1]
    expected = np.zeros(2)
    for pattern in itertools.product([0, 1], repeat=3):
        p = math.prod(kept[v] if on else 1 - kept[v] for v, on in zip(users, pattern, strict=True))
        values = [v for v, on in zip(users, pattern, strict=True) if on]
        if values:
            bias = gap[values].mean(axis=0)
            expected += p * (bias**2 + spread[values].sum(axis=0) / len(values) ** 2)
        else:
            expected += p * target**2
    np.testing.assert_allclose(ratio_error(counts, kept, gap, spread, target), expected, rtol=1e-10)
    many = ratio_error(counts * 1e9, kept, gap, spread, target)
    limit = (counts * kept) @ gap / (counts @ kept)
    np.testing.assert_allclose(many, limit**2, rtol=1e-7)


def test_moments_of_a_printed_report():
    """One user: the error of the average is that of a report that is 0 where it is dropped."""
    spec, x = printed(), np.array([0.6, -0.5])
    mean, covariance = spec.moments(x)
    np.testing.assert_allclose(spec.variance([1], [x]), np.diag(covariance) + (mean - x) ** 2)
    assert np.all(spec.variance([40, 2], [x, -x]) <= spec.worst_case_variance(42))


@pytest.mark.parametrize("value", [(0.0, 0.0), (0.6, 0.8), (0.3, -0.2)])
@pytest.mark.parametrize("spec", [GaussianRejection(2, 1.0), printed()], ids=lambda s: s.variant)
def test_law_of_a_report(spec, value, key):
    """Who is kept, and the mean and spread of what is decoded."""
    draws, x = 50_000, np.array(value)
    sample = jax.jit(jax.vmap(spec.build().privatize, in_axes=(0, None)))
    reports = np.asarray(sample(jax.random.split(key, draws), jnp.float32(value)), np.float64)
    y, kept = reports[:, :2] * float(spec.build().unit), reports[:, 2]
    law = spec.kept_law(float(np.linalg.norm(x)))
    stats.check_proportion(kept.sum(), draws, law.probability)
    assert np.all(y[kept == 0] == 0)
    mean, covariance = spec.moments(x)
    spread = np.diag(covariance)
    stats.check_mean(y, mean, variance=spread)
    stats.check_variance(y, spread, mean=mean, kurtosis=8.0)
    both = (y - mean).prod(axis=1) / np.sqrt(spread.prod())
    stats.check_mean(both, covariance[0, 1] / np.sqrt(spread.prod()), variance=8.0)
    stats.must_fail(stats.check_proportion, kept.sum(), draws, law.probability + 0.03)
    stats.must_fail(stats.check_mean, y, mean + 0.07 * np.sqrt(spread), variance=spread)


def test_keep_or_drop_word_by_word(rng):
    """Whatever y is, words below the least keep it and words from the most on drop it."""
    params = GaussianRejection(2, 1.0).build()
    report = jax.jit(jax.vmap(params.from_bits))
    words = rng.integers(2**32, size=(4000, 4), dtype=np.uint32)
    words[:1000, :2] = rng.choice([0, 2**32 - 1], size=(1000, 2))
    values = rng.normal(size=(4000, 2)).astype(np.float32)
    values[0] = np.nan
    least, most = (int(b) for b in params.bounds)
    for word, kept in ((least - 1, 1), (most, 0)):
        words[:, 2] = word
        found = np.asarray(report(jnp.asarray(words), jnp.asarray(values)))
        assert np.all(np.isfinite(found))
        assert np.all(found[:, -1] == kept)
    words[:, 2] = (least + most) // 2
    assert 0.2 < np.asarray(report(jnp.asarray(words), jnp.asarray(values)))[:, -1].mean() < 0.8


def test_printed_variant_drops_what_is_out_of_its_bounds_for_any_word():
    words = np.array([[2**32 - 1, 2**32 - 1, 0], [2**31, 2**31, 0]], np.uint32)
    values = np.array([[0.6, 0.8]] * 2, np.float32)
    found = jax.vmap(printed().build().from_bits)(jnp.asarray(words), jnp.asarray(values))
    assert found[:, -1].tolist() == [0, 1]
    assert not np.any(found[0])
