"""The directive `checked-by`: the tests that check a proof, each with its code to unfold."""

import ast
import html
import pathlib

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = pathlib.Path(__file__).parents[2]


def source_of(test: str) -> tuple[str, str]:
    """The first line of what a test says about itself, and its code.

    Args:
      test: `tests/FILE.py::NAME`.

    Raises:
      ValueError: there is no such test.
    """
    path, _, name = test.partition("::")
    text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            code = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
            about = (ast.get_docstring(node) or "").partition("\n")[0]
            return about or name.removeprefix("test_").replace("_", " ").capitalize() + ".", code
    raise ValueError(f"there is no test {test}")


class CheckedBy(SphinxDirective):
    """`checked-by`, whose content is a test a line."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """A title, and for each test what it checks and its code, folded."""
        found: list[nodes.Node] = [nodes.rubric(text="Checked by")]
        for test in filter(None, map(str.strip, self.content)):
            try:
                about, code = source_of(test)
            except ValueError as error:
                raise self.error(str(error)) from error
            self.env.note_dependency(str(ROOT / test.partition("::")[0]))
            block = nodes.literal_block(code, code, language="python")
            opened = '<details class="checked"><summary>{}<br><code>{}</code></summary>'
            text = opened.format(html.escape(about.replace("`", "")), html.escape(test))
            found += [
                nodes.raw("", text, format="html"),
                block,
                nodes.raw("", "</details>", format="html"),
            ]
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directive."""
    app.add_directive("checked-by", CheckedBy)
    return {"parallel_read_safe": True}
