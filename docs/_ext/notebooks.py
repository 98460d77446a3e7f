"""Some pages as Jupyter notebooks, made from the same source, to download from their pages.

A notebook holds the text of a page and its examples, a cell for each that has a result, and the
results as the page shows them. Its code needs nothing but the installed package.
"""

import doctest
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from jaxdp._install import DISTRIBUTION, install

PAGES: dict[str, tuple[str, ...]] = {
    "guide/first-simulation": (),
    "guide/own-data": ("pandas",),
    "guide/jax": (),
}
"""The pages that are notebooks too, and the extras that their code needs."""

FOLDER = "notebooks"
FENCE = re.compile(r"^(`{3,}|:{3,})(.*?)$\n(.*?)^\1$\n?", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r"\{(\w+(?::\w+)?)\}`([^`]*)`")


def plain(text: str) -> str:
    """Text of a page without what only Sphinx understands: roles become words or code."""

    def word(role: re.Match[str]) -> str:
        kind, content = role[1], role[2]
        if kind == "cite":
            return ""
        title = re.fullmatch(r"(.*?)\s*<[^>]*>", content, re.DOTALL)
        if title:
            return title[1]
        name = content.rpartition(".")[2] if content.startswith("~") else content
        return name.rpartition("/")[2].replace("-", " ") if kind in ("doc", "ref") else f"`{name}`"

    return ROLE.sub(word, text).strip("\n")


def _split(text: str) -> Iterator[tuple[str, str]]:
    """(language, content) of the blocks of a page, and of the texts between, as "text"."""
    at = 0
    for fence in FENCE.finditer(text):
        yield "text", text[at : fence.start()]
        yield fence[2].strip(), fence[3]
        at = fence.end()
    yield "text", text[at:]


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(source: str, result: str) -> dict[str, Any]:
    stream = {"output_type": "stream", "name": "stdout", "text": result}
    return {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "source": source.rstrip("\n"),
        "outputs": [stream] if result else [],
    }


def cells_of(block: str) -> Iterator[dict[str, Any]]:
    """The cells of a block of examples: one ends where a result is shown."""
    source = ""
    for example in doctest.DocTestParser().get_examples(block):
        source += example.source
        if example.want:
            yield _code(source, example.want)
            source = ""
    if source:
        yield _code(source, "")


def notebook(page: str, text: str) -> dict[str, Any]:
    """The notebook of a page.

    Args:
      page: its name, one of `PAGES`.
      text: its source.
    """
    cells = []
    for language, content in _split(text):
        if language == "text" and content.strip():
            cells.append(_markdown(plain(content)))
        elif language == "python" and ">>> " in content:
            cells += cells_of(content)
        elif language in ("python", "bash", "text"):
            cells.append(_markdown(f"```{language}\n{content}```"))
    extras = PAGES[page]
    command = "%" + (install(*extras) if extras else f"pip install {DISTRIBUTION}")
    about = f"Made from the documentation of jaxdp. To run it: `{command}`."
    cells.insert(1, _markdown(about))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _write(app, error):
    if error is not None or app.builder.format != "html":
        return
    for page in PAGES:
        path = pathlib.Path(app.outdir) / FOLDER / f"{pathlib.PurePosixPath(page).name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        found = notebook(page, pathlib.Path(app.env.doc2path(page)).read_text())
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _link(app, doctree):
    page = app.env.docname
    if page not in PAGES:
        return
    up = "../" * page.count("/")
    name = pathlib.PurePosixPath(page).name
    line = nodes.paragraph(classes=["notebook"])
    target = f"{up}{FOLDER}/{name}.ipynb"
    line += nodes.reference("", "Download this page as a notebook", refuri=target)
    next(iter(doctree.findall(nodes.section))).insert(1, line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Has the notebooks written, and links to them put below the titles of their pages."""
    app.connect("doctree-read", _link)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}
