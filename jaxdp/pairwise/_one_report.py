"""Statistics of pairs from one report of a vector per user."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._spec import (
    FrozenArray,
    check_choice,
    check_counts,
    check_epsilon,
    check_int,
    check_probabilities,
    check_real,
)
from ..randomizers._mean import MeanRandomizer
from ..randomizers._priv_unit_g import PrivUnitG, PrivUnitGParams
from ._exact import Form, num_pairs
from ._kernel import Kernel
from ._one_report_code import Code, code_of, statistics_of
from ._one_report_law import OneReportPairsLawParams
from ._one_report_params import OneReportLawParams, OneReportParams
from ._pair_kernel import symmetric_kernel
from ._protocol import PairwiseProtocol
from ._quadratic_factor import given_factor
from ._vector_reports import (
    check_randomizer,
    mean_squared_error,
    own_of,
    population_error,
    worst_error,
)


@dataclasses.dataclass(frozen=True, slots=True)
class OneReport(PairwiseProtocol):
    """Statistics of pairs from one randomized vector of each user, with all of the budget.

    For a symmetric W there are vectors `L_v`, a diagonal D, a vector g and a constant c with

        `W[v, w] = L_v^T D L_w + g^T L_v + g^T L_w + c`.

    A user reports `L_v` by a randomizer of vectors; reports y have mean `L_v`. With S their sum

      * `form="u"`: `(S^T D S - sum_i y_i^T D y_i) / (n (n - 1)) + 2 g^T S / n + c`,
      * `form="v"`: `(S^T D S - n r) / n**2 + 2 g^T S / n + c`, r the mean of `z^T D z` over the
        noise z of one report.

    With noise of variance `C**2 sigma**2` in every direction, `C = max |L_v|`, the variance is at
    most

        `4 C**2 B**2 sigma**2 / n + 2 C**4 |D|_F**2 sigma**4 / (n (n - 1))`, `B = max |D L_v + g|`.

    The L, D, g, c of least `C B` are used. `D L_v + g` is half of the derivative of the statistic
    in the mean of the L; so W less a constant for each row is the product of these vectors and of
    the L, and the least `C B` is `min over u of gamma_2(W - u 1^T)`: the factors of that norm give
    L, and D, g, c by solving linear equations. With `shift=False` it is `gamma_2(W)`, with D of
    signs and g = 0.

    Several statistics, a tuple of kernels, or the averages of a kernel that is not linear (tau_b,
    AUC by plug-in, collision entropy), take vectors of their own, one below the other in one
    report. Average j is scaled so that the sum of the weighted squared errors is least: its vectors
    have squared norms in proportion to `gamma_j sqrt(weight_j)`, `gamma_j` its own `C B`.

    Formal guarantees:
      * Privacy: that of the randomizer; pure epsilon-LDP for `PrivUnitG`.
      * Bias: none for linear kernels, up to rounding vectors to float32 (about 1e-7 of W), unless
        `rank` or `num_users` is given; then at most `bias` on every data set. Statistics by plug-in
        are consistent, and their averages, `params.averages(tally)`, unbiased.
      * `variance` and `population_variance`: the exact mean squared error for linear kernels; for
        others the delta method, exact up to terms of higher order in 1/n.
      * `worst_case_variance`: proven. For unbiased linear kernels and an isotropic randomizer it is
        the largest there is for `form="u"`, attained where all users hold one value.

    Simulation: per user for any randomizer. At once, from O(1) scalars a user: with `form="v"` for
    any randomizer that knows the law of its sums, with `form="u"` for `PrivUnitG`, in O(l**2) for
    each value.

    Edge cases:
      ==================================  ====================================================
      W is constant                       answers the constant, whatever the reports
      kernel is a matrix, not symmetric   warns, and averages W and W^T: the statistic stays;
                                          ValueError with a given factorization
      one user, `form="u"`                ValueError
      `form="v"` where r depends on v     ValueError: for `PrivUnit`, `PrivUnitG` and `Gaussian`
                                          it does not
      more than 2**42 users               ValueError: sums are kept in 63 bits
      ==================================  ====================================================

    The factors are computed when they are first needed and kept for equal specs.

    Args:
      kernel: the statistic, or several: a kernel, float[k, k], or a tuple of kernels.
      epsilon: privacy parameter.
      num_values: how many bins there are, or the shape of the table whose cells they are (row by
        row); left out for a matrix.
      form: "u" for pairs of different users, "v" to average over all pairs.
      rank: the number of coordinates of an average's vectors, 1 to k; None for as many as it takes.
      num_users: the n for which the factors and, unless given, the rank are chosen, by the
        predicted worst case; None for those of least `C B`.
      shift: whether to use g and c; False for W as it is.
      weights: the weights of the squared errors of the averages, > 0: one for each of
        `kernel.functions` of each kernel; None for equal ones.
      factorization: instead of computing one, for a single linear kernel: a `Factorization` of W,
        or (left, signs) or (left, signs, shift) with `W = left^T diag(signs) left + shift`.
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius: `PrivUnitG`, `PrivUnit`, `L2Ball`, `functools.partial(Gaussian, delta=1e-6)`.

    Raises:
      ValueError: an argument is out of range, the kernel does not fit the domain, or a given
        factorization is not one of its matrix.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.pairwise import GiniMeanDifference, OneReport
      >>> protocol = OneReport(GiniMeanDifference(), epsilon=1.0, num_values=5)
      >>> counts = [3000, 1000, 4000, 2000, 5000]
      >>> round(float(protocol.variance(counts)) ** 0.5, 4)
      0.0343
      >>> estimate = jaxdp.run(protocol, jaxdp.Population.from_histogram(counts), jax.random.key(0))
      >>> bool(abs(estimate - protocol.truth(counts)) < 6 * 0.0343)
      True

    References:
      Derived here; Ghazi et al. (2023), Theorem 5, answers quadratic forms by two reports of half
      the budget each, see `TwoReport`.
    """

    kernel: Any  # a Kernel or a tuple of them, once constructed
    epsilon: float
    num_values: int | tuple[int, ...] | None = None
    form: Form = "u"
    rank: int | None = None
    num_users: int | None = None
    shift: bool = True
    weights: tuple[float, ...] | None = None
    factorization: Any = None  # None or a tuple of three FrozenArrays, once constructed
    randomizer: Callable[..., MeanRandomizer] = PrivUnitG

    def __post_init__(self):
        if isinstance(self.kernel, (tuple, list)) and any(
            isinstance(kernel, Kernel) for kernel in self.kernel
        ):
            self._check_several()
        else:
            kernel = symmetric_kernel(self.kernel, self.factorization is not None)
            object.__setattr__(self, "kernel", kernel)
            self._check_statistic()
        k = self.num_bins
        if self.rank is not None:
            object.__setattr__(self, "rank", check_int("rank", self.rank, low=1, high=k))
        if self.num_users is not None:
            object.__setattr__(self, "num_users", check_int("num_users", self.num_users, low=2))
        check_choice("shift", self.shift, (True, False))
        self._check_weights()
        if self.factorization is not None:
            self._accept(self.factorization)
        check_randomizer(self.randomizer, k, self.epsilon, isotropic=self.form == "v")

    def _check_several(self) -> None:
        for kernel in self.kernel:
            if not isinstance(kernel, Kernel):
                raise TypeError(
                    f"kernel must be a kernel, a matrix or a tuple of kernels, got {kernel!r} in a "
                    "tuple; a matrix becomes a kernel by PairKernel.from_matrix."
                )
        object.__setattr__(self, "kernel", tuple(self.kernel))
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        check_choice("form", self.form, ("u", "v"))
        if isinstance(self.num_values, list):
            object.__setattr__(self, "num_values", tuple(self.num_values))
        if self.num_values is None:
            raise ValueError("num_values must be given for several kernels.")
        self.matrices()

    def _check_weights(self) -> None:
        if self.weights is None:
            return
        size = len(self.matrices())
        if not isinstance(self.weights, (tuple, list)) or len(self.weights) != size:
            raise ValueError(
                f"weights must be a tuple of {size} numbers, one for each average, got "
                f"{self.weights!r}."
            )
        checked = tuple(check_real("weights", w, low=0.0) for w in self.weights)
        object.__setattr__(self, "weights", checked)

    def _accept(self, given) -> None:
        """Stores a given factorization as (columns, scales, linear, constant), if it fits."""
        matrices = self.matrices()
        if len(matrices) != 1:
            raise ValueError("factorization must be None for several averages, which have several.")
        for name in ("rank", "num_users"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} must be None where a factorization is given, got "
                    f"{getattr(self, name)!r}."
                )
        if not (isinstance(given, tuple) and all(isinstance(x, FrozenArray) for x in given)):
            found = given_factor(given, matrices[0])
            given = (found.columns, found.scales, found.linear, found.constant)
            object.__setattr__(self, "factorization", tuple(FrozenArray(x) for x in given))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The statistics."""
        return self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)

    def matrices(self) -> np.ndarray:
        """The kernels of all averages on the bins, float64[m, k, k]."""
        return np.concatenate([kernel.matrices(self.shape) for kernel in self.kernels])

    def code(self) -> Code:
        """How values become vectors, and reports become averages; cached."""
        return code_of(self)

    def build(self, word_bits: int = 32) -> OneReportParams:
        """The params."""
        code = self.code()
        vector = code.randomizer.build(word_bits)
        statistics = statistics_of(self)
        noise = [float(s.reports.traces(f.weights)[0]) for s in statistics for f in s.forms]
        kind = OneReportParams
        if self.form == "v" and hasattr(vector, "sample_tally"):
            kind = OneReportLawParams
        elif isinstance(vector, PrivUnitGParams):
            kind = OneReportPairsLawParams
        return kind(
            vector,
            code.columns,
            np.stack([np.diagonal(f.weights) for f in code.forms]),
            np.stack([f.linear for f in code.forms]),
            np.array([f.constant for f in code.forms]),
            np.array(noise),
            tuple((kernel.link, len(kernel.functions)) for kernel in self.kernels),
            not isinstance(self.kernel, tuple),
            self.form,
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: that of the randomizer."""
        return self.code().randomizer.exact_epsilon()

    def exact_delta(self) -> float:
        """The smallest delta at which `exact_epsilon()` holds; 0 of a pure randomizer."""
        return getattr(self.code().randomizer, "exact_delta", float)()

    @property
    def bias(self) -> float:
        """The largest bias of an average over all data sets: that of an entry of its matrix."""
        columns = self.code().columns.astype(np.float64)
        built = [form.matrix(columns) for form in self.code().forms]
        return float(np.abs(np.stack(built) - self.matrices()).max())

    def truth(self, counts, inputs=None) -> np.ndarray:
        """The target: the statistic of the users, float64[], or the statistics, float64[s].

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        table = self._check_bins(check_counts(counts), inputs).reshape(self.shape)
        return self._each([k.of_counts(table, form=self.form) for k in self.kernels])

    def population_truth(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The target for users drawn from a distribution: the statistic of two new users.

        Args:
          probabilities: float[k], of each value.
          num_users: unused; the target does not depend on it.
          inputs: None; values are bins.

        Returns:
          float64[], or float64[s] for several kernels.
        """
        del num_users
        table = self._check_distribution(probabilities, inputs).reshape(self.shape)
        return self._each([k.of_distribution(table) for k in self.kernels])

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error for given users, float64[], or float64[s] for several kernels.

        Exact for linear kernels; for others that of the linearised statistic (delta method).

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        truths = np.atleast_1d(self.truth(counts, inputs))
        masses = self._check_bins(check_counts(counts), inputs).astype(np.float64)
        num_pairs(int(masses.sum()), self.form)
        pairs = zip(statistics_of(self), truths, strict=True)
        return self._each([mean_squared_error(s, masses, self.form, t) for s, t in pairs])

    def population_variance(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The mean squared error about `population_truth` for independent users.

        Sampling is included. Exact for linear kernels; for others the delta method.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.

        Returns:
          float64[], or float64[s] for several kernels.
        """
        n = check_int("num_users", num_users, low=2 if self.form == "u" else 1)
        p = self._check_distribution(probabilities, inputs)
        truths = np.atleast_1d(self.population_truth(probabilities, n, inputs))
        pairs = zip(statistics_of(self), truths, strict=True)
        return self._each([population_error(s, p, n, self.form, t) for s, t in pairs])

    def worst_case_variance(self, num_users: int) -> float:
        """The largest mean squared error of a statistic over all data sets; inf by plug-in.

        Exact for the U-form of isotropic reports of unbiased vectors, and a proven bound otherwise.

        Args:
          num_users: n.
        """
        n = check_int("num_users", num_users, low=2 if self.form == "u" else 1)
        statistics = zip(statistics_of(self), self.kernels, strict=True)
        return max(
            worst_error(
                s.forms[0],
                s.reports,
                kernel.matrices(self.shape)[0],
                n,
                own_of(s, s.forms[0], self.form),
            )
            if kernel.is_linear
            else math.inf
            for s, kernel in statistics
        )

    def check_population(self, population) -> None:
        """Raises unless the users' values are bins, enough for a pair, and few enough to add."""
        super(OneReport, self).check_population(population)
        self.code().randomizer.check_total(population)

    def _each(self, found: Sequence[Any]) -> np.ndarray:
        return np.asarray(found if isinstance(self.kernel, tuple) else found[0], np.float64)

    def _check_distribution(self, probabilities, inputs) -> np.ndarray:
        return self._check_bins(check_probabilities(probabilities), inputs)
