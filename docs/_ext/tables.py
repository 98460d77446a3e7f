"""Cells of tables break between numbers and words, never within a number and what belongs to it.

On a narrow screen `2.97 ± 0.06` would take three lines, and `ε = 0.5` and `24 %` two.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx

SPACE = "\N{NO-BREAK SPACE}"
TOGETHER = re.compile(r" (?=[±=≤≥<>%] ?)|(?<=[±=≤≥<>]) ")
"""The spaces beside a sign, and before a percent sign."""

LONGEST = 20
"""Characters of a text beyond which equations in it may break."""


def together(text: str) -> str:
    """A text whose numbers stay with their signs."""
    if len(text) > LONGEST:
        return text.replace(" ± ", f"{SPACE}±{SPACE}").replace(" %", f"{SPACE}%")
    return TOGETHER.sub(SPACE, text)


def _keep_together(app, doctree):
    for cell in doctree.findall(nodes.entry):
        for text in list(cell.findall(nodes.Text)):
            if not isinstance(text.parent, nodes.literal | nodes.math):
                text.parent.replace(text, nodes.Text(together(text)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Looks at all tables."""
    app.connect("doctree-read", _keep_together)
    return {"parallel_read_safe": True}
