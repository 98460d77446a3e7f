"""A plan in words."""

import math
import textwrap

from ._measure import Measure
from ._option import Option
from ._panel import Panel
from ._question import as_title

_WIDTH = 88
_TELLING = 0.1  # of the error, for a bound below it to be told
_TRUST = {
    "local": "It is private before it leaves their device, so nobody has to be trusted.",
    "shuffler": "People trust a shuffler to forget who sent what: what is said below of a report "
    "holds of all shuffled reports together.",
    "secure sum": "People trust whatever adds their vectors to show nobody more than the sum: what "
    "is said below of a report holds of the sum.",
    "central": "People trust a curator, who sees their values: what is said below of a report "
    "holds of what is published.",
}
_KINDS = {
    "exact": "The error is exact, by a formula.",
    "delta": "The error is that of many users (delta method): for few, simulate it.",
    "bound": "The error is a proven bound: the true one is smaller, perhaps much smaller.",
    "simulated": "The error is simulated.",
}


_NOISY = (
    "The error is by the delta method, and so large that this may be off by more than a tenth: "
    "simulate it."
)


def in_words(
    measure: Measure,
    solved: str,
    best: Option,
    num_reports: int,
    privacy: tuple[float, float],
    least_error: float,
    asked_of: tuple[Panel, int] | None,
) -> str:
    """What a plan says of its best option, for whoever decides about it.

    Args:
      measure: what the error is.
      solved: which of "users", "epsilon" and "error" was asked for.
      best: the option.
      num_reports: how many reports epsilon is of.
      privacy: epsilon and delta.
      least_error: below which no protocol can be; 0 where none is known.
      asked_of: how people who are asked become users, and how many are asked; None if all do.
    """
    question, goal, data = measure.question, measure.goal, measure.data
    whose = f"for {data} data" if isinstance(data, str) else "for the data given"
    error = ", ".join(filter(None, [question.LOSSES[goal.loss], goal.units, whose]))
    how_far = math.exp(privacy[0])
    sure = how_far / (1 + how_far)
    answer = {
        "epsilon": f"an epsilon of {best.epsilon:.3g}",
        "users": f"{best.num_users:,} users",
        "error": f"an error of {best.error:.3g}",
    }[solved]
    asked = "once" if best.rounds == 1 else f"{best.rounds} times"
    asked = asked if num_reports == 1 else f"{num_reports:,} times over the collections"
    size = "" if best.report_bytes is None else f", {best.report_bytes} bytes,"
    sent = "their value" if best.trust == "central" else "a random report"
    none, it = ("no report is", "the report")
    if num_reports > 1:
        none, it = f"no {num_reports:,} reports of a person are", "all of them"
    but_for = f", but for a probability of {privacy[1]:.1g}" if privacy[1] else ""
    paragraphs = [
        f"{as_title(question.describe())}, from {best.num_users:,} users, with an error of "
        f"{best.error:.3g} ({error}), needs {answer}, with {best.name}."
        if solved != "error"
        else f"{as_title(question.describe())}, from {best.num_users:,} users with an "
        f"epsilon of {best.epsilon:.3g}, has {answer} ({error}), with "
        f"{best.name}.",
        " ".join(filter(None, [_kind(best), _spread(best), _limit(best, least_error)])),
        f"What it asks: every person sends {sent}{size} {asked}. {_TRUST[best.trust]}",
        f"What it reveals: {none} more than {how_far:.3g} times as likely for one answer as for "
        f"another{but_for}. Whoever thinks that something about a person is as likely as not is at "
        f"most {sure:.1%} sure of it after seeing {it}. More answers of one person reveal more: "
        "their epsilons add up.",
    ]
    if asked_of is not None:
        panel, number = asked_of
        who = (
            f"Whom to ask: {number:,} people, of whom {100 * panel.response:.3g}% are expected to "
            "report."
        )
        if panel.design_effect > 1:
            who += (
                f" Their weights have a design effect of {panel.design_effect:.3g}, so that the "
                f"{panel.reports(best.num_users):,} who do count as {best.num_users:,}."
            )
        missing = (
            " Who does not report is missing from the answers: if that has to do with what people "
            "would say, the answers are off, however many are asked."
        )
        paragraphs.insert(1, who + (missing if panel.response < 1 else ""))
    if best.report_bytes is None and best.rounds == 1 and best.trust != "central":
        paragraphs.append(
            "These reports serve simulation only. To collect real ones, take an option below with "
            "a number of bytes."
        )
    return "\n\n".join(textwrap.fill(paragraph, _WIDTH) for paragraph in paragraphs)


def _kind(best: Option) -> str:
    return _NOISY if best.noisy else _KINDS[best.error.kind]


def _spread(best: Option) -> str:
    return f"Its standard error is {best.error.stderr:.1g}." if best.error.stderr else ""


def _limit(best: Option, least_error: float) -> str:
    """What is known of the best that a protocol could do."""
    if least_error < _TELLING * best.error:
        return ""
    return (
        f"No protocol that is as private has an error below {least_error:.3g} for all data, which "
        f"is {least_error / best.error:.0%} of it."
    )
