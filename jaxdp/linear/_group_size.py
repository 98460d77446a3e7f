"""Moments of the size of a random group."""

import math

import numpy as np

_SERIES_FROM = 1e3


def mean_inverse(num_users: int, probability: float) -> tuple[float, float]:
    """E[1/M; M >= 1] and Pr[M = 0] for M ~ Binomial(n, p), to a relative 1e-11.

    A sum over the values within 40 standard deviations of the mean m. From m = 10**3 on the
    expansion `sum_j A_j(q) / m**(j + 1)` with the Eulerian polynomials of q = 1 - p; it is that of
    1/M about its mean, sorted by powers of m, and the first term left out is below `120 / m**6`.

    Args:
      num_users: n, at least 1.
      probability: p in (0, 1].
    """
    n, p = float(num_users), probability
    if p == 1:
        return 1 / n, 0.0
    mean, q = n * p, 1 - p
    empty = math.exp(n * math.log1p(-p))
    if mean >= _SERIES_FROM:
        eulerian = (1, q, q + q**2, q + 4 * q**2 + q**3, q + 11 * q**2 + 11 * q**3 + q**4)
        return sum(a / mean ** (j + 1) for j, a in enumerate(eulerian)), empty
    reach = 40 * math.sqrt(mean * q) + 60
    low, high = math.floor(max(mean - reach, 0)), math.ceil(min(mean + reach, n))
    sizes = np.arange(low, high + 1, dtype=np.float64)
    steps = np.log((n - sizes[:-1]) / sizes[1:]) + math.log(p / q)  # of the log-probabilities
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    positive = sizes > 0
    return float(np.sum(weights[positive] / sizes[positive]) / weights.sum()), empty
