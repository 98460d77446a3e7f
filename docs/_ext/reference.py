"""What the API reference shows beside docstrings: summaries of pages, inherited members, params.

* A page of the reference begins with a table of what is on it, each with the first line of its
  docstring.
* A class ends with the names that it inherits, and a spec with those of its params. Each name is a
  place of its own, such as `jaxdp.randomizers.KRR.variance`, and leads to where it is explained.
"""

import functools
import inspect
import re
import sys
from collections.abc import Iterator

import public_names
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.nodes import make_id

from jaxdp.engine import Params, Spec

SUMMARIES = "api/"
"""The folder of the pages with a summary."""

LETTER = re.compile(r"^(:\w+[^:]*:\n* +)(?=[A-Za-z]\.( |$))", re.MULTILINE)
"""What is before a letter with a dot, at the begin of a field."""

LEAST = 3
"""Entries of a page that are worth a summary."""


@functools.cache
def public_classes() -> dict[type, str]:
    """The classes that jaxdp exports, with their full names."""
    return {
        value: f"{package}.{name}"
        for package in reversed(public_names.public_packages())  # the shortest comes last, and wins
        for name, value in public_names.public_names(package).items()
        if inspect.isclass(value)
    }


@functools.cache
def class_called(name: str) -> type | None:
    """The public class with a full name; None if there is none."""
    return next((cls for cls, full in public_classes().items() if full == name), None)


def explained_here(cls: type, member: str) -> bool:
    """Whether a member is explained at `cls`: defined there, or in a private base just above."""
    for base in cls.__mro__:
        if base is not cls and base in public_classes():
            return False
        if member in vars(base):
            return base.__module__.startswith("jaxdp")
    return False


def explained_by(cls: type, member: str) -> str | None:
    """The full name of the public class nearest to `cls` where a member is explained instead."""
    if cls in public_classes() and explained_here(cls, member):
        return None
    for base in cls.__mro__[1:]:
        if base in public_classes() and explained_here(base, member):
            return public_classes()[base]
    return None


def members(cls: type) -> Iterator[tuple[str, str]]:
    """(public base, member) of what a class has from public bases, in their order."""
    for base in cls.__mro__[1:]:
        if name := public_classes().get(base):
            for member in dir(base):
                if not member.startswith("_") and explained_by(cls, member) == name:
                    yield name, member


def params_of(spec: type) -> type | None:
    """The class of what a spec builds, if it says so."""
    build = getattr(spec, "build", None)
    if not issubclass(spec, Spec) or build is None or inspect.isabstract(spec):
        return None
    result = build.__annotations__.get("return")
    if isinstance(result, str):
        result = getattr(sys.modules[build.__module__], result.split("[")[0], None)
    return result if inspect.isclass(result) and issubclass(result, Params) else None


@functools.cache  # asked for by the docstring of a class, and by its directive
def origins(cls: type) -> dict[str, dict[str, list[str]]]:
    """What to add to the entry of a class: by heading and by base, the names of members."""
    found: dict[str, dict[str, list[str]]] = {"Inherited": {}, "Its params inherit": {}}
    seen = {name for name in dir(cls) if explained_here(cls, name)}
    for heading, source in zip(found, (cls, params_of(cls)), strict=True):
        for base, member in members(source) if source else ():
            if member not in seen:
                seen.add(member)
                found[heading].setdefault(base, []).append(member)
    return {heading: bases for heading, bases in found.items() if bases}


def kind(cls: type, member: str) -> str:
    """What the index of the site calls a member."""
    value = inspect.getattr_static(cls, member, None)
    return "property" if isinstance(value, property) else "method"


class Inherited(Directive):
    """`inherited`, whose argument is the full name of the class in whose entry it is."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A paragraph for each heading."""
        env = self.state.document.settings.env
        (name,) = self.arguments
        cls = class_called(name)
        assert cls is not None
        paragraphs = []
        for heading, bases in origins(cls).items():
            text = nodes.paragraph(classes=["inherited"])
            text += nodes.strong(text=heading)
            for number, (base, names) in enumerate(bases.items()):
                text += nodes.Text(" from " if number == 0 else "; from ")
                text += _reference(env.docname, base, base.rpartition(".")[2])
                for place, member in enumerate(names):
                    text += nodes.Text(": " if place == 0 else ", ")
                    full = f"{name}.{member}"
                    node_id = make_id(env, self.state.document, "", full)
                    target = nodes.inline(ids=[node_id])
                    target += _reference(env.docname, f"{base}.{member}", member)
                    self.state.document.note_explicit_target(target)
                    env.domains["py"].note_object(full, kind(cls, member), node_id, location=target)
                    text += target
            text += nodes.Text(".")
            paragraphs.append(text)
        return paragraphs


def _reference(docname: str, target: str, text: str) -> nodes.Node:
    reference = addnodes.pending_xref(
        "", refdomain="py", reftype="obj", reftarget=target, refdoc=docname, refexplicit=True
    )
    reference += nodes.literal(text=text, classes=["xref", "py"])
    return reference


def _leave_out(app, what, name, obj, skip, options):
    """Autodoc explains what is inherited where it comes from, or from a private base."""
    if what != "class":
        return None
    place = f"{app.env.temp_data['autodoc:module']}.{app.env.temp_data['autodoc:class']}"
    cls = class_called(place)
    return None if cls is None or explained_here(cls, name) else True


def _ask_for_inherited(app, what, name, obj, options, lines):
    if what == "class" and name == public_classes().get(obj) and origins(obj):
        lines += ["", f".. inherited:: {name}", ""]


def _escape_letters(app, what, name, obj, options, lines):
    """An argument that is explained by a letter, such as "n.", is no list."""
    lines[:] = LETTER.sub(r"\1\\", "\n".join(lines)).split("\n")


def _as_a_sentence(self):
    """What an attribute is: a colon in its docstring does not end a type."""
    lines = [self._lines.next(), *self._dedent(self._consume_to_end())]
    return "", type(self)(lines, self._config).lines()


def summary(doctree: nodes.document) -> nodes.table | None:
    """A table of the entries of a page, none that is part of another; None if there are few."""
    rows = []
    for entry in doctree.findall(addnodes.desc):
        signature = next(entry.findall(addnodes.desc_signature))
        content = entry.children[-1]
        if entry["domain"] != "py" or isinstance(entry.parent, addnodes.desc_content):
            continue
        link = nodes.reference(refid=signature["ids"][0], internal=True)
        link += nodes.literal(text=signature["fullname"], classes=["xref", "py"])
        name = nodes.paragraph()
        name += link
        first = next(iter(content.findall(nodes.paragraph)), None)
        rows.append((name, first.deepcopy() if first is not None else nodes.paragraph()))
    if len(rows) < LEAST:
        return None
    body = nodes.tbody()
    for cells in rows:
        row = nodes.row()
        for cell in cells:
            entry = nodes.entry()
            entry += cell
            row += entry
        body += row
    group = nodes.tgroup(cols=2)
    group += [nodes.colspec(colwidth=1), nodes.colspec(colwidth=2), body]
    table = nodes.table(classes=["summary", "colwidths-auto"])
    table += group
    return table


def _add_summary(app, doctree):
    if not app.env.docname.startswith(SUMMARIES):
        return
    table = summary(doctree)
    page = next(iter(doctree.findall(nodes.section)), None)
    if table is None or page is None:
        return
    stops = (nodes.section, addnodes.desc, addnodes.index)
    place = next(i for i, child in enumerate(page) if isinstance(child, stops))
    page.insert(place, table)


def _trim_code(app, doctree):
    """Examples end with an empty line, for doctest; the page need not show it."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip("\n")
        if block.rawsource == block.astext() != text:
            block.rawsource = text
            block[:] = [nodes.Text(text)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds all of it."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("inherited", Inherited)
    app.connect("autodoc-skip-member", _leave_out)
    app.connect("autodoc-process-docstring", _ask_for_inherited, priority=900)  # after napoleon
    app.connect("autodoc-process-docstring", _escape_letters, priority=900)
    GoogleDocstring._consume_inline_attribute = _as_a_sentence
    app.connect("doctree-read", _add_summary)
    app.connect("doctree-read", _trim_code)
    return {"parallel_read_safe": True}
