"""Pages as axe-core sees them: contrast, names of controls, headings, tables, languages.

npm pack axe-core@4.14.1 && tar -xzf axe-core-4.14.1.tgz package/axe.min.js
export JAXDP_AXE=package/axe.min.js JAXDP_SITE=docs/_build/html
python -m pytest tests/test_accessibility.py
"""

import html
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

from jaxdp import sweep
from jaxdp.design import Histogram, Mean, plan, several
from jaxdp.randomizers import KRR
from jaxdp.reports import Answer

from .browser import browsed, browser

AXE = os.environ.get("JAXDP_AXE")
SITE = os.environ.get("JAXDP_SITE")
AT_ONCE = 8  # pages of the site that one browser opens
DARK = "--blink-settings=preferredColorScheme=0"

pytestmark = pytest.mark.skipif(AXE is None, reason="JAXDP_AXE names no axe.min.js")

DRIVER = """<!doctype html>
<iframe id="frame" height="900"></iframe><pre id="result"></pre>
<script>
const frame = document.getElementById("frame"), seen = {};
const load = (path) => new Promise((done) => { frame.onload = done; frame.src = path; });
(async () => {
  const axe = await (await fetch("axe.js")).text();
  for (const path of PATHS) for (const width of [390, 1280]) {
    frame.width = width;
    await load(path);
    const page = frame.contentDocument, view = frame.contentWindow;
    if (view.MathJax) await view.MathJax.startup.promise;
    if (page.body.dataset.theme) page.body.dataset.theme = "THEME";
    const script = page.createElement("script");
    script.textContent = axe;
    page.head.append(script);
    const found = await view.axe.run(page, {resultTypes: ["violations"]});
    seen[path + " " + width] = {
      passed: found.passes.length,
      dark: view.matchMedia("(prefers-color-scheme: dark)").matches,
      wide: Math.max(page.documentElement.scrollWidth - width, 0),
      wrong: found.violations.filter((x) => ["serious", "critical"].includes(x.impact)).map(
        (x) => x.id + ": " + x.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")),
    };
  }
  document.getElementById("result").textContent = JSON.stringify(seen);
})();
</script>"""


def violations(folder, paths, tmp_path, theme="light"):
    """What is wrong with pages, by page and width, of what axe-core calls serious or critical.

    Args:
      folder: has the pages, and is written to.
      paths: of the pages in it.
      tmp_path: an empty folder.
      theme: "light" or "dark".
    """
    assert AXE is not None
    shutil.copy(AXE, folder / "axe.js")
    driver = DRIVER.replace("PATHS", json.dumps(paths)).replace("THEME", theme)
    (folder / "driver.html").write_text(driver, encoding="utf-8")
    options = [DARK] if theme == "dark" else []
    shown, complaints = browsed(folder, browser(), tmp_path, *options, seconds=900)
    assert complaints == []
    (result,) = re.findall(r'<pre id="result">(.+?)</pre>', shown, re.DOTALL)
    seen = json.loads(html.unescape(result))
    assert len(seen) == 2 * len(paths)
    assert all(page["passed"] > 5 for page in seen.values())
    assert {page["dark"] for page in seen.values()} == {theme == "dark"}
    return {
        name: wrong
        for name, page in seen.items()
        if (wrong := page["wrong"] + ["too wide"] * (page["wide"] > 0))
    }


def answer():
    """The page of an answer."""
    labels = ("red", "green", "blue")
    values, errors = np.array([610.0, 295.0, 95.0]), np.array([20.0, 18.0, 15.0])
    return Answer(values, errors, labels, 1000, 1.0).to_html()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A folder with a page of each kind, of two sweeps, and one with faults."""
    folder = tmp_path_factory.mktemp("pages")
    cells = [
        sweep.Simulation(
            protocol=point.mechanism(3, point.epsilon),
            data=sweep.HistogramData([600, 300, 100]),
            num_trials=20,
            labels=point.labels,
        )
        for point in sweep.grid(mechanism={"KRR": KRR}, epsilon=[0.5, 1.0, 2.0])
    ]
    outs = [folder / "one", folder / "two"]
    for out, number in zip(outs, (3, 2), strict=True):
        sweep.run(cells[:number], out)
    questions = {"transport": Histogram(3), "pay": Mean(0, 100)}
    found = {
        "plan": plan(Histogram(5), epsilon=1.0, error=0.01).to_html(),
        "several": several(
            questions, epsilon=1.0, errors={"transport": 0.01, "pay": 1.0}
        ).to_html(),
        "answer": answer(),
        "sweep": sweep.report(outs[0]),
        "sweeps": sweep.report(*outs),
        "faulty": "<!doctype html><html lang='en'><title>x</title><main><h1>Faults</h1>"
        "<p style='color: #aaa; background: #fff'>Pale<p style='width: 2000px'>Wide"
        "<img src='data:,'><input></main>",
    }
    for name, text in found.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


def test_faults_are_seen(pages, tmp_path):
    found = violations(pages, ["faulty.html"], tmp_path)
    for wrong in found.values():
        kinds = {fault.partition(":")[0] for fault in wrong}
        assert kinds == {"color-contrast", "image-alt", "label", "too wide"}
    assert len(found) == 2


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["plan", "several", "answer", "sweep", "sweeps"])
def test_pages_have_no_serious_violation(name, theme, pages, tmp_path):
    assert violations(pages, [f"{name}.html"], tmp_path, theme) == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_site_has_no_serious_violation(theme, tmp_path):
    if SITE is None:
        pytest.skip("JAXDP_SITE names no built site")
    site, copy = pathlib.Path(SITE).resolve(), tmp_path / "site"
    copy.mkdir()
    for entry in site.iterdir():
        (copy / entry.name).symlink_to(entry)
    paths = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    paths = [path for path in paths if not path.startswith("_modules")]
    found = {}
    for start in range(0, len(paths), AT_ONCE):
        part = paths[start : start + AT_ONCE]
        found |= violations(copy, part, tmp_path / f"profile-{start}", theme)
    kinds = {}  # pages share most of what is wrong with them
    for name, wrong in found.items():
        for fault in wrong:
            kinds.setdefault(fault.partition(":")[0], (fault, []))[1].append(name)
    assert not kinds, json.dumps(kinds, indent=1)
