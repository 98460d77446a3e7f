"""The pair that hides less than any two vectors with Gaussian noise."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from jaxdp.accounting import (
    _gaussian_pairs,
    gaussian_pairs,
    gaussian_sigma,
    opposite_pairs,
    pair_shuffle_bracket,
    pair_shuffle_delta,
    shuffle_bracket,
)
from tests import stats

N, DELTA = 20_000, 1e-6
SIGMA = gaussian_sigma(1.0, DELTA, 2.0)


def cells(edges, means, sigma):
    """The masses of normals between edges, a row for each mean."""
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    return np.diff(norm.cdf(ends, np.reshape(means, (-1, 1)), sigma), axis=1)


@pytest.mark.parametrize("sigma", [SIGMA, 2.5])
def test_numbers_hide_as_their_ends(sigma):
    """The bracket of a fine grid of numbers, whose reports are in cells."""
    edges = np.linspace(-1 - 7 * sigma, 1 + 7 * sigma, 700)
    rows = cells(edges, np.linspace(-1, 1, 21), sigma)
    listed = pair_shuffle_bracket(opposite_pairs(rows), N, DELTA)
    found = pair_shuffle_bracket(gaussian_pairs(1, 1.0, sigma), N, DELTA)
    # Cells tell a little less.
    assert listed.upper * (1 - 1e-4) <= found.upper <= 1.015 * listed.upper
    assert found.lower == pytest.approx(listed.lower, rel=1e-2)
    narrow = pair_shuffle_bracket(gaussian_pairs(1, 0.97, sigma), N, DELTA)
    assert narrow.upper < listed.upper


def test_vectors_of_the_plane_hide_more():
    """All pairs of vectors on a circle, inside of it and in its middle, in cells of the plane."""
    turns = np.exp(2j * np.pi * np.arange(8) / 8)
    vectors = np.concatenate([turns, 0.5 * turns[::2], [0]])
    edges = np.linspace(-1 - 5 * SIGMA, 1 + 5 * SIGMA, 32)
    sides = cells(edges, vectors.real, SIGMA), cells(edges, vectors.imag, SIGMA)
    rows = np.einsum("ri,rj->rij", *sides).reshape(len(vectors), -1)
    listed = shuffle_bracket(rows / rows.sum(axis=1, keepdims=True), N, DELTA)
    found = pair_shuffle_bracket(gaussian_pairs(2, 1.0, SIGMA), N, DELTA)
    assert listed.upper <= found.upper < 1.25 * listed.upper
    assert found.lower <= listed.upper
    narrow = pair_shuffle_bracket(gaussian_pairs(2, 0.75, SIGMA), N, DELTA)
    assert narrow.upper < listed.upper  # the control


@pytest.mark.parametrize("dim", [2, 3, 40])
def test_mean_excess(dim, rng):
    """Of the likelihood ratio, by sampling reports of r e_1; its control is another radius."""
    apart, draws = 0.4, 200_000
    points, means, total = _gaussian_pairs._mean_excess(dim, apart)
    reports = rng.standard_normal((draws, dim))
    reports[:, 0] += apart
    sums = np.linalg.norm(reports, axis=1) + reports[:, 0]
    some = [0, *range(300, 900, 100)]
    excess = np.maximum(1 - points[some] * np.exp(-apart * sums)[:, None], 0.0)
    stats.check_mean(excess, means[some], bounds=(0.0, 1.0))
    others = _gaussian_pairs._mean_excess(dim, 1.1 * apart)
    wrong = np.interp(np.log(points[some]), np.log(others[0]), others[1])
    stats.must_fail(stats.check_mean, excess, wrong, bounds=(0.0, 1.0))
    distances = np.linalg.norm(rng.standard_normal((draws, dim)), axis=1)
    blanket = np.exp(-apart * distances - apart**2 / 2)
    stats.check_mean(blanket, total, bounds=(0.0, 1.0))
    stats.must_fail(stats.check_mean, blanket, 1.05 * total, bounds=(0.0, 1.0))


def test_excess_is_as_closed_forms_say():
    """In one dimension, and by finer steps."""
    apart = 0.5
    points, means, total = _gaussian_pairs._mean_excess(1, apart)
    edge = np.log(points[1:]) / (2 * apart)  # y above it, and the ratio is exp(2 apart y)
    exact = norm.sf(edge - apart) - points[1:] * norm.sf(edge + apart)
    assert total == pytest.approx(2 * norm.sf(apart), rel=1e-12)
    np.testing.assert_allclose(means[1:], exact, rtol=1e-7, atol=1e-14)


def test_finer_steps_change_nothing(monkeypatch):
    for dim, apart in itertools.product((2, 17, 2**12), (0.02, 0.7)):
        points, means, total = _gaussian_pairs._mean_excess(dim, apart)
        with monkeypatch.context() as finer:
            finer.setattr(_gaussian_pairs, "_STEPS", 2**15)
            finer.setattr(_gaussian_pairs, "_NODES", 2**11)
            others = _gaussian_pairs._mean_excess(dim, apart)
        assert total == pytest.approx(others[2], rel=1e-11)
        inside = slice(1, 1000)
        wanted = np.interp(points[inside], others[0], others[1])
        assert np.abs(means[inside] - wanted).max() < 3e-4 * apart  # of the interpolation


def test_many_dimensions_leave_little_blanket():
    """Fewer users hide a report: at last next to none."""
    uppers = [
        pair_shuffle_bracket(gaussian_pairs(d, 1.0, SIGMA)[:1], N, DELTA).upper
        for d in (1, 4, 64, 1024)
    ]
    assert np.all(np.diff(uppers) > 0)
    first = gaussian_pairs(2**14, 1.0, SIGMA)[0]
    assert first.least.sum() == pytest.approx(math.exp(-(2**7) / SIGMA), rel=0.05)
    assert pair_shuffle_delta([first], 100, 0.5) > 1e-3
    with pytest.raises(ValueError, match="sigma must be larger for dim = 1048576"):
        gaussian_pairs(2**20, 1.0, 1.0)
    with pytest.raises(ValueError, match="step"):
        gaussian_pairs(2, 1.0, 1.0, step=0.0)
