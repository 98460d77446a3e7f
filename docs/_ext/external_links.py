"""A list of the links that leave the site, each with the pages that have it: `external-links.txt`.

What they lead to is out of our hands, and is not needed to read the site: nothing loads from there.
"""

import html
import pathlib
import re

from sphinx.application import Sphinx

FILE = "external-links.txt"
LINK = re.compile(r'<a [^>]*href="(https?://[^"]+)"')


def external_links(folder: pathlib.Path) -> dict[str, list[str]]:
    """The links of the pages of a folder that leave it, in order, with the paths of the pages."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.html")):
        page = str(path.relative_to(folder))
        for link in sorted({html.unescape(each) for each in LINK.findall(path.read_text("utf-8"))}):
            found.setdefault(link, []).append(page)
    return dict(sorted(found.items()))


def _write(app, exception):
    if exception is None and app.builder.format == "html":
        folder = pathlib.Path(app.outdir)
        lines = (f"{link}\t{' '.join(pages)}" for link, pages in external_links(folder).items())
        (folder / FILE).write_text("\n".join([*lines, ""]), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes it at the end."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}
