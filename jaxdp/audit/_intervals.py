"""Confidence limits of proportions that hold for every number of trials."""

import numpy as np


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
        inside = n * _relative_entropy(k / n, middle) <= log_level
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high


def lower_limit(successes, trials, log_level: float) -> np.ndarray:
    """A lower limit of the probability of a success; the mirror image of `upper_limit`."""
    k, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    low, high = np.zeros(k.shape), k / n
    for _ in range(100):
        middle = (low + high) / 2
        outside = n * _relative_entropy(k / n, middle) >= log_level
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return low


def frequency_range(p: float, trials: int, log_level: float) -> tuple[float, float]:
    """Frequencies of a success between which all but few samples lie.

    The ends of `n KL(x || p) <= log_level`: by Chernoff's bound the frequency is below the lower
    one with a chance of at most `e**-log_level`, and so it is above the upper one.

    Args:
      p: the probability of a success.
      trials: n.
      log_level: minus the logarithm of the chance beyond each end, > 0.
    """
    ends = []
    for outer in (0.0, 1.0):
        near, far = p, outer
        for _ in range(100):
            middle = (near + far) / 2
            inside = trials * _relative_entropy(np.array(middle), np.array(p)) < log_level
            near, far = (middle, far) if inside else (near, middle)
        ends.append(far)
    return ends[0], ends[1]


def _relative_entropy(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """KL(q || p) of two coins, for q in [0, 1] and p in [0, 1]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = np.where(q > 0, q * np.log(q / p), 0.0)
        zeros = np.where(q < 1, (1 - q) * np.log((1 - q) / (1 - p)), 0.0)
    return ones + zeros


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
