"""Hard distributions for local privacy from a dual witness, and the sample sizes that they prove.

The argument of Edmonds, Nikolov and Ullman (2020), Section 3, with every constant kept. A workload
W is made symmetric, (W, −W); a dual witness U of γ2(W; α) becomes pairs of distributions λ_v, μ_v
that the queries tell apart but that ε-private reports do not.
"""

import dataclasses
import math

import numpy as np
from jax.typing import ArrayLike

from .._spec import check_epsilon
from ._approx import gamma2_approx
from ._dual import gamma2_dual
from ._inputs import check_matrix
from ._result import Factorization


@dataclasses.dataclass(frozen=True)
class HardDistributions:
    """Pairs of distributions on (x, +) and (x, −) for each query, with a prior on the queries.

    Attributes:
      null: float64[m, 2·k]: λ_v, on which every symmetric query has the answer 0.
      signal: float64[m, 2·k]: μ_v, on which query v has the v-th of `answers`.
      prior: float64[m]: π.
      answers: float64[m]: q_v(μ_v).
      spread: a proven upper bound on max over ‖f‖_∞ ≤ 1 of √(E_{v∼π} (E_λv f − E_μv f)²), the
        norm ‖M‖_{∞→L2(π)} of M = λ − μ; infinite before `reweight`.
    """

    null: np.ndarray
    signal: np.ndarray
    prior: np.ndarray
    answers: np.ndarray
    spread: float

    @property
    def separation(self) -> float:
        """The least answer q_v(μ_v) over the support of the prior."""
        return float(self.answers[self.prior > 0].min())

    def min_users(self, epsilon: float, error: float) -> float:
        """Users below which no ε-private protocol has expected maximal error `error`.

        Protocols are non-interactive. The error is that of the population answers of (W, −W) for
        i.i.d. users, in expectation over the protocol and the users, for the worst population.

        Formal guarantees:
          Let β = 8·error/separation ≤ 1 and replace μ_v by (1 − β)·λ_v + β·μ_v. By Markov's
          inequality such a protocol tells null from signal with error probability 1/4 each way, so
          by Pinsker's inequality the relative entropy of its transcripts is at least 1/2. For one
          user and output y let m(y) = min_x p(y given x). Then p is within m(y)·(e^ε − 1)/2 of a
          constant, the χ² divergence is at most Σ_y m(y)·((e^ε − 1)/2)²·(M_v f_y)² with ‖f_y‖_∞ ≤
          1, and joint convexity gives relative entropy at most n·((e^ε − 1)/2·β·spread)² over all
          users (Lemma 11 with its constant). Hence n ≥ (separation/spread)² / (32·error²·(e^ε −
          1)²).

        Args:
          epsilon: ε > 0.
          error: > 0.

        Returns:
          The bound, a float; 0 where `error` > separation/8 and nothing is proven.
        """
        epsilon, error = check_epsilon(epsilon), check_epsilon(error, "error")
        if 8 * error > self.separation:
            return 0.0
        return (self.separation / (self.spread * math.expm1(epsilon) * error)) ** 2 / 32


def symmetrize(matrix: ArrayLike) -> np.ndarray:
    """The symmetric workload (W, −W) on two signed copies of the domain.

    Args:
      matrix: float[m, k].

    Returns:
      float64[m, 2·k]; γ2 and γ2(·; α) are those of W (Lemma 18).

    Example:
      >>> from jaxdp import factorization
      >>> factorization.symmetrize([[1.0, 0.5]])
      array([[ 1. ,  0.5, -1. , -0.5]])

    References:
      Edmonds, Nikolov, Ullman (2020), Definition 16 and Lemma 18.
    """
    dense = check_matrix(matrix)
    return np.concatenate([dense, -dense], axis=-1)


def hard_distributions(matrix: ArrayLike, result: Factorization) -> HardDistributions:
    """The distributions λ_v, μ_v, π that a dual witness of γ2(W; α) defines (eqs. 4 to 7).

    With ‖U‖₁ = 1: π(v) = Σ_x abs(U_vx), λ_v is abs(U_vx)/(2·π(v)) on both signed copies of x and
    μ_v puts all of abs(U_vx)/π(v) on the copy whose sign is that of U_vx.

    Formal guarantees:
      q(λ_v) = 0 for every query of (W, −W), and E_{v∼π} q_v(μ_v) = ⟨W, U⟩/‖U‖₁.

    Args:
      matrix: float[m, k], the workload W.
      result: `gamma2_approx(W, alpha)`, or any Factorization of W with a dual witness that is not
        0.

    Returns:
      HardDistributions; queries without weight in U get the uniform λ_v = μ_v and prior 0.

    Raises:
      ValueError: the witness is 0 or has another shape than W.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> W = np.tril(np.ones((4, 4)))
      >>> hard = factorization.hard_distributions(W, factorization.gamma2_approx(W, 0.1))
      >>> bool(abs(factorization.symmetrize(W) @ hard.null.T).max() < 1e-12)
      True

    References:
      Edmonds, Nikolov, Ullman (2020), Section 3.5.
    """
    dense = check_matrix(matrix)
    witness = np.asarray(result.dual, np.float64)
    if witness.shape != dense.shape or dense.ndim != 2:
        raise ValueError(
            f"result must be of one matrix of shape {dense.shape}, its dual has {witness.shape}."
        )
    mass = np.abs(witness).sum()
    if mass == 0:
        raise ValueError("result must have a dual witness that is not 0: is alpha >= max |matrix|?")
    size = np.abs(witness) / mass
    prior = size.sum(axis=1)
    k = dense.shape[1]
    row = np.divide(size, prior[:, None], out=np.full_like(size, 1 / k), where=prior[:, None] > 0)
    null = np.concatenate([row, row], axis=1) / 2
    positive = row * (witness > 0)
    signal = np.concatenate([positive, row * (witness < 0)], axis=1)
    signal = np.where(prior[:, None] > 0, signal, null)
    return HardDistributions(null, signal, prior, _answers(dense, signal), math.inf)


def _answers(matrix: ArrayLike, signal: np.ndarray) -> np.ndarray:
    return np.sum(symmetrize(matrix) * signal, axis=1)


def restrict(matrix: ArrayLike, hard: HardDistributions) -> HardDistributions:
    """Keeps the queries with large answers, so that each separates null from signal (Lemma 19).

    Among the sets S_t = {v: q_v(μ_v) ≥ t} the one with the largest π(S)·t is kept; the prior is
    conditioned on it and μ_v is mixed with λ_v, π(S)·μ_v + (1 − π(S))·λ_v, so that the matrix of
    π(v)·(λ_v − μ_v) is that before with other rows set to 0.

    Formal guarantees:
      All sets of exponential binning (Lemma 20) are among the S_t, hence for every β in (0, max q]
      `separation` ≥ (E_π q_v(μ_v) − β)/(1 + ln(max q/β)), and q(λ_v) = 0 stays.

    Args:
      matrix: float[m, k], the workload W.
      hard: of `hard_distributions`.

    Returns:
      HardDistributions.

    References:
      Edmonds, Nikolov, Ullman (2020), Lemmas 19 and 20.
    """
    order = np.argsort(-hard.answers, kind="stable")
    reached = np.cumsum(hard.prior[order])
    values = np.where(hard.prior[order] > 0, reached * hard.answers[order], -np.inf)
    last = int(np.argmax(values))
    kept = np.zeros(len(order), bool)
    kept[order[: last + 1]] = True
    kept &= hard.prior > 0
    share = min(hard.prior[kept].sum(), 1.0)
    prior = np.where(kept, hard.prior, 0.0) / share
    signal = share * hard.signal + (1 - share) * hard.null
    return HardDistributions(hard.null, signal, prior, _answers(matrix, signal), math.inf)


def reweight(hard: HardDistributions) -> HardDistributions:
    """Changes the prior so that no bounded function tells null from signal on average (Lemma 15).

    With Ũ_vx = π(v)·(λ_v(x) − μ_v(x)) and Grothendieck's factorization Ũ = diag(√a)·Ū·diag(√b), ‖Ū‖
    = γ2*(Ũ), the rows M_v = λ_v − μ_v satisfy Σ_v (π(v)²/a_v)·(M_v·f)² ≤ γ2*(Ũ)² for every ‖f‖_∞ ≤
    1. The new prior is proportional to π(v)²/a_v.

    Formal guarantees:
      Σ_v π(v)²/a_v ≥ (Σ_v π(v))² = 1 by Cauchy and Schwarz, hence `spread` ≤ γ2*(Ũ): the paper's
      Lemma 15 has 4·γ2*(Ũ). The support does not grow.

    Args:
      hard: of `restrict`.

    Returns:
      HardDistributions with a finite `spread`, an upper bound that uses the upper bound of γ2*.

    References:
      Edmonds, Nikolov, Ullman (2020), Lemmas 13, 15 and 21.
    """
    gap = hard.prior[:, None] * (hard.null - hard.signal)
    # The two signed copies of a column are negatives of each other: γ2* is twice that of one.
    half = gap[:, : gap.shape[1] // 2]
    norm = gamma2_dual(half)
    raw = hard.prior**2 / np.asarray(norm.row_weights)
    total = raw.sum()
    spread = 2 * float(norm.upper) / math.sqrt(total)
    return dataclasses.replace(hard, prior=raw / total, spread=spread)


def hardest(matrix: ArrayLike, result: Factorization) -> HardDistributions:
    """Lemma 21: `hard_distributions`, then `restrict`, then `reweight`.

    Formal guarantees:
      Every symmetric query is 0 on every λ_v, `separation` is as in `restrict`, and `spread` ≤
      γ2*(U)/‖U‖₁ where U is the witness: 4 times better than the paper's bound.

    Args:
      matrix: float[m, k], the workload W.
      result: `gamma2_approx(W, alpha)`.

    Returns:
      HardDistributions.

    Example:
      >>> import numpy as np
      >>> from jaxdp import factorization
      >>> W = np.tril(np.ones((8, 8)))
      >>> hard = factorization.hardest(W, factorization.gamma2_approx(W, 0.1))
      >>> bool(hard.min_users(epsilon=0.5, error=0.02) > 1)
      True

    References:
      Edmonds, Nikolov, Ullman (2020), Lemma 21 and Theorem 22.
    """
    return reweight(restrict(matrix, hard_distributions(matrix, result)))


def local_lower_bound(
    matrix: ArrayLike, epsilon: float, error: float, *, tol: float = 1e-3
) -> float:
    """Users that ε-local privacy needs to answer the symmetric workload (W, −W) up to `error`.

    The best `min_users` over the dual witnesses of γ2(W; α) for α = 0 and a geometric grid of α.
    For concept classes (W, −W) is agnostic learning with an estimate of the loss (Section 4 of the
    paper). For W alone the paper's Lemma 17 gives: a protocol with n users, ε and `error` makes one
    for (W, −W) with 3·ε and 4·`error` from max(n, 1/(ε·`error`)²) users.

    Formal guarantees:
      A lower bound, for every ε > 0, on the n of every non-interactive ε-private protocol whose
      expected maximal error on population answers is at most `error`.

    Args:
      matrix: float[m, k], the workload W.
      epsilon: ε > 0.
      error: > 0.
      tol: relative gap of the dual witnesses; a larger one weakens the bound.

    Returns:
      The bound, a float; 0 where nothing is proven.

    Example:
      >>> from jaxdp import factorization, workloads
      >>> bound = factorization.local_lower_bound(workloads.parity(3, 3), epsilon=1.0, error=0.05)
      >>> print(round(bound, 2))
      33.87

    References:
      Edmonds, Nikolov, Ullman (2020), Theorems 22 and 23, Lemma 17.
    """
    dense = check_matrix(matrix)
    if dense.ndim != 2:
        raise ValueError(f"matrix must have shape [m, k], got {dense.shape}.")
    epsilon, error = check_epsilon(epsilon), check_epsilon(error, "error")
    largest = np.abs(dense).max()
    alphas = [0.0, *(error * 2.0**i for i in range(64) if error * 2.0**i < 0.9 * largest)]
    if largest == 0:
        return 0.0
    return max(
        hardest(dense, gamma2_approx(dense, alpha, tol=tol)).min_users(epsilon, error)
        for alpha in alphas
    )
