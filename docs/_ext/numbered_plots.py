"""The directive `plot` of matplotlib, which counts the figures of a page and keeps their code.

Figures are SVG, and shown at 1.5 times their size on paper, where their text is 7 to 10 points.

Its own counter starts anew in each block of reStructuredText on a page in Markdown, so that all
first figures of blocks would be the same file.
"""

import pathlib
import re

from docutils import nodes
from matplotlib.sphinxext.plot_directive import PlotDirective
from sphinx.application import Sphinx

COUNTER = "_plot_counter"


def code_of_figures(env) -> dict[str, list[str]]:
    """The code of the figures of each page, in their order."""
    if not hasattr(env, "code_of_figures"):
        env.code_of_figures = {}
    return env.code_of_figures


class NumberedPlot(PlotDirective):
    """`plot`, with a counter of the page."""

    def run(self) -> list[nodes.Node]:
        """The figure."""
        document = self.state_machine.document
        env = document.settings.env
        document.attributes[COUNTER] = env.temp_data.get(COUNTER, 0)
        found = super().run()
        env.temp_data[COUNTER] = document.attributes[COUNTER]
        code_of_figures(env).setdefault(env.docname, []).append("\n".join(self.content))
        return found


def _purge(app, env, docname):
    code_of_figures(env).pop(docname, None)


def _merge(app, env, docnames, other):
    found = code_of_figures(other)
    code_of_figures(env).update({name: found[name] for name in docnames if name in found})


def enlarged(text: str) -> str:
    """A figure of matplotlib in pixels, two for each point; one in pixels is left as it is."""
    head, brace, rest = text.partition("<svg ")
    tag, end, body = rest.partition(">")
    for name in ("width", "height"):
        tag = re.sub(rf'\b{name}="([\d.]+)pt"', lambda x, n=name: f'{n}="{2 * float(x[1]):g}"', tag)
    return head + brace + tag + end + body


def _enlarge(app, exception):
    if exception is None and app.builder.format == "html":
        for path in (pathlib.Path(app.outdir) / "_images").glob("*.svg"):
            text = path.read_text(encoding="utf-8")
            if (new := enlarged(text)) != text:
                path.write_text(new, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool | int]:
    """Takes the place of matplotlib's directive."""
    app.setup_extension("matplotlib.sphinxext.plot_directive")
    app.add_directive("plot", NumberedPlot, override=True)
    app.connect("build-finished", _enlarge)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    return {"parallel_read_safe": True, "env_version": 1}
