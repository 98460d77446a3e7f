"""Results as a figure: measured points, predicted lines, a panel and a mark for each label."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .. import figures
from ._fingerprint import Label, Row
from ._report import rmse_stderr

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    "epsilon": "ε",
    "delta": "δ",
    "num_users": "users",
    "num_values": "values",
    "num_queries": "queries",
    "num_scores": "scores",
    "rmse": "root mean squared error",
    "mse": "mean squared error",
    "total_mse": "total squared error",
    "max_rmse": "largest root mean squared error",
    "max_error": "largest error",
    "tv": "total variation distance",
}
"""What columns are called in figures; others by their names."""


Ground = Literal["light", "dark"]
PREDICTED, BOUND = (0, (4, 1.6)), (0, (1, 1.4))
"""The dashes of lines."""


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What is drawn: columns by their part, some of which may be None."""

    x: str
    y: str
    hue: str | None
    col: str | None
    predicted: str | None
    bound: str | None
    stderr: str | None
    names: Mapping[str, str]

    def name(self, column: str) -> str:
        return self.names.get(column, NAMES.get(column, column.replace("_", " ")))


def plot(
    table: "pa.Table",
    *,
    x: str,
    y: str,
    hue: str | None = None,
    col: str | None = None,
    predicted: str | Literal[False] | None = None,
    bound: str | Literal[False] | None = None,
    names: Mapping[str, str] | None = None,
    width: float | None = None,
    theme: Literal["light", "dark"] = "light",
    transparent: bool = False,
) -> "Figure":
    """Draws one column of results against another, in the style of `jaxdp.figures`.

    Points have two standard errors where the table has them: in the column `y` + "_stderr", or
    "stderr". Axes are of logarithms where all is positive and spans a factor of ten, or x grows by
    one factor. Numbers of `hue` are in the order of their shades; every series has a marker of its
    own, too.

    Args:
      table: of `collect` or `summarize`, or whichever of their rows are to be drawn.
      x: the column of the horizontal axis; texts are put side by side in their order.
      y: the column of the vertical axis, of numbers; rows without one have no point.
      hue: the column whose values are the series.
      col: the column whose values are the panels.
      predicted: the column of what was predicted, drawn dashed; None for `y` after `predicted_`, or
        "predicted", if there is one; False for none.
      bound: the column of a proven bound, drawn dotted; None for `y` after `bound_`, or "bound", if
        there is one; False for none.
      names: what columns are called in the figure, beside common ones that have names, and what
        "predicted" and "bound" are called.
      width: in inches; None for `figures.COLUMN` with one panel, and `figures.PAGE` with several.
      theme: "light" or "dark" ground.
      transparent: whether saved figures have no ground.

    Returns:
      A figure of matplotlib, to be saved by its `savefig`.

    Raises:
      ImportError: matplotlib is not installed.
      ValueError: a column is not there or holds no numbers; or several rows would be one point, and
        the message says in which columns they differ.

    Example:
      >>> import pyarrow as pa
      >>> from jaxdp import sweep
      >>> rows = [
      ...     {"epsilon": e, "mechanism": name, "rmse": c / e, "predicted_rmse": c / e}
      ...     for e in (0.5, 1.0, 2.0)
      ...     for name, c in (("a", 1.0), ("b", 2.0))
      ... ]
      >>> figure = sweep.plot(pa.Table.from_pylist(rows), x="epsilon", y="rmse", hue="mechanism")
      >>> figure.axes[0].get_ylabel()
      'root mean squared error'
    """
    asked = _Asked(
        x,
        y,
        hue,
        col,
        _beside(table, "predicted", y, predicted),
        _beside(table, "bound", y, bound),
        next((n for n in (f"{y}_stderr", "stderr") if n in table.column_names), None),
        names or {},
    )
    rows = _rows(table, asked)
    panels = _levels(rows, col)
    if width is None:
        width = figures.PAGE if len(panels) > 1 else figures.COLUMN
    columns = min(len(panels), 3 if width > figures.COLUMN else 1)
    lines = -(-len(panels) // columns)
    with figures.style(theme, transparent=transparent):
        figure, grid = figures.panels(columns, lines, width=width, sharex=True, sharey=True)
        used, unused = list(grid.flat)[: len(panels)], list(grid.flat)[len(panels) :]
        for axes in unused:
            axes.set_visible(False)
        looks = _looks(_levels(rows, hue), theme)
        places = _places(_levels(rows, x))
        for axes, panel in zip(used, panels, strict=True):
            own = [row for row in rows if col is None or row[col] == panel]
            for place, (level, look) in enumerate(looks.items()):
                series = [row for row in own if hue is None or row[hue] == level]
                shift = (place - (len(looks) - 1) / 2) * 0.6 / len(looks)
                _draw(axes, series, asked, look, places, shift)
            if col is not None:
                axes.set_title(_level_name(asked, col, panel))
        _scale(used, rows, asked, places)
        for axes in grid[:, 0]:
            axes.set_ylabel(asked.name(y))
        for axes in used[-columns:]:  # below which there is none
            axes.set_xlabel(asked.name(x))
            axes.tick_params(labelbottom=True)
        figures.legend(figure, _handles(looks, asked, theme))
    return figure


def _beside(table: "pa.Table", kind: str, y: str, asked: str | Literal[False] | None) -> str | None:
    """The column of what is drawn beside y, if there is one."""
    if asked is False:
        return None
    found = [n for n in (f"{kind}_{y}", kind) if n in table.column_names and n != y]
    return asked or (found[0] if found else None)


def _rows(table: "pa.Table", asked: _Asked) -> list[Row]:
    """What is drawn of the table; each row is one point."""
    import pyarrow.types as types

    used = [asked.x, asked.y, asked.hue, asked.col, asked.predicted, asked.bound]
    there = [n for n in table.column_names if not types.is_nested(table.schema.field(n).type)]
    for name in used:
        if name is not None and name not in there:
            raise ValueError(f"columns must be among {', '.join(there)}, got {name!r}.")
    kind = table.schema.field(asked.y).type
    if not (types.is_integer(kind) or types.is_floating(kind)):
        raise ValueError(f"y must be a column of numbers, got {asked.y!r}, of {kind}.")
    drawn = [name for name in (asked.y, asked.predicted, asked.bound) if name is not None]
    rows = [
        row
        for row in table.select(there).to_pylist()
        if row[asked.x] is not None and any(_height(row, name) is not None for name in drawn)
    ]
    if not rows:
        raise ValueError(f"table must have rows with {asked.x} and {asked.y}, and has none.")
    points: dict[tuple, Row] = {}
    for row in rows:
        at = tuple(row[n] for n in (asked.x, asked.hue, asked.col) if n is not None)
        other = points.setdefault(at, row)
        if other is not row:
            differ = [n for n in there if n not in used and other[n] != row[n]]
            raise ValueError(
                f"rows must be one for each point, but several have {asked.x}={row[asked.x]!r}: "
                f"they differ in {', '.join(differ[:6]) or 'nothing'}; draw such a column as hue= "
                "or col=, or filter the table, or take sweep.summarize(table) for all entries "
                "together."
            )
    return rows


def _levels(rows: list[Row], column: str | None) -> list[Any]:
    """The values of a column, numbers ascending and texts in their order."""
    if column is None:
        return [None]
    found = list(dict.fromkeys(row[column] for row in rows))
    return sorted(found) if _are_numbers(found) else found


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _looks(levels: list[Any], theme: Ground) -> dict[Any, figures.Mark]:
    """How each series is drawn."""
    marks = [figures.mark(place, theme) for place in range(len(levels))]
    if len(levels) > 2 and _are_numbers(levels):
        shades = figures.shades(len(levels), theme)
        marks = [mark._replace(color=color) for mark, color in zip(marks, shades, strict=True)]
    return dict(zip(levels, marks, strict=True))


def _places(levels: list[Any]) -> dict[Any, float] | None:
    """Where texts are on an axis; None for numbers, which are where they are."""
    return None if _are_numbers(levels) else {level: i for i, level in enumerate(levels)}


def _level_name(asked: _Asked, column: str, level: Label) -> str:
    return f"{asked.name(column)} = {level:,.6g}" if _are_numbers([level]) else str(level)


def _height(row: Row, column: str) -> float | None:
    """A number to be drawn; None where there is none."""
    value = row[column]
    return None if value is None or not math.isfinite(value) else value


def _bar(row: Row, asked: _Asked) -> float:
    """Two standard errors of a row's value; 0 where they are not known."""
    stderr = row[asked.stderr] if asked.stderr is not None else None
    if stderr is None and asked.y == "rmse" and row.get("mse_stderr") is not None:
        stderr = rmse_stderr(row)
    return 2 * (stderr or 0.0)


def _draw(
    axes: "Axes",
    rows: list[Row],
    asked: _Asked,
    look: figures.Mark,
    places: dict[Any, float] | None,
    shift: float,
) -> None:
    """One series: lines of what was predicted, and points of what was measured."""
    if places is None:
        rows = sorted(rows, key=lambda row: row[asked.x])
        at = [row[asked.x] for row in rows]
    else:
        at = [places[row[asked.x]] + shift for row in rows]
    for column, dashes in ((asked.predicted, PREDICTED), (asked.bound, BOUND)):
        if column is None:
            continue
        line = [math.nan if row[column] is None else row[column] for row in rows]
        if places is None:
            axes.plot(at, line, color=look.color, linestyle=dashes, linewidth=1)
        else:
            for place, height in zip(at, line, strict=True):
                ends = [place - 0.2, place + 0.2]
                axes.plot(ends, [height] * 2, color=look.color, linestyle=dashes, linewidth=1)
    points = [
        (place, row)
        for place, row in zip(at, rows, strict=True)
        if _height(row, asked.y) is not None
    ]
    bars = [_bar(row, asked) for _, row in points]
    axes.errorbar(
        [place for place, _ in points],
        [row[asked.y] for _, row in points],
        bars if any(bars) else None,
        color=look.color,
        marker=look.marker,
        linestyle=look.linestyle if places is None and asked.predicted is None else "none",
        elinewidth=0.9,
        zorder=3,
    )


def _scale(
    panels: "Sequence[Axes]", rows: list[Row], asked: _Asked, places: dict[Any, float] | None
) -> None:
    """Scales and ticks, the same in all panels."""
    drawn = [name for name in (asked.y, asked.predicted, asked.bound) if name is not None]
    heights = [_height(row, name) for row in rows for name in drawn]
    log_y = _wants_log([height for height in heights if height is not None])
    levels = _levels(rows, asked.x)
    for axes in panels:
        if log_y:
            axes.set_yscale("log")
        if places is None and (_wants_log(levels) or _are_geometric(levels)):
            axes.set_xscale("log")
    for axes in panels:
        if places is not None:
            texts = [str(level) for level in levels]
            axes.set_xticks(list(places.values()), texts)
            if max(map(len, texts)) > 9:
                axes.tick_params("x", labelrotation=30)
            axes.grid(visible=False, axis="x")
        # Few numbers are those of the grid, and are named.
        figures.tidy(axes, x=levels if places is None and len(levels) <= 7 else None)


def _wants_log(numbers: Sequence[float]) -> bool:
    return min(numbers) > 0 and max(numbers) >= 10 * min(numbers)


def _are_geometric(numbers: Sequence[float]) -> bool:
    """Whether ascending numbers grow by one factor, such as ε of 0.5, 1, 2."""
    if len(numbers) < 3 or numbers[0] <= 0:
        return False
    factors = [high / low for low, high in itertools.pairwise(numbers)]
    return max(factors) < 1.1 * min(factors)


def _handles(looks: dict[Any, figures.Mark], asked: _Asked, theme: Ground) -> list[Any]:
    """What the legend names: the series, and what lines and points are."""
    from matplotlib.lines import Line2D

    quiet = (figures.LIGHT if theme == "light" else figures.DARK).quiet
    lines = [asked.names.get(name, name) for name in ("predicted", "bound")]
    found = []
    if asked.hue is not None:
        for level, look in looks.items():
            found.append(
                Line2D(
                    [],
                    [],
                    color=look.color,
                    marker=look.marker,
                    linestyle=look.linestyle if asked.predicted is None else "none",
                    label=_level_name(asked, asked.hue, level),
                )
            )
    if asked.predicted is not None:
        found.append(Line2D([], [], color=quiet, linestyle=PREDICTED, linewidth=1, label=lines[0]))
    if asked.bound is not None:
        found.append(Line2D([], [], color=quiet, linestyle=BOUND, linewidth=1, label=lines[1]))
    return found
