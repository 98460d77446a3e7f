"""A link to its proof in the reference entry of whatever docs/proofs/index.md names beside one."""

import functools
import pathlib
import re

from sphinx.application import Sphinx

INDEX = pathlib.Path(__file__).parents[1] / "proofs" / "index.md"


@functools.cache
def proofs() -> dict[str, str]:
    """The page that proves something, by the full name of what relies on it."""
    rows = re.findall(r"^\| \{doc\}`([\w-]+)` \|.*\|(.*)\|$", INDEX.read_text(), re.MULTILINE)
    return {name: page for page, users in rows for name in re.findall(r"\{\w+\}`~([\w.]+)`", users)}


def _add(app, what, name, obj, options, lines):
    if page := proofs().get(name):
        lines += ["", f"Proof: :doc:`/proofs/{page}`.", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the links."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _add, priority=800)  # after napoleon
    return {"parallel_read_safe": True}
