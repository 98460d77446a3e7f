"""Charts as SVG inside of a page, which gives them their colours."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from ._axis import Axis

CHART = 360
"""Width of a chart in a page, in its own units."""


def svg(name: str, title: str, height: float, parts: Iterable[str]) -> str:
    """A chart of width `CHART`.

    Args:
      name: its id.
      title: for those who cannot see it.
      height: in the same units.
      parts: of `svg_text`, `svg_line` and the like.
    """
    return (
        f'<svg id="{name}" viewBox="0 0 {CHART} {height:.0f}" role="img" '
        f'aria-labelledby="{name}-title" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{name}-title">{escape(title)}</title>{"".join(parts)}</svg>'
    )


def svg_text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "tick") -> str:
    """A text in a chart.

    Args:
      x: its place.
      y: that of its base line.
      text: plain text.
      anchor: which of its ends is there: "start", "middle" or "end".
      kind: a class of CSS.
    """
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def svg_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A line in a chart.

    Args:
      x1: where it begins.
      y1: where it begins.
      x2: where it ends.
      y2: where it ends.
      kind: a class of CSS.
    """
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def interval_chart(
    name: str,
    title: str,
    names: Sequence[str],
    values: np.ndarray,
    intervals: np.ndarray | None,
    *,
    truth: np.ndarray | None = None,
    nearest: np.ndarray | None = None,
) -> str:
    """A row for each of several numbers, with its interval.

    Args:
      name: the id of the chart.
      title: for those who cannot see it.
      names: of the numbers.
      values: float64[n].
      intervals: float64[n, 2], or None.
      truth: float64[n], what the numbers are estimates of, or None.
      nearest: float64[n], other estimates, or None.
    """
    ends = np.stack([values, values], axis=1) if intervals is None else intervals
    drawn = [part for part in (values, ends.ravel(), truth, nearest) if part is not None]
    numbers = np.concatenate([*drawn, [0.0]] if len(names) > 1 else drawn)
    margin = 0.03 * (numbers.max() - numbers.min() or 1.0)
    left = 14 + 7 * min(max(map(len, names), default=0), 16)
    x = Axis(numbers.min() - margin, numbers.max() + margin, left, CHART - 14, log=False)
    top, each = 12, 17 if len(names) > 1 else 40
    bottom = top + each * len(names)
    parts = []
    for tick in x.ticks():
        kind = "axis" if tick == 0 else "grid"
        parts.append(svg_line(x.at(tick), top, x.at(tick), bottom, kind))
        parts.append(svg_text(x.at(tick), bottom + 17, f"{tick:.6g}"))
    for i, shown in enumerate(names):
        y = top + (i + 0.5) * each
        shown = shown if len(shown) <= 16 else f"{shown[:15]}…"
        parts.append(svg_text(left - 8, y + 4, shown, "end"))
        parts.append(svg_line(x.at(ends[i, 0]), y, x.at(ends[i, 1]), y, "interval"))
        if truth is not None:
            at = x.at(truth[i])
            parts.append(svg_line(at, y - 6, at, y + 6, "truth"))
        parts.append(f'<circle class="estimate" cx="{x.at(values[i]):.1f}" cy="{y}" r="3"/>')
        if nearest is not None:
            at = x.at(nearest[i])
            parts.append(
                f'<path class="nearest" d="M{at:.1f} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5Z"/>'
            )
    return svg(name, title, bottom + 26, parts)
