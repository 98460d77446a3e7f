"""The directive `plot` of matplotlib, which counts the figures of a page.

Its own counter starts anew in each block of reStructuredText on a page in Markdown, so that all
first figures of blocks would be the same file.
"""

from docutils import nodes
from matplotlib.sphinxext.plot_directive import PlotDirective
from sphinx.application import Sphinx

COUNTER = "_plot_counter"


class NumberedPlot(PlotDirective):
    """`plot`, with a counter of the page."""

    def run(self) -> list[nodes.Node]:
        """The figure."""
        document = self.state_machine.document
        counts = document.settings.env.temp_data
        document.attributes[COUNTER] = counts.get(COUNTER, 0)
        found = super().run()
        counts[COUNTER] = document.attributes[COUNTER]
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Takes the place of matplotlib's directive."""
    app.setup_extension("matplotlib.sphinxext.plot_directive")
    app.add_directive("plot", NumberedPlot, override=True)
    return {"parallel_read_safe": True}
