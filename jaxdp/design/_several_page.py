"""A plan for several questions as one HTML page."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import jax
import numpy as np

from ..figures import key_numbers
from ._curves import Curves, curves_of
from ._example import example_of
from ._frame import filled, framed, specification
from ._page import (
    PRIOR,
    axis_of_errors,
    caption_of,
    channel_of_plan,
    code_imports,
    legend_of,
    worked,
    written,
)
from ._plan_numbers import PlanNumbers
from ._question import as_title
from ._several_numbers import SeveralNumbers
from ._svg import error_chart, example_chart, posterior_chart


def several_page(
    several: SeveralNumbers,
    plans: Mapping[str, PlanNumbers],
    labels: Mapping[str, Sequence[str]],
    seconds: float,
) -> str:
    """The page, text of HTML.

    Args:
      several: of what.
      plans: the plan of each question in the best way, by name.
      labels: what the answers of a question are of, by name; their numbers for others.
      seconds: for the curves of all; see `curves_of`.
    """
    best = several.best
    realised, _ = several.privacy
    revealed, prior, sure = posterior_chart(realised, PRIOR)
    data: dict[str, Any] = {
        "exact_epsilon": realised,
        "axes": {"prior": prior.to_json(), "posterior": sure.to_json()},
    }
    share = seconds / len(plans)
    sections = [
        _question(place, name, plan, curves_of(plan, share), labels.get(name))
        for place, (name, plan) in enumerate(plans.items())
    ]
    refused = ""
    if several.refused:
        items = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in several.refused)
        refused = f"<details open><summary>Left out</summary><ul>{items}</ul></details>"
    return framed(
        title=as_title(f"{len(plans)} questions on one budget"),
        key=key_numbers(
            [
                ("epsilon", "epsilon", f"{best.epsilon:.3g}", "of all that a person sends"),
                ("users", "users", f"{best.num_users:,}", "who take part"),
                ("", "way", best.name, several.how(best)),
            ],
            several.solved,
        ),
        words=several.summary(),
        sections=filled(
            "several.html",
            **_ways(several),
            refused=refused,
            questions="".join(sections),
            seen="that person’s report" if best.name != "split" else "all of that person’s reports",
            worked=worked(realised),
            factor=f"{math.exp(realised):.4g}",
            exact_epsilon=f"{realised:.5g}",
            posterior_chart=revealed,
        ),
        statement=several.statement(),
        code=_code(several),
        specs="".join(
            specification(f"spec{place}", plan.best, as_title(name))
            for place, (name, plan) in enumerate(plans.items())
        ),
        data=data,
        still=True,
    )


def _ways(several: SeveralNumbers) -> dict[str, str]:
    """The table of the ways."""
    heads = ["way", "users", "epsilon", *several.questions]
    rows = []
    for place, way in enumerate(several.ways):
        cells = [
            f'<td class="n">{way.num_users:,}</td><td class="n">{way.epsilon:.4g}</td>',
            *(
                f'<td class="n">{option.error:.4g}<br><small>{escape(option.name)}</small></td>'
                for option in way.options.values()
            ),
        ]
        best = ' class="best"' if place == 0 else ""
        rows.append(f'<tr{best}><th scope="row">{escape(way.name)}</th>{"".join(cells)}</tr>\n')
    return {
        "way_heads": "".join(
            f'<th scope="col"{" class=n" if i else ""}>{escape(head)}</th>'
            for i, head in enumerate(heads)
        ),
        "ways": "".join(rows),
        "how": escape(
            "Errors are root mean squared errors. "
            + "; ".join(f"{way.name}: {several.how(way)}" for way in several.ways)
            + "."
        ),
    }


def _question(
    place: int, name: str, plan: PlanNumbers, curves: Curves, labels: Sequence[str] | None
) -> str:
    """The section of a question."""
    best = plan.best
    example = example_of(plan, labels, jax.random.fold_in(jax.random.key(0), place))
    charts = _charts(place, plan, curves)
    size = "no format" if best.report_bytes is None else f"{best.report_bytes}"
    numbers = key_numbers(
        [
            ("", "error", f"{best.error:.3g}", plan.question.LOSSES[plan.goal.loss]),
            ("", "epsilon", f"{best.epsilon:.3g}", "of this question’s report"),
            ("", "users", f"{best.num_users:,}", "who answer it"),
            ("", "report", size, f"bytes, {best.name}"),
        ],
        "",
    )
    return (
        f'<section aria-labelledby="q{place}">\n<h2 id="q{place}">{escape(as_title(name))}: '
        f"{escape(plan.question.describe())}</h2>\n"
        f'<dl class="key small">\n{numbers}</dl>\n'
        f'<div class="pair">{charts}</div>\n'
        f'<div class="pair"><figure>{example_chart(example, example.answer.labels or ())}</figure>'
        f"<div><p>{caption_of(plan, example)}</p>\n"
        f'<ul class="legend">\n{legend_of(example)}</ul></div></div>\n'
        f"{channel_of_plan(plan)}</section>\n\n"
    )


def _charts(place: int, plan: PlanNumbers, curves: Curves) -> str:
    """The error against epsilon and against users."""
    best, (curve,) = plan.best, curves.curves
    here = np.array([[float(best.error)]])
    grid = here if curve.errors is None else curve.errors
    axis = axis_of_errors([grid], float(best.error))
    drawn = (
        ("epsilon", "epsilon", curves.epsilon, curve.by_epsilon, best.epsilon),
        ("users", "the number of users", curves.users, curve.by_users, best.num_users),
    )
    charts = [
        error_chart(
            f"q{place}-{name}",
            span,
            axis,
            [line],
            (number, float(best.error)),
            None,
            name,
            f"Error of {best.name} against {against}",
        )[0]
        for name, against, span, line, number in drawn
    ]
    return "".join(f"<figure>{chart}</figure>" for chart in charts)


def _code(several: SeveralNumbers) -> str:
    """A program that makes the plan again, and simulates it."""
    questions = ", ".join(f"{name!r}: {written(q)}" for name, q in several.questions.items())
    given = ", ".join(f"{name}={written(value)}" for name, value in several.asked.items())
    return "\n".join(
        [
            *code_imports(questions, "several"),
            f"asked = {{{questions}}}",
            f"found = several(asked, {given})",
            "print(found)",
            "for name, plan in found.plans().items():",
            "    print(name, plan.best.protocol, plan.simulate())",
        ]
    )
