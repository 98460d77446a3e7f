"""Pages of the built documentation in a browser: nothing from another host, nothing too wide.

sphinx-build -W docs docs/_build/html
JAXDP_SITE=docs/_build/html python -m pytest tests/test_site.py
"""

import html
import json
import os
import pathlib
import re

import pytest

from .browser import browsed, browser

SITE = os.environ.get("JAXDP_SITE")
PAGES = ("index", "guide/how-it-works", "randomizers/krr", "randomizers/choosing", "api/sweep")
WIDTHS = (390, 1280)

DRIVER = """<!doctype html>
<iframe id="frame" height="900"></iframe><pre id="result"></pre>
<script>
const frame = document.getElementById("frame"), seen = {};
const load = (path) => new Promise((done) => { frame.onload = done; frame.src = path; });
(async () => {
  for (const width of WIDTHS) for (const path of PAGES) {
    frame.width = width;
    await load(path + ".html");
    const page = frame.contentDocument, view = frame.contentWindow;
    if (view.MathJax) await view.MathJax.startup.promise;
    seen[path + " " + width] = {
      overflow: Math.max(0, page.documentElement.scrollWidth - width),
      elsewhere: view.performance.getEntriesByType("resource").map((x) => x.name).filter(
        (x) => !x.startsWith("data:") && new URL(x).host !== location.host),
      formulas: page.querySelectorAll(".math").length,
      drawn: page.querySelectorAll(".math mjx-container svg").length,
    };
  }
  document.getElementById("result").textContent = JSON.stringify(seen);
})();
</script>"""

LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")


def loaded_from_elsewhere(text):
    """The tags of a page that load something from another host; links may lead anywhere."""
    return LOADED.findall(text)


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


@pytest.mark.skipif(SITE is None, reason="JAXDP_SITE names no built site")
class TestSite:
    def test_no_page_loads_from_elsewhere(self):
        pages = sorted(pathlib.Path(SITE).rglob("*.html"))
        assert len(pages) > 50
        found = {
            page.name: tags
            for page in pages
            if (tags := loaded_from_elsewhere(page.read_text(encoding="utf-8")))
        }
        assert found == {}

    def test_pages_in_a_browser(self, tmp_path):
        site = tmp_path / "site"
        site.mkdir()
        for entry in pathlib.Path(SITE).resolve().iterdir():
            (site / entry.name).symlink_to(entry)
        driver = DRIVER.replace("WIDTHS", json.dumps(WIDTHS)).replace("PAGES", json.dumps(PAGES))
        (site / "driver.html").write_text(driver, encoding="utf-8")
        shown, complaints = browsed(site, browser(), tmp_path / "profile")
        assert complaints == []
        (result,) = re.findall(r'<pre id="result">(.+?)</pre>', shown, re.DOTALL)
        seen = json.loads(html.unescape(result))
        assert len(seen) == len(WIDTHS) * len(PAGES)
        assert {name: page["elsewhere"] for name, page in seen.items() if page["elsewhere"]} == {}
        assert {name: page["overflow"] for name, page in seen.items() if page["overflow"]} == {}
        assert all(page["drawn"] == page["formulas"] for page in seen.values())
        assert sum(page["drawn"] for page in seen.values()) > 10
