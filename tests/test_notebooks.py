"""The pages that are notebooks too: their code runs alone, with the results that they show."""

import doctest
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).parents[1] / "docs"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

RUNNER = """
import ast, contextlib, io, json, sys

names = {"__name__": "__main__"}
shown = []
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code":
        continue
    body = ast.parse(cell["source"]).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                print(repr(value))
    shown.append(out.getvalue())
json.dump(shown, sys.stdout)
"""


def _load():
    path = DOCS / "_ext" / "notebooks.py"
    spec = importlib.util.spec_from_file_location("notebooks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pytest.importorskip("sphinx")
notebooks = _load()


def made(page):
    return notebooks.notebook(page, (DOCS / f"{page}.md").read_text())


def played(found, folder):
    """What the cells of a notebook print, in a process that knows the installed package alone."""
    path = folder / "notebook.ipynb"
    path.write_text(json.dumps(found))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    here = [os.path.abspath(path) for path in paths if path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(here)}
    command = [sys.executable, "-c", RUNNER, str(path)]
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("page", notebooks.PAGES)
def test_cells_print_what_the_page_shows(page, tmp_path):
    found = made(page)
    cells = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
    same = doctest.OutputChecker().check_output
    for cell, shown in zip(cells, played(found, tmp_path), strict=True):
        wanted = "".join(output["text"] for output in cell["outputs"])
        assert same(wanted, shown, FLAGS), f"{cell['source']}\n{wanted}\n{shown}"


@pytest.mark.parametrize("page", notebooks.PAGES)
def test_a_notebook_has_all_examples_of_its_page(page):
    found, text = made(page), (DOCS / f"{page}.md").read_text()
    code = "\n".join(cell["source"] for cell in found["cells"] if cell["cell_type"] == "code")
    examples = doctest.DocTestParser().get_examples(text.replace("```", ""))
    assert "".join(example.source for example in examples).split() == code.split()
    rest = "".join(cell["source"] for cell in found["cells"] if cell["cell_type"] == "markdown")
    for marker in ("{doc}", "{func}", "{class}", "eval-rst", ">>> "):
        assert marker not in rest
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])
