"""The package as a whole: import, version, import directions, documentation of public names."""

import ast
import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys

import public_names
import pytest

import jaxdp
from jaxdp import _hints, _install
from tests import mutants

ROOT = pathlib.Path(__file__).parents[1]

# Lower number, lower floor. A module may import from its own package and from lower floors.
FLOORS = {
    "jaxdp_kernels": 0,
    "jaxdp._version": 0,
    "jaxdp._bits": 0,
    "jaxdp._files": 0,
    "jaxdp._prediction": 0,
    "jaxdp._progress": 1,
    "jaxdp._features": 1,
    "jaxdp._hints": 0,
    "jaxdp._install": 0,
    "jaxdp._form": -1,
    "jaxdp._chernoff": 0,
    "jaxdp._spec": 0,
    "jaxdp._stored": 0,
    "jaxdp._subsets": 0,
    "jaxdp._wide": 0,
    "jaxdp._x64": 0,
    "jaxdp._lapack": 0,
    "jaxdp.data": 0,
    "jaxdp._checks": 1,
    "jaxdp._lazy": 1,
    "jaxdp._meshes": 1,
    "jaxdp.figures": 1,
    "jaxdp._program_cache": 1,
    "jaxdp._ranking": 1,
    "jaxdp.accounting": 1,
    "jaxdp.random": 1,
    "jaxdp.projections": 2,
    "jaxdp.workloads": 2,
    "jaxdp.factorization": 3,
    "jaxdp.population": 4,
    "jaxdp._given_factors": 4,
    "jaxdp._checked": 2,
    "jaxdp._contract": 5,
    "jaxdp.engine": 6,
    "jaxdp.randomizers": 6,
    "jaxdp._plausible": 3,
    "jaxdp.reports": 7,
    "jaxdp._queries": 7,
    "jaxdp.linear": 8,
    "jaxdp.central": 8,
    "jaxdp.pairwise": 9,
    "jaxdp.learning": 9,
    "jaxdp.trusted": 10,
    "jaxdp.bounds": 10,
    "jaxdp.audit": 10,
    "jaxdp.design": 11,
    "jaxdp.testing": 11,
    "jaxdp.sweep": 12,
}

# What belongs to the extras, or is merely slow: no name of jaxdp must pull it in.
NOT_ON_IMPORT = {"matplotlib", "pyarrow", "rich", "tyro", "distributed", "cvxpy", "pandas"}

IMPORT_PROBE = """
import json, sys
import jax
flags = dict(jax.config.values)
before = set(sys.modules)
import jaxdp
names = [getattr(jaxdp, name) for name in dir(jaxdp)]  # which imports all of it
from jax._src import xla_bridge
print(json.dumps({
    "modules": sorted(set(sys.modules) - before),
    "changed_flags": [name for name, value in jax.config.values.items() if flags[name] != value],
    "backends": list(xla_bridge._backends),
}))
"""


@pytest.fixture(scope="module")
def fresh_import():
    """What importing every name of jaxdp does in a process of its own, after `import jax`."""
    probe = subprocess.run(
        [sys.executable, "-c", IMPORT_PROBE], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return json.loads(probe.stdout)


def test_import_leaves_extras_alone(fresh_import):
    imported = {name.partition(".")[0] for name in fresh_import["modules"]}
    assert "jaxdp.pairwise" in fresh_import["modules"]
    assert imported & NOT_ON_IMPORT == set()


def test_packages_are_imported_when_they_are_used():
    probe = "import sys, jaxdp; assert 'jax' not in sys.modules; jaxdp.random, jaxdp.Population"
    subprocess.run([sys.executable, "-c", probe], check=True, cwd=ROOT)
    with pytest.raises(AttributeError, match=r"jaxdp.*no attribute 'randomiser'"):
        jaxdp.randomiser  # noqa: B018


def test_the_stub_lists_every_package():
    folders = {path.parent.name for path in (ROOT / "jaxdp").glob("*/__init__.py")}
    assert {name for name, module in jaxdp._NAMES.items() if module == "."} == folders
    assert jaxdp._NAMES["run"] == ".engine"
    assert set(jaxdp._NAMES) <= set(dir(jaxdp))


def test_import_is_quick():
    """What is imported beside `jaxdp` itself, in a process that has done nothing else."""
    probe = "import sys; before = set(sys.modules); import jaxdp; print(*set(sys.modules) - before)"
    found = subprocess.run(
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert set(found.stdout.split()) == {"jaxdp", "jaxdp._version", "jaxdp._install", "jaxdp._lazy"}


@pytest.mark.parametrize(
    ("package", "name", "use"),
    [
        (jaxdp, "OUE", "jaxdp.randomizers.UnaryEncoding"),
        (jaxdp.randomizers, "GRR", "jaxdp.randomizers.KRR"),
        (jaxdp.randomizers, "SUE", 'jaxdp.randomizers.UnaryEncoding(..., kind="symmetric")'),
        (jaxdp.randomizers, "QuantizedRR", "jaxdp.pairwise.QuantizedRR"),
        (jaxdp, "ShuffledSum", "jaxdp.trusted.ShuffledSum"),
        (jaxdp, "HistogramData", "jaxdp.sweep.HistogramData"),
    ],
)
def test_names_that_lie_elsewhere_are_pointed_to(package, name, use):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; use {re.escape(use)}$"):
        getattr(package, name)


def test_common_names_point_to_something():
    for use in _hints.COMMON_NAMES.values():
        package, name = use.partition("(")[0].split(".")
        assert hasattr(getattr(jaxdp, package), name)


def test_import_changes_no_flag_and_starts_no_backend(fresh_import):
    assert fresh_import["changed_flags"] == []
    assert fresh_import["backends"] == []


def test_version_is_the_installed_one():
    assert jaxdp.__version__ == importlib.metadata.version(_install.DISTRIBUTION)


def source_modules():
    """(dotted name, syntax tree) of every module of both import packages."""
    for base in (ROOT, ROOT / "kernels"):
        package = base / ("jaxdp" if base == ROOT else "jaxdp_kernels")
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            yield parts, ast.parse(path.read_text())


def imported_names(parts, tree):
    """Absolute dotted names of everything that the module imports, at any depth."""
    package = parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            base = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def floor_of(name):
    """The (package, floor) that a dotted name belongs to, or None."""
    return next(((p, f) for p, f in FLOORS.items() if name == p or name.startswith(f"{p}.")), None)


def upward_imports(modules):
    """Every import that does not go down, as (importer, imported)."""
    for parts, tree in modules:
        here = floor_of(".".join(parts))
        if here is None:  # jaxdp/__init__.py stands on the roof
            continue
        for name in imported_names(parts, tree):
            there = floor_of(name)
            outside = there is not None and there[0] != here[0]
            if (outside and there[1] >= here[1]) or (name.split(".")[0] == "jaxdp" and not there):
                yield ".".join(parts), name


def test_imports_go_down_only():
    assert list(upward_imports(source_modules())) == []


@pytest.mark.parametrize(
    ("importer", "line"),
    [
        ("jaxdp.random._words", "from jaxdp.engine import run"),
        ("jaxdp.random._words", "from .. import engine"),
        ("jaxdp.randomizers._krr", "from ..linear import best"),
        ("jaxdp.randomizers._krr", "import jaxdp"),
        ("jaxdp_kernels.op.api", "from jaxdp.random import Count"),
    ],
)
def test_an_upward_import_is_seen(importer, line):
    assert list(upward_imports([(tuple(importer.split(".")), ast.parse(line))]))


def test_every_module_has_a_floor():
    """A new package must be given its place in `FLOORS`."""
    homeless = {".".join(parts) for parts, _ in source_modules() if not floor_of(".".join(parts))}
    assert homeless == {"jaxdp.__init__"}


@pytest.mark.parametrize("package", public_names.public_packages())
def test_public_names_are_explained(package):
    assert list(public_names.undocumented(package)) == []


def test_a_name_without_documentation_is_seen(monkeypatch):
    class Mute:
        def speak(self): ...

    monkeypatch.setattr(jaxdp, "Mute", Mute, raising=False)
    assert list(public_names.undocumented("jaxdp")) == ["jaxdp.Mute", "jaxdp.Mute.speak"]
    everything = {
        f"{package}.{name}"
        for package in public_names.public_packages()
        for name in public_names.public_names(package)
    }
    assert list(public_names.missing(everything - {"jaxdp.Mute"})) == ["jaxdp.Mute"]


def test_faults_that_change_nothing_are_in_lines_that_exist():
    lines = {line.strip() for path in mutants.sources() for line in path.read_text().splitlines()}
    assert mutants.SAME.keys() - lines == set()
