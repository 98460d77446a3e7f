"""An answer as a page."""

from html import escape
from typing import TYPE_CHECKING

from .. import figures

if TYPE_CHECKING:
    from ._answer import Answer

_DRAWN = 200  # entries that have a row in the chart


def answer_page(answer: "Answer") -> str:
    """The page, text of HTML."""
    heads, *rows = answer.table()
    known = answer.standard_errors is not None
    key = [("", "users", f"{answer.num_users:,}", "who reported")]
    if answer.epsilon is not None:
        key.append(("", "epsilon", f"{answer.epsilon:.4g}", "the privacy parameter of each"))
    if known:
        key.append(("", "confidence", f"{100 * answer.confidence:.6g} %", "of each interval"))
    shown = slice(_DRAWN)
    chart = figures.interval_chart(
        "answer",
        "Values with their intervals",
        [row[0] for row in rows[shown]],
        answer.values.ravel()[shown],
        answer.intervals.reshape(-1, 2)[shown] if known else None,
    )
    line = "".join(
        f'<th scope="col"{" class=n" if i else ""}>{h}</th>' for i, h in enumerate(heads)
    )
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
        + "</tr>\n"
        for name, *cells in rows
    )
    more = f", the first {_DRAWN} of {len(rows):,}" if len(rows) > _DRAWN else ""
    about = (
        "An interval holds its own value with the given confidence, and says how far the reports "
        "may lead astray, not how far those who reported differ from others. It may reach below 0: "
        "such an end says that little is known."
    )
    return figures.page(
        title=answer.purpose or "What the reports say",
        over="An answer from private reports",
        key=figures.key_numbers(key),
        sections=[
            figures.section(
                "s1", f"Values{more}", f"<figure>{chart}</figure>\n", about if known else ""
            ),
            figures.section(
                "s2",
                "In numbers",
                '<div class="wide" role="region" aria-labelledby="s2" tabindex="0"><table>\n'
                f"<thead><tr>{line}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n",
            ),
        ],
    )
