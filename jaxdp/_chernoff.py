"""Chernoff's bound for frequencies of a success."""

import numpy as np
from numpy.typing import ArrayLike


def relative_entropy(q: ArrayLike, p: ArrayLike) -> np.ndarray:
    """KL(q || p) of two coins, for q in [0, 1] and p in [0, 1]."""
    q, p = np.asarray(q), np.asarray(p)
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = np.where(q > 0, q * np.log(q / p), 0.0)
        zeros = np.where(q < 1, (1 - q) * np.log((1 - q) / (1 - p)), 0.0)
    return ones + zeros


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
            inside = trials * relative_entropy(middle, p) < log_level
            near, far = (middle, far) if inside else (near, middle)
        ends.append(far)
    return ends[0], ends[1]
