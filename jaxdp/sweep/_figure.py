"""Drawing results, the same bytes every time."""

import io
from typing import TYPE_CHECKING

from .._files import write_atomically
from ._store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(figure: "Figure", store: Store, experiment: str) -> None:
    """Writes a figure as PNG and as SVG, without a date, and with the same ids in every run."""
    import matplotlib

    # One layout serves all formats: to arrange a figure takes as long as to draw it.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for path in store.figures(experiment):
        content = io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": experiment}):
            metadata = {"Software": None} if path.suffix == ".png" else {"Date": None}
            figure.savefig(content, format=path.suffix[1:], dpi=200, metadata=metadata)
        write_atomically(path, content.getvalue())
