"""Exact moments of what one user adds to the counts that a frequency oracle estimates.

A user with value v adds `y = e_v + z` with z of mean 0 and covariance `S_v`. The functions here
answer for all values at once, without an array of k**3 numbers.
"""

import abc
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..random import Count
from ..randomizers import LocalHashing, SubsetSelection, UnaryEncoding
from ..randomizers._params import IndependentUsersParams
from ..randomizers._support import FrequencyOracle

_CHUNK = 2**22  # numbers held at a time


class OracleLaw(abc.ABC):
    """The moments of z, by the user's value v in {0, .., k-1}."""

    @abc.abstractmethod
    def forms(self, queries: np.ndarray) -> np.ndarray:
        """`w^T S_v w` of each row w of float64[m, k], float64[m, k]."""

    @abc.abstractmethod
    def times(self, rows: np.ndarray) -> np.ndarray:
        """`S_v w_v` of row v of float64[k, k], float64[k, k]."""

    @abc.abstractmethod
    def traces(self, weights: np.ndarray) -> np.ndarray:
        """`tr(W S_v)` for a symmetric W, float64[k]."""

    @abc.abstractmethod
    def cross_traces(self, weights: np.ndarray) -> np.ndarray:
        """`tr(W S_u W S_v)` for a symmetric W, float64[k, k]."""


@dataclasses.dataclass(frozen=True)
class CountedLaw(OracleLaw):
    """The moments of an oracle with few enough reports to list.

    Attributes:
      law: float64[k, m], the probabilities of the reports of each value.
      decoder: float64[k, m], y for each report.
    """

    law: np.ndarray
    decoder: np.ndarray

    def own(self, weights: np.ndarray) -> np.ndarray:
        """`y^T W y` of each report, float64[m]."""
        return np.sum(self.decoder * (weights @ self.decoder), axis=0)

    def forms(self, queries):
        return np.square(queries @ self.decoder) @ self.law.T - queries**2

    def times(self, rows):
        return ((rows @ self.decoder) * self.law) @ self.decoder.T - np.diag(np.diagonal(rows))

    def traces(self, weights):
        return self.law @ self.own(weights) - np.diagonal(weights)

    def cross_traces(self, weights):
        seen = weights @ self.decoder
        mixed = self.law @ np.square(seen).T
        step = max(1, _CHUNK // self.law.shape[1])
        total = weights**2 - mixed - mixed.T
        for start in range(0, self.law.shape[1], step):
            part = slice(start, start + step)
            pairs = np.square(self.decoder[:, part].T @ seen)
            total += self.law[:, part] @ (pairs @ self.law.T)
        return total


@dataclasses.dataclass(frozen=True)
class SymmetricLaw(OracleLaw):
    """The moments of an oracle that treats all values alike.

    `S_v = a I + b 1 1^T + c (1 e_v^T + e_v 1^T) + d e_v e_v^T`.

    Attributes:
      each: a.
      all: b.
      mixed: c.
      own: d.
    """

    each: float
    all: float
    mixed: float
    own: float

    @classmethod
    def of(cls, covariance: np.ndarray) -> "SymmetricLaw":
        """From `S_0`."""
        pair = covariance[1, 2] if len(covariance) > 2 else 0.0
        mixed = covariance[0, 1] - pair
        each = covariance[1, 1] - pair
        return cls(each, pair, mixed, covariance[0, 0] - each - pair - 2 * mixed)

    def forms(self, queries):
        sums = queries.sum(axis=1, keepdims=True)
        constant = self.each * np.square(queries).sum(axis=1, keepdims=True) + self.all * sums**2
        return constant + 2 * self.mixed * sums * queries + self.own * queries**2

    def times(self, rows):
        sums, diagonal = rows.sum(axis=1), np.diagonal(rows)
        out = self.each * rows + (self.all * sums + self.mixed * diagonal)[:, None]
        return out + np.diag(self.mixed * sums + self.own * diagonal)

    def traces(self, weights):
        rows, diagonal = weights.sum(axis=1), np.diagonal(weights)
        constant = self.each * diagonal.sum() + self.all * rows.sum()
        return constant + 2 * self.mixed * rows + self.own * diagonal

    def cross_traces(self, weights):
        a, b, c, d = self.each, self.all, self.mixed, self.own
        rows, square = weights.sum(axis=1), np.square(weights)
        total = rows.sum()
        single = b * (rows @ rows) + 2 * c * (weights @ rows) + d * square.sum(axis=1)
        by_v = b * total + c * rows  # (M A)_00 of v, and (M A^T)_00 of u
        by_u = c * total + d * rows
        spread = b * rows[None, :] + c * weights
        inner = c * rows[None, :] + d * weights
        pair = by_v[:, None] * by_v + spread * by_u + spread.T * by_u[:, None] + inner * inner.T
        return a**2 * square.sum() + a * (single[:, None] + single) + pair


@dataclasses.dataclass(frozen=True)
class SetLaw(SymmetricLaw):
    """The moments of reports that are sets of values, exchangeable but for the user's own value.

    With b the indicator of the set, `y = (b - q) / (p - q)`.

    Attributes:
      p: the probability that the set has the own value.
      q: that it has another one.
      inclusion: float64[2, 5]; [t, j] is the probability that the set has j given other values and
        has the own one (t = 1) or not (t = 0).
    """

    p: float
    q: float
    inclusion: np.ndarray

    def self_moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`E[z^T W z z]` and the variance of `z^T W z`.

        `(p - q)**2 z^T W z` is, up to a constant, a form in b: with the own value apart, a sum over
        pairs of other values, one over other values, and one of the own value.

        Returns:
          float64[k, k], a row for each v, and float64[k].
        """
        gap, k = self.p - self.q, len(weights)
        others = 1.0 - np.eye(k)
        diagonal, sums = np.diagonal(weights), weights.sum(axis=1)
        linear = diagonal - 2 * (self.q * sums + gap * weights)  # row v: W_aa - 2 (W E b)_a
        outer = (sums - diagonal - weights) * others  # row sums of W without v and its diagonal
        total = outer.sum(axis=1)
        whole = np.square(weights).sum() - np.square(diagonal).sum()
        squares = whole - 2 * (np.square(weights).sum(axis=1) - diagonal**2)
        outer_squares = np.square(outer).sum(axis=1)
        mean, second = np.zeros(k), np.zeros(k)
        with_others, with_own = np.zeros((k, k)), np.zeros(k)
        for own, (i0, i1, i2, i3, i4) in enumerate(self.inclusion):
            single = (linear + 2 * own * weights) * others
            fixed = own * np.diagonal(linear)
            rest, rest_squares = single.sum(axis=1), np.square(single).sum(axis=1)
            product = np.sum(outer * single, axis=1)
            first = i2 * total + i1 * rest  # of what is not fixed
            mean += first + i0 * fixed
            second += 2 * i2 * squares + 4 * i3 * (outer_squares - squares)
            second += i4 * (total**2 - 4 * outer_squares + 2 * squares)
            second += 4 * i2 * product + 2 * i3 * (total * rest - 2 * product)
            second += i1 * rest_squares + i2 * (rest**2 - rest_squares)
            second += 2 * fixed * first + i0 * fixed**2
            seen = 2 * i2 * outer + i3 * (total[:, None] - 2 * outer) + i1 * single
            seen += i2 * (rest[:, None] - single) + i1 * fixed[:, None]
            with_others += seen * others
            if own:
                with_own = first + i0 * fixed
        expected = np.where(others == 1, self.q, self.p)
        third = with_others + np.diag(with_own) - mean[:, None] * expected
        return third / gap**3, (second - mean**2) / gap**4


@functools.lru_cache(maxsize=16)
def oracle_law(oracle: FrequencyOracle) -> OracleLaw:
    """The moments of one user's estimate.

    Raises:
      TypeError: they are not known for this oracle.
      ValueError: the reports do not determine the counts.
    """
    if isinstance(oracle, (UnaryEncoding, SubsetSelection)):
        p, q = map(float, oracle.probabilities())
        s = SymmetricLaw.of(oracle.covariance(0))
        return SetLaw(s.each, s.all, s.mixed, s.own, p, q, _inclusion(oracle))
    if isinstance(oracle, LocalHashing):
        return SymmetricLaw.of(oracle.covariance(0))
    params = oracle.build()
    if not isinstance(params, IndependentUsersParams):
        raise TypeError(
            "oracle must have reports that are counted, as those of HadamardResponse, or be a "
            f"UnaryEncoding, a SubsetSelection or a LocalHashing, got {oracle!r}."
        )
    with jax.enable_x64(True):
        reports = Count.of(np.eye(params.num_reports, dtype=np.int64))
        values = jnp.eye(oracle.num_values, dtype=float)
        decoder, law = (np.asarray(x) for x in _decoder_and_law(params, reports, values))
    return CountedLaw(law / law.sum(axis=1, keepdims=True), decoder.T)


@jax.jit
def _decoder_and_law(params, reports, values):
    """What each report decodes to, and the law of the reports of each value, as one program."""
    return jax.vmap(params.estimate)(reports), jax.vmap(params.report_law)(values)


def _inclusion(oracle: UnaryEncoding | SubsetSelection) -> np.ndarray:
    """`SetLaw.inclusion`."""
    exact_p, exact_q = oracle.probabilities()
    p, q = float(exact_p), float(exact_q)
    if isinstance(oracle, UnaryEncoding):
        return np.multiply.outer([1 - p, p], q ** np.arange(5.0))
    k, size = oracle.num_values, oracle.subset_size
    assert size is not None
    spoken = float((exact_p + (k - 1) * exact_q) / size) - p  # sets without the own value
    rows = []
    for weight, members in ((spoken, size), (p, size - 1)):
        row = [weight]
        for j in range(4):
            row.append(row[-1] * max(members - j, 0) / max(k - 1 - j, 1))
        rows.append(row)
    rows[0][0] = 1 - p  # empty reports too
    return np.array(rows)
