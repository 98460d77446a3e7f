"""Theorems 4 and 5 of Bell, Bellet, Gascón, Kulkarni (2020): AUC in one round, and pairs of users.

Those for pairs are for a kernel with values in [0, 1]; for another range multiply the error by its
square.
"""

import math

from .._spec import BELOW_ONE, check_choice, check_epsilon, check_int, check_real, within_float64
from ..accounting import split_epsilon
from ._auc import HierarchicalAUCBounds


@within_float64
def one_round_auc_mse(
    num_negative: int,
    num_positive: int,
    height: int,
    epsilon: float,
    *,
    delta: float = 0.0,
    splitting: str = "budget",
    method: str = "optimal",
) -> float:
    """The largest mean squared error of the area under the curve by one round of one-bit reports.

    `HierarchicalAUCBounds.theorem` with the variance of a count that Hadamard reports have: with
    `c(e) = (e**e + 1) / (e**e - 1)`, V = c(eps_0)**2 where every user reports on all levels of the
    tree, with a share eps_0 of epsilon each, and V = alpha c(eps)**2 where every user reports on
    one level.

    Formal guarantees:
      A proven bound under Theorem 3: "budget" for given users, "users" about the area of the
      distribution that they are drawn from. For balanced classes and small epsilon it is of order
      `alpha**3 / (n eps**2)` with delta = 0; with delta > 0 `alpha**2 ln(1/delta) / (n eps**2)`,
      which is less for many levels only; and `alpha**2 / (n eps**2)` with "users". The paper prints
      O of these, from a variance, equation (23), that is too small by up to n.

    Args:
      num_negative: users of label 0, at least 1.
      num_positive: users of label 1, at least 1.
      height: alpha, the logarithm of the number of scores, at least 1.
      epsilon: privacy parameter, > 0.
      delta: of approximate privacy, in [0, 1); for "budget".
      splitting: "budget" or "users", what is split over the levels.
      method: of composition; as in `jaxdp.accounting.split_epsilon`.

    Returns:
      The bound; above 1 it says nothing.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.bounds import one_round_auc_mse
      >>> users = dict(num_negative=10**6, num_positive=10**6, height=10, epsilon=1.0)
      >>> for splitting in ("budget", "users"):
      ...     print(round(one_round_auc_mse(**users, splitting=splitting), 4))
      0.0583
      0.0057

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Theorem 4 and Table 1.
    """
    check_choice("splitting", splitting, ("budget", "users"))
    levels = check_int("height", height, low=1, high=24)
    epsilon = check_epsilon(epsilon)
    delta = check_real("delta", delta, low=0.0, high=BELOW_ONE, open_ends=False)
    if splitting == "users":
        if delta != 0:
            raise ValueError(f"delta must be 0 where users are split, got {delta!r}.")
        spread = levels / math.tanh(epsilon / 2) ** 2
    else:
        _check_slack(delta, method)
        spread = 1 / math.tanh(split_epsilon(epsilon, levels, delta, method) / 2) ** 2
    return HierarchicalAUCBounds(num_negative, num_positive, levels, spread).theorem()


@within_float64
def pair_sampling_mse(
    num_users: int,
    epsilon: float,
    num_permutations: int,
    *,
    zeta_1: float = 0.0,
    zeta_2: float = 0.25,
) -> float:
    """The mean squared error of P random matchings with Laplace noise, sampling included.

    `2/(P n) (2 (P - 1) (1 - 1/(n-1)) zeta_1 + (1 + (P - 1)/(n - 1)) zeta_2) + 4 P / (n eps**2)`

    Formal guarantees:
      Exact for Laplace noise on the real line and independent users, an even number of them, with
      the `zeta_1 = Var E[f(X, X') | X]` and `zeta_2 = Var f(X, X')` of their distribution; a bound
      for `jaxdp.trusted.PairSampling`, which cuts the ends of the noise. (The paper prints `2 P /
      (n eps**2)` for the noise: the variance of a Laplace variable of scale P/eps is 2 P**2 /
      eps**2, and P n / 2 of them are averaged. `zeta_1` is printed as a conditional variance.) With
      an odd number the noise is 4 P / ((n - 1) eps**2).

      A bound for every distribution with `zeta_2 = 1/4` and `zeta_1 = 1/8`; for P = 1, where
      `zeta_1` does not matter, also with the defaults.

    Args:
      num_users: n, even, at least 2.
      epsilon: privacy parameter of a user, > 0.
      num_permutations: P, from 1 to n - 1.
      zeta_1: in [0, zeta_2 / 2].
      zeta_2: in [0, 1/4].

    Returns:
      The mean squared error about the population's value.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.bounds import pair_sampling_mse
      >>> round(pair_sampling_mse(num_users=10_000, epsilon=1.0, num_permutations=1), 6)
      0.00045

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Theorem 5, with its noise term corrected.
    """
    n = check_int("num_users", num_users, low=2)
    if n % 2:
        raise ValueError(f"num_users must be even, got {n}; leave one user out.")
    p = check_int("num_permutations", num_permutations, low=1, high=n - 1)
    epsilon = check_epsilon(epsilon)
    two = check_real("zeta_2", zeta_2, low=0.0, high=0.25, open_ends=False)
    one = check_real("zeta_1", zeta_1, low=0.0, high=two / 2 * (1 + 1e-9), open_ends=False)
    # Blom (1976): 1/P of the variance of one matching, 2 zeta_2 / n, and 1 - 1/P of that of the
    # complete U-statistic, 2 (2 (n - 2) zeta_1 + zeta_2) / (n (n - 1))
    shared = 2 * (p - 1) * (1 - 1 / (n - 1)) * one + (1 + (p - 1) / (n - 1)) * two
    return 2 * shared / (p * n) + 4 * p / (n * epsilon**2)


@within_float64
def optimal_num_permutations(epsilon: float, *, zeta_1: float = 0.0, zeta_2: float = 0.25) -> int:
    """The number of matchings P that minimises `pair_sampling_mse`, for many users.

    P + 1 matchings are better than P if and only if
    `P (P + 1) < (zeta_2 - 2 zeta_1) eps**2 / 2` (times 1 - 1/(n - 1) for n users). So one is best
    up to `eps = 2 / sqrt(zeta_2 - 2 zeta_1)`, which is at least 4; the paper's appendix C.1 says so
    in words.

    Args:
      epsilon: privacy parameter of a user, > 0.
      zeta_1: in [0, zeta_2 / 2]; 0 is where more matchings help most.
      zeta_2: in [0, 1/4].

    Returns:
      P, at least 1.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.bounds import optimal_num_permutations
      >>> [optimal_num_permutations(epsilon) for epsilon in (1.0, 4.0, 8.0, 16.0)]
      [1, 1, 3, 6]

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), appendix C.1.
    """
    epsilon = check_epsilon(epsilon)
    two = check_real("zeta_2", zeta_2, low=0.0, high=0.25, open_ends=False)
    one = check_real("zeta_1", zeta_1, low=0.0, high=two / 2 * (1 + 1e-9), open_ends=False)
    gain = max(two - 2 * one, 0.0) * epsilon**2 / 2
    # The least P with P (P + 1) >= gain.
    return max(math.ceil((math.sqrt(1 + 4 * gain) - 1) / 2), 1)


@within_float64
def all_pairs_mse(
    num_users: int,
    epsilon: float,
    delta: float,
    *,
    method: str = "advanced",
    u_statistic_variance: float = 0.0,
) -> float:
    """The mean squared error of asking all pairs, with Laplace noise.

    `4 / (n (n - 1) eps_0**2)` and the variance of the U-statistic, `eps_0` being the privacy
    parameter of one of the n - 1 reports of a user. By advanced composition it is, for small eps,
    about `eps / sqrt(2 n ln(1/delta))`, and the error `8 ln(1/delta) / (n eps**2)`: the paper's
    O(ln(1/delta) / (n eps**2)).

    Formal guarantees:
      Exact for Laplace noise on the real line, given the users with `u_statistic_variance` 0, and
      for independent users with that of their distribution, `2 (2 (n - 2) zeta_1 + zeta_2) / (n (n
      - 1))`. A bound for `jaxdp.trusted.AllPairs`, which cuts the ends of the noise.

    Args:
      num_users: n, at least 2.
      epsilon: privacy parameter of a user, > 0.
      delta: of approximate privacy, in (0, 1).
      method: of composition; as in `jaxdp.accounting.split_epsilon`.
      u_statistic_variance: of sampling, >= 0.

    Returns:
      The mean squared error.

    Raises:
      ValueError: an argument is out of range.

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), section 5.
    """
    n = check_int("num_users", num_users, low=2)
    delta = check_real("delta", delta, low=0.0, high=BELOW_ONE, open_ends=False)
    _check_slack(delta, method)
    one = split_epsilon(epsilon, n - 1, delta, method)
    drawn = check_real("u_statistic_variance", u_statistic_variance, low=0.0, open_ends=False)
    # Laplace noise of scale 1 / eps_0 has the variance 2 / eps_0**2, over n (n - 1) / 2 pairs.
    return 4 / (n * (n - 1) * one**2) + drawn


def _check_slack(delta: float, method: str) -> None:
    if isinstance(method, str) and method == "advanced" and delta == 0:
        raise ValueError("delta must be > 0 for method = 'advanced', got 0.")
