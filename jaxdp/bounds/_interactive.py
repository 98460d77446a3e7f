"""Bounds on interactive and non-interactive estimates of pairs: Theorems 23 and 24 of Ghazi et al.

The paper's Omega and O hide constants that decide at which sizes interaction provably helps. Here
they are explicit. Lower bounds for non-interactive protocols are by `factorization.HardLines`.
"""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._queries import check_workload
from .._spec import check_choice, check_epsilon, check_int, check_real, within_float64
from ..factorization import HardLines, hard_lines
from ..pairwise import PairKernel, ThreeRound
from ..workloads import Operator

_SHARES = ((0.02, 0.02), (0.05, 0.05), (0.1, 0.15), (0.2, 0.3), (0.3, 0.35))
_RANGE = (1e-40, 1e40)  # of gamma_2, of which float32 holds the root, the length of a vector
_MAX_RANK = 2**20  # of factors: the largest dimension of a report
_REDUCTION = 2.5  # (W h)_j = 2 Q(x and j) - Q(x) / 2 - W_jj / 2, Q of 2 n and of n users


@within_float64
def hard_queries_mse(separation: float, spread: float, num_users: int, epsilon: float) -> float:
    """The least worst mean squared error of linear queries with given hard distributions.

    As n grows it is `0.61 (d / spread)**2 (2 / (e**epsilon - 1))**2 / n`, d the separation.

    Formal guarantees:
      A proven bound for every non-interactive protocol: on the largest mean squared error, over the
      queries and over populations of independent users, about the population's answers. See
      `factorization.HardLines.error`.

    Args:
      separation: of the answers, as in `factorization.HardDistributions`; >= 0.
      spread: the same; > 0.
      num_users: n, at least 1.
      epsilon: privacy parameter, > 0.

    Returns:
      The bound.

    References:
      Edmonds, Nikolov, Ullman (2020), Section 3; the constant is derived here.
    """
    d = check_real("separation", separation, low=0.0, open_ends=False)
    spread = check_real("spread", spread, low=0.0)
    n = check_int("num_users", num_users, low=1)
    if d == 0:
        return 0.0
    return HardLines.between(d, spread).error(n, epsilon, power=2)


@within_float64
def linear_queries_lower_mse(
    matrix: ArrayLike | Operator, num_users: int, epsilon: float, *, tol: float = 1e-3
) -> float:
    """A lower bound on the error of non-interactive linear queries: Theorem 23 with constants.

    The best over the lines of `factorization.hard_lines`. As n grows it is `0.61 gamma_2(W - u
    1^T)**2 / (n sinh(epsilon / 2)**2)`, u the best shift.

    Formal guarantees:
      As `hard_queries_mse`; about the population's answers. A protocol with the mean squared errors
      r**2 for given users has at most `(r + w / (2 sqrt(n)))**2`, w the largest range of a query.

    Edge cases:
      ==================================  ====================================================
      every query is constant             0
      ==================================  ====================================================

    Args:
      matrix: float[m, k], a query a row.
      num_users: n, at least 1.
      epsilon: privacy parameter, > 0.
      tol: relative gap of the dual witnesses; a larger one weakens the bound.

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import linear_queries_lower_mse
      >>> from jaxdp.workloads import prefix
      >>> round(10**6 * linear_queries_lower_mse(prefix(8), 10**6, 0.1), 1)
      202.8

    References:
      Ghazi et al. (2023), Theorem 23.
    """
    n, epsilon = check_int("num_users", num_users, low=1), check_epsilon(epsilon)
    dense = check_workload(matrix, "matrix").values
    lines = hard_lines(dense, tol=tol)
    return max((line.error(n, epsilon, power=2) for line in lines), default=0.0)


@within_float64
def quadratic_form_lower_mse(linear: float, norm: float, num_users: int) -> float:
    """The error of non-interactive quadratic forms, from that of linear queries: Theorem 14.

    `(max(r - |W| / sqrt(n), 0) / 2.5)**2`, with r**2 a lower bound for the queries W at *twice* the
    epsilon.

    Formal guarantees:
      Of a family of non-interactive epsilon-LDP protocols, one for n and one for 2 n users, at
      least one has a worst mean squared error, over given users, of at least the bound: with n
      further users who hold j, `(W h)_j = 2 Q_2n - Q_n / 2 - W_jj / 2`, whose error is at most
      2.5 times the larger of the two errors.

    Args:
      linear: r**2, such as `linear_queries_lower_mse(W, n, 2 epsilon)`, >= 0.
      norm: `|W|`, the largest absolute value of an entry, >= 0.
      num_users: n, at least 1.

    Returns:
      The bound.

    References:
      Ghazi et al. (2023), Theorems 6 and 14, with constants.
    """
    linear = check_real("linear", linear, low=0.0, open_ends=False)
    norm = check_real("norm", norm, low=0.0, open_ends=False)
    n = check_int("num_users", num_users, low=1)
    return (max(math.sqrt(linear) - norm / math.sqrt(n), 0.0) / _REDUCTION) ** 2


@within_float64
def three_round_mse(
    norm: float,
    gamma2: float,
    num_values: int,
    num_users: int,
    epsilon: float,
    *,
    rank: int | None = None,
    variant: str = "paper",
    shares: tuple[float, float, float] = (0.2, 0.3, 0.5),
) -> float:
    """The largest mean squared error of `ThreeRound`, for given users: Theorem 24 with constants.

    "paper": `(sqrt(17 |W|**2 v / n + s**2 C**2 off / n) + sqrt(lost))**2`, with v the worst
    variance of `Laplace` at epsilon / 4 (below `128 / epsilon**2`, with which the paper has 2176),
    `C**2 = gamma_2`, s**2 the variance of an entry of a report of the unit ball at epsilon / 4,
    `off = min(l C**2 s**2 / n, C**2 sqrt(2 s'**2 log(2 k) / n))` the error of mu, and `lost` what
    clipping takes, exponentially small in `n |W|**2 / gamma_2**2`.
    "tuned": `c**2 (2 |W| + sqrt(8 v (1 + log(2 k))))**2 / n_3` with `v = s'**2 C**2 / n_2`, and
    terms of second order.

    Formal guarantees:
      A proven bound on every data set, for every n and epsilon, and not only above the paper's
      threshold for n.

    Args:
      norm: `|W|`, the largest absolute value of an entry, > 0; of "tuned", of W minus a constant.
      gamma2: the norm of the signed factorization in use, 1e-40 to 1e40; the same.
      num_values: k, at least 2.
      num_users: n, at least 4.
      epsilon: privacy parameter.
      rank: l, of the factors, at most 2**20; k if None.
      variant: "paper" or "tuned".
      shares: of the users in each round ("tuned").

    Returns:
      The bound.

    Example:
      >>> from jaxdp.bounds import three_round_mse
      >>> n = 10**9
      >>> round(n * three_round_mse(1.0, 10.0, 100, n, 1.0))
      1215
      >>> round(n * three_round_mse(1.0, 10.0, 100, n, 1.0, variant="tuned"), 1)
      45.9

    References:
      Ghazi et al. (2023), Theorem 24 (a more precise Theorem 8).
    """
    norm = check_real("norm", norm, low=0.0)
    gamma2 = check_real("gamma2", gamma2, low=_RANGE[0], high=_RANGE[1])
    k = check_int("num_values", num_values, low=2)
    n = check_int("num_users", num_users, low=4)
    dim = k if rank is None else check_int("rank", rank, low=1, high=_MAX_RANK)
    if dim > _MAX_RANK:
        raise ValueError(
            f"rank must be given, and at most 2**20, where num_values is beyond it, got {k}: "
            "vectors have no more dimensions."
        )
    epsilon = check_epsilon(epsilon)
    check_choice("variant", variant, ("paper", "tuned"))
    groups = shares if variant == "tuned" else None
    return ThreeRound.error_bound(norm, math.sqrt(gamma2), k, n, epsilon, dim, groups)


@dataclasses.dataclass(frozen=True)
class Separation:
    """Where three rounds provably beat every non-interactive protocol.

    Attributes:
      num_users: the smallest n found; None if there is none up to the limit.
      lower: the bound for non-interactive protocols for n or 2 n users.
      upper: that of three rounds for n users.
      shares: of the users in each of the three rounds.
      norm: `|W|` as used, without subtracting a constant.
      gamma2: of the factorization in use.
      separation: of the hard distributions.
      spread: the same.
    """

    num_users: int | None
    lower: float
    upper: float
    shares: tuple[float, float, float]
    norm: float
    gamma2: float
    separation: float
    spread: float


@within_float64
def rounds_separation(matrix: ArrayLike, epsilon: float, *, max_users: float = 1e15) -> Separation:
    """The smallest n at which three rounds provably win on a quadratic form: Section C.1.

    Both bounds come from one eigendecomposition `W = V diag(x) V^T`. Upper: `three_round_mse` of
    "tuned", the best of a few shares, with the factors `diag(|x|)**(1/2) V^T`, whose norm is the
    largest diagonal entry of `|W|` = `V diag(|x|) V^T`. Lower: `quadratic_form_lower_mse` of hard
    distributions from the rows of `V diag(sgn x) V^T` minus their means, positive and negative
    parts; their spread is at most the spectral norm of the matrix of differences, over the square
    root of the share of rows in use. For random signs, both norms are about `0.85 sqrt(k)`.

    Three rounds win for n or for 2 n users, whichever a non-interactive protocol is worse at; it is
    so for every larger n up to `max_users` too, as far as bounds at powers of 2**(1/8) tell.

    Args:
      matrix: W, symmetric float[k, k].
      epsilon: privacy parameter; the lower bound is best where it is small, since it counts
        `(e**(2 epsilon) - 1)**2`.
      max_users: where the search ends.

    Returns:
      Separation.

    Raises:
      ValueError: the matrix is not symmetric and finite, or epsilon out of range.

    Example:
      >>> import numpy as np
      >>> from jaxdp.bounds import rounds_separation
      >>> signs = np.sign(np.random.default_rng(0).normal(size=(64, 64)))
      >>> signs = np.triu(signs) + np.triu(signs, 1).T
      >>> print(rounds_separation(signs, 0.1).num_users)  # 64 values are too few
      None

    References:
      Ghazi et al. (2023), Appendix C.1, with every constant.
    """
    dense, epsilon = PairKernel.from_matrix(matrix).weights.values, check_epsilon(epsilon)
    k = len(dense)
    values, vectors = np.linalg.eigh(dense)
    size = float(np.abs(values).max())
    if size == 0:
        return Separation(None, 0.0, 0.0, (0.2, 0.3, 0.5), 0.0, 0.0, 0.0, 0.0)
    used = np.abs(values) > 1e-9 * size
    factor, values = vectors[:, used], values[used]
    gamma = float(np.max(factor**2 @ np.abs(values)))
    if not _RANGE[0] < gamma < _RANGE[1]:
        raise ValueError(
            f"matrix must have a gamma_2 within {_RANGE}, got {gamma:.3g} for its factors; "
            "multiply it by a number."
        )
    norm = float(np.abs(dense).max())
    # <W, V diag(sgn x) V^T> = sum |x|, the largest product with a matrix of spectral norm 1
    separation, spread = _row_differences(dense, (factor * np.sign(values)) @ factor.T)

    @functools.cache
    def bounds(n: int) -> tuple[float, float, tuple[float, float, float]]:
        linear = hard_queries_mse(separation, spread, n, 2 * epsilon)
        lower = quadratic_form_lower_mse(linear, norm, n)
        options = []
        for a, b in _SHARES:
            shares, radius = (a, b, 1 - a - b), math.sqrt(gamma)
            upper = ThreeRound.error_bound(norm, radius, k, n, epsilon, len(values), shares)
            options.append((upper, shares))
        return lower, *min(options)

    max_users = check_real("max_users", max_users, low=2.0**11, high=1e18, open_ends=False)
    grid = [math.ceil(2.0 ** (i / 8)) for i in range(88, math.floor(8 * math.log2(max_users)) + 1)]
    last = None  # the first grid point from which on three rounds win
    for i in reversed(range(len(grid))):
        lower, upper, _ = bounds(grid[i])
        if lower <= upper:
            break
        last = i
    least = None if last is None else grid[last]
    if last:
        low, least = grid[last - 1], grid[last]
        while least - low > 1:
            middle = (low + least) // 2
            lower, upper, _ = bounds(middle)
            low, least = (low, middle) if lower > upper else (middle, least)
    lower, upper, shares = bounds(grid[-1] if least is None else least)
    return Separation(least, lower, upper, shares, norm, gamma, separation, spread)


def _row_differences(
    dense: Float[np.ndarray, "k k"], witness: Float[np.ndarray, "k k"]
) -> tuple[float, float]:
    """The separation and the spread of the distributions that the rows of a witness define."""
    centred = witness - witness.mean(axis=1, keepdims=True)
    sums = np.abs(centred).sum(axis=1)
    useful = sums > 1e-9 * sums.max() if sums.max() > 1e-12 else np.zeros(len(sums), bool)
    if not useful.any():
        return 0.0, 1.0
    # Positive and negative parts have equal sums: each row is a difference of distributions.
    differences = 2 * centred[useful] / sums[useful, None]
    answers = np.sum(dense[useful] * differences, axis=1)
    # |f| <= 1 in every entry has an L2 norm of at most sqrt(k), and rows are averaged.
    spread = np.linalg.norm(differences, 2) * math.sqrt(len(dense) / useful.sum())
    return max(float(answers.min()), 0.0), float(spread)
