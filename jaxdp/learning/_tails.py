"""How far the reports of randomizers may be from their means, in any direction."""

import math

import numpy as np

from ..randomizers import Gaussian, L2Ball, PrivUnit, PrivUnitG

_NORMAL_CDF = np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2)
_REACH, _STEPS = 12.0, 4801  # of the parameters at which a moment generating function is evaluated
_SLACK = 1e-4  # relative, for what the maximum may be above that of the grid


def report_tail(randomizer) -> tuple[float, float]:
    """The (v, b) for which `<a, report - x>` is sub-gamma, for |a| = 1 and every x in the ball.

    That is `log E exp(t <a, y - x>) <= v t**2 / (2 (1 - b t))`, 0 <= t < 1/b: by Bernstein's lemma
    with v the largest variance and b a third of the largest deviation for bounded reports, and
    b = 0 for Gaussian ones.

    Raises:
      ValueError: it is not known of this kind of randomizer.
    """
    if isinstance(randomizer, Gaussian):
        return randomizer.sigma**2, 0.0
    if isinstance(randomizer, PrivUnitG):
        size = randomizer.radius / randomizer.threshold
        return size**2 * _tilt(randomizer), 0.0
    if isinstance(randomizer, PrivUnit):
        along, across = randomizer.second_moments()
        largest = 1 / randomizer.threshold
    elif isinstance(randomizer, L2Ball):
        along, across = randomizer.second_moments()
        largest = randomizer.magnitude
    else:
        raise ValueError(
            f"randomizer must be PrivUnitG, PrivUnit, L2Ball or Gaussian for a proven guarantee, "
            f"got {type(randomizer).__name__}."
        )
    radius = randomizer.radius
    return radius**2 * max(across, along - 1), radius * (largest + 1) / 3


def _tilt(randomizer: PrivUnitG) -> float:
    """The variance factor of the coordinate of the vector V of `PrivUnitG` along the user's.

    Its density is that of a normal, times p/q above gamma and (1 - p)/(1 - q) below, hence its
    moment generating function is `exp(t**2 / 2) Z(t)` with Z linear in Phi(t - gamma). The other
    coordinates are normal, with a factor of 1.
    """
    p, q = randomizer.probabilities()
    gamma = randomizer.threshold
    high, low = p / q, (1 - p) / (1 - q)
    t = np.linspace(-_REACH, _REACH, _STEPS)
    t = t[t != 0]
    log_z = np.log(low + (high - low) * _NORMAL_CDF(t - gamma))
    return max(1 + float(np.max(2 * (log_z - gamma * t) / t**2)), 1.0) * (1 + _SLACK)
