"""Hard distributions for local privacy from a dual witness, and the sample sizes that they prove.

The argument of Edmonds, Nikolov and Ullman (2020), Section 3, with every constant kept. A dual
witness U of γ2(W; α) becomes pairs of distributions λ_v, μ_v that the queries tell apart but that
ε-private reports do not. The paper makes the workload symmetric, (W, −W), for U_v to become a
difference of distributions, and reduces W to that at the price of 3·ε and 4·`error` (Lemma 17). But
a row that sums to 0 is a multiple of such a difference as it is, and rows may be made to: constants
subtracted from the queries change no task. So every bound here is for W itself, without that price.
"""

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from ._dual import gamma2_dual
from ._hard_lines import HardLines, without_row_sums
from ._inputs import check_matrix
from ._result import Factorization


@dataclasses.dataclass(frozen=True)
class HardDistributions:
    """Pairs of distributions for each query, with a prior on the queries.

    Attributes:
      null: float64[m, k] on the values, or float64[m, 2·k] on their signed copies (x, +), (x, −):
        λ_v.
      signal: of the same shape: μ_v.
      prior: float64[m]: π.
      answers: float64[m]: q_v(μ_v) − q_v(λ_v); on signed copies q_v(λ_v) = 0.
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
        """The least of `answers` over the support of the prior."""
        return float(self.answers[self.prior > 0].min())

    def min_users(self, epsilon: float, error: float) -> float:
        """Users below which no ε-private protocol has expected maximal error `error`.

        Protocols are non-interactive. The error is that of the population answers (of W, or of (W,
        −W) on signed copies) for i.i.d. users, in expectation over the protocol and the users, for
        the worst population.

        Formal guarantees:
          Mixed, null and signal make a line of populations on which the answer to v moves by
          `separation`. For one user and output y let m(y) = min_x p(y given x): p is within
          m(y)·(e^ε − 1)/2 of a constant, and the laws of the reports at distance h differ by
          Σ_y m(y)·((e^ε − 1)/2)²·(h/separation·M_v f_y)² in χ², ‖f_y‖_∞ ≤ 1 (Lemma 11 with its
          constant), on average over v by ((e^ε − 1)/2·h/separation·spread)². In place of the
          paper's inequalities of Markov and Pinsker, that of Ziv and Zakai makes of this an error:
          as it goes to 0, n ≥ 0.39·(separation/(spread·error))²·(2/(e^ε − 1))². Nor does n exceed
          what the same line takes without privacy.

        Args:
          epsilon: ε > 0.
          error: > 0.

        Returns:
          The bound, a float; 0 where `error` ≥ separation/2 and nothing is proven.
        """
        return HardLines.between(self.separation, self.spread).min_users(epsilon, error)

    def restrict(self) -> "HardDistributions":
        """Keeps the queries with large answers, so that each separates null from signal (Lemma 19).

        Among the sets S_t = {v: answers_v ≥ t} the one with the largest π(S)·t is kept; the prior
        is conditioned on it and μ_v is mixed with λ_v, π(S)·μ_v + (1 − π(S))·λ_v, so that the
        matrix of π(v)·(λ_v − μ_v) is that before with other rows set to 0.

        Formal guarantees:
          All sets of exponential binning (Lemma 20) are among the S_t, hence for every β in (0, max
          answer] `separation` ≥ (E_π answers − β)/(1 + ln(max answer/β)), and the λ_v stay.

        References:
          Edmonds, Nikolov, Ullman (2020), Lemmas 19 and 20.
        """
        order = np.argsort(-self.answers, kind="stable")
        reached = np.cumsum(self.prior[order])
        values = np.where(self.prior[order] > 0, reached * self.answers[order], -np.inf)
        last = int(np.argmax(values))
        kept = np.zeros(len(order), bool)
        kept[order[: last + 1]] = True
        kept &= self.prior > 0
        share = min(self.prior[kept].sum(), 1.0)
        prior = np.where(kept, self.prior, 0.0) / share
        # Mixing with null scales the difference of each query's answers by the share.
        signal = share * self.signal + (1 - share) * self.null
        return HardDistributions(self.null, signal, prior, share * self.answers, math.inf)

    def reweight(self) -> "HardDistributions":
        """Changes the prior so that no bounded function tells null from signal on average.

        With Ũ_vx = π(v)·(λ_v(x) − μ_v(x)) and Grothendieck's factorization Ũ =
        diag(√a)·Ū·diag(√b), ‖Ū‖ = γ2*(Ũ), the rows M_v = λ_v − μ_v satisfy Σ_v (π(v)²/a_v)·(M_v·f)²
        ≤ γ2*(Ũ)² for every ‖f‖_∞ ≤ 1. The new prior is proportional to π(v)²/a_v.

        Formal guarantees:
          Σ_v π(v)²/a_v ≥ (Σ_v π(v))² = 1 by Cauchy and Schwarz, hence `spread` ≤ γ2*(Ũ): the
          paper's Lemma 15 has 4·γ2*(Ũ). The support does not grow.

        Returns:
          HardDistributions with a finite `spread`, an upper bound that uses the upper bound of γ2*.

        References:
          Edmonds, Nikolov, Ullman (2020), Lemmas 13, 15 and 21.
        """
        gap = self.prior[:, None] * (self.null - self.signal)
        first, second = np.array_split(gap, 2, axis=1)
        copies = 1.0
        if first.shape == second.shape and np.allclose(first, -second, rtol=1e-12, atol=0):
            gap, copies = first, 2.0  # γ2* of (A, −A) is twice that of A, at half the cost
        norm = gamma2_dual(gap)
        raw = self.prior**2 / np.asarray(norm.row_weights)
        total = raw.sum()
        spread = copies * float(norm.upper) / math.sqrt(total)
        return dataclasses.replace(self, prior=raw / total, spread=spread)


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


def hard_distributions(
    matrix: ArrayLike, result: Factorization, *, symmetric: bool = True
) -> HardDistributions:
    """The distributions λ_v, μ_v, π that a dual witness U of γ2(W; α) defines.

    `symmetric` is the paper's construction (eqs. 4 to 7) for (W, −W): with ‖U‖₁ = 1, π(v) = Σ_x
    abs(U_vx), λ_v is abs(U_vx)/(2·π(v)) on both signed copies of x and μ_v puts all of
    abs(U_vx)/π(v) on the copy whose sign is that of U_vx. Otherwise U is replaced by U − (U·1)·cᵀ,
    c its `col_weights`, whose rows sum to 0, and λ_v and μ_v are its negative and its positive part
    on the values themselves.

    Formal guarantees:
      Symmetric: q(λ_v) = 0 for every query of (W, −W), and E_{v∼π} q_v(μ_v) = ⟨W, U⟩/‖U‖₁.
      Otherwise E_{v∼π} (q_v(μ_v) − q_v(λ_v)) = 2·⟨W, U'⟩/‖U'‖₁ with U' as above, and γ2*(U') ≤ 1:
      in the metric of the weights U' is U times a projection.

    Args:
      matrix: float[m, k], the workload W.
      result: `gamma2_approx(W, alpha)`, or any Factorization of W, or of W minus constants of its
        rows, with a dual witness that is not 0.
      symmetric: whether the distributions are for (W, −W) or for W.

    Returns:
      HardDistributions; queries without weight in U get the uniform λ_v = μ_v and prior 0.

    Raises:
      ValueError: the witness is 0 (for W: constant along the rows) or has another shape than W.

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
    if not symmetric:
        witness = without_row_sums(witness, np.asarray(result.col_weights, np.float64))
    if not np.any(witness):
        raise ValueError("result must have a dual witness that is not 0: is alpha >= max |matrix|?")
    size = np.abs(witness) / np.abs(witness).sum()
    positive, negative = size * (witness > 0), size * (witness < 0)
    if symmetric:
        signal = _conditional(np.concatenate([positive, negative], axis=1))
        null = _conditional(np.concatenate([size, size], axis=1))
        dense = symmetrize(dense)
    else:
        signal, null = _conditional(positive), _conditional(negative)
    prior = size.sum(axis=1)
    signal = np.where(prior[:, None] > 0, signal, null)
    return HardDistributions(null, signal, prior, np.sum(dense * (signal - null), axis=1), math.inf)


def _conditional(mass: np.ndarray) -> np.ndarray:
    """Every row over its sum; uniform where that is 0."""
    total = mass.sum(axis=1, keepdims=True)
    uniform = np.full_like(mass, 1 / mass.shape[1])
    return np.divide(mass, total, out=uniform, where=total > 0)


def hardest(
    matrix: ArrayLike, result: Factorization, *, symmetric: bool = True
) -> HardDistributions:
    """Lemma 21: `hard_distributions`, restricted and then reweighted.

    Formal guarantees:
      With U the witness, `spread` ≤ γ2*(U)/‖U‖₁ (4 times better than the paper's bound), every
      query of (W, −W) is 0 on every λ_v and `separation` is as in `restrict`. For W alone, and U'
      the witness with rows that sum to 0, `spread` ≤ 2·γ2*(U')/‖U'‖₁.

    Args:
      matrix: float[m, k], the workload W.
      result: `gamma2_approx(W, alpha)`.
      symmetric: whether the distributions are for (W, −W) or for W.

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
    return hard_distributions(matrix, result, symmetric=symmetric).restrict().reweight()
