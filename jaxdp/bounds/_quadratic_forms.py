"""Bounds on the error of non-interactive protocols for quadratic forms, with explicit constants.

The target is `h^T W h` for the normalised histogram h of n users with k values, or the U-statistic.
s stands for the variance of `PrivUnitG` on the unit ball, in every direction; it is about
`6.33` at epsilon = 1, and proportional to `epsilon**-2` for small epsilon.
"""

import math
from typing import Literal

import numpy as np
from jax.typing import ArrayLike

from .._spec import (
    check_choice,
    check_epsilon,
    check_int,
    check_items,
    check_real,
    within_float64,
)
from ..factorization import hard_lines
from ..pairwise import PairKernel
from ..randomizers import PrivUnitG
from ._u_statistics import quantization_error


@within_float64
def quadratic_form_mse(
    norm: float,
    rank: int,
    num_users: int,
    epsilon: float,
    *,
    alpha: float = 0.0,
    num_reports: int = 1,
) -> float:
    """The largest mean squared error of a quadratic form by vectors of a given dimension.

    One report of the signed factor at epsilon, `W = L^T D L` with D = diag(+-1), U-form:
    `alpha**2 + gamma**2 (4 s / n + 2 l s**2 / (n (n - 1)))`. Two reports at epsilon / 2, of factors
    `W = L^T R`, V-form, with s of epsilon / 2: `alpha**2 + gamma**2 (2 s / n + l s**2 / n**2)`.

    Formal guarantees:
      Proven bounds on every data set. The paper has the second in O notation. At small epsilon s
      falls by 4 from epsilon / 2 to epsilon, so that the first has half the leading term and an
      eighth of the other.

    Args:
      norm: gamma, the product of the largest column norms of the factors, >= 0; a constant may have
        been subtracted from W.
      rank: l, the dimension of the factors.
      num_users: n, at least 2.
      epsilon: privacy parameter in [1e-4, 30].
      alpha: the largest error of an entry of W, >= 0.
      num_reports: 1 or 2.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import quadratic_form_mse
      >>> one, two = (quadratic_form_mse(1.0, 8, 10**6, 0.5, num_reports=m) for m in (1, 2))
      >>> round(two / one, 2)
      2.0

    References:
      Ghazi et al. (2023), Lemma 11.
    """
    norm = check_real("norm", norm, low=0.0, open_ends=False)
    alpha = check_real("alpha", alpha, low=0.0, open_ends=False)
    # A rank that is read by the formula alone may be that of any domain.
    rank = check_int("rank", rank, low=1, high=2**1000)
    n = check_int("num_users", num_users, low=2)
    if check_int("num_reports", num_reports, low=1, high=2) == 1:
        s = _report_variance(check_epsilon(epsilon))
        return alpha**2 + norm**2 * (4 * s / n + 2 * rank * s**2 / (n * (n - 1)))
    s = _report_variance(check_epsilon(epsilon) / 2)  # Lemma 11
    return alpha**2 + norm**2 * (2 * s / n + rank * s**2 / n**2)


@within_float64
def non_interactive_mse(
    norm: float, num_values: int, num_users: int, epsilon: float, *, alpha: float = 0.0
) -> float:
    """The largest mean squared error of a quadratic form by one report, at the best dimension.

    The least of `quadratic_form_mse` at rank k, and over b in (0, 1) of
    `(alpha + b gamma)**2 + (1 + b)**2 gamma**2 (4 s / n + 2 l s**2 / (n (n - 1)))` with
    `l = 2 ceil(8 ln(2 k) / (b**2 - 2 b**3 / 3))`.

    Formal guarantees:
      A proven bound on every data set, for every n. Where l is less than k it is of order
      `(ln(k) + 1) gamma**2 s / n`, the theorem's: with W~ the optimum of `gamma2(W~) + alpha sqrt(n
      / s)`, its gamma and alpha give `zeta**2 log(k)`. Rank k always suffices: if `X >= +-W`, then
      `W = X**(1/2) S X**(1/2)` with a contraction S, whose eigenvectors give k rows. For the lower
      rank the halves of the factor with D = 1 and with D = -1 are each multiplied by a Gaussian
      matrix. Of `u + v`, `u - v` and `u`, u and v unit columns, that are k**2 vectors a half; the
      tail `2 exp(-l (b**2 / 4 - b**3 / 6))` of their squared norms leaves a draw that keeps all to
      a relative b, so that entries of W move by no more than b gamma.

    Args:
      norm: gamma_2 of W, or of W~ with entries within alpha of those of W; constants may have been
        subtracted.
      num_values: k, at least 2.
      num_users: n, at least 2.
      epsilon: privacy parameter in [1e-4, 30].
      alpha: the largest error of an entry of W, >= 0.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import non_interactive_mse
      >>> few, many = (non_interactive_mse(1.0, k, 10**5, 1.0) for k in (2**10, 2**60))
      >>> round(few, 5), round(many, 5)  # grows with log k, no more
      (0.00026, 0.00525)

    References:
      Ghazi et al. (2023), Theorem 5 and Lemma 12, whose norm is to be (1 + b) gamma_2.
    """
    norm = check_real("norm", norm, low=0.0, open_ends=False)
    alpha = check_real("alpha", alpha, low=0.0, open_ends=False)
    # Of the domain only the logarithm matters: it may be that of all words of a language.
    k = check_int("num_values", num_values, low=2, high=2**1000)
    n = check_int("num_users", num_users, low=2)
    best = quadratic_form_mse(norm, k, n, epsilon, alpha=alpha)
    for b in np.geomspace(1e-3, 0.999, 400).tolist():
        # 2 k**2 exp(-l (b**2 / 4 - b**3 / 6)) <= 1/2 for each half of l rows: some draw keeps all.
        rank = 2 * math.ceil(8 * math.log(2 * k) / (b**2 - 2 * b**3 / 3))
        if rank < k:
            moved = (alpha + b * norm) ** 2
            best = min(best, moved + quadratic_form_mse((1 + b) * norm, rank, n, epsilon))
    return best


@within_float64
def kendall_mse(num_values: tuple[int, int], num_users: int, epsilon: float) -> float:
    """The largest mean squared error of Kendall's tau_a on a table, by one report.

    `non_interactive_mse` for `gamma = g(A) g(B)`, with g(m) the norm of the signs of i - j on m
    values, `sum_j |cot((2 j - 1) pi / (2 m))| / m`, about `(2 / pi) ln(m)`.

    Formal guarantees:
      A proven bound on every data set. The norm is exact: the matrix of signs becomes circulant
      under a signed shift, and norms of Kronecker products multiply. (The paper bounds the norm of
      the matrix with ones on the diagonal, which is another statistic where ties are possible.)

    Args:
      num_values: (A, B), the numbers of values of the coordinates, 2 to 2**24 each.
      num_users: n, at least 2.
      epsilon: privacy parameter in [1e-4, 30].

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import kendall_mse
      >>> round(kendall_mse((10, 10), 10**6, 1.0), 5)
      0.0004

    References:
      Ghazi et al. (2023), Corollary 7.
    """
    sizes = check_items("num_values", num_values, "a pair of integers (A, B)")
    if len(sizes) != 2:
        raise ValueError(f"num_values must be a pair of integers (A, B), got {num_values!r}.")
    # The norm is a sum over the values, and the table has the product of the two of them.
    a, b = (check_int("num_values", m, low=2, high=2**24) for m in sizes)
    return non_interactive_mse(_sign_norm(a) * _sign_norm(b), a * b, num_users, epsilon)


@within_float64
def bilinear_auc_mse(
    num_scores: int, num_negatives: int, num_positives: int, epsilon: float
) -> float:
    """The largest mean squared error of the AUC as a quadratic form, class sizes being known.

    `AUC = 1/2 + T / (4 n- n+)` with T the sum over ordered pairs of the product of the signs of the
    differences of scores and of labels, a quadratic form with `gamma = g(d)`; see `kendall_mse`. So
    it is `non_interactive_mse` of T times `(n (n - 1) / (4 n- n+))**2`: for classes of half the
    users each, at most 1.

    Formal guarantees:
      A proven bound on every data set, labels private but their numbers public; a tie counts 1/2.
      With public labels there are better protocols.

    Args:
      num_scores: d, at least 2.
      num_negatives: n-, at least 1.
      num_positives: n+, at least 1.
      epsilon: privacy parameter in [1e-4, 30].

    Returns:
      The bound.

    References:
      Ghazi et al. (2023), Corollary 7.
    """
    d = check_int("num_scores", num_scores, low=2, high=2**24)
    negatives = check_int("num_negatives", num_negatives, low=1)
    positives = check_int("num_positives", num_positives, low=1)
    n = negatives + positives
    scale = n * (n - 1) / (4 * negatives * positives)  # AUC = 1/2 + scale T, T a U-statistic
    return scale**2 * non_interactive_mse(_sign_norm(d), 2 * d, n, epsilon)


@within_float64
def gini_diversity_mse(num_values: int, num_users: int, epsilon: float) -> float:
    """The largest mean squared error of Gini's diversity index, by one report.

    `non_interactive_mse` for `gamma = 1 - 1/k`, that of `1 1^T - I` minus the constant `1 - 1/k`.

    Formal guarantees:
      A proven bound on every data set. (The paper's norm is 2.)

    Args:
      num_values: k, at least 2.
      num_users: n, at least 2.
      epsilon: privacy parameter in [1e-4, 30].

    Returns:
      The bound.

    References:
      Ghazi et al. (2023), Corollary 7.
    """
    k = check_int("num_values", num_values, low=2)
    return non_interactive_mse(1 - 1 / k, k, num_users, epsilon)


@within_float64
def lipschitz_mse(
    lipschitz: float, num_users: int, epsilon: float, *, num_bins: int | None = None
) -> float:
    """The largest mean squared error of a U-statistic of an L-Lipschitz kernel on [0, 1].

    `L**2 / k**2 + non_interactive_mse(L, k, n, epsilon)`, for bins of equal size with the midpoint
    rule.

    Formal guarantees:
      A proven bound on every data set, and of order `L**2 s / n`: with about `(n**2 / s**2)**(1/3)`
      bins, neither the quantisation nor the second-order noise matters. The paper's log(n) comes
      from n**2 bins and is not needed. The norm is at most L: with `t_m(j) = +-1/2` for j above m
      or not, a kernel g on k values that changes by at most L / k from one to the next is
      `g(i, j) = (g(i, 1) + g(i, k)) / 2 + sum_m (g(i, m + 1) - g(i, m)) t_m(j)`. The norm of the
      sum is at most `L (k - 1) / (2 k)`, and that of the rest, which depends on i alone, minus a
      constant, is too. Averages over bins, and midpoints, change by at most L / k as well.

    Args:
      lipschitz: L, of the kernel in each argument, >= 0.
      num_users: n, at least 2.
      epsilon: privacy parameter in [1e-4, 30].
      num_bins: k, at least 2; None for the best power of two.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import lipschitz_mse
      >>> few, many = (lipschitz_mse(1.0, n, 1.0) for n in (10**6, 10**8))
      >>> round(few / many)  # no logarithm
      101

    References:
      Ghazi et al. (2023), Corollaries 7 and 16, Lemma 17.
    """
    lipschitz = check_real("lipschitz", lipschitz, low=0.0, open_ends=False)
    if num_bins is None:
        choices = [2**j for j in range(1, 60)]
    else:
        choices = [check_int("num_bins", num_bins, low=2)]
    return min(
        quantization_error(k, lipschitz=lipschitz)
        + non_interactive_mse(lipschitz, k, num_users, epsilon)
        for k in choices
    )


@within_float64
def quadratic_form_lower_bound(
    matrix: ArrayLike,
    num_users: int,
    epsilon: float,
    *,
    form: Literal["u", "v"] = "v",
    tol: float = 1e-3,
) -> float:
    """A mean squared error that every non-interactive private protocol has on some data set.

    It comes from linear queries: give m of n users a histogram x, and let the analyst simulate the
    others, who all hold v, or whose values are drawn uniformly. The difference of the two estimates
    is that of the answers `(W x)_v` and of their mean over v, times `2 m (n - m) / n**2`. So the
    reports of m users at the full epsilon answer the queries `W' = W - 1 u^T`, u the mean row, with
    a root mean squared error of `a n**2 / (m (n - m))`, where a is that of the protocol. (The paper
    runs two protocols at epsilon / 2 each; Theorem 14 is `QueriesFromPairs`.)

    Formal guarantees:
      A proven lower bound for every epsilon > 0 and n >= 3, all constants included:
      `(m (n - m) / n**2 (sqrt(b) - w / (2 sqrt(m))))**2`, b the best bound for m users of W' over
      `factorization.hard_lines`, and w the largest range of a row of W': the answers of the m users
      are those of their population up to a standard
      error of `w / (2 sqrt(m))`. m is n / 3, where `(n - m) sqrt(m)` is largest. For small epsilon
      it is nearly 4 times `quadratic_form_lower_mse`, and holds for n itself.

    Edge cases:
      ===============================  ===================================================
      W' = 0, as for constant kernels  0: the answer may be known
      nothing is proven                0, as for small norms where users' sampling matters
      ===============================  ===================================================

    Args:
      matrix: float[k, k], W, symmetric.
      num_users: n, at least 3.
      epsilon: privacy parameter, > 0.
      form: "v" for `h^T W h`, "u" for the U-statistic.
      tol: relative gap of the dual witnesses; a larger one weakens the bound.

    Returns:
      The bound on the mean squared error.

    Example:
      >>> from jaxdp.bounds import quadratic_form_lower_bound
      >>> import numpy as np
      >>> signs = np.array([[1, 1], [1, -1]])
      >>> parities = np.kron(signs, np.kron(signs, signs))
      >>> bound = quadratic_form_lower_bound(parities, num_users=1000, epsilon=0.1)
      >>> round(bound, 4)
      0.0373

    References:
      Ghazi et al. (2023), Theorem 6.
    """
    weights = PairKernel.from_matrix(matrix).weights.values
    n, epsilon = check_int("num_users", num_users, low=3), check_epsilon(epsilon)
    check_choice("form", form, ("u", "v"))
    m = max(1, round(n / 3))  # where (n - m) sqrt(m) is largest
    # Two estimates of error a each make an answer of error 2 a n**2 / (2 m (n - m)).
    part = m * (n - m) / (n * n if form == "v" else n * (n - 1))
    queries = weights - weights.mean(axis=0)
    if np.abs(queries).max() <= 1e-12 * np.abs(weights).max():
        return 0.0
    # The standard error of an answer of m users about their population is at most w / (2 sqrt(m)).
    sampling = float(np.ptp(queries, axis=1).max()) / (2 * math.sqrt(m))
    lines = hard_lines(queries, tol=tol)
    linear = max((line.error(m, epsilon, power=2) for line in lines), default=0.0)
    return max(part * (math.sqrt(linear) - sampling), 0.0) ** 2


def _report_variance(epsilon: float) -> float:
    """The variance s of a report of the unit ball, in every direction."""
    return PrivUnitG(1, epsilon).worst_case_variance(1)


def _sign_norm(m: int) -> float:
    """gamma_2 of the signs of i - j on m values."""
    # |cot| of these are the singular values of the negacyclic matrix of signs, over m their mean.
    angles = (2 * np.arange(1, m + 1) - 1) * math.pi / (2 * m)
    return float(np.abs(1 / np.tan(angles)).sum() / m)
