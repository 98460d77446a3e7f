"""The question for the difference between two groups."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._checks import Instance, Real
from .._contract import field, spec
from .._prediction import Kind, Prediction
from ._question import Data, Errors, Maker, Question, Users

_KINDS: tuple[Kind, ...] = ("exact", "delta", "simulated", "bound")  # the best known first


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


@spec
class Comparison(Question):
    """How much the answers of two groups of users differ: those of the second minus the first.

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

    question: Question = field(Instance(Question, "a question, such as Histogram(10)"))
    share: float = field(Real(0.0, 1.0), default=0.5)

    def validate(self) -> None:
        """Raises ValueError for a comparison of comparisons, or where answers are no numbers."""
        if isinstance(self.question, Comparison) or "rmse" not in self.question.LOSSES:
            raise ValueError(
                f"question must be one whose answers are numbers, got {self.question!r}."
            )

    @property
    def num_answers(self) -> int:
        """As many as the question has."""
        return self.question.num_answers

    @property
    def typical(self) -> float:
        """The size of an average answer of one group."""
        return self.question.typical

    @property
    def LOSSES(self) -> Mapping[str, str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The question has the same."""
        return self.question.LOSSES

    def describe(self) -> str:
        """In words."""
        return f"the difference between two groups in {self.question.describe()}"

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """What the question has, made for the smaller group."""
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
        """The sums of the errors of the groups, whose reports are independent."""
        groups = (None, None) if users is None else _of(users)
        sizes = self._sizes(num_users)
        first, second = (
            self.question.errors(protocol, size, group)
            for size, group in zip(sizes, groups, strict=True)
        )
        return Errors(*(_sum(a, b) for a, b in zip(first, second, strict=True)))

    def worst_users(self, protocol: Any, num_users: int, largest: bool) -> TwoGroups:
        """Users for whom the error of both groups is as large as it is for any."""
        first, second = (
            self.question.worst_users(protocol, size, largest) for size in self._sizes(num_users)
        )
        return TwoGroups(first.counts, first.inputs, second=second)

    def runs(self, protocol: Any, users: Users) -> tuple[tuple[int, Users], ...]:
        """The runs of the second group, and those of the first, which are subtracted."""
        first, second = (self.question.runs(protocol, group) for group in _of(users))
        return (*second, *((-sign, some) for sign, some in first))

    def answers(self, estimates: Any) -> np.ndarray:
        """What the question takes for its answers."""
        return self.question.answers(estimates)

    def _of_one_value(self, num_users: int) -> list[Users]:
        return self.question._of_one_value(num_users)

    def _sizes(self, num_users: int) -> tuple[int, int]:
        first = round(self.share * num_users)
        if min(first, num_users - first) < 2:
            raise ValueError(
                f"share must leave two users to each group, got {self.share:g} of {num_users:,}."
            )
        return first, num_users - first


def _of(users: Users) -> tuple[Users, Users]:
    assert isinstance(users, TwoGroups), "users of a comparison are two groups"
    return users.first, users.second


def _sum(first: Prediction, second: Prediction) -> Prediction:
    """The sum of independent errors, known as well as the one that is known less."""
    kinds: tuple[Kind, Kind] = first.kind, second.kind
    kind = kinds[0] if _KINDS.index(kinds[0]) > _KINDS.index(kinds[1]) else kinds[1]
    return Prediction(first + second, kind, float(np.hypot(first.stderr, second.stderr)))
