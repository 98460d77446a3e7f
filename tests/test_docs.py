"""Every example on the pages of the docs runs, a page at a time."""

import ast
import doctest
import pathlib

import pytest

from .markdown import fenced

DOCS = pathlib.Path(__file__).parents[1] / "docs"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PAGES = {
    str(path.relative_to(DOCS)): path
    for path in sorted(DOCS.rglob("*.md"))
    if ">>> " in path.read_text()
}


def page_examples(path):
    """One doctest of all the examples of a page, so that later ones see earlier names."""
    test = doctest.DocTest([], {}, path.name, str(path), 0, None)
    for line, block in fenced(path.read_text(), "python"):
        for example in doctest.DocTestParser().get_examples(block, path.name):
            example.lineno += line
            test.examples.append(example)
    return test


@pytest.mark.parametrize("page", PAGES)
def test_examples(page):
    report = []
    test = page_examples(PAGES[page])
    results = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert results.attempted == len(test.examples) > 0
    assert results.failed == 0, "".join(report)


def test_a_wrong_example_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\n>>> 1 + 1\n3\n\n```\n")
    assert doctest.DocTestRunner().run(page_examples(page), out=lambda _: None).failed == 1


def checks_named(path):
    """The tests that the directive `checked-by` names on a page."""
    return [
        line.strip()
        for _, block in fenced(path.read_text(), r"\{checked-by\}")
        for line in block.splitlines()
        if line.strip()
    ]


PROOFS = sorted(set(DOCS.glob("proofs/*.md")) - {DOCS / "proofs" / "index.md"})


@pytest.mark.parametrize("page", PROOFS, ids=lambda page: page.stem)
def test_proofs_name_tests_that_exist(page):
    named = checks_named(page)
    assert named
    for test in named:
        path, _, name = test.partition("::")
        body = ast.parse((DOCS.parent / path).read_text()).body
        assert name in {node.name for node in body if isinstance(node, ast.FunctionDef)}


RANDOMIZERS = sorted(
    page for page in DOCS.glob("randomizers/*.md") if page.stem not in ("index", "choosing")
)
SECTIONS = ["The channel", "Error", "Among others", "Reference"]


@pytest.mark.parametrize("page", RANDOMIZERS, ids=lambda page: page.stem)
def test_pages_of_randomizers_have_one_structure(page):
    text = page.read_text()
    found = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert found == SECTIONS
    channel, error, others, reference = text.split("\n## ")[1:]
    (name,) = [line.split(":: ")[1] for line in reference.splitlines() if "autoclass" in line]
    assert ".. plot::" in channel
    assert f".. error-of:: {name}\n" in error
    assert f".. others-of:: {name}\n" in others
    assert text.count(".. plot::") == text.count(":alt:")
