"""Statistics of pairs from two reports of vectors per user, of half of the budget each."""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Float32, Int32
from numpy.typing import ArrayLike

from ..._checks import Choice, Epsilon, Integer, Optional, Real
from ..._contract import Round, TallyLaw, Tree, Words, Work, field, params, spec, static
from ..._given_factors import check_product, given_factors
from ..._plausible import explaining_counts
from ..._prediction import Prediction
from ..._spec import FrozenArray, check_counts, check_int, check_probabilities
from ..._x64 import as_float64, compiled_in_float64
from ...accounting import PairLaw
from ...factorization import (
    Factorization,
    gamma2_approx,
    gamma2_rank,
    johnson_lindenstrauss,
    zeta,
)
from ...population import Population
from ...random import Count, part_of, sum_squares
from ...randomizers import (
    L2Ball,
    MeanRandomizer,
    MeanRound,
    PrivUnit,
    PrivUnitG,
    ProjUnit,
    SelfMoments,
)
from .._joint_laws import joint_law
from .._protocol import PairwiseProtocol
from ..kernels._exact import FORM, Form, num_pairs
from ..kernels._kernel import Link
from ..kernels._pair_kernel import NUM_VALUES, as_kernel
from ._quadratic_factor import semidefinite, solved
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

_TOL = 1e-3  # of approximate factorizations: errors are of second order in it
_WITH_CAPS = PrivUnit, PrivUnitG, ProjUnit, L2Ball  # whose opposite vectors hide least
_WORTH = 0.01  # least share of the error that a lower rank must be able to save


@spec
class TwoReport(PairwiseProtocol["TwoReportParams"]):
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

    Where the statistic is a function of several averages (AUC by plug-in, tau_b, collision
    entropy), each has vectors of its own, one below the other in both reports, whose squared norms
    are in proportion to `gamma_2(W_j - c_j)`; the estimate is that function of the averages,
    `params.averages(tally)`.

    For few users it may pay to answer a matrix that is off by up to alpha, or of lower rank l. With
    `num_users` the one of the smallest predicted worst case is used, among the exact factors, those
    of `factorization.zeta` (Lemma 10), and reductions of their rank.

    Formal guarantees:
      * Privacy: that of two reports of the randomizer, pure epsilon-LDP for `PrivUnitG` and
        `CandidateResponse`.
      * Bias: at most `bias` on every data set; none, up to rounding vectors to float32 (about 1e-7
        of W), unless `alpha`, `rank` or `num_users` is given.
        Statistics by plug-in are consistent, and their averages unbiased.
      * `variance` and `population_variance`: the exact mean squared error for linear kernels; for
        others the delta method, exact up to terms of higher order in 1/n.
      * `worst_case_variance`: proven. For `form="u"`, an isotropic randomizer and no bias it is
        attained where all users hold one value. inf by plug-in.

    Simulation: per user for any randomizer. At once: with `form="v"` for any randomizer that knows
    the law of its sums, with `form="u"` for those that know it jointly with the products of a
    user's two reports (`products_law`): `PrivUnitG` and `CandidateResponse`, in O(l) for each
    value, and with many users at a cost that does not depend on their number. Of several averages,
    as of `AUC` by plug-in, only the V-form has one: the U-form adds up products for each average by
    itself, which the vectors of the values tie to each other.

    Edge cases:
      ==================================  ====================================================
      W is constant                       answers the constant
      matrix that is not symmetric        warns, averages W and W^T: the statistic stays;
                                          ValueError with a given factorization
      alpha >= the largest `|W - c|`      ValueError: 0 reports would do
      one user, `form="u"`                ValueError
      over 2**35 / l users, `form="u"`    ValueError: sums of products are kept in 63 bits
      ==================================  ====================================================

    Args:
      kernel: the statistic: a kernel, or float[k, k].
      epsilon: privacy parameter of both reports together.
      num_values: how many bins there are, or the shape of the table whose cells they are (row by
        row); left out for a matrix.
      form: "u" for pairs of different users, "v" to average over all pairs.
      num_users: n that alpha and the rank are chosen for; the population may have another size.
      alpha: the largest error of an entry of a W to allow, > 0, instead of num_users.
      rank: the number of coordinates of an average's vectors, 1 to k; None for as many as it takes.
      reduction: how the rank is reduced: "spectral", leading directions improved by
        `factorization.gamma2_rank`, or "jl", a random projection as in the paper.
      factorization: instead of computing one, for a linear kernel: a `Factorization` of W - c, or
        (left, right) or (left, right, c) with `W = left^T right + c`, up to `alpha`.
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius: `PrivUnitG`, `PrivUnit`, `L2Ball`, `CandidateResponse`, or one of your own.
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
    epsilon: float = field(Epsilon())
    num_values: int | tuple[int, ...] | None = field(NUM_VALUES, default=None)
    form: Form = field(FORM, default="u")
    num_users: int | None = field(Optional(Integer(2)), default=None)
    alpha: float | None = field(Optional(Real(0.0, closed=True)), default=None)
    rank: int | None = field(Optional(Integer(1)), default=None)
    reduction: str = field(Choice("spectral", "jl"), default="spectral")
    factorization: Any = None  # None or a tuple of three FrozenArrays, once constructed
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)
    shift: bool = field(Choice(True, False), default=True)

    def validate(self) -> None:
        """Raises unless the kernel fits the domain, and the other arguments the kernel."""
        by_hand = self.factorization is not None
        self.settle(kernel=as_kernel(self.kernel, by_hand, depth=5))
        PairwiseProtocol.validate(self)
        if self.rank is not None:
            check_int("rank", self.rank, low=1, high=self.num_bins)
        if self.alpha is not None:
            self._check_alpha(self.alpha)
        if self.num_users is not None and (self.alpha is not None or self.factorization):
            raise ValueError(
                "num_users must be None where alpha or factorization is given, got "
                f"{self.num_users!r}: it is what alpha is chosen for."
            )
        check_randomizer(self.randomizer, self.num_bins, self.epsilon / 2)
        if self.factorization is not None:
            self._accept(self.factorization)

    def _check_alpha(self, alpha: float) -> None:
        largest = min(np.ptp(w) / 2 if self.shift else np.abs(w).max() for w in self.matrices())
        if not alpha < max(largest, 1e-300):
            raise ValueError(
                f"alpha must be below {largest:g}, the largest error of answering a constant "
                f"without any reports, got {alpha:g}."
            )

    def _accept(self, given: object) -> None:
        """Stores a given factorization as (left, right, constant), or raises unless it fits."""
        if self.rank is not None:
            raise ValueError(
                f"rank must be None where a factorization is given, got {self.rank!r}."
            )
        if len(self.matrices()) > 1:
            raise ValueError("factorization must be None for several averages, which have several.")
        (matrix,) = self.matrices()
        left, right, constant, alpha = given_factors(given)
        alpha = alpha if self.alpha is None else self.alpha
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
        check_product(left.T @ right + constant, matrix, alpha, "the kernel's matrix")
        arrays = tuple(FrozenArray(x) for x in (left, right, constant))
        self.settle(alpha=alpha, factorization=arrays)

    def embedding(self) -> "PairEmbedding":
        """Map from values to two vectors; cached."""
        return _embedding(self)

    def build(self, word_bits: int = 32) -> "TwoReportParams":
        """Builds the params, which users and the analyst run."""
        embedding = self.embedding()
        return TwoReportParams(
            embedding.randomizer.build(word_bits),
            embedding.left,
            embedding.right,
            embedding.scale,
            embedding.constant,
            embedding.sizes,
            self.kernel.link,
            self.form,
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter: twice that of the randomizer."""
        return 2 * self.embedding().randomizer.exact_epsilon()

    def exact_delta(self) -> float:
        """A delta at which `exact_epsilon()` holds, by basic composition; 0 if pure."""
        return 2 * self.embedding().randomizer.exact_delta()

    def pair_laws(self) -> tuple[PairLaw, ...] | None:
        """Opposite vectors in both reports; None but for randomizers with caps."""
        inner = self.embedding().randomizer
        laws = inner.pair_laws() if isinstance(inner, _WITH_CAPS) else None
        return None if laws is None else (joint_law(laws[0], laws[0]),)

    @property
    def bias(self) -> float:
        """The largest bias of an average over all data sets, from the entries of its W."""
        return float(np.abs(_statistic(self).matrices() - self.matrices()).max())

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> np.ndarray:
        """The mean squared error for given users, float64[].

        Exact for linear kernels; for others that of the linearised statistic (delta method).

        Args:
          counts: int[k], the number of users with each value.
          inputs: None; values are bins.
        """
        truth = float(self.truth(counts, inputs))
        masses = self._check_bins(check_counts(counts), inputs).astype(np.float64)
        num_pairs(int(masses.sum()), self.form)
        return _statistic(self).mean_squared_error(masses, truth)

    def reported_variance(self, outcome: Tree, num_users: int) -> np.ndarray | None:
        """The mean squared error for users whose vectors have the means nearest to the reports'."""
        inner, embedding = self.built.inner, self.embedding()
        means = [np.asarray(inner.estimate(outcome[side])) for side in ("left", "right")]
        vectors = np.hstack([embedding.left, embedding.right]).astype(np.float64)
        counts = explaining_counts(np.concatenate(means), vectors.T, num_users)
        return None if counts is None else self.variance(counts)

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> np.ndarray:
        """The mean squared error about `population_truth` for independent users, float64[].

        Exact for linear kernels; for others the delta method.

        Args:
          probabilities: float[k], of each value.
          num_users: n.
          inputs: None; values are bins.
        """
        n = check_int("num_users", num_users, low=2 if self.form == "u" else 1)
        p = self._check_bins(check_probabilities(probabilities), inputs)
        return _statistic(self).population_error(p, n, float(self.population_truth(p, n)))

    def worst_case_variance(self, num_users: int) -> Prediction:
        """The largest mean squared error over all data sets, or a proven bound; inf by plug-in.

        Args:
          num_users: n.
        """
        n = check_int("num_users", num_users, low=2 if self.form == "u" else 1)
        if not self.kernel.is_linear:
            return Prediction(math.inf, "bound")
        return _statistic(self).worst_error(self.matrices()[0], n)

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are bins, enough for a pair, and few enough to add."""
        PairwiseProtocol.check_population(self, population)
        self.build().check_population(population)


@dataclasses.dataclass(frozen=True)
class PairEmbedding:
    """How values become two vectors, and inner products of parts of their means the averages.

    Attributes:
      left: float32[k, l], the first vector of each value.
      right: float32[k, l], the second.
      sizes: how many coordinates each average has; they follow one another.
      scale: of each inner product, float64[m].
      constant: what is added to it, float64[m].
      randomizer: of the vectors, with half of the budget.
    """

    left: np.ndarray
    right: np.ndarray
    sizes: tuple[int, ...]
    scale: np.ndarray
    constant: np.ndarray
    randomizer: MeanRandomizer

    def statistic(self, protocol: TwoReport, form: Form) -> Statistic:
        """The statistic as a quadratic form of the two vectors, one below the other."""
        left, right = (side.astype(np.float64) for side in (self.left, self.right))
        none, dim = np.zeros(left.shape), left.shape[1]
        # <y, y'> over some coordinates is a form of (y, y') with halves off the diagonal.
        swap = np.array([[0.0, 0.5], [0.5, 0.0]])
        parts = np.repeat(np.eye(len(self.sizes)), self.sizes, axis=1)
        forms = tuple(
            QuadraticForm(scale * np.kron(swap, np.diag(part)), np.zeros(2 * dim), float(constant))
            for scale, constant, part in zip(self.scale, self.constant, parts, strict=True)
        )
        covariance = self.randomizer.covariance_form()
        assert covariance is not None, "checked by `check_randomizer`"
        # The two reports are independent, so their covariance has two blocks.
        factors = np.stack([np.hstack([left, none]), np.hstack([none, right])])
        reports = Reports(np.hstack([left, right]), *covariance, factors)

        def moments(quadratic: QuadraticForm) -> SelfMoments:
            # q = 2 z^T D_12 z' for independent noises z and z': E[q z] = 0, and its variance
            # `4 tr(D_12 S' D_21 S)` is twice `tr(D Sigma D Sigma)`.
            return SelfMoments(np.zeros_like(reports.means), 2 * reports.squares(quadratic.weights))

        kernel = protocol.kernel
        return Statistic(kernel, forms, reports, moments if form == "v" else None)


@functools.lru_cache(maxsize=64)
def _statistic(protocol: TwoReport) -> Statistic:
    """What predicts the errors."""
    return protocol.embedding().statistic(protocol, protocol.form)


@functools.lru_cache(maxsize=64)
def _embedding(protocol: TwoReport) -> PairEmbedding:
    """The factors of the averages, side by side in both reports."""
    if protocol.factorization is not None:
        left, right, constant = (x.values for x in protocol.factorization)
        return _embedded(protocol, [_Factors.of(left, right, float(constant))])
    return _embedded(protocol, [_chosen(protocol, matrix) for matrix in protocol.matrices()])


class _Factors(NamedTuple):
    """`W = scale L^T R + c` with columns of norm at most 1, attained unless all are 0.

    Attributes:
      left: L^T, float64[k, l].
      right: R^T, float64[k, l].
      scale: of the product.
      constant: c.
    """

    left: np.ndarray
    right: np.ndarray
    scale: float
    constant: float

    @classmethod
    def of(
        cls, left: Float[np.ndarray, "l k"], right: Float[np.ndarray, "l k"], constant: float
    ) -> "_Factors":
        """The factors with the coordinates that are used."""
        # A coordinate that is 0 on one side adds nothing to the product but noise.
        used = (np.abs(left).max(axis=1) > 0) & (np.abs(right).max(axis=1) > 0)
        if not np.any(used):
            # The product is 0: one coordinate is left for users to report.
            used = np.arange(len(left)) == 0
        left, right = left[used], right[used]
        first, second = (float(np.linalg.norm(side, axis=0).max()) or 1.0 for side in (left, right))
        # A product that is 0 has no use for the reports' noise.
        scale = first * second if np.any(left) and np.any(right) else 0.0
        return cls((left / first).T, (right / second).T, scale, constant)


def _chosen(protocol: TwoReport, matrix: Float[np.ndarray, "k k"]) -> _Factors:
    """The factors of an average with the smallest predicted error."""
    known, constant = semidefinite(matrix, protocol.shift), 0.0
    if protocol.shift:
        constant = float(np.asarray((known or solved(matrix, "signed", shift=True)).shift))
        known = known and dataclasses.replace(known, shift=None)  # of W - c
    offered = [
        _Factors.of(factors.left, factors.right, constant)
        for factors in _offered(protocol, matrix - constant, known)
    ]
    n = protocol.num_users or 2**40  # so many that the leading term decides

    def predicted(factors: _Factors) -> float:
        return _embedded(protocol, [factors]).statistic(protocol, "u").worst_error(matrix, n)

    return min(offered, key=predicted) if len(offered) > 1 else offered[0]


def _embedded(protocol: TwoReport, factors: list[_Factors]) -> PairEmbedding:
    """The factors of some averages as two vectors for each value."""
    scales = np.array([each.scale for each in factors])
    norms = shared_norms(scales, np.ones(len(factors)))
    left, right = (
        np.concatenate([norm * side for norm, side in zip(norms, sides, strict=True)], axis=1)
        for sides in ([each.left for each in factors], [each.right for each in factors])
    )
    left, right = left.astype(np.float32), right.astype(np.float32)
    both = np.concatenate([left, right])
    return PairEmbedding(
        left,
        right,
        tuple(each.left.shape[1] for each in factors),
        # Vectors s times as long have products s**2 times as large.
        np.divide(scales, norms**2, out=np.zeros_like(scales), where=norms > 0),
        np.array([each.constant for each in factors]),
        randomizer_of(protocol.randomizer, both, protocol.epsilon / 2),
    )


def _offered(
    protocol: TwoReport, centred: Float[np.ndarray, "k k"], known: Factorization | None
) -> list[Factorization]:
    """The factorizations of W - c to choose from, where the best exact one may be known."""
    alpha, rank, n = protocol.alpha, protocol.rank, protocol.num_users
    if n is None:
        base = gamma2_approx(centred, alpha, tol=_TOL) if alpha else known
        base = (base or solved(centred, "gamma2")).settled("the kernel")
        return [base if rank is None else _reduced(protocol, centred, base, rank, alpha or 0.0)]
    exact = known or solved(centred, "gamma2")
    unit = protocol.randomizer(dim=len(centred), epsilon=protocol.epsilon / 2, radius=1.0)
    noise = unit.worst_case_variance(n)
    # The root of the leading term, gamma sqrt(2 s / n), plus the bias alpha: up to a factor
    # gamma + alpha / sqrt(2 s / n), the norm of Lemma 10; `noise` is s / n.
    bases = [exact, zeta(centred, weight=1 / math.sqrt(2 * noise), tol=_TOL)]
    if rank is not None:
        ranks = [rank]
    # l s**2 / n**2, all that a lower rank reduces, over the leading 2 s / n
    elif exact.rank * noise / 2 < _WORTH:
        ranks = []
    else:
        ranks = [exact.rank >> j for j in range(1, exact.rank.bit_length())]
    level = math.sqrt(noise / 2) * float(exact.upper)  # a bias of half of the noise
    offered = [] if rank is not None else list(bases)
    for base in bases[-1:] if protocol.reduction == "spectral" else bases:
        allowed = max(float(base.alpha), min(level, float(np.abs(centred).max()) / 2))
        offered += [_reduced(protocol, centred, base, r, allowed) for r in ranks]
    return offered


def _reduced(
    protocol: TwoReport,
    centred: Float[np.ndarray, "k k"],
    base: Factorization,
    rank: int,
    alpha: float,
) -> Factorization:
    """A factorization of a lower rank."""
    if rank >= base.rank:
        return base
    if protocol.reduction == "spectral":
        return gamma2_rank(centred, rank, alpha, tol=_TOL)
    return johnson_lindenstrauss(centred, dataclasses.replace(base, norm="gamma2"), rank)


@params
class TwoReportParams(Round[dict[str, Any]]):
    """The params of `TwoReport`: a pytree.

    Attributes:
      inner: the params of the randomizer of vectors, for half of the budget.
      left: float32[k, l], the first vector of each value.
      right: float32[k, l], the second.
      scale: float64[m], of the inner product of the means over the coordinates of each average.
      constant: float64[m], what is added to it.
      sizes: how many coordinates each average has, static.
      link: the statistic as a function of the averages, static.
      form: "u" or "v", static.
    """

    inner: MeanRound
    left: Float32[Array | np.ndarray, "k l"]
    right: Float32[Array | np.ndarray, "k l"]
    scale: Float[Array | np.ndarray, " m"]
    constant: Float[Array | np.ndarray, " m"]
    sizes: tuple[int, ...] = static()
    link: Link = static()
    form: Form = static()

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.left.shape[-2]

    @property
    def num_words(self) -> int:
        """Twice the words of the randomizer."""
        return 2 * self.inner.num_words

    @property
    def lazy_words(self) -> bool:
        """Whether the randomizer reads words one at a time."""
        return self.inner.lazy_words

    def user_cost(self, work: Work) -> float:
        """Twice the cost of a user of the randomizer."""
        return 2 * self.inner.user_cost(work)

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """Limits of the randomizer's reports, for both reports of a user."""
        limits = self.inner.report_limits
        return None if limits is None else jax.tree.map(lambda x: np.stack([x, x]), limits)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> Int32[Array, "2 ..."]:
        """One user's two reports, independent of each other."""
        half = self.inner.num_words
        first, second = part_of(words, 0, half), part_of(words, half, half)
        return jnp.stack(
            [
                self.inner.from_bits(first, jnp.asarray(self.left)[value]),
                self.inner.from_bits(second, jnp.asarray(self.right)[value]),
            ]
        )

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins, and few enough to add."""
        super().check_population(population)
        # Sums of l products, and of (x + y)**2, which is at most 4 largest**2
        squares = max(4, self.left.shape[-1]) if self.form == "u" else 0
        self.inner.check_total(population, squares)

    def tally(
        self, reports: Int32[Array, "n 2 ..."], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Any]:
        """{"left", "right"}: the randomizer's tallies; for the U-form "products" too.

        They are those of a user's two reports, Count[], or Count[m] for m averages, if several.
        """
        sides = reports[:, 0], reports[:, 1]
        tally: dict[str, Any] = {
            name: self.inner.tally(side, mask)
            for name, side in zip(("left", "right"), sides, strict=True)
        }
        if self.form == "u":
            x, y = (self.inner.summands(side) for side in sides)
            bound = 2 * self.inner.largest_report
            # x y = ((x + y)**2 - (x - y)**2) / 4, exact in 64 bits where x y does not fit 32
            four = sum_squares(x + y, bound, mask) - sum_squares(x - y, bound, mask)
            products, m = four >> 2, len(self.sizes)
            average = jnp.asarray(np.repeat(np.arange(m, dtype=np.int32), self.sizes))
            tally["products"] = products.sum() if m == 1 else products.segment_sum(average, m)
        return tally

    @compiled_in_float64
    def averages(self, tally: dict[str, Any]) -> Float[Array, " m"]:
        """Estimates of the averages that the statistic is a function of."""
        scale, constant, unit = as_float64(self.scale, self.constant, self.inner.unit)
        n = tally["left"]["users"].f64()
        products = self.inner.estimate(tally["left"]) * self.inner.estimate(tally["right"])
        ends = np.cumsum(self.sizes)[:-1]
        product = jnp.stack([jnp.sum(part) for part in jnp.split(products, ends)])
        if self.form == "u":
            # the mean of <y, y'>
            single = tally["products"].f64().reshape(product.shape) * (unit**2 / n)
            product = (n * product - single) / (n - 1)
        return scale * product + constant

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Any], /) -> Float[Array, ""]:
        """The estimated statistic."""
        return self.link(self.averages(outcome), outcome["left"]["users"].f64())

    @property
    def law(self) -> TallyLaw[dict[str, Any]] | None:
        """The laws of the two sums of reports, independent; of the U-form, with their products."""
        vectors = self.left, self.right
        if self.form == "u":
            joint = self.inner.products_law
            if joint is None or len(self.sizes) > 1:  # it is that of products of whole reports
                return None

            def draw_jointly(key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Any]:
                del inputs
                return joint.draw(key, counts, tuple(map(jnp.asarray, vectors)))

            return TallyLaw(draw_jointly, joint.cost, distance=joint.distance)
        law = self.inner.law
        if law is None:
            return None

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Any]:
            del inputs
            # One after the other: a program of one law to compile, not of two.
            each = jax.random.split(key), jnp.stack(vectors)
            sums = lax.map(lambda side: law.draw(side[0], counts, side[1]), each)
            return {
                name: jax.tree.map(lambda limb, i=i: limb[i], sums)
                for i, name in enumerate(("left", "right"))
            }

        return TallyLaw(draw, lambda work: 2 * law.cost(work), distance=2 * law.distance)

    @property
    def lawless(self) -> str:
        """Why the U-form may have no law."""
        name = type(self.inner).__name__
        whose = f"{len(self.sizes)} averages" if len(self.sizes) > 1 else name
        return f" The U-form adds up products of two reports of {whose}; the V-form does not."
