"""Links from source code back to the reference: those of viewcode, without the dead ones.

viewcode takes a place of the reference to be named after the module in which it found the code,
which is not so for members that a class has from a private base.
"""

import functools
import pathlib
import re
import urllib.parse

from sphinx.application import Sphinx
from sphinx.util import logging

LINK = re.compile(r'<a class="viewcode-back" href="([^"]*)">[^<]*</a>\n?')
LOG = logging.getLogger(__name__)


@functools.cache
def _places(page: pathlib.Path) -> frozenset[str]:
    text = page.read_text() if page.is_file() else ""
    return frozenset(re.findall(r'\bid="([^"]+)"', text))


def _without_dead_links(app, error):
    if error is not None or app.builder.format != "html":
        return
    removed = 0
    for page in sorted((pathlib.Path(app.outdir) / "_modules").rglob("*.html")):

        def kept(link: re.Match[str], page: pathlib.Path = page) -> str:
            path, _, place = link[1].partition("#")
            target = (page.parent / urllib.parse.unquote(path)).resolve()
            return link[0] if urllib.parse.unquote(place) in _places(target) else ""

        text = page.read_text()
        found = LINK.sub(kept, text)
        if found != text:
            removed += len(LINK.findall(text)) - len(LINK.findall(found))
            page.write_text(found)
    LOG.info("removed %d links from code to places that the reference lacks", removed)


def setup(app: Sphinx) -> dict[str, bool]:
    """Has the links removed at the end."""
    app.connect("build-finished", _without_dead_links)
    return {"parallel_read_safe": True}
