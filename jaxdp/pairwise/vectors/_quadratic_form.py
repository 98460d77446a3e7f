"""Quadratic forms in the vectors that users report: statistics of pairs, and their exact errors.

The report of a user who holds the value v leads to a vector y of mean `L_v` and covariance
`Sigma_v`, independent of the other users'. A symmetric matrix D, a vector g and a constant c make
of it the statistic of pairs

    W[v, w] = L_v^T D L_w + g^T L_v + g^T L_w + c.

With S the sum of the vectors of n users, its averages are estimated by

    U-form:  (S^T D S - sum_i y_i^T D y_i) / (n (n - 1)) + 2 g^T S / n + c,
    V-form:  (S^T D S - n r) / n**2 + 2 g^T S / n + c,

r being the middle of the range of `tr(D Sigma_v)` over the values v. The U-form has no bias; the
V-form has none where `tr(D Sigma_v)` is the same for all v, and else at most half of that range
over n. The terms in g cost nothing: a user who reports `L_v - centre` reports `L_v` as well.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Float32

from ..._checks import Instance, Maker, made_by
from ..._prediction import Prediction
from ...linear import EmbeddedRound
from ...randomizers import MeanRandomizer, SelfMoments
from ..kernels._exact import Form
from ..kernels._kernel import Kernel, linearised_error

VectorMaker = Callable[..., MeanRandomizer]
"""Makes the spec of a randomizer of vectors in a ball from the keywords dim, epsilon, radius."""

RANDOMIZER = Maker("a callable such as PrivUnitG")
"""The field `randomizer`, a `VectorMaker`."""

_ROUNDING = 1e-6  # of an error: what a bias that is no more than rounding adds

_VECTORS = Instance(
    MeanRandomizer, "one that makes randomizers of vectors in an L2 ball, such as PrivUnitG"
)


@dataclasses.dataclass(frozen=True)
class QuadraticForm:
    """A statistic of pairs as a quadratic form of vectors.

    Attributes:
      weights: D, symmetric float64[l, l]; or float64[l], if it is diagonal.
      linear: g, float64[l].
      constant: c.
    """

    weights: np.ndarray
    linear: np.ndarray
    constant: float

    @property
    def dense(self) -> Float[np.ndarray, "l l"]:
        """D with all of its entries."""
        return np.diag(self.weights) if self.weights.ndim == 1 else self.weights

    def slopes(self, vectors: Float[np.ndarray, "k l"]) -> Float[np.ndarray, "k l"]:
        """`D L + g`, half of the gradient of the statistic in the mean vector."""
        return _times(vectors, self.weights) + self.linear

    def matrix(self, vectors: Float[np.ndarray, "k l"]) -> Float[np.ndarray, "k k"]:
        """W, for the vectors of the values."""
        rows = vectors @ self.linear
        both = _times(vectors, self.weights) @ vectors.T
        return both + rows[:, None] + rows + self.constant

    @staticmethod
    def combined(
        forms: Sequence["QuadraticForm"], factors: Float[np.ndarray, " m"]
    ) -> "QuadraticForm":
        """The sum of forms with factors."""
        pairs = list(zip(factors, forms, strict=True))
        weights = np.sum([s * form.weights for s, form in pairs], axis=0)
        linear = np.sum([s * form.linear for s, form in pairs], axis=0)
        return QuadraticForm(weights, linear, float(sum(s * form.constant for s, form in pairs)))


@dataclasses.dataclass(frozen=True)
class Reports:
    """The first two moments of the vector of a user who holds v.

    The covariance is `a I + b sum_p f_pv f_pv^T`; of one report of a randomizer with a
    `covariance_form`, f is the mean itself.

    Attributes:
      means: L, float64[k, l].
      isotropic: a.
      along: b.
      factors: float64[p, k, l], the vectors f; None for the means.
    """

    means: np.ndarray
    isotropic: float = 0.0
    along: float = 0.0
    factors: np.ndarray | None = None

    @property
    def _factors(self) -> np.ndarray:
        return self.means[None] if self.factors is None else self.factors

    def times(self, vectors: Float[np.ndarray, "k l"]) -> Float[np.ndarray, "k l"]:
        """`Sigma_v x_v`."""
        inner = np.sum(self._factors * vectors, axis=2)  # f_pv^T x_v
        return self.isotropic * vectors + self.along * np.einsum("pv,pvi->vi", inner, self._factors)

    def spread(self, vectors: Float[np.ndarray, "k l"]) -> Float[np.ndarray, " k"]:
        """`x_v^T Sigma_v x_v`."""
        return np.sum(vectors * self.times(vectors), axis=1)

    def total(self, counts: Float[np.ndarray, " k"]) -> Float[np.ndarray, "l l"]:
        """`sum_v counts_v Sigma_v`."""
        outer = sum((rows.T * counts) @ rows for rows in self._factors)
        return self.isotropic * counts.sum() * np.eye(self.means.shape[1]) + self.along * outer

    def traces(self, weights: Float[np.ndarray, "l *l"]) -> Float[np.ndarray, " k"]:
        """`tr(D Sigma_v)`."""
        inner = np.sum(_times(self._factors, weights) * self._factors, axis=(0, 2))
        trace = weights.sum() if weights.ndim == 1 else np.trace(weights)
        return self.isotropic * trace + self.along * inner

    def level(self, weights: Float[np.ndarray, "l *l"]) -> float:
        """r, the middle of the range of `tr(D Sigma_v)`."""
        traces = self.traces(weights)
        return float(traces.min() + traces.max()) / 2

    def squares(self, weights: Float[np.ndarray, "l *l"]) -> Float[np.ndarray, " k"]:
        """`tr(D Sigma_v D Sigma_v)`."""
        turned = _times(self._factors, weights)
        inner = np.einsum("pvi,qvi->vpq", turned, self._factors)
        mixed = 2 * self.isotropic * np.sum(turned**2, axis=(0, 2))
        # a**2 |D|**2 + 2 a b sum_p |D f_p|**2 + b**2 sum_pq (f_p^T D f_q)**2
        both = self.along * (mixed + self.along * np.sum(inner**2, axis=(1, 2)))
        return self.isotropic**2 * np.sum(weights**2) + both

    def largest(self) -> Float[np.ndarray, " k"]:
        """The largest eigenvalue of `Sigma_v`, or a where b < 0."""
        # sum_p f_p f_p^T has the nonzero eigenvalues of the Gram matrix of the f_p.
        inner = np.einsum("pvi,qvi->vpq", self._factors, self._factors)
        return self.isotropic + max(self.along, 0.0) * np.linalg.norm(inner, 2, axis=(1, 2))


def expectation(
    quadratic: QuadraticForm, reports: Reports, counts: Float[np.ndarray, " k"], form: Form
) -> float:
    """The mean of the estimate for given users.

    Args:
      quadratic: the statistic.
      reports: what users report.
      counts: the number of users with each value.
      form: "u" or "v".
    """
    n, total = counts.sum(), counts @ reports.means
    square, pairs = _times(total, quadratic.weights) @ total, n * n
    if form == "u":
        single = np.sum(_times(reports.means, quadratic.weights) * reports.means, axis=1)
        square, pairs = square - counts @ single, n * (n - 1)
    else:
        # E z^T D z of each user, of which r is taken out
        traces = reports.traces(quadratic.weights)
        square += counts @ (traces - reports.level(quadratic.weights))
    return float(square / pairs + 2 * (quadratic.linear @ total) / n + quadratic.constant)


def variance(
    quadratic: QuadraticForm,
    reports: Reports,
    counts: Float[np.ndarray, " k"],
    moments: SelfMoments | None = None,
) -> float:
    """The variance of the estimate for given users; exact.

    With `e_i = 2 D (s - L_i) + 2 (n - 1) g`, s the sum of the `L_i`, that of the U-form is
    `(sum_i e_i^T Sigma_i e_i + 2 sum_{i != j} tr(D Sigma_i D Sigma_j)) / (n (n - 1))**2`. The
    V-form also holds the terms of a single user, for which it needs their moments.

    Args:
      quadratic: the statistic.
      reports: what users report.
      counts: the number of users with each value.
      moments: of the noise of one report, for the V-form; None for the U-form.
    """
    n, total = counts.sum(), counts @ reports.means
    # sum_{i != j} tr(D Sigma_i D Sigma_j)
    spread = _times(reports.total(counts), quadratic.weights)
    pairs = np.sum(spread * spread.T) - counts @ reports.squares(quadratic.weights)
    if moments is None:
        slopes = 2 * _times(total - reports.means, quadratic.weights)
        slopes += 2 * (n - 1) * quadratic.linear
        return float((counts @ reports.spread(slopes) + 2 * pairs) / (n * (n - 1)) ** 2)
    # The V-form: a user adds z^T D z + e^T z, e the same for all, with Cov(z^T D z, z) = `third`.
    slope = 2 * (_times(total, quadratic.weights) + n * quadratic.linear)
    slopes = np.broadcast_to(slope, reports.means.shape)
    single = reports.spread(slopes) + moments.fourth + 2 * moments.third @ slope
    return float((counts @ single + 2 * pairs) / n**4)


def iid_variance(
    quadratic: QuadraticForm,
    reports: Reports,
    p: Float[np.ndarray, " k"],
    num_users: float,
    moments: SelfMoments | None = None,
) -> float:
    """The variance of the estimate for users drawn independently from a distribution; exact.

    The vectors are then independent with mean `m = sum_v p_v L_v` and the covariance T of the
    mixture. With `e = 2 (n - 1) (D m + g)` the variance of the U-form is
    `(n e^T T e + 2 n (n - 1) tr(D T D T)) / (n (n - 1))**2`.

    Args:
      quadratic: the statistic.
      reports: what users report.
      p: the probabilities of the values.
      num_users: n.
      moments: of the noise of one report, for the V-form; None for the U-form.
    """
    n, mean = float(num_users), p @ reports.means
    off = reports.means - mean
    mixed = reports.total(p) + (off.T * p) @ off
    turned = _times(mixed, quadratic.weights)
    pairs = np.sum(turned * turned.T)
    slope = 2 * (_times(mean, quadratic.weights) + quadratic.linear)
    if moments is None:
        return float(slope @ mixed @ slope / n + 2 * pairs / (n * (n - 1)))
    # A user's vector is off the mean by x = off_v + z; q = x^T D x.
    bent = _times(off, quadratic.weights)
    level = np.sum(bent * off, axis=1) + reports.traces(quadratic.weights)
    noise = moments.fourth + 4 * reports.spread(bent) + 4 * np.sum(bent * moments.third, axis=1)
    # Var q over values and noise, and E[q x]
    fourth = p @ (noise + level**2) - (p @ level) ** 2
    third = p @ (level[:, None] * off + 2 * reports.times(bent) + moments.third)
    whole = n**3 * (slope @ mixed @ slope) + 2 * n * (n - 1) * pairs
    return float((whole + n * fourth + 2 * n**2 * (slope @ third)) / n**4)


def worst_case_variance(
    quadratic: QuadraticForm,
    reports: Reports,
    num_users: int,
    moments: SelfMoments | None = None,
) -> float:
    """The largest variance of the estimate over all data sets of a size, or a bound on it.

    Exact for the U-form of isotropic reports. There it is `4 a B**2 / n + 2 a**2 |D|**2 / (n (n -
    1))` with the largest norm B of the slopes `D L_v + g`: the slopes `e_i` are averages of these,
    which all are the largest one where all users hold its value.
    """
    n = float(num_users)
    steepest = float(np.linalg.norm(quadratic.slopes(reports.means), axis=1).max())
    noise = float(reports.largest().max())
    linear = 4 * noise * steepest**2 / n
    # With E = |D|, `tr(D S D T) <= tr(E S E S)**(1/2) tr(E T E T)**(1/2)` for covariances S and T,
    # by Cauchy-Schwarz; not so with D itself, which may vanish on each and not between them.
    degenerate = 2 * float(reports.squares(_absolute(quadratic.weights)).max())
    if moments is None:
        return linear + degenerate / (n * (n - 1))
    third = float(np.linalg.norm(moments.third, axis=1).max())
    single = (float(moments.fourth.max()) + 4 * n * steepest * third) / n**3
    return linear + degenerate * (n - 1) / n**3 + single


def _times(vectors: np.ndarray, weights: Float[np.ndarray, "l *l"]) -> np.ndarray:
    """`x D` for vectors x on the last axis."""
    return vectors * weights if weights.ndim == 1 else vectors @ weights


def _absolute(weights: Float[np.ndarray, "l *l"]) -> Float[np.ndarray, "l *l"]:
    """The positive semidefinite root of `D D`."""
    if weights.ndim == 1:
        return np.abs(weights)
    values, vectors = np.linalg.eigh(weights)
    return (vectors * np.abs(values)) @ vectors.T


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A statistic, and how it is estimated; its errors.

    Attributes:
      kernel: the statistic.
      forms: of the averages that it is a function of.
      reports: what users report.
      moments: of the noise of one report, for a form of the V-form; None for the U-form.
    """

    kernel: Kernel
    forms: tuple[QuadraticForm, ...]
    reports: Reports
    moments: Callable[[QuadraticForm], SelfMoments] | None = None

    @property
    def form(self) -> Form:
        """Whether the U-form or the V-form is estimated."""
        return "u" if self.moments is None else "v"

    def matrices(self) -> Float[np.ndarray, "m k k"]:
        """The kernels of the averages that are estimated."""
        return np.stack([quadratic.matrix(self.reports.means) for quadratic in self.forms])

    def _moments(self, quadratic: QuadraticForm) -> SelfMoments | None:
        return None if self.moments is None else self.moments(quadratic)

    def mean_squared_error(
        self, counts: Float[np.ndarray, " k"], truth: float
    ) -> Float[np.ndarray, ""]:
        """The mean squared error for given users; exact, or by the delta method."""
        means = [expectation(each, self.reports, counts, self.form) for each in self.forms]

        def noise(slopes: np.ndarray) -> float:
            quadratic = QuadraticForm.combined(self.forms, slopes)
            return variance(quadratic, self.reports, counts, self._moments(quadratic))

        return linearised_error(self.kernel, np.array(means), int(counts.sum()), truth, noise)

    def population_error(
        self, p: Float[np.ndarray, " k"], num_users: int, truth: float
    ) -> Float[np.ndarray, ""]:
        """The mean squared error for independent users; exact, or by the delta method."""
        matrices, reports = self.matrices(), self.reports
        means = matrices @ p @ p
        if self.form == "v":  # n pairs of users with themselves
            off = [p @ reports.traces(q.weights) - reports.level(q.weights) for q in self.forms]
            means += (np.diagonal(matrices, axis1=1, axis2=2) @ p - means + off) / num_users

        def noise(slopes: np.ndarray) -> float:
            quadratic = QuadraticForm.combined(self.forms, slopes)
            return iid_variance(quadratic, reports, p, num_users, self._moments(quadratic))

        return linearised_error(self.kernel, means, num_users, truth, noise)

    def worst_error(self, matrix: Float[np.ndarray, "k k"], num_users: int) -> Prediction:
        """The largest error over all data sets, of the only average in place of a matrix.

        Exact as `worst_case_variance` is, but for the rounding of vectors; otherwise a bound.
        """
        (quadratic,), reports = self.forms, self.reports
        bias = float(np.abs(quadratic.matrix(reports.means) - matrix).max())
        if self.form == "v":
            bias += float(np.ptp(reports.traces(quadratic.weights))) / (2 * num_users)
        moments = self._moments(quadratic)
        largest = worst_case_variance(quadratic, reports, num_users, moments)
        exact = moments is None and reports.along == 0 and bias**2 <= _ROUNDING * largest
        return Prediction(largest + bias**2, "exact" if exact else "bound")


def shared_norms(
    norms: Float[np.ndarray, " m"], weights: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """The norms, at most 1, of the vectors of several averages in one report.

    Vectors of squared norm s_j give average j the error `norm_j**2 sum(s) / s_j`, of which the
    weighted sum is smallest where s_j is in proportion to `norm_j sqrt(weight_j)`.

    Args:
      norms: of each average where it has a report of its own; 0 for one that needs none.
      weights: of their squared errors, > 0.
    """
    shares = np.sqrt(norms * np.sqrt(weights))
    return np.where(norms > 0, shares / (shares.max() or 1.0), 0.0)


def randomizer_of(
    make: VectorMaker, vectors: Float32[np.ndarray, "k l"], epsilon: float
) -> MeanRandomizer:
    """The randomizer of the smallest ball that holds some vectors.

    Raises:
      ValueError: it does not take these vectors: `PrivUnit(padded=False)` asks for equal norms.
    """
    radius = EmbeddedRound.radius_of(vectors)
    made = make(dim=vectors.shape[1], epsilon=epsilon, radius=radius)
    made.check_values("the vectors of the values", vectors)
    return made


def check_randomizer(
    make: VectorMaker, dim: int, epsilon: float, *, self_moments: bool = False
) -> MeanRandomizer:
    """The randomizer that `make` makes of the unit ball, unbiased and with a `covariance_form`.

    Args:
      make: from the keywords dim, epsilon and radius.
      dim: the largest there may be.
      epsilon: the budget of a report.
      self_moments: whether the moments of `z^T D z` must be known.
    """
    made = _VECTORS(
        "randomizer",
        made_by("randomizer", make, _VECTORS.wanted, dim=dim, epsilon=epsilon, radius=1.0),
    )
    if made.value_shape != (dim,) or made.covariance_form() is None:
        raise TypeError(f"randomizer must be {_VECTORS.wanted}, got one that makes {made!r}.")
    if self_moments and made.self_moments(np.zeros((1, dim)), np.eye(dim)) is None:
        raise ValueError(
            "randomizer must know the moments of its noise (self_moments) with form='v', as "
            f"PrivUnitG, CandidateResponse and Gaussian do, got {type(made).__name__}; or use "
            "form='u'."
        )
    return made
