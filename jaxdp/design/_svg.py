"""Charts as SVG inside of a page, which gives them their colours."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from ..figures import CHART, Axis, interval_chart, short, svg, svg_line, svg_text
from ._curves import Span
from ._example import Example
from ._reveal import Channel, posterior

_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 12, 12, 42
_HEIGHT = 280


def _frame(x: Axis, y: Axis, below: str, beside: str) -> list[str]:
    parts = []
    for tick in y.ticks():
        parts.append(svg_line(x.start, y.at(tick), x.end, y.at(tick), "grid"))
        parts.append(svg_text(x.start - 6, y.at(tick) + 4, short(tick), "end"))
    for tick in x.ticks():
        parts.append(svg_line(x.at(tick), y.start, x.at(tick), y.start + 4, "axis"))
        parts.append(svg_text(x.at(tick), y.start + 17, short(tick)))
    parts.append(svg_line(x.start, y.start, x.end, y.start, "axis"))
    parts.append(svg_text((x.start + x.end) / 2, y.start + 35, below, kind="label"))
    parts.append(_beside((y.start + y.end) / 2, beside))
    return parts


def _beside(middle: float, text: str) -> str:
    """The name of a vertical axis."""
    return (
        f'<text class="label" text-anchor="middle" transform="translate(11 {middle:.1f}) '
        f'rotate(-90)">{escape(text)}</text>'
    )


def path(x: Axis, y: Axis, numbers: Sequence[float], heights: Sequence[float]) -> str:
    """A line through points, broken where there is none."""
    moves, pen = [], "M"
    for number, height in zip(numbers, heights, strict=True):
        if not math.isfinite(height) or height <= 0:
            pen = "M"
            continue
        moves.append(f"{pen}{x.at(number):.1f} {y.at(height):.1f}")
        pen = "L"
    return "".join(moves)


def error_chart(
    name: str,
    span: Span,
    errors: Axis,
    lines: Sequence[np.ndarray | None],
    plan: tuple[float, float],
    target: float | None,
    below: str,
    title: str,
) -> tuple[str, Axis]:
    """Errors against one number, and where this one is drawn.

    Args:
      name: of the chart.
      span: of the number.
      errors: the axis of errors.
      lines: of each protocol the errors at equal steps of the span, or None.
      plan: the number of the plan, and its error.
      target: the error that was asked for.
      below: the name of the number.
      title: for those who cannot see it.
    """
    x = Axis(span.low, span.high, _LEFT, CHART - _RIGHT)
    parts = [
        f'<clipPath id="{name}-clip"><rect x="{_LEFT}" y="{_TOP - 4}" '
        f'width="{x.end - x.start}" height="{_HEIGHT - _TOP - _BOTTOM + 4}"/></clipPath>',
        *_frame(x, errors, below, "error"),
        f'<rect class="hit" x="{x.start}" y="{errors.end:.1f}" width="{x.end - x.start}" '
        f'height="{errors.start - errors.end:.1f}"/>',
    ]
    if target is not None:
        parts.append(svg_line(x.start, errors.at(target), x.end, errors.at(target), "target"))
    parts.append(f'<line class="cursor" x1="0" x2="0" y1="{errors.start}" y2="{errors.end}"/>')
    drawn = []
    for place, line in enumerate(lines):
        if line is not None:
            d = path(x, errors, span.points(len(line)).tolist(), line.tolist())
            drawn.append(f'<path class="curve c{place}" data-place="{place}" d="{d}"/>')
    # The first protocol is drawn last, over the others.
    parts.append(f'<g clip-path="url(#{name}-clip)">{"".join(reversed(drawn))}</g>')
    parts.append(
        f'<circle class="plan" cx="{x.at(plan[0]):.1f}" cy="{errors.at(plan[1]):.1f}" r="5"/>'
    )
    return svg(name, title, _HEIGHT, parts), x


def error_axis(low: float, high: float) -> Axis:
    """The axis of errors of both charts."""
    return Axis(low, high, _HEIGHT - _BOTTOM, _TOP)


def posterior_chart(epsilon: float, prior: float) -> tuple[str, Axis, Axis]:
    """How sure somebody may be after a report, against before; and both axes."""
    x = Axis(0, 1, _LEFT, CHART - _RIGHT, log=False)
    y = Axis(0, 1, _HEIGHT - _BOTTOM, _TOP, log=False)
    priors = np.linspace(0, 1, 65)
    ends = [posterior(p, epsilon) for p in priors]
    around = [*zip(priors, (high for _, high in ends), strict=True)]
    around += [*zip(priors, (low for low, _ in ends), strict=True)][::-1]
    band = " ".join(f"{x.at(p):.1f},{y.at(q):.1f}" for p, q in around)
    low, high = posterior(prior, epsilon)
    at = x.at(prior)
    parts = [
        f'<polygon class="band" points="{band}"/>',
        *_frame(x, y, "before the report", "after the report"),
        svg_line(x.start, y.start, x.end, y.end, "same"),
        f'<line id="range" class="range" x1="{at:.1f}" x2="{at:.1f}" y1="{y.at(low):.1f}" '
        f'y2="{y.at(high):.1f}"/>',
        *(
            f'<circle id="range-{end}" class="end" cx="{at:.1f}" cy="{y.at(q):.1f}" r="4"/>'
            for end, q in (("low", low), ("high", high))
        ),
    ]
    title = "Probability of a guess after a report against that before it, between two curves"
    return svg("posterior", title, _HEIGHT, parts), x, y


def channel_chart(channel: Channel) -> str:
    """A table of probabilities as shades; or lines, where reports are many."""
    table, rows = channel.probabilities, len(channel.inputs)
    largest = table.max()
    if not channel.is_table:
        x = Axis(float(channel.reports[0]), float(channel.reports[1]), _LEFT, CHART - _RIGHT, False)
        parts, each = [], 62
        for i, name in enumerate(channel.inputs):
            y = Axis(0, largest, _TOP + (i + 1) * each - 8, _TOP + i * each + 6, log=False)
            steps = np.repeat(np.linspace(x.low, x.high, table.shape[1] + 1), 2)[1:-1]
            heights = np.repeat(table[i], 2)
            points = " ".join(
                f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in zip(steps, heights, strict=True)
            )
            edge = f"{x.start:.1f},{y.start:.1f}", f"{x.end:.1f},{y.start:.1f}"
            parts.append(f'<polygon class="band" points="{edge[0]} {points} {edge[1]}"/>')
            parts.append(svg_line(x.start, y.start, x.end, y.start, "axis"))
            parts.append(svg_text(x.start - 6, y.start, name, "end"))
        height = _TOP + rows * each + _BOTTOM - 6
        for tick in x.ticks():
            parts.append(svg_text(x.at(tick), height - 28, f"{tick:g}"))
        parts.append(svg_text((x.start + x.end) / 2, height - 8, "report", kind="label"))
        parts.append(_beside((_TOP + height - _BOTTOM) / 2, "value"))
        return svg("channel", "Probabilities of reports, a line for each value", height, parts)
    columns = table.shape[1]
    wide = min((CHART - _LEFT - _RIGHT) / columns, 80)
    tall = min(wide, 32)
    parts = []
    for (i, j), p in np.ndenumerate(table):
        about = f"value {channel.inputs[i]}, report {channel.reports[j]}: {p:.4g}"
        left, top, shade = _LEFT + j * wide, _TOP + i * tall, p / largest
        parts.append(
            f'<rect class="cell" x="{left:.1f}" y="{top:.1f}" width="{wide - 1:.1f}" '
            f'height="{tall - 1:.1f}" fill-opacity="{shade:.3f}"><title>{escape(about)}</title>'
            "</rect>"
        )
        if columns <= 8:
            parts.append(svg_text(left + wide / 2, top + tall / 2 + 4, f"{p:.2f}", kind="label"))
    for i, name in enumerate(channel.inputs):
        parts.append(svg_text(_LEFT - 6, _TOP + (i + 0.5) * tall + 4, name, "end"))
    bottom = _TOP + rows * tall
    if max(map(len, channel.reports)) * 7 <= wide:
        for j, name in enumerate(channel.reports):
            parts.append(svg_text(_LEFT + (j + 0.5) * wide, bottom + 16, name))
    parts.append(svg_text(_LEFT + columns * wide / 2, bottom + 34, "report", kind="label"))
    parts.append(_beside((_TOP + bottom) / 2, "value"))
    return svg("channel", "Probabilities of reports by value", bottom + _BOTTOM, parts)


def support_chart(user: float, other: float) -> str:
    """How often a report holds a person's value, and how often another given one."""
    x = Axis(0, 1, 8, CHART - _RIGHT, log=False)
    parts = []
    for place, (name, p) in enumerate(
        [("the person's own value", user), ("any other value", other)]
    ):
        top = 20 + place * 52
        parts.append(svg_text(x.start, top, f"A report holds {name}: {p:.1%}", "start", "label"))
        parts.append(
            f'<rect class="rest" x="{x.start}" y="{top + 7}" width="{x.end - x.start}" '
            'height="16"/>'
            f'<rect class="bar" x="{x.start}" y="{top + 7}" width="{x.at(p) - x.start:.1f}" '
            'height="16"/>'
        )
    return svg("channel", "How often a report holds a value", 106, parts)


def example_chart(example: Example, names: Sequence[str]) -> str:
    """A row for each answer: its interval, the estimate, the truth, the nearest possible one."""
    return interval_chart(
        "example",
        "A simulated result with intervals",
        names,
        example.answer.values,
        example.answer.intervals,
        truth=example.truth,
        nearest=example.nearest,
    )
