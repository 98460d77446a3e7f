"""ProjUnit: the exactly unbiased constant, and its law against explicit random rotations."""

import jax
import numpy as np
import pytest
from scipy import special

from jaxdp.randomizers._priv_unit import PrivUnit
from jaxdp.randomizers._proj_unit import ProjUnit
from tests import stats
from tests.randomizers.test_priv_unit import check_covariance


def explicit_reports(spec, value, rng, n):
    """n vectors V made as the users make them: a Haar projection, then PrivUnit by rejection."""
    unit = np.append(value, np.sqrt(1 - value @ value))
    inner = PrivUnit(spec.num_projected - 1, spec.epsilon)  # on the sphere in R^l
    frames = np.linalg.qr(rng.normal(size=(n, spec.dim + 1, spec.num_projected)))[0]
    z = np.einsum("ndl,d->nl", frames, unit)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    high = rng.random(n) < inner.probabilities()[0]
    sent, todo = np.zeros_like(z), np.arange(n)
    while todo.size:
        v = rng.normal(size=(todo.size, spec.num_projected))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        fits = (np.sum(v * z[todo], axis=1) >= inner.threshold) == high[todo]
        sent[todo[fits]] = v[fits]
        todo = todo[~fits]
    return np.einsum("ndl,nl->nd", frames, sent)


@pytest.mark.slow
def test_law_is_that_of_explicit_rotations(key, rng):
    """Four linear statistics of 20,000 reports; detects a Kolmogorov distance of 0.045."""
    spec = ProjUnit(5, 2.0, num_projected=3)
    value = np.array([0.5, 0.0, -0.6, 0.1, 0.2])
    params = spec.build()
    simulated = jax.vmap(params.privatize, (0, None))(
        jax.random.split(key, 20_000), value.astype(np.float32)
    )
    explicit = explicit_reports(spec, value, rng, 20_000)
    weights = np.append(value, np.sqrt(1 - value @ value))[:, None] + 0.3 * rng.normal(size=(6, 4))
    one, two = np.asarray(simulated) / params.grid @ weights, explicit @ weights
    stats.check_two_samples(one, two)
    stats.must_fail(stats.check_two_samples, one, two + 0.1)
    scale = float(params.unit) * params.grid
    mean, covariance = spec.moments(value)
    stats.check_mean(scale * explicit[:, :5], mean, variance=np.diag(covariance))
    biased = scale * 0.9 * explicit[:, :5]
    stats.must_fail(stats.check_mean, biased, mean, variance=np.diag(covariance))


def test_scale_has_the_mean_norm_of_a_projection():
    """The published scale, 1 / (m sqrt(l / D)), is 3 % off at D = 24, l = 6."""
    spec, inner = ProjUnit(23, 1.0, num_projected=6), PrivUnit(5, 1.0)
    b = np.sqrt(24 / 6) * special.poch(3.0, 0.5) / special.poch(12.0, 0.5)
    np.testing.assert_allclose(b, 0.969, atol=5e-4)
    published = np.sqrt(24 / 6) / inner.threshold
    np.testing.assert_allclose(
        float(spec.build().unit) * spec.build().grid, published / b, rtol=1e-9
    )
    along, across = inner.second_moments()
    expected = ((24 / 6) * (along + 5 * across) - along) / (23 * b**2)
    np.testing.assert_allclose(spec.second_moments(), (along / b**2, expected), rtol=1e-9)


def test_privacy_is_that_of_the_projected_mechanism():
    spec = ProjUnit(10, 1.5, num_projected=4)
    assert spec.exact_epsilon() == PrivUnit(3, 1.5).exact_epsilon() <= 1.5
    value = np.eye(10, dtype=np.float32)[0]
    reports = np.zeros((3, 11))
    reports[:, :2] = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]
    density = spec.log_density(reports * spec.build().grid, value)
    np.testing.assert_allclose(density[0] - density[1:], spec.exact_epsilon(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "num_projected"), [(2, 2), (8, 4), (64, 16)])
def test_covariance(dim, num_projected, key):
    value = np.zeros(dim, np.float32)
    value[0], value[-1] = 0.6, -0.7
    check_covariance(ProjUnit(dim, 2.0, num_projected), value, key, 10**6)
