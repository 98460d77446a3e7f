"""How many users the factorization mechanisms need, and how many any additive noise needs."""

import math

import numpy as np
from jax.typing import ArrayLike

from .._spec import check_bool, check_choice, check_epsilon, check_real, within_float64
from ._approx import gamma2_approx, gamma_f_approx
from ._gamma2 import gamma2, gamma_f
from ._inputs import one_matrix

_MAX_GROUP = 10_000
_CENTRE_STEPS = 300  # to the centre of a ball: its radius is within 1 % or so


@within_float64
def local_upper_bound(
    matrix: ArrayLike,
    variance: float,
    error: float,
    *,
    norm: str = "gamma2",
    population: bool = False,
    tol: float = 1e-3,
) -> float:
    """Users with which the approximate factorization mechanism reaches a root mean squared error.

    User x sends a randomized R_x; the mean of the reports is multiplied by Lᵀ, W̃ = Lᵀ·R, and the
    constants u that were subtracted from the queries beforehand are added back. The error is the
    largest root mean squared error of a query (`"gamma2"`), or the root of the mean over the
    queries of their mean squared errors (`"gamma_f"`). It is that of the answers of the users, or
    of the population that they are independent draws from.

    Formal guarantees:
      If the randomizer of unit vectors is unbiased with variance at most `variance` in every
      direction, every query has mean squared error at most α² + γ2(W − u·1ᵀ; α)²·variance/n on
      every data set, and their mean is at most that with γ_F. A population's answers add the
      variance of W̃_x, for x a user, over n: at most a quarter of the squared range of a query, or
      the squared radius of a ball that holds the columns of W̃, over m. The result is the least n
      over α = 0 and a geometric grid of α < error, with the best u for α = 0.

    Args:
      matrix: float[m, k], the workload W.
      variance: of the randomizer, per user and direction, for vectors of norm at most 1, > 0.
      error: root mean squared error to reach, > 0.
      norm: `"gamma2"` or `"gamma_f"`.
      population: whether answers are a population's, as for `local_lower_bound`.
      tol: relative gap of the factorizations.

    Returns:
      The number of users, a float.

    Example:
      >>> from jaxdp import factorization, workloads
      >>> users = factorization.local_upper_bound(workloads.identity(4), variance=6.33, error=0.1)
      >>> print(round(users))
      350
      >>> users = factorization.local_upper_bound(
      ...     workloads.identity(4), variance=6.33, error=0.1, norm="gamma_f", population=True
      ... )
      >>> print(round(users))
      368

    References:
      Edmonds, Nikolov, Ullman (2020), Theorem 10.
    """
    dense = one_matrix(matrix)
    variance = check_epsilon(variance, "variance")
    error = check_epsilon(error, "error")
    check_choice("norm", norm, ("gamma2", "gamma_f"))
    population = check_bool("population", population)
    solve, approximate = (gamma2, gamma2_approx) if norm == "gamma2" else (gamma_f, gamma_f_approx)
    exact = solve(dense, shift=True, tol=tol)
    centred = dense - np.asarray(exact.shift)[:, None]
    alphas = error * 2.0 ** -np.arange(0.5, 5.0, 0.5)
    found = [exact, *(approximate(centred, float(alpha), tol=tol) for alpha in alphas)]
    needed = []
    for alpha, result in zip([0.0, *alphas], found, strict=True):
        square = float(result.upper) ** 2 * variance
        if population:
            square += _spread(np.asarray(result.left).T @ np.asarray(result.right), norm)
        # The least n for which α² + square/n is at most the squared error.
        needed.append(square / (error**2 - alpha**2))
    return float(min(needed))


def _spread(answers: np.ndarray, norm: str) -> float:
    """A bound on the variance of a user's answers, their largest or mean one, in any population."""
    if norm == "gamma2":
        return float(np.ptp(answers, axis=1).max()) ** 2 / 4
    # The sum of the variances is at most the largest squared distance from any centre. Steps to the
    # farthest column lead to the best one (Bădoiu and Clarkson 2003).
    centre, least = answers.mean(axis=1), math.inf
    for step in range(1, _CENTRE_STEPS):
        distances = np.sum((answers - centre[:, None]) ** 2, axis=0)
        least = min(least, float(distances.max()))
        centre = centre + (answers[:, np.argmax(distances)] - centre) / (step + 1)
    return least / len(answers)


def _noise_floor(epsilon: float, delta: float) -> float:
    """The least variance of (ε, δ)-private additive noise, in units of the squared shift.

    m users shift the answer by m·w with mε and δ·(e^{mε} − 1)/(e^ε − 1), so the total variation
    distance t of noise and shifted noise has 1 − t ≥ 2·(1 − δ_m)/(e^{mε} + 1); and a noise of
    variance v has t ≥ 1 − 4·v/(m·w)² by Chebyshev's inequality.
    """
    best = 0.0
    for m in range(1, _MAX_GROUP):
        # m²·e^(−mε) is largest near mε = 2 and negligible from here on.
        if m * epsilon > 30:
            break
        group = delta * math.expm1(m * epsilon) / math.expm1(epsilon)
        best = max(best, m**2 * (1 - group) / (2 * (math.exp(m * epsilon) + 1)))
    return best


def _reach(matrix: np.ndarray) -> float:
    """A b such that points A·e_x with A = Σ^(−1/2)·W of diameter 1 lie in a ball of radius 1/b.

    By Jung's theorem b² = 2·(d + 1)/d in d dimensions. If every column of W has its mirror image
    among the columns (Definition 16, up to a shift), so has every point, and b = 2.
    """
    centre = matrix.max(axis=1) + matrix.min(axis=1)
    mirrored = centre[:, None] - matrix
    # Bytes tell −0.0 from 0.0, sums with 0.0 do not.
    if {c.tobytes() for c in (mirrored + 0.0).T} == {c.tobytes() for c in (matrix + 0.0).T}:
        return 2.0
    dimension = min(matrix.shape[0], matrix.shape[1] - 1)
    return math.sqrt(2 * (dimension + 1) / dimension)


@within_float64
def central_lower_bound(
    matrix: ArrayLike, epsilon: float, delta: float, error: float, *, norm: str = "gamma_f"
) -> float:
    """Users below which no data-independent central mechanism answers W up to `error`.

    Data-independent mechanisms add noise to the exact answers whose law, times the number n of
    users, is fixed. Data sets are neighbours if one user differs. The error is the root of the mean
    over the queries of their mean squared errors (`"gamma_f"`), or of the largest of these
    (`"gamma2"`).

    Formal guarantees:
      With Σ the covariance of n times the noise, uᵀΣu ≥ c·(uᵀ(W_x − W_x'))² for all x, x' and every
      direction u, c an explicit function of ε and δ. So the columns of Σ^(−1/2)·W have distances of
      at most 1/√c and lie in a ball of radius 1/(b·√c), b between √2 and 2, and W − v·1ᵀ =
      Σ^(1/2)·(Σ^(−1/2)·W − z·1ᵀ) proves n ≥ b·√c·min_v γ_F(W − v·1ᵀ)/error: Theorem 28 with its
      constant, for any W. For ε ≤ 1 and small δ, c is about 0.24/ε². Symmetric workloads have b =
      2, for example `symmetrize(W)`, where v = 0.

      For mechanisms of any kind, where err(m) is the error with m users, max over m of m·err(m) is
      at least `error` times the bound (Theorem 30, for any W and without its factor 2 of ε):
      answered on top of a random data set, uniform on [0, N]^k and subtracted afterwards, the noise
      is private for the same ε and δ, has at most that error, and as N → ∞ its law does not depend
      on the data.

    Edge cases:
      ==========================  ===========================
      one value, or equal values  0: the answers are constant
      ==========================  ===========================

    Args:
      matrix: float[m, k], the workload W.
      epsilon: ε > 0.
      delta: δ in [0, 1).
      error: > 0.
      norm: `"gamma_f"` or `"gamma2"`.

    Returns:
      The bound, a float.

    Example:
      >>> from jaxdp import factorization, workloads
      >>> print(round(factorization.central_lower_bound(workloads.prefix(64), 0.1, 1e-9, 0.01)))
      1122

    References:
      Edmonds, Nikolov, Ullman (2020), Lemmas 26, 27, 29 and Theorems 28, 30.
    """
    dense = one_matrix(matrix)
    epsilon, error = check_epsilon(epsilon), check_epsilon(error, "error")
    delta = check_real("delta", delta, low=0.0, high=1.0, open_ends=False)
    check_choice("norm", norm, ("gamma_f", "gamma2"))
    if dense.shape[1] == 1:
        return 0.0
    bound = (gamma_f if norm == "gamma_f" else gamma2)(dense, shift=True).lower
    return _reach(dense) * math.sqrt(_noise_floor(epsilon, delta)) * float(bound) / error


@within_float64
def central_upper_bound(
    matrix: ArrayLike, noise_multiplier: float, error: float, *, norm: str = "gamma_f"
) -> float:
    """Users with which the central factorization mechanism reaches `error`.

    Formal guarantees:
      Let W' = Lᵀ·R be W minus the best constants of its rows, which are added back to the answers.
      Replacing one user moves the n·R·h that gets Gaussian noise by at most twice the largest
      column norm of R, so with `noise_multiplier` times that as its standard deviation the errors
      are at most 2·noise_multiplier·γ_F(W')/n in root mean square over the queries (`"gamma_f"`),
      and 2·noise_multiplier·γ2(W')/n for each of them (`"gamma2"`).

    Args:
      matrix: float[m, k], the workload W.
      noise_multiplier: standard deviation of the Gaussian mechanism at sensitivity 1, > 0.
      error: > 0.
      norm: `"gamma_f"` or `"gamma2"`.

    Returns:
      The number of users, a float.

    Example:
      >>> from jaxdp import factorization, workloads
      >>> print(round(factorization.central_upper_bound(workloads.prefix(64), 40.0, 0.01)))
      12819

    References:
      Edmonds, Nikolov, Ullman (2020), Section 2.5.
    """
    dense = one_matrix(matrix)
    multiplier = check_epsilon(noise_multiplier, "noise_multiplier")
    error = check_epsilon(error, "error")
    check_choice("norm", norm, ("gamma_f", "gamma2"))
    value = (gamma_f if norm == "gamma_f" else gamma2)(dense, shift=True).upper
    return 2 * multiplier * float(value) / error
