"""Exponential tails of reports, against their moment generating functions."""

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm as normal

from jaxdp.randomizers import (
    GaussianRejection,
    L2Ball,
    Laplace,
    PrivUnit,
    PrivUnitG,
    ProjUnit,
    Tail,
)
from tests.marks import slow


def known(randomizer) -> Tail:
    tail = randomizer.tail()
    assert tail is not None
    return tail


def log_moment(density, t):
    """log E exp(t x) of a scalar density, its mean subtracted."""
    mean, _ = integrate.quad(lambda x: x * density(x), -12, 12, limit=200)
    value, _ = integrate.quad(lambda x: math.exp(t * (x - mean)) * density(x), -30, 30, limit=400)
    return math.log(value)


@pytest.mark.parametrize("epsilon", [slow(0.5), 2.0, slow(6.0)])
def test_tail_of_priv_unit_g(epsilon):
    """The moments along the input are below the claimed ones, and near them for some t < 0."""
    unit = PrivUnitG(3, epsilon)
    p, q = unit.probabilities()
    gamma = unit.threshold

    def density(x):
        return normal.pdf(x) * (p / q if x >= gamma else (1 - p) / (1 - q))

    claimed = known(unit).variance * gamma**2
    shares = [log_moment(density, t) / (claimed * t**2 / 2) for t in (-6, -3, -2, -1, 1, 3, 6)]
    assert 0.8 < max(shares) <= 1
    assert claimed >= 1


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_tail_of_gaussian_rejection(epsilon):
    """In several directions, by quadrature over kept and dropped reports."""
    spec = GaussianRejection(3, epsilon)
    level, slope, least, most = spec._clip()
    tail = known(spec)
    z = np.linspace(-12, 12, 24_001)
    weight = normal.pdf(z) * (z[1] - z[0])
    keep = np.clip(np.exp(np.minimum(level + slope * z, 0)), least, most) * weight
    gain = spec.gain * spec.sigma
    for t in (0.5, 0.9) if tail.scale == 0 else (0.2 / tail.scale, 0.9 / tail.scale):
        for cos in (-1.0, -0.5, 0.0, 0.7, 1.0):
            across = (t * gain) ** 2 * (1 - cos**2) / 2
            kept = np.sum(keep * np.exp(t * gain * cos * z + across))
            mean = gain * cos * np.sum(keep * z)
            value = math.log(kept + 1 - keep.sum()) - t * mean
            assert value <= t**2 * tail.variance / (2 * (1 - tail.scale * t))


def test_known_and_unknown_tails():
    laplace = Laplace(2.0, dim=3)
    assert 0.9 * laplace.worst_case_variance(1) <= known(laplace).variance
    assert known(laplace).scale < 2 * laplace.scale
    unit = PrivUnit(3, 1.0)
    assert known(unit).variance == unit.worst_case_variance(1)
    assert ProjUnit(4, 1.0, 2).tail() is None


@pytest.mark.parametrize("unit", [PrivUnit(2, 1.0), L2Ball(3, 1.0), PrivUnit(2, 4.0)])
def test_tail_of_bounded_reports_holds(unit):
    """On the sphere of R^3 a coordinate is uniform: its generating function is elementary."""
    variance, scale = known(unit)
    if isinstance(unit, PrivUnit):
        p, q = unit.probabilities()
        split, largest = unit.threshold, 1 / unit.threshold
        high, low = p / q, (1 - p) / (1 - q)
    else:
        split, largest = 0.0, unit.magnitude
        e = math.exp(unit.exact_epsilon())
        high, low = 2 * e / (e + 1), 2 / (e + 1)
    for t in np.linspace(-0.95, 0.95, 20) / scale:
        s = t * largest
        mass = high * (math.exp(s) - math.exp(s * split)) + low * (
            math.exp(s * split) - math.exp(-s)
        )
        log = math.log(mass / (2 * s)) - t
        assert log <= variance * t**2 / (2 * (1 - scale * abs(t))) + 1e-12
