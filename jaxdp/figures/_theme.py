"""The colours of figures and pages, on light and on dark ground."""

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class Theme:
    """Colours on one ground, as "#rrggbb".

    Attributes:
      paper: the ground.
      ink: text.
      quiet: text that matters less.
      line: grids, and borders of what matters less.
      axis: axes and their ticks.
      panel: the ground of what is set apart.
      accent: what can be used, and what was asked for.
      band: a filled range.
      shade: the most of a filled scale.
      mark: what the eye is to find.
      series: the series of a chart, in their order.
      scale: the ends of a scale of numbers, least first, with what lies between.
    """

    paper: str
    ink: str
    quiet: str
    line: str
    axis: str
    panel: str
    accent: str
    band: str
    shade: str
    mark: str
    series: tuple[str, ...]
    scale: tuple[str, ...]

    def variables(self) -> Iterator[str]:
        """The colours as custom properties of CSS; those of series are `--c0`, `--c1`, ..."""
        for field in dataclasses.fields(self)[:-2]:
            yield f"--{field.name}: {getattr(self, field.name)};"
        for place, color in enumerate(self.series):
            yield f"--c{place}: {color};"


# Any two series differ by 0.09 in OKLab, for people without one kind of cone too; each stands out
# from its ground by a ratio of 3, and text by 4.5.
LIGHT = Theme(
    paper="#fcfcfa",
    ink="#1c1f23",
    quiet="#5b626b",
    line="#d9dbd8",
    axis="#8a9098",
    panel="#f3f3ef",
    accent="#1f5a94",
    band="#d5e2ef",
    shade="#7fa6cc",
    mark="#b3261e",
    series=("#3b3fd8", "#b34603", "#0d8478", "#7b2a6a", "#b8860b", "#209cd8", "#222831"),
    scale=("#1b1f6b", "#3b3fd8", "#0d8478", "#8a9a1c"),
)
"""On light ground."""

DARK = Theme(
    paper="#14171a",
    ink="#e6e7e4",
    quiet="#a3aab2",
    line="#30353a",
    axis="#7c848d",
    panel="#1d2125",
    accent="#7fb2e5",
    band="#24405c",
    shade="#38658f",
    mark="#ff8a80",
    series=("#6e9abd", "#f17f32", "#13c88f", "#fea9d4", "#eedd55", "#a8a0fd", "#d9edec"),
    scale=("#8f86ff", "#6e9abd", "#13c88f", "#eedd55"),
)
"""On dark ground."""
