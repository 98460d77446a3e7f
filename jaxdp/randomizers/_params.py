"""Bases of the params of randomizers of bins, and of those whose reports are counted."""

import abc
from typing import ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxdp_kernels.randomize_and_tally import Counted

from .._contract import Independent, Padded, Round, TallyLaw, Tree, Work
from .._x64 import compiled_in_float64
from ..random import Count, histogram, multinomial

T = TypeVar("T")

MOST_LISTED = 2**16
"""Reports that are listed one by one."""


_FEW_VALUES = 128  # of so many values and fewer a table is as fast as transforms
_NEWTON_TRANSFORMS = 600  # ten steps, each of two systems, each solved in 15 steps of two
_MOST_PADDED = 2**12  # as many binomials are drawn by one program


def padded_bins(num_values: int) -> int | None:
    """The bins of a round that stands for one of fewer; None where it would draw other tallies."""
    bins = 2 ** (num_values - 1).bit_length()
    return bins if bins <= _MOST_PADDED else None


class BinRound(Round[T]):
    """Base of params with a field `num_values`, k: a user's value is a bin in [0, k)."""

    num_values: int

    @property
    def num_bins(self) -> int:
        """The bins of the domain."""
        return self.num_values


class CountedRound(Round[Count]):
    """Base of params whose reports are one of `num_reports`, and are counted."""

    @property
    @abc.abstractmethod
    def num_reports(self) -> int:
        """Number of distinct reports; static."""

    @property
    def report_limits(self) -> tuple[int, int]:
        """The limits of reports, which begin at 0."""
        return 0, self.num_reports - 1

    def extreme_reports(self, queries: np.ndarray | None = None) -> np.ndarray | None:
        """All of them; None where they are too many."""
        del queries
        if self.num_reports > MOST_LISTED:
            return None
        return np.arange(self.num_reports, dtype=np.int32)

    def tally(self, reports: jax.Array, mask: jax.Array | None = None, /) -> Count:
        """The number of each report.

        Args:
          reports: int32[n] in [0, num_reports).
          mask: bool[n], which of them count; None for all.

        Returns:
          Count[num_reports]; its sum is the number of users.
        """
        return histogram(reports, self.num_reports, mask)

    @property
    def counted(self) -> Counted | None:
        """The counts are the tally; None for a subclass with another one."""
        same = type(self).tally is CountedRound.tally
        return Counted(self.num_reports, Count.of) if same else None

    def fit_cost(self, newton: bool) -> float:
        """Nanoseconds of a fit of a distribution to the tally, roughly.

        Args:
          newton: whether by Newton's method; otherwise by a thousand steps of EM.
        """
        size = self.num_bins or 1
        each = 1.2 * size * (self.num_reports + size / 3) if newton else 500.0 * self.num_reports
        return size * each


class DrawnCountsRound(CountedRound):
    """Base of counted params that draw their tally, and know the law of a random user's report.

    Attributes:
      independent_stream: what the key of the draw for independent users is folded with.
    """

    independent_stream: ClassVar[int]

    @property
    def law(self) -> TallyLaw[Count]:
        """Draws the reports of given users, and those of independent users by one multinomial."""
        return TallyLaw(self._draw, self._cost, self._draw_independent, padded=self.padded)

    @property
    def padded(self) -> Padded[Count] | None:
        """See `TallyLaw`."""
        return None

    @abc.abstractmethod
    def _draw(self, key: jax.Array, counts: Count, inputs: Tree) -> Count:
        """The tally of given users, exact in law; see `TallyLaw.draw`."""

    @abc.abstractmethod
    def _cost(self, work: Work) -> float:
        """Nanoseconds of `_draw`, roughly."""

    @abc.abstractmethod
    def report_law(self, law: jax.Array) -> jax.Array:
        """The probability of each report, times any constant; only inside an x64 block.

        Args:
          law: float64[k], the probabilities of a user's values.

        Returns:
          float64[num_reports].
        """

    @property
    def transform_cost(self) -> float | None:
        """Nanoseconds of `over_reports`, roughly; static. None where there is only the table."""
        return None

    @property
    def needs_no_table(self) -> bool:
        """Whether a fit to reports is quicker with transforms than with a table; static."""
        if self.transform_cost is None or (self.num_bins or 1) <= _FEW_VALUES:
            return False
        return _NEWTON_TRANSFORMS * self.transform_cost < super().fit_cost(newton=True)

    def fit_cost(self, newton: bool) -> float:
        if not self.needs_no_table:
            return super().fit_cost(newton)
        return (_NEWTON_TRANSFORMS if newton else 2000) * (self.transform_cost or 0.0)

    def over_reports(self, numbers: jax.Array) -> jax.Array:
        """The expectation of a report's number for each value; only inside an x64 block.

        It is the transpose of `report_law`, up to the same constant. Where it is quick, likelihoods
        are maximised without the table of the channel, and `report_law` must be linear but for a
        constant, for all numbers in place of a law.

        Args:
          numbers: float64[num_reports].

        Returns:
          float64[k].
        """
        del numbers
        raise NotImplementedError(f"{type(self).__name__} has no quick sums over its reports.")

    @compiled_in_float64
    def _draw_independent(self, key: jax.Array, users: Independent) -> Count:
        """The tally of independent users: one multinomial."""
        law = users.weights.f64() / jnp.sum(users.weights.f64())
        stream = jax.random.fold_in(key, self.independent_stream)
        # Where a probability is 0, rounding may leave it below that.
        return multinomial(stream, users.size, jnp.maximum(self.report_law(law), 0.0))
