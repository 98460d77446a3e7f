"""What may be asked of the users, without saying how."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._checked import Checked
from .._checks import Integer, Real
from .._contract import field, spec
from .._prediction import Prediction
from .._queries import WORKLOAD
from .._ranking import whole_users
from .._spec import as_float64, by_largest_remainders, check_choice
from ..central import FactorizationMechanism
from ..engine import Trials, simulate
from ..linear import HistogramQuery, Projected
from ..linear import candidates as linear_candidates
from ..pairwise import PairwiseProtocol
from ..pairwise import candidates as pairwise_candidates
from ..population import Population
from ..randomizers import FREQUENCY_ORACLES, BinaryResponse, Laplace, Piecewise
from ..workloads import identity, prefix

Maker = Callable[[float, int], Any]
"""Makes a protocol's spec from (epsilon, num_users), or raises ValueError."""

Data = str | ArrayLike
"""What the users hold: a name, or numbers that the question knows how to read."""

_MOST_TRIED = 512  # values that all users might hold
_MOST_LISTED = 2**10  # values of a histogram for a curator, whose workload is stored
_GRID = 201  # numbers that stand for an interval


@dataclasses.dataclass(frozen=True, eq=False)
class Users:
    """Given users.

    Attributes:
      counts: int64[k], how many hold each value.
      inputs: float32[k], the values, where they are not the bins.
    """

    counts: np.ndarray
    inputs: np.ndarray | None = None

    @property
    def population(self) -> Population:
        """The same users, to be simulated."""
        return Population.from_histogram(self.counts, self.inputs)


class Errors(NamedTuple):
    """Mean squared errors: of the answer with the largest, and the mean over the answers."""

    largest: Prediction
    mean: Prediction


class Question(Checked, abc.ABC):
    """Base of the questions: what is asked, which protocols answer it, and how well.

    Data are `"worst"`, the users for whom a protocol's error is largest; a name of `NAMED_DATA`; or
    numbers: a histogram, in any proportion, unless a question says otherwise.
    """

    __slots__ = ()

    NAMED_DATA = ("uniform", "zipf")

    @property
    @abc.abstractmethod
    def num_answers(self) -> int:
        """How many numbers are asked for."""

    @property
    @abc.abstractmethod
    def typical(self) -> float:
        """The size of an average answer, to which relative errors refer."""

    @abc.abstractmethod
    def describe(self) -> str:
        """The question in words, such as "a histogram of 1,000 values"."""

    @abc.abstractmethod
    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """What competes, by name.

        Args:
          delta: with which it may be private; None for pure protocols.
          norm: "mean" for what serves all answers, "max" for the worst one.
        """

    def central_candidates(self, delta: float) -> dict[str, Maker]:
        """What a trusted curator may run, by name; none by default.

        Args:
          delta: with which it is private.
        """
        del delta
        return {}

    @abc.abstractmethod
    def _shares(self, data: Data) -> np.ndarray:
        """The data as shares of the users."""

    def users(self, data: Data, num_users: int) -> Users | None:
        """The users that the data stand for; None for the worst.

        Raises:
          ValueError: the data are not known, or do not fit.
        """
        if isinstance(data, str):
            check_choice("data", data, ("worst", *self.NAMED_DATA))
            if data == "worst":
                return None
        shares = self._shares(data)
        return Users(whole_users(shares, num_users, len(shares)))

    def postprocessed(self, protocol: Any) -> Any:
        """The protocol with what is known of the answers applied to them; None for nothing."""
        del protocol

    def errors(self, protocol: Any, num_users: int, users: Users | None) -> Errors:
        """The predicted mean squared errors of a protocol; by default of one number."""
        if users is None:
            error = Prediction.of(protocol.worst_case_variance(num_users))
        else:
            error = Prediction(float(self._variance(protocol, users)), protocol.variance_kind)
        return Errors(error, error)

    def worst_users(self, protocol: Any, num_users: int, largest: bool) -> Users:
        """Users for whom the error is as large as it is predicted to be for any.

        Errors that are linear, or convex, in the histogram are largest where all hold one value.

        Args:
          protocol: a spec.
          num_users: n.
          largest: whether that of the worst answer counts, rather than the mean.

        Raises:
          ValueError: the prediction is a bound, which no users need to attain.
        """
        predicted = self.errors(protocol, num_users, None)[0 if largest else 1]
        found = None
        for users in self._of_one_value(num_users):
            error = self.errors(protocol, num_users, users)[0 if largest else 1]
            if found is None or error > found[0]:
                found = error, users
        assert found is not None, "there is a value"
        if found[0] < predicted * (1 - 1e-3):
            raise ValueError(
                "data must be given: the error for the worst data is a bound, which no data that "
                "are known attain."
            )
        return found[1]

    def trials(self, protocol: Any, users: Users, key: jax.Array, num_trials: int) -> Trials:
        """Simulated answers, with the truth."""
        return simulate(protocol, users.population, key, num_trials=num_trials)

    @abc.abstractmethod
    def _of_one_value(self, num_users: int) -> list[Users]:
        """Users who all hold one value, for each of some values."""

    def _variance(self, protocol: Any, users: Users) -> np.ndarray:
        return protocol.variance(users.counts, users.inputs)


class _OfBins(Question):
    """Base of the questions on users who hold one of k values."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def _size(self) -> int:
        """k, the number of values."""

    def _shares(self, data: Data) -> np.ndarray:
        if isinstance(data, str):
            ranks = np.arange(1.0, self._size + 1)
            return 1 / ranks if data == "zipf" else np.ones(self._size)
        shares = as_float64("data", data)
        if shares.shape != (self._size,):
            raise ValueError(
                f"data must be {self._size} numbers, one for each value, got shape "
                f"{shares.shape}; or one of 'worst', {', '.join(map(repr, self.NAMED_DATA))}."
            )
        return shares

    def _of_one_value(self, num_users: int) -> list[Users]:
        step = max(self._size // _MOST_TRIED, 1)
        places = range(0, self._size, step)
        return [Users(_at(v, self._size, num_users)) for v in places]


class _OfQueries(_OfBins):
    """Base of the questions that are linear in the histogram."""

    __slots__ = ()

    def errors(self, protocol: Any, num_users: int, users: Users | None) -> Errors:
        """The predicted mean squared errors of the answers."""
        if users is None:
            total = Prediction.of(protocol.worst_case_total_variance(num_users))
            largest = Prediction.of(protocol.worst_case_variance(num_users))
            return Errors(largest, total.scaled(1 / self.num_answers))
        each, kind = protocol.variance(users.counts), protocol.variance_kind
        return Errors(Prediction(each.max(), kind), Prediction(each.mean(), kind))

    def postprocessed(self, protocol: Any) -> Any:
        """The nearest answers that some histogram has."""
        return Projected(protocol)

    @abc.abstractmethod
    def _workload(self) -> Any:
        """W, or ValueError where it is too large to store."""

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """What `jaxdp.linear.candidates` has and does not depend on the number of users."""
        makers = linear_candidates(self._workload(), delta, norm=norm)
        del makers["FactorizedQueries, approximate"]  # a search for each number of users
        return dict(makers)

    def central_candidates(self, delta: float) -> dict[str, Maker]:
        """The factorization mechanism with Gaussian noise."""
        return {
            "FactorizationMechanism": lambda e, _: FactorizationMechanism(
                self._workload(), e, delta, norm="gamma_f"
            )
        }


class _OfEachValue(_OfQueries):
    """Base of the questions with an answer for each value; the field `num_values` says how many."""

    __slots__ = ()

    num_values: int

    @property
    def _size(self) -> int:
        return self.num_values

    @property
    def num_answers(self) -> int:
        """The number of values."""
        return self.num_values


def _at(value: int, num_values: int, num_users: int) -> np.ndarray:
    counts = np.zeros(num_values, np.int64)
    counts[value] = num_users
    return counts


@spec
class Histogram(_OfEachValue):
    """The share of the users who hold each value.

    Args:
      num_values: k, at least 2.

    Example:
      >>> from jaxdp.design import Histogram, plan
      >>> found = plan(Histogram(1000), users=50_000, error=0.01)
      >>> print(f"{found.best.name}, epsilon {found.best.epsilon:.2f}")
      SubsetSelection, epsilon 0.87
    """

    num_values: int = field(Integer(2, 2**24))

    @property
    def typical(self) -> float:
        """1 / k, the average share."""
        return 1 / self.num_values

    def describe(self) -> str:
        """In words."""
        return f"a histogram of {self.num_values:,} values"

    def _workload(self) -> Any:
        if self.num_values > _MOST_LISTED:
            raise ValueError(f"is not tried for more than {_MOST_LISTED} values.")
        return identity(self.num_values)

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """The frequency oracles."""
        del delta, norm  # noise for all values at once is no match for them
        return {
            name: lambda e, _, oracle=oracle: HistogramQuery(oracle(self.num_values, e))
            for name, oracle in FREQUENCY_ORACLES.items()
        }


@spec
class LinearQueries(_OfQueries):
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
    def _size(self) -> int:
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
        """In words."""
        return f"{self.num_answers:,} linear queries on {self._size:,} values"

    def _workload(self) -> Any:
        return self.workload


@spec
class Quantiles(_OfEachValue):
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
        """In words."""
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
      BinaryResponse: 46,830 users
    """

    low: float = field(Real())
    high: float = field(Real())

    NAMED_DATA = ("uniform",)

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

    def describe(self) -> str:
        """In words."""
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
        middle = (self.low + self.high) / 2
        return Users(np.asarray(counts, np.int64), (numbers - middle).astype(np.float32))

    def _of_one_value(self, num_users: int) -> list[Users]:
        values = np.linspace(-self.bound, self.bound, _GRID, dtype=np.float32)
        return [Users(np.array([num_users]), value[None]) for value in values]


@spec
class PairStatistic(_OfBins):
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
      110,489 users
    """

    kernel: Any = field(PairwiseProtocol.KERNEL)
    num_values: Any = field(PairwiseProtocol.NUM_VALUES, default=None)
    rounds: int = field(Integer(1, 3), default=1)

    def validate(self) -> None:
        """Raises ValueError unless the kernel has a domain."""
        _ = self._plain

    @property
    def _plain(self) -> Any:
        return pairwise_candidates(self.kernel, self.num_values)["QuantizedRR"](1.0, 2)

    @property
    def _size(self) -> int:
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
        """In words."""
        return f"{type(self.kernel).__name__} of pairs of users with {self._size:,} values"

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """What `jaxdp.pairwise.candidates` has."""
        del delta, norm
        return dict(pairwise_candidates(self.kernel, self.num_values, self.rounds))
