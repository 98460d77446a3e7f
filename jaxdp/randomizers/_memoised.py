"""Reports of a value that is asked for again and again: made of one that is remembered."""

import functools
import itertools
import math
from fractions import Fraction
from typing import Any, cast

import jax
import numpy as np
from jaxtyping import Array, Float, Float32, Float64
from numpy.typing import ArrayLike

from .._checks import Instance
from .._contract import Kernels, Round, TallyLaw, Through, Tree, Words, Work, field, params, spec
from .._spec import as_float64, check_int
from .._x64 import compiled_in_float64, dot
from ..random import Count, part_of
from ._count_noise import DenseNoise, TableNoise
from ._exact import log_upper
from ._finite_channel import joined, split
from ._params import DrawnCountsRound
from ._randomizer import MOST_ENTRIES
from ._support import FrequencyOracle, LinearOracle, table_noise

_MOST = 2**24  # numbers of an array that decodes, or bounds
_MOST_SETS = 2**14  # of reports, one by one

_ORACLE = Instance(FrequencyOracle, "a frequency oracle, such as KRR(10, 1.0)")


@spec
class Memoised(LinearOracle["MemoisedParams"]):
    """Repeated reports of one value: a permanent report is remembered, and each one sent is of it.

    A user draws a *permanent* report of its value once and keeps it. Each time it is asked it sends
    an *instantaneous* report, freshly drawn, of the permanent one. However often it is asked, all
    that it sends tells no more than the permanent report, while a single report tells less.
    `Rappor` does the same for the bits of a Bloom filter.

    A simulation is of one collection: each user reports once. In `jaxdp.reports` a client keeps the
    words of its permanent reports, and each collection is an `Aggregate` of its own.

    Formal guarantees:
      * Privacy: pure epsilon-LDP for any number of reports of one value, exactly: that of the
        permanent oracle, which is the limit of many reports. `report_epsilon(R)` is what R reports
        reveal. A user whose value changes draws another permanent report, and spends the epsilon
        again. It holds for every int32 input, since values outside the domain are clamped into it.
      * Estimate: the instantaneous oracle counts the permanent reports, whose decoder makes counts
        of values of these counts, both without bias.
      * Variance, exact for a fixed data set with counts c: for value w `sum_v c_v (sum_y P_vy
        (a_w^T S_y a_w + a_wy**2) - [v = w])`, P the permanent oracle's channel, a_w row w of its
        decoder, S_y the covariance of the instantaneous estimate from one permanent report y.

    Edge cases:
      ===================================  ======================================================
      permanent reports are not counted    ValueError; take KRR, HadamardResponse, FiniteChannel, ..
      the two do not fit                   ValueError: the instantaneous oracle needs a value for
                                           each permanent report
      value outside the domain             ValueError from a Population; the params clamp it
      channel of more than 2**22 entries   `channel()` returns None
      ===================================  ======================================================

    Args:
      permanent: the oracle of the permanent report, of values in [0, k), and of m reports that its
        tally counts.
      instantaneous: the oracle of each report that is sent, of values in [0, m).

    Raises:
      ValueError: the oracles do not fit.
      TypeError: an argument is no frequency oracle.

    Example:
      >>> from jaxdp.randomizers import KRR, Memoised
      >>> memoised = Memoised(KRR(10, 3.0), KRR(10, 2.0))
      >>> [round(memoised.report_epsilon(r), 3) for r in (1, 2, 10)]
      [1.49, 2.593, 3.0]

    References:
      Erlingsson, Pihur, Korolova (2014), RAPPOR: randomized aggregatable privacy-preserving ordinal
      response; Ding, Kulkarni, Yekhanin (2017), Collecting telemetry data privately; Arcolezi,
      Couchot, Al Bouna, Xiao (2022), Improving the utility of locally differentially private
      protocols for longitudinal and multidimensional frequency estimates.
    """

    permanent: FrequencyOracle[Any] = field(_ORACLE)
    instantaneous: FrequencyOracle[Any] = field(_ORACLE)

    def validate(self) -> None:
        """Raises ValueError unless the instantaneous oracle takes the permanent reports."""
        permanent = self.permanent.built
        if not (isinstance(permanent, DrawnCountsRound) and permanent.counted):
            raise ValueError(
                f"permanent must be an oracle whose reports are counted, got {self.permanent!r}; "
                "take KRR, HadamardResponse or FiniteChannel, or Rappor for bits."
            )
        k, m = self.num_values, self._num_permanent
        if k * m > _MOST:
            raise ValueError(
                f"permanent must have at most 2**24 pairs of a value and a report, got {k * m}; "
                "take fewer values."
            )
        if self.instantaneous.num_values != m:
            raise ValueError(
                f"instantaneous must have num_values = {m}, the number of permanent reports of "
                f"{self.permanent!r}, got {self.instantaneous!r}."
            )

    @property
    def num_values(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """k, the number of values."""
        return self.permanent.num_values

    @property
    def epsilon(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The privacy parameter of all reports of a value together."""
        return self.permanent.epsilon

    @property
    def _num_permanent(self) -> int:
        return cast(DrawnCountsRound, self.permanent.built).num_reports

    def build(self, word_bits: int = 32) -> "MemoisedParams":
        """The params; `word_bits=8` makes a twin of the two oracles' twins."""
        decoder = _table(self.permanent, word_bits).decoder
        inner = self.instantaneous.build(word_bits)
        return MemoisedParams(self.permanent.build(word_bits), inner, split(decoder))

    @property
    def reporter(self) -> FrequencyOracle[Any]:
        """The permanent oracle: however many reports are shuffled, all are made of its reports."""
        return self.permanent

    def exact_epsilon(self, word_bits: int = 32) -> float:
        """The realised privacy parameter of any number of reports of one value, rounded up."""
        return self.permanent.exact_epsilon(word_bits)

    def report_epsilon(self, num_reports: int = 1) -> float:
        """The realised privacy parameter of so many reports of one value, rounded up.

        All sets of reports are enumerated where these are at most 2**14 of a listed channel. Beyond
        that it is a bound: the permanent reports that tell two values apart most are as much
        likelier than all others as so many reports of the instantaneous oracle can make them. Of
        two `KRR` that is attained, by reports that all are the same.

        Args:
          num_reports: R, at least 1.
        """
        number = check_int("num_reports", num_reports, low=1)
        limit = self.exact_epsilon()
        rows, channel = self.permanent.channel(), self.instantaneous.channel()
        if rows is not None and channel is not None:
            if math.comb(len(channel[0]) + number - 1, number) <= _MOST_SETS:
                return min(limit, log_upper(_largest_ratio(rows, channel, number)))
        return min(limit, self._bound(number))

    def _bound(self, num_reports: int) -> float:
        law = self._table.law
        exponent = num_reports * self.instantaneous.exact_epsilon()
        if exponent > 600:  # beyond it nothing is left of other permanent reports
            return self.exact_epsilon()
        # Likelihoods of the permanent reports are in [1, e**exponent], up to a constant; the ratio
        # of two values' sums is largest where those with the largest ratios have e**exponent.
        gain, worst = math.expm1(exponent), 1.0
        for row in law:
            ratios = row / law
            order = np.argsort(-ratios, axis=1)
            above = np.cumsum(row[order], axis=1)
            below = np.cumsum(np.take_along_axis(law, order, axis=1), axis=1)
            worst = max(worst, float(np.max((1 + gain * above) / (1 + gain * below))))
        rounding = (4 * law.shape[1] + 16) * 2.0**-52  # of sums of as many positive numbers
        return math.log(worst) + 2 * rounding

    @property
    def _table(self) -> TableNoise:
        """The permanent channel, and what each permanent report stands for, float64[k, m] both."""
        return _table(self.permanent)

    def channel(
        self, word_bits: int = 32, inputs: ArrayLike | None = None
    ) -> list[list[Fraction]] | None:
        """The exact probabilities of one report, a row for each input, columns as in `reports`.

        Args:
          word_bits: bits of a word.
          inputs: int[r], the values of the rows; None for all.
        """
        first = self.permanent.channel(word_bits, inputs)
        second = None if first is None else self.instantaneous.channel(word_bits)
        if first is None or second is None or len(first) * len(second[0]) > MOST_ENTRIES:
            return None
        columns = [list(column) for column in zip(*second, strict=True)]
        return [
            [sum(map(Fraction.__mul__, row, column), Fraction()) for column in columns]
            for row in first
        ]

    def reports(self) -> np.ndarray | None:
        """The reports that the columns of `channel` are of; None for 0, 1, 2, ..."""
        return self.instantaneous.reports()

    def covariance(self, value: int) -> np.ndarray:
        """The exact covariance of the estimate from one user, float64[k, k].

        Args:
          value: the user's value, an int in [0, k).
        """
        value = check_int("value", value, low=0, high=self.num_values - 1)
        return self._covariances(np.array([value]))[0]

    def change_variance(
        self, kept: ArrayLike, before: ArrayLike, after: ArrayLike
    ) -> Float64[np.ndarray, " k"]:
        """The exact variance of the change of each count between two collections of the same users.

        The difference of two estimates, `estimate(second) - estimate(first)`, whose reports of a
        user of one value are of one permanent report. Its noise is of both estimates alike and
        cancels; that of the instantaneous reports does not. With a_w, S_y and P as of the class, a
        user who keeps value v adds `2 sum_y P_vy a_w^T S_y a_w` to the variance of the change of
        count w, and one whose value changes the variances of one report of either value. Half of
        what independent collections would have on top is the covariance of the two estimates.

        Args:
          kept: int[k], how many users hold each value in both collections.
          before: int[k], of the users whose value changes, what they hold in the first.
          after: int[k], what these hold in the second; as many users.

        Returns:
          float64[k].

        Raises:
          ValueError: the counts are not of k values, or `before` and `after` not of as many users.

        Example:
          >>> from jaxdp.randomizers import KRR, Memoised
          >>> memoised = Memoised(KRR(3, 2.0), KRR(3, 4.0))
          >>> some, none = [1000, 1000, 1000], [0, 0, 0]
          >>> same = memoised.change_variance(some, none, none)
          >>> print((same / (2 * memoised.variance(some))).round(2))  # of independent collections
          [0.18 0.18 0.18]
        """
        given = {"kept": kept, "before": before, "after": after}
        users = {}
        for name, counts in given.items():
            users[name] = as_float64(name, counts)
            if users[name].shape != (self.num_values,) or not np.all(users[name] >= 0):
                raise ValueError(
                    f"{name} must be {self.num_values} numbers of users >= 0, one for each value, "
                    f"got {counts!r}."
                )
        if users["before"].sum() != users["after"].sum():
            raise ValueError(
                f"after must be of as many users as before, {users['before'].sum():.0f}, got "
                f"{users['after'].sum():.0f}."
            )
        table = self._table
        fresh = self.instantaneous.query_variances(table.decoder) @ table.law.T
        return 2 * fresh @ users["kept"] + self._user_variances() @ (
            users["before"] + users["after"]
        )

    def noise(self) -> DenseNoise:
        """The moments of the noise, from its covariances."""
        return DenseNoise.of(list(self._covariances(np.arange(self.num_values))))

    def _covariances(self, values: np.ndarray) -> np.ndarray:
        """The covariances of the estimate from one user of each value, float64[r, k, k]."""
        law, decoder = self._table.law[values], self._table.decoder
        total = np.zeros((len(values), self.num_values, self.num_values))
        # The second moment given the permanent report y: its mean and its noise, both decoded.
        for y, column in enumerate(decoder.T):
            noise = decoder @ self.instantaneous.covariance(y) @ decoder.T
            total += law[:, y, None, None] * (noise + np.outer(column, column))
        total[np.arange(len(values)), values, values] -= 1.0
        return total

    def _user_variances(self) -> np.ndarray:
        return self._forms(np.eye(self.num_values))

    @property
    def _query_width(self) -> int:
        return max(self.num_values, self._num_permanent)

    def _forms(self, queries: np.ndarray) -> np.ndarray:
        # As `_covariances`, for each query: the noise and the mean of each permanent report.
        decoded = queries @ self._table.decoder
        second = self.instantaneous.query_variances(decoded) + np.square(decoded)
        return second @ self._table.law.T - np.square(queries)


@functools.lru_cache(maxsize=64)
def _table(permanent: FrequencyOracle[Any], word_bits: int = 32) -> TableNoise:
    return table_noise(permanent.build(word_bits), permanent.num_values)


def _largest_ratio(
    rows: list[list[Fraction]], channel: list[list[Fraction]], num_reports: int
) -> Fraction:
    """The largest ratio of the probabilities of a set of reports, over all sets and values."""
    law, likelihoods = _integers(rows), _integers(channel).T
    worst = Fraction(1)
    for sent in itertools.combinations_with_replacement(likelihoods, num_reports):
        chances = law @ np.prod(sent, axis=0)
        worst = max(worst, Fraction(int(chances.max()), int(chances.min())))
    return worst


def _integers(table: list[list[Fraction]]) -> np.ndarray:
    """A table times its common denominator, integers of any size."""
    scale = math.lcm(*(x.denominator for row in table for x in row))
    return np.array([[int(x * scale) for x in row] for row in table], object)


@params
class MemoisedParams(Through[Tree]):
    """The params of `Memoised`: a pytree.

    Attributes:
      permanent: the params of the oracle of the permanent report.
      inner: those of the oracle of each report that is sent, whose tally is the outcome.
      decoder: float32[2, k, m], the sum of which makes counts of permanent reports those of values.
    """

    permanent: DrawnCountsRound
    inner: Round[Tree]
    decoder: Float32[Array | np.ndarray, "2 k m"]

    @property
    def num_bins(self) -> int | None:
        """The bins of the domain."""
        return self.permanent.num_bins

    @property
    def permanent_words(self) -> int:
        """The words of the permanent report."""
        return self.permanent.num_words

    @property
    def num_words(self) -> int:
        """The words of the permanent report, then those of the one that is sent."""
        return self.permanent.num_words + self.inner.num_words

    @property
    def report_limits(self) -> tuple[Tree, Tree] | None:
        """The limits of the instantaneous oracle's reports."""
        return self.inner.report_limits

    def extreme_reports(self, queries: np.ndarray | None = None) -> Tree | None:
        """The instantaneous oracle's, for the queries that the counts of values are."""
        decoder = np.asarray(self.decoder, np.float64).sum(axis=0)
        return self.inner.extreme_reports(decoder if queries is None else queries @ decoder)

    @property
    def draft(self) -> None:
        """None: a draft is of one oracle's words."""
        return None

    @property
    def kernels(self) -> Kernels[Tree]:
        """None: they are of one oracle's words."""
        return Kernels()

    @property
    def law(self) -> TallyLaw[Tree] | None:
        """Draws the counts of the permanent reports, and from these the tally."""
        if self.inner.law is None:
            return None
        return TallyLaw(self._draw, self._cost, distance=self.inner.law.distance)

    def from_bits(self, words: Words, value: Any, /) -> Tree:
        """One user's instantaneous report; a value outside the domain is clamped into it."""
        first, rest = self.permanent.num_words, self.inner.num_words
        remembered = self.permanent.from_bits(part_of(words, 0, first), value)
        return self.inner.from_bits(part_of(words, first, rest), remembered)

    def user_cost(self, work: Work) -> float:
        """The cost of both reports."""
        return self.permanent.user_cost(work) + self.inner.user_cost(work)

    @compiled_in_float64
    def estimate(self, outcome: Tree, /) -> Float[Array, " k"]:
        """Unbiased counts of the users' values, from the tally of the instantaneous oracle."""
        return dot(joined(self.decoder), self.inner.estimate(outcome))

    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Tree:
        first, second = jax.random.split(key)
        remembered = self.permanent.sample_tally(first, counts, inputs)
        return self.inner.sample_tally(second, remembered)

    def _cost(self, work: Work) -> float:
        permanent = cast(TallyLaw[Count], self.permanent.law)
        inner = cast(TallyLaw[Tree], self.inner.law)
        between = Work(work.num_users, self.permanent.num_reports, work.platform)
        return permanent.cost(work) + inner.cost(between)
