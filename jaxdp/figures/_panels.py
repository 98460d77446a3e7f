"""Panels side by side, axes with few and plain ticks, and legends beside the data."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._axis import ticks
from ._style import PAGE

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def panels(
    columns: int = 1,
    rows: int = 1,
    *,
    width: float = PAGE,
    height: float | None = None,
    **options: Any,
) -> "tuple[Figure, np.ndarray]":
    """A figure of panels, which no window shows.

    Args:
      columns: panels side by side.
      rows: panels one below the other.
      width: in inches, `COLUMN` or `PAGE`.
      height: in inches; None for panels about 3/4 as high as wide.
      **options: of `matplotlib.figure.Figure.subplots`, such as `sharey`.

    Returns:
      The figure, and its axes as an array of shape (rows, columns).

    Example:
      >>> from jaxdp import figures
      >>> with figures.style():
      ...     figure, axes = figures.panels(2, sharey=True)
      >>> axes.shape
      (1, 2)
    """
    from matplotlib.figure import Figure

    if height is None:
        height = rows * (0.35 + min(0.72 * width / columns, 3.4))
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def tidy(
    axes: "Axes",
    *,
    x: Sequence[float] | Mapping[float, str] | None = None,
    y: Sequence[float] | Mapping[float, str] | None = None,
) -> None:
    """Gives axes of logarithms few and plain ticks: 0.5, 1, 2 and not 2 × 10⁰.

    To be called when everything is drawn.

    Args:
      axes: those of matplotlib.
      x: the ticks of the horizontal axis, or a mapping of them to their names; None for round
        numbers.
      y: those of the vertical axis.
    """
    # Inches of each side, and of a tick with its name.
    inch = axes.figure.dpi
    sides = (
        (axes.xaxis, x, axes.bbox.width / inch, 0.4),
        (axes.yaxis, y, axes.bbox.height / inch, 0.25),
    )
    for axis, wanted, length, each in sides:
        if wanted is not None:
            places = list(wanted)
        elif axis.get_scale() == "log":
            low, high = sorted(axis.get_view_interval())
            places = ticks(low, high, log=True, most=max(3, int(length / each)))
            tens = [place for place in places if _power(place).startswith("$10")]
            if not _are_plain(places) and len(tens) > 1:
                places = tens
        else:
            continue
        names = list(wanted.values()) if isinstance(wanted, Mapping) else _names(places)
        axis.set_ticks(places, names)
        axis.set_ticks([], minor=True)


def _are_plain(numbers: list[float]) -> bool:
    """Whether numbers are short without powers of ten."""
    return all(1e-4 <= abs(x) < 1e5 or x == 0 for x in numbers)


def _names(numbers: list[float]) -> list[str]:
    return [f"{x:,.6g}" if _are_plain(numbers) else _power(x) for x in numbers]


def _power(number: float) -> str:
    """A number with a power of ten, as mathtext."""
    if number == 0:
        return "0"
    power = math.floor(math.log10(abs(number)) + 1e-9)
    factor = f"{number / 10.0**power:.3g}"
    return f"$10^{{{power}}}$" if factor == "1" else rf"${factor}\!\cdot\!10^{{{power}}}$"


def legend(
    figure: "Figure",
    handles: "Sequence[Any] | None" = None,
    *,
    title: str | None = None,
    columns: int | None = None,
) -> None:
    """A legend below all panels, where it can cover no data.

    Args:
      figure: with its axes.
      handles: what to name, with labels of their own; None for everything in the panels that has a
        label, each label once.
      title: of the legend.
      columns: how many; None for as many as fit.
    """
    if handles is None:
        found = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                found.setdefault(label, handle)
    else:
        found = {handle.get_label(): handle for handle in handles}
    if not found:
        return
    if columns is None:
        longest = max(map(len, found))
        columns = max(1, int(figure.get_figwidth() / (0.42 + 0.058 * longest)))
        columns = min(columns, len(found))
        columns = -(-len(found) // -(-len(found) // columns))  # as even lines as can be
    figure.legend(
        list(found.values()), list(found), title=title, ncols=columns, loc="outside lower center"
    )
