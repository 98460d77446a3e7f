"""Statistics of pairs from two reports of vectors per user, of half of the budget each."""

import dataclasses
import functools
import math
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
from ..factorization import (
    Factorization,
    gamma2,
    gamma2_approx,
    gamma2_rank,
    johnson_lindenstrauss,
    signed,
    zeta,
)
from ..linear._encoded import covariance_form, radius_of
from ..randomizers._mean import MeanRandomizer
from ..randomizers._priv_unit_g import PrivUnitG
from ._bilinear import Form, OwnMoments, Reports
from ._exact import Form as Kind
from ._exact import num_pairs
from ._protocol import PairwiseProtocol
from ._two_report_params import TwoReportLawParams, TwoReportParams
from ._vector_reports import (
    Statistic,
    check_randomizer,
    mean_squared_error,
    population_error,
    symmetric_kernel,
    worst_error,
)

_TOL = 1e-3  # of approximate factorizations: errors are of second order in it
_CLOSE = 1e-6  # relative error of factors that pass for exact
_WORTH = 0.01  # least share of the error that a lower rank must be able to save


@dataclasses.dataclass(frozen=True)
class PairCode:
    """How values become two vectors, and the inner product of their means a statistic.

    Attributes:
      left: float32[k, l], the first vector of each value, of norm at most about 1.
      right: float32[k, l], the second.
      scale: of the inner product.
      constant: what is added to it.
      randomizer: of the vectors, with half of the budget.
    """

    left: np.ndarray
    right: np.ndarray
    scale: float
    constant: float
    randomizer: Any


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
    form: Kind = "u"
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
        return _code(self)

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
        return float(np.abs(_statistic(self).matrices()[0] - self.matrices()[0]).max())

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The exact mean squared error for given users, float64[].

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        truth = float(self.truth(counts, inputs))
        masses = self._check_bins(check_counts(counts), inputs).astype(np.float64)
        num_pairs(int(masses.sum()), self.form)
        return np.asarray(mean_squared_error(_statistic(self), masses, self.form, truth))

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
        return np.asarray(population_error(_statistic(self), p, n, self.form, truth))

    def worst_case_variance(self, num_users: int) -> float:
        """The largest mean squared error over all data sets of a size, or a proven bound on it.

        Args:
          num_users: n.
        """
        n = check_int("num_users", num_users, low=2 if self.form == "u" else 1)
        return _worst(self, self.code(), n, self.form)

    def check_population(self, population) -> None:
        """Raises unless the users' values are bins, enough for a pair, and few enough to add."""
        super(TwoReport, self).check_population(population)
        self.code().randomizer.check_total(population)


@functools.lru_cache(maxsize=64)
def _code(protocol: TwoReport) -> PairCode:
    if protocol.factorization is not None:
        left, right, constant = (x.values for x in protocol.factorization)
        return _coded(protocol, left, right, float(constant))
    matrix = protocol.matrices()[0]
    constant = 0.0
    if protocol.shift:
        constant = float(np.asarray(signed(matrix, shift=True).shift))
    offered = [
        _coded(protocol, found.left, found.right, constant)
        for found in _offered(protocol, matrix - constant)
    ]
    n = protocol.num_users or 2**40
    return min(offered, key=lambda code: _worst(protocol, code, n, "u"))


def _coded(protocol: TwoReport, left, right, constant: float) -> PairCode:
    """Factors float64[l, k] as two vectors of norm at most 1 for each value."""
    used = (np.abs(left).max(axis=1) > 0) & (np.abs(right).max(axis=1) > 0)
    if not np.any(used):
        used = np.arange(len(left)) == 0
    left, right = left[used], right[used]
    sizes = [float(np.linalg.norm(side, axis=0).max()) or 1.0 for side in (left, right)]
    scale = sizes[0] * sizes[1] if np.any(left) and np.any(right) else 0.0
    left, right = ((left / sizes[0]).T, (right / sizes[1]).T)
    left, right = left.astype(np.float32), right.astype(np.float32)
    randomizer = protocol.randomizer(
        dim=left.shape[1],
        epsilon=protocol.epsilon / 2,
        radius=max(radius_of(left), radius_of(right)),
    )
    return PairCode(left, right, scale, constant, randomizer)


def _offered(protocol: TwoReport, rest: np.ndarray) -> list[Factorization]:
    """The factorizations to choose from.

    Args:
      protocol: the protocol.
      rest: W - c.
    """
    alpha, rank, n = protocol.alpha, protocol.rank, protocol.num_users
    if n is None:
        base = gamma2_approx(rest, alpha or 0.0, tol=_TOL if alpha else 1e-6)
        return [base if rank is None else _reduced(protocol, rest, base, rank, alpha or 0.0)]
    exact = gamma2(rest)
    unit = protocol.randomizer(dim=len(rest), epsilon=protocol.epsilon / 2, radius=1.0)
    noise = unit.worst_case_variance(n)
    bases = [exact, zeta(rest, weight=1 / math.sqrt(2 * noise), tol=_TOL)]
    if rank is not None:
        ranks = [rank]
    elif exact.rank * noise / 2 < _WORTH:
        ranks = []
    else:
        ranks = [exact.rank >> j for j in range(1, exact.rank.bit_length())]
    level = math.sqrt(noise / 2) * float(exact.upper)  # a bias of half of the noise
    found = [] if rank is not None else list(bases)
    for base in bases[-1:] if protocol.reduction == "spectral" else bases:
        allowed = max(float(base.alpha), min(level, float(np.abs(rest).max()) / 2))
        found += [_reduced(protocol, rest, base, r, allowed) for r in ranks]
    return found


def _reduced(protocol: TwoReport, rest, base: Factorization, rank: int, alpha: float):
    """A factorization of a lower rank."""
    if rank >= base.rank:
        return base
    if protocol.reduction == "spectral":
        return gamma2_rank(rest, rank, alpha, tol=_TOL)
    return johnson_lindenstrauss(rest, dataclasses.replace(base, norm="gamma2"), rank)


def _form(code: PairCode) -> Form:
    """The statistic as a quadratic form of the two vectors, one below the other."""
    dim = code.left.shape[1]
    swap = np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(dim))
    return Form(code.scale / 2 * swap, np.zeros(2 * dim), code.constant)


def _reports(code: PairCode) -> tuple[Reports, Callable[[Form], OwnMoments]]:
    """What users report, and the moments of the inner product of the noises of one user's two.

    These are independent: the product with either of them has mean zero.
    """
    sides = [side.astype(np.float64) for side in (code.left, code.right)]
    means = np.concatenate(sides, axis=1)
    dim, symmetric = code.left.shape[1], covariance_form(code.randomizer)
    if symmetric is not None and symmetric[1] == 0:
        reports = Reports(means, symmetric[0])
        products = np.full(len(means), symmetric[0] ** 2 * dim)
    else:
        covariances = np.zeros((len(means), 2 * dim, 2 * dim))
        for start, side in zip((0, dim), sides, strict=True):
            part = slice(start, start + dim)
            covariances[:, part, part] = [code.randomizer.moments(x)[1] for x in side]
        products = np.sum(covariances[:, :dim, :dim] * covariances[:, dim:, dim:], axis=(1, 2))
        reports = Reports(means, covariances=covariances)
    own = OwnMoments(np.zeros(means.shape), code.scale**2 * products)
    return reports, lambda form: own


def _worst(protocol: TwoReport, code: PairCode, num_users: int, kind: Kind) -> float:
    """The largest mean squared error with a code, or a bound on it."""
    form = _form(code)
    reports, own = _reports(code)
    moments = own(form) if kind == "v" else None
    return worst_error(form, reports, protocol.matrices()[0], num_users, moments)


@functools.lru_cache(maxsize=64)
def _statistic(protocol: TwoReport) -> Statistic:
    """What predicts the errors."""
    code = protocol.code()
    return Statistic(protocol.kernel, (_form(code),), *_reports(code))
