"""How many users the factorization mechanisms need, and how many any additive noise needs."""

import math

import numpy as np
from jax.typing import ArrayLike

from .._spec import check_choice, check_epsilon, check_real
from ._approx import gamma2_approx
from ._gamma2 import gamma2, gamma_f
from ._inputs import check_matrix

_MAX_GROUP = 10_000


def _one(matrix: ArrayLike):
    dense = check_matrix(matrix)
    if dense.ndim != 2:
        raise ValueError(f"matrix must have shape [m, k], got {dense.shape}.")
    return dense


def local_upper_bound(
    matrix: ArrayLike, variance: float, error: float, *, tol: float = 1e-3
) -> float:
    """Users with which the approximate factorization mechanism reaches a root mean squared error.

    User x sends a randomized R_x; the mean of the reports is multiplied by Lᵀ, W̃ = Lᵀ·R.

    Formal guarantees:
      If the randomizer of unit vectors is unbiased with variance at most `variance` in every
      direction, every query has mean squared error at most α² + γ2(W; α)²·variance/n on every data
      set. The result is the least n over α = 0 and a geometric grid of α < error.

    Args:
      matrix: float[m, k], the workload W.
      variance: of the randomizer, per user and direction, for vectors of norm at most 1, > 0.
      error: root mean squared error of each query to reach, > 0.
      tol: relative gap of the factorizations.

    Returns:
      The number of users, a float.

    Example:
      >>> from jaxdp import factorization, workloads
      >>> users = factorization.local_upper_bound(workloads.identity(4), variance=6.33, error=0.1)
      >>> print(round(users))  # 633 without a bias
      627

    References:
      Edmonds, Nikolov, Ullman (2020), Theorem 10.
    """
    dense = _one(matrix)
    variance = check_epsilon(variance, "variance")
    error = check_epsilon(error, "error")
    alphas = [0.0, *(error * 2.0**-i for i in np.arange(0.5, 5.0, 0.5))]
    norms = [float(gamma2_approx(dense, alpha, tol=tol).upper) for alpha in alphas]
    sizes = [g**2 * variance / (error**2 - a**2) for g, a in zip(norms, alphas, strict=True)]
    return min(sizes)


def _noise_floor(epsilon: float, delta: float) -> float:
    """The least variance of (ε, δ)-private additive noise, in units of the squared shift.

    m users shift the answer by m·w with mε and δ·(e^{mε} − 1)/(e^ε − 1), so the total variation
    distance t of noise and shifted noise has 1 − t ≥ 2·(1 − δ_m)/(e^{mε} + 1); and a noise of
    variance v has t ≥ 1 − 4·v/(m·w)² by Chebyshev's inequality.
    """
    best = 0.0
    for m in range(1, _MAX_GROUP):
        if m * epsilon > 30:
            break
        group = delta * math.expm1(m * epsilon) / math.expm1(epsilon)
        best = max(best, m**2 * (1 - group) / (2 * (math.exp(m * epsilon) + 1)))
    return best


def central_lower_bound(
    matrix: ArrayLike, epsilon: float, delta: float, error: float, *, norm: str = "gamma_f"
) -> float:
    """Users below which no data-independent central mechanism answers (W, −W) up to `error`.

    Data-independent mechanisms add noise of a fixed law to the exact answers of the symmetric
    workload (W, −W). The error is the root of the mean over the queries of their mean squared
    errors (`"gamma_f"`), or of the largest of these (`"gamma2"`).

    Formal guarantees:
      In every direction u the noise has variance at least c·max_x (2·uᵀW_x)²/n², c an explicit
      function of ε and δ. So A = Σ^(−1/2)·W has columns of norm at most 1/(2·√c), Σ the
      covariance of n times the noise, and W = Σ^(1/2)·A proves n ≥ 2·√c·γ_F(W)/error: Theorem 28
      with its constant. For ε ≤ 1 and small δ, c is about 0.24/ε².

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
      2063

    References:
      Edmonds, Nikolov, Ullman (2020), Lemmas 26, 27 and Theorem 28.
    """
    dense = _one(matrix)
    epsilon, error = check_epsilon(epsilon), check_epsilon(error, "error")
    delta = check_real("delta", delta, low=0.0, high=1.0, open_ends=False)
    check_choice("norm", norm, ("gamma_f", "gamma2"))
    bound = (gamma_f if norm == "gamma_f" else gamma2)(dense).lower
    return 2 * math.sqrt(_noise_floor(epsilon, delta)) * float(bound) / error


def central_upper_bound(
    matrix: ArrayLike, noise_multiplier: float, error: float, *, norm: str = "gamma_f"
) -> float:
    """Users with which the central factorization mechanism reaches `error`.

    Formal guarantees:
      Replacing one user moves the n·R·h that gets Gaussian noise by at most twice the largest
      column norm of R, so with `noise_multiplier` times that as its standard deviation the errors
      are at most 2·noise_multiplier·γ_F(W)/n in root mean square over the queries (`"gamma_f"`),
      and 2·noise_multiplier·γ2(W)/n for each of them (`"gamma2"`).

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
      16799

    References:
      Edmonds, Nikolov, Ullman (2020), Section 2.5.
    """
    dense = _one(matrix)
    multiplier = check_epsilon(noise_multiplier, "noise_multiplier")
    error = check_epsilon(error, "error")
    check_choice("norm", norm, ("gamma_f", "gamma2"))
    value = (gamma_f if norm == "gamma_f" else gamma2)(dense).upper
    return 2 * multiplier * float(value) / error
