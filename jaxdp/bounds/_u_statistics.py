"""Bounds of Bell, Bellet, Gascón, Kulkarni (2020) for U-statistics by k-ary randomized response.

All are for a kernel with values in [0, 1]; for another range multiply the variance by its square.
`beta = k / (k + e**epsilon - 1)` is the probability that a report is drawn at random.
"""

import math

from .._spec import check_bool, check_epsilon, check_int, check_real, within_float64


@within_float64
def u_statistic_variance(
    num_users: int, num_values: int, epsilon: float, *, simple: bool = False
) -> float:
    """The largest variance of the estimated U-statistic, sampling included.

    `1 / (n (1 - beta)**2) + (1 + beta)**2 / (2 n (n - 1) (1 - beta)**4)`, or simpler, and loose for
    large epsilon, `(1 + k/eps)**2 / n + (1 + k/eps)**4 / (2 n (n - 1))`.

    Formal guarantees:
      A proven bound for independent users of any distribution, and for given users. The printed
      proof is right. A kernel centred under the law of the reports varies at most as much as the
      kernel itself, 1/4, so that the factor (1 + beta)**2 could be left out.

      So is the simple one, for every epsilon: `1 / (1 - beta) = 1 + k / (e**eps - 1) <= 1 + k /
      eps`, and the factor (1 + beta)**2 is not needed. The paper has n**2 for n (n - 1), as an
      approximation for small epsilon; it is of order `k**2 / (n eps**2)`.

    Args:
      num_users: n, at least 2.
      num_values: k, at least 2.
      epsilon: privacy parameter, > 0.
      simple: whether to return the simpler bound.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import u_statistic_variance
      >>> round(u_statistic_variance(num_users=10_000, num_values=10, epsilon=1.0), 6)
      0.004688

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Theorem 1 (Corollary 2), and Corollary 3.
    """
    n = check_int("num_users", num_users, low=2)
    k = check_int("num_values", num_values, low=2)
    epsilon = check_epsilon(epsilon)
    if check_bool("simple", simple):
        factor = (1 + k / epsilon) ** 2  # at least (1 - beta)**-2, since e**eps - 1 >= eps
        return factor / n + factor**2 / (2 * n * (n - 1))
    truthful = math.expm1(epsilon) / (k + math.expm1(epsilon))  # 1 - beta
    return 1 / (n * truthful**2) + (2 - truthful) ** 2 / (2 * n * (n - 1) * truthful**4)


@within_float64
def quantization_error(
    num_bins: int, *, lipschitz: float | None = None, density_lipschitz: float | None = None
) -> float:
    """The largest squared error of cutting [0, 1] into equal bins.

    `L**2 / k**2` for an L-Lipschitz kernel with the midpoint rule; and for any kernel in [0, 1]
    with the average rule, where users have an L-Lipschitz density, `4 L**2 / k**2 + 4 L**4 / k**4`.

    Formal guarantees:
      Proven bounds. The first is attained in the limit: f(x, y) = L (x + y), users near one end of
      a bin. Within a pair of bins f ranges over at most 2 L / k, so the half-range is L / k. (The
      paper prints `L**2 / (2 k**2)`, which that example violates.)

      The square of the paper's (19) has a middle term that is not printed, but the second bound
      holds in spite of it: with g the density and g_i its mean over bin i, the error is at most
      `sum_ij int int |g(x) g(y) - g_i g_j| / 2 <= L / k`, since `|f - 1/2|` is at most 1/2. So even
      `L**2 / k**2` is a bound.

    Args:
      num_bins: k, at least 1.
      lipschitz: L, of the kernel in each argument, >= 0.
      density_lipschitz: L, of the density of the users' values on [0, 1], >= 0; exactly one of the
        two must be given.

    Returns:
      The bound.

    Raises:
      ValueError: an argument is out of range, or not exactly one constant is given.

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Lemma 2, with its constant corrected, and Lemma 3.
    """
    if (lipschitz is None) == (density_lipschitz is None):
        raise ValueError(
            "exactly one of lipschitz and density_lipschitz must be given, got "
            f"lipschitz = {lipschitz!r} and density_lipschitz = {density_lipschitz!r}."
        )
    k = check_int("num_bins", num_bins, low=1)
    if lipschitz is not None:
        return (check_real("lipschitz", lipschitz, low=0.0, open_ends=False) / k) ** 2
    slope = check_real("density_lipschitz", density_lipschitz, low=0.0, open_ends=False) / k
    # The square of the paper's (19), but for its middle term
    return 4 * slope**2 + 4 * slope**4


@within_float64
def quantized_u_statistic_mse(
    num_users: int,
    num_bins: int,
    epsilon: float,
    *,
    lipschitz: float | None = None,
    density_lipschitz: float | None = None,
) -> float:
    """The largest mean squared error about the population's value, for users in [0, 1].

    Formal guarantees:
      A proven bound, `u_statistic_variance` plus the quantisation error: for an L-Lipschitz kernel
      under the midpoint rule, or for users with an L-Lipschitz density under the average rule.

    Args:
      num_users: n, at least 2.
      num_bins: k, at least 2.
      epsilon: privacy parameter, > 0.
      lipschitz: L, of the kernel in each argument.
      density_lipschitz: L, of the density; exactly one of the two must be given.

    Returns:
      The bound.

    Raises:
      ValueError: an argument is out of range, or not exactly one constant is given.

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Theorem 2, with the constant of Lemma 2 corrected.
    """
    check_int("num_bins", num_bins, low=2)
    lost = quantization_error(num_bins, lipschitz=lipschitz, density_lipschitz=density_lipschitz)
    return u_statistic_variance(num_users, num_bins, epsilon) + lost


@within_float64
def optimal_num_bins(
    num_users: int,
    epsilon: float,
    *,
    lipschitz: float | None = None,
    density_lipschitz: float | None = None,
) -> int:
    """The number of bins that minimises `quantized_u_statistic_mse`.

    The bound is convex in k. For small epsilon and large n its minimiser grows as
    `n**(1/4) sqrt(L epsilon)` and its minimum falls as `2 L / (epsilon sqrt(n))`. (The paper prints
    `L / sqrt(n epsilon)`, which is smaller than what its own balance gives when epsilon < 1.)

    Args:
      num_users: n, at least 2.
      epsilon: privacy parameter, > 0.
      lipschitz: L, of the kernel in each argument.
      density_lipschitz: L, of the density; exactly one of the two must be given.

    Returns:
      k, at least 2.

    Example:
      >>> from jaxdp.bounds import optimal_num_bins
      >>> optimal_num_bins(num_users=1_000_000, epsilon=1.0, lipschitz=1.0)
      41

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Corollary 1.
    """

    def rises(k: int) -> bool:
        here, after = (
            quantized_u_statistic_mse(
                num_users, j, epsilon, lipschitz=lipschitz, density_lipschitz=density_lipschitz
            )
            for j in (k, k + 1)
        )
        return after >= here

    # The bound is convex in k, so bisection finds the first k from which on it rises.
    high = 2
    while not rises(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rises(middle) else (middle, high)
    return max(high, 2)
