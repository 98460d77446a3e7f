"""What a plan holds, as numbers and as text."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from .._form import spec_to_json
from .._prediction import Prediction
from .._ranking import table
from .._spec import check_epsilon, check_int, check_key
from ._measure import Measure
from ._option import HEADER, Goal, Option, estimator
from ._panel import Panel
from ._question import Data, Question
from ._statement import statement
from ._words import in_words


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """The errors of a plan's options for other data than were planned for; `print` shows them.

    Attributes:
      options: names of the options.
      planned: their errors in the plan.
      errors: by name of the data, those of each option.
    """

    options: tuple[str, ...]
    planned: tuple[Prediction, ...]
    errors: Mapping[str, tuple[Prediction, ...]]

    def __str__(self) -> str:
        """A Markdown table, with the ratios to the errors in the plan."""
        rows = [("as planned", *(f"{error:.4g}" for error in self.planned))]
        for name, errors in self.errors.items():
            cells = []
            for error, planned in zip(errors, self.planned, strict=True):
                bound = "<= " if error.kind == "bound" else ""
                cells.append(f"{bound}{error:.4g} ({error / planned:.2f} times)")
            rows.append((name, *cells))
        return table(("data", *self.options), rows, ())


@dataclasses.dataclass(frozen=True)
class PlanNumbers:
    """Ways to answer a question, the best first: all of a plan but its pictures.

    Attributes:
      measure: what the error is, of which question and data.
      solved: which of "users", "epsilon" and "error" was asked for.
      options: the protocols.
      refused: names of the protocols that cannot do it, or were not tried, and why.
      asked: what `plan` was called with, but for the question.
    """

    measure: Measure = dataclasses.field(repr=False)
    solved: str
    options: tuple[Option, ...]
    refused: tuple[tuple[str, str], ...]
    asked: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def best(self) -> Option:
        """The best option, the first in the list."""
        return self.options[0]

    @property
    def num_reports(self) -> int:
        """Number of reports per person that epsilon covers."""
        return self.asked.get("num_reports", 1)

    @property
    def panel(self) -> Panel:
        """How the people who are asked become users whose reports count."""
        return Panel(self.asked.get("response", 1.0), self.asked.get("design_effect", 1.0))

    @property
    def num_asked(self) -> int:
        """How many people to ask, so that the users of the best option are left."""
        given = self.asked.get("users")
        return self.panel.asked(self.best.num_users) if given is None else given

    @functools.cached_property
    def privacy(self) -> tuple[float, float]:
        """The epsilon and delta of all that the best option has of a person.

        As the program realises them; of several reports together, what they are composed to.
        """
        best = self.best
        if self.num_reports == 1:
            return float(best.protocol.exact_epsilon()), float(best.protocol.exact_delta())
        return best.epsilon, self.asked.get("delta") or 0.0

    @property
    def question(self) -> Question:
        """The question."""
        return self.measure.question

    @property
    def goal(self) -> Goal:
        """How errors are counted."""
        return self.measure.goal

    @property
    def data(self) -> Data:
        """The data that users hold."""
        return self.measure.data

    @functools.cached_property
    def least_error(self) -> float:
        """An error that every protocol has for some users, as many and as private as the best has.

        Proven for pure local protocols of one report, and for the worst data; otherwise 0, which
        says nothing. That of `loss="worst"` is the bound for the mean over the answers.
        """
        best, counted = self.best, self.goal.loss != "max"
        worst = isinstance(self.data, str) and self.data == "worst"
        if not worst or best.trust != "local" or self.privacy[1] or self.num_reports > 1:
            return 0.0
        if self.panel.design_effect > 1:  # the bound is of users who count alike
            return 0.0
        bound = self.question.least_error(best.epsilon, best.num_users) if counted else 0.0
        return bound * self.goal.factor

    def error(
        self,
        *,
        epsilon: float | None = None,
        users: int | None = None,
        option: int = 0,
        data: Data | None = None,
    ) -> Prediction:
        """The error of an option at another epsilon, number of users, or for other data.

        Args:
          epsilon: the privacy parameter; None for the option's own.
          users: how many reports count; None for the option's own.
          option: its place in `options`.
          data: what users hold; None for the plan's own.

        Returns:
          The error, by the formula or the simulation that the option's own error is of; for the
          worst data by the formula, which may be a bound.

        Raises:
          ValueError: the protocol cannot be built, or has no finite error; or the data do not fit.
        """
        chosen = self._option(option)
        epsilon = chosen.epsilon if epsilon is None else check_epsilon(epsilon)
        users = chosen.num_users if users is None else check_int("users", users, low=2)
        protocol = chosen.make(epsilon, users)
        measure = self.measure
        if data is not None:
            measure = dataclasses.replace(measure, data=data)
        if chosen.num_trials is None or measure.question.users(measure.data, users) is None:
            return measure.predicted(protocol, users, chosen.trust)
        return measure.simulated(protocol, users, chosen.num_trials)

    def sensitivity(
        self, data: Mapping[str, Data] | Sequence[str] | None = None, *, num_options: int = 3
    ) -> Sensitivity:
        """The errors of the first options if users are not as planned: of a prior that is wrong.

        Args:
          data: other data by name, or the names of some; None for all that the question knows by
            name, and the worst.
          num_options: how many options.

        Returns:
          The errors, at the plan's epsilon and users: the least ones of what is asked for are not
          searched again. For the worst data those of a projected estimate are bounds.

        Raises:
          ValueError: data do not fit.

        Example:
          >>> from jaxdp.design import Histogram, plan
          >>> own = [9, *[0] * 14, 1]
          >>> found = plan(Histogram(16), users=2_000, epsilon=1.0, data=own, num_trials=100)
          >>> errors = found.sensitivity(["uniform", "zipf"]).errors
          >>> [name for name, each in errors.items() if each[0] > 1.2 * found.best.error]
          ['uniform', 'zipf']
        """
        number = min(check_int("num_options", num_options, low=1), len(self.options))
        if data is None:
            data = (*self.question.NAMED_DATA, "worst")
        if isinstance(data, str) or not isinstance(data, (Mapping, Sequence)):
            raise TypeError(f"data must be by name, or a sequence of names, got {data!r}.")
        others = dict(data) if isinstance(data, Mapping) else {name: name for name in data}
        errors: dict[str, tuple[Prediction, ...]] = {}
        for name, other in others.items():
            try:
                errors[name] = tuple(self.error(option=i, data=other) for i in range(number))
            except ValueError:
                if name != "worst":  # of which nothing may be known
                    raise
        planned = tuple(option.error for option in self.options[:number])
        return Sensitivity(tuple(o.name for o in self.options[:number]), planned, errors)

    def _option(self, place: int) -> Option:
        return self.options[check_int("option", place, low=0, high=len(self.options) - 1)]

    def simulate(
        self,
        num_trials: int = 400,
        key: jax.Array | None = None,
        *,
        option: int = 0,
        data: Data | None = None,
    ) -> Prediction:
        """The error of an option as simulated trials have it, with its standard error.

        Args:
          num_trials: how many.
          key: a typed key; None for a fixed one.
          option: its place in `options`.
          data: what users hold; None for the plan's own. For the worst data, users are searched
            who attain the error.

        Raises:
          ValueError: the worst data of this protocol are not known.
        """
        num_trials = check_int("num_trials", num_trials, low=2)
        key = jax.random.key(0) if key is None else check_key(key)
        chosen = self._option(option)
        users = self.question.users(self.data if data is None else data, chosen.num_users)
        if users is None:
            largest = self.goal.loss != "rmse"
            estimates = estimator(chosen.protocol, chosen.trust)
            users = self.question.worst_users(estimates, chosen.num_users, largest)
        return self.goal.of_trials(self.question.trials(chosen.protocol, users, key, num_trials))

    def in_words(self) -> str:
        """What the plan says, for whoever decides about it: text of a few paragraphs."""
        return f"{self.summary()}\n\nOptions:\n{self}\n\nCode: {self.best.protocol!r}"

    def summary(self) -> str:
        """What the plan says of its best option: `in_words` without the table."""
        return in_words(
            self.measure,
            self.solved,
            self.best,
            self.num_reports,
            self.privacy,
            self.least_error,
            None if self.panel.is_all else (self.panel, self.num_asked),
        )

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values: its numbers, and the spec of the best protocol."""
        best = self.best
        return {
            "question": self.question.describe(),
            "loss": self.goal.loss,
            "users": best.num_users,
            "asked": self.num_asked,
            "epsilon": best.epsilon,
            "error": float(best.error),
            "kind": best.error.kind,
            "protocol": spec_to_json(best.protocol),
        }

    def statement(self) -> str:
        """The privacy statement of the best option: plain text, for those who review a plan.

        It names the mechanism with its parameters, the epsilon and delta that it realises, whom
        people trust, how repeated answers compose, and where the randomness comes from.
        """
        return statement(self.question, self.best, self.num_reports, self.privacy)

    def __str__(self) -> str:
        """A Markdown table of the options, with what was left out."""
        return table(HEADER, [option.cells for option in self.options], self.refused)
