"""What a plan promises to the people who are asked, for those who review it."""

import math
import textwrap
from collections.abc import Mapping
from typing import Any

from .._version import __version__
from ._option import Option, Trust
from ._question import Question, as_title

_WIDTH = 88
_TRUST: dict[Trust, str] = {
    "local": "nobody. A report is randomized before it leaves the person's device, and the "
    "guarantee holds of each report, whoever sees it and whatever else they know.",
    "shuffler": "a shuffler, which must forget who sent which report. The guarantee holds of all "
    "shuffled reports together; towards the shuffler itself a report is weaker, with the epsilon "
    "of the protocol above.",
    "secure sum": "a secure sum: whatever adds their vectors must show nobody more than the sum, "
    "and as many people as stated must add their noise to it. The guarantee holds of the sum.",
    "central": "a curator, who sees the values. The guarantee holds of what is published.",
}
_COMPOSITION = (
    "Composition: if a person takes part again, or answers something else, the epsilons add up, "
    "and so do the deltas. A device that remembers its first randomized report and sends from that "
    "one only, again and again, spends epsilon once for as long as its value stays the same."
)
_RANDOMNESS = (
    "Randomness: the clients of jaxdp draw it anew for each report from the operating system "
    "(os.urandom, crypto.getRandomValues). Simulations use a counter-based generator with a public "
    "key, and protect nobody."
)
_NOT_COVERED = (
    "Not covered: that a person took part; addresses, times and whatever else goes with a report; "
    "and people who send other reports than the program makes."
)
_SIMULATION_ONLY = (
    "Note: no wire format is known of these reports. They serve simulation only, and real people "
    "may not be asked by this program."
)


def statement(
    question: Question, best: Option, num_reports: int, privacy: tuple[float, float]
) -> str:
    """The privacy statement of an option, plain text of a few paragraphs.

    Args:
      question: what is asked.
      best: the option.
      num_reports: how many reports of a person the guarantee is of.
      privacy: its epsilon and delta.
    """
    spec: Any = best.protocol
    epsilon, delta = privacy
    kind = "pure" if delta == 0 else "approximate"
    but = "" if delta == 0 else f", but for events of probability at most {delta:.3g}"
    what = {
        "local": "the report of a person"
        if num_reports == 1
        else f"{num_reports:,} reports of a person, all together,",
        "shuffler": "the shuffled reports",
        "secure sum": "the sum",
        "central": "what is published",
    }[best.trust]
    often = "once" if best.rounds == 1 else f"{best.rounds} times"
    size = "" if best.report_bytes is None else f" A report has {best.report_bytes} bytes."
    paragraphs = [
        "Privacy statement",
        f"Purpose: {question.describe()}, from {best.num_users:,} people.",
        f"Mechanism: {best.name}. {spec!r}",
        f"Guarantee: {kind} differential privacy with epsilon = {epsilon:.6g} and delta = "
        f"{delta:.3g}. Whatever two values a person may hold, {what} is at most "
        f"{math.exp(epsilon):.4g} times as likely for one as for the other{but}. The epsilon is "
        "that of the program, computed from the probabilities that it really uses and rounded up.",
        f"Trust: people have to trust {_TRUST[best.trust]}",
        f"Collection: each person is asked {often}.{size} The guarantee is of all that a person "
        + (
            "sends for this collection."
            if num_reports == 1
            else f"sends in {num_reports:,} collections, each of which may be of another value."
        ),
        _COMPOSITION,
        _RANDOMNESS,
        _NOT_COVERED,
    ]
    if best.report_bytes is None and best.trust != "central":
        paragraphs.append(_SIMULATION_ONLY)
    return _filled(paragraphs)


def statement_of_several(
    questions: Mapping[str, Question], options: Mapping[str, Option], how: str, epsilon: float
) -> str:
    """The privacy statement of several questions.

    Args:
      questions: by name.
      options: what answers them.
      how: people answer them.
      epsilon: of all that a person sends.
    """
    paragraphs = [
        "Privacy statement",
        f"Purpose: {len(questions)} questions; {how}.",
        f"Guarantee: pure differential privacy with epsilon = {epsilon:.6g}. Whatever two people "
        f"may hold, all that one of them sends is at most {math.exp(epsilon):.4g} times as likely "
        "for one as for the other. The epsilon is that of the programs, computed from the "
        "probabilities that they really use and rounded up.",
        *(
            f"{as_title(name)}: {questions[name].describe()}, from {option.num_users:,} people. "
            f"Mechanism: {option.name}, with epsilon = {option.protocol.exact_epsilon():.6g}. "
            f"{option.protocol!r}"
            for name, option in options.items()
        ),
        f"Trust: people have to trust {_TRUST['local']}",
        _COMPOSITION,
        _RANDOMNESS,
        _NOT_COVERED,
    ]
    if any(option.report_bytes is None for option in options.values()):
        paragraphs.append(_SIMULATION_ONLY)
    return _filled(paragraphs)


def _filled(paragraphs: list[str]) -> str:
    named = [*paragraphs, f"Software: jaxdp {__version__}."]
    return "\n\n".join(textwrap.fill(paragraph, _WIDTH) for paragraph in named)
