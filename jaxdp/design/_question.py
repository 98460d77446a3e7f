"""What all questions have in common, and those about users who hold one of k values."""

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._checked import Checked
from .._contract import Work
from .._prediction import Kind, Prediction
from .._queries import check_workload
from .._ranking import whole_users
from .._spec import as_float64, check_choice
from ..central import FactorizationMechanism
from ..engine import Trials, simulate
from ..factorization import least_local_rmse
from ..linear import candidates as linear_candidates
from ..linear import post_processed
from ..population import Population
from ..trusted import SecureSum

Helper = Literal["secure sum", "central"]
"""Whom users trust with more than private reports: as of `rank` and `plan`."""

Maker = Callable[[float, int], Any]
"""Makes a protocol's spec from (epsilon, num_users), or raises ValueError."""

Data = str | ArrayLike
"""What the users hold: a name, or numbers that the question knows how to read."""

_MOST_TRIED = 512  # values that all users might hold
HARD_VALUES = 64  # that the users of a lower bound hold
_MOST_STORED = 2**22  # entries of a workload for one


ONE_NUMBER: Mapping[str, str] = MappingProxyType(
    {
        "rmse": "root mean squared error",
        "worst": "root mean squared error",
        "max": "expected absolute error",
    }
)
"""The `Question.LOSSES` of a single number."""


@dataclasses.dataclass(frozen=True, eq=False)
class Users:
    """Users whose data are given.

    Attributes:
      counts: int64[k], how many hold each value.
      inputs: float32[k, ...], the values, where they are not the bins.
    """

    counts: np.ndarray
    inputs: np.ndarray | None = None

    @property
    def population(self) -> Population:
        """The same users as a population to simulate."""
        return Population.from_histogram(self.counts, self.inputs)


class Errors(NamedTuple):
    """Mean squared errors: of the answer with the largest, and the mean over the answers."""

    largest: Prediction
    mean: Prediction

    @classmethod
    def of(cls, each: np.ndarray, kind: Kind) -> "Errors":
        """Makes errors from the mean squared error of each answer."""
        return cls(Prediction(each.max(), kind), Prediction(each.mean(), kind))


class Question(Checked, abc.ABC):
    """Base of the questions: what is asked, which protocols answer it, and how well.

    Data are `"worst"`, the users for whom a protocol's error is largest; a name of `NAMED_DATA`; or
    numbers: a histogram, in any proportion, unless a question says otherwise.
    """

    __slots__ = ()

    NAMED_DATA: ClassVar[tuple[str, ...]] = ("uniform", "zipf")
    LOSSES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "rmse": "root mean squared error over the answers",
            "worst": "root mean squared error of the worst answer",
            "max": "expected largest error of any answer",
        }
    )
    """The errors that may be asked for, the default first, and what they are."""

    @property
    @abc.abstractmethod
    def num_answers(self) -> int:
        """Number of answers."""

    @property
    @abc.abstractmethod
    def typical(self) -> float:
        """The size of an average answer, to which relative errors refer."""

    @property
    def offset(self) -> float:
        """Offset added to estimates, which are of centred numbers, to make them answers."""
        return 0.0

    @property
    def answer_labels(self) -> tuple[str, ...] | None:
        """Labels of the answers; None to number them."""
        return None

    @property
    def value_offset(self) -> float:
        """Offset added to the numbers that users report about, to make them their values."""
        return self.offset

    @property
    def least_reports(self) -> int:
        """Number of reports per person that the question takes; epsilon covers all of them."""
        return 1

    @abc.abstractmethod
    def describe(self) -> str:
        """The question in words, such as "a histogram of 1,000 values"."""

    @abc.abstractmethod
    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """The competing protocols, by name.

        Args:
          delta: with which it may be private; None for pure protocols.
          norm: "mean" for what serves all answers, "max" for the worst one.
        """

    def trusting_candidates(self, trust: Helper, delta: float) -> dict[str, Maker]:
        """The protocols that compete where users trust a helper, by name; none by default.

        Args:
          trust: "central" for a curator, to whom values go as they are; "secure sum" where nobody
            sees more of the users' vectors than their sum.
          delta: with which it is private.
        """
        del trust, delta
        return {}

    @abc.abstractmethod
    def users(self, data: Data, num_users: int) -> Users | None:
        """The users that the data stand for; None for the worst.

        Raises:
          ValueError: the data are not known, or do not fit.
        """

    def least_error(self, epsilon: float, num_users: int) -> float:
        """The root mean squared error that every pure local protocol has for some users.

        Args:
          epsilon: the privacy parameter.
          num_users: n.

        Returns:
          A proven bound, as of `least_local_rmse`, less what the sampling of users adds to that; 0
          where none is known.
        """
        workload = self._hard_queries()
        if workload is None:
            return 0.0
        # The mean squared error of answers W h depends on W^T W alone, which has fewer rows.
        answers = len(workload)
        root: np.ndarray = np.linalg.qr(workload, mode="r")  # pyright: ignore[reportAssignmentType]
        spread = np.sum((root - root.mean(axis=1, keepdims=True)) ** 2, axis=0).max()
        of_population = least_local_rmse(root, epsilon, num_users) * math.sqrt(len(root))
        of_users = of_population - math.sqrt(spread / num_users)
        return max(of_users, 0.0) / math.sqrt(answers)

    def _hard_queries(self) -> np.ndarray | None:
        """Queries on a few values, float[m, k]; no answer is easier. None where none are known."""
        return None

    @property
    def is_linear(self) -> bool:
        """Whether answers are averages, rather than ratios or logarithms of averages."""
        return True

    def postprocessed(self, protocol: Any) -> dict[str, Any]:
        """The protocol with what is known of its answers applied to them, by what is done."""
        del protocol
        return {}

    def errors(self, protocol: Any, num_users: int, users: Users | None) -> Errors:
        """The predicted mean squared errors of a protocol; by default of one number."""
        if users is None:
            error = Prediction.of(protocol.worst_case_variance(num_users))
        else:
            variance = protocol.variance(users.counts, users.inputs)
            error = Prediction(float(variance), protocol.variance_kind)
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

    def runs(self, protocol: Any, users: Users) -> tuple[tuple[float, Users], ...]:
        """The users of each run of the protocol, with the factor of its estimate in the answers."""
        del protocol
        return ((1, users),)

    def trials(self, protocol: Any, users: Users, key: jax.Array, num_trials: int) -> Trials:
        """Simulated answers, with the truth."""
        runs = self.runs(protocol, users)
        keys = jax.random.split(key, len(runs)) if len(runs) > 1 else [key]
        found = [
            simulate(protocol, some.population, part, num_trials=num_trials)
            for (_, some), part in zip(runs, keys, strict=True)
        ]
        scaled = [(factor, trials) for (factor, _), trials in zip(runs, found, strict=True)]
        truth = sum((factor * self.answers(t.truth) for factor, t in scaled), np.zeros(()))
        return Trials(
            sum((factor * self.answers(t.estimates) for factor, t in scaled), np.zeros(())),
            truth,
            found[0].method,
            sum(t.num_users for t in found),
        )

    def answers(self, estimates: Any) -> np.ndarray:
        """The answers among what a protocol estimates, on the last axis: by default all."""
        return np.asarray(estimates)

    def trial_cost(self, protocol: Any, users: Users) -> float:
        """About how many nanoseconds a trial takes."""
        works = (Work(float(u.counts.sum()), len(u.counts)) for _, u in self.runs(protocol, users))
        costs = map(protocol.built.cost, works)
        return sum(min(cost.per_user, cost.tally) for cost in costs)

    def _of_one_value(self, num_users: int) -> list[Users]:
        """Users who all hold one value, for each of some; what `worst_users` searches."""
        raise NotImplementedError


class OfBins(Question):
    """Base of the questions on users who hold one of k values."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """k, the number of values."""

    def users(self, data: Data, num_users: int) -> Users | None:
        """The users that the data stand for; None for the worst.

        Raises:
          ValueError: the data are not known, or do not fit.
        """
        if isinstance(data, str):
            check_choice("data", data, ("worst", *self.NAMED_DATA))
            return None if data == "worst" else Users(whole_users(data, num_users, self.size))
        shares = as_float64("data", data)
        if shares.shape != (self.size,):
            raise ValueError(
                f"data must be {self.size} numbers, one for each value, got shape "
                f"{shares.shape}; or one of 'worst', {', '.join(map(repr, self.NAMED_DATA))}."
            )
        return Users(whole_users(shares, num_users, self.size))

    def _of_one_value(self, num_users: int) -> list[Users]:
        places = np.arange(0, self.size, max(self.size // _MOST_TRIED, 1))
        everyone = np.zeros((len(places), self.size), np.int64)
        everyone[np.arange(len(places)), places] = num_users
        return list(map(Users, everyone))


class OfQueries(OfBins):
    """Base of the questions that are linear in the histogram."""

    __slots__ = ()

    def errors(self, protocol: Any, num_users: int, users: Users | None) -> Errors:
        """The predicted mean squared errors of the answers."""
        if users is None:
            total = Prediction.of(protocol.worst_case_total_variance(num_users))
            largest = Prediction.of(protocol.worst_case_variance(num_users))
            return Errors(largest, total.scaled(1 / self.num_answers))
        return Errors.of(protocol.variance(users.counts), protocol.variance_kind)

    def postprocessed(self, protocol: Any) -> dict[str, Any]:
        """The nearest answers that some histogram has, and those of the likeliest distribution."""
        return dict(post_processed(protocol))

    @abc.abstractmethod
    def _workload(self) -> Any:
        """W, or ValueError where it is too large to store."""

    def _hard_queries(self) -> np.ndarray | None:
        if self.size * self.num_answers > _MOST_STORED:
            return None
        some = np.unique(np.linspace(0, self.size - 1, HARD_VALUES).astype(int))
        return np.asarray(check_workload(self._workload()).values, np.float64)[:, some]

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """What `jaxdp.linear.candidates` has and does not depend on the number of users."""
        makers = linear_candidates(self._workload(), delta, norm=norm)
        del makers["FactorizedQueries, approximate"]  # a search for each number of users
        return dict(makers)

    def trusting_candidates(self, trust: Helper, delta: float) -> dict[str, Maker]:
        """The factorization mechanism with Gaussian noise, a curator's or all users' together."""
        if trust == "central":
            return {
                "FactorizationMechanism": lambda e, _: FactorizationMechanism(
                    self._workload(), e, delta, norm="gamma_f"
                )
            }
        return {"SecureSum": lambda e, n: SecureSum(self._workload(), e, delta, n, norm="gamma_f")}


class OfEachValue(OfQueries):
    """Base of the questions with an answer for each value; the field `num_values` says how many."""

    __slots__ = ()

    num_values: int

    @property
    def size(self) -> int:
        """k, the number of values."""
        return self.num_values

    @property
    def num_answers(self) -> int:
        """The number of values."""
        return self.num_values


def asked_for(**given: object) -> str:
    """The one of several arguments that is None, so that it is asked for.

    Raises:
      ValueError: none is, or more than one.
    """
    unknown = [name for name, value in given.items() if value is None]
    if len(unknown) != 1:
        *first, last = given
        raise ValueError(
            f"{', '.join(first)} and {last} must all be given but one, which is computed; got "
            f"{len(given) - len(unknown)} of them."
        )
    return unknown[0]


def as_title(text: str) -> str:
    """With a capital letter at the beginning, and others as they are."""
    return text[:1].upper() + text[1:]
