"""Several questions on one budget."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._prediction import Prediction
from .._spec import check_epsilon, check_int, check_real
from ..randomizers import FREQUENCY_ORACLES
from ._option import Option
from ._plan import check_labels, plan
from ._question import Data, Maker, OfQueries, Question, asked_for
from ._several_numbers import SeveralNumbers, Way, by_name
from ._several_page import several_page
from ._solve import least_epsilon, least_factor, least_users

_TOL = 1e-3  # relative, of what is solved for


@dataclasses.dataclass(frozen=True)
class Several(SeveralNumbers):
    """Ways to answer several questions, the best first; `print` shows them.

    Attributes:
      questions: by name.
      solved: which of "users", "epsilon" and "errors" was asked for.
      ways: see `Way`.
      refused: the ways that cannot do it, and why.
      asked: what `several` was called with, but for the questions.
    """

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        labels: Mapping[str, Sequence[str]] | None = None,
        seconds: float = 6.0,
    ) -> str:
        """The best way as a page: one file, which asks nothing of any server.

        It has the answer in words, the ways side by side, for each question errors against epsilon
        and users and a simulated result, what a person's answers reveal, the privacy statement, and
        what to run.

        Args:
          path: of a file to write it to as well; None for none.
          labels: what the answers of a question are of, by its name; None for their numbers.
          seconds: how long errors at other epsilons and users may take to compute.

        Returns:
          The text of the page.

        Raises:
          ValueError: labels are of no question, or not as many as its answers.
        """
        named: dict[str, tuple[str, ...]] = {}
        for name, texts in ({} if labels is None else labels).items():
            if name not in self.questions:
                raise ValueError(
                    f"labels must be of {', '.join(map(repr, self.questions))}, got {name!r}."
                )
            number = self.questions[name].num_answers
            named[name] = check_labels(texts, number)
        text = several_page(self, self.plans(), named, check_real("seconds", seconds, low=0.0))
        if path is not None:
            pathlib.Path(path).write_text(text, encoding="utf-8")
        return text


def several(
    questions: Mapping[str, Question],
    *,
    users: int | None = None,
    epsilon: float | None = None,
    errors: Mapping[str, float] | float | None = None,
    data: Mapping[str, Data] | Data = "worst",
) -> Several:
    """Computes the third of users, epsilon and errors, for several questions at once.

    Three ways are compared: the users are divided, each is asked one question; or epsilon is, each
    answers all of them; or, where the questions are about the same values, one report of a
    frequency oracle answers all. Shares of the users, and parts of epsilon, are such that all
    questions have the same ratio of the error to what is asked for.

    Args:
      questions: by name, two at least.
      users: n of all questions together, at least 2; None to ask for the least number.
      epsilon: the privacy parameter of all reports of a person together; None to ask for it.
      errors: root mean squared errors of the questions by name, or one for all; None to ask for
        them, in proportion to the sizes of average answers (`Question.typical`).
      data: as of `plan`, for all questions, or by their names.

    Returns:
      A `Several`. Errors have closed forms. For each question the protocol is the one that is best
      with all of the users, or all of epsilon.

    Raises:
      ValueError: an argument is out of range; not two of three are given; or nothing reaches the
        errors.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.design import Histogram, Mean, several
      >>> asked = {"transport": Histogram(8), "age": Mean(18, 100)}
      >>> found = several(asked, epsilon=1.0, errors={"transport": 0.01, "age": 1.0})
      >>> print(f"{found.best.name}: {found.best.num_users:,} users")
      groups: 35,043 users
    """
    asked = dict(users=users, epsilon=epsilon, errors=errors, data=data)
    questions = _checked(questions)
    solved = asked_for(users=users, epsilon=epsilon, errors=errors)
    n = None if users is None else check_int("users", users, low=2)
    e = None if epsilon is None else check_epsilon(epsilon)
    if errors is None:
        targets = {name: question.typical for name, question in questions.items()}
    else:
        targets = {
            name: check_real(f"errors of {name!r}", value, low=0.0)
            for name, value in by_name("errors", errors, questions).items()
        }
    search = _Search(questions, targets, by_name("data", data, questions), n, e, errors is None)
    ways: list[Way] = []
    refused: list[tuple[str, str]] = []
    for name, make in (
        ("groups", search.groups),
        ("split", search.split),
        ("shared", search.shared),
    ):
        try:
            ways.append(make())
        except ValueError as reason:
            refused.append((name, str(reason)))
    if not ways:
        raise ValueError(
            " ".join(["no way reaches the errors.", *(f"{n}: {r}" for n, r in refused)])
        )
    ways.sort(key=search.asked)
    return Several(questions, solved, tuple(ways), tuple(refused), asked)


def _checked(questions: object) -> dict[str, Question]:
    if not isinstance(questions, Mapping) or not all(
        isinstance(each, Question) for each in questions.values()
    ):
        raise TypeError(f"questions must be a mapping from names to questions, got {questions!r}.")
    if len(questions) < 2:
        raise ValueError(f"questions must be two at least, got {len(questions)}; use plan for one.")
    for name, question in questions.items():
        if "rmse" not in question.LOSSES:
            raise ValueError(f"questions must have answers that have an error; {name!r} has none.")
    return dict(questions)


@dataclasses.dataclass(frozen=True)
class _Search:
    """What is given, and what is asked for."""

    questions: Mapping[str, Question]
    targets: Mapping[str, float]
    data: Mapping[str, Data]
    users: int | None
    epsilon: float | None
    errors_asked: bool

    def asked(self, way: Way) -> float:
        """The number that is asked for."""
        if self.users is None:
            return way.num_users
        return way.epsilon if self.epsilon is None else way.largest

    def option(self, name: str, only: str | None = None, **given: Any) -> Option:
        """The best option for a question, or that of one protocol."""
        question = self.questions[name]
        if only is not None:
            given |= {"candidates": {only: self.makers[name][only]}, "defaults": False}
        return plan(question, data=self.data[name], num_trials=0, **given).best

    @functools.cached_property
    def makers(self) -> dict[str, dict[str, Maker]]:
        """What competes for each question."""
        return {name: question.candidates() for name, question in self.questions.items()}

    @functools.cached_property
    def protocols(self) -> dict[str, str]:
        """The name of the best protocol for each question."""
        return {
            name: self.option(name, **self._two(self.targets[name])).name for name in self.questions
        }

    def _two(self, error: float) -> dict[str, Any]:
        """What is given for one question: users and epsilon, or one of them and an error."""
        given = {"users": self.users, "epsilon": self.epsilon}
        known = {name: value for name, value in given.items() if value is not None}
        return known if len(known) == 2 else {**known, "error": error}

    def each(self, factor: float, **given: Any) -> dict[str, Option]:
        """The options for errors that are a factor times the targets."""
        return {
            name: self.option(name, only, error=factor * self.targets[name], **given)
            for name, only in self.protocols.items()
        }

    def groups(self) -> Way:
        """Each person answers one question: numbers of users add up."""
        factor, found = self.divided("epsilon", "num_users", least_epsilon)
        options = list(found.values())
        return Way("groups", found, sum(o.num_users for o in options), options[0].epsilon, factor)

    def split(self) -> Way:
        """Each person answers all questions: parts of epsilon add up."""
        factor, found = self.divided("users", "epsilon", least_users)
        options = list(found.values())
        return Way("split", found, options[0].num_users, sum(o.epsilon for o in options), factor)

    def divided(
        self, same: str, adds: str, least: Callable[..., tuple[Any, Prediction]]
    ) -> tuple[float, dict[str, Option]]:
        """The factor of the errors, and the options, whose parts of a budget add up to it.

        Args:
          same: what all options have, "users" or "epsilon"; the budget is of the other.
          adds: the part of an option.
          least: solves for what all have, where it is asked for.
        """
        value, budget = self.epsilon, self.users
        if same == "users":
            value, budget = budget, value

        def spent(factor: float, value: float) -> Prediction:
            assert budget is not None, "one of the three is asked for"
            found = self.each(factor, **{same: value}).values()
            return Prediction(sum(getattr(option, adds) for option in found) / budget)

        factor = 1.0
        if value is None:
            value, _ = least(lambda x: spent(1.0, x), 1.0, tol=_TOL)
        elif budget is not None:
            fixed = value
            factor = least_factor(lambda f: spent(f, fixed), _TOL)
        return factor, self.each(factor, **{same: value})

    def shared(self) -> Way:
        """One report answers all, and the most demanding question rules."""
        sizes = {q.size for q in self.questions.values() if isinstance(q, OfQueries)}
        if len(sizes) > 1 or not all(isinstance(q, OfQueries) for q in self.questions.values()):
            raise ValueError("the questions are not about the same values.")
        found: list[Way] = []
        for oracle in FREQUENCY_ORACLES:
            try:
                found.append(self.through(oracle))
            except ValueError:  # refused for these values, or this epsilon
                continue
        if not found:
            raise ValueError("no oracle reaches the errors.")
        return min(found, key=self.asked)

    def through(self, oracle: str) -> Way:
        """All questions through one oracle."""
        ask: Callable[..., Option] = functools.partial(self.option, only=oracle)
        users, epsilon = self.users, self.epsilon
        if users is None:
            needs = (ask(q, epsilon=epsilon, error=t).num_users for q, t in self.targets.items())
            users = max(needs)
        if epsilon is None:
            epsilon = max(ask(q, users=users, error=t).epsilon for q, t in self.targets.items())
        options = {q: ask(q, users=users, epsilon=epsilon) for q in self.questions}
        largest = max(option.error / self.targets[q] for q, option in options.items())
        return Way("shared", options, users, epsilon, largest if self.errors_asked else 1.0)
