"""What a plan for several questions holds, as numbers and as text."""

import dataclasses
import math
import textwrap
from collections.abc import Mapping
from typing import Any

import jax

from .._ranking import table
from .._spec import check_int
from ._measure import Measure
from ._option import Goal, Option
from ._plan import Plan
from ._question import Question
from ._statement import statement_of_several

HOW = {
    "groups": "each person answers one question",
    "split": "each person answers all questions, with a part of epsilon each",
    "shared": "each person sends one report, which answers all questions",
}
"""The ways to answer several questions of the same people, and what they are."""


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to answer several questions.

    Attributes:
      name: "groups", "split" or "shared", see `HOW`.
      options: for each question the protocol, its users, its epsilon, and its error.
      num_users: of all questions together.
      epsilon: of all reports of a person together.
      largest: the largest ratio of an error to what was asked for.
    """

    name: str
    options: Mapping[str, Option]
    num_users: int
    epsilon: float
    largest: float


@dataclasses.dataclass(frozen=True)
class SeveralNumbers:
    """Ways to answer several questions, the best first: all of it but its page.

    Attributes:
      questions: by name.
      solved: which of "users", "epsilon" and "errors" was asked for.
      ways: see `Way`.
      refused: the ways that cannot do it, and why.
      asked: what `several` was called with, but for the questions.
    """

    questions: Mapping[str, Question]
    solved: str
    ways: tuple[Way, ...]
    refused: tuple[tuple[str, str], ...]
    asked: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def best(self) -> Way:
        """The best way, the first in the list."""
        return self.ways[0]

    @staticmethod
    def how(way: Way) -> str:
        """How people answer the questions in a way, in words."""
        return HOW[way.name]

    @property
    def privacy(self) -> tuple[float, float]:
        """The epsilon and delta of all that a person sends in the best way, as realised."""
        epsilons = [float(o.protocol.exact_epsilon()) for o in self.best.options.values()]
        return (sum(epsilons) if self.best.name == "split" else max(epsilons)), 0.0

    def plans(self, way: int = 0) -> dict[str, Plan]:
        """The plan of each question, to be simulated or looked at.

        Args:
          way: its place in `ways`.
        """
        chosen = self.ways[check_int("way", way, low=0, high=len(self.ways) - 1)]
        data = by_name("data", self.asked.get("data", "worst"), self.questions)
        made = {}
        for name, option in chosen.options.items():
            goal = Goal("rmse", 1.0)
            measure = Measure(self.questions[name], goal, data[name], jax.random.key(0))
            given = {"users": option.num_users, "epsilon": option.epsilon, "data": data[name]}
            made[name] = Plan(measure, "error", (option,), (), given)
        return made

    def summary(self) -> str:
        """What the best way is, for whoever decides about it: text of a few paragraphs."""
        best = self.best
        answers = [
            f"{name}, {self.questions[name].describe()}: an error of {option.error:.3g} with "
            f"{option.name}"
            for name, option in best.options.items()
        ]
        factor = math.exp(self.privacy[0])
        others = [f"{way.num_users:,} users, epsilon {way.epsilon:.3g}" for way in self.ways[1:]]
        others = [f"{way.name} ({text})" for way, text in zip(self.ways[1:], others, strict=True)]
        paragraphs = [
            f"{len(self.questions)} questions, from {best.num_users:,} users with an epsilon of "
            f"{best.epsilon:.3g} for all that a person sends: {self.how(best)}.",
            f"Root mean squared errors: {'; '.join(answers)}.",
            *([f"Other ways: {', '.join(others)}."] if others else []),
            f"What it reveals: nothing that a person sends is more than {factor:.3g} times as "
            "likely for one person as for another. Whoever thinks that something about a person is "
            f"as likely as not is at most {factor / (1 + factor):.1%} sure of it afterwards.",
        ]
        return "\n\n".join(textwrap.fill(paragraph, 88) for paragraph in paragraphs)

    def statement(self) -> str:
        """The privacy statement of the best way: plain text, for those who review a plan."""
        best = self.best
        return statement_of_several(self.questions, best.options, self.how(best), self.privacy[0])

    def __str__(self) -> str:
        """A Markdown table of the ways, with what was left out."""
        rows = [
            (
                way.name,
                name,
                option.name,
                f"{option.num_users:,}",
                f"{option.epsilon:.4g}",
                f"{option.error:.4g}",
                option.error.kind,
            )
            for way in self.ways
            for name, option in way.options.items()
        ]
        header = ("way", "question", "protocol", "users", "epsilon", "error", "kind")
        return table(header, rows, self.refused)


def by_name(argument: str, value: Any, questions: Mapping[str, Question]) -> dict[str, Any]:
    """The value of each question; one that is no mapping is that of all."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(questions, value)
    if set(value) != set(questions):
        raise ValueError(
            f"{argument} must have the names of the questions, {', '.join(map(repr, questions))}; "
            f"got {', '.join(map(repr, value))}."
        )
    return dict(value)
