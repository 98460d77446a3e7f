"""What the README says is true: its example, its commands, its links."""

import contextlib
import io
import pathlib
import re

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
    assert len(code.strip().splitlines()) <= 15


def test_continuous_integration_runs_the_commands_as_written():
    """`.ci/run` takes each command from the README by its ending: there must be exactly one."""
    commands = [line for _, block in fenced(README, "bash") for line in block.splitlines()]
    endings = re.findall(r"grep -m 1 '(.*)\$' README\.md", (ROOT / ".ci/run").read_text())
    assert len(endings) == 2
    for ending in endings:
        (command,) = (line for line in README.splitlines() if line.endswith(ending))
        assert command in commands


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)", README)
    assert targets
    for target in targets:
        assert target.startswith("https://") or (ROOT / target).exists(), target
