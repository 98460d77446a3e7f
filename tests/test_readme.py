"""What the README says is true: its example, its commands, its links."""

import contextlib
import io
import json
import pathlib
import re

import jaxdp

from .markdown import fenced

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_example_prints_what_it_says():
    ((_, code),) = fenced(README, "python")
    ((_, expected),) = fenced(README, "text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue().split() == expected.split()
    assert len([line for line in code.splitlines() if line]) <= 10


def test_continuous_integration_runs_the_commands_as_written():
    """`.ci/run` takes each command from the README by its ending: there must be exactly one."""
    commands = [line for _, block in fenced(README, "bash") for line in block.splitlines()]
    endings = re.findall(r"grep -m 1 '(.*)\$' README\.md", (ROOT / ".ci/run").read_text())
    assert len(endings) == 2
    for ending in endings:
        (command,) = (line for line in README.splitlines() if line.endswith(ending))
        assert command in commands


def test_citation_is_the_one_of_the_file():
    ((_, entry),) = fenced(README, "bibtex")
    cited = dict(re.findall(r"(\w+) += \{(.*?)\}?\},?$", entry, re.MULTILINE))
    cited["author"] = cited["author"].strip("{}")
    text = (ROOT / "CITATION.cff").read_text()
    stated = dict(re.findall(r'^(?:  - )?(title|version|name): "?(.*?)"?$', text, re.MULTILINE))
    assert cited["title"] == stated["title"]
    assert cited["author"] == stated["name"]
    assert cited["version"] == stated["version"] == jaxdp.__version__


def test_landing_page_shares_the_text():
    """Each part is there once, and in order: Sphinx does not tell of a part that is empty."""
    page = (ROOT / "docs/index.md").read_text()
    marks = re.findall(r':(?:start-after|end-before): "(.*)"', page)
    assert len(marks) == 8
    places = [README.index(mark) for mark in marks]
    assert all(README.count(mark) == 1 for mark in marks)
    assert places == sorted(places)


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)", README)
    assert targets
    for target in targets:
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_exact_predictions_are_as_often_right_as_the_table_says():
    path = ROOT / "benchmarks" / "results" / "predictions" / "results.json"
    sections = json.loads(path.read_text())["sections"].values()
    exact = [row for rows in sections for row in rows if row["kind"] == "exact"]
    cases = sum(row["cells"] for row in exact)
    right = cases - sum(row["not as claimed"] for row in exact)
    assert f"exact predictions in {right} of {cases} cases" in README
