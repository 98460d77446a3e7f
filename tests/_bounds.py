"""The proven tail bounds behind `tests.stats`, as log-probabilities."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.stats import binom


def agrawal(counts: NDArray, probabilities: NDArray) -> tuple[NDArray, NDArray]:
    """n·KL(counts / n, probabilities), and Agrawal's bound on log P(at least that)."""
    expected = counts.sum() * probabilities
    excess = (counts - expected) / expected
    # n·KL is also the sum of e·((1+x)·log(1+x) - x), which does not cancel at large counts.
    entropy = np.sum(expected * (special.xlog1py(1 + excess, excess) - excess))
    freedom = max(counts.size - 1, 1)
    surplus = np.maximum(entropy / freedom, 1)
    return entropy, freedom * (1 + np.log(surplus) - surplus)


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


def bernstein(deviation: NDArray, variance: NDArray, scale: ArrayLike) -> NDArray:
    """The exponent L at which deviation = sqrt(variance·L) + scale·L."""
    roots = np.sqrt(variance) + np.sqrt(variance + 4 * np.ravel(scale) * deviation)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(deviation == 0, 0, 2 * deviation / roots) ** 2


def catoni(samples: NDArray, mean: NDArray, variance: NDArray, cost: float, sides: int) -> NDArray:
    """A bound on log P(an influence at least that of the samples), tightest where it is -cost.

    psi(y) <= log(1 + y + y²/2), so E exp(sum psi(s·(x - mean))) <= (1 + s²·variance/2)^n.
    """
    n = len(samples)
    y = np.sqrt(2 * cost / (n * variance)) * (samples - mean)
    influence = np.copysign(np.log1p(np.abs(y) + y**2 / 2), y).sum(0)
    if sides == 2:
        influence = np.abs(influence)
    return np.log(sides) - influence + n * np.log1p(cost / n)


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
