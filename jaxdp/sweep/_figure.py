"""Drawing results, the same bytes every time."""

import io
from typing import TYPE_CHECKING

from ._store import Store, figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(figure: "Figure", store: Store, experiment: str) -> None:
    """Writes a figure as PNG and as SVG, without a date, and with the same ids in every run."""
    import matplotlib

    # One layout serves all formats: to arrange a figure takes as long as to draw it.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for file in figures(experiment):
        content = io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": experiment}):
            kind = file.rpartition(".")[2]
            metadata = {"Software": None} if kind == "png" else {"Date": None}
            figure.savefig(content, format=kind, dpi=200, metadata=metadata)
        store.folder.replace(file, content.getvalue())
