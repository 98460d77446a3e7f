"""The style of figures: sizes in print, fonts that publishers take, colours and marks."""

import contextlib
from typing import Any, Literal, NamedTuple

from .._install import install
from ._theme import DARK, LIGHT, Theme

COLUMN = 3.3
"""Width in inches of a figure in one column of two."""

PAGE = 6.9
"""Width in inches of a figure across a page."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))

ThemeName = Literal["light", "dark"]


class Mark(NamedTuple):
    """How a series is drawn: by its colour, and by a marker and dashes that say the same again."""

    color: str
    marker: str
    linestyle: Any


def mark(place: int, theme: ThemeName = "light") -> Mark:
    """How the series at a place is drawn: no two of the first 28 alike, without colour neither.

    Args:
      place: of the series in its chart, from 0 on.
      theme: the ground.

    Example:
      >>> from jaxdp import figures
      >>> figures.mark(1).marker
      's'
    """
    colors = _theme(theme).series
    turn = place // len(colors)
    return Mark(
        colors[place % len(colors)],
        MARKERS[(place + 3 * turn) % len(MARKERS)],
        DASHES[turn % len(DASHES)],
    )


def shades(number: int, theme: ThemeName = "light") -> list[str]:
    """Colours for numbers in ascending order, such as several ε: from dark to bright.

    Args:
      number: how many.
      theme: the ground.

    Returns:
      Colours as "#rrggbb".
    """
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    scale = LinearSegmentedColormap.from_list("scale", _theme(theme).scale)
    return [to_hex(scale(i / max(number - 1, 1))) for i in range(number)]


def style(
    theme: ThemeName = "light", *, transparent: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Has matplotlib draw in the style of the project, within a `with` statement.

    Whatever a user's own settings are, the figure is the same: text of 7 and 8 points at its size
    in print, TrueType fonts in PDF and PostScript, colours that people with any colour vision tell
    apart.

    Args:
      theme: "light" or "dark" ground.
      transparent: whether saved figures have no ground.

    Returns:
      A context manager.

    Raises:
      ImportError: matplotlib is not installed.
      ValueError: there is no such theme.

    Example:
      >>> from jaxdp import figures
      >>> with figures.style("dark"):
      ...     figure, axes = figures.panels(width=figures.COLUMN)
      ...     line = axes[0, 0].plot([1, 2], [3, 5])
    """
    colors = _theme(theme)
    try:
        import matplotlib.style
    except ImportError as error:
        raise ImportError(f"figures are drawn by matplotlib: {install('sweep')}.") from error
    from cycler import cycler

    settings = {
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "font.family": "DejaVu Sans",  # comes with matplotlib: the same on every machine
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "legend.fontsize": 7,
        "legend.title_fontsize": 7,
        "figure.titlesize": 8,
        "figure.figsize": (PAGE, 0.6 * PAGE),
        "figure.constrained_layout.use": True,
        "savefig.dpi": 200,
        "savefig.transparent": transparent,
        "lines.linewidth": 1.2,
        "lines.markersize": 3.6,
        "lines.markeredgewidth": 0.0,
        "errorbar.capsize": 0,
        "axes.linewidth": 0.7,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.formatter.use_mathtext": True,
        "axes.prop_cycle": cycler(color=colors.series),
        "grid.linewidth": 0.5,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "xtick.minor.size": 0,
        "ytick.minor.size": 0,
        "legend.frameon": False,
        "legend.handlelength": 1.8,
        "legend.columnspacing": 1.4,
        "figure.facecolor": colors.paper if theme == "dark" else "white",
        "axes.facecolor": "none",
        "savefig.facecolor": "auto",
        "text.color": colors.ink,
        "axes.labelcolor": colors.ink,
        "axes.titlecolor": colors.ink,
        "axes.edgecolor": colors.axis,
        "xtick.color": colors.axis,
        "ytick.color": colors.axis,
        "xtick.labelcolor": colors.quiet,
        "ytick.labelcolor": colors.quiet,
        "grid.color": colors.line,
        "hatch.linewidth": 0.5,
    }
    return matplotlib.style.context(settings, after_reset=True)


def _theme(name: str) -> Theme:
    if name not in ("light", "dark"):
        raise ValueError(f"theme must be 'light' or 'dark', got {name!r}.")
    return LIGHT if name == "light" else DARK
