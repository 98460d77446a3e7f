"""Privacy amplification by shuffling."""

import functools
import math

import numpy as np

from .._spec import check_epsilon, check_int, check_real, within_float64

MAX_USERS = 10**10
_BLOCKS = 1024  # of numbers of clones, each counted as the smallest number in it
_MARGIN = 1 + 1e-8  # more than all numerical errors
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_TAIL = 45.0


@within_float64
def shuffle_amplification(epsilon0: float, num_users: int, delta: float) -> float:
    """The central epsilon of the shuffled reports of epsilon0-private users, in closed form.

    `ln(1 + (E - 1)/(E + 1) (8 sqrt(E ln(4/delta) / n) + 8 E / n))` with E = e**epsilon0.

    Formal guarantees:
      A proven bound: the multiset of the reports is (epsilon, delta)-private in the value of one
      user. It holds for every randomizer, for adaptive sequences of randomizers, and only in the
      stated range of epsilon0. `shuffle_epsilon` is tighter, mostly by a factor of about 4.

    Edge cases:
      ========================================  ==============================================
      epsilon0 above ln(n / (16 ln(2/delta)))   ValueError: the theorem does not apply
      bound above epsilon0                      epsilon0: shuffling never costs privacy
      ========================================  ==============================================

    Args:
      epsilon0: of each user's report, > 0.
      num_users: n.
      delta: in (0, 1).

    Returns:
      epsilon of the shuffled reports.

    Raises:
      ValueError: an argument is out of range, or epsilon0 is too large for so few users.

    Example:
      >>> from jaxdp.accounting import shuffle_amplification
      >>> round(shuffle_amplification(epsilon0=1.0, num_users=10**6, delta=1e-8), 4)
      0.0268

    References:
      Feldman, McMillan, Talwar (2021), Hiding among the clones, Theorem 3.1.
    """
    epsilon0 = check_epsilon(epsilon0, "epsilon0")
    n = check_int("num_users", num_users, low=1)
    delta = check_real("delta", delta, low=0.0, high=1.0)
    ratio = n / (16 * math.log(2 / delta))
    if ratio <= 1 or epsilon0 > math.log(ratio):
        needed = math.ceil(16 * math.log(2 / delta) * math.exp(min(epsilon0, 500.0)))
        raise ValueError(
            f"epsilon0 must be at most ln(num_users / (16 ln(2 / delta))), got {epsilon0!r} for "
            f"num_users = {n} and delta = {delta!r}; the theorem needs {needed:.4g} users, "
            "shuffle_epsilon needs no such condition."
        )
    e = math.exp(epsilon0)
    factor = 8 * math.sqrt(e * math.log(4 / delta) / n) + 8 * e / n
    bound = math.log1p(math.tanh(epsilon0 / 2) * factor) * (1 + 2.0**-49)
    return min(bound, epsilon0)


@within_float64
def shuffle_epsilon(epsilon0: float, num_users: int, delta: float) -> float:
    """The central epsilon of the shuffled reports of epsilon0-private users, computed.

    The smallest epsilon with `shuffle_delta(epsilon, epsilon0, num_users) <= delta`.

    Formal guarantees:
      A proven bound, see `shuffle_delta`, for all epsilon0 and n; rounded up. It is below
      `shuffle_amplification` wherever that applies.

    Edge cases:
      ==================  ====================================================================
      few users           close to epsilon0, and at most that
      large delta         0.0, when delta is above the total variation distance
      ==================  ====================================================================

    Args:
      epsilon0: of each user's report, in (0, 700].
      num_users: n, 1 to 10**10; time and memory grow with the square root.
      delta: in (0, 1).

    Returns:
      epsilon of the shuffled reports.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import shuffle_epsilon
      >>> round(shuffle_epsilon(epsilon0=1.0, num_users=10**6, delta=1e-8), 4)
      0.0061

    References:
      Feldman, McMillan, Talwar (2021), Hiding among the clones, sections 3 and 5.
    """
    epsilon0, n = _check_users(epsilon0, num_users)
    delta = check_real("delta", delta, low=0.0, high=1.0)
    low, high = 0.0, epsilon0
    if _clone_delta(0.0, epsilon0, n) <= delta:
        return 0.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        # `high` is always private enough, so the result is rounded up.
        private = _clone_delta(middle, epsilon0, n) <= delta
        low, high = (low, middle) if private else (middle, high)
    return high


@within_float64
def shuffle_delta(epsilon: float, epsilon0: float, num_users: int) -> float:
    """The delta at epsilon of the shuffled reports of epsilon0-private users.

    Every report of another user is, with probability `e**-epsilon0`, a *clone*: it has the law of
    a report of one of the two values of the first user, each with probability 1/2. With
    `C ~ Bin(n - 1, e**-epsilon0)` clones, `A ~ Bin(C, 1/2)` of the first kind and `T = 1` with
    probability `E / (E + 1)`, the shuffled reports are a randomized function of `(A + T, C - A + 1
    - T)` for one value and of `(A + 1 - T, C - A + T)` for the other. The result is the delta of
    these two laws.

    Formal guarantees:
      A proven bound for every randomizer, and for adaptive sequences of them; rounded up, by some
      percent, since the numbers of clones are taken together in 1024 groups.

    Edge cases:
      ===================  ==================================================
      epsilon >= epsilon0  0.0
      one user             `(E - e**epsilon) / (E + 1)`, exact
      ===================  ==================================================

    Args:
      epsilon: of the shuffled reports, >= 0.
      epsilon0: of each user's report, in (0, 700].
      num_users: n, 1 to 10**10; time and memory grow with the square root.

    Returns:
      delta, in [0, 1].

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.accounting import shuffle_delta
      >>> f"{shuffle_delta(epsilon=0.01, epsilon0=1.0, num_users=10**6):.1e}"
      '5.9e-15'

    References:
      Feldman, McMillan, Talwar (2021), Hiding among the clones, sections 3 and 5.
    """
    epsilon0, n = _check_users(epsilon0, num_users)
    return _clone_delta(check_real("epsilon", epsilon, low=0.0, open_ends=False), epsilon0, n)


def _check_users(epsilon0: float, num_users: int) -> tuple[float, int]:
    epsilon0 = check_real("epsilon0", check_epsilon(epsilon0, "epsilon0"), high=700.5)
    return epsilon0, check_int("num_users", num_users, low=1, high=MAX_USERS)


def _clone_delta(epsilon: float, epsilon0: float, n: int) -> float:
    if epsilon >= epsilon0:
        return 0.0
    clones, weights, missed = _clones(epsilon0, n)
    total = float(weights @ _delta_of_clones(epsilon, epsilon0, clones))
    return min(total * _MARGIN + missed, 1.0)


@functools.lru_cache(maxsize=8)
def _clones(epsilon0: float, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The smallest number of clones in each group, the groups' probabilities, and what is left.

    With more clones the reports are more private: one can add clones. So a group counts as its
    smallest number. What is left is the probability of fewer clones than in all groups.
    """
    p, size = math.exp(-epsilon0), n - 1
    mean, reach = size * p, math.sqrt(2 * 700 * size * p * (1 - p)) + 700
    low, high = max(math.floor(mean - reach), 0), min(math.ceil(mean + reach), size)
    count = np.arange(low, high + 1, dtype=np.float64)
    law = np.exp(log_binomial(count, float(size), p))
    starts = np.unique(np.linspace(0, len(count), _BLOCKS, endpoint=False).astype(np.int64))
    missed = 0.0 if low == 0 else 1e-300  # Chernoff: e**-700
    return count[starts], np.add.reduceat(law, starts), missed


def _delta_of_clones(epsilon: float, epsilon0: float, clones: np.ndarray) -> np.ndarray:
    """The delta given the number of clones c: `u B(a - 1) - (e**eps - 1) Pr[Bin(c, 1/2) >= a]`.

    B is the binomial probability, `u = (E - e**eps) / (E + 1)`, and a is the smallest number of
    reports of the first kind that is e**eps times as likely under the first value.
    """
    spread = math.tanh(epsilon0 / 2)
    gap = math.expm1(epsilon)
    lie = 1 / (1 + math.exp(epsilon0))
    u = spread - gap * lie
    odds = (spread + gap * (1 - lie)) / u
    # B(a − 1)/B(a) = a/(c + 1 − a) exceeds the odds from here on.
    least = np.floor(odds / (1 + odds) * (clones + 1)) + 1
    least = np.minimum(least, clones + 1)
    with np.errstate(divide="ignore"):
        below = np.exp(log_binomial(least - 1, clones, 0.5))
        here = np.exp(log_binomial(np.minimum(least, clones), clones, 0.5))
    here = np.where(least > clones, 0.0, here)
    return np.maximum(u * below - gap * here * _tail_ratio(least, clones), 0.0)


def _tail_ratio(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Pr[Bin(c, 1/2) >= a] / Pr[Bin(c, 1/2) = a] for a > c / 2.

    It is `a int_0^1 (1 - s)**(a - 1) (1 + s)**(c - a) ds`, by quadrature to where the integrand is
    below e**-45.
    """
    slope, curvature = 2 * a - 1 - c, np.maximum(c - 1, 0)
    end = 2 * _TAIL / (slope + np.sqrt(slope**2 + 2 * _TAIL * curvature))
    end = np.minimum(end, 1.0)[:, None]
    s = end * (_NODES + 1) / 2
    a, c = a[:, None], np.maximum(c, a)[:, None]
    integrand = np.exp((a - 1) * np.log1p(-s) + (c - a) * np.log1p(s))
    return a[:, 0] * (integrand @ _WEIGHTS) * end[:, 0] / 2


def log_binomial(k: np.ndarray, n, p: float) -> np.ndarray:
    """The logarithm of the binomial probability, by Stirling's series: no large terms cancel."""
    k, n = np.broadcast_arrays(np.asarray(k, np.float64), np.asarray(n, np.float64))
    inside = (k > 0) & (k < n)
    x, m = np.where(inside, k, 1.0), np.where(inside, n, 2.0)
    deviance = _deviance(x, m * p) + _deviance(m - x, m * (1 - p))
    series = _stirling(m) - _stirling(x) - _stirling(m - x)
    middle = series - deviance - np.log(2 * np.pi * x * (m - x) / m) / 2
    log_q = math.log1p(-p) if p < 1 else -math.inf
    with np.errstate(invalid="ignore"):
        ends = np.where(k == 0, np.where(n == 0, 0.0, n * log_q), n * math.log(p))
    return np.where(inside, middle, ends)


def _deviance(x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """`x ln(x / mean) + mean - x`, for x > 0."""
    d = (x - mean) / mean
    # mean ((1 + d) ln(1 + d) - d); the series where that would cancel
    tail = 1 / 12 - d * (1 / 20 - d * (1 / 30 - d / 42))
    small = mean * d**2 * (1 / 2 - d * (1 / 6 - d * tail))
    return np.where(np.abs(d) < 1e-2, small, mean * ((1 + d) * np.log1p(d) - d))


def _stirling(n: np.ndarray) -> np.ndarray:
    """ln(n!) - ln(sqrt(2 pi n) (n / e)**n), for n >= 1."""
    v = 1 / n**2
    large = (1 / 12 - v * (1 / 360 - v * (1 / 1260 - v * (1 / 1680 - v / 1188)))) / n
    return np.where(n < 16, _SMALL_STIRLING[np.minimum(n, 16).astype(np.int64)], large)


_SMALL_STIRLING = np.array(
    [0.0]
    + [
        math.lgamma(n + 1) - math.log(2 * math.pi * n) / 2 - n * (math.log(n) - 1)
        for n in range(1, 17)
    ]
)
