"""A plan as one HTML page, which needs nothing else."""

import inspect
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import jax
import numpy as np

from .. import pairwise
from .._checked import Checked
from ..figures import Axis, key_numbers
from ._curves import Curves, curves_of
from ._example import Example, example_of
from ._frame import filled, framed, specification
from ._option import HEADER
from ._plan_numbers import PlanNumbers
from ._question import as_title
from ._reveal import channel_of, posterior, randomizer_of, support_of
from ._svg import (
    channel_chart,
    error_axis,
    error_chart,
    example_chart,
    posterior_chart,
    support_chart,
)

_MOST_WRITTEN = 40  # numbers of a list
PRIOR = 0.1  # of a guess, where the slider begins
_WHAT_KINDS_ARE = {
    "exact": "a formula",
    "delta": "a formula for large numbers of users",
    "bound": "proven, and the error may be far smaller",
    "simulated": "with the same random numbers for all",
}


def page(plan: PlanNumbers, labels: Sequence[str] | None, seconds: float) -> str:
    """The page, text of HTML.

    Args:
      plan: of what.
      labels: what the answers are of; None for their numbers.
      seconds: for the curves; see `curves_of`.
    """
    best, curves = plan.best, curves_of(plan, seconds)
    realised, delta = plan.privacy
    errors, data = _error_parts(plan, curves)
    revealed, prior, sure = posterior_chart(realised, PRIOR)
    data["axes"] |= {"prior": prior.to_json(), "posterior": sure.to_json()}
    data["exact_epsilon"] = realised
    example = example_of(plan, labels, jax.random.key(0))
    sections = filled(
        "page.html",
        **errors,
        epsilon=f"{best.epsilon:.3g}",
        users=f"{best.num_users:,}",
        **_option_parts(plan),
        seen={
            "local": "that person’s report" if plan.num_reports == 1 else "that person’s reports",
            "shuffler": "the shuffled reports of all",
            "secure sum": "the sum of all vectors",
            "central": "what is published",
        }[best.trust],
        worked=worked(realised),
        factor=f"{math.exp(realised):.4g}",
        exact_epsilon=f"{realised:.5g}",
        but=f", but for events of probability at most {delta:.3g}" if delta else "",
        posterior_chart=revealed,
        channel=channel_of_plan(plan),
        example_chart=example_chart(example, example.answer.labels or ()),
        example_caption=caption_of(plan, example),
        example_legend=legend_of(example),
    )
    return framed(
        title=as_title(plan.question.describe()),
        key=_key_numbers(plan),
        words=plan.summary(),
        sections=sections,
        statement=plan.statement(),
        code=_code(plan),
        specs=specification("spec", best),
        data=data,
    )


def _key_numbers(plan: PlanNumbers) -> str:
    best, units = plan.best, plan.goal.units
    loss = plan.question.LOSSES[plan.goal.loss]
    size = "no format" if best.report_bytes is None else f"{best.report_bytes}"
    who = "who take part"
    if not plan.panel.is_all:
        who = f"whose reports count, of {plan.num_asked:,} who are asked"
    numbers = [
        ("error", "error", f"{best.error:.3g}", f"{loss}{units and ', '}{units}"),
        ("epsilon", "epsilon", f"{best.epsilon:.3g}", "the privacy parameter"),
        ("users", "users", f"{best.num_users:,}", who),
        ("", "report", size, "bytes" if best.report_bytes else "for simulation only"),
    ]
    if best.trust == "central":
        numbers.pop()
    return key_numbers(numbers, plan.solved)


def _error_parts(plan: PlanNumbers, curves: Curves) -> tuple[dict[str, str], dict[str, Any]]:
    """The charts of errors with what is said of them, and the numbers behind."""
    best, target = plan.best, plan.asked.get("error")
    known = [curve.errors for curve in curves.curves if curve.errors is not None]
    axis = axis_of_errors(known, float(best.error))
    charts = {
        name: error_chart(
            f"by-{name}",
            span,
            axis,
            lines,
            (number, float(best.error)),
            target,
            name,
            f"Error of each protocol against {against}",
        )
        for name, against, span, lines, number in (
            (
                "epsilon",
                "epsilon",
                curves.epsilon,
                [curve.by_epsilon for curve in curves.curves],
                best.epsilon,
            ),
            (
                "users",
                "the number of users",
                curves.users,
                [curve.by_users for curve in curves.curves],
                best.num_users,
            ),
        )
    }
    rows = []
    for curve in curves.curves:
        option = plan.options[curve.place]
        here = option.epsilon == best.epsilon and option.num_users == best.num_users
        own = f"{option.error:.4g}" if here else "–"
        middle = curve.middle
        text = own if math.isnan(middle) else f"{middle:.4g}"
        swatch = "" if curve.errors is None else f'<path class="curve c{curve.place}" d="M0 5H34"/>'
        bound = " (a bound)" if option.error.kind == "bound" else ""
        best_row = ' class="best"' if curve.place == 0 else ""
        rows.append(
            f'<tr{best_row}><th scope="row"><svg viewBox="0 0 34 10" aria-hidden="true">'
            f"{swatch}</svg>{escape(option.name)}{bound}"
            f'</th><td class="n" data-error="{curve.place}" data-own="{own}">{text}</td></tr>\n'
        )
    notes = ["The red ring is the plan."]
    if target is not None:
        notes.append("The dotted line is the error that was asked for.")
    absent = [plan.options[c.place].name for c in curves.curves if c.errors is None]
    if absent:
        notes.append(
            "Not drawn, for their errors at other numbers take long to compute: "
            f"{', '.join(absent)}."
        )
    if len(plan.options) > len(curves.curves):
        notes.append(f"The first {len(curves.curves)} protocols are drawn; the table has all.")
    data = {
        "users": best.num_users,
        "epsilon": best.epsilon,
        "axes": {name: along.to_json() for name, (_, along) in charts.items()}
        | {"error": axis.to_json()},
        "errors": [None if c.errors is None else _rounded(c.errors) for c in curves.curves],
    }
    parts = {
        "errors_intro": "The error falls as epsilon grows, which means less privacy, and as more "
        "people take part. All scales are logarithmic.",
        **{f"{name}_chart": chart for name, (chart, _) in charts.items()},
        "readout": "".join(rows),
        "errors_note": escape(" ".join(notes)),
    }
    return parts, data


def axis_of_errors(grids: Sequence[np.ndarray], error: float) -> Axis:
    """An axis for the errors of protocols, the plan's own first, and the error of the plan."""
    low, high = error, error
    for place, grid in enumerate(grids):
        # A protocol that is far worse does not press the others together.
        most = min(float(np.nanmax(grid)), 4 * high if place else np.inf)
        low, high = min(low, float(np.nanmin(grid))), max(high, most)
    return error_axis(low / 1.3, high * 1.3)


def _rounded(errors: np.ndarray) -> list[list[float | None]]:
    return [[float(f"{x:.5g}") if math.isfinite(x) else None for x in row] for row in errors]


def _option_parts(plan: PlanNumbers) -> dict[str, str]:
    """The table of protocols: its heads, rows, what all share, and what was left out."""
    rows = [option.cells for option in plan.options]
    columns = list(zip(*rows, strict=True))
    alike = [len(rows) > 1 and len(set(column)) == 1 for column in columns]
    if plan.solved != "error":  # all reach what was asked for, to four digits or so
        alike[HEADER.index("error")] = len(rows) > 1
    shared = [
        _shared(head, column[0])
        for head, column, same in zip(HEADER, columns, alike, strict=True)
        if same
    ]
    body = []
    for place, row in enumerate(rows):
        cells = "".join(_cell(i, text, alike[i]) for i, text in enumerate(row))
        body.append(f"<tr{' class=best' if place == 0 else ''}>{cells}</tr>\n")
    kinds = dict.fromkeys(option.error.kind for option in plan.options)
    heads = "".join(
        f'<th scope="col" class="{_column(i, alike[i])}">{head}</th>'
        for i, head in enumerate(HEADER)
    )
    refused = ""
    if plan.refused:
        items = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in plan.refused)
        refused = (
            f"<details open><summary>Left out: {len(plan.refused)}</summary><ul>{items}</ul>"
            "</details>"
        )
    return {
        "option_heads": heads,
        "options": "".join(body),
        "same": f"All have {', '.join(shared)}." if shared else "",
        "kinds": "Kinds of error: "
        + "; ".join(f"{k}, {_WHAT_KINDS_ARE[k]}" for k in kinds)
        + ". Client and server: what one report costs them, "
        + (
            "as measured on a machine of the planner’s."
            if plan.best.timed
            else "random words to draw, and numbers to add to. A compiled program takes about 1 to "
            "40 nanoseconds for a word, and 1 for a number."
        ),
        "refused": refused,
    }


def _shared(head: str, text: str) -> str:
    texts = {
        "users": f"{text} users",
        "epsilon": f"epsilon {text}",
        "error": f"an error of {text}",
        "kind": f"errors that are {text}",
        "trust": f"trust “{text}”",
        "rounds": "one round" if text == "1" else f"{text} rounds",
        "bytes": "no wire format" if text == "-" else f"reports of {text} bytes",
        "client": f"a cost of {text} for the client",
        "server": f"of {text} for the server",
    }
    return texts[head]


def _column(place: int, same: bool) -> str:
    number = HEADER[place] not in ("protocol", "kind", "trust")
    return " ".join(filter(None, ["n" if number else "", "same-all" if same else ""]))


def _cell(place: int, text: str, same: bool) -> str:
    tag = 'th scope="row"' if place == 0 else "td"
    text = escape(text)
    if place == 0:  # a narrow screen breaks names of classes between their words
        text = re.sub(r"(?<=[a-z])(?=[A-Z])", "<wbr>", text)
    return f'<{tag} class="{_column(place, same)}">{text}</{tag[:2]}>'


def worked(epsilon: float) -> str:
    """A sentence, whose numbers the slider changes."""
    low, high = posterior(PRIOR, epsilon)
    spans = {
        name: (
            f'<strong id="worked-{name}">{_percent(p)}</strong>',
            f'<span id="odds-{name}">{_odds(p)}</span>',
        )
        for name, p in (("prior", PRIOR), ("low", low), ("high", high))
    }
    return (
        f"Whoever is {spans['prior'][0]} sure of it before, at odds of {spans['prior'][1]}, is at "
        f"least {spans['low'][0]} and at most {spans['high'][0]} sure afterwards: at odds from "
        f"{spans['low'][1]} to {spans['high'][1]}."
    )


def _percent(p: float) -> str:
    if p > 0.999:
        return f"{math.floor(1e5 * p) / 1e3:.3f}%"
    return f"{100 * p:.1f}%" if p >= 0.001 else f"{100 * p:.1g}%"


def _odds(p: float) -> str:
    return f"1 to {(1 - p) / p:,.3g}" if p < 0.5 else f"{p / (1 - p):,.3g} to 1"


def channel_of_plan(plan: PlanNumbers) -> str:
    """A picture of the law of a report, where the protocol has one that can be drawn."""
    randomizer = randomizer_of(plan.best.protocol)
    if randomizer is None:
        return ""
    name = escape(type(randomizer).__name__)
    before = " before it is shuffled" if plan.best.trust == "shuffler" else ""
    listed = channel_of(randomizer, plan.question.value_offset)
    support = support_of(randomizer)
    if listed is not None:
        chart = channel_chart(listed)
        about = f"How likely a report of {name}{before} is, for each value that a person may hold."
    elif support is not None:
        chart = support_chart(*support)
        about = (
            f"A report of {name}{before} is a set of values, or stands for one. It may hold the "
            "person’s value or not, and holds others by chance."
        )
    else:
        return ""
    return (
        f'<h3>The law of a report</h3><figure class="channel">{chart}<figcaption>{about} The '
        "probabilities are those of the program, exactly.</figcaption></figure>"
    )


def caption_of(plan: PlanNumbers, example: Example) -> str:
    """What an example shows, in HTML."""
    best, answer = plan.best, example.answer
    if example.data is None:
        whose = "the data given, whose truth is on this page: treat it as you treat them"
    else:
        whose = f"{example.data} data"
        if plan.data != example.data:
            whose += ", for the worst data look like nobody’s"
    total = plan.question.num_answers
    some = ""
    if len(answer.values) < total:
        which = "most frequent" if example.by_size else "evenly spaced"
        some = f" Shown are the {len(answer.values)} {which} of {total:,} answers."
    bound = " The intervals are bounds." if example.kind == "bound" else ""
    return escape(
        f"One simulated collection from {best.num_users:,} people with epsilon {best.epsilon:.3g}, "
        f"for {whose}. Another would have other errors.{some}{bound}"
    )


def legend_of(example: Example) -> str:
    """What the marks of an example stand for, as items of a list in HTML."""
    items = [
        ('<path class="interval" d="M2 9H32"/><circle class="estimate" cx="17" cy="9" r="3"/>',
         f"estimate and {example.answer.confidence:.0%} interval"),
        ('<path class="truth" d="M17 2V16"/>', "truth, which nobody would know"),
        ('<path class="nearest" d="M17 4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5Z"/>',
         "after moving the estimate to the nearest possible answers"),
    ]  # fmt: skip
    if example.nearest is None:
        items.pop()
    return "".join(
        f'<li><svg viewBox="0 0 34 18" aria-hidden="true">{mark}</svg><span>{text}</span></li>\n'
        for mark, text in items
    )


def _code(plan: PlanNumbers) -> str:
    """A program that makes the plan again, and simulates it."""
    from .. import design  # a whole, by now

    signature = inspect.signature(design.plan)
    defaults = {name: p.default for name, p in signature.parameters.items()}
    given = [
        f"{name}={written(value)}"
        for name, value in plan.asked.items()
        if not isinstance(defaults[name], type(value)) or value != defaults[name]
    ]
    call = ", ".join([written(plan.question), *given])
    best = plan.best
    lines = [
        *code_imports(written(plan.question), "plan"),
        f"found = plan({call})",
        "print(found)",
        f"print(found.best.protocol)  # {written(best.protocol)}",
        f"print(found.simulate())  # an error of about {best.error:.3g}",
    ]
    if "..." in call:
        lines.insert(-4, "# ... stands for what was given: arrays or functions.")
    return "\n".join(lines)


def code_imports(question: str, function: str) -> Iterable[str]:
    """What the code of questions needs, and a function of this package."""
    from .. import design  # a whole, by now

    named = set(re.findall(r"\w+(?=\()", question))
    yield f"from jaxdp.design import {', '.join(sorted(named & set(dir(design))))}, {function}"
    if kernels := sorted(named & set(dir(pairwise))):
        yield f"from jaxdp.pairwise import {', '.join(kernels)}"
    yield ""


def written(value: Any) -> str:
    """A value as Python has it; "..." in place of arrays and functions."""
    if isinstance(value, str | int | float) or value is None:
        return repr(value)
    if isinstance(value, Checked):
        return re.sub(r"FrozenArray\([^()]*\)", "...", repr(value))
    if isinstance(value, Mapping):
        each = [f"{name!r}: {written(one)}" for name, one in value.items()]
        return "..." if any(one.endswith(": ...") for one in each) else f"{{{', '.join(each)}}}"
    plain = isinstance(value, Sequence) and len(value) <= _MOST_WRITTEN
    return repr(value) if plain and all(isinstance(x, str | int | float) for x in value) else "..."
