"""Figures as files, the same bytes every time."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What would change from run to run.
_DATES: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


def encode(figure: "Figure", kinds: Sequence[str], *, name: str = "") -> dict[str, bytes]:
    """The contents of files of a figure, without a date and with the same ids in every run.

    Args:
      figure: of matplotlib.
      kinds: "png", with 200 dots per inch; "svg"; and "pdf", whose text is text.
      name: of the figure, from which ids in SVG are made; different for figures of one page.

    Returns:
      The content of each kind.

    Raises:
      ValueError: there is no such kind.
    """
    import matplotlib

    if wrong := [kind for kind in kinds if kind not in _DATES]:
        raise ValueError(f"kinds must be among {', '.join(_DATES)}, got {wrong[0]!r}.")
    # One layout serves all formats: to arrange a figure takes as long as to draw it.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    found = {}
    for kind in kinds:
        content = io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": name, "pdf.fonttype": 42}):
            figure.savefig(content, format=kind, dpi=200, metadata=_DATES[kind])
        found[kind] = content.getvalue()
    return found
