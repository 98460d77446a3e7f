"""From a question and two of users, epsilon and error to the third."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, get_args

import jax
import numpy as np

from .._progress import telling
from .._ranking import with_times
from .._spec import (
    check_bool,
    check_choice,
    check_epsilon,
    check_int,
    check_items,
    check_key,
    check_real,
)
from ._measure import Measure
from ._option import Goal, Loss, Trust
from ._page import page
from ._panel import Panel
from ._plan_numbers import PlanNumbers
from ._plot import plot
from ._question import Data, Maker, Question, asked_for
from ._repeated import repeated
from ._search import Search
from ._shuffler import BehindShuffler

if TYPE_CHECKING:  # an extra
    import matplotlib.axes


@dataclasses.dataclass(frozen=True)
class Plan(PlanNumbers):
    """Ways to answer a question, the best first; `print` shows them.

    Attributes:
      measure: what the error is, of which question and data.
      solved: which of "users", "epsilon" and "error" was asked for.
      options: the protocols.
      refused: names of the protocols that cannot do it, or were not tried, and why.
      asked: what `plan` was called with, but for the question.
    """

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        labels: Sequence[str] | None = None,
        seconds: float = 3.0,
    ) -> str:
        """The plan as a page: one file, which asks nothing of any server.

        It has the answer in words, errors against epsilon and users, the protocols side by side,
        what a report reveals, a simulated result, the privacy statement, and what to run.

        Args:
          path: of a file to write it to as well; None for none.
          labels: what the answers are of, such as the values of a histogram; None for their
            numbers.
          seconds: how long errors at other epsilons and users may take to compute. Formulas take
            less; simulated errors are drawn where it is about a minute or more.

        Returns:
          The text of the page.

        Raises:
          ValueError: labels are not as many as answers.
        """
        if labels is not None:
            labels = check_labels(labels, self.question.num_answers)
        text = page(self, labels, check_real("seconds", seconds, low=0.0))
        if path is not None:
            pathlib.Path(path).write_text(text, encoding="utf-8")
        return text

    def plot(self, axes: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Draws the errors of the first options against epsilon; against users if asked for them.

        Args:
          axes: of matplotlib; None for new ones.

        Returns:
          The axes, to be titled or saved: `plan.plot().figure.savefig("plan.png")`.

        Raises:
          ImportError: matplotlib is not installed.
        """
        return plot(self, axes)


def plan(
    question: Question,
    *,
    users: int | None = None,
    epsilon: float | None = None,
    error: float | None = None,
    loss: Loss | None = None,
    relative: bool = False,
    confidence: float | None = None,
    data: Data = "worst",
    delta: float | None = None,
    num_reports: int = 1,
    response: float = 1.0,
    design_effect: float = 1.0,
    trust: Trust | Sequence[Trust] = "local",
    candidates: Mapping[str, Maker] | None = None,
    defaults: bool = True,
    num_trials: int | None = None,
    key: jax.Array | None = None,
    timed: bool = False,
    progress: bool | None = None,
) -> Plan:
    """Computes the third of users, epsilon and error, for every protocol that can answer.

    Errors are those of the protocols' own predictions, in closed form: those of the worst data, or
    of given data. For given data, which may be a prior, two things are simulated besides, with the
    same random numbers at every step of the search: the error of an estimate as people use it,
    moved to the nearest answers that some users have ("projected"), or those of the distribution
    that makes the reports most likely ("likelihood"), for the best two protocols that allow either
    and are quickly simulated; and errors of which only a bound is known. So is `loss="max"`, which
    has no closed form.

    Options are ordered by what was asked for. Bounds are marked: the error may be far smaller. An
    option never stands before another for a bound that is loose, only behind.

    Args:
      question: such as `Histogram(1000)`.
      users: n, at least 2; None to ask for the least number.
      epsilon: the privacy parameter; None to ask for the least one.
      error: > 0; None to ask for it.
      loss: "rmse" for the root of the mean, over the answers, of the mean squared errors; "worst"
        for that of the worst answer; "max" for the expected largest absolute error, which needs
        data; None for what the question has first (`Question.LOSSES`).
      relative: whether errors are relative to an average answer (`question.typical`).
      confidence: in (0, 1), to make the error the half-width of an interval that holds an answer
        with this probability, the error being taken as normal. Not for "max".
      data: "worst" for the worst data; a name, such as "zipf" or "uniform"; or what users hold, as
        the question says. Where a few things are known of them, such as a mean or marginals, a
        histogram is that of `jaxdp.population.maximum_entropy`.
      delta: in (0, 1), to let protocols compete that are private but for this; None for pure ones.
      num_reports: how many reports of a user epsilon, and delta, are of: the number of collections;
        or, where users remember the report of a value and send it again, how many values a user may
        have over time (see `jaxdp.randomizers.Memoised`). The error is that of one collection.
        With `delta` pure reports are composed as well as can be, and Gaussian ones exactly.
      response: the share of the people who are asked that report, in (0, 1]; `users` are asked. The
        error is about those who report: who does not is missing from the answers, and no number of
        users makes up for it if values differ.
      design_effect: of survey weights (`jaxdp.design.design_effect`), by which the variance grows,
        at least 1; the weights must be public. Aggregate each class of equal weights by itself, and
        average the estimates.
      trust: "local" for protocols whose users trust nobody; "shuffler" for the same protocols
        behind one, with (epsilon, delta) the privacy of the shuffled reports; "secure sum" for
        linear queries from the sum of users' vectors, of which nobody sees more; "central" for a
        curator who sees the values; or several of these. All but the first need `delta`.
      candidates: local protocols that join, or replace those of the same name: functions of
        (epsilon, num_users).
      defaults: whether the question's own protocols compete.
      num_trials: runs in a simulation; None for as many as make the standard error half a percent,
        but 8,192 at most, and no more than take some seconds. For data that are given, what is only
        bounded is simulated, and ratios whose error by the delta method is above 0.1 (`noisy`). 0
        for no simulation: errors are those of formulas, and bounds stay what they are.
      key: of simulations; None for a fixed one.
      timed: whether to measure what a report costs in time on this machine, which compiles the
        programs of all options; see `jaxdp.reports.report_cost`.
      progress: whether to show on stderr which protocol is solved or simulated, which needs
        the extra `sweep`; None for a terminal that has waited for a second.

    Returns:
      A `Plan`. Numbers that were solved for are at most 0.01 % above the least ones, simulated ones
      at most 0.2 %, and their standard errors.

    Raises:
      ValueError: an argument is out of range; not two of three are given; or nothing reaches the
        error.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.design import Histogram, plan
      >>> found = plan(Histogram(100), epsilon=1.0, error=0.01)
      >>> print(f"{found.best.name}: {found.best.num_users:,} users")
      SubsetSelection: 35,996 users
      >>> simulated = found.simulate(200)
      >>> bool(abs(simulated / 0.01 - 1) < 0.02)
      True
    """
    asked = dict(
        users=users,
        epsilon=epsilon,
        error=error,
        loss=loss,
        relative=relative,
        confidence=confidence,
        data=data,
        delta=delta,
        num_reports=num_reports,
        response=response,
        design_effect=design_effect,
        trust=trust,
        candidates=candidates,
        defaults=defaults,
    )
    if not isinstance(question, Question):
        raise TypeError(f"question must be one of jaxdp.design's, got {question!r}.")
    solved = asked_for(users=users, epsilon=epsilon, error=error)
    panel = Panel.of(response, design_effect)
    if users is not None:
        users = panel.counted(check_int("users", _one("users", users), low=2))
    epsilon = None if epsilon is None else check_epsilon(_one("epsilon", epsilon))
    error = None if error is None else check_real("error", error, low=0.0)
    if delta is not None:
        delta = check_real("delta", delta, low=0.0, high=1.0)
    num_trials = None if num_trials is None else check_int("num_trials", num_trials, low=0)
    if num_trials == 1 or (num_trials == 0 and loss == "max"):
        raise ValueError(
            f"num_trials must be at least 2, or 0 unless loss is 'max', got {num_trials}."
        )
    key = jax.random.key(0) if key is None else check_key(key)
    goal = _goal(question, loss, relative, confidence)
    norm = "mean" if goal.loss == "rmse" else "max"
    makers = dict(question.candidates(delta, norm)) if check_bool("defaults", defaults) else {}
    makers |= _checked(candidates)
    num_reports = max(check_int("num_reports", num_reports, low=1), question.least_reports)
    if num_reports > 1:
        asked["num_reports"] = num_reports
        if trust not in ("local", ("local",), ["local"]):
            raise ValueError(
                f"trust must be 'local' for {num_reports} reports of a person, got {trust!r}."
            )
        makers = {name: repeated(make, num_reports, delta) for name, make in makers.items()}
    trusting = _trusting(question, makers, trust, delta)
    measure = Measure(question, goal, data, key)
    with telling(progress, "planning") as tell:
        search = Search(measure, users, epsilon, error, num_trials, tell)
        options, refused = search.best(trusting)
        if check_bool("timed", timed):
            options = with_times(options, tell)
    if not options:
        reasons = " ".join(f"{name}: {reason}" for name, reason in refused)
        raise ValueError(f"no protocol reaches the error. {reasons}")
    return Plan(measure, solved, tuple(options), tuple(refused), asked)


def rank(
    question: Question,
    *,
    users: int,
    epsilon: float,
    delta: float = 1e-6,
    trust: Trust | Sequence[Trust] = ("local", "shuffler", "secure sum", "central"),
    loss: Loss | None = None,
    data: Data = "worst",
    timed: bool = False,
) -> Plan:
    """The errors of all protocols for a question, whomever the users trust.

    Args:
      question: as of `plan`, like all others.
      users: n.
      epsilon: the privacy parameter: of a report, of the shuffled reports, of the sum, or of the
        answers.
      delta: in (0, 1).
      trust: whom they may trust.
      loss: the error.
      data: what users hold.
      timed: whether to measure what a report costs in time.

    Returns:
      A `Plan`, whose options are in the order of their errors.

    Raises:
      ValueError: an argument is out of range.
      TypeError: an argument is of the wrong kind.

    Example:
      >>> from jaxdp.design import Mean, rank
      >>> ranking = rank(Mean(0, 1), users=10_000, epsilon=0.5)
      >>> print(*(f"{o.name}: {o.error:.4f}" for o in ranking.options[::3]), sep=", ")
      Piecewise, shuffled: 0.0021, BinaryResponse: 0.0204
    """
    return plan(
        question,
        users=users,
        epsilon=epsilon,
        delta=delta,
        trust=trust,
        loss=loss,
        data=data,
        timed=timed,
    )


def check_labels(labels: object, number: int) -> tuple[str, ...]:
    """Labels of so many answers as texts, or raises unless there is one for each."""
    texts = tuple(map(str, check_items("labels", labels, "a sequence of texts")))
    if len(texts) != number:
        raise ValueError(f"labels must be {number}, one for each answer, got {len(texts)}.")
    return texts


def _one(name: str, value: Any) -> Any:
    """The value, or a ValueError that says what to do where users differ."""
    if isinstance(value, (Sequence, Mapping, np.ndarray)) and not isinstance(value, str):
        raise ValueError(
            f"{name} must be one number, got {value!r}; for groups of users with an epsilon each "
            "use jaxdp.design.pooled."
        )
    return value


def _trusting(
    question: Question,
    local: dict[str, Maker],
    trust: Trust | Sequence[Trust],
    delta: float | None,
) -> dict[str, tuple[Trust, Maker]]:
    """What competes, for whomever users trust."""
    wanted = "a name, or a sequence of names"
    several = (trust,) if isinstance(trust, str) else check_items("trust", trust, wanted)
    makers: dict[str, tuple[Trust, Maker]] = {}
    for name in several:
        check_choice("trust", name, get_args(Trust))
        if name == "local":
            makers |= {each: ("local", make) for each, make in local.items()}
        elif delta is None:
            raise ValueError(f"delta must be given for trust={name!r}, which needs it.")
        elif name == "shuffler":
            for each, make in local.items():
                makers[f"{each}, shuffled"] = "shuffler", BehindShuffler(make, delta)
        else:
            trusting = question.trusting_candidates(name, delta)
            makers |= {each: (name, make) for each, make in trusting.items()}
    if not makers:
        raise ValueError(
            f"trust must be of those that have protocols for this question, got {trust!r}; and "
            "candidates must be given with defaults=False."
        )
    return makers


def _checked(candidates: object) -> dict[str, Maker]:
    """Candidates by name, or raises TypeError unless they are functions."""
    if candidates is None:
        return {}
    if not isinstance(candidates, Mapping) or not all(map(callable, candidates.values())):
        raise TypeError(
            "candidates must be a mapping from names to functions of (epsilon, num_users), got "
            f"{candidates!r}."
        )
    return dict(candidates)


def _goal(question: Question, loss: Loss | None, relative: bool, confidence: float | None) -> Goal:
    known = tuple(question.LOSSES)
    chosen: Any = known[0] if loss is None else check_choice("loss", loss, known)
    factor, units = 1.0, ""
    if check_bool("relative", relative):
        factor, units = 1 / question.typical, "relative to an average answer"
    if confidence is not None:
        confidence = check_real("confidence", confidence, low=0.0, high=1.0)
        if chosen == "max":
            raise ValueError("confidence must be None with loss='max', which has no intervals.")
        factor *= NormalDist().inv_cdf((1 + confidence) / 2)
        half = f"half of a {confidence:.4g} confidence interval"
        units = f"{half}, {units}" if units else half
    return Goal(chosen, factor, units)
