"""Bounds of Bassily (2019) for linear queries that are chosen adaptively.

Users hold independent values with an unknown distribution p, and an error is about `q p`, sampling
included. `c = (e**epsilon + 1) / (e**epsilon - 1)`, and r bounds the absolute values of queries.
"""

import math
import warnings

from .._spec import check_bool, check_epsilon, check_int, check_real, within_float64


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
