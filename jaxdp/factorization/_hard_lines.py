"""Lines of distributions on which an answer moves and private reports hardly do.

The argument behind the lower bounds for non-interactive protocols and single queries. For a query v
let the populations P_v(a) = B_v + a·M_v, |a| ≤ length/2, differ in that answer by a, ⟨W_v, M_v⟩ =
1. With a uniform, an estimate of the answer errs by as much as the tests of P_v(a) against P_v(a +
h) do, at every distance h; and these are tests of n independent ε-private reports. Over the queries
v ~ π the reports differ little on average, because M comes from a dual witness U of γ2.

Everything is explicit, with p, q the weights of U, so that D_p^(−1/2)·U·D_q^(−1/2) has norm 1 and,
for rows of U that sum to 0, ‖D_p^(−1/2)·U·f‖² ≤ Var_q(f). Let X_v = ⟨W_v, U_v⟩/p_v, M_v =
U_v/(p_v·X_v) and π ∝ p·X² =: G·π. Then E_π (M_v·f)² ≤ Var_q(f)/G, and G ≥ ⟨W, U⟩², at best γ2(W)².
"""

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._spec import check_bool, check_choice, check_epsilon, check_real, within_float64
from ._approx import gamma2_approx
from ._gamma2 import gamma2
from ._inputs import check_level, one_matrix
from ._result import Factorization

_BASES = (0.0, 0.25, 0.5, 0.75, 0.9)  # shares of q in the populations
_WIDTHS = (0.5, 0.75, 0.9, 1.0)  # parts of the longest line
_SHARES = (1.0, 0.95, 0.8, 0.6, 0.4, 0.2, 0.05, 0.0)  # of G, kept with the longest lines
_CELLS = np.geomspace(1e-12, 1, 1600)  # of the distances: each 1.7 % above the one before
# Of the approximate norms, in parts of the largest entry. That of a half would take longest, and
# gave the best bound for no workload.
_ALPHAS = 2.0 ** -np.arange(2.0, 6.0)
_BLUR = 1e-9  # of the weights is spread evenly, so that none is 0
_ROUNDING = 1e-14  # of the largest entry: what is left of a witness that sums to 0


@dataclasses.dataclass(frozen=True)
class HardLines:
    """Lines P_v(a) of some queries v and their prior π, with what lower bounds use of them.

    Attributes:
      length: of the shortest of the longest possible lines, the least 2/‖M_v‖₁.
      spread: a proven upper bound on E_π (M_v·f)² / Var_q(f) for every f; where `even` is False, on
        E_π (M_v·f)² for every ‖f‖_∞ ≤ 1.
      mass: E_π ‖M_v‖₁².
      even: whether there is such a q.
    """

    length: float
    spread: float
    mass: float
    even: bool = True

    @classmethod
    def between(cls, separation: float, spread: float) -> "HardLines":
        """The lines between null and signal of `HardDistributions`, by two of their attributes."""
        return cls(separation, (spread / separation) ** 2, (2 / separation) ** 2, even=False)

    @within_float64
    def error(self, num_users: float, epsilon: float, *, power: int = 1) -> float:
        """A lower bound on the error of the hardest of the answers to n users.

        Formal guarantees:
          For every non-interactive ε-private protocol E(error^power) of some answer, for some
          population, is at least the bound. By the inequality of Ziv and Zakai, with a uniform on
          an interval of length ℓ, it is ≥ (power/2)·∫₀^ℓ (h/2)^(power − 1)·(1 − h/ℓ)·(1 − TV(h)) dh
          with TV(h) the distance of the reports of P_v(a) and P_v(a + h), and E_π TV(h) ≤ √(1 −
          exp(−2·n·x(h))), x(h) = `exponents`. The integral is summed from below. With a at the ends
          of an interval of length h it is ≥ h/2·(1 − TV(h)), and ≥ (h/2)²·exp(−2·n·x(h)) for power
          2 since ∫ p·q/(p + q) ≥ (∫ √(p·q))²/2: more, for few users.

        Args:
          num_users: n ≥ 0.
          epsilon: ε > 0.
          power: 1 for the mean absolute error, 2 for the mean squared error.

        Returns:
          The bound, a float.

        References:
          Ziv and Zakai (1969).
        """
        n = check_real("num_users", num_users, low=0.0, open_ends=False)
        check_choice("power", power, (1, 2))
        return max(tests.error(n) for tests in self._tests(check_epsilon(epsilon), power))

    @within_float64
    def min_users(self, epsilon: float, error: float, *, power: int = 1) -> float:
        """The number of users up to which the error of some answer is proven to exceed `error`.

        Args:
          epsilon: ε > 0.
          error: > 0.
          power: 1 for the mean absolute error, 2 for the root mean squared error.
        """
        epsilon, error = check_epsilon(epsilon), check_epsilon(error, "error")
        check_choice("power", power, (1, 2))
        largest, most = error**power, 0.0
        for tests in self._tests(epsilon, power):
            # The bound falls in n: an interval of the n at which it is `largest` is halved.
            if tests.error(most) <= largest:
                continue
            low, high = most, max(2 * most, 1.0)
            while tests.error(high) > largest:
                low, high = high, 2 * high
            while high > low * (1 + 1e-6):
                middle = (low + high) / 2
                if tests.error(middle) > largest:
                    low = middle
                else:
                    high = middle
            most = low
        return most

    @within_float64
    def min_users_to_tell(self, epsilon: float, distance: float, confidence: float) -> float:
        """Number of users below which no protocol distinguishes a = 0 from a = `distance` as often.

        Args:
          epsilon: ε > 0.
          distance: of the answers, > 0.
          confidence: 1 − β: the least probability of a right answer for either of the two, > 1/2.
        """
        epsilon, distance = check_epsilon(epsilon), check_epsilon(distance, "distance")
        confidence = check_real("confidence", confidence, low=0.5, high=1.0)
        needed = -math.log1p(-((2 * confidence - 1) ** 2)) / 2
        reached = [
            needed / float(self.exponents(np.array([distance]), epsilon, base, width)[0])
            for base in self._bases()
            for width in _WIDTHS
            if distance <= self._length(base, width) / 2
        ]
        return max(reached, default=0.0)

    def exponents(
        self, distances: Float[np.ndarray, "h"], epsilon: float, base: float, width: float
    ) -> Float[np.ndarray, "h"]:
        """Upper bounds on −log of the mean affinity Σ √(p·q) of a user's reports.

        Formal guarantees:
          With P_v(a) = η·q + (1 − η)·R_v(a), R_v(a) = abs(M_v)/‖M_v‖₁ + a·M_v/(1 − η) on the part
          `width` of the longest line, a report y with law p_y = c + r·f, ‖f‖_∞ ≤ 1 and r ≤ t·c, t =
          tanh(ε/2), has P_v·p_y ≥ c·(1 − t) + η·r·(1 + ⟨q, f⟩) in the worst case r = t·c, while
          E_π (M_v·p_y)² ≤ r²·spread·(1 − ⟨q, f⟩²). Over all ⟨q, f⟩ the sum over y of
          (M_v·p_y)²/P_v·p_y is on average at most κ·spread, κ = t²/((1 − t)·(1 − t + 2·η·t)):
          between sinh²(ε/2) and (e^ε − 1)²/4. The affinity is 1 − Σ_y (A − √(A² − D²)), A the mean
          and D half the difference of the two laws, whence 1 − affinity ≤ h²/4·κ·spread/(1 + √(1 −
          (D/A)²)).

          By contraction (Asoodeh and Zhang 2022) it is also at most t² times that of the values
          themselves, and by joint concavity at most the total variation distance of the values
          times 1 − 1/cosh(ε/2).
        """
        t, rest = math.tanh(epsilon / 2), 2 / (math.exp(epsilon) + 1)  # and 1 − t
        share = distances / self._length(base, width)
        apart = share * width * (1 - base)  # the distance of the values, at most
        quarter = distances**2 / 4
        top = apart * (1 - 1 / math.cosh(epsilon / 2))
        ratio = np.minimum(t, apart * math.expm1(epsilon) / 2)
        private = t**2 / (rest * (rest + 2 * base * t)) * self.spread * quarter
        lost = np.minimum(top, private / (1 + np.sqrt(1 - ratio**2)))
        if width < 1:
            # The line ends where a value has (1 − width)/2 of its share in the middle.
            ratio = width * share / (1 - width + width * share)
            direct = self.mass / ((1 - base) * (1 - width**2)) * quarter
            lost = np.minimum(lost, t**2 * direct / (1 + np.sqrt(1 - ratio**2)))
        # −log(1 − x) ≤ x·(−log(1 − top)/top) for x ≤ top.
        return lost * -np.log1p(-top) / top

    def _bases(self) -> tuple[float, ...]:
        return _BASES if self.even else (0.0,)

    def _length(self, base: float, width: float) -> float:
        return self.length * width * (1 - base)

    def _tests(self, epsilon: float, power: int) -> Iterator["_Tests"]:
        """What the tests at all distances prove, for each kind of populations."""
        for base in self._bases():
            for width in _WIDTHS:
                length = self._length(base, width)
                ends = np.concatenate([[0.0], length * _CELLS])
                # ∫ (power/2)·(h/2)^(power − 1)·(1 − h/length) dh
                whole = (ends / 2) ** power * (1 - power / (power + 1) * ends / length)
                exponents = self.exponents(ends[1:], epsilon, base, width)
                # Of a cell the TV at its upper end is the largest.
                yield _Tests(np.diff(whole), ends[1:] / 2, exponents, power)


class _Tests(NamedTuple):
    weights: Float[np.ndarray, "h"]
    halves: Float[np.ndarray, "h"]
    exponents: Float[np.ndarray, "h"]
    power: int

    def error(self, num_users: float) -> float:
        apart = -np.expm1(-2 * num_users * self.exponents)  # 1 − affinity²
        alike = 1 - np.sqrt(apart)
        two = self.halves * alike if self.power == 1 else self.halves**2 * (1 - apart)
        return float(max(self.weights @ alike, np.max(two)))


def hard_lines(matrix: ArrayLike, *, symmetric: bool = False, tol: float = 1e-3) -> list[HardLines]:
    """Finds lines of populations that private reports of n users hardly distinguish.

    Those of the dual witnesses of γ2(W − u·1ᵀ; α), u the best shift of γ2, for α = 0 and for 1/4 to
    1/32 of the largest entry: a workload may have parts below the error that make it look much
    harder than it is.

    Args:
      matrix: float[m, k], the workload W.
      symmetric: whether the lines are for (W, −W) on signed copies of the values, u = 0; at a = 0
        all answers are then 0.
      tol: relative gap of the dual witnesses; a larger one weakens the bounds.

    Returns:
      HardLines; none where every query is constant, or 0 for a symmetric workload.

    Example:
      >>> from jaxdp import factorization, workloads
      >>> lines = factorization.hard_lines(workloads.prefix(8))
      >>> print(round(max(line.error(10_000, epsilon=1.0) for line in lines), 4))
      0.0099

    References:
      Edmonds, Nikolov, Ullman (2020), Section 3, with other constants.
    """
    dense, symmetric = one_matrix(matrix), check_bool("symmetric", symmetric)
    tol = float(check_level("tol", tol))  # of the key below, which an array cannot be
    return list(_solved(dense.tobytes(), dense.shape, symmetric, tol))


@functools.lru_cache(maxsize=8)  # for other ε and errors: what takes time is the witnesses
def _solved(
    entries: bytes, shape: tuple[int, int], symmetric: bool, tol: float
) -> tuple[HardLines, ...]:
    dense = np.frombuffer(entries).reshape(shape)
    start = gamma2(dense, shift=not symmetric, tol=tol)
    if float(start.upper) == 0:
        return ()
    centred = dense if symmetric else dense - np.asarray(start.shift)[:, None]
    alphas = np.abs(centred).max() * _ALPHAS
    results = [start, *(gamma2_approx(centred, float(alpha), tol=tol) for alpha in alphas)]
    return tuple(line for result in results for line in _lines(dense, result, symmetric))


def _lines(
    matrix: Float[np.ndarray, "m k"], result: Factorization, symmetric: bool
) -> list[HardLines]:
    """The lines that a dual witness defines: of all queries, and of those with longer ones."""
    num_queries, num_values = matrix.shape
    rows = _blurred(np.asarray(result.row_weights, np.float64), num_queries)
    cols = _blurred(np.asarray(result.col_weights, np.float64), num_values)
    witness = np.asarray(result.dual, np.float64)
    if not symmetric:
        witness = without_row_sums(witness, cols)
    if not np.any(witness):
        return []
    # On signed copies the norm, the answers and the sums of rows of (U, −U)/2 are those of U.
    norm = np.linalg.norm(witness / np.sqrt(rows[:, None] * cols), 2) * (1 + 1e-12)
    answers = np.sum(matrix * witness, axis=1) / norm / rows
    total = np.abs(witness).sum(axis=1) / norm / rows
    kept = answers > 1e-9 * np.abs(answers).max()
    rows, answers, total = rows[kept], answers[kept], total[kept]
    order = np.argsort(-answers / total, kind="stable")
    lengths = (2 * answers / total)[order]
    gains = np.cumsum((rows * answers**2)[order])
    masses = np.cumsum((rows * total**2)[order])
    lasts = {min(int(np.searchsorted(gains, s * gains[-1])), len(gains) - 1) for s in _SHARES}
    return [
        HardLines(float(lengths[i]), float(1 / gains[i]), float(masses[i] / gains[i]))
        for i in sorted(lasts)
    ]


def without_row_sums(
    witness: Float[np.ndarray, "m k"], cols: Float[np.ndarray, "k"]
) -> Float[np.ndarray, "m k"]:
    """U − (U·1)·qᵀ with what is only rounding set to 0."""
    centred = witness - witness.sum(axis=1, keepdims=True) * cols
    return np.where(np.abs(centred) > _ROUNDING * np.abs(witness).max(), centred, 0.0)


def _blurred(weights: np.ndarray, size: int) -> np.ndarray:
    return (1 - _BLUR) * weights / weights.sum() + _BLUR / size
