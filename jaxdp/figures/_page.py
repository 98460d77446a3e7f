"""The one writer of pages: plans, answers and sweeps differ in what stands between head and end."""

import functools
import importlib.resources
import json
import string
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from .._version import __version__
from ._theme import DARK, LIGHT


def page(
    *,
    title: str,
    over: str,
    sections: Sequence[str],
    key: str = "",
    data: Mapping[str, Any] | None = None,
    css: str = "",
    js: str = "",
    still: bool = False,
) -> str:
    """A page, text of HTML: one file that needs no server, on light and on dark ground.

    Its content security policy lets it load nothing and send nothing.

    Args:
      title: in plain text.
      over: what kind of page it is, in plain text.
      sections: of `section`, in their order.
      key: of `key_numbers`, at its head.
      data: what its script reads as JSON from the element "data".
      css: beside what all pages have.
      js: a script, beside what all pages have.
      still: whether nothing on the page moves.
    """
    return filled(
        _text("frame.html"),
        title=escape(title),
        over=escape(over),
        css=_ground() + _text("page.css") + css,
        js=_text("page.js") + js,
        version=__version__,
        kind=' class="still"' if still else "",
        key=f'<dl class="key">\n{key}</dl>\n' if key else "",
        sections="".join(sections),
        data=json.dumps(data or {}).replace("<", "\\u003c"),
    )


def filled(template: str, **parts: str) -> str:
    """A template with `$name` for its parts; what is filled in may hold any text.

    Args:
      template: the text.
      **parts: by name.

    Example:
      >>> from jaxdp import figures
      >>> figures.filled("<p>$words</p>", words="5 $")
      '<p>5 $</p>'
    """
    return string.Template(template).substitute(parts)


def section(name: str, heading: str, body: str, intro: str = "") -> str:
    """A part of a page under a heading.

    Args:
      name: the id of the heading.
      heading: plain text.
      body: HTML.
      intro: what stands below the heading, plain text.
    """
    told = f'<p class="intro">{escape(intro)}</p>\n' if intro else ""
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(heading)}</h2>\n'
        f"{told}{body}</section>\n\n"
    )


def key_numbers(numbers: Iterable[tuple[str, str, str, str]], solved: str = "") -> str:
    """The numbers at the head of a page.

    Args:
      numbers: of each its name, a term, its text, and what it is.
      solved: the name of the one that was asked for.
    """
    return "".join(
        f"<div{' class=asked' if name and name == solved else ''}><dt>{escape(term)}</dt>"
        f"<dd>{escape(value)}<small>{escape(note)}</small></dd></div>\n"
        for name, term, value, note in numbers
    )


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, each in one line."""
    return [" ".join(part.split()) for part in text.split("\n\n")]


def copied_text(name: str, text: str, kind: str = "") -> str:
    """A text with a button that copies it.

    Args:
      name: the id of the text.
      text: plain text.
      kind: of it, a class of CSS, such as "long" for what is to be scrolled.
    """
    given = f' class="{kind}"' if kind else ""
    return (
        f'<div class="text"><button type="button" class="copy" data-copy="{name}">Copy</button>\n'
        f'<pre id="{name}"{given} tabindex="0">{escape(text)}</pre></div>\n'
    )


def _ground() -> str:
    """The colours of both grounds."""
    light, dark = ("\n".join(f"  {line}" for line in theme.variables()) for theme in (LIGHT, DARK))
    return (
        f":root {{\n  color-scheme: light dark;\n{light}\n}}\n"
        f"@media (prefers-color-scheme: dark) {{\n:root {{\n{dark}\n}}\n}}\n"
    )


@functools.cache
def _text(name: str) -> str:
    return importlib.resources.files("jaxdp.figures").joinpath(name).read_text("utf-8")
