"""The area under the ROC curve as a bilinear form of two means of vectors."""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_choice, check_counts, check_epsilon, check_int, check_probabilities
from .._x64 import compiled_in_float64
from ..linear._encoded import VectorCodeParams, covariance_form, radius_of
from ..random import Count
from ..randomizers import PrivUnitG
from ._auc import AUC, auc_ratio
from ._auc_protocol import AUCProtocol, warn_of_noise
from ._bilinear import Form, Reports
from ._hierarchical_auc_moments import Tree, sampling_variance
from ._one_report_law import OneReportPairsLawParams
from ._vector_reports import Statistic, mean_squared_error, population_error

MAX_SCORES = 2**12
LABEL = 0.5
"""The coordinate of a private label. The leading error is at most in proportion to
`(C**2 + b**2) (C**2 + g**2 / (16 b**2 (n+**2 + n-**2)))`, g being `n+ - n-`: for `g**2` close to
`n+**2 + n-**2` the derivative in b**2 vanishes where `b**2 = 1/4`."""


@dataclasses.dataclass(frozen=True, slots=True)
class BilinearAUC(AUCProtocol):
    """The area under the ROC curve from one vector a user, with all of epsilon.

    With ties counted half the area is `1/2 + h+^T (S / 2) h-` for the normalised histograms of the
    scores of both classes and `S[s, t] = sign(s - t)`. With `S / 2 = L^T R`, a positive user
    reports the column of L of the own score, a negative user that of R, and the estimate is

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
      * Privacy: that of the vectors' randomizer, pure epsilon-LDP, of the score; of score and label
        where labels are private.
      * Bias: none with public labels, for every data set, up to float32. With private labels
        numerator and denominator have none, and their ratio is consistent: its bias is of the
        order of its variance.
      * `variance(counts)`: the exact mean squared error, with private labels that of the linearised
        ratio (delta method). If reports have the covariance `s**2 I` it is, for public labels,
        `s**2 (|R h-|**2 / n+ + |L h+|**2 / n-) + d s**4 / (n+ n-)`.
      * `worst_case_variance(n, n+)`: exact with public labels, attained where each class has one
        score; with private ones a proven bound.

    Edge cases:
      ====================================  ======================================================
      users of one label only               ValueError; inside jit the estimate is 1/2, or noise
      a class too small for the noise       warns with the root mean squared error, if above 1/2
      value outside the domain              ValueError from a Population; clamped inside jit
      epsilon outside of [1e-4, 30]         ValueError from `PrivUnitG`
      ====================================  ======================================================

    Args:
      num_scores: d, 2 to 2**12: vectors are of dimension d, and the columns take 8 d**2 bytes;
        twice as many each where labels are private.
      epsilon: privacy parameter, > 0.
      labels: "public" or "private".

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind, or is traced.

    Example:
      >>> from jaxdp.pairwise import BilinearAUC
      >>> protocol = BilinearAUC(64, epsilon=1.0)
      >>> round(protocol.worst_case_variance(10_000, num_positive=6_000), 4)
      0.0069

    References:
      Ghazi, Kamath, Kumar, Manurangsi, Sealfon (2023), Lemma 11, for a pair of classes: each user
      needs one report. Private labels: derived here.
    """

    num_scores: int
    epsilon: float
    labels: str = "public"

    def __post_init__(self):
        check_choice("labels", self.labels, ("public", "private"))
        size = check_int("num_scores", self.num_scores, low=2, high=MAX_SCORES)
        object.__setattr__(self, "num_scores", size)
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        _ = self.randomizer

    @property
    def kernel(self) -> AUC:
        """The area under the curve, ties counted half."""
        return AUC()

    @property
    def randomizer(self) -> PrivUnitG:
        """What users randomize their vector with."""
        columns = _columns(self.num_scores, self.labels == "private")
        return PrivUnitG(columns.shape[1], self.epsilon, radius_of(columns))

    def build(self, word_bits: int = 32) -> Any:
        """The params; with private labels those of `OneReport`."""
        columns = _columns(self.num_scores, self.labels == "private")
        vector = self.randomizer.build(word_bits)
        if self.labels == "public":
            return BilinearAUCParams(vector, columns)
        forms = _forms(self.num_scores)
        return OneReportPairsLawParams(
            vector,
            columns,
            np.stack([np.diagonal(form.weights) for form in forms]),
            np.stack([form.linear for form in forms]),
            np.array([form.constant for form in forms]),
            np.zeros(len(forms)),  # the U-form does not use it
            ((auc_ratio, len(forms)),),
            single=True,
            form="u",
        )

    def exact_epsilon(self) -> float:
        """The realised privacy parameter, that of the randomizer; at most `epsilon`."""
        return self.randomizer.exact_epsilon()

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error for given users, float64[]; see the class.

        Args:
          counts: int[2 d], the number of users with each value.
          inputs: None; values are cells.
        """
        table = self._table(check_counts(counts), inputs).astype(np.float64)
        if self.labels == "private":
            counts, truth = table.ravel(), float(self.truth(counts))
            return np.asarray(mean_squared_error(self._statistic(), counts, "u", truth))
        return np.asarray(self._noise(table, iid=False))

    def _statistic(self) -> Statistic:
        """What predicts the error with private labels."""
        form = covariance_form(self.randomizer)
        assert form is not None
        means = _columns(self.num_scores, True).astype(np.float64)
        reports = Reports(means, *form)
        return Statistic(AUC(), _forms(self.num_scores), reports, lambda form: None)

    def population_variance(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The mean squared error about `population_truth` for independent users, float64[].

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
            return np.asarray(population_error(self._statistic(), p.ravel(), n, "u", truth))
        table = n * p
        tree = Tree.of(table, (self.num_scores - 1).bit_length(), 0.5)
        return np.asarray(self._noise(table, iid=True) + sampling_variance(tree))

    def _noise(self, table: np.ndarray, iid: bool) -> float:
        """The mean variance given the users; of given users, or of independent ones."""
        form = covariance_form(self.randomizer)
        assert form is not None
        across, along = form
        left, right = sign_factors(self.num_scores)
        sides = []
        for vectors, counts in zip((right, left), table, strict=True):
            shares = counts / counts.sum()
            mean = vectors @ shares
            second = (vectors * shares) @ vectors.T
            covariance = (across * np.eye(len(mean)) + along * second) / counts.sum()
            drawn = (second - np.outer(mean, mean)) / counts.sum() if iid else 0.0
            sides.append((np.outer(mean, mean) + drawn, covariance))
        (negative, of_negative), (positive, of_positive) = sides
        return float(
            np.sum(negative * of_positive)
            + np.sum(positive * of_negative)
            + np.sum(of_negative * of_positive)
        )

    def worst_case_variance(self, num_users: int, num_positive: int | None = None) -> float:
        """The largest mean squared error over all data sets: exact, or a bound; see the class.

        Args:
          num_users: n, at least 2.
          num_positive: the positive users among them; None for any number, of which 1 is the worst.
        """
        n = check_int("num_users", num_users, low=2)
        positive = 1 if num_positive is None else num_positive
        positive = check_int("num_positive", positive, low=1, high=n - 1)
        if self.labels == "private":
            return self._private_bound(n, positive)
        table = np.zeros(self.shape)
        table[:, 0] = n - positive, positive
        return self._noise(table, iid=False)

    def _private_bound(self, num_users: int, num_positive: int) -> float:
        """A bound on the variance of `Y^T Q Y` over pairs: the linearised numerator of the ratio.

        With `lam` the largest eigenvalue of the covariance of a report it is at most
        `4 lam n |Q s|**2 + 2 n (n - 1) lam**2 |Q|**2`, for the sums s over all users but one. In Q
        the blocks of the columns are halves, and the label's entry is `(area - 1/2) / (4 b**2)`.
        """
        sizes = np.array([num_users - num_positive, num_positive], np.float64)
        largest = float(self._statistic().reports.largest().max())
        square = float(np.sum(sign_factors(self.num_scores).left[:, 0] ** 2))
        label = 0.5 / (4 * LABEL**2)
        gap = (abs(sizes[1] - sizes[0]) + 1) * LABEL
        slope = square * np.sum(sizes**2) / 4 + (label * gap) ** 2
        size = self.num_scores / 2 + label**2
        total = 4 * largest * num_users * slope
        total += 2 * num_users * (num_users - 1) * largest**2 * size
        return float(total / np.prod(sizes) ** 2)

    def _check_classes(self, masses: np.ndarray, num_users: int) -> None:
        """Warns where the leading error, of classes that hold one score each, is that of noise."""
        expected = masses / masses.sum() * num_users
        form = covariance_form(self.randomizer)
        assert form is not None
        square = float(np.sum(sign_factors(self.num_scores).left[:, 0] ** 2))
        error = form[0] * square * np.sum(1 / expected)
        if self.labels == "private":
            error *= num_users / expected.min()
        warn_of_noise(float(expected.min()), float(error))

    def check_population(self, population) -> None:
        """Raises ValueError unless values are cells, both labels occur, and users can be added."""
        super(BilinearAUC, self).check_population(population)
        self.randomizer.check_total(population)


class SignFactors(NamedTuple):
    """`left^T right` is half of the matrix of signs; float64[d, d] each, columns of equal norms."""

    left: np.ndarray
    right: np.ndarray


@functools.lru_cache(maxsize=8)
def sign_factors(num_scores: int) -> SignFactors:
    """The factors of `sign(s - t) / 2` whose columns are shortest.

    For a negacyclic matrix, `A[s, t] = a(s - t)` with `a(x - d) = -a(x)`, the eigenvectors are
    `w**(s (2 k + 1))` with `w = exp(i pi / d)`. They are flat, so gamma_2 is the mean of the
    singular values, and the root of `|A|` is negacyclic too.
    """
    d = num_scores
    odd = 2 * np.arange(d) + 1
    half = 0.5 / np.tan(np.pi * odd / (2 * d))  # the eigenvalues are -i half
    half[2 * odd == 2 * d] = 0.0  # d odd: the cotangent of pi / 2
    place = np.arange(d)
    turn = np.exp(1j * np.pi * place / d)
    root = np.sqrt(np.abs(half))

    def entries(eigenvalues):
        return np.real(turn * np.fft.ifft(eigenvalues))

    def matrix(first):
        offset = place[:, None] - place
        return np.where(offset < 0, -1.0, 1.0) * first[offset % d]

    return SignFactors(matrix(entries(root)), matrix(entries(-1j * root * np.sign(half))))


def _columns(num_scores: int, private: bool) -> np.ndarray:
    """The vector of each cell, float32[2 d, d] or float32[2 d, 2 d + 1].

    With private labels the blocks u and v of L and R are turned to `(u + v, u - v) / sqrt(2)`, so
    that twice their product is a difference of squares.
    """
    left, right = sign_factors(num_scores)
    if not private:
        return np.concatenate([right, left], axis=1).T.astype(np.float32)
    negative, positive = right.T / math.sqrt(2), left.T / math.sqrt(2)
    label = np.full((num_scores, 1), LABEL)
    rows = [[negative, -negative, -label], [positive, positive, label]]
    return np.block(rows).astype(np.float32)


def _forms(num_scores: int) -> tuple[Form, ...]:
    """The averages over pairs of the kernel of the area, and of whether labels differ.

    With t the signs of the labels these are `L_x . R_y + (1 - t t') / 4` and `(1 - t t') / 2`.
    """
    d = num_scores
    ones, zero = np.ones(d), np.zeros(2 * d + 1)
    signs = np.concatenate([ones, -ones, [-1 / (4 * LABEL**2)]])
    differ = np.concatenate([zero[:-1], [-1 / (2 * LABEL**2)]])
    return Form(np.diag(signs), zero, 0.25), Form(np.diag(differ), zero, 0.5)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BilinearAUCParams(VectorCodeParams):
    """The params of `BilinearAUC`: a pytree.

    Attributes:
      vector: the params of the vectors' randomizer.
      columns: float32[2 d, d], the vector of each value.
    """

    vector: Any
    columns: jax.Array | np.ndarray

    def _held(self, value):
        """The label and the vector of a user."""
        columns = jnp.asarray(self.columns)
        value = jnp.clip(jnp.asarray(value, jnp.int32), 0, columns.shape[0] - 1)
        return value >= columns.shape[1], columns[value]

    def from_bits(self, words, value):
        """One user's report.

        Args:
          words: uint32[num_words].
          value: int32[] in [0, 2 d), the cell; clamped into it.

        Returns:
          float32[..]: the label, which is public, and the randomizer's report.
        """
        label, vector = self._held(value)
        return _report(label, self.vector.from_bits(words, vector))

    def privatize(self, key, value):
        """One user's report, its words drawn from `key`; see `from_bits`."""
        label, vector = self._held(value)
        return _report(label, self.vector.privatize(key, vector))

    def tally(self, reports, mask):
        """The randomizer's tallies of the negative and the positive users, stacked."""
        positive, vectors = reports[:, 0] > 0.5, reports[:, 1:]
        sides = [self.vector.tally(vectors, mask & (positive == label)) for label in (False, True)]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *sides)

    @compiled_in_float64
    def estimate(self, tally):
        """The estimated area, float[]."""
        means = []
        for side in range(2):
            own = jax.tree.map(lambda leaf, side=side: leaf[side], tally)
            mean = self.vector.estimate(own)
            means.append(jnp.where(own["users"].f64() > 0, mean, 0.0))
        return 0.5 + jnp.sum(means[0] * means[1])

    @compiled_in_float64
    def sample_tally(self, key, counts: Count, inputs=None):
        """A tally drawn at once, exact in law; see the randomizer's.

        Args:
          key: a key; it is folded.
          counts: Count[2 d], the number of users with each value.
          inputs: unused; values are cells.
        """
        del inputs
        columns = jnp.asarray(self.columns)
        d, sides = columns.shape[1], []
        for side in range(2):
            part = slice(side * d, (side + 1) * d)
            stream = jax.random.fold_in(key, side)
            sides.append(self.vector.sample_tally(stream, counts[part], columns[part]))
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *sides)

    def tally_cost(self, num_users: int, num_bins: int) -> float:
        """Nanoseconds of `sample_tally`, roughly."""
        return self.vector.tally_cost(num_users, num_bins)


def _report(label, vector):
    return jnp.concatenate([label.astype(vector.dtype)[None], vector])
