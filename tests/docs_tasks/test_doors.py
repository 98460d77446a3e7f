"""The four doors of the landing page: a reader who has only the page behind one does its task.

Each task is a script beside this file, which uses no name of jaxdp that its page does not print.
"""

import ast
import pathlib
import re
import runpy

import pytest

from ..markdown import fenced

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
TASKS = {
    "docs/guide/first-simulation.md": "simulate.py",
    "docs/guide/choose.md": "plan.py",
    "docs/guide/jax.md": "import_into_jax.py",
    "docs/guide/deploy.md": "deploy.py",
}


def doors():
    """The pages that the list "Four doors" links to."""
    section = (ROOT / "README.md").read_text().split("## Four doors")[1].split("\n## ")[0]
    return re.findall(r"^- \*\*\[.*?\]\((.*?)\)\*\*", section, re.MULTILINE)


def outsiders(tree):
    """The names bound by imports of other packages than jaxdp."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                package = getattr(node, "module", None) or alias.name
                if package.split(".")[0] != "jaxdp":
                    yield alias.asname or alias.name.split(".")[0]


def used(code):
    """The names that a script takes from jaxdp: imports, attributes, keywords of calls."""
    tree = ast.parse(code)
    others = {*outsiders(tree)}

    def foreign(node):
        while isinstance(node, ast.Attribute | ast.Call):
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and node.id in others

    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "jaxdp":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and not foreign(node):
            yield node.attr
        elif isinstance(node, ast.Call) and not foreign(node):
            yield from (keyword.arg for keyword in node.keywords if keyword.arg)


def unprinted(code, page):
    """The names that a script uses and the page's code, or code within its text, does not have."""
    text = page.read_text()
    printed = [block for _, block in fenced(text, "python")] + re.findall(r"`([^`]+)`", text)
    words = {*re.findall(r"\w+", " ".join(printed))}
    return {*used(code)} - words


def test_there_is_a_task_for_each_door():
    assert doors() == [*TASKS]


@pytest.mark.parametrize("page", TASKS)
def test_the_page_is_enough(page):
    code = (HERE / TASKS[page]).read_text()
    assert unprinted(code, ROOT / page) == set()


def test_a_name_from_elsewhere_is_seen():
    code = "import jaxdp\njaxdp.run(jaxdp.pairwise.ThreeRound(epsilon=1.0), 2, split_at=3)"
    assert unprinted(code, ROOT / "docs/guide/deploy.md") >= {"ThreeRound", "split_at"}


@pytest.mark.parametrize("script", TASKS.values())
def test_the_task_is_done(script):
    runpy.run_path(str(HERE / script))
