"""A page in a browser without a window, and what a script beside it sees of it."""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and says nothing."""

    def log_message(self, format, *args):
        pass


def browsed(folder, program, profile, *more, seconds=120):
    """The standard output and the log of a browser that opens `driver.html`.

    Args:
      folder: is served to it.
      program: its path.
      profile: a folder for what it keeps.
      more: options for it.
      seconds: it may take.
    """
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        options = (
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--enable-logging=stderr", f"--user-data-dir={profile}",
            "--virtual-time-budget=20000", "--dump-dom", *more,
        )  # fmt: skip
        result = subprocess.run(
            [program, *options, f"http://127.0.0.1:{server.server_port}/driver.html"],
            check=False,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=seconds,
        )
        server.shutdown()
        thread.join()
    return result.stdout, [line for line in result.stderr.splitlines() if "CONSOLE" in line]


def browser():
    """The path of a browser; the test is skipped if there is none."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip(f"there is no browser on PATH: none of {', '.join(BROWSERS)}")


DRIVER = """<!doctype html>
<iframe id="frame" width="390" height="800"></iframe><pre id="result"></pre>
<script>
const frame = document.getElementById("frame");
frame.onload = () => {
  const page = frame.contentDocument, view = frame.contentWindow;
SCRIPT
  seen.overflow = page.documentElement.scrollWidth - 390;
  seen.small = [...page.querySelectorAll("p, td, th, li, pre, svg text, select, label")].filter(
    (x) => x.getClientRects().length && parseFloat(view.getComputedStyle(x).fontSize) < 12).length;
  document.getElementById("result").textContent = JSON.stringify(seen);
};
frame.src = "page.html";
</script>"""


def driven(page, script, tmp_path):
    """What a script has seen of a page 390 pixels wide in a browser, which has not complained.

    Args:
      page: text of HTML.
      script: has the `page` and its `view`, and makes an object `seen`. To that are added
        `overflow`, the pixels by which the page is too wide, and `small`, how many texts are.
      tmp_path: an empty folder.
    """
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "page.html").write_text(page, encoding="utf-8")
    (folder / "driver.html").write_text(DRIVER.replace("SCRIPT", script), encoding="utf-8")
    shown, complaints = browsed(folder, browser(), tmp_path / "profile")
    assert complaints == []
    (result,) = re.findall(r'<pre id="result">(.*?)</pre>', shown, re.DOTALL)
    return json.loads(html.unescape(result))
