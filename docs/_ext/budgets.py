"""The directive `budgets`: a table of what the programs for an accelerator may take."""

import importlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = pathlib.Path(__file__).parents[2]

COLUMNS: dict[str, Callable[[Any], str]] = {
    "users": lambda budget: f"{budget.users:,}" if budget.users else "",
    "blocks": lambda budget: f"{budget.blocks:g}" if budget.users else "",
    "unknown loops": lambda budget: f"{budget.unknown}",
    "kernels": lambda budget: f"{budget.kernels:,}",
    "outside": lambda budget: f"{budget.outside}",
    "MiB": lambda budget: f"{budget.mebibytes:,}",
    "seconds": lambda budget: f"{budget.seconds:,}",
}
FOR_TPU = ("kernels", "outside", "MiB", "seconds")  # XLA's text for it tells no more


class Budgets(SphinxDirective):
    """`budgets`, whose argument is "cuda" or "tpu"."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table, as Markdown has it."""
        if str(ROOT) not in sys.path:
            sys.path.insert(0, str(ROOT))
        (platform,) = self.arguments
        names = [name for name in COLUMNS if platform == "cuda" or name in FOR_TPU]
        rows = [["program", *names], ["---", *["---:" for _ in names]]]
        budgets = importlib.import_module("tests.aot._budgets").BUDGETS[platform]
        for program, budget in budgets.items():
            rows.append([program, *(COLUMNS[name](budget) for name in names)])
        lines = [f"| {' | '.join(row)} |" for row in rows]
        found = nodes.container()
        self.state.nested_parse(StringList(lines, source="budgets"), self.content_offset, found)
        return found.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the directive."""
    app.add_directive("budgets", Budgets)
    return {"parallel_read_safe": True}
