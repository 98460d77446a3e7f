"""What all pages of plans share: the frame, and the parts at its head and its end."""

import importlib.resources
import json
import string
from collections.abc import Iterable
from html import escape
from typing import Any

from .._form import spec_to_json
from .._version import __version__
from ..reports import Collection
from ._option import Option, estimator


def filled(name: str, **parts: str) -> str:
    """A template with its parts; what is filled in may hold any text."""
    return string.Template(_file_text(name)).substitute(parts)


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
      key: of `key_numbers`.
      words: paragraphs of plain text.
      sections: what stands between the words and the statement, in HTML.
      statement: paragraphs of plain text.
      code: a program.
      specs: of `specification`, one after the other.
      data: what the script reads.
      still: whether nothing on the page moves.
    """
    return filled(
        "frame.html",
        title=escape(title),
        css=_file_text("page.css"),
        js=_file_text("page.js"),
        version=__version__,
        still=' class="still"' if still else "",
        key=key,
        words="".join(f"<p>{escape(part)}</p>\n" for part in _unwrapped(words)),
        sections=sections,
        statement=escape("\n\n".join(_unwrapped(statement))),
        code=escape(code),
        specs=specs,
        data=json.dumps(data).replace("<", "\\u003c"),
    )


def key_numbers(numbers: Iterable[tuple[str, str, str, str]], solved: str) -> str:
    """The numbers at the head of a page.

    Args:
      numbers: of each its name, a term, its text, and what it is.
      solved: the name of the one that was asked for.
    """
    return "".join(
        f"<div{' class=asked' if name == solved else ''}><dt>{term}</dt>"
        f"<dd>{escape(value)}<small>{escape(note)}</small></dd></div>\n"
        for name, term, value, note in numbers
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
    return (
        f'<h3>{title}</h3>\n<p class="intro">{intro}</p>\n<div class="text"><button type="button" '
        f'class="copy" data-copy="{place}">Copy</button>\n<pre id="{place}" class="long" '
        f'tabindex="0">{escape(text)}</pre></div>\n'
    )


def _file_text(name: str) -> str:
    return importlib.resources.files("jaxdp.design").joinpath(name).read_text("utf-8")


def _unwrapped(text: str) -> list[str]:
    """Paragraphs, each in one line."""
    return [" ".join(part.split()) for part in text.split("\n\n")]
