"""Exact moments of quadratic forms in the vectors that users report.

The report of a user who holds the value v leads to a vector y of mean `L_v` and covariance
`Sigma_v`, independent of the other users'. A symmetric matrix D, a vector g and a constant c make
of it the statistic of pairs

    W[v, w] = L_v^T D L_w + g^T L_v + g^T L_w + c.

With S the sum of the vectors of n users, its averages are estimated without bias by

    U-form:  (S^T D S - sum_i y_i^T D y_i) / (n (n - 1)) + 2 g^T S / n + c,
    V-form:  (S^T D S - n r) / n**2 + 2 g^T S / n + c,

the latter where `tr(D Sigma_v) = r` for every v. The terms in g cost nothing: a user who reports
`L_v - centre` reports `L_v` as well.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..randomizers._gaussian import Gaussian
from ..randomizers._mean import MeanRandomizer
from ..randomizers._priv_unit import PrivUnit
from ..randomizers._vector import PaddedCapRandomizer


@dataclasses.dataclass(frozen=True)
class Form:
    """A statistic of pairs as a quadratic form of vectors.

    Attributes:
      weights: D, symmetric float64[l, l].
      linear: g, float64[l].
      constant: c.
    """

    weights: np.ndarray
    linear: np.ndarray
    constant: float

    def slopes(self, vectors: np.ndarray) -> np.ndarray:
        """`D L + g`, half of the gradient of the statistic in the mean vector; float64[k, l]."""
        return vectors @ self.weights + self.linear

    def matrix(self, vectors: np.ndarray) -> np.ndarray:
        """W, float64[k, k], for the vectors float64[k, l] of the values."""
        own = vectors @ self.linear
        return vectors @ self.weights @ vectors.T + own[:, None] + own + self.constant

    @staticmethod
    def combined(forms: Sequence["Form"], factors: np.ndarray) -> "Form":
        """The sum of forms with factors."""
        pairs = list(zip(factors, forms, strict=True))
        weights = np.sum([s * form.weights for s, form in pairs], axis=0)
        linear = np.sum([s * form.linear for s, form in pairs], axis=0)
        return Form(weights, linear, float(sum(s * form.constant for s, form in pairs)))


class OwnMoments(NamedTuple):
    """What V-forms need to know of `q = z^T D z`, z the noise of one report.

    Attributes:
      third: E[q z], float64[k, l].
      fourth: Var q, float64[k].
    """

    third: np.ndarray
    fourth: np.ndarray


@dataclasses.dataclass(frozen=True)
class Reports:
    """The first two moments of the vector of a user who holds v.

    Attributes:
      means: L, float64[k, l].
      isotropic: a, and
      along: b of the covariances `a I + b L_v L_v^T`; unused where
      covariances: float64[k, l, l] is given.
    """

    means: np.ndarray
    isotropic: float = 0.0
    along: float = 0.0
    covariances: np.ndarray | None = None

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """`Sigma_v x_v`, float64[k, l]."""
        if self.covariances is not None:
            return np.einsum("vij,vj->vi", self.covariances, vectors)
        inner = np.sum(self.means * vectors, axis=1)
        return self.isotropic * vectors + self.along * inner[:, None] * self.means

    def spread(self, vectors: np.ndarray) -> np.ndarray:
        """`x_v^T Sigma_v x_v`, float64[k]."""
        return np.sum(vectors * self.times(vectors), axis=1)

    def total(self, counts: np.ndarray) -> np.ndarray:
        """`sum_v counts_v Sigma_v`, float64[l, l]."""
        if self.covariances is not None:
            return np.tensordot(counts, self.covariances, axes=1)
        identity = self.isotropic * counts.sum() * np.eye(self.means.shape[1])
        return identity + self.along * (self.means.T * counts) @ self.means

    def traces(self, weights: np.ndarray) -> np.ndarray:
        """`tr(D Sigma_v)`, float64[k]."""
        if self.covariances is not None:
            return np.einsum("ij,vij->v", weights, self.covariances)
        own = np.sum((self.means @ weights) * self.means, axis=1)
        return self.isotropic * np.trace(weights) + self.along * own

    def squares(self, weights: np.ndarray) -> np.ndarray:
        """`tr(D Sigma_v D Sigma_v)`, float64[k]."""
        if self.covariances is not None:
            product = weights @ self.covariances
            return np.einsum("vij,vji->v", product, product)
        turned = self.means @ weights
        own = np.sum(turned * self.means, axis=1)
        cross = 2 * self.isotropic * self.along * np.sum(turned**2, axis=1)
        return self.isotropic**2 * np.sum(weights**2) + cross + (self.along * own) ** 2

    def largest(self) -> np.ndarray:
        """A bound on the largest eigenvalue of `Sigma_v`, float64[k]."""
        if self.covariances is not None:
            return np.linalg.norm(self.covariances, 2, axis=(1, 2))
        return self.isotropic + max(self.along, 0.0) * np.sum(self.means**2, axis=1)


def expectation(form: Form, reports: Reports, counts: np.ndarray, kind: str) -> float:
    """The mean of the estimate for given users, by the U-form or the V-form.

    Args:
      form: the statistic.
      reports: what users report.
      counts: float64[k], the number of users with each value.
      kind: "u" or "v".
    """
    n, total = counts.sum(), counts @ reports.means
    square, pairs = total @ form.weights @ total, n * n
    if kind == "u":
        own = np.sum((reports.means @ form.weights) * reports.means, axis=1)
        square, pairs = square - counts @ own, n * (n - 1)
    return float(square / pairs + 2 * (form.linear @ total) / n + form.constant)


def variance(
    form: Form, reports: Reports, counts: np.ndarray, own: OwnMoments | None = None
) -> float:
    """The variance of the estimate for given users; exact.

    With `e_i = 2 D (s - L_i) + 2 (n - 1) g`, s the sum of the `L_i`, that of the U-form is
    `(sum_i e_i^T Sigma_i e_i + 2 sum_{i != j} tr(D Sigma_i D Sigma_j)) / (n (n - 1))**2`. The
    V-form also holds the terms of a single user, for which it needs their moments.

    Args:
      form: the statistic.
      reports: what users report.
      counts: float64[k], the number of users with each value.
      own: moments of the noise of one report for the V-form; None for the U-form.
    """
    n, total = counts.sum(), counts @ reports.means
    spread = form.weights @ reports.total(counts)
    pairs = np.sum(spread * spread.T) - counts @ reports.squares(form.weights)
    if own is None:
        slopes = 2 * ((total - reports.means) @ form.weights + (n - 1) * form.linear)
        return float((counts @ reports.spread(slopes) + 2 * pairs) / (n * (n - 1)) ** 2)
    slope = 2 * (form.weights @ total + n * form.linear)
    slopes = np.broadcast_to(slope, reports.means.shape)
    single = reports.spread(slopes) + own.fourth + 2 * own.third @ slope
    return float((counts @ single + 2 * pairs) / n**4)


def iid_variance(
    form: Form, reports: Reports, p: np.ndarray, num_users: float, own: OwnMoments | None = None
) -> float:
    """The variance of the estimate for users drawn independently from a distribution; exact.

    The vectors are then independent with mean `m = sum_v p_v L_v` and the covariance T of the
    mixture. With `e = 2 (n - 1) (D m + g)` the variance of the U-form is
    `(n e^T T e + 2 n (n - 1) tr(D T D T)) / (n (n - 1))**2`.

    Args:
      form: the statistic.
      reports: what users report.
      p: float64[k], the probabilities of the values.
      num_users: n.
      own: moments of the noise of one report for the V-form; None for the U-form.
    """
    n, mean = float(num_users), p @ reports.means
    off = reports.means - mean
    mixed = reports.total(p) + (off.T * p) @ off
    turned = form.weights @ mixed
    pairs, slope = np.sum(turned * turned.T), 2 * (form.weights @ mean + form.linear)
    if own is None:
        return float(slope @ mixed @ slope / n + 2 * pairs / (n * (n - 1)))
    # A user's vector is off the mean by x = off_v + z; q = x^T D x.
    bent = off @ form.weights
    level = np.sum(bent * off, axis=1) + reports.traces(form.weights)
    noise = own.fourth + 4 * reports.spread(bent) + 4 * np.sum(bent * own.third, axis=1)
    fourth = p @ (noise + level**2) - (p @ level) ** 2
    third = p @ (level[:, None] * off + 2 * reports.times(bent) + own.third)
    whole = n**3 * (slope @ mixed @ slope) + 2 * n * (n - 1) * pairs
    return float((whole + n * fourth + 2 * n**2 * (slope @ third)) / n**4)


def worst_case_variance(
    form: Form, reports: Reports, num_users: int, own: OwnMoments | None = None
) -> float:
    """The largest variance of the estimate over all data sets of a size, or a bound on it.

    Exact for the U-form of isotropic reports. There it is `4 a B**2 / n + 2 a**2 |D|**2 / (n (n -
    1))` with the largest norm B of the slopes `D L_v + g`: the slopes `e_i` are averages of these,
    which all are the largest one where all users hold its value.
    """
    n = float(num_users)
    steepest = float(np.linalg.norm(form.slopes(reports.means), axis=1).max())
    noise = float(reports.largest().max())
    linear = 4 * noise * steepest**2 / n
    # With E = |D|, `tr(D S D T) <= tr(E S E S)**(1/2) tr(E T E T)**(1/2)` for covariances S and T,
    # by Cauchy-Schwarz; not so with D itself, which may vanish on each and not between them.
    values, vectors = np.linalg.eigh(form.weights)
    degenerate = 2 * float(reports.squares((vectors * np.abs(values)) @ vectors.T).max())
    if own is None:
        return linear + degenerate / (n * (n - 1))
    third = float(np.linalg.norm(own.third, axis=1).max())
    single = (float(own.fourth.max()) + 4 * n * steepest * third) / n**3
    return linear + degenerate * (n - 1) / n**3 + single


def own_moments(
    randomizer: MeanRandomizer, means: np.ndarray, weights: np.ndarray
) -> OwnMoments | None:
    """The moments of `z^T D z` for the noise z of a report; None where they are not known.

    Args:
      randomizer: of vectors.
      means: float64[k, l], the vectors of the values.
      weights: D, float64[l, l].
    """
    size = np.sum(weights**2)
    if isinstance(randomizer, Gaussian):
        fourth = np.full(len(means), 2 * randomizer.sigma**4 * size)
        return OwnMoments(np.zeros(means.shape), fourth)
    if not isinstance(randomizer, PaddedCapRandomizer):
        return None
    # A report is (r / m) (X u + R V) in one more dimension, V independent of X and uniform across
    # the unit vector u of the padded vector, or Gaussian with R = 1.
    dim = means.shape[1] + 1 if isinstance(randomizer, PrivUnit) else None
    law = _along(randomizer, dim)
    scale = randomizer.radius / randomizer.threshold
    unit = means / randomizer.radius
    turned = unit @ weights
    axial, bent = np.sum(turned * unit, axis=1), np.sum(turned**2, axis=1)
    trace = np.trace(weights) - axial  # of D across u
    side = turned - axial[:, None] * unit  # D u across u
    third = (law.cube * axial + law.skew * trace)[:, None] * unit + 2 * law.skew * side
    mean = law.square * axial + law.across * trace
    fourth = law.fourth * axial**2 + law.both * (4 * (bent - axial**2) + 2 * axial * trace)
    fourth = fourth + law.quartic * (2 * (size - 2 * bent + axial**2) + trace**2) - mean**2
    return OwnMoments(scale**3 * third, scale**4 * fourth)


class _Along(NamedTuple):
    """Moments of x = X - m and of the part across: R**2 = 1 - X**2, or 1.

    With dimension d of the part across, w2 = 1 / d and w4 = 1 / (d (d + 2)), or both 1 if Gaussian.
    """

    square: float  # E[x**2]
    cube: float
    fourth: float
    across: float  # w2 E[R**2]
    skew: float  # w2 E[x R**2]
    both: float  # w2 E[x**2 R**2]
    quartic: float  # w4 E[R**4]


def _along(randomizer: PaddedCapRandomizer, dim: int | None) -> _Along:
    """The moments of the coordinate X along u, given the cap {X >= gamma} with probability p.

    By parts, `E[X**j; X >= gamma] = ((j - 1) E[X**(j-2); ..] + (dim - 1) h gamma**(j-1)) / (j + dim
    - 2)` on the sphere in R^dim; for the Gaussian law without the factors of dim.
    """
    cap = randomizer._solution().cap
    keep, _ = randomizer.probabilities()
    inside, whole = [cap.mass, cap.moment], [1.0, 0.0]
    for j in (2, 3, 4):
        edge = cap.moment * cap.gamma ** (j - 1)
        below, at_edge = (j - 1, 1) if dim is None else (j - 1, dim - 1)
        divisor = 1 if dim is None else j + dim - 2
        inside.append((below * inside[j - 2] + at_edge * edge) / divisor)
        whole.append(below * whole[j - 2] / divisor)
    near, far = keep / cap.mass, (1 - keep) / (1 - cap.mass)
    raw = [far * w + (near - far) * i for w, i in zip(whole, inside, strict=True)]
    _, m, m2, m3, m4 = raw
    square, cube = m2 - m**2, m3 - 3 * m * m2 + 2 * m**3
    fourth = m4 - 4 * m * m3 + 6 * m**2 * m2 - 3 * m**4
    if dim is None:
        return _Along(square, cube, fourth, 1.0, 0.0, square, 1.0)
    d = dim - 1
    skew = -(m3 - m * m2)
    both = square - (m4 - 2 * m * m3 + m**2 * m2)
    return _Along(
        square,
        cube,
        fourth,
        (1 - m2) / d,
        skew / d,
        both / d,
        (1 - 2 * m2 + m4) / (d * (d + 2)),
    )
