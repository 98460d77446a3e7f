"""Statistics of pairs from the counts of any frequency oracle."""

import dataclasses
import math
from typing import Any

import numpy as np

from .._spec import check_counts, check_int, check_probabilities
from ..linear._histogram_query import check_oracle
from ..randomizers._support import FrequencyOracle
from ._exact import Form, check_form, num_pairs
from ._kernel import Kernel, linearised_error
from ._oracle_law import CountedLaw, OracleLaw, SetLaw, oracle_law
from ._oracle_statistic_params import OracleStatisticParams, PairedStatisticParams
from ._pair_kernel import PairKernel, symmetric_kernel
from ._protocol import PairwiseProtocol


@dataclasses.dataclass(frozen=True, slots=True)
class OracleStatistic(PairwiseProtocol):
    """A statistic of pairs from one report of any frequency oracle per user.

    The oracle estimates the counts of the values by `c = sum_i y_i`, where y_i estimates the
    indicator `e_x` of the user's value x. With u the means of the rows of the kernel's matrix minus
    their own mean w, and W what is left of the matrix without `u_v + u_v' + w`,

        `(c^T W c - sum_i y_i^T W y_i) / (n (n - 1)) + 2 u^T c / n + w`

    is an unbiased U-statistic of the reports; the sum of the estimated counts, which need not be n,
    has no part in it. The V-statistic adds `sum_v W_vv c_v` to the numerator, and divides by n**2.
    What is subtracted for the pairs of a user with itself is

    * exactly that sum, where the oracle counts its reports (`KRR`, `HadamardBit`,
      `HadamardResponse`, `ProjectiveGeometryResponse`, `FiniteChannel`), and for `LocalHashing`,
      where the pairs of values that reports support are tallied as well;
    * `sum_v c_v E[y^T W y | v]`, which has the same mean, for `UnaryEncoding` and
      `SubsetSelection`, whose tally holds nothing more than c.

    Where the statistic is a function of several averages (`kernel.is_linear` is false), the
    estimate is that function of their unbiased estimates; those are `params.u_statistics(tally)`.
    With `KRR` the protocol is `QuantizedRR` on bins.

    Formal guarantees:
      * Privacy: that of the oracle, `oracle.exact_epsilon()`; users send nothing else.
      * Bias: none for linear kernels, in exact arithmetic with the realised probabilities; others
        are consistent.
      * `variance(counts)`: exact for linear kernels. With S_v the covariance of a report of value
        v, and `g_i = 2 W (c - e_x) + 2 (n - 1) u` (for the V-statistic 2 n u and the diagonal of W
        are added instead), it is
        `sum_i g_i^T S_i g_i + 2 sum_{i != j} tr(W S_i W S_j)`, over the square of the number of
        pairs; with the second kind of correction, the first sum has the variance of
        `g_i^T y_i + y_i^T W y_i - a^T y_i`, `a_v = E[y^T W y | v]`. For other kernels the delta
        method, exact up to terms of higher order in 1/n.
      * `worst_case_variance(n)`: a proven bound for linear kernels; inf for others.

    Edge cases:
      ===============================  ==========================================================
      one user, `form="u"`             ValueError
      oracle and kernel do not fit     ValueError that names both sizes
      moments not known, as `Rappor`   TypeError
      oracle without a tally's law     per-user simulation only: `LocalHashing`
      value outside the domain         ValueError from a Population; clamped inside jit
      ===============================  ==========================================================

    Args:
      kernel: the statistic, or a matrix float[k, k].
      oracle: a frequency oracle on k values.
      num_values: the shape of the table whose cells are the values, row by row; None for k.
      form: "u" for pairs of different users, "v" to average over all pairs, self pairs included.

    Raises:
      ValueError: an argument is out of range, or the kernel does not fit the domain.
      TypeError: `oracle` is not the spec of a frequency oracle, or none that is supported.

    Example:
      >>> from jaxdp.pairwise import GiniDiversity, OracleStatistic
      >>> from jaxdp.randomizers import KRR, HadamardResponse
      >>> counts = [100] * 64
      >>> for oracle in (KRR(64, 1.0), HadamardResponse(64, 1.0)):
      ...     print(round(float(OracleStatistic(GiniDiversity(), oracle).variance(counts)), 5))
      0.00161
      7e-05

    References:
      Bell, Bellet, Gascón, Kulkarni (2020), Algorithm 1, with any oracle for k-ary randomized
      response.
    """

    kernel: Any  # a Kernel, once constructed
    oracle: FrequencyOracle
    num_values: int | tuple[int, ...] | None = None
    form: Form = "u"

    def __post_init__(self):
        if not isinstance(self.kernel, Kernel):
            matrix = symmetric_kernel(self.kernel)
            object.__setattr__(self, "kernel", PairKernel.from_matrix(matrix))
        check_oracle(self.oracle)
        check_form(self.form)
        shape = self.oracle.num_values if self.num_values is None else self.num_values
        object.__setattr__(self, "num_values", tuple(shape) if isinstance(shape, list) else shape)
        if self.num_bins != self.oracle.num_values:
            raise ValueError(
                f"num_values is {self.num_values}, so {self.num_bins} values, but the oracle has "
                f"num_values = {self.oracle.num_values}; both must name one domain."
            )
        self.matrices()
        oracle_law(self.oracle)

    @property
    def epsilon(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The oracle's privacy parameter."""
        asked = getattr(self.oracle, "epsilon", None)
        return self.exact_epsilon() if asked is None else asked

    def build(self, word_bits: int = 32) -> OracleStatisticParams:
        """The params."""
        law, (matrices, linear, constant) = oracle_law(self.oracle), self._forms()
        by_report = isinstance(law, CountedLaw)
        own = [law.own(w) if isinstance(law, CountedLaw) else _own(law, w) for w in matrices]
        exact = by_report or isinstance(law, SetLaw)
        kind = OracleStatisticParams if exact else PairedStatisticParams
        return kind(
            oracle=self.oracle.build(word_bits),
            matrices=matrices,
            linear=linear,
            constant=constant,
            own=np.array(own),
            link=self.kernel.link,
            form=self.form,
            by_report=by_report,
        )

    def _forms(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W, u and w of each average, float64[m, k, k], float64[m, k] and float64[m]."""
        matrices = self.matrices()
        rows = matrices.mean(axis=-1)
        constant = rows.mean(axis=-1)
        linear = rows - constant[:, None]
        centred = matrices - linear[:, :, None] - linear[:, None, :] - constant[:, None, None]
        return centred, linear, constant

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: that of the oracle."""
        return self.oracle.exact_epsilon()

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error for given users, float64[].

        Exact for linear kernels; for others that of the linearised statistic (delta method).

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        counts = self._check_bins(check_counts(counts), inputs).astype(np.float64)
        n = int(counts.sum())
        diagonals = [np.diagonal(w) for w in self.matrices()]
        means = [
            counts @ w @ counts - (self.form == "u") * (d @ counts)
            for w, d in zip(self.matrices(), diagonals, strict=True)
        ]
        truth = self.truth(counts.astype(np.int64))

        def noise(w, d):
            shift = -2 * w + _own_shift(oracle_law(self.oracle), w)
            own = self._own_variances(w, (2 * w @ counts + d)[None], shift)[0]
            cross = oracle_law(self.oracle).cross_traces(w)
            return counts @ own + 2 * (counts @ cross @ counts - counts @ np.diagonal(cross))

        return self._mean_squared_error(np.array(means), n, truth, noise)

    def population_variance(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The mean squared error about `population_truth` for independent users, float64[].

        Sampling is included. Exact for linear kernels; for others the delta method.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """
        p = self._check_bins(check_probabilities(probabilities), inputs)
        n, law = check_int("num_users", num_users, low=1), oracle_law(self.oracle)
        num_pairs(n, self.form)
        keep = float(self.form == "v")
        means = [
            n * (n - 1) * (p @ w @ p) + keep * n * (np.diagonal(w) @ p) for w in self.matrices()
        ]

        def noise(w, d):
            slope = 2 * (n - 1) * w @ p + d
            own = p @ self._own_variances(w, slope[None], _own_shift(law, w))[0]
            own += p @ np.square(slope - p @ slope)
            rows = w @ p
            centred = w - rows[:, None] - rows + p @ rows
            mixed = p @ (law.forms(w) @ p) - (law.forms(rows[None]) @ p)[0]
            pair = p @ law.cross_traces(w) @ p + 2 * mixed + p @ centred**2 @ p
            return n * own + 2 * n * (n - 1) * pair

        return self._mean_squared_error(np.array(means), n, self.population_truth(p, n), noise)

    def worst_case_variance(self, num_users: int) -> float:
        """A proven bound on the mean squared error over all data sets of a size; inf by plug-in.

        Both parts of the variance are bounded apart. A user's own part is convex in the histogram
        of the others, so largest where those hold one value; the part of a pair of users is largest
        for some pair of values. Attained where all users are best to hold the same value.
        """
        n = check_int("num_users", num_users, low=1 if self.form == "v" else 2)
        if not self.kernel.is_linear:
            return math.inf
        law, (matrices, rows, _) = oracle_law(self.oracle), self._forms()
        w, d = matrices[0], self._slope(matrices[0], rows[0], n)
        own = self._own_variances(w, 2 * (n - 1) * w + d, _own_shift(law, w)).max()
        pair = 2 * (n - 1) * max(float(law.cross_traces(w).max()), 0.0)
        return n * (float(own) + pair) / num_pairs(n, self.form) ** 2

    def _slope(self, weights: np.ndarray, rows: np.ndarray, num_users: int) -> np.ndarray:
        """What is linear in the counts, in the numerator over all pairs, float64[k]."""
        if self.form == "u":
            return 2 * (num_users - 1) * rows
        return 2 * num_users * rows + np.diagonal(weights)

    def _own_variances(self, w: np.ndarray, base: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """The variance of a user's own part with slope `base[u] + shift[v]`, float64[m, k].

        Args:
          w: W.
          base: float64[m, k].
          shift: float64[k, k], a row for each value v of the user.
        """
        law = oracle_law(self.oracle)
        moved = law.times(shift)
        found = law.forms(base) + 2 * base @ moved.T + np.sum(shift * moved, axis=1)
        if isinstance(law, SetLaw):
            third, variance = law.self_moments(w)
            found = found + 2 * (base @ third.T + np.sum(shift * third, axis=1)) + variance
        return found

    def _mean_squared_error(self, means: np.ndarray, num_users: int, truth, noise) -> np.ndarray:
        """The error given the means of the sums over pairs.

        `noise(W, d)` is the variance of `c^T W c + d^T c` less the pairs of users with themselves.
        """
        pairs = float(num_pairs(num_users, self.form))

        def combined(slopes) -> float:
            weights, rows = (np.tensordot(slopes, x, axes=1) for x in self._forms()[:2])
            linear = self._slope(weights, rows, num_users)
            return max(float(noise(weights, linear)), 0.0) / pairs**2

        return linearised_error(self.kernel, means / pairs, num_users, truth, combined)


def _own(law: OracleLaw, w: np.ndarray) -> np.ndarray:
    """a, the expected `y^T W y` of a user with each value, float64[k]."""
    return law.traces(w) + np.diagonal(w)


def _own_shift(law: OracleLaw, w: np.ndarray) -> np.ndarray:
    """What the correction adds to the slope of a user with each value, float64[k, k].

    With `y = e_v + z`, `y^T W y - a^T y` is `z^T W z + (2 W e_v - a)^T z` and a constant.
    """
    if isinstance(law, SetLaw):
        return 2 * w - _own(law, w)
    return np.zeros(w.shape)
