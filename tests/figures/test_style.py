"""The style of figures: who can tell colours apart, what is in the files, which ticks there are."""

import itertools
import re
import zlib

import numpy as np
import pytest

from jaxdp import figures

THEMES = {"light": figures.LIGHT, "dark": figures.DARK}

# Linear RGB as people see it without one kind of cone: Machado, Oliveira and Fernandes (2009).
VISIONS = {
    "all cones": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def linear(color):
    srgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def oklab(rgb):
    """Björn Ottosson's perceptual space, in which distances are differences to the eye."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    axes = np.array(
        [
            [0.2104542553, 0.793617785, -0.0040720468],
            [1.9779984951, -2.428592205, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.808675766],
        ]
    )
    return axes @ np.cbrt(cones @ rgb)


def nearest(colors, vision):
    """The least distance of two colours to people with this vision."""
    seen = [oklab(np.clip(VISIONS[vision] @ linear(color), 0, 1)) for color in colors]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))


def contrast(color, ground):
    """The ratio of the Web Content Accessibility Guidelines."""
    low, high = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] for c in (color, ground))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", THEMES)
def test_series_are_told_apart(theme, vision):
    assert nearest(THEMES[theme].series, vision) > 0.09


def test_like_colours_are_seen():
    """matplotlib's own first colours are one to people without the cones for green."""
    assert nearest(["#2ca02c", "#d62728", "#8c564b"], "deuteranopia") < 0.09


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_lines_stand_out(theme):
    colors = THEMES[theme]
    assert all(contrast(color, colors.paper) >= 3 for color in (*colors.series, colors.axis))
    for text, ground in itertools.product(
        (colors.ink, colors.quiet, colors.accent, colors.mark), (colors.paper, colors.panel)
    ):
        assert contrast(text, ground) >= 4.5


def test_marks_differ_without_colour():
    marks = [figures.mark(i) for i in range(28)]
    assert len({(str(m.marker), str(m.linestyle)) for m in marks}) == 28
    assert figures.mark(0, "dark").color == figures.DARK.series[0]
    with pytest.raises(ValueError, match="theme must be 'light' or 'dark', got 'grey'"):
        figures.mark(0, "grey")


@pytest.mark.parametrize(
    ("low", "high", "log", "found"),
    [
        (1e-6, 1.0, True, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0]),
        (0.3, 40.0, True, [0.5, 1, 2, 5, 10, 20]),
        (2.0, 4.5, True, [2.0, 2.5, 3.0, 3.5, 4.0, 4.5]),
        (-1.0, 1.0, False, [-1.0, -0.5, 0.0, 0.5, 1.0]),
    ],
)
def test_ticks_are_round(low, high, log, found):
    assert figures.ticks(low, high, log=log) == pytest.approx(found)


@pytest.mark.parametrize("log", [False, True])
def test_there_are_few_ticks_and_at_least_two(log, rng):
    for _ in range(300):
        low = 10 ** rng.uniform(-12, 12)
        high = low * 10 ** rng.uniform(0.1, 20)
        found = figures.ticks(low, high, log=log)
        assert 2 <= len(found) <= 9
        assert found == sorted(found)
        assert low - 1e-6 * high <= found[0] <= found[-1] <= high * (1 + 1e-6)


def drawn(theme="light", transparent=False, width=figures.PAGE):
    pytest.importorskip("matplotlib")
    with figures.style(theme, transparent=transparent):
        figure, axes = figures.panels(2, width=width)
        for place, panel in enumerate(axes[0]):
            color, marker, dashes = figures.mark(place, theme)
            panel.plot(
                [1, 10, 1000],
                [2e-7, 3e-4, 1],
                color=color,
                marker=marker,
                linestyle=dashes,
                label=f"series {place}",
            )
            panel.set(xscale="log", yscale="log", xlabel="ε")
            figures.tidy(panel, x={1: "one", 1000: "many"} if place else None)
        figures.legend(figure)
        return figure, figures.encode(figure, ["png", "svg", "pdf"], name="test")


def test_files_are_the_same_each_time_and_have_fonts():
    figure, files = drawn()
    assert drawn()[1] == files
    assert b"/TrueType" in unpacked(files["pdf"]) or b"CIDFontType2" in unpacked(files["pdf"])
    assert b"/Type3" not in unpacked(files["pdf"])
    assert figure.get_figwidth() == 6.9
    assert int.from_bytes(files["png"][16:20], "big") == 1380
    with pytest.raises(ValueError, match="kinds must be among png, svg, pdf, got 'gif'"):
        figures.encode(figure, ["gif"])


def unpacked(pdf):
    """A PDF with its streams as they were before compression."""
    parts = [pdf]
    for match in re.finditer(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            parts.append(zlib.decompress(match[1].strip()))
        except zlib.error:
            continue
    return b"".join(parts)


def test_grounds():
    assert figures.DARK.paper.encode() in drawn("dark")[1]["svg"]
    assert b"fill: #ffffff" in drawn()[1]["svg"]
    assert b"fill: #ffffff" not in drawn(transparent=True)[1]["svg"]


def test_axes_have_plain_ticks_and_one_legend():
    figure, _ = drawn()
    left, right = figure.axes
    assert [text.get_text() for text in left.get_xticklabels()] == ["1", "10", "100", "1,000"]
    assert [text.get_text() for text in right.get_xticklabels()] == ["one", "many"]
    assert "$10^{-6}$" in [text.get_text() for text in left.get_yticklabels()]
    assert len(left.xaxis.get_minorticklocs()) == 0
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["series 0", "series 1"]
    assert min(t.get_fontsize() for t in legend.get_texts()) >= 7


def test_nothing_of_a_users_settings_shows(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    before = drawn()[1]
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red"}):
        assert drawn()[1] == before
        assert matplotlib.rcParams["font.size"] == 20


def test_shades_are_in_order():
    pytest.importorskip("matplotlib")
    light = [oklab(linear(color))[0] for color in figures.shades(6)]
    assert light == sorted(light)
    assert len(figures.shades(1)) == 1


def test_a_page_holds_any_text():
    page = figures.page(
        title="<b> & $title",
        over="a kind",
        sections=[
            figures.section("s1", "a < b", figures.copied_text("t", "</pre><script>"), "so & so")
        ],
        key=figures.key_numbers([("n", "number", "<5>", "a note")], "n"),
        data={"text": "</script>"},
    )
    assert "<b>" not in page
    assert "&lt;b&gt; &amp; $title" in page
    assert "&lt;/pre&gt;&lt;script&gt;" in page
    assert "\\u003c/script>" in page
    assert page.count("</script>") == 2
    assert "default-src 'none'" in page
    assert "<div class=asked>" in page
