"""Statistics of pairs from one report of a vector per user."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32
from numpy.typing import ArrayLike

from ..._checks import Choice, Epsilon, Integer, Optional
from ..._contract import TallyLaw, Tree, Work, field, params, spec, static
from ..._plausible import explaining_counts
from ..._prediction import Prediction
from ..._spec import FrozenArray, check_counts, check_int, check_probabilities, check_real
from ..._x64 import as_float64, compiled_in_float64, dot
from ...linear import EmbeddedRound
from ...population import Population
from ...random import Count
from ...randomizers import MeanRandomizer, MeanRound, PrivUnitG, SelfMoments
from .._protocol import PairwiseProtocol
from ..kernels._exact import FORM, Form, num_pairs
from ..kernels._kernel import Kernel, Link
from ..kernels._pair_kernel import NUM_VALUES, as_kernel
from ._quadratic_factor import QuadraticFactor, candidates, given_factor
from ._quadratic_form import (
    RANDOMIZER,
    QuadraticForm,
    Reports,
    Statistic,
    VectorMaker,
    check_randomizer,
    randomizer_of,
    shared_norms,
)


@spec
class OneReport(PairwiseProtocol["OneReportParams"]):
    """Statistics of pairs from one randomized vector of each user, with all of the budget.

    For a symmetric W there are vectors `L_v`, a diagonal D, a vector g and a constant c with

        `W[v, w] = L_v^T D L_w + g^T L_v + g^T L_w + c`.

    A user reports `L_v` by a randomizer of vectors; reports y have mean `L_v`. With S their sum

      * `form="u"`: `(S^T D S - sum_i y_i^T D y_i) / (n (n - 1)) + 2 g^T S / n + c`,
      * `form="v"`: `(S^T D S - n r) / n**2 + 2 g^T S / n + c`, r the mean of `z^T D z` over the
        noise z of one report, the middle of its range where it depends on the value.

    With noise of variance `C**2 sigma**2` in every direction, `C = max |L_v|`, the variance is at
    most

        `4 C**2 B**2 sigma**2 / n + 2 C**4 |D|_F**2 sigma**4 / (n (n - 1))`, `B = max |D L_v + g|`.

    The L, D, g, c of least `C B` are used. `D L_v + g` is half of the derivative of the statistic
    in the mean of the L; so W minus a constant for each row is the product of these vectors and of
    the L, and the least `C B` is `min over u of gamma_2(W - u 1^T)`: the factors of that norm give
    L, and D, g, c by solving linear equations. With `shift=False` it is `gamma_2(W)`, with D of
    signs and g = 0.

    Several statistics, a tuple of kernels, or the averages of a kernel that is not linear (tau_b,
    AUC by plug-in, collision entropy), take vectors of their own, one below the other in one
    report. Average j is scaled so that the sum of the weighted squared errors is smallest: its
    vectors have squared norms in proportion to `gamma_j sqrt(weight_j)`, `gamma_j` its `C B`.

    Formal guarantees:
      * Privacy: that of the randomizer; pure epsilon-LDP for `PrivUnitG` and `CandidateResponse`.
      * Bias: none for linear kernels, up to rounding vectors to float32 (about 1e-7 of W), unless
        `rank` or `num_users` is given; then at most `bias` on every data set. With `form="v"` and a
        randomizer that is not isotropic, as `CandidateResponse`, half of the range of r over n
        besides. Statistics by plug-in are consistent, and their averages, `params.averages(tally)`,
        unbiased.
      * `variance` and `population_variance`: the exact mean squared error for linear kernels; for
        others the delta method, exact up to terms of higher order in 1/n.
      * `worst_case_variance`: proven. For unbiased linear kernels and an isotropic randomizer it is
        the largest there is for `form="u"`, attained where all users hold one value.

    Simulation: per user for any randomizer. At once: with `form="v"` for any randomizer that knows
    the law of its sums, with `form="u"` for those that know it jointly with the sums of squares
    (`squares_law`): `PrivUnitG` and `CandidateResponse`, in O(l**2) for each value, and with many
    users at a cost that does not depend on their number. A vector on a sphere, as of `PrivUnit`,
    `ProjUnit` and `L2Ball`, would take as many scalars a user as D has different entries: as much
    as the report itself.

    Edge cases:
      ==================================  ====================================================
      W is constant                       answers the constant, whatever the reports
      kernel is a matrix, not symmetric   warns, and averages W and W^T: the statistic stays;
                                          ValueError with a given factorization
      one user, `form="u"`                ValueError
      no `self_moments`, `form="v"`       ValueError: take a randomizer that knows them, such as
                                          `PrivUnitG`, `PrivUnit`, `CandidateResponse`, `Gaussian`
      over 2**35 users, `form="u"`        ValueError: sums of squares are kept in 63 bits
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
        predicted worst case; None for those of the smallest `C B`.
      shift: whether to use g and c; False for W as it is.
      weights: the weights of the squared errors of the averages, > 0: one for each of
        `kernel.functions` of each kernel; None for equal ones.
      factorization: instead of computing one, for a single linear kernel: a `Factorization` of W,
        or (left, signs) or (left, signs, shift) with `W = left^T diag(signs) left + shift`.
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius: `PrivUnitG`, `PrivUnit`, `L2Ball`, `CandidateResponse`,
        `functools.partial(Gaussian, delta=1e-6)`, or one of your own.

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
    epsilon: float = field(Epsilon())
    num_values: int | tuple[int, ...] | None = field(NUM_VALUES, default=None)
    form: Form = field(FORM, default="u")
    rank: int | None = field(Optional(Integer(1)), default=None)
    num_users: int | None = field(Optional(Integer(2)), default=None)
    shift: bool = field(Choice(True, False), default=True)
    weights: tuple[float, ...] | None = None
    factorization: Any = None  # None or a tuple of four FrozenArrays, once constructed
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)
    embeds: ClassVar[bool] = True

    def validate(self) -> None:
        """Raises unless the kernels fit the domain, and the other arguments the kernels."""
        given = self.kernel
        if isinstance(given, (tuple, list)) and any(isinstance(each, Kernel) for each in given):
            for each in given:
                if not isinstance(each, Kernel):
                    raise TypeError(
                        "kernel must be a kernel, a matrix or a tuple of kernels, got "
                        f"{each!r} in a tuple; a matrix becomes a kernel by PairKernel.from_matrix."
                    )
            self.settle(kernel=tuple(given))
        else:
            by_hand = self.factorization is not None
            self.settle(kernel=as_kernel(given, by_hand, depth=5))
        PairwiseProtocol.validate(self)
        if self.rank is not None:
            check_int("rank", self.rank, low=1, high=self.num_bins)
        self._check_weights()
        if self.factorization is not None:
            self._accept(self.factorization)
        check_randomizer(
            self.randomizer, self.num_bins, self.epsilon, self_moments=self.form == "v"
        )

    def _check_weights(self) -> None:
        if self.weights is None:
            return
        size = len(self.matrices())
        if not isinstance(self.weights, (tuple, list)) or len(self.weights) != size:
            raise ValueError(
                f"weights must be a tuple of {size} numbers, one for each average, got "
                f"{self.weights!r}."
            )
        self.settle(weights=tuple(check_real("weights", w, low=0.0) for w in self.weights))

    def _accept(self, given: object) -> None:
        """Stores a given factorization as (columns, scales, linear, constant), if it fits."""
        matrices = self.matrices()
        if len(matrices) != 1:
            raise ValueError("factorization must be None for several averages, which have several.")
        for name, value in (("rank", self.rank), ("num_users", self.num_users)):
            if value is not None:
                raise ValueError(
                    f"{name} must be None where a factorization is given, got {value!r}."
                )
        if isinstance(given, tuple) and len(given) == 4:  # stored before, as of `replace`
            return
        factor = given_factor(given, matrices[0])
        arrays = factor.columns, factor.scales, factor.linear, factor.constant
        self.settle(factorization=tuple(FrozenArray(x) for x in arrays))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The statistics."""
        return self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)

    def matrices(self) -> Float[np.ndarray, "m k k"]:
        """The kernels of all averages on the bins."""
        return np.concatenate([kernel.matrices(self.shape) for kernel in self.kernels])

    def embedding(self) -> "Embedding":
        """Map from values to vectors and from reports to averages; cached."""
        return _embedding(self)

    def build(self, word_bits: int = 32) -> "OneReportParams":
        """Builds the params, which users and the analyst run."""
        embedding, statistics = self.embedding(), _statistics(self)
        levels = [s.reports.level(f.weights) for s in statistics for f in s.forms]
        return OneReportParams(
            embedding.randomizer.build(word_bits),
            embedding.vectors,
            np.stack([f.weights for f in embedding.forms]),
            np.stack([f.linear for f in embedding.forms]),
            np.array([f.constant for f in embedding.forms]),
            np.array(levels),
            tuple((kernel.link, len(kernel.functions)) for kernel in self.kernels),
            not isinstance(self.kernel, tuple),
            self.form,
        )

    @property
    def reporter(self) -> MeanRandomizer:
        """The randomizer of the vectors."""
        return self.embedding().randomizer

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the randomizer."""
        return self.embedding().randomizer.exact_epsilon()

    @property
    def bias(self) -> float:
        """The largest bias of an average over all data sets, from the entries of its matrix."""
        built = np.concatenate([statistic.matrices() for statistic in _statistics(self)])
        return float(np.abs(built - self.matrices()).max())

    def truth(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The target: the statistic of the users, float64[], or the statistics, float64[s].

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        table = self._check_bins(check_counts(counts), inputs).reshape(self.shape)
        return self._each([k.of_counts(table, form=self.form) for k in self.kernels])

    def population_truth(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> np.ndarray:
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

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The mean squared error for given users, float64[], or float64[s] for several kernels.

        Exact for linear kernels; for others that of the linearised statistic (delta method).

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        truths = np.atleast_1d(self.truth(counts, inputs))
        masses = self._check_bins(check_counts(counts), inputs).astype(np.float64)
        num_pairs(int(masses.sum()), self.form)
        pairs = zip(_statistics(self), truths, strict=True)
        return self._each([s.mean_squared_error(masses, t) for s, t in pairs])

    def reported_variance(self, outcome: Tree, num_users: int) -> np.ndarray | None:
        """The mean squared error for users whose vectors have the mean nearest to the reports'."""
        mean = np.asarray(self.built.inner.estimate(outcome))
        vectors = self.embedding().vectors.astype(np.float64)
        counts = explaining_counts(mean, vectors.T, num_users)
        return None if counts is None else self.variance(counts)

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> np.ndarray:
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
        pairs = zip(_statistics(self), truths, strict=True)
        return self._each([s.population_error(p, n, t) for s, t in pairs])

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error of a statistic over all data sets; inf by plug-in.

        Exact for the U-form of isotropic reports of unbiased vectors, and a proven bound otherwise.

        Args:
          num_users: n.
        """
        n = check_int("num_users", num_users, low=2 if self.form == "u" else 1)
        if not all(kernel.is_linear for kernel in self.kernels):
            return Prediction(math.inf, "bound")
        return max(s.worst_error(s.kernel.matrix(self.shape), n) for s in _statistics(self))

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are bins, enough for a pair, and few enough to add."""
        PairwiseProtocol.check_population(self, population)
        self.embedding().randomizer.check_total(population, squares=self.form == "u")

    def _each(self, values: Sequence[Any]) -> np.ndarray:
        return np.asarray(values if isinstance(self.kernel, tuple) else values[0], np.float64)

    def _check_distribution(self, probabilities: ArrayLike, inputs: Tree) -> np.ndarray:
        return self._check_bins(check_probabilities(probabilities), inputs)


@dataclasses.dataclass(frozen=True)
class Embedding:
    """How values become vectors, and reports become averages.

    Attributes:
      vectors: float32[k, l], the vector of each value.
      forms: one for each average.
      randomizer: of the vectors.
    """

    vectors: np.ndarray
    forms: tuple[QuadraticForm, ...]
    randomizer: MeanRandomizer


@functools.lru_cache(maxsize=64)
def _embedding(protocol: OneReport) -> Embedding:
    """The factors of the averages, side by side in one report."""
    factors = _factors(protocol)
    weights = np.ones(len(factors)) if protocol.weights is None else np.array(protocol.weights)
    sizes = shared_norms(np.array([factor.norm for factor in factors]), weights)
    vectors = np.concatenate(
        [size * f.columns for size, f in zip(sizes, factors, strict=True)], axis=1
    ).astype(np.float32)
    dim, forms, start = vectors.shape[1], [], 0
    for size, factor in zip(sizes, factors, strict=True):
        part = slice(start, start + len(factor.scales))
        scales, linear = np.zeros(dim), np.zeros(dim)
        if size > 0:
            # D / s**2 and g / s make the same form of vectors s times as long.
            scales[part], linear[part] = factor.scales / size**2, factor.linear / size
        forms.append(QuadraticForm(scales, linear, factor.constant))
        start = part.stop
    randomizer = randomizer_of(protocol.randomizer, vectors, protocol.epsilon)
    return Embedding(vectors, tuple(forms), randomizer)


def _factors(protocol: OneReport) -> list[QuadraticFactor]:
    """The factors of the averages with the smallest predicted worst cases."""
    if protocol.factorization is not None:
        columns, scales, linear, constant = (x.values for x in protocol.factorization)
        return [QuadraticFactor(columns, scales, linear, float(constant))]
    matrices, several = protocol.matrices(), protocol.num_users is not None
    best = []
    for matrix in matrices:

        def predicted(factor: QuadraticFactor, matrix: np.ndarray = matrix) -> float:
            return _predicted(protocol, factor, matrix, len(matrices))

        offered = candidates(matrix, protocol.shift, protocol.rank, several)
        best.append(min(offered, key=predicted) if len(offered) > 1 else offered[0])
    return best


def _predicted(
    protocol: OneReport, factor: QuadraticFactor, matrix: np.ndarray, num_averages: int
) -> float:
    """The predicted worst case of a factor whose vectors share a report with others."""
    dim = len(factor.scales)
    unit = protocol.randomizer(dim=dim, epsilon=protocol.epsilon, radius=1.0)
    # m averages of equal norms share a ball: each has a part of squared radius 1/m.
    reports = Reports(factor.columns, num_averages * unit.worst_case_variance(1))
    form = QuadraticForm(factor.scales, factor.linear, factor.constant)
    statistic = Statistic(protocol.kernels[0], (form,), reports)
    return statistic.worst_error(matrix, protocol.num_users or 2)


@functools.lru_cache(maxsize=64)
def _statistics(protocol: OneReport) -> tuple[Statistic, ...]:
    """What predicts the errors of each kernel."""
    embedding = protocol.embedding()
    means, randomizer = embedding.vectors.astype(np.float64), embedding.randomizer
    covariance = randomizer.covariance_form()
    assert covariance is not None, "checked by `check_randomizer`"

    def moments(quadratic: QuadraticForm) -> SelfMoments:
        known = randomizer.self_moments(means, quadratic.dense)
        assert known is not None, "checked by `check_randomizer`"
        return known

    reports, forms = Reports(means, *covariance), iter(embedding.forms)
    return tuple(
        Statistic(
            kernel,
            tuple(next(forms) for _ in kernel.functions),
            reports,
            moments if protocol.form == "v" else None,
        )
        for kernel in protocol.kernels
    )


@params
class OneReportParams(EmbeddedRound):
    """The params of `OneReport`: a pytree.

    Average j of the m is estimated by the diagonal quadratic form `scales[j]` of the reports, plus
    twice `linear[j]` of their mean, plus `constant[j]`.

    Attributes:
      inner: the params of the randomizer of vectors.
      embedding: float32[k, l], the vector of each value.
      scales: float64[m, l].
      linear: float64[m, l].
      constant: float64[m].
      level: float64[m], r of each form: the mean of the form of one report's noise.
      links: the statistics as functions of averages, and of how many; static.
      single: whether there is one statistic, and no axis for it, static.
      form: "u" or "v", static.
    """

    inner: MeanRound
    embedding: Float32[Array | np.ndarray, "k l"]
    scales: Float[Array | np.ndarray, "m l"]
    linear: Float[Array | np.ndarray, "m l"]
    constant: Float[Array | np.ndarray, " m"]
    level: Float[Array | np.ndarray, " m"]
    links: tuple[tuple[Link, int], ...] = static()
    single: bool = static()
    form: Form = static()

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins, and few enough to add."""
        super().check_population(population)
        self.inner.check_total(population, squares=self.form == "u")

    def tally(
        self, reports: Int32[Array, "n ..."], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """The randomizer's tally, and for the U-form "squares", Count[l] in squared units."""
        tally = self.inner.tally(reports, mask)
        return tally if self.form == "v" else tally | {"squares": self.inner.squares(reports, mask)}

    def user_cost(self, work: Work) -> float:
        """The cost of a user of the randomizer; twice that for the U-form, which has squares."""
        cost = self.inner.user_cost(work)
        return cost if self.form == "v" else 2 * cost

    @property
    def law(self) -> TallyLaw[dict[str, Count]] | None:
        """The law of the sums of reports, for the U-form jointly with those of their squares."""
        joint = self.inner.squares_law
        if self.form == "v":
            return super().law
        if joint is None:
            return None

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
            return joint.draw(key, counts, self._encoded(counts, inputs))

        return TallyLaw(draw, joint.cost, distance=joint.distance)

    @compiled_in_float64
    def averages(self, tally: dict[str, Count]) -> Float[Array, " m"]:
        """Estimates of the averages that the statistics are functions of."""
        scales, linear, constant, level, unit = as_float64(
            self.scales, self.linear, self.constant, self.level, self.inner.unit
        )
        n, mean = tally["users"].f64(), self.inner.estimate(tally)
        shifted = 2 * dot(linear, mean) + constant
        if self.form == "v":
            return dot(scales, mean**2) - level / n + shifted
        single = tally["squares"].f64() * (unit**2 / n)  # the mean of y**2
        # (S^T D S - sum_i y_i^T D y_i) / (n (n - 1)), D diagonal
        return dot(scales, n * mean**2 - single) / (n - 1) + shifted

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, "*s"]:
        """The estimated statistic, float[], or statistics, float[s]."""
        averages, n = self.averages(outcome), outcome["users"].f64()
        values, start = [], 0
        for link, size in self.links:
            values.append(link(averages[start : start + size], n))
            start += size
        return values[0] if self.single else jnp.stack(values)
