"""How many users local privacy needs at least, to answer a workload up to an error."""

import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._spec import check_choice, check_epsilon, check_int, within_float64
from ._gamma2 import gamma2, gamma_f
from ._hard_lines import hard_lines, without_row_sums
from ._inputs import one_matrix

_EVENNESS = (0.0, 0.1, 0.3, 0.6, 1.0)  # parts of the prior's mean that are uniform
_LEAST = 1e-6  # share of a value in the prior's mean, for which it is used
# Of the parameters of Dirichlet priors, the least over the 2 at which its information is infinite.
_CONCENTRATIONS = (1.2, 1.5, 2.0, 3.0, 6.0, 12.0, 24.0, 1e2, 1e3, 1e4, 1e5)
_SHARES = 4000  # of the prior between 2/A and 1, each about 0.2 % above the one before


@within_float64
def local_lower_bound(
    matrix: ArrayLike,
    epsilon: float,
    error: float,
    *,
    norm: str = "gamma2",
    power: int = 1,
    tol: float = 1e-3,
) -> float:
    """Users that ε-local privacy needs to answer the workload W up to `error`.

    The error is the expected maximum over the queries of their absolute errors (`"gamma2"`), the
    largest root mean squared error of a query (`"gamma2"` with `power` 2), or the root of the mean
    over the queries of their mean squared errors (`"gamma_f"`): of the answers of a population,
    from i.i.d. users, and of the hardest population. The last two are what `local_upper_bound` with
    `population=True` bounds from above, with the norm of the same name. For agnostic learning with
    an estimate of the loss (Section 4 of the paper) pass `symmetrize(W)`.

    Formal guarantees:
      For `"gamma2"` every non-interactive ε-private protocol with fewer users has a larger error.
      The paper's hard distributions lie on lines P_v(a), one for each query v, on which its answer
      is a constant plus a. Its tests of two of them by the inequalities of Markov and Pinsker are
      replaced by the inequality of Ziv and Zakai and the affinity of the reports, its factor (e^ε −
      1)² by one between 4·sinh²(ε/2) and that, its cutting of the queries into classes of
      similar answers (Lemma 19, a logarithm) by lines of equal answers. As the error goes to 0 the
      bound is 0.39/(κ·error²)·γ2(W − u·1ᵀ)² with κ = sinh²(ε/2), u the best shift. At 0.64 the same
      lines, with normally distributed reports, could be answered: that is the limit of this
      argument, and no more than a factor 1.6 away. It never exceeds what they cost without privacy.
      What is bounded is the largest mean absolute error of a query, which the expected maximum and
      the largest root mean squared error are not below. For the latter `power` 2 proves more: 0.58
      in place of 0.39 for squares (the argument ends at 2 − 2·ln 2 = 0.61); and, as no weighted
      mean of squared errors is above the largest, what `"gamma_f"` proves of the queries
      √(m·p_v)·W_v, p the weights of the rows in the witness of γ2: as the error goes to 0 that is 1
      in place of 0.39, with sequentially interactive protocols included.

      For `"gamma_f"` sequentially interactive protocols are included. By van Trees' inequality with
      a Dirichlet prior of parameters A·q on the populations and the directions U of the dual
      witness of γ_F, n·κ·‖U·D_q^(−1/2)‖² + J ≥ ⟨W, U⟩²/(m·error²), J = (A − 1)·(A − 2)·Σ_vx
      U_vx²/(A·q_x − 2) the information of the prior and κ → sinh²(ε/2) as A → ∞. As the error goes
      to 0 the bound is γ_F(W − u·1ᵀ)²/(κ·error²), which SubsetSelection attains for W = identity
      where e^ε + 1 divides k. It is at most what the same prior needs without privacy.

    Edge cases:
      ===========================  =======================================
      every query is constant      0: the answers are known
      error beyond what is proven  0
      ===========================  =======================================

    Args:
      matrix: float[m, k], the workload W.
      epsilon: ε > 0.
      error: > 0.
      norm: `"gamma2"` or `"gamma_f"`.
      power: for `"gamma2"`: 1, or 2 for the largest root mean squared error of a query.
      tol: relative gap of the dual witnesses; a larger one weakens the bound.

    Returns:
      The bound, a float; 0 where nothing is proven.

    Example:
      >>> from jaxdp import factorization, workloads
      >>> bound = factorization.local_lower_bound(workloads.parity(3, 3), epsilon=1.0, error=0.05)
      >>> print(round(bound))
      2279

    References:
      Edmonds, Nikolov, Ullman (2020), Theorems 22 and 23, with other constants: Lemma 17 is not
      needed. Ziv and Zakai (1969). Gill and Levit (1995) for the inequality of van Trees in many
      dimensions.
    """
    dense = one_matrix(matrix)
    epsilon, error = check_epsilon(epsilon), check_epsilon(error, "error")
    check_choice("norm", norm, ("gamma2", "gamma_f"))
    check_choice("power", power, (1, 2))
    users = [0.0]
    if norm == "gamma2":
        lines = hard_lines(dense, tol=tol)
        users += [line.min_users(epsilon, error, power=power) for line in lines]
        # The largest of squared errors is at least any weighted mean of them.
        weights = np.asarray(gamma2(dense, shift=True, tol=tol).row_weights, np.float64)
        dense = dense * np.sqrt(len(dense) * weights / weights.sum())[:, None]
    if norm == "gamma_f" or power == 2:
        bounds = _in_mean_square(dense, epsilon, tol)
        users += [(gain / error**2 - prior) / told for gain, prior, told in bounds]
    return max(users)


@within_float64
def least_local_rmse(
    matrix: ArrayLike, epsilon: float, num_users: int, *, tol: float = 1e-3
) -> float:
    """The error below which ε-local privacy leaves no answers to the workload W.

    The error is the root of the expected mean squared error of all answers about a population, from
    i.i.d. users, and for the hardest population: what `local_lower_bound` with `"gamma_f"` bounds
    the users for.

    Formal guarantees:
      Every sequentially interactive ε-private protocol with so many users has at least this error.

    Args:
      matrix: float[m, k], the workload W.
      epsilon: ε > 0.
      num_users: n, at least 1.
      tol: relative gap of the dual witness; a larger one weakens the bound.

    Returns:
      The bound, a float; 0 where nothing is proven.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp import factorization, workloads
      >>> bound = factorization.least_local_rmse(workloads.identity(20), 1.0, num_users=10_000)
      >>> print(f"{bound:.4f}")
      0.0126

    References:
      As for `local_lower_bound`.
    """
    dense = one_matrix(matrix)
    epsilon = check_epsilon(epsilon)
    n = check_int("num_users", num_users, low=1)
    bounds = _in_mean_square(dense, epsilon, tol)
    return max((math.sqrt(gain / (prior + n * told)) for gain, prior, told in bounds), default=0.0)


@within_float64
def distribution_lower_error(num_values: int, num_users: int, epsilon: float) -> float:
    """The L2 error below which ε-local privacy leaves no estimate of the shares of k values.

    The error is the root of the expected squared L2 distance of the estimate from the distribution,
    from i.i.d. users, and for the hardest distribution. As n grows it is √(k/n)/sinh(ε/2), and for
    few users about (1/(n·sinh²(ε/2)))^(1/4): then the hardest distributions are on fewer values.

    Formal guarantees:
      Every sequentially interactive ε-private protocol with so many users has at least this error.
      It is that of `least_local_rmse` for W = identity, times √k, without a factorization: the
      witness on any j of the values is I − 11ᵀ/j, whence for a Dirichlet prior of parameters A/j
      the squared error is at least (j − 1)²/(J + n·κ·j), J the information of the prior.

    Args:
      num_values: k, at least 1; for 1 the bound is 0.
      num_users: n, at least 1.
      epsilon: ε > 0.

    Returns:
      The bound, a float, below 1.

    Raises:
      ValueError: an argument is out of range.

    Example:
      >>> from jaxdp.bounds import distribution_lower_error
      >>> print(f"{distribution_lower_error(2**16, 10**6, 1.0):.4f}")
      0.0183

    References:
      As for `local_lower_bound`. The first such bound, without constants, is of Duchi, Jordan and
      Wainwright (2013); in Bassily (2019), Table 1.
    """
    k, n = check_int("num_values", num_values, low=1), check_int("num_users", num_users, low=1)
    epsilon = check_epsilon(epsilon)
    sizes = {min(k, round(2 ** (i / 4))) for i in range(4, 4 * k.bit_length() + 4)} - {1}
    squares = [0.0]
    for j in sizes:
        # All values are alike: one stands for them, with the squares of all.
        bounds = _dirichlet_priors(np.array([j - 1.0]), float(j), np.array([1 / j]), epsilon)
        squares += [(j - 1) ** 2 / (prior + n * told) for prior, told in bounds]
    return math.sqrt(max(squares))


def _in_mean_square(
    matrix: Float[np.ndarray, "m k"], epsilon: float, tol: float
) -> Iterator[tuple[float, float, float]]:
    """Bounds by van Trees' inequality, for Dirichlet priors on more and on fewer values.

    Of n users the mean squared error is at least gain / (prior + n·told).
    """
    result = gamma_f(matrix, shift=True, tol=tol)
    if float(result.upper) == 0:
        return
    weights = np.asarray(result.col_weights, np.float64)
    # The error of one answer in n users is large only for values of about its size or more: for
    # large errors the prior is on the half, the quarter, ... of the values with most weight.
    order, size = np.argsort(-weights, kind="stable"), len(weights)
    while size >= 2:
        values = np.sort(order[:size])
        for evenness in _EVENNESS:
            mean = (1 - evenness) * weights[values] / weights[values].sum() + evenness / size
            directions = without_row_sums(np.asarray(result.dual, np.float64)[:, values], mean)
            if mean.min() < _LEAST or not np.any(directions):
                continue
            gain = float(np.sum(matrix[:, values] * directions) ** 2 / len(matrix))
            norm = float(np.linalg.norm(directions / np.sqrt(mean), 2) ** 2)
            squares = np.sum(directions**2, axis=0)
            for prior, told in _dirichlet_priors(squares, norm, mean, epsilon):
                yield gain, prior, told
        size = -(-size // 2) if size > 2 else 0


def _dirichlet_priors(
    squares: Float[np.ndarray, "k"], norm: float, mean: Float[np.ndarray, "k"], epsilon: float
) -> Iterator[tuple[float, float]]:
    """The information of Dirichlet priors, and what the report of one user adds at most.

    Args:
      squares: of the columns of the directions U.
      norm: ‖U·D_q^(−1/2)‖².
      mean: q, of the priors.
      epsilon: ε.
    """
    t = math.tanh(epsilon / 2)
    for concentration in _CONCENTRATIONS:
        total = 2 * concentration / mean.min()
        prior = (total - 1) * (total - 2) * np.sum(squares / (total * mean - 2))
        # The values themselves have E 1/P_x = (A − 1)/(A·q_x − 1), of which privacy leaves
        # at most tanh²(ε/2): Asoodeh and Zhang (2022).
        direct = t**2 * np.sum(squares * (total - 1) / (total * mean - 1))
        yield float(prior), float(min(_private_information(epsilon, total) * norm, direct))


def _private_information(epsilon: float, total: float) -> float:
    """κ: a report tells at most κ·sup_f ‖U·f‖²/Var_q(f) of a population P ~ Dirichlet(A·q).

    That is E Σ_y ‖U·p_y‖²/⟨P, p_y⟩ with p_y the law of report y. A summand is convex in p_y and
    Σ_y ⟨q, p_y⟩ = 1, so the worst p_y have two values, 1 + t and 1 − t in proportion, t =
    tanh(ε/2). With q-mass β of the former ‖U·p_y‖² ≤ 4·t²·β·(1 − β)·norm, and ⟨P, p_y⟩ = 1 − t +
    2·t·B with B ~ Beta(A·β, A·(1 − β)), where E 1/(x + B) ≤ 1/(x + 1/E(1/B)) since w/(x·w + 1) is
    concave, and 1/E(1/B) = (A·β − 1)/(A − 1).
    """
    t, rest = math.tanh(epsilon / 2), 2 / (math.exp(epsilon) + 1)
    ends = np.geomspace(2 / total, 1.0, _SHARES)  # no value has less than 2/A
    low, high = ends[:-1], ends[1:]
    # β·(1 − β) is largest at 1/2, or at the end nearer to it; the denominators fall with β.
    nearest = np.clip(0.5, low, high)
    inverse = rest + 2 * t * (total * low - 1) / (total - 1)
    return float(np.max(4 * t**2 * nearest * (1 - nearest) / ((rest + 2 * t * low) * inverse)))
