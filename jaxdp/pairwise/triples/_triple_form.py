"""Statistics of triples from one report of a vector per user."""

import dataclasses
import functools
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32

from ..._checks import Epsilon
from ..._contract import TallyLaw, Tree, Work, field, params, spec
from ..._plausible import explaining_counts
from ..._prediction import Prediction
from ..._spec import check_int
from ..._x64 import as_float64, compiled_in_float64
from ...factorization import gamma2
from ...linear import EmbeddedRound
from ...population import Population
from ...random import Count, sum_integers, sum_squares
from ...randomizers import MeanRandomizer, MeanRound, PrivUnitG
from ..vectors._quadratic_factor import axes_of, independent
from ..vectors._quadratic_form import (
    RANDOMIZER,
    Reports,
    VectorMaker,
    check_randomizer,
    randomizer_of,
)
from ._tensors import KERNEL
from ._triple_protocol import TripleProtocol, total_variance

_STEPS = 2**20  # between 0 and the most that the cubic form of a report may be


@spec
class TripleForm(TripleProtocol["TripleFormParams"]):
    """A U-statistic of triples of users from one randomized vector of each, with all of the budget.

    For a symmetric tensor T there are vectors `L_v`, shorter than k, and a cubic form F in them and
    a constant with

        `T[v, w, x] = F((L_v, 1), (L_w, 1), (L_x, 1))`.

    A user reports `L_v` by a randomizer of vectors; reports y have mean `L_v`, and the mean of
    `F((y_i, 1), (y_j, 1), (y_l, 1))` over all triples of different users is unbiased. With S the
    sum of the `(y_i, 1)` and M that of their squares `(y_i, 1) (y_i, 1)^T`, it is

        `(F(S, S, S) - 3 F(M, S) + 2 sum_i F((y_i, 1), ..)) / (n (n - 1) (n - 2))`.

    The vectors are those of least `max_v |L_v| max_vw |F(., (L_v, 1), (L_w, 1))|`: the first factor
    is the radius of the reports, and the second one bounds the slope of the statistic. That is the
    least gamma_2 of T, unfolded into a row for each pair of values, minus a constant for each row.
    Every slice of T is a combination of the coordinates and a constant, so the form is fitted
    without a rest.

    Against `TripleStatistic` with an oracle, it pays where T has factors of small norm: the mean
    range of three users has .59 of the variance for 16 values at epsilon = 1, and .31 for 32; other
    kernels are better off with an oracle. `variance` tells.

    Formal guarantees:
      * Privacy: that of the randomizer; pure epsilon-LDP for `PrivUnitG` and `CandidateResponse`.
      * Bias: none, up to rounding vectors to float32 (about 1e-7 of T), and the cubic form of each
        report to 2**-20 of the most that it may be, over `n**2`.
      * `variance(counts)`: exact, by Hoeffding's decomposition as for `TripleStatistic`.
      * `worst_case_variance(n)`: a proven bound.

    Simulation: user by user. A user takes `O(l**3)` steps for vectors of length l.

    Edge cases:
      ==================================  ====================================================
      T is constant                       answers the constant, whatever the reports
      fewer than 3 users                  ValueError
      over 2**33 users or so              ValueError: sums of squares are kept in 63 bits
      ==================================  ====================================================

    The factors are computed when they are first needed and kept for equal specs: .1 s for 16
    values, seconds for 32.

    Args:
      kernel: T, float[k, k, k] with k at most 64; one that is not symmetric is averaged over the
        orders of its arguments.
      epsilon: privacy parameter.
      randomizer: makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon
        and radius, as for `OneReport`.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> import jax, jaxdp
      >>> from jaxdp.pairwise import TripleForm, mean_range
      >>> statistic = TripleForm(mean_range(range(5)), epsilon=2.0)
      >>> counts = [30_000, 20_000, 20_000, 10_000, 20_000]
      >>> users = jaxdp.Population.from_histogram(counts)
      >>> estimate = jaxdp.run(statistic, users, jax.random.key(0))
      >>> error = abs(float(estimate) - float(statistic.truth(counts)))
      >>> error < 4 * float(statistic.variance(counts)) ** 0.5
      True

    References:
      Derived here; for pairs see `OneReport`.
    """

    kernel: Any = field(KERNEL)
    epsilon: float = field(Epsilon())
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)
    embeds: ClassVar[bool] = True

    def validate(self) -> None:
        """Raises unless the randomizer is one of vectors."""
        check_randomizer(self.randomizer, self.num_values, self.epsilon)

    @property
    def reporter(self) -> MeanRandomizer:
        """The randomizer of the vectors."""
        return _embedding(self).randomizer

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the randomizer."""
        return self.reporter.exact_epsilon()

    def build(self, word_bits: int = 32) -> "TripleFormParams":
        """Builds the params, which users and the analyst run."""
        embedding = _embedding(self)
        inner = embedding.randomizer.build(word_bits)
        form, dim = embedding.form, embedding.vectors.shape[1]
        cubic = form[:dim, :dim, :dim]
        # The form is at most its Frobenius norm times the cube of the longest report.
        longest = float(inner.unit) * inner.largest_report * dim**0.5
        most = float(np.linalg.norm(cubic)) * longest**3
        step = most / _STEPS or 1.0
        scaled = (cubic * (float(inner.unit) ** 3 / step)).astype(np.float32)
        return TripleFormParams(inner, embedding.vectors, form, scaled, np.asarray(step))

    def check_population(self, population: Population) -> None:
        """Raises unless the users' values are bins, enough for a triple, and few enough to add."""
        TripleProtocol.check_population(self, population)
        self.reporter.check_total(population, squares=4)

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, ""] | None:
        """The variance for users whose vectors have the mean nearest to the reports'."""
        mean = np.asarray(self.built.inner.estimate(outcome))
        vectors = _embedding(self).vectors.astype(np.float64)
        counts = explaining_counts(mean, vectors.T, num_users)
        return None if counts is None else self.variance(counts)

    def worst_case_variance(self, num_users: int) -> Prediction:
        """A proven bound on the variance over all data sets of a size.

        What a user, a pair and a triple add is bounded apart: the first by the worst pair of
        others, of which it is a convex function, the second likewise by the worst other, and by the
        largest eigenvalue of all covariances.

        Args:
          num_users: n, at least 3.
        """
        n, embedding = check_int("num_users", num_users, low=3), _embedding(self)
        homogeneous, dim = embedding.homogeneous, embedding.vectors.shape[1]
        slices = np.einsum("abc,xc->xab", embedding.form, homogeneous)[:, :dim]
        slopes = np.einsum("xab,yb->xya", slices, homogeneous).reshape(-1, dim)
        reports = embedding.reports
        single = max(
            float(np.einsum("sa,ab,sb->s", slopes, spread, slopes).max())
            for spread in embedding.spreads
        )
        largest = float(reports.largest().max())
        pair = largest**2 * np.sum(slices[:, :, :dim] ** 2, axis=(1, 2)).max()
        triple = largest**3 * np.sum(embedding.form[:dim, :dim, :dim] ** 2)
        return Prediction(total_variance(n, single, float(pair), float(triple)), "bound")

    def _spreads(self) -> Float[np.ndarray, "k k k"]:
        # Noise of a vector is that of the indicator which the form sees: F (P^T z, ..) = T(z, ..).
        embedding = _embedding(self)
        lift = np.linalg.pinv(embedding.homogeneous)[:-1]
        return np.einsum("ax,vab,by->vxy", lift, embedding.spreads, lift, optimize=True)


@dataclasses.dataclass(frozen=True)
class _Embedding:
    """How values become vectors, and reports become the statistic.

    Attributes:
      vectors: float32[k, l], the vector of each value.
      form: F, float64[l + 1, l + 1, l + 1].
      randomizer: of the vectors.
    """

    vectors: np.ndarray
    form: np.ndarray
    randomizer: MeanRandomizer

    @property
    def homogeneous(self) -> Float[np.ndarray, "k m"]:
        """The vectors, with a 1 below."""
        return _with_ones(self.vectors)

    @property
    def reports(self) -> Reports:
        """The moments of the reports."""
        covariance = self.randomizer.covariance_form()
        assert covariance is not None, "checked by `check_randomizer`"
        return Reports(self.vectors.astype(np.float64), *covariance)

    @property
    def spreads(self) -> Float[np.ndarray, "k l l"]:
        """The covariances of the reports of each value."""
        return np.stack([self.reports.total(row) for row in np.eye(len(self.vectors))])


def _with_ones(vectors: np.ndarray) -> Float[np.ndarray, "k m"]:
    return np.column_stack([vectors.astype(np.float64), np.ones(len(vectors))])


@functools.lru_cache(maxsize=64)
def _embedding(protocol: TripleForm) -> _Embedding:
    """The vectors of least norms, and the form that is fitted to them."""
    tensor = protocol.kernel.values
    # A row for each pair of values, in either order.
    columns = np.asarray(gamma2(tensor[np.triu_indices(len(tensor))], shift=True).right).T
    columns = independent(columns)
    columns = columns @ axes_of(columns)
    longest = float(np.linalg.norm(columns, axis=1).max()) or 1.0
    vectors = (columns / longest).astype(np.float32)
    inverse = np.linalg.pinv(_with_ones(vectors))
    form = np.einsum("av,bw,cx,vwx->abc", inverse, inverse, inverse, tensor, optimize=True)
    return _Embedding(vectors, form, randomizer_of(protocol.randomizer, vectors, protocol.epsilon))


@params
class TripleFormParams(EmbeddedRound):
    """The params of `TripleForm`: a pytree.

    Attributes:
      inner: the params of the randomizer of vectors.
      embedding: float32[k, l], the vector of each value.
      form: F.
      cubic: float32[l, l, l], the part of F of third degree, of reports in units, in steps.
      step: what 1 in the sum of the cubic forms stands for.
    """

    inner: MeanRound
    embedding: Float32[Array | np.ndarray, "k l"]
    form: Float[Array | np.ndarray, "m m m"]
    cubic: Float32[Array | np.ndarray, "l l l"]
    step: Float[Array | np.ndarray, ""]

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless the users' values are bins, and few enough to add."""
        super().check_population(population)
        self.inner.check_total(population, squares=4)

    def tally(
        self, reports: Int32[Array, "n ..."], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """The randomizer's tally, "squares" of entries and of sums of two, and "cubes".

        "squares" is Count[l (l + 1) / 2] in squared units, first of the l entries; "cubes" is the
        sum of the cubic forms of the reports, Count[] in steps.
        """
        numbers = self.inner.summands(reports)
        first, second = np.triu_indices(numbers.shape[1], 1)
        sums = jnp.concatenate([numbers, numbers[:, first] + numbers[:, second]], axis=1)
        wide = numbers.astype(jnp.float32)
        # A slice of the form at a time.
        slices = jnp.einsum("na,abc->nbc", wide, jnp.asarray(self.cubic), precision="highest")
        forms = jnp.einsum("nbc,nb,nc->n", slices, wide, wide, precision="highest")
        steps = jnp.clip(jnp.rint(forms), -_STEPS, _STEPS).astype(jnp.int32)
        return self.inner.tally(reports, mask) | {
            "squares": sum_squares(sums, 2 * self.inner.largest_report, mask),
            "cubes": sum_integers(steps, _STEPS, mask),
        }

    def user_cost(self, work: Work) -> float:
        """The cost of a user of the randomizer, and of the cubic form."""
        return self.inner.user_cost(work) + 0.5 * self.embedding.shape[-1] ** 3

    @property
    def law(self) -> TallyLaw[dict[str, Count]] | None:
        """None: the law of the sums of products is not known."""
        return None

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, ""]:
        """The estimated statistic."""
        form, step, unit = as_float64(self.form, self.step, self.inner.unit)
        n, dim = outcome["users"].f64(), self.embedding.shape[-1]
        sums = n * self.inner.estimate(outcome)
        squares = outcome["squares"].f64() * unit**2
        first, second = np.triu_indices(dim, 1)
        mixed = 0.5 * (squares[dim:] - squares[first] - squares[second])
        products = jnp.zeros((dim, dim), squares.dtype).at[first, second].set(mixed)
        products = products + products.T + jnp.diag(squares[:dim])
        total = jnp.append(sums, n)
        moments = jnp.block([[products, sums[:, None]], [sums[None], n]])
        slices = jnp.sum(form * total[None, None], axis=2)
        triples = jnp.sum(slices * (total[:, None] * total[None] - 3 * moments))
        # F of each report: what is of third degree was added, the rest follows from the moments.
        rest = 3 * jnp.sum(form[:dim, :dim, dim] * products) + n * form[dim, dim, dim]
        rest = rest + 3 * jnp.sum(form[:dim, dim, dim] * sums)
        each = outcome["cubes"].f64() * step + rest
        return (triples + 2 * each) / (n * (n - 1) * (n - 2))
