"""Bounds of Bassily (2019) for linear queries that are chosen adaptively.

Users hold independent values with an unknown distribution p, and an error is about `q p`, sampling
included. `c = (e**epsilon + 1) / (e**epsilon - 1)`, and r bounds the absolute values of queries.
"""

import itertools
import math
import warnings

import numpy as np

from .._spec import check_bool, check_epsilon, check_int, check_real, within_float64
from ..factorization import HardLines

# Of the tests, in parts of the distance from which on they could be right: each 5 % above the last.
_DISTANCES = np.geomspace(0.02, 4.0, 110)
_WIDTHS = np.geomspace(1.0, 1e3, 10)  # of half the prior, in the same parts
_MISSED = (1e-2, 1e-3, 1e-6)  # probabilities that fewer tests are possible than are counted on
_HALVINGS = 40  # of the interval of a probability


@within_float64
def adaptive_max_error(
    num_users: int, num_rounds: int, epsilon: float, bound: float = 1.0, *, simple: bool = False
) -> float:
    """The largest expected maximal error of `linear.AdaptiveQueries`, over analysts and users.

    `2 c r sqrt(d log(2 d) / n) + (c + 1) r d e**(-n / (8 d))`, and at most `(c + 1) r`; or, for
    many users, the simpler and larger `4 c r sqrt(d log(d) / n)` that the paper prints.

    Formal guarantees:
      A proven bound for every n and d. Where every round has at least n / (2 d) users, an answer is
      an average of that many numbers ±c r, which given the past are independent and of mean `q p`;
      its error is sub-Gaussian with the variance proxy `s = 2 d (c r)**2 / n` (the paper has twice
      that), and the largest of 2 d signed errors is at most `sqrt(2 s log(2 d))` in expectation.
      The other event has a probability of at most `d e**(-n / (8 d))`. There an error is at most
      `(c + 1) r`, for answers range over [-c r, c r]; the paper takes it to be at most r.

      The simple one is proven for `n >= 8 d log(n)`. With max(d, 2) for d in the logarithm: the
      paper prints log(d), which says that the answer to a single query has no error.

    Args:
      num_users: n; where `simple`, a UserWarning says how many the bound is proven for, if there
        are fewer.
      num_rounds: d, the number of queries.
      epsilon: privacy parameter, > 0.
      bound: r, > 0.
      simple: whether to return the paper's simpler bound.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import adaptive_max_error
      >>> n = 10**6
      >>> round(adaptive_max_error(n, num_rounds=64, epsilon=1.0), 4)
      0.0763
      >>> round(adaptive_max_error(n, num_rounds=64, epsilon=1.0, simple=True), 4)
      0.1412

    References:
      Bassily (2019), Theorem 5.2 and its proof, with constants corrected.
    """
    n = check_int("num_users", num_users, low=1)
    d = check_int("num_rounds", num_rounds, low=1)
    c = 1 / math.tanh(check_epsilon(epsilon) / 2)
    r = check_real("bound", bound, low=0.0)
    if not check_bool("simple", simple):
        # sqrt(2 s log(2 d)) with the proxy s = 2 d (c r)**2 / n of a round of n / (2 d) users
        typical = 2 * c * math.sqrt(d * math.log(2 * d) / n)
        # A round is smaller with probability e**(-n / (8 d)), by Chernoff's bound.
        return r * min(typical + (c + 1) * d * math.exp(-n / (8 * d)), c + 1)
    needed = 8 * d * math.log(n)
    if n < needed:
        warnings.warn(
            f"num_users = {n} is below 8 d log(n) = {math.ceil(needed)}; for num_rounds = {d} the "
            f"bound is proven from {_least_users(d)} users on; adaptive_max_error always holds "
            "without simple=True.",
            stacklevel=2,
        )
    return 4 * c * r * math.sqrt(d * math.log(max(d, 2)) / n)


def _least_users(num_rounds: int) -> int:
    """The n from which on n >= 8 d log(n)."""
    n = 8.0 * num_rounds * math.e  # n / log(n) grows from e on
    for _ in range(200):
        n = max(n, 8 * num_rounds * math.log(n))
    return math.ceil(n)


@within_float64
def adaptive_lower_max_error(
    num_users: int, num_rounds: int, epsilon: float, bound: float = 1.0
) -> float:
    """The maximal error below which epsilon-local privacy leaves no answers to d bounded queries.

    Of the coordinates of `{-r, r}**d`, that is of the hardest d queries of absolute values at most
    r over many values, and for the hardest distribution. For many users it is the larger of `0.6 r
    sqrt(d / n) / sinh(epsilon / 2)` and, as d grows, `r sqrt(d log(d) / n) / (3 sinh(epsilon /
    2))`.

    Formal guarantees:
      Every non-interactive epsilon-LDP protocol for queries fixed before, with so many users, has
      at least this expected maximal error. `AdaptiveQueries` is such a protocol then.

      * The first is the mean absolute error of some query: that of `factorization.HardLines` for
        the lines `2**-d (1 + a x_v)`, the spread of whose reports is 1 / d by Bessel's inequality.
      * The second is Fano's inequality at every distance. With product distributions of means
        theta, uniform on `[-a, a]**d`, an error below h tells `theta + 2 h v` from the others of
        its kind, v any of the `+-e_j` for which it is within the cube. Of N of them a test is right
        with a probability s of at most `kl(s, 1 / N) <= I / N`, where `I = 8 n h**2 sinh(epsilon /
        2)**2 / (1 - a**2)`: a report tells `E (g x_j)`, g its likelihood, and the squares of these
        add up to at most the variance of g. So `E max >= int_0^(a / 2) E(N) (1 - s) / (2 d) dh`.
        For few users theta is one of the `+-2 h e_j` alone.

    Args:
      num_users: n, at least 1.
      num_rounds: d, the number of queries, at most 2**30.
      epsilon: privacy parameter, > 0.
      bound: r, > 0.

    Returns:
      The bound.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.bounds import adaptive_lower_max_error
      >>> round(adaptive_lower_max_error(10**6, num_rounds=64, epsilon=1.0), 4)
      0.0086

    References:
      Duchi, Jordan and Wainwright (2013), Proposition 4, with constants; in Bassily (2019), Table
      1. Ziv and Zakai (1969).
    """
    n = check_int("num_users", num_users, low=1)
    d = check_int("num_rounds", num_rounds, low=1, high=2**30)
    epsilon = check_epsilon(epsilon)
    r = check_real("bound", bound, low=0.0)
    one_query = HardLines(2.0, 1 / d, 1.0).error(n, epsilon)
    # The variance of a report's likelihood, and what is left of the values' own differences.
    told, left = math.sinh(epsilon / 2) ** 2, math.tanh(epsilon / 2) ** 2
    scale = math.sqrt(d * math.log(2 * d) / (n * min(told, d * left)))

    def missed(distances, count, center):
        """The least probability to miss which of `count` shifts of a center it is."""
        information = n * distances**2 / (1 - center**2) * np.minimum(2 * told / count, left)
        return 1 - _most_often_right(information, count)

    distances = np.minimum(scale * _DISTANCES, 1.0)
    # Where a shift is missed, the error is at least half of it.
    bounds = [one_query, np.max(distances / 2 * missed(distances, 2.0 * d, 0.0))]
    for half, chance in itertools.product(np.minimum(scale * _WIDTHS, 0.99), _MISSED):
        ends = distances[distances <= half]
        # Both shifts of a coordinate are within the cube with probability 1 - distance / half, one
        # always; Hoeffding's inequality.
        counts = d * (2 - ends / half) - math.sqrt(d * math.log(1 / chance) / 2)
        counts = np.maximum(counts, max(d, 2))
        found = (1 - chance) * counts / (2 * d) * missed(ends, counts, half)
        bounds.append(np.sum(found * np.diff(ends, prepend=0.0)) / 2)
    return r * float(max(bounds))


def _most_often_right(information, count):
    """The largest s at which kl(s, 1 / count) <= information, from above."""
    low, high = np.broadcast_arrays(1 / np.asarray(count), 1.0 + 0 * information)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # 0 log(0) is 0
        rest = np.maximum(1 - middle, np.finfo(np.float64).tiny)
        divergence = middle * np.log(middle * count) + rest * np.log(rest / (1 - 1 / count))
        within = divergence <= information
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    return high
