"""What figures of measured errors share: points beside the line that is proven or predicted."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jaxdp import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def draw(
    axes: "Axes",
    place: int,
    rows: Iterable[dict[str, Any]],
    columns: tuple[str, str, str],
    label: str,
    line: str = "-",
    width: float | None = 1,
) -> "Line2D":
    """Draws a line, and points with bars of two standard errors, both in the look of a place.

    Args:
      axes: where.
      place: in the palette.
      rows: in any order.
      columns: of the horizontal axis, of the line, and of the points, whose standard errors are in
        the column of this name with `_stderr`; points that are None were not measured.
      label: what is drawn.
      line: the style of the line.
      width: of the line; None for that of the style.

    Returns:
      The key of both for a legend.
    """
    from matplotlib.lines import Line2D

    x, expected, measured = columns
    rows = sorted(rows, key=lambda row: row[x])
    color, marker, _ = figures.mark(place)
    sizes = [row[x] for row in rows]
    axes.plot(sizes, [row[expected] for row in rows], line, color=color, linewidth=width)
    known = [row for row in rows if row[measured] is not None]
    bars = [2 * row[f"{measured}_stderr"] for row in known]
    points = [row[measured] for row in known]
    look: dict[str, Any] = dict(color=color, marker=marker, linestyle="none")
    axes.errorbar([row[x] for row in known], points, bars, **look)
    return Line2D([], [], label=label, color=color, marker=marker)
