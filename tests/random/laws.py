"""Draws against exact laws, cell by cell, for the tests of this folder."""

import numpy as np
from numpy.typing import ArrayLike

from tests import stats

NUM_BINS = 24


def bin_edges(law) -> np.ndarray:
    """Upper edges of at most `NUM_BINS` bins of about equal probability; a scipy discrete law."""
    levels = np.linspace(0, 1, NUM_BINS + 1)[1:-1]
    return np.unique(np.append(law.ppf(levels), law.support()[1]))


def check_law(draws: ArrayLike, law, *, cells: int = 1) -> None:
    """Asserts that draws follow a scipy discrete law, by counts of the bins of `bin_edges`."""
    edges = bin_edges(law)
    position = np.searchsorted(edges, draws)
    assert np.all(np.asarray(draws) >= law.support()[0])
    assert np.all(position < len(edges)), "a draw is beyond the support"
    probabilities = np.diff(law.cdf(edges), prepend=0.0)
    counts = np.bincount(position, minlength=len(edges))
    stats.check_multinomial(counts, probabilities / probabilities.sum(), cells=cells)


def check_moments(
    draws: ArrayLike, mean: float, variance: float, kurtosis: float, *, cells: int = 1
) -> None:
    """Asserts mean and variance of draws of a law with known ones, all exact."""
    centred = np.asarray(draws, np.float64) - mean
    stats.check_mean(centred, 0.0, variance=variance, cells=2 * cells)
    stats.check_variance(centred, variance, kurtosis=kurtosis, mean=0.0, cells=2 * cells)
