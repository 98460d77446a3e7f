"""What all pages of plans share: the parts at their head and their end."""

import importlib.resources
import json
from html import escape
from typing import Any

from .. import figures
from .._form import spec_to_json
from ..reports import Collection
from ._option import Option, estimator


def filled(name: str, **parts: str) -> str:
    """A template of this package with its parts; what is filled in may hold any text."""
    return figures.filled(_file_text(name), **parts)


def framed(
    *,
    title: str,
    key: str,
    words: str,
    sections: str,
    statement: str,
    code: str,
    specs: str,
    data: dict[str, Any],
    still: bool = False,
) -> str:
    """A page, text of HTML.

    Args:
      title: in plain text.
      key: of `figures.key_numbers`.
      words: paragraphs of plain text.
      sections: what stands between the words and the statement, in HTML.
      statement: paragraphs of plain text.
      code: a program.
      specs: of `specification`, one after the other.
      data: what the script reads.
      still: whether nothing on the page moves.
    """
    told = "".join(f"<p>{escape(part)}</p>\n" for part in figures.paragraphs(words))
    stated = figures.copied_text(
        "statement", "\n\n".join(figures.paragraphs(statement)), "statement"
    )
    program = f"<h3>The code of this plan</h3>\n{figures.copied_text('code', code)}{specs}"
    return figures.page(
        title=title,
        over="A plan for private answers",
        key=key,
        sections=[
            figures.section("s1", "What it says", f'<div class="prose">\n{told}</div>\n'),
            sections,
            figures.section("s6", "Privacy statement", stated, "For those who review the plan."),
            figures.section("s7", "To run it", program),
        ],
        data=data,
        css=_file_text("page.css"),
        js=_file_text("page.js"),
        still=still,
    )


def specification(place: str, best: Option, of: str = "") -> str:
    """What is deployed, as JSON.

    Args:
      place: the id of the text on its page.
      best: what is deployed.
      of: the title of the question, on a page of several.
    """
    try:
        text = Collection(estimator(best.protocol, best.trust)).to_json()
        title = "The collection to deploy, as JSON"
        intro = (
            "Clients and servers hold the same document: <code>jaxdp.reports.Client(text)</code> "
            "makes reports, <code>Aggregate(Collection.from_json(text))</code> reads them. Give a "
            "purpose and labels first."
        )
    except ValueError as reason:
        text, title = json.dumps(spec_to_json(best.protocol)), "The protocol, as JSON"
        intro = f"It cannot be collected from real people: {escape(str(reason))}"
    if of:
        title = f"{escape(of)}: {title[0].lower()}{title[1:]}"
    copied = figures.copied_text(place, text, "long")
    return f'<h3>{title}</h3>\n<p class="intro">{intro}</p>\n{copied}'


def _file_text(name: str) -> str:
    return importlib.resources.files("jaxdp.design").joinpath(name).read_text("utf-8")
