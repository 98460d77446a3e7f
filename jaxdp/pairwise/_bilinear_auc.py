"""The area under the ROC curve as a bilinear form of two means of vectors."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._spec import check_counts, check_epsilon, check_int, check_probabilities
from .._x64 import in_float64
from ..linear._encoded import VectorCodeParams, covariance_form, radius_of
from ..random import Count
from ..randomizers import PrivUnitG
from ._auc import AUC
from ._auc_protocol import AUCProtocol
from ._hierarchical_auc_moments import Tree, sampling_variance

MAX_SCORES = 2**12


@dataclasses.dataclass(frozen=True, slots=True)
class BilinearAUC(AUCProtocol):
    """The area under the ROC curve from one vector a user, with all of epsilon; labels are public.

    With ties counted half the area is `1/2 + h+^T (S / 2) h-` for the normalised histograms of the
    scores of both classes and `S[s, t] = sign(s - t)`. With `S / 2 = L^T R`, a positive user
    reports the column of L of the own score, a negative user that of R, and the estimate is

        `1/2 + (mean of the positive reports) . (mean of the negative reports)`.

    S is a negacyclic matrix of eigenvalues `-i cot(pi (2 k + 1) / (2 d))`, so that the roots
    `L = |S / 2|**(1/2)` and `R = |S / 2|**(-1/2) (S / 2)` have columns of equal norms, the least
    there are: their square is `gamma_2(S) / 2 = sum_k |cot(pi (2 k + 1) / (2 d))| / (2 d)`, about
    `(ln d) / pi + 0.26`.

    Formal guarantees:
      * Privacy: that of the vectors' randomizer, pure epsilon-LDP, of the score.
      * Bias: none, for every data set, up to float32.
      * `variance(counts)`: the exact mean squared error. If reports have the covariance `s**2 I` it
        is `s**2 (|R h-|**2 / n+ + |L h+|**2 / n-) + d s**4 / (n+ n-)`.
      * `worst_case_variance(n, n+)`: exact, attained where each class has one score.

    Edge cases:
      ====================================  ======================================================
      users of one label only               ValueError; inside jit the estimate is 1/2
      value outside the domain              ValueError from a Population; clamped inside jit
      epsilon outside of [1e-4, 30]         ValueError from `PrivUnitG`
      ====================================  ======================================================

    Args:
      num_scores: d, 2 to 2**12: vectors are of dimension d, and the columns take 8 d**2 bytes.
      epsilon: privacy parameter, > 0.

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
      needs one report.
    """

    num_scores: int
    epsilon: float

    def __post_init__(self):
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
        return PrivUnitG(self.num_scores, self.epsilon, _radius(self.num_scores))

    def build(self, word_bits: int = 32) -> "BilinearAUCParams":
        """The params."""
        left, right = sign_factors(self.num_scores)
        columns = np.concatenate([right, left], axis=1).T.astype(np.float32)
        return BilinearAUCParams(self.randomizer.build(word_bits), columns)

    def exact_epsilon(self) -> float:
        """The realised privacy parameter, that of the randomizer; at most `epsilon`."""
        return self.randomizer.exact_epsilon()

    def variance(self, counts, inputs=None) -> np.ndarray:
        """The mean squared error for given users, float64[]; exact.

        Args:
          counts: int[2 d], the number of users with each value.
          inputs: None; values are cells.
        """
        table = self._table(check_counts(counts), inputs).astype(np.float64)
        return np.asarray(self._noise(table, iid=False))

    def population_variance(self, probabilities, num_users: int, inputs=None) -> np.ndarray:
        """The mean squared error about `population_truth` for independent users, float64[].

        Sampling is included. Exact given that the sizes of the classes are as expected.

        Args:
          probabilities: float[2 d], of each value.
          num_users: n.
          inputs: None; values are cells.
        """
        n = check_int("num_users", num_users, low=2)
        table = n * self._table(check_probabilities(probabilities), inputs)
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
        """The largest mean squared error over all data sets; exact.

        Args:
          num_users: n, at least 2.
          num_positive: the positive users among them; None for any number, of which 1 is the worst.
        """
        n = check_int("num_users", num_users, low=2)
        positive = 1 if num_positive is None else num_positive
        positive = check_int("num_positive", positive, low=1, high=n - 1)
        table = np.zeros(self.shape)
        table[:, 0] = n - positive, positive
        return self._noise(table, iid=False)

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


def _radius(num_scores: int) -> float:
    return radius_of(np.concatenate(sign_factors(num_scores), axis=1).T.astype(np.float32))


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
        positive = reports["positive"]
        sides = [
            self.vector.tally(reports["vector"], mask & (positive == p)) for p in (False, True)
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *sides)

    @in_float64
    def estimate(self, tally):
        """The estimated area, float[]."""
        means = []
        for side in range(2):
            own = jax.tree.map(lambda leaf, side=side: leaf[side], tally)
            mean = self.vector.estimate(own)
            means.append(jnp.where(own["users"].f64() > 0, mean, 0.0))
        return 0.5 + jnp.sum(means[0] * means[1])

    @in_float64
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
