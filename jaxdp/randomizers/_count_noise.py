"""Exact moments of the noise in what one user adds to the counts that an oracle estimates.

A user with value v adds `y = e_v + z` to the estimated counts, z of mean 0 and covariance `S_v`.
The methods here answer for all values at once, without an array of k**3 numbers where they can.
"""

import abc
import dataclasses

import numpy as np

_CHUNK = 2**22  # numbers held at a time
_MOST_DENSE = 2**26  # numbers of all covariances together


class CountNoise(abc.ABC):
    """The moments of z, by the user's value v in {0, .., k-1}."""

    @abc.abstractmethod
    def forms(self, queries: np.ndarray) -> np.ndarray:
        """`w^T S_v w` of each row w of float64[m, k]; float64[m, k]."""

    @abc.abstractmethod
    def times(self, rows: np.ndarray) -> np.ndarray:
        """`S_v w_v` of row v of float64[k, k]; float64[k, k]."""

    @abc.abstractmethod
    def traces(self, weights: np.ndarray) -> np.ndarray:
        """`tr(W S_v)` for a symmetric W; float64[k]."""

    @abc.abstractmethod
    def cross_traces(self, weights: np.ndarray) -> np.ndarray:
        """`tr(W S_u W S_v)` for a symmetric W; float64[k, k]."""

    def by_report(self, weights: np.ndarray) -> np.ndarray | None:
        """`y^T W y` of each report, float64[m], where the tally counts reports; else None."""
        del weights
        return None

    def self_moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """`E[z^T W z z]`, float64[k, k], and `Var[z^T W z]`, float64[k]; None if not known."""
        del weights
        return None


@dataclasses.dataclass(frozen=True)
class DenseNoise(CountNoise):
    """The moments of any oracle, from its covariances.

    Attributes:
      covariances: float64[k, k, k], S_v for each v.
    """

    covariances: np.ndarray

    @classmethod
    def of(cls, covariances: list[np.ndarray]) -> "DenseNoise":
        """From the covariance of each value.

        Raises:
          ValueError: there are too many to be stored.
        """
        k = len(covariances)
        if k**3 > _MOST_DENSE:
            raise ValueError(
                f"num_values must be at most {int(_MOST_DENSE ** (1 / 3))} for an oracle that "
                f"gives its noise by `covariance` alone, got {k}; override its `noise`."
            )
        return cls(np.stack(covariances))

    def forms(self, queries: np.ndarray) -> np.ndarray:
        return np.einsum("mi,vij,mj->mv", queries, self.covariances, queries, optimize=True)

    def times(self, rows: np.ndarray) -> np.ndarray:
        return np.einsum("vij,vj->vi", self.covariances, rows)

    def traces(self, weights: np.ndarray) -> np.ndarray:
        return np.einsum("ij,vij->v", weights, self.covariances)

    def cross_traces(self, weights: np.ndarray) -> np.ndarray:
        turned = (weights @ self.covariances).reshape(len(weights), -1)
        back = (self.covariances @ weights).reshape(len(weights), -1)
        return turned @ back.T


@dataclasses.dataclass(frozen=True)
class TableNoise(CountNoise):
    """The moments of an oracle with few enough reports to list.

    Attributes:
      law: float64[k, m], the probabilities of the reports of each value.
      decoder: float64[k, m], y for each report.
      counted: whether the tally is the number of each report.
    """

    law: np.ndarray
    decoder: np.ndarray
    counted: bool = True

    def _own(self, weights: np.ndarray) -> np.ndarray:
        return np.sum(self.decoder * (weights @ self.decoder), axis=0)

    def by_report(self, weights: np.ndarray) -> np.ndarray | None:
        return self._own(weights) if self.counted else None

    def forms(self, queries: np.ndarray) -> np.ndarray:
        # E (w^T y)**2 - w_v**2: the estimate from a user of value v has the mean e_v.
        return np.square(queries @ self.decoder) @ self.law.T - queries**2

    def times(self, rows: np.ndarray) -> np.ndarray:
        return ((rows @ self.decoder) * self.law) @ self.decoder.T - np.diag(np.diagonal(rows))

    def traces(self, weights: np.ndarray) -> np.ndarray:
        return self.law @ self._own(weights) - np.diagonal(weights)

    def cross_traces(self, weights: np.ndarray) -> np.ndarray:
        # With P_v the law of y for v: tr(W S_u W S_v) = E (y^T W y')**2 - E (e_u^T W y')**2
        # - E (y^T W e_v)**2 + W_uv**2, y and y' independent reports of u and v.
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
class SymmetricNoise(CountNoise):
    """The moments of an oracle that treats all values alike.

    `S_v = a I + b 1 1^T + c (1 e_v^T + e_v 1^T) + d e_v e_v^T`.

    Attributes:
      each: a.
      all: b.
      mixed: c.
      single: d.
    """

    each: float
    all: float
    mixed: float
    single: float

    @classmethod
    def of(cls, user: float, mixed: float, other: float, pair: float) -> "SymmetricNoise":
        """From the covariances of one user's estimate.

        Args:
          user: the variance at the user's value.
          mixed: the covariance of it with another value.
          other: the variance at another value.
          pair: the covariance of two other values.
        """
        each, with_user = other - pair, mixed - pair
        return cls(each, pair, with_user, user - each - pair - 2 * with_user)

    def covariance(self, value: int, size: int) -> np.ndarray:
        """`S_v` for v = value, float64[size, size]."""
        table = np.full((size, size), self.all) + self.each * np.eye(size)
        table[value, :] += self.mixed
        table[:, value] += self.mixed
        table[value, value] += self.single
        return table

    def forms(self, queries: np.ndarray) -> np.ndarray:
        sums = queries.sum(axis=1, keepdims=True)
        constant = self.each * np.square(queries).sum(axis=1, keepdims=True) + self.all * sums**2
        return constant + 2 * self.mixed * sums * queries + self.single * queries**2

    def times(self, rows: np.ndarray) -> np.ndarray:
        sums, diagonal = rows.sum(axis=1), np.diagonal(rows)
        out = self.each * rows + (self.all * sums + self.mixed * diagonal)[:, None]
        return out + np.diag(self.mixed * sums + self.single * diagonal)

    def traces(self, weights: np.ndarray) -> np.ndarray:
        rows, diagonal = weights.sum(axis=1), np.diagonal(weights)
        constant = self.each * diagonal.sum() + self.all * rows.sum()
        return constant + 2 * self.mixed * rows + self.single * diagonal

    def cross_traces(self, weights: np.ndarray) -> np.ndarray:
        # S_v = a I + F_v M F_v^T with F_v = (1, e_v) and M = ((b, c), (c, d)); A = F_u^T W F_v.
        a, b, c, d = self.each, self.all, self.mixed, self.single
        rows, square = weights.sum(axis=1), np.square(weights)
        total = rows.sum()
        alone = b * (rows @ rows) + 2 * c * (weights @ rows) + d * square.sum(axis=1)
        by_v = b * total + c * rows  # (M A)_00 of v, and (M A^T)_00 of u
        by_u = c * total + d * rows
        spread = b * rows[None, :] + c * weights
        inner = c * rows[None, :] + d * weights
        pair = by_v[:, None] * by_v + spread * by_u + spread.T * by_u[:, None] + inner * inner.T
        return a**2 * square.sum() + a * (alone[:, None] + alone) + pair


@dataclasses.dataclass(frozen=True)
class SetNoise(SymmetricNoise):
    """The moments of reports that are sets of values, exchangeable but for the user's value.

    With b the indicator of the set, `y = (b - q) / (p - q)`.

    Attributes:
      p: the probability that the set holds the user's value.
      q: that it holds another given one.
      inclusion: float64[2, 5]; [t, j] is the probability that the set holds j given other values
        and holds the user's value (t = 1) or not (t = 0).
    """

    p: float
    q: float
    inclusion: np.ndarray

    @classmethod
    def of_sets(
        cls, symmetric: SymmetricNoise, p: float, q: float, inclusion: np.ndarray
    ) -> "SetNoise":
        """From the covariances, (p, q) and the inclusion probabilities."""
        s = symmetric
        return cls(s.each, s.all, s.mixed, s.single, p, q, inclusion)

    def self_moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # `(p - q)**2 z^T W z` is, up to a constant, a form in b: with the user's value apart, a sum
        # over pairs of other values, one over other values, and one of the user's value.
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
        with_others, with_user = np.zeros((k, k)), np.zeros(k)
        for held, (i0, i1, i2, i3, i4) in enumerate(self.inclusion):
            single = (linear + 2 * held * weights) * others
            fixed = held * np.diagonal(linear)
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
            if held:
                with_user = first + i0 * fixed
        expected = np.where(others == 1, self.q, self.p)
        third = with_others + np.diag(with_user) - mean[:, None] * expected
        return third / gap**3, (second - mean**2) / gap**4
