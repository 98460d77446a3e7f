"""The directive `gallery`: the figures of pages, with links to their pages and to their code.

The code is on pages of its own: that of figures which are drawn as the site is built, by page, and
the modules that drew the others.
"""

import html
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from docutils import nodes
from numbered_plots import code_of_figures
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = "code"
LOG = logging.getLogger(__name__)

HELPERS = {name: f"docs/_ext/{name}.py" for name in ("mechanisms", "randomizer_plots")}
MODULES = {
    "oracle_regions": "benchmarks/oracles.py",
    "gamma2_growth": "benchmarks/gamma2_growth.py",
    "prefix_norms": "benchmarks/prefix_norms.py",
    "plan": "jaxdp/design/_page.py",
    "plan-marginals": "jaxdp/design/_page.py",
    "plan-comparison": "jaxdp/design/_comparison.py",
    "plan-several": "jaxdp/design/_several_page.py",
    "answer": "jaxdp/reports/_answer_page.py",
    "report": "jaxdp/sweep/_page.py",
}
"""What drew the stored figures, by their names; experiments have modules of their names."""


class gallery(nodes.General, nodes.Element):
    """Where the figures of some folders will be."""


class Figure(NamedTuple):
    """A figure of a page.

    Attributes:
      image: its node.
      section: the section it is in.
      code: the page that shows its code, and the anchor there.
    """

    image: nodes.image
    section: nodes.section
    code: str


class Gallery(SphinxDirective):
    """`gallery`, whose arguments are folders."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Where they will be."""
        return [gallery(folders=self.arguments[0].split())]


def module_of(name: str) -> str | None:
    """The file that drew a stored figure, from the root of the project."""
    path = MODULES.get(name) or f"experiments/jaxdp_experiments/{name.replace('-', '_')}.py"
    return path if (ROOT / path).is_file() else None


def figures_of(env, docname: str) -> Iterator[Figure]:
    """The figures of a page in their order, each once."""
    seen = set()
    for image in env.get_doctree(docname).findall(nodes.image):
        ancestor, hidden, section = image.parent, False, None
        while ancestor is not None:
            hidden |= isinstance(ancestor, addnodes.only) and ancestor["expr"] != "html"
            if isinstance(ancestor, nodes.section):
                section = section or ancestor
            ancestor = ancestor.parent
        path = pathlib.PurePosixPath(image["uri"])
        if hidden or section is None or path in seen:
            continue
        seen.add(path)
        if "plot_directive" in path.parts:
            code = f"{FOLDER}/{docname}#figure-{path.stem.rpartition('-')[2]}"
        else:
            module = module_of(path.stem)
            if module is None:
                LOG.warning("no module is known to draw %s of %s", path, docname)
                continue
            code = f"{FOLDER}/{module.removesuffix('.py')}"
        if not image.get("alt") or image["alt"] == image["uri"]:
            LOG.warning("the figure %s of %s has no description", path, docname)
        yield Figure(image, section, code)


def tile(app, here: str, docname: str, figure: Figure) -> nodes.Node:
    """A figure, which leads to its page, and a line with the page's title and its code."""
    page = app.builder.get_relative_uri(here, docname) + "#" + figure.section["ids"][0]
    code, _, anchor = figure.code.partition("#")
    source = app.builder.get_relative_uri(here, code) + ("#" + anchor if anchor else "")
    image = figure.image.deepcopy()
    for name in ("width", "height", "scale"):
        image.attributes.pop(name, None)
    picture = nodes.reference("", "", image, refuri=page, internal=True)
    title, part = app.env.titles[docname].astext(), figure.section[0].astext()
    title = title if part == title else f"{title}: {part}"
    line = nodes.paragraph()
    line += nodes.reference("", title, refuri=page, internal=True)
    line += nodes.Text(" · ")
    line += nodes.reference("", "code", refuri=source, internal=True)
    found = nodes.container(classes=["tile"])
    found += [picture, line]
    return found


def _fill(app, doctree, docname):
    for place in list(doctree.findall(gallery)):
        grid = nodes.container(classes=["gallery"])
        for other in sorted(app.env.found_docs - {docname, "index"}):
            if other.partition("/")[0] in place["folders"]:
                grid += [tile(app, docname, other, each) for each in figures_of(app.env, other)]
        place.replace_self(grid)


def _block(app, code: str) -> str:
    return app.builder.highlighter.highlight_block(code, "python")


def _code_pages(app) -> Iterator[tuple[str, dict[str, Any], str]]:
    paths = {path for path in map(module_of, _stored(app)) if path} | set(HELPERS.values())
    for path in sorted(paths):
        body = f"<h1>{path}</h1>" + _block(app, (ROOT / path).read_text())
        page = f"{FOLDER}/{path.removesuffix('.py')}"
        yield page, {"title": path, "body": body, "parents": []}, "page.html"
    for docname, codes in sorted(code_of_figures(app.env).items()):
        page, title = f"{FOLDER}/{docname}", app.env.titles[docname].astext()
        link = app.builder.get_relative_uri(page, docname)
        title = html.escape(title)
        body = [f'<h1>Figures of <a href="{link}">{title}</a></h1>']
        for number, code in enumerate(codes, 1):
            body.append(f'<section id="figure-{number}"><h2>Figure {number}</h2>')
            body.append(_block(app, code))
            for name, path in HELPERS.items():
                if re.search(rf"^import {name}$", code, re.MULTILINE):
                    target = f"{FOLDER}/{path.removesuffix('.py')}"
                    where = app.builder.get_relative_uri(page, target)
                    body.append(f'<p>With <a href="{where}"><code>{name}</code></a>.</p>')
            body.append("</section>")
        context = {"title": f"Figures of {title}", "body": "\n".join(body), "parents": []}
        yield page, context, "page.html"


def _stored(app) -> set[str]:
    return {pathlib.PurePosixPath(uri).stem for uri in app.env.images if "_static" in uri}


def _again(app, env, added, changed, removed):
    return ["gallery"] if "gallery" in env.found_docs else []


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directive and the pages of code."""
    app.add_node(gallery)
    app.add_directive("gallery", Gallery)
    app.connect("env-get-outdated", _again)
    app.connect("doctree-resolved", _fill)
    app.connect("html-collect-pages", _code_pages)
    return {"parallel_read_safe": True}
