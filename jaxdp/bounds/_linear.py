"""Bounds on the error of protocols for linear queries, with explicit constants.

The bounds of Bassily (2019) are on the L2 error of all answers together, the root of its mean
square, for independent users of any distribution p and every workload whose columns have an L2 norm
of at most r. They share one step. Let y = a + z be a raw estimate of a = A p with noise of mean 0,
the users' sampling included, and P its projection on a convex set that contains a. Then
`|P - a|**2 <= <z, P - a>`, and `E <z, a> = 0`; so

  `E |P - a|**2 <= min(E |z|**2, E max_w <z, w>, (2 r)**2)`

with w over the vertices. The paper has `4 max |<z, w>|` (Corollary 2.3), and `sqrt(v log J)` where
the largest of J numbers of variance v is only known to be at most `sqrt(2 v log J)`.
"""

import math

from .._spec import check_epsilon, check_int, check_real, within_float64
from ..factorization import distribution_lower_error
from ..randomizers import MeanRandomizer, PrivUnitG, Tail


@within_float64
def linear_queries_lower_error(
    num_queries: int, num_values: int, num_users: int, epsilon: float, *, radius: float = 1.0
) -> float:
    """The L2 error below which epsilon-local privacy leaves no answers from columns of norm r.

    For the hardest d queries of J values whose columns have an L2 norm of at most r, and the
    hardest distribution: `r sqrt(d / n) / sinh(epsilon / 2)` for many users, and about `0.38 r (n
    sinh(epsilon / 2)**2)**(-1/4)` for few. The error is the root of the mean squared L2 error.

    Formal guarantees:
      Every sequentially interactive epsilon-LDP protocol with so many users has at least this
      error for the queries whose columns are the corners of a regular simplex, c = min(J, d + 1) of
      them: then the error is `r sqrt(c / (c - 1))` times that of the shares of c values.

    Args:
      num_queries: d, at least 1.
      num_values: J, at least 1; for 1 the bound is 0.
      num_users: n, at least 1.
      epsilon: privacy parameter, > 0.
      radius: r > 0, the largest L2 norm of a column.

    Returns:
      The bound, at most r.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.bounds import linear_queries_lower_error
      >>> for d in (16, 1024):
      ...     print(round(linear_queries_lower_error(d, 2**16, 10**6, epsilon=1.0), 4))
      0.0076
      0.0184

    References:
      Duchi, Jordan and Wainwright (2013), Proposition 3, with constants; in Bassily (2019), Table
      1.
    """
    d = check_int("num_queries", num_queries, low=1)
    corners = min(check_int("num_values", num_values, low=1), d + 1)
    radius = check_real("radius", radius, low=0.0)
    shares = distribution_lower_error(corners, num_users, epsilon)
    return radius * math.sqrt(corners / max(corners - 1, 1)) * shares


@within_float64
def mean_queries_error(randomizer: MeanRandomizer, num_users: int) -> float:
    """The largest L2 error of answers from private columns, the mean of the reports.

    `sqrt((d a + max(b + 1, 0) r**2) / n)`, the covariance of the report of x being `a I + b x x^T`
    and r the largest norm of a column; about `r sqrt(d / (n epsilon**2))` for pure privacy.

    Formal guarantees:
      A proven bound for independent users of any distribution, their sampling included.

    Args:
      randomizer: of the columns, vectors of d queries and of L2 norm at most r.
      num_users: n, at least 1.

    Returns:
      The bound.

    Raises:
      ValueError: a number is out of range, or the covariance of the reports has no such form.

    Example:
      >>> from jaxdp.bounds import mean_queries_error
      >>> from jaxdp.randomizers import L2Ball
      >>> round(mean_queries_error(L2Ball(dim=64, epsilon=1.0), 10**6), 4)
      0.0216

    References:
      Duchi, Jordan and Wainwright (2013), Proposition 3, for `L2Ball`; in Bassily (2019), Table 1.
    """
    if not isinstance(randomizer, MeanRandomizer):
        raise TypeError(f"randomizer must be one of vectors, got {randomizer!r}.")
    n = check_int("num_users", num_users, low=1)
    form, shape = randomizer.covariance_form(), randomizer.value_shape
    if form is None or len(shape) != 1:
        raise ValueError(
            "randomizer must be one of vectors with reports of a known covariance, such as L2Ball "
            f"or PrivUnitG, got {randomizer!r}."
        )
    isotropic, along = form
    # Of a report about A p: a, b x x^T, and the spread of the columns, at most the mean of |x|**2.
    square = shape[0] * isotropic + max(along + 1, 0.0) * randomizer.largest_value**2
    return math.sqrt(square / n)


@within_float64
def projected_queries_error(randomizer: MeanRandomizer, num_values: int, num_users: int) -> float:
    """The largest L2 error of answers from private columns, projected on the polytope or the hull.

    `min((r sqrt(2 log(2 J) (sigma**2 + r**2) / n))**(1/2), sqrt((d sigma**2 + r**2) / n), 2 r)` for
    normal noise; for others sigma**2 is the variance of a report, and a tail that is not quite
    sub-Gaussian adds a term in log(2 J) / n.

    Formal guarantees:
      A proven bound for every n; r**2 beside sigma**2 is for the sampling of the users.

      * `Gaussian`, for `linear.GaussianQueries`: with the printed sigma and without sampling it is
        `r (4 log(2 J) log(2 / delta) / (n epsilon**2))**(1/4)`, where the paper has 32 log(J) and
        drops r once; but that sigma does not give (epsilon, delta)-LDP.
      * `GaussianRejection`, for the repaired `linear.RejectionQueries`: the printed algorithm is
        not private, and its bound `r (280 log(J) log(n) / (n epsilon**2))**(1/4)`, for epsilon <= 1
        and n >= 120, rests on a sigma that is 4 times too small for its cut: the estimate is biased
        by 22 % at n = 1e4.

    Args:
      randomizer: of the columns, vectors of d queries and of L2 norm at most r.
      num_values: J, at least 1.
      num_users: n, at least 1.

    Returns:
      The bound.

    Raises:
      ValueError: a number is out of range, or no tail of the randomizer is known.

    Example:
      >>> from jaxdp.bounds import projected_queries_error
      >>> from jaxdp.randomizers import Gaussian
      >>> few, many = (Gaussian(d, epsilon=1.0, delta=1e-6) for d in (10**3, 10**5))
      >>> for randomizer in (few, many):  # hardly depends on the number of queries
      ...     print(round(projected_queries_error(randomizer, 1000, 10**6), 3))
      0.182
      0.183

    References:
      Bassily (2019), Theorems 3.2 and 3.4, the constants corrected and improved.
    """
    k = check_int("num_values", num_values, low=1)
    n = check_int("num_users", num_users, low=1)
    raw, tail = mean_queries_error(randomizer, n), randomizer.tail()
    if tail is None:
        raise ValueError(
            "randomizer must be one of vectors with a known tail, such as Gaussian or PrivUnitG, "
            f"got {randomizer!r}."
        )
    radius = randomizer.largest_value
    # <a_v, w> is between -r**2 and r**2 for |w| <= r: Hoeffding's lemma
    noise = Tail(tail.variance + radius**2, tail.scale).of_mean(n)
    return min(math.sqrt(noise.largest(2 * k, radius)), raw, 2 * radius)


@within_float64
def projected_hadamard_error(num_values: int, num_users: int, epsilon: float) -> float:
    """The largest L2 error of `ProjectedHadamard`.

    `min((2 c**2 log(J) / n)**(1/4), sqrt(c**2 J / n), sqrt(2))` with
    `c = (e**epsilon + 1) / (e**epsilon - 1)`

    Formal guarantees:
      A proven bound. A raw share is a mean of numbers +-c, so sub-Gaussian with variance c**2 / n
      (the paper has 4 c**2), about the share of the distribution. (The paper has 256 for 2.)

    Args:
      num_values: J, at least 2.
      num_users: n, at least 1.
      epsilon: privacy parameter, > 0.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import projected_hadamard_error
      >>> round(projected_hadamard_error(2**16, 10**6, 1.0), 4)
      0.101

    References:
      Bassily (2019), Fact 4.1 and Theorem 4.2, their constants improved.
    """
    k = check_int("num_values", num_values, low=2)
    n = check_int("num_users", num_users, low=1)
    square = 1 / math.tanh(check_epsilon(epsilon) / 2) ** 2  # c**2
    return math.sqrt(min(Tail(square / n, 0.0).largest(k), k * square / n, 2.0))


@within_float64
def projection_mechanism_mse(
    num_values: int, num_users: int, epsilon: float, *, radius: float = 1.0
) -> float:
    """The largest mean squared L2 error of the projection mechanism with `PrivUnitG`.

    `C**2 sqrt(2 s log(2 k) / n)`, with s the sub-Gaussian variance of a report of the unit ball: a
    little more than `1 / gamma**2`, its variance.

    Formal guarantees:
      A proven bound on every data set, for the projection on the polytope of the columns and their
      negatives, and on their hull.

    Args:
      num_values: k, at least 1.
      num_users: n, at least 1.
      epsilon: privacy parameter in [1e-4, 30].
      radius: C > 0, the largest L2 norm of a column.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import projection_mechanism_mse
      >>> round(projection_mechanism_mse(1000, 10**6, 1.0), 5)
      0.01062

    References:
      Ghazi et al. (2023), Theorem 19, with its constant.
    """
    k = check_int("num_values", num_values, low=1)
    n = check_int("num_users", num_users, low=1)
    # The tail of a report in one direction is the same in every dimension.
    tail = PrivUnitG(1, epsilon, radius).tail()
    return tail.of_mean(n).largest(2 * k, radius)


@within_float64
def factorization_mse(norm: float, num_users: int, epsilon: float, *, alpha: float = 0.0) -> float:
    """The largest mean squared error of a query by the factorization mechanism with `PrivUnitG`.

    `alpha**2 + gamma_2**2 sigma**2 / n`, sigma**2 the variance of a report of the unit ball

    Formal guarantees:
      A proven bound on every data set, and attained for alpha = 0.

    Args:
      norm: gamma_2(W; alpha), or the product of the norms of the factors in use, >= 0; constants
        may have been subtracted from the rows of W.
      num_users: n, at least 1.
      epsilon: privacy parameter in [1e-4, 30].
      alpha: the largest error of an entry of W, >= 0.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import factorization_mse
      >>> round(factorization_mse(1.18666, 10**4, 1.0), 7)
      0.0008914

    References:
      Edmonds, Nikolov, Ullman (2020), Theorem 10; Ghazi et al. (2023), Theorem 4.
    """
    norm = check_real("norm", norm, low=0.0, open_ends=False)
    alpha = check_real("alpha", alpha, low=0.0, open_ends=False)
    n = check_int("num_users", num_users, low=1)
    return alpha**2 + norm**2 * PrivUnitG(1, epsilon).worst_case_variance(n)
