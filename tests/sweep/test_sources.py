"""The code of a cell: which files it consists of, and what changes its hash."""

import sys
import textwrap

import pytest

import jaxdp
from jaxdp import sweep
from jaxdp.sweep import _sources
from jaxdp.sweep._fingerprint import cell_json, fingerprint

from .naps import Nap

FILES = {
    "one/__init__": "from .far import (\n    thing,  # a comment\n)",
    "one/cells": "import numpy as np, json\nfrom . import near\nfrom two import *",
    "one/near": "def late():\n    from .deeper.late import x",
    "one/far": "thing = 1",
    "one/deeper/__init__": "",
    "one/deeper/late": "x = 1",
    "one/unused": "",
    "two": '"""Text about how to\nimport unused of it.\n"""\nimport three.a \\\n  , four',
    "three/__init__": "",
    "three/a": "",
    "three/b": "",
    "four": "",
    "unused": "",
    "lazy/__init__": "from jaxdp._lazy import lazy as _lazy",
    "lazy/asked": "",
    "lazy/other": "",
}
USED = {
    "one": {"one", "one.cells", "one.near", "one.far", "one.deeper", "one.deeper.late"},
    "two": {"two"},
    "three": {"three", "three.a"},
    "four": {"four"},
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Packages that import one another; gives a function that changes a file."""

    def forget():
        for cached in (_sources._source, _sources._path, _sources._root, _sources._file_hash):
            cached.cache_clear()

    def write(name, text):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        forget()

    for name, text in FILES.items():
        write(name, text)
    stub = "from .asked import asked as asked\nfrom .other import other as other\n"
    (tmp_path / "lazy" / "__init__.pyi").write_text(stub)
    monkeypatch.syspath_prepend(tmp_path)
    yield write
    forget()


def versions_after(write, name, text):
    write(name, text)
    return _sources.versions(["one.cells"])


def test_imports_are_followed(project, monkeypatch):
    hashed = {}
    monkeypatch.setattr(_sources, "_hash", lambda files: hashed.update(files) or "x")
    found = _sources.versions(["one.cells"])
    assert set(hashed) == set().union(*USED.values())
    assert found == {"numpy": jaxdp.sweep._sources._version("numpy")} | dict.fromkeys(USED, "x")
    assert "one" not in sys.modules  # nothing was imported for it


@pytest.mark.parametrize("changed", ["one/deeper/late", "three/a", "four", "one/__init__"])
def test_a_change_of_what_is_used_is_seen(changed, project):
    before = _sources.versions(["one.cells"])
    assert versions_after(project, changed, FILES[changed] + "\ny = 2") != before
    assert versions_after(project, changed, FILES[changed]) == before


@pytest.mark.parametrize("changed", ["one/unused", "unused", "three/b"])
def test_a_change_of_anything_else_is_not(changed, project):
    before = _sources.versions(["one.cells"])
    assert versions_after(project, changed, "y = 2") == before


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("from lazy import asked", {"lazy", "lazy.asked"}),
        ("import lazy", {"lazy", "lazy.asked", "lazy.other"}),
        ("from lazy import unknown", {"lazy", "lazy.asked", "lazy.other"}),
        ("import lazy.asked", {"lazy", "lazy.asked", "lazy.other"}),  # lazy.other is within reach
    ],
)
def test_a_lazy_package_counts_for_what_is_asked_of_it(line, asked, project, monkeypatch):
    project("two", line)
    hashed = {}
    monkeypatch.setattr(_sources, "_hash", lambda files: hashed.update(files) or "x")
    _sources.versions(["two"])
    assert {name for name in hashed if name.startswith("lazy")} == asked


def test_a_simulation_depends_on_what_simulates():
    cell = sweep.Simulation(
        protocol=jaxdp.randomizers.KRR(3, 1.0), data=sweep.HistogramData([6, 3, 1]), num_trials=10
    )
    modules = set()
    original = _sources._source.__wrapped__

    def note(module):
        modules.add(module)
        return original(module)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sources, "_source", note)
        found = _sources.versions(["jaxdp.sweep._cell", "jaxdp.randomizers._krr"])
    assert set(found) == {"jax", "jaxlib", "numpy", "platform", "jaxdp", "jaxdp_kernels"}
    assert {"jaxdp.engine._simulate", "jaxdp.randomizers._krr", "jaxdp.random._words"} < modules
    assert not {"jaxdp.design._plan", "jaxdp.reports", "jaxdp.sweep._commands"} & modules
    assert f'"platform":"{found["platform"]}"' in cell_json(cell)


def test_every_module_that_a_simulation_loads_is_part_of_its_code():
    """What Python has in fact imported for one, in a fresh process, is all found in the sources."""
    import subprocess

    script = """
        import sys
        from jaxdp.sweep import HistogramData, Simulation
        from jaxdp.sweep import _sources
        import jaxdp
        cell = Simulation(
            protocol=jaxdp.randomizers.KRR(3, 1.0), data=HistogramData([6, 3, 1]), num_trials=10
        )
        cell.rows()
        loaded = {n for n in sys.modules if n.split(".")[0] in ("jaxdp", "jaxdp_kernels")}
        hashed = set()
        _sources._hash = lambda files: hashed.update(files) or "x"
        _sources.versions(["jaxdp.sweep._cell", "jaxdp.randomizers._krr"])
        print(sorted(loaded - hashed))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_name_tells_the_cell_from_its_code(monkeypatch):
    from jaxdp.sweep import _fingerprint

    cell, code = fingerprint(Nap(1.0)).split("-")
    assert (len(cell), len(code)) == (24, 12)
    assert fingerprint(Nap(2.0)).split("-") == [fingerprint(Nap(2.0))[:24], code]
    monkeypatch.setattr(_fingerprint, "_versions", lambda modules: {"jax": "another"})
    assert fingerprint(Nap(1.0)).split("-")[0] == cell
    assert fingerprint(Nap(1.0)).split("-")[1] != code
