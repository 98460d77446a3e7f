"""The questions for differences: between two groups, and between two collections."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._checks import Instance, Real
from .._contract import Work, field, spec
from .._prediction import Prediction, least_known
from ._question import Data, Errors, Maker, Question, Users

_ASKED = Instance(Question, "a question, such as Histogram(10)")


@dataclasses.dataclass(frozen=True, eq=False)
class TwoGroups(Users):
    """The users of a first group, as `Users`, with those of a second.

    Attributes:
      second: the users of the second group.
    """

    second: Users = dataclasses.field(kw_only=True)

    @property
    def first(self) -> Users:
        """The users of the first group."""
        return Users(self.counts, self.inputs)


class OfTwo(Question):
    """Base of the questions for a factor times the answers of some users minus those of others.

    The reports of the two are independent. Data are those of the question, and the same for both;
    or a pair of them.

    Attributes:
      question: what both are asked.
    """

    __slots__ = ()

    question: Question

    @abc.abstractmethod
    def _sizes(self, num_users: int) -> tuple[int, int]:
        """How many users the two are."""

    @property
    def factor(self) -> float:
        """Factor by which the difference is multiplied."""
        return 1.0

    def validate(self) -> None:
        """Raises ValueError for a difference of differences, or where answers are no numbers."""
        if isinstance(self.question, OfTwo) or "rmse" not in self.question.LOSSES:
            raise ValueError(
                f"question must be one whose answers are numbers, got {self.question!r}."
            )

    @property
    def num_answers(self) -> int:
        """Number of answers, which is the question's."""
        return self.question.num_answers

    @property
    def typical(self) -> float:
        """The size of an average answer of the question."""
        return self.question.typical

    @property
    def answer_labels(self) -> tuple[str, ...] | None:
        """The question has the same."""
        return self.question.answer_labels

    @property
    def value_offset(self) -> float:
        """The offset of the question, which is no part of a difference."""
        return self.question.offset

    @property
    def LOSSES(self) -> Mapping[str, str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The question has the same."""
        return self.question.LOSSES

    @property
    def NAMED_DATA(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The question has the same."""
        return self.question.NAMED_DATA

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """Candidates of the question, made for the smaller number of users."""
        makers = self.question.candidates(delta, norm)
        return {
            name: lambda e, n, make=make: make(e, min(self._sizes(n)))
            for name, make in makers.items()
        }

    def users(self, data: Data, num_users: int) -> TwoGroups | None:
        """The users that the data stand for."""
        sizes = self._sizes(num_users)
        both = data if isinstance(data, tuple) and len(data) == 2 else (data, data)
        first, second = (self.question.users(d, n) for d, n in zip(both, sizes, strict=True))
        if first is None or second is None:
            if first is not second:
                raise ValueError("data must be given for both groups, or 'worst' for both.")
            return None
        return TwoGroups(first.counts, first.inputs, second=second)

    def errors(self, protocol: Any, num_users: int, users: Users | None) -> Errors:
        """The sums of the errors of the two, whose reports are independent."""
        groups = (None, None) if users is None else _of(users)
        sizes = self._sizes(num_users)
        first, second = (
            self.question.errors(protocol, size, group)
            for size, group in zip(sizes, groups, strict=True)
        )
        sums = (_sum(a, b) for a, b in zip(first, second, strict=True))
        return Errors(*(each.scaled(self.factor**2) for each in sums))

    def worst_users(self, protocol: Any, num_users: int, largest: bool) -> TwoGroups:
        """Users for whom the error of both is as large as it is for any."""
        first, second = (
            self.question.worst_users(protocol, size, largest) for size in self._sizes(num_users)
        )
        return TwoGroups(first.counts, first.inputs, second=second)

    def runs(self, protocol: Any, users: Users) -> tuple[tuple[float, Users], ...]:
        """The runs of the second, and those of the first, which are subtracted."""
        first, second = (self.question.runs(protocol, group) for group in _of(users))
        signed = (*second, *((-sign, some) for sign, some in first))
        return tuple((self.factor * sign, some) for sign, some in signed)

    def answers(self, estimates: Any) -> np.ndarray:
        """Answers as the question defines them."""
        return self.question.answers(estimates)


@spec
class Comparison(OfTwo):
    """Asks how much two groups of users differ: answers of the second minus the first.

    Every user belongs to one group, which the analyst knows, and reports about its value. Data are
    those of the question, and the same in both groups; or a pair of them.

    Args:
      question: what both groups are asked.
      share: of the users in the first group, in (0, 1).

    Example:
      >>> from jaxdp.design import Comparison, Mean, plan
      >>> found = plan(Comparison(Mean(0, 1)), users=20_000, epsilon=1.0, confidence=0.95)
      >>> print(f"{found.best.error:.3f}")
      0.030
    """

    question: Question = field(_ASKED)
    share: float = field(Real(0.0, 1.0), default=0.5)

    def describe(self) -> str:
        """The question in words."""
        return f"the difference between two groups in {self.question.describe()}"

    def _sizes(self, num_users: int) -> tuple[int, int]:
        first = round(self.share * num_users)
        if min(first, num_users - first) < 2:
            raise ValueError(
                f"share must leave two users to each group, got {self.share:g} of {num_users:,}."
            )
        return first, num_users - first


@spec
class Change(OfTwo):
    """Asks how much the answers of the same users change between two collections.

    Devices remember the report of a value, and send it again in the second collection unless their
    value changed: then they draw and send the report of the new one. A report that is sent twice is
    the same in both estimates, and cancels in their difference. So only the users whose value
    changed add noise, a share c of all: the two estimates are correlated, and with the variances
    `V / n` of one of them alone that of the difference is `c (V_before + V_after) / n`, where fresh
    reports have `(V_before + V_after) / n`.

    A person whose value changed sends two reports, and epsilon is of both of them.

    Data are what the users whose value changed hold before and after: those of the question, and
    the same for both; or a pair of them.

    Args:
      question: what is asked in both collections.
      changed: c, the share of the users whose value is another one in the second, in (0, 1]; the
        largest that you expect. 1 where devices remember nothing, and all reports are fresh.

    Example:
      >>> from jaxdp.design import Change, Histogram, plan
      >>> given = dict(users=50_000, epsilon=2.0)
      >>> afresh, remembered = (plan(Change(Histogram(8), c), **given).best for c in (1.0, 0.1))
      >>> print(f"{afresh.error:.4f}, {remembered.error:.4f}")
      0.0104, 0.0033
    """

    question: Question = field(_ASKED)
    changed: float = field(Real(0.0, 1.0, closed=True), default=1.0)

    @property
    def least_reports(self) -> int:
        """2: of the value before and the one after."""
        return 2

    @property
    def factor(self) -> float:
        """The share of the users whose reports do not cancel."""
        return self.changed

    def describe(self) -> str:
        """The question in words."""
        return f"the change between two collections in {self.question.describe()}"

    def errors(self, protocol: Any, num_users: int, users: Users | None) -> Errors:
        """The errors of the users whose value changed.

        Raises:
          ValueError: the protocol draws fresh noise for a report of a remembered one.
        """
        steps = protocol.built.rounds(Work(float(num_users), 1))
        if self.changed < 1 and any(step.round.permanent_words for step in steps):
            raise ValueError(
                "its reports of a remembered one are fresh, and do not cancel; see "
                "jaxdp.randomizers.Memoised.change_variance."
            )
        return super().errors(protocol, num_users, users)

    def _sizes(self, num_users: int) -> tuple[int, int]:
        some = round(self.changed * num_users)
        if some < 2:
            raise ValueError(
                f"changed must be of two users at least, got {self.changed:g} of {num_users:,}."
            )
        return some, some


def _of(users: Users) -> tuple[Users, Users]:
    assert isinstance(users, TwoGroups), "users of a comparison are two groups"
    return users.first, users.second


def _sum(first: Prediction, second: Prediction) -> Prediction:
    """The sum of independent errors."""
    kind = least_known((first.kind, second.kind))
    return Prediction(first + second, kind, float(np.hypot(first.stderr, second.stderr)))
