"""The area under the ROC curve as a bilinear form of two means of vectors."""

import functools
import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Float32, Int32
from numpy.typing import ArrayLike

from ..._checks import Choice, Epsilon, Integer
from ..._contract import Round, TallyLaw, Tree, Words, Work, field, params, spec
from ..._plausible import explaining_counts
from ..._prediction import Kind, Prediction
from ..._spec import check_counts, check_int, check_probabilities
from ..._x64 import compiled_in_float64
from ...population import Population
from ...random import Count, everyone
from ...randomizers import MeanRandomizer, MeanRound, PrivUnitG
from .._auc_protocol import AUCProtocol, Labels, warn_of_noise
from ..kernels._auc import AUC, auc_ratio
from ..vectors._one_report import OneReportParams
from ..vectors._quadratic_form import (
    RANDOMIZER,
    QuadraticForm,
    Reports,
    Statistic,
    VectorMaker,
    check_randomizer,
    randomizer_of,
)
from ._tree_errors import ScoreTree, sampling_variance

MAX_SCORES = 2**12
LABEL = 0.5
"""The coordinate of a private label. The leading error is at most in proportion to
`(C**2 + b**2) (C**2 + g**2 / (16 b**2 (n+**2 + n-**2)))`, g being `n+ - n-`: for `g**2` close to
`n+**2 + n-**2` the derivative in b**2 vanishes where `b**2 = 1/4`."""


@spec
class BilinearAUC(AUCProtocol["BilinearAUCParams | OneReportParams"]):
    """The area under the ROC curve from one vector a user, with all of epsilon.

    With ties counted half the area is `1/2 + h+^T (S / 2) h-` for the normalised histograms of the
    scores of both classes and `S[s, t] = sign(s - t)`. With `S / 2 = L^T R`, a positive user
    reports its score's column of L, a negative user its score's column of R, and the estimate is

        `1/2 + (mean of the positive reports) . (mean of the negative reports)`.

    S is a negacyclic matrix of eigenvalues `-i cot(pi (2 k + 1) / (2 d))`, so that the roots
    `L = |S / 2|**(1/2)` and `R = |S / 2|**(-1/2) (S / 2)` have columns of equal norms, the least
    there are: their square is `gamma_2(S) / 2 = sum_k |cot(pi (2 k + 1) / (2 d))| / (2 d)`, about
    `(ln d) / pi + 0.26`.

    Where labels are private both columns are of one vector in 2 d + 1 dimensions: with x the score,
    a positive user reports (L_x, 0, 1/2), a negative one (0, R_x, -1/2). The products of the first
    two blocks over pairs of different users add up to `n+ n- (area - 1/2)`, those of the last
    coordinates say how many pairs have different labels, and the estimate is the ratio. A label
    coordinate b costs a factor `1 + b**2 / C**2`, C being the norm of the columns, and adds an
    error in proportion to `1 / b**2`; b = 1/2 makes the leading error least where one class is far
    larger, whatever C is.

    Formal guarantees:
      * Privacy: the randomizer's, pure epsilon-LDP for `PrivUnitG`, of the score; of score and
        label where labels are private.
      * Bias: none with public labels, for every data set, up to float32. With private labels
        numerator and denominator have none, and their ratio is consistent: its bias is of the
        order of its variance.
      * `variance(counts)`: the exact mean squared error; with private labels that of the linearised
        ratio (delta method). If reports have the covariance `s**2 I` it is, for public labels,
        `s**2 (|R h-|**2 / n+ + |L h+|**2 / n-) + d s**4 / (n+ n-)`.
      * `worst_case_variance(n, n+)`: with public labels and an isotropic randomizer, such as
        `PrivUnitG`, exact, attained where each class has one score; otherwise a proven bound.

    Edge cases:
      ====================================  ======================================================
      users of one label only               ValueError; inside jit the estimate is 1/2, or noise
      a class too small for the noise       warns with the root mean squared error, if above 1/2
      value outside the domain              ValueError from a Population; clamped inside jit
      epsilon outside of [1e-4, 30]         ValueError from `PrivUnitG`
      reports to be collected               take `randomizer=CandidateResponse`
      ====================================  ======================================================

    Args:
      num_scores: d, 2 to 2**12: vectors are of dimension d, and the columns take 8 d**2 bytes;
        twice as many each where labels are private.
      epsilon: privacy parameter, > 0.
      labels: "public" or "private".
      randomizer: makes the spec of an unbiased randomizer of vectors in a ball, one with a
        `covariance_form`, from the keywords dim, epsilon and radius: `PrivUnitG`; for real reports
        `CandidateResponse` or `functools.partial(Gaussian, delta=1e-6)`.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced, or `randomizer` needs more.

    Example:
      >>> from jaxdp.pairwise import BilinearAUC
      >>> protocol = BilinearAUC(64, epsilon=1.0)
      >>> round(protocol.worst_case_variance(10_000, num_positive=6_000), 4)
      0.0069

    References:
      Ghazi, Kamath, Kumar, Manurangsi, Sealfon (2023), Lemma 11, for a pair of classes: each user
      needs one report. Private labels: derived here.
    """

    num_scores: int = field(Integer(2, MAX_SCORES))
    epsilon: float = field(Epsilon())
    labels: Labels = field(Choice("public", "private"), default="public")
    randomizer: VectorMaker = field(RANDOMIZER, default=PrivUnitG)
    embeds: ClassVar[bool] = True

    def validate(self) -> None:
        """Raises unless the vectors' randomizer can be made."""
        dim = _embedding(self.num_scores, self.labels == "private", num_shown=1).shape[1]
        check_randomizer(self.randomizer, dim, self.epsilon)

    @property
    def kernel(self) -> AUC:
        """The area under the curve, ties counted half."""
        return AUC()

    def _embedding(self) -> Float32[np.ndarray, "cells dim"]:
        return _embedding(self.num_scores, self.labels == "private")

    @property
    def vector_randomizer(self) -> MeanRandomizer:
        """The randomizer of users' vectors."""
        # Vectors of one label hold the same entries, in another order and with other signs.
        two = _embedding(self.num_scores, self.labels == "private", num_shown=1)
        return randomizer_of(self.randomizer, two, self.epsilon)

    @property
    def reporter(self) -> MeanRandomizer:
        """The randomizer of the vectors."""
        return self.vector_randomizer

    def build(self, word_bits: int = 32) -> "BilinearAUCParams | OneReportParams":
        """The params; with private labels those of `OneReport`."""
        vectors, inner = self._embedding(), self.vector_randomizer.build(word_bits)
        if self.labels == "public":
            return BilinearAUCParams(inner, vectors)
        forms = _forms(self.num_scores)
        return OneReportParams(
            inner,
            vectors,
            np.stack([np.diagonal(form.weights) for form in forms]),
            np.stack([form.linear for form in forms]),
            np.array([form.constant for form in forms]),
            np.zeros(len(forms)),  # the U-form does not use it
            ((auc_ratio, len(forms)),),
            single=True,
            form="u",
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter of the randomizer; at most `epsilon`."""
        return self.vector_randomizer.exact_epsilon()

    @property
    def variance_kind(self) -> Kind:
        """Exact with public labels, the delta method with private ones."""
        return "delta" if self.labels == "private" else "exact"

    def variance(self, counts: ArrayLike, inputs: Tree = None) -> Float[np.ndarray, ""]:
        """The mean squared error for given users; see the class.

        Args:
          counts: int[2 d], the number of users with each value.
          inputs: None; values are cells.
        """
        table = self._table(check_counts(counts), inputs).astype(np.float64)
        if self.labels == "private":
            return self._statistic().mean_squared_error(table.ravel(), float(self.truth(counts)))
        return np.asarray(self._noise(table, iid=False))

    @property
    def _covariance(self) -> tuple[float, float]:
        """(a, b) of the covariance `a I + b x x^T` of a report of x."""
        form = self.vector_randomizer.covariance_form()
        assert form is not None, "checked by `check_randomizer`"
        return form

    def _statistic(self) -> Statistic:
        """What predicts the error with private labels."""
        means = _embedding(self.num_scores, True).astype(np.float64)
        return Statistic(AUC(), _forms(self.num_scores), Reports(means, *self._covariance))

    def population_variance(
        self, probabilities: ArrayLike, num_users: int, inputs: Tree = None
    ) -> Float[np.ndarray, ""]:
        """The mean squared error about `population_truth` for independent users.

        Sampling is included. Exact given that the sizes of the classes are as expected; with
        private labels these are random too, by the delta method.

        Args:
          probabilities: float[2 d], of each value.
          num_users: n.
          inputs: None; values are cells.
        """
        n = check_int("num_users", num_users, low=2)
        p = self._table(check_probabilities(probabilities), inputs)
        if self.labels == "private":
            truth = float(self.population_truth(p.ravel(), n))
            return self._statistic().population_error(p.ravel(), n, truth)
        tree = ScoreTree.of(n * p, (self.num_scores - 1).bit_length(), 0.5)
        return np.asarray(self._noise(n * p, iid=True) + sampling_variance(tree))

    def _noise(self, table: Float[np.ndarray, "2 d"], iid: bool) -> float:
        """The mean variance given the users; of given users, or of independent ones."""
        across, along = self._covariance
        left, right = sign_factors(self.num_scores)
        sides = []  # of each class F with E x x^T = F F^T, the mean m, and n
        for vectors, counts in zip((right, left), table, strict=True):
            held = counts > 0
            shares = counts[held] / counts.sum()
            used = vectors[:, held]
            sides.append((used * np.sqrt(shares), used @ shares, counts.sum()))
        (f, _, _), (g, _, _) = sides
        squares, products = (np.sum(f**2), np.sum(g**2)), np.sum((f.T @ g) ** 2)
        # Var x^T y for independent x and y of means m and w and covariances S and T is m^T T m +
        # w^T S w + tr(S T), where T = (a I + b G G^T) / n. Of independent users, m is random too.
        total = across**2 * len(f) + across * along * sum(squares) + along**2 * products
        for (_, mean, n), (other, _, _), square in zip(sides, sides[::-1], squares, strict=True):
            drawn = 1 / n if iid else 0.0
            of_mean = across * np.sum(mean**2) + along * np.sum((other.T @ mean) ** 2)
            of_users = across * square + along * products
            total += n * ((1 - drawn) * of_mean + drawn * of_users)
        return float(total / np.prod(table.sum(axis=1)))

    def worst_case_variance(self, num_users: int, num_positive: int | None = None) -> Prediction:
        """The largest mean squared error over all data sets: exact, or a bound; see the class.

        Args:
          num_users: n, at least 2.
          num_positive: the positive users among them; None for any number, of which 1 is the worst.
        """
        n = check_int("num_users", num_users, low=2)
        positive = 1 if num_positive is None else num_positive
        positive = check_int("num_positive", positive, low=1, high=n - 1)
        if self.labels == "private":
            return Prediction(self._private_bound(n, positive), "bound")
        across, slope = self._covariance
        along, kind = max(slope, 0.0), "exact" if slope == 0 else "bound"
        # `_noise`, where columns have the squared norm C**2, and products with those of the other
        # class of at most 1/2
        each = across * self._square + along / 4
        total = across**2 * self.num_scores + along * (2 * across * self._square + along / 4)
        return Prediction((total + n * each) / (positive * (n - positive)), kind)

    def reported_variance(self, outcome: Tree, num_users: int) -> Float[np.ndarray, ""] | None:
        """The mean squared error for users whose vectors have means nearest to the reports'.

        None for users of one label, of whom the area is undefined.
        """
        del num_users
        params, vectors = self.built, self._embedding().astype(np.float64)
        tallies, parts = [outcome], [vectors]
        if isinstance(params, BilinearAUCParams):
            tallies, parts = [params.side(outcome, i) for i in (0, 1)], np.split(vectors, 2)
        table = []
        for tally, part in zip(tallies, parts, strict=True):
            users = int(tally["users"].numpy())
            mean = np.asarray(params.inner.estimate(tally))
            counts = explaining_counts(mean, part.T, users) if users else None
            if counts is None:
                return None
            table.append(counts)
        counts = np.concatenate(table)
        return self.variance(counts) if np.all(np.sum(np.split(counts, 2), axis=1)) else None

    @property
    def _square(self) -> float:
        """C**2, the squared norm of the columns."""
        return float(np.sum(sign_factors(self.num_scores).left[:, 0] ** 2))

    def _private_bound(self, num_users: int, num_positive: int) -> float:
        """A bound on the variance of `Y^T Q Y` over pairs: the linearised numerator of the ratio.

        With `lam` the largest eigenvalue of the covariance of a report it is at most
        `4 lam n |Q s|**2 + 2 n (n - 1) lam**2 |Q|**2`, for the sums s over all users but one. In Q
        the blocks of the columns are halves, and the label's entry is `(area - 1/2) / (4 b**2)`.
        """
        sizes = np.array([num_users - num_positive, num_positive], np.float64)
        largest = float(self._statistic().reports.largest().max())
        label = 0.5 / (4 * LABEL**2)  # |area - 1/2| is at most 1/2
        gap = (abs(sizes[1] - sizes[0]) + 1) * LABEL
        slope = self._square * np.sum(sizes**2) / 4 + (label * gap) ** 2
        size = self.num_scores / 2 + label**2
        total = 4 * largest * num_users * slope
        total += 2 * num_users * (num_users - 1) * largest**2 * size
        return float(total / np.prod(sizes) ** 2)

    def _check_classes(self, masses: Float[np.ndarray, "2"], num_users: int) -> None:
        """Warns where the leading error, of classes that hold one score each, is that of noise."""
        expected = masses / masses.sum() * num_users
        # m^T T m + w^T S w with |m|**2 = |w|**2 = C**2, and covariances of about a I over each size
        error = self._covariance[0] * self._square * np.sum(1 / expected)
        if self.labels == "private":
            error *= num_users / expected.min()
        warn_of_noise(float(expected.min()), float(error))

    def check_population(self, population: Population) -> None:
        """Raises ValueError unless values are cells, both labels occur, and users can be added."""
        AUCProtocol.check_population(self, population)
        self.vector_randomizer.check_total(population)


class SignFactors(NamedTuple):
    """`left^T right` is half of the matrix of signs; all columns have equal norms.

    Both are views of a row of their entries: copy them before multiplying matrices.
    """

    left: Float[np.ndarray, "d d"]
    right: Float[np.ndarray, "d d"]


@functools.lru_cache(maxsize=8)
def sign_factors(num_scores: int) -> SignFactors:
    """The factors of `sign(s - t) / 2` whose columns are shortest.

    For a negacyclic matrix, `A[s, t] = a(s - t)` with `a(x - d) = -a(x)`, the eigenvectors are
    `w**(s (2 k + 1))` with `w = exp(i pi / d)`. They are flat, so gamma_2 is the mean of the
    singular values, and the root of `|A|` is negacyclic too.
    """
    d = num_scores
    odd = 2 * np.arange(d) + 1
    # The sum over x = 1 .. d - 1 of w**(-x (2 k + 1)) is -i cot(pi (2 k + 1) / (2 d)).
    half = 0.5 / np.tan(np.pi * odd / (2 * d))  # the eigenvalues are -i half
    half[2 * odd == 2 * d] = 0.0  # d odd: the cotangent of pi / 2
    turn = np.exp(1j * np.pi * np.arange(d) / d)
    root = np.sqrt(np.abs(half))

    def matrix(eigenvalues: np.ndarray) -> np.ndarray:
        first = np.real(turn * np.fft.ifft(eigenvalues))
        # a(d - 1), .., a(0), a(-1), .., a(1 - d): each row is a part of it.
        around = np.concatenate([first[::-1], -first[:0:-1]])
        return np.lib.stride_tricks.sliding_window_view(around, d)[::-1]

    return SignFactors(matrix(root), matrix(-1j * root * np.sign(half)))


def _embedding(
    num_scores: int, private: bool, num_shown: int | None = None
) -> Float32[np.ndarray, "cells dim"]:
    """The vector of each cell, in d dimensions, or with private labels in 2 d + 1.

    Of each label, those of the first scores, or of all.

    With private labels the blocks u and v of L and R are turned to `(u + v, u - v) / sqrt(2)`, so
    that twice their product is a difference of squares.
    """
    left, right = (side[:, :num_shown] for side in sign_factors(num_scores))
    if not private:
        return np.concatenate([right, left], axis=1).T.astype(np.float32)
    # 2 u v = ((u + v)**2 - (u - v)**2) / 2
    negative, positive = right.T / math.sqrt(2), left.T / math.sqrt(2)
    label = np.full((len(positive), 1), LABEL)
    rows = [[negative, -negative, -label], [positive, positive, label]]
    return np.block(rows).astype(np.float32)


def _forms(num_scores: int) -> tuple[QuadraticForm, ...]:
    """The averages over pairs of the kernel of the area, and of whether labels differ.

    With t the signs of the labels these are `L_x . R_y + (1 - t t') / 4` and `(1 - t t') / 2`.
    """
    ones, zero = np.ones(num_scores), np.zeros(2 * num_scores + 1)
    signs = np.concatenate([ones, -ones, [-1 / (4 * LABEL**2)]])
    differ = np.concatenate([zero[:-1], [-1 / (2 * LABEL**2)]])
    area = QuadraticForm(np.diag(signs), zero, 0.25)
    return area, QuadraticForm(np.diag(differ), zero, 0.5)


@params
class BilinearAUCParams(Round[dict[str, Count]]):
    """The params of `BilinearAUC`: a pytree.

    Attributes:
      inner: the params of the vectors' randomizer.
      embedding: the vector of each cell.
    """

    inner: MeanRound
    embedding: Float32[Array | np.ndarray, "cells d"]

    @property
    def num_bins(self) -> int:
        """The cells, of a label and a score."""
        return self.embedding.shape[-2]

    @property
    def num_words(self) -> int:
        """Words of the randomizer."""
        return self.inner.num_words

    @property
    def lazy_words(self) -> bool:
        """Whether the randomizer reads words one at a time."""
        return self.inner.lazy_words

    def user_cost(self, work: Work) -> float:
        """The cost of a user of the randomizer."""
        return self.inner.user_cost(work)

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """Both labels, and the randomizer's limits; None where it has none."""
        limits = self.inner.report_limits
        if limits is None:
            return None
        low, high = limits
        return {"label": 0, "vector": low}, {"label": 1, "vector": high}

    @staticmethod
    def side(outcome: dict[str, Count], label: int) -> dict[str, Count]:
        """The randomizer's tally of the users with a label."""
        return jax.tree.map(lambda limb: limb[label], outcome)

    @property
    def law(self) -> TallyLaw[dict[str, Count]] | None:
        """The randomizer's law, for each class."""
        law = self.inner.law
        if law is None:
            return None

        def draw(key: jax.Array, counts: Count, inputs: Tree) -> dict[str, Count]:
            del inputs
            dim = self.embedding.shape[1]
            sides = jnp.asarray(self.embedding).reshape(2, dim, dim)
            # One after the other: a program of one law to compile, not of two.
            each = jax.random.split(key), counts.reshape(2, dim), sides
            return lax.map(lambda side: law.draw(*side), each)

        # A tally for each class: their distances add up.
        return TallyLaw(draw, law.cost, distance=2 * law.distance)

    def from_bits(self, words: Words, value: Int32[Array, ""], /) -> dict[str, Tree]:
        """One user's report: the label, which is public, and the randomizer's report.

        A value outside of the cells, [0, 2 d), is clamped into them.
        """
        vectors = jnp.asarray(self.embedding)
        value = jnp.clip(value.astype(jnp.int32), 0, vectors.shape[0] - 1)
        label = (value >= vectors.shape[1]).astype(jnp.int32)
        return {"label": label, "vector": self.inner.from_bits(words, vectors[value])}

    def tally(
        self, reports: dict[str, Tree], mask: Bool[Array, " n"] | None = None, /
    ) -> dict[str, Count]:
        """The randomizer's tallies of the negative and the positive users, stacked."""
        labels = reports["label"]
        counted = everyone(labels, mask)
        sides = [self.inner.tally(reports["vector"], counted & (labels == i)) for i in (0, 1)]
        return _stacked(sides)

    @compiled_in_float64
    def estimate(self, outcome: dict[str, Count], /) -> Float[Array, ""]:
        """The estimated area; a class without users counts as the mean 0."""
        sides = [self.side(outcome, i) for i in (0, 1)]
        negative, positive = (
            jnp.where(side["users"].f64() > 0, self.inner.estimate(side), 0.0) for side in sides
        )
        # left_s^T right_t = sign(s - t) / 2 of a positive score s and a negative one t
        return 0.5 + jnp.sum(negative * positive)


def _stacked(sides: list[dict[str, Count]]) -> dict[str, Count]:
    return jax.tree.map(lambda *limbs: jnp.stack(limbs), *sides)
