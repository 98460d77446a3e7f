"""A plan in words."""

import math
import textwrap

from ._option import Goal, Option
from ._questions import Data, Question

_WIDTH = 88
_LOSSES = {
    "rmse": "root mean squared error over the answers",
    "worst": "root mean squared error of the worst answer",
    "max": "expected largest error of any answer",
}
_TRUST = {
    "local": "It is private before it leaves their device, so nobody has to be trusted.",
    "shuffler": "People trust a shuffler to forget who sent what: what is said below of a report "
    "holds of all shuffled reports together.",
    "central": "People trust a curator, who sees their values: what is said below of a report "
    "holds of what is published.",
}
_KINDS = {
    "exact": "The error is exact, by a formula.",
    "delta": "The error is that of many users (delta method): for few, simulate it.",
    "bound": "The error is a proven bound: the true one is smaller, perhaps much smaller.",
    "simulated": "The error is simulated.",
}


def in_words(question: Question, goal: Goal, data: Data, solved: str, best: Option) -> str:
    """What a plan says of its best option, for whoever decides about it.

    Args:
      question: what is asked.
      goal: what the error is.
      data: what it is for.
      solved: which of "users", "epsilon" and "error" was asked for.
      best: the option.
    """
    whose = f"for {data} data" if isinstance(data, str) else "for the data given"
    error = ", ".join(filter(None, [_LOSSES[goal.loss], goal.units, whose]))
    how_far = math.exp(best.epsilon)
    sure = how_far / (1 + how_far)
    answer = {
        "epsilon": f"an epsilon of {best.epsilon:.3g}",
        "users": f"{best.num_users:,} users",
        "error": f"an error of {best.error:.3g}",
    }[solved]
    asked = "once" if best.rounds == 1 else f"{best.rounds} times"
    size = "" if best.report_bytes is None else f", {best.report_bytes} bytes,"
    paragraphs = [
        f"{question.describe().capitalize()}, from {best.num_users:,} users, with an error of "
        f"{best.error:.3g} ({error}), needs {answer}, with {best.name}."
        if solved != "error"
        else f"{question.describe().capitalize()}, from {best.num_users:,} users with an "
        f"epsilon of {best.epsilon:.3g}, has {answer} ({error}), with "
        f"{best.name}.",
        f"{_KINDS[best.error.kind]}"
        + (f" Its standard error is {best.error.stderr:.1g}." if best.error.stderr else ""),
        f"What it asks: every person sends a random report{size} {asked}. {_TRUST[best.trust]}",
        f"What it reveals: no report is more than {how_far:.3g} times as likely for one answer as "
        "for another. Whoever thinks that something about a person is as likely as not is at most "
        f"{sure:.1%} sure of it after seeing the report. Several answers of one person reveal "
        "more: their epsilons add up.",
    ]
    if best.report_bytes is None and best.rounds == 1:
        paragraphs.append(
            "These reports serve simulation only. To collect real ones, take an option below with "
            "a number of bytes."
        )
    return "\n\n".join(textwrap.fill(paragraph, _WIDTH) for paragraph in paragraphs)
