"""The proven tail bounds behind `tests.stats`, as log-probabilities."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom


def hypergeometric(seen: ArrayLike, total: float, marked: ArrayLike, draws: float) -> NDArray:
    """A bound on log P(X >= seen): X of `draws` without replacement are among the `marked`.

    Successive probabilities have falling ratios: a geometric series bounds the tail. Their product
    form in binomial probabilities does not cancel at large arguments, as log-gammas would.
    """
    p = draws / total
    log_pmf = log(binom.pmf(seen, marked, p)) - log(binom.pmf(draws, total, p))
    log_pmf = log_pmf + log(binom.pmf(draws - seen, total - marked, p))
    ratio = (marked - seen) * (draws - seen) / ((seen + 1) * (total - marked - draws + seen + 1))
    falling = ratio < 1
    return np.where(falling, np.minimum(log_pmf - np.log1p(-ratio * falling), 0), 0)


def catoni_offset(n: int, growth: float, cost: float, miss: float) -> float:
    """The offset d of the mean that `catoni` puts below -cost, but for probability e^-miss.

    In standard deviations, which grow as 1 + growth·d. The dual bound E exp(-psi(y)) <=
    1 - E y + E y²/2 says how likely the influence is to stay too small; infinite if it says little.
    """
    q = cost / n
    slope, curve = np.sqrt(2 * q) - 2 * q * growth, q * (1 + growth**2)
    discriminant = slope**2 - 4 * curve * (1 + q - np.exp(-(cost + miss) / n) / (1 + q))
    if slope <= 0 or discriminant < 0:
        return np.inf
    return (slope - np.sqrt(discriminant)) / (2 * curve)


def least(detected: Callable[[float], bool], largest: float) -> float:
    """The least offset up to `largest` that is detected, to a relative 1e-4; inf if none is."""
    low, high = 1e-18 * largest, largest
    if not detected(high):
        return np.inf
    while high > low * 1.0001:
        middle = np.sqrt(low * high)
        low, high = (low, middle) if detected(middle) else (middle, high)
    return high


def log(probability: NDArray) -> NDArray:
    with np.errstate(divide="ignore"):
        return np.log(probability)
