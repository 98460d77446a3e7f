"""Confidence limits of proportions that hold for every number of trials."""

import numpy as np

from .._chernoff import relative_entropy


def upper_limit(successes, trials, log_level: float) -> np.ndarray:
    """An upper limit of the probability of a success, float64, by Chernoff's bound.

    The largest p with `n KL(k/n || p) <= log_level`: it is below the true probability with a chance
    of at most `e**-log_level`. Clopper and Pearson's limit is a little lower, by 7 % of the
    distance to k/n at a level of 1e-9 and not at all at k = 0; this one has no special functions.

    Args:
      successes: k, whole numbers.
      trials: n, whole numbers.
      log_level: minus the logarithm of the chance of error, > 0.
    """
    k, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    low, high = k / n, np.ones(k.shape)
    for _ in range(100):
        middle = (low + high) / 2
        # The end that is returned stays outside: bisection can only weaken the limit.
        inside = n * relative_entropy(k / n, middle) <= log_level
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high


def lower_limit(successes, trials, log_level: float) -> np.ndarray:
    """A lower limit of the probability of a success; the mirror image of `upper_limit`."""
    k, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    low, high = np.zeros(k.shape), k / n
    for _ in range(100):
        middle = (low + high) / 2
        outside = n * relative_entropy(k / n, middle) >= log_level
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return low


def mean_is_off(samples, mean, variance, log_level: float) -> np.ndarray:
    """Whether independent samples contradict a mean, given a bound on their variance; bool[...].

    Catoni's argument: with `psi(x) = sign(x) ln(1 + |x| + x**2 / 2)` and
    `a = sqrt(2 log_level / (n variance))`, the sum of `psi(a (X_i - mean))` exceeds `2 log_level`
    in absolute value with a chance of at most `2 e**-log_level`. No other assumption is made.

    Args:
      samples: float[n, ...], independent along axis 0.
      mean: float[...].
      variance: float[...], > 0.
      log_level: minus the logarithm of half the chance of error.
    """
    centred = np.asarray(samples, np.float64) - mean
    scaled = centred * np.sqrt(2 * log_level / (len(centred) * np.asarray(variance)))
    influence = np.sign(scaled) * np.log1p(np.abs(scaled) + scaled**2 / 2)
    return np.abs(influence.sum(0)) > 2 * log_level
