"""Statistics of pairs from two reports of vectors per user, of half of the budget each."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .._spec import (
    FrozenArray,
    check_choice,
    check_counts,
    check_int,
    check_probabilities,
    check_real,
)
from ..factorization import Factorization
from ..randomizers._mean import MeanRandomizer
from ..randomizers._priv_unit_g import PrivUnitG
from ._exact import Form, num_pairs
from ._pair_kernel import symmetric_kernel
from ._protocol import PairwiseProtocol
from ._two_report_code import PairCode, code_of, statistic_of, worst_of
from ._two_report_params import TwoReportLawParams, TwoReportParams
from ._vector_reports import (
    check_randomizer,
    mean_squared_error,
    population_error,
)

_CLOSE = 1e-6  # relative error of factors that pass for exact


@dataclasses.dataclass(frozen=True, slots=True)
class TwoReport(PairwiseProtocol):
    """The two-report protocol: W = L^T R + c, each user reports columns of both L and R.

    A user with value v sends a randomized `L_v` and, independently, a randomized `R_v`, each with
    half of the budget. With S and T the sums of the two

      * `form="v"`: `<S, T> / n**2 + c`; unbiased, as a user's two reports are independent,
      * `form="u"`: `(<S, T> - sum_i <y_i, y_i'>) / (n (n - 1)) + c`.

    With noise of variance `C**2 sigma**2` in every direction, `C**2 = gamma_2(W - c)`, and h the
    histogram, the V-form has the variance

        `C**2 sigma**2 (|L h|**2 + |R h|**2) / n + l C**4 sigma**4 / n**2`,

    l the number of coordinates. `OneReport` needs about half of the first term and an eighth of the
    second, at epsilon <= 1.

    For few users it may pay to answer a matrix that is off by up to alpha, or of lower rank l. With
    `num_users` the one of least predicted error in the worst case is used, among the exact factors,
    those of `factorization.zeta` (Lemma 10), and reductions of their rank.

    Formal guarantees:
      * Privacy: that of two reports of the randomizer, pure epsilon-LDP for `PrivUnitG`.
      * Bias: at most `bias` on every data set; none, up to rounding vectors to float32 (about 1e-7
        of W), unless `alpha`, `rank` or `num_users` is given.
      * `variance` and `population_variance`: the exact mean squared error.
      * `worst_case_variance`: proven. For `form="u"`, an isotropic randomizer and no bias it is
        attained where all users hold one value.

    Simulation: per user for any randomizer. At once, from O(1) scalars a user, with `form="v"` for
    any randomizer that knows the law of its sums.

    Edge cases:
      ==================================  ====================================================
      W is constant                       answers the constant, whatever the reports
      kernel is a matrix, not symmetric   warns, and averages W and W^T: the statistic stays;
                                          ValueError with a given factorization
      kernel is not linear                ValueError: for `OneReport` it need not be
      alpha >= the largest `|W - c|`      ValueError: 0 reports would do
      one user, `form="u"`                ValueError
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  ====================================================

    The factors are computed when they are first needed and kept for equal specs.

    Args:
      kernel: the statistic: a linear kernel, or float[k, k].
      epsilon: privacy parameter of both reports together.
      num_values: how many bins there are, or the shape of the table whose cells they are (row by
        row); left out for a matrix.
      form: "u" for pairs of different users, "v" to average over all pairs.
      num_users: n that alpha and the rank are chosen for; the population may have another size.
      alpha: the largest error of an entry of W to allow, > 0, instead of num_users.
      rank: the number of coordinates, 1 to k; None for as many as it takes.
      reduction: how the rank is reduced: "spectral", leading directions improved by
        `factorization.gamma2_rank`, or "jl", a random projection as in the paper.
      factorization: instead of computing one: a `Factorization` of W - c, or (left, right) or
        (left, right, c) with `W = left^T right + c`, up to `alpha`.
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius: `PrivUnitG`, `PrivUnit`, `L2Ball`.
      shift: whether to subtract a constant c.

    Raises:
      ValueError: an argument is out of range, the kernel does not fit the domain, or a given
        factorization is not one of its matrix.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> from jaxdp.pairwise import GiniMeanDifference, OneReport, TwoReport
      >>> two = TwoReport(GiniMeanDifference(), epsilon=1.0, num_values=5)
      >>> one = OneReport(GiniMeanDifference(), epsilon=1.0, num_values=5)
      >>> round(two.worst_case_variance(10**6) / one.worst_case_variance(10**6), 2)
      1.99

    References:
      Ghazi, Kamath, Kumar, Manurangsi, Sealfon (2023), On computing pairwise statistics with local
      differential privacy, Lemma 11, Theorem 5.
    """

    kernel: Any  # a Kernel, once constructed
    epsilon: float
    num_values: int | tuple[int, ...] | None = None
    form: Form = "u"
    num_users: int | None = None
    alpha: float | None = None
    rank: int | None = None
    reduction: str = "spectral"
    factorization: Any = None  # None or a tuple of three FrozenArrays, once constructed
    randomizer: Callable[..., MeanRandomizer] = PrivUnitG
    shift: bool = True

    def __post_init__(self):
        kernel = symmetric_kernel(self.kernel, self.factorization is not None)
        object.__setattr__(self, "kernel", kernel)
        self._check_statistic()
        if not self.kernel.is_linear:
            raise ValueError(
                f"kernel must be linear, got {self.kernel!r}, which is a function of several "
                "averages; use OneReport."
            )
        k = self.num_bins
        check_choice("reduction", self.reduction, ("spectral", "jl"))
        check_choice("shift", self.shift, (True, False))
        if self.num_users is not None:
            object.__setattr__(self, "num_users", check_int("num_users", self.num_users, low=2))
        if self.rank is not None:
            object.__setattr__(self, "rank", check_int("rank", self.rank, low=1, high=k))
        if self.alpha is not None:
            self._check_alpha()
        if self.num_users is not None and (self.alpha is not None or self.factorization):
            raise ValueError(
                f"num_users must be None where alpha or factorization is given, got "
                f"{self.num_users!r}: it is what alpha is chosen for."
            )
        check_randomizer(self.randomizer, k, self.epsilon / 2, isotropic=False)
        if self.factorization is not None:
            self._accept(self.factorization)

    def _check_alpha(self) -> None:
        alpha = check_real("alpha", self.alpha, low=0.0, open_ends=False)
        matrix = self.matrices()[0]
        largest = np.ptp(matrix) / 2 if self.shift else np.abs(matrix).max()
        if not alpha < max(largest, 1e-300):
            raise ValueError(
                f"alpha must be below {largest:g}, the largest error of answering a constant "
                f"without any reports, got {alpha:g}."
            )
        object.__setattr__(self, "alpha", alpha)

    def _accept(self, given) -> None:
        """Stores a given factorization as (left, right, constant), or raises unless it fits."""
        if self.rank is not None:
            raise ValueError(
                f"rank must be None where a factorization is given, got {self.rank!r}."
            )
        matrix, alpha = self.matrices()[0], self.alpha
        if isinstance(given, Factorization):
            alpha = float(given.alpha) if alpha is None else alpha
            given = (given.left, given.right, 0.0 if given.shift is None else given.shift)
        if not (isinstance(given, tuple) and len(given) in (2, 3)):
            raise TypeError(
                "factorization must be a Factorization or a tuple (left, right) or (left, right, "
                f"c), got {type(given).__name__}."
            )
        left, right, constant = (np.asarray(x, np.float64) for x in (*given, 0.0)[:3])
        if left.ndim != 2 or left.shape != right.shape or left.shape[1] != len(matrix):
            raise ValueError(
                f"factorization: left and right must have shape [l, k] with k = {len(matrix)}, got "
                f"{left.shape} and {right.shape}; W is left.T @ right + c."
            )
        if constant.ndim:
            raise ValueError(
                "factorization must have one constant for all entries, got a shift of shape "
                f"{constant.shape}; those of rows serve OneReport."
            )
        error = np.abs(left.T @ right + constant - matrix).max()
        if not error <= (alpha or 0.0) + _CLOSE * np.abs(matrix).max():
            raise ValueError(
                f"factorization must be within alpha = {alpha or 0.0:g} of the kernel's matrix, "
                f"but an entry of left.T @ right + c is off by {error:g}; pass the alpha you allow."
            )
        object.__setattr__(self, "alpha", alpha)
        arrays = (FrozenArray(x) for x in (left, right, constant))
        object.__setattr__(self, "factorization", tuple(arrays))

    def code(self) -> PairCode:
        """How values become two vectors; cached."""
        return code_of(self)

    def build(self, word_bits: int = 32) -> TwoReportParams:
        """The params."""
        code = self.code()
        vector = code.randomizer.build(word_bits)
        law = self.form == "v" and hasattr(vector, "sample_tally")
        kind = TwoReportLawParams if law else TwoReportParams
        constants = np.asarray(code.scale), np.asarray(code.constant)
        return kind(vector, code.left, code.right, *constants, self.form)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: twice that of the randomizer."""
        return 2 * self.code().randomizer.exact_epsilon()

    def exact_delta(self) -> float:
        """A delta at which `exact_epsilon()` holds, by basic composition; 0 if pure."""
        return 2 * getattr(self.code().randomizer, "exact_delta", float)()

    @property
    def bias(self) -> float:
        """The largest bias over all data sets: that of an entry of W."""
        return float(np.abs(statistic_of(self).matrices()[0] - self.matrices()[0]).max())

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact mean squared error for given users, float64[].

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        truth = float(self.truth(counts, inputs))
        masses = self._check_bins(check_counts(counts), inputs).astype(np.float64)
        num_pairs(int(masses.sum()), self.form)
        return mean_squared_error(statistic_of(self), masses, self.form, truth)

    def population_variance(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The exact mean squared error about `population_truth` for independent users, float64[].

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """
        n = check_int("num_users", num_users, low=2 if self.form == "u" else 1)
        p = self._check_bins(check_probabilities(probabilities), inputs)
        truth = float(self.population_truth(p, n))
        return population_error(statistic_of(self), p, n, self.form, truth)

    def worst_case_variance(self, num_users: int) -> float:
        """The largest mean squared error over all data sets of a size, or a proven bound on it.

        Args:
          num_users: n.
        """
        n = check_int("num_users", num_users, low=2 if self.form == "u" else 1)
        return worst_of(self, self.code(), n, self.form)

    def check_population(self, population) -> None:
        """Raises unless the users' values are bins, enough for a pair, and few enough to add."""
        super(TwoReport, self).check_population(population)
        self.code().randomizer.check_total(population)
