"""Pages of the built documentation, also in a browser: links lead somewhere, nothing comes from
another host, is too wide, too pale, or a white box on dark ground.

sphinx-build -j auto -W docs docs/_build/html
JAXDP_SITE=docs/_build/html python -m pytest tests/test_site.py
"""

import html.parser
import json
import os
import pathlib
import re
import urllib.parse

import pytest

from .browser import browsed, browser

SITE = os.environ.get("JAXDP_SITE")
PAGES = ("index", "guide/how-it-works", "randomizers/krr", "gallery", "proofs/weights", "api/sweep")
WIDTHS = (390, 1280)

DRIVER = """<!doctype html>
<iframe id="frame" height="900"></iframe><pre id="result"></pre>
<script>
const frame = document.getElementById("frame"), seen = {};
const load = (path) => new Promise((done) => { frame.onload = done; frame.src = path; });

const channels = (color) => color.match(/[\\d.]+/g).map(Number);
const luminance = (color) => {
  const [r, g, b] = channels(color).slice(0, 3).map((c) => c / 255).map(
    (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};

// The colour below a text: that of its element, over that of the elements around it.
const ground = (element, view) => {
  if (!element) return "rgb(255, 255, 255)";
  const [r, g, b, alpha = 1] = channels(view.getComputedStyle(element).backgroundColor);
  if (alpha === 1) return `rgb(${r}, ${g}, ${b})`;
  const below = channels(ground(element.parentElement, view));
  return `rgb(${[r, g, b].map((c, i) => alpha * c + (1 - alpha) * below[i])})`;
};

// Text whose contrast with its ground is below 4.5, or 3 where it is large: WCAG 2, level AA.
const pale = (page, view) => {
  const found = new Set(), texts = page.createTreeWalker(page.body, view.NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement, style = view.getComputedStyle(element);
    if (!texts.currentNode.data.trim() || !element.getClientRects().length) continue;
    if (style.visibility != "visible" || element.closest("svg, script, style")) continue;
    const color = ground(element, view);
    const large = parseFloat(style.fontSize) >= 24;
    const ratio = contrast(style.color, color);
    if (ratio < (large ? 3 : 4.5))
      found.add(`${texts.currentNode.data.trim().slice(0, 20)} ${style.color} ${color}`);
  }
  return [...found];
};

// Images whose corner, as it is shown, differs from the ground of the page.
const boxes = (page, view) => {
  const paper = ground(page.body, view);
  return [...page.querySelectorAll("article img:not(.toggler)")].filter((image) => {
    const canvas = page.createElement("canvas").getContext("2d");
    canvas.filter = view.getComputedStyle(image).filter;
    canvas.drawImage(image, 0, 0, 4, 4, 0, 0, 4, 4);
    return contrast(`rgb(${canvas.getImageData(1, 1, 1, 1).data})`, paper) > 1.1;
  }).map((image) => image.src);
};

(async () => {
  for (const width of WIDTHS) for (const path of PAGES) {
    frame.width = width;
    await load(path + ".html");
    const page = frame.contentDocument, view = frame.contentWindow;
    if (view.MathJax) await view.MathJax.startup.promise;
    const found = {
      overflow: Math.max(0, page.documentElement.scrollWidth - width),
      clipped: [...page.querySelectorAll(".content")].map((x) => x.scrollWidth - x.clientWidth),
      elsewhere: view.performance.getEntriesByType("resource").map((x) => x.name).filter(
        (x) => !x.startsWith("data:") && new URL(x).host !== location.host),
      formulas: page.querySelectorAll(".math").length,
      drawn: page.querySelectorAll(".math mjx-container > svg").length,
      pale: [], boxes: [], images: page.querySelectorAll("article img:not(.toggler)").length,
    };
    for (const theme of ["light", "dark"]) {
      page.body.dataset.theme = theme;
      found.pale.push(...pale(page, view));
      found.boxes.push(...boxes(page, view));
    }
    seen[path + " " + width] = found;
  }
  document.getElementById("result").textContent = JSON.stringify(seen);
})();
</script>"""

LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")


def loaded_from_elsewhere(text):
    """The tags of a page that load something from another host; links may lead anywhere."""
    return LOADED.findall(text)


class Links(html.parser.HTMLParser):
    """The places of a page, and where its links lead."""

    def __init__(self, text):
        super().__init__()
        self.places, self.links = {""}, set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places.add(found.get("id") or "")
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])


def dead_links(pages):
    """(page, link) of the links within a site that lead nowhere, of texts by their paths."""
    parsed = {path: Links(text) for path, text in pages.items()}
    for path, page in parsed.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            target = os.path.normpath(os.path.join(os.path.dirname(path), url.path))
            if url.scheme or not (url.path == "" or target.endswith(".html")):
                continue
            there = parsed.get(path if url.path == "" else target)
            if there is None or urllib.parse.unquote(url.fragment) not in there.places:
                yield path, link


def shown(pages, site, folder, seconds=120):
    """What the driver has seen of pages, by page and width."""
    copy = folder / "site"
    copy.mkdir()
    for entry in pathlib.Path(site).resolve().iterdir():
        (copy / entry.name).symlink_to(entry)
    driver = DRIVER.replace("WIDTHS", json.dumps(WIDTHS)).replace("PAGES", json.dumps(pages))
    (copy / "driver.html").write_text(driver, encoding="utf-8")
    page, complaints = browsed(copy, browser(), folder / "profile", seconds=seconds)
    assert complaints == []
    (result,) = re.findall(r'<pre id="result">(.+?)</pre>', page, re.DOTALL)
    seen = json.loads(html.unescape(result))
    assert len(seen) == len(WIDTHS) * len(pages)
    return seen


def complaints_about(seen):
    """What is wrong with pages, of what the driver has seen."""
    for name, page in seen.items():
        wrong = {fault: page[fault] for fault in ("overflow", "elsewhere", "pale", "boxes")}
        wrong["clipped"] = max(page["clipped"], default=0)
        wrong["formulas"] = page["formulas"] - page["drawn"]
        yield from ((name, fault, value) for fault, value in wrong.items() if value)


@pytest.mark.parametrize(
    "tag",
    [
        '<script defer="defer" src="https://cdn.example/a.js">',
        '<link rel="stylesheet" href="//cdn.example/a.css">',
    ],
)
def test_a_tag_that_loads_from_elsewhere_is_seen(tag):
    assert loaded_from_elsewhere(tag)
    assert not loaded_from_elsewhere(re.sub("(https:)?//cdn.example", "_static", tag))
    assert not loaded_from_elsewhere('<a href="https://example.org">')


def test_a_dead_link_is_seen():
    pages = {
        "a.html": '<p id="here"><a href="#here"><a href="b/c.html#there"><a href="https://x.org">',
        "b/c.html": '<p id="there"><a href="../a.html"><a href="../a.html#gone"><a href="d.html">',
    }
    assert sorted(dead_links(pages)) == [("b/c.html", "../a.html#gone"), ("b/c.html", "d.html")]


@pytest.fixture(scope="module")
def pages():
    """The texts of all pages, by their paths."""
    if SITE is None:
        pytest.skip("JAXDP_SITE names no built site")
    folder = pathlib.Path(SITE)
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.html"))}
    assert len(found) > 50
    return {path: file.read_text(encoding="utf-8") for path, file in found.items()}


def test_no_page_loads_from_elsewhere(pages):
    found = {path: tags for path, text in pages.items() if (tags := loaded_from_elsewhere(text))}
    assert found == {}


def test_links_of_the_site_lead_somewhere(pages):
    assert [*dead_links(pages)] == []


def test_figures_of_the_gallery_lead_to_their_pages_and_code(pages):
    tiles = pages["gallery.html"].split('class="tile docutils container"')[1:]
    assert len(tiles) > 80
    for tile in tiles:
        assert re.search(r'<img alt="[^"]{20,}"', tile)
        page, _, code = re.findall(r'href="([^"]+)"', tile)[:3]
        assert not page.startswith("code/")
        assert code.startswith("code/")


def test_pages_that_are_notebooks_have_one_to_download(pages):
    for name in ("first-simulation", "own-data", "jax"):
        assert f'href="../notebooks/{name}.ipynb"' in pages[f"guide/{name}.html"]
        path = pathlib.Path(SITE or "") / "notebooks" / f"{name}.ipynb"
        assert json.loads(path.read_text(encoding="utf-8"))["nbformat"] == 4


def test_inherited_members_and_those_of_params_have_a_place(pages):
    places = Links(pages["randomizers/krr.html"]).places
    wanted = ("exact_epsilon", "variance", "shuffle_delta", "privatize", "from_bits", "estimate")
    assert {f"jaxdp.randomizers.KRR.{name}" for name in wanted} <= places
    # Those of a private base are explained in full.
    assert 'id="jaxdp.design.Plan.best"' in pages["api/design.html"]


def test_entries_of_the_reference_lead_to_their_source(pages):
    for path, entry in (("randomizers/krr", "KRR"), ("api/audit", "exact_epsilon")):
        (signature,) = re.findall(
            rf'<dt [^>]*id="jaxdp\.\w+\.{entry}">.*?</dt>', pages[f"{path}.html"], re.DOTALL
        )
        assert "[source]" in signature


def test_signatures_have_types_and_no_code_of_python(pages):
    text = re.sub("<[^>]+>", "", pages["randomizers/krr.html"])
    assert "KRR(num_values: int, epsilon: float)" in text
    page = re.sub("<[^>]+>", "", pages["pairwise/auc.html"])
    assert "randomizer: VectorMaker = PrivUnitG" in re.sub(r"\s+", " ", page)
    wrong = [path for path, text in pages.items() if "&lt;class" in text and "api/" in path]
    assert wrong == []


def test_figures_drawn_at_build_are_vectors(pages):
    sources = {x for text in pages.values() for x in re.findall(r'<img [^>]*src="([^"]+)"', text)}
    vectors = {x for x in sources if x.endswith(".svg")}
    assert len(vectors) > 80


def test_links_that_leave_the_site_are_listed(pages):
    links = {
        x for text in pages.values() for x in re.findall(r'<a [^>]*href="(https?://[^"]+)"', text)
    }
    listed = (pathlib.Path(SITE or "") / "external-links.txt").read_text(encoding="utf-8")
    assert {html.unescape(x) for x in links} == {x.split("\t")[0] for x in listed.splitlines()}


def test_pages_of_the_reference_begin_with_a_summary(pages):
    missing = [
        path
        for path, text in pages.items()
        if path.startswith("api/")
        and len(re.findall(r'<dl class="py (?:class|function)">', text)) >= 3
        and not 0 < text.find("summary") < text.index('<dl class="py ')
    ]
    assert missing == []


def test_the_faults_of_a_page_are_seen(tmp_path):
    site = tmp_path / "built"
    site.mkdir()
    picture = "data:image/gif;base64,R0lGODlhAQABAIAAAP///////yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="
    (site / "page.html").write_text(
        "<!doctype html><body style='background: #131416; color: #eee'><article>"
        f"<img width=40 src='{picture}'><p style='color: #555; width: 2000px'>Pale and wide",
        encoding="utf-8",
    )
    found = {fault for _, fault, _ in complaints_about(shown(["page"], site, tmp_path))}
    assert found == {"overflow", "pale", "boxes"}


def test_pages_in_a_browser(pages, tmp_path):
    seen = shown(PAGES, SITE, tmp_path)
    assert [*complaints_about(seen)] == []
    assert sum(page["drawn"] for page in seen.values()) > 10
    assert sum(page["images"] for page in seen.values()) >= 6


@pytest.mark.slow
def test_all_pages_in_a_browser(pages, tmp_path):
    paths = [path.removesuffix(".html") for path in pages if not path.startswith("_modules")]
    assert [*complaints_about(shown(paths, SITE, tmp_path, seconds=600))] == []
