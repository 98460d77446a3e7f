"""What may be asked of the users, without saying how."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from .._checks import Integer, Real
from .._contract import field, spec
from .._queries import WORKLOAD
from .._spec import as_float64, by_largest_remainders, check_choice
from ..linear import HistogramQuery
from ..pairwise import PairwiseProtocol
from ..pairwise import candidates as pairwise_candidates
from ..randomizers import FREQUENCY_ORACLES, BinaryResponse, Laplace, Piecewise
from ..workloads import identity, prefix
from ._question import (
    HARD_VALUES,
    ONE_NUMBER,
    Data,
    Maker,
    OfBins,
    OfEachValue,
    OfQueries,
    Question,
    Users,
)

_MOST_LISTED = 2**10  # values of a histogram for a curator, whose workload is stored
_GRID = 201  # numbers that stand for an interval


@spec
class Histogram(OfEachValue):
    """The share of the users who hold each value.

    Args:
      num_values: k, at least 2.

    Example:
      >>> from jaxdp.design import Histogram, plan
      >>> found = plan(Histogram(1000), users=50_000, error=0.01)
      >>> print(f"{found.best.name}, epsilon {found.best.epsilon:.2f}")
      AffineSubsets, epsilon 0.87
    """

    num_values: int = field(Integer(2, 2**24))

    @property
    def typical(self) -> float:
        """1 / k, the average share."""
        return 1 / self.num_values

    def describe(self) -> str:
        """The question in words."""
        return f"a histogram of {self.num_values:,} values"

    def _workload(self) -> Any:
        if self.num_values > _MOST_LISTED:
            raise ValueError(f"is not tried for more than {_MOST_LISTED} values.")
        return identity(self.num_values)

    def _hard_queries(self) -> np.ndarray:
        some = np.eye(min(self.num_values, HARD_VALUES))
        return np.pad(some, ((0, self.num_values - len(some)), (0, 0)))

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """The frequency oracles."""
        del delta, norm  # noise for all values at once is no match for them
        return {
            name: lambda e, _, oracle=oracle: HistogramQuery(oracle(self.num_values, e))
            for name, oracle in FREQUENCY_ORACLES.items()
        }


@spec
class LinearQueries(OfQueries):
    """The answers `W h` to linear queries about the histogram h of the users.

    Args:
      workload: W, float[m, k], a row for each query; or an `Operator`.

    Example:
      >>> import jaxdp
      >>> from jaxdp.design import LinearQueries, plan
      >>> found = plan(LinearQueries(jaxdp.workloads.parity(3, 2)), users=50_000, epsilon=1.0)
      >>> print(f"{found.best.error:.4f}")
      0.0206
    """

    workload: Any = field(WORKLOAD)  # stored as a FrozenArray

    @property
    def size(self) -> int:
        """k, the number of values."""
        return self.workload.values.shape[1]

    @property
    def num_answers(self) -> int:
        """The number of queries."""
        return self.workload.values.shape[0]

    @property
    def typical(self) -> float:
        """The mean of the answers' sizes for users of uniform values."""
        return float(np.abs(self.workload.values.mean(axis=1)).mean())

    def describe(self) -> str:
        """The question in words."""
        return f"{self.num_answers:,} linear queries on {self.size:,} values"

    def _workload(self) -> Any:
        return self.workload


@spec
class Quantiles(OfEachValue):
    """The shares of the users with at most each value, from which quantiles are read.

    The error is one of ranks: a quantile that is read off cumulative shares which are wrong by at
    most 0.01 has between 1 % fewer and 1 % more of the users below it than it should.

    Args:
      num_values: k, at least 2, of ordered values.

    Example:
      >>> from jaxdp.design import Quantiles, plan
      >>> found = plan(Quantiles(32), users=50_000, epsilon=1.0, loss="worst")
      >>> print(f"{found.best.error:.4f}")
      0.0156
    """

    num_values: int = field(Integer(2, 2**12))

    @property
    def typical(self) -> float:
        """1/2, the middle of the cumulative shares."""
        return 0.5

    def describe(self) -> str:
        """The question in words."""
        return f"the quantiles of {self.num_values:,} ordered values"

    def _workload(self) -> Any:
        return prefix(self.num_values)


@spec
class Mean(Question):
    """The mean of numbers in an interval.

    Users report how far their number is from the middle, and the analyst adds the middle back.
    Data are the numbers that some users hold, each as frequent as the others.

    Args:
      low: the least number.
      high: the largest.

    Example:
      >>> from jaxdp.design import Mean, plan
      >>> found = plan(Mean(0, 100), epsilon=1.0, error=0.5)
      >>> print(f"{found.best.name}: {found.best.num_users:,} users")
      BinaryResponse: 46,827 users
    """

    low: float = field(Real())
    high: float = field(Real())

    NAMED_DATA: ClassVar[tuple[str, ...]] = ("uniform",)
    LOSSES: ClassVar[Mapping[str, str]] = ONE_NUMBER

    def validate(self) -> None:
        """Raises ValueError unless the interval has a length."""
        if self.low >= self.high:
            raise ValueError(f"high must be above low = {self.low:g}, got {self.high:g}.")

    @property
    def num_answers(self) -> int:
        """1: a single number."""
        return 1

    @property
    def typical(self) -> float:
        """The larger of the absolute values of the ends."""
        return max(abs(self.low), abs(self.high))

    @property
    def bound(self) -> float:
        """Half of the length of the interval."""
        return (self.high - self.low) / 2

    @property
    def offset(self) -> float:
        """The middle of the interval, from which users report how far their number is."""
        return (self.low + self.high) / 2

    def describe(self) -> str:
        """The question in words."""
        return f"the mean of numbers in [{self.low:g}, {self.high:g}]"

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """The pure randomizers of a number."""
        del delta, norm
        makers = {"BinaryResponse": BinaryResponse, "Piecewise": Piecewise, "Laplace": Laplace}
        return {name: lambda e, _, make=make: make(e, self.bound) for name, make in makers.items()}

    def _shares(self, data: Data) -> np.ndarray:
        if isinstance(data, str):
            return np.linspace(self.low, self.high, _GRID)
        numbers = as_float64("data", data).ravel()
        if not numbers.size or not np.all((numbers >= self.low) & (numbers <= self.high)):
            raise ValueError(f"data must be numbers in [{self.low:g}, {self.high:g}].")
        return numbers

    def users(self, data: Data, num_users: int) -> Users | None:
        """Users who hold these numbers, as many each as there can be."""
        if isinstance(data, str) and check_choice("data", data, ("worst", "uniform")) == "worst":
            return None
        numbers = self._shares(data)
        counts = by_largest_remainders(np.full(len(numbers), 1 / len(numbers)), num_users)
        return Users(np.asarray(counts, np.int64), (numbers - self.offset).astype(np.float32))

    def _hard_queries(self) -> np.ndarray:
        return np.array([[-self.bound, self.bound]])  # the users at the ends of the interval

    def _of_one_value(self, num_users: int) -> list[Users]:
        values = np.linspace(-self.bound, self.bound, _GRID, dtype=np.float32)
        return [Users(np.array([num_users]), value[None]) for value in values]


@spec
class PairStatistic(OfBins):
    """A statistic of pairs of users, such as a Gini index, Kendall's tau, or an AUC.

    Args:
      kernel: the statistic: a kernel of `jaxdp.pairwise`, or W as float[k, k].
      num_values: how many bins there are, or the shape of the table whose cells they are; None for
        a matrix.
      rounds: 1, 2 or 3, how often users may be asked.

    Example:
      >>> from jaxdp.design import PairStatistic, plan
      >>> from jaxdp.pairwise import GiniDiversity
      >>> found = plan(PairStatistic(GiniDiversity(), 4), epsilon=1.0, error=0.01)
      >>> print(f"{found.best.num_users:,} users")
      110,485 users
    """

    kernel: Any = field(PairwiseProtocol.KERNEL)
    num_values: Any = field(PairwiseProtocol.NUM_VALUES, default=None)
    rounds: int = field(Integer(1, 3), default=1)

    LOSSES: ClassVar[Mapping[str, str]] = ONE_NUMBER

    def validate(self) -> None:
        """Raises ValueError unless the kernel has a domain."""
        _ = self._plain

    @property
    def is_linear(self) -> bool:
        """Whether the statistic is an average over pairs."""
        return self.kernel.is_linear

    @property
    def _plain(self) -> Any:
        return pairwise_candidates(self.kernel, self.num_values)["QuantizedRR"](1.0, 2)

    @property
    def size(self) -> int:
        """k, the number of values."""
        return self._plain.randomizer.num_values

    @property
    def num_answers(self) -> int:
        """1: a single number."""
        return 1

    @property
    def typical(self) -> float:
        """The statistic of users of uniform values."""
        plain = self._plain
        return abs(float(plain.truth(np.full(plain.randomizer.num_values, 2**20))))

    def describe(self) -> str:
        """The question in words."""
        return f"{type(self.kernel).__name__} of pairs of users with {self.size:,} values"

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """The protocols of `jaxdp.pairwise.candidates`."""
        del delta, norm
        return dict(pairwise_candidates(self.kernel, self.num_values, self.rounds))
