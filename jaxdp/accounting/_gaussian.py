"""The exact privacy of Gaussian noise."""

import math

import numpy as np
from numpy.typing import ArrayLike

from .._spec import as_float64, check_int, check_real, within_float64

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_TAIL = 45.0  # e**-45 of the integrand is left out beyond the end point
_LEAST_RATIO = 1e-290  # of sensitivity and standard deviation; the integral of less underflows


@within_float64
def gaussian_delta(epsilon: float, sensitivity: float, sigma: float) -> float:
    """The smallest delta for which adding N(0, sigma**2 I) is (epsilon, delta)-private.

    `Phi(D/(2 s) - eps s/D) - e**eps Phi(-D/(2 s) - eps s/D)`, with D the largest Euclidean distance
    of two inputs and s = sigma. In the local model two users may differ in everything: vectors of
    norm at most r have D = 2 r.

    Formal guarantees:
      Exact: a necessary and sufficient condition, attained by two inputs at distance D. Evaluated
      without cancellation, as `phi(u) int_0^inf e**(-u t - t**2/2) (1 - e**(-t D/s)) dt` with
      `u = eps s/D - D/(2 s)`, to a relative 1e-12.

    Edge cases:
      ==================  ======================================================================
      epsilon = 0         the total variation distance of the two laws
      delta below 1e-308  0.0 or a subnormal float
      ==================  ======================================================================

    Args:
      epsilon: privacy parameter, >= 0.
      sensitivity: D, > 0.
      sigma: standard deviation of each coordinate, > 0.

    Returns:
      delta, in [0, 1].

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import gaussian_delta
      >>> f"{gaussian_delta(epsilon=1.0, sensitivity=2.0, sigma=5.387):.2e}"
      '6.53e-04'

    References:
      Balle, Wang (2018), Improving the Gaussian mechanism for differential privacy, Theorem 8.
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, open_ends=False)
    sensitivity = check_real("sensitivity", sensitivity, low=0.0)
    sigma = check_real("sigma", sigma, low=0.0)
    ratio = sensitivity / sigma
    if not 0 < ratio < math.inf:
        raise ValueError(
            f"sigma must be within the range of a float of the sensitivity, got {sigma!r} and "
            f"{sensitivity!r}."
        )
    return min(math.exp(_log_delta(epsilon, ratio)), 1.0)


@within_float64
def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least noise for which adding N(0, sigma**2 I) is (epsilon, delta)-private.

    Formal guarantees:
      `gaussian_delta(epsilon, sensitivity, sigma) <= delta`, with sigma rounded up by more than the
      numerical error of that function, about a relative 1e-12.

    Edge cases:
      ==============  ========================================================================
      delta = 0       ValueError: Gaussian noise has no pure guarantee
      epsilon = 0     the noise for a total variation distance of delta
      ==============  ========================================================================

    Args:
      epsilon: privacy parameter, >= 0.
      delta: in (0, 1).
      sensitivity: the largest Euclidean distance of two inputs, > 0; in the local model 2 r for
        vectors of norm at most r.

    Returns:
      sigma, the standard deviation of each coordinate.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import gaussian_sigma
      >>> round(gaussian_sigma(epsilon=1.0, delta=1e-6, sensitivity=2.0), 3)
      8.449

    References:
      Balle, Wang (2018), Improving the Gaussian mechanism for differential privacy, Algorithm 1.
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, open_ends=False)
    delta = check_real("delta", delta, low=0.0, high=1.0)
    sensitivity = check_real("sensitivity", sensitivity, low=0.0)

    def private(ratio: float) -> bool:
        reach = epsilon / ratio + ratio / 2  # the error of u is a few ulps of this
        error = 1e-13 + 1e-15 * reach * abs(epsilon / ratio - ratio / 2)
        return _log_delta(epsilon, ratio) + 2 * error <= math.log(delta)

    low = 1.0
    while not private(low):
        low /= 2
    high = 2 * low
    while private(high):
        low, high = high, 2 * high
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if private(middle) else (low, middle)
    return math.nextafter(sensitivity / low, math.inf)


@within_float64
def dithered_gaussian_delta(
    epsilon: float, sensitivity: float, sigma: float, step: float, dim: int
) -> float:
    """A delta for which Gaussian noise is private where inputs are rounded at random to a grid.

    Inputs x, x' become `s floor(x / s + u)` with independent dithers u, uniform on [0, 1), and the
    noise is rounded to the grid.

    Formal guarantees:
      A proven bound. Given the dithers the noise is a Gaussian that is rounded, and rounding
      commutes with shifts by grid steps; so by joint convexity `delta <= E f(|D|**2)`, with `f(v)`
      the delta of a distance sqrt(v) and D the distance of the rounded inputs. Each `D_i**2` takes
      two values, of mean at most `Delta_i**2 + s**2 / 4` and range `s (2 |Delta_i| + s)`. log f is
      concave, so it lies below its tangent at the squared sensitivity `4 r**2`, of slope k, and
      Hoeffding's lemma gives

          f(4 r**2) exp(k d s**2 / 4 + k**2 s**2 (4 r + s sqrt(d))**2 / 8).

      log f is concave: f(0) = 0 and `log f'(v) = const - v / (8 sigma**2) - (eps sigma)**2 / (2 v)
      - log(v) / 2` is concave up to `v = 2 (eps sigma)**2`, which makes f log-concave there
      (Prekopa); beyond, f' falls, so f itself is concave.

    Edge cases:
      ==========================  ==========================================
      a grid as coarse as sigma   1.0, or a delta that is much too large
      ==========================  ==========================================

    Args:
      epsilon: privacy parameter, >= 0.
      sensitivity: 2 r, the largest Euclidean distance of two inputs before they are rounded, > 0.
      sigma: standard deviation of each coordinate of the noise, > 0.
      step: s, of the grid, > 0.
      dim: d, the number of coordinates.

    Returns:
      delta, in [0, 1].

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import dithered_gaussian_delta, gaussian_delta
      >>> exact = gaussian_delta(epsilon=1.0, sensitivity=2.0, sigma=8.0)
      >>> 1.0 < dithered_gaussian_delta(1.0, 2.0, 8.0, step=0.01, dim=16) / exact < 1.01
      True
    """
    tangent = gaussian_delta(epsilon, sensitivity, sigma)
    step, dim = check_real("step", step, low=0.0), check_int("dim", dim, low=1)
    if tangent == 0.0:
        return 1.0
    # d f / d sqrt(v) = phi(sqrt(v) / (2 sigma) - eps sigma / sqrt(v)) / sigma
    at = sensitivity / (2 * sigma) - epsilon * sigma / sensitivity
    slope = math.exp(-(at**2) / 2) / math.sqrt(2 * math.pi) / (2 * sensitivity * sigma * tangent)
    spread = (slope * step * (2 * sensitivity + step * math.sqrt(dim))) ** 2 / 8
    rounded = math.log(tangent) + slope * dim * step**2 / 4 + spread + 1e-10  # of rounding
    return math.exp(min(rounded, 0.0))


@within_float64
def gaussian_composition(ratios: ArrayLike, delta: float) -> float:
    """The least epsilon of several Gaussian mechanisms on the same users, all results together.

    Mechanisms of ratios `r_i = D_i / sigma_i` are together one of ratio `sqrt(sum_i r_i**2)`, by
    the rotation of the noise: nothing is lost, unlike by theorems that know epsilon and delta only.

    Formal guarantees:
      The results together are (epsilon, delta)-private, also where a mechanism is chosen after
      seeing the results before it, and for no smaller epsilon where none depends on others. It is
      of noise on the real line: the grids of `jaxdp.randomizers.Gaussian` add what its
      `exact_delta` counts.

    Args:
      ratios: float[k], the sensitivity of each mechanism over the standard deviation of its noise.
      delta: in (0, 1), of all together.

    Returns:
      epsilon, rounded up by 1e-9 of it; 0 where the total variation distance is at most delta, and
      inf where it is beyond the range of floats, for ratios of about 1e154.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import gaussian_composition, gaussian_sigma
      >>> once = 2.0 / gaussian_sigma(epsilon=1.0, delta=1e-6, sensitivity=2.0)
      >>> [round(gaussian_composition([once] * k, 1e-6), 2) for k in (1, 4, 12)]
      [1.0, 2.12, 3.9]

    References:
      Dong, Roth, Su (2022), Gaussian differential privacy, Corollary 3.3.
    """
    given = as_float64("ratios", ratios).ravel()
    if not given.size or not np.all((given > 0) & (given < np.inf)):
        raise ValueError(f"ratios must be positive numbers, at least one, got {ratios!r}.")
    delta = check_real("delta", delta, low=0.0, high=1.0)
    # hypot does not underflow; delta grows with the ratio, and the least one is its integral's.
    ratio = max(math.hypot(*given.tolist()) * (1 + 1e-15 * given.size), _LEAST_RATIO)

    def private(epsilon: float) -> bool:
        return _log_delta(epsilon, ratio) + 1e-11 * (1 + epsilon) <= math.log(delta)

    if private(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < math.inf and not private(high):
        low, high = high, 2 * high
    while high - low > 1e-9 * high and high < math.inf:
        middle = (low + high) / 2
        low, high = (low, middle) if private(middle) else (middle, high)
    return high


def _log_delta(epsilon: float, ratio: float) -> float:
    """ln(delta) for sensitivity / sigma = ratio."""
    u = epsilon / ratio - ratio / 2
    if u < -6:  # delta is near 1, and both terms that are subtracted from it below 1e-8
        below = math.erfc(-u / math.sqrt(2)) / 2
        return math.log1p(-below - math.exp(-u * u / 2) * _mills(u + ratio))
    if u > 1e8:
        return -math.inf
    # phi(u) (R(u) - R(u + ratio)) with the Mills ratio R(u) = int_0^inf e**(-u t - t**2 / 2) dt
    end = 2 * _TAIL / (u + math.sqrt(u * u + 2 * _TAIL))
    t = end * (_NODES + 1) / 2
    integrand = np.exp(-u * t - t * t / 2) * -np.expm1(-ratio * t)
    integral = float(_WEIGHTS @ integrand) * end / 2
    return -u * u / 2 - math.log(2 * math.pi) / 2 + math.log(integral)


def _mills(u: float) -> float:
    """The Mills ratio over sqrt(2 pi), for u > 0."""
    if u < 30:
        return math.exp(u * u / 2) * math.erfc(u / math.sqrt(2)) / 2
    v = 1 / (u * u)
    return (1 - v + 3 * v**2 - 15 * v**3) / (u * math.sqrt(2 * math.pi))
