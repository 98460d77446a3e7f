"""Which experiments there are: their names and summaries, read without importing them."""

import ast
import dataclasses
import importlib.metadata
import importlib.util
import os
import pathlib
import pkgutil
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._experiment import Experiment

GROUP = "jaxdp.experiments"
"""The entry points by which installed packages register their experiments."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """An experiment that is known and need not be imported yet.

    Attributes:
      name: the name on the command line.
      summary: one line for `jaxdp list`.
      module: the module that defines it as `EXPERIMENT`.
    """

    name: str
    summary: str
    module: str

    def load(self) -> "Experiment":
        """The experiment, whose module is imported."""
        return importlib.import_module(self.module).EXPERIMENT


def catalog() -> dict[str, Entry]:
    """All experiments by name, as `jaxdp.sweep.experiments` finds them.

    Raises:
      ValueError: two experiments have the same name.
    """
    found: dict[str, Entry] = {}
    for registered in importlib.metadata.entry_points(group=GROUP):
        for spec in _modules(registered.module):
            entry = _entry(spec)
            other = found.setdefault(entry.name, entry)
            # A module may be registered twice, by itself and with its package, or hand one on.
            if other != entry and other.load() is not entry.load():
                raise ValueError(
                    f"experiments must have different names, but {entry.module} defines another "
                    f"{entry.name!r}."
                )
    return found


def experiments() -> "dict[str, Experiment]":
    """All experiments by name, whose modules are imported for it.

    jaxdp and other installed packages register them by entry points of the group
    `jaxdp.experiments`: each names a module that defines `EXPERIMENT`, or a package of such
    modules.

    Raises:
      ValueError: two experiments have the same name.
    """
    return {name: entry.load() for name, entry in catalog().items()}


def print_catalog() -> int:
    """What `jaxdp list` does: prints a line for each experiment."""
    known = catalog()
    width = max(map(len, known))
    for name, entry in known.items():
        print(f"{name:<{width}}  {entry.summary}")
    return 0


def find_experiment(name: str) -> "Experiment":
    """The experiment of this name, whose module alone is imported.

    Args:
      name: one of `catalog`; a file such as "path/to/mine.py", which defines EXPERIMENT; or
        "module:NAME".

    Raises:
      ValueError: there is none; the message says which there are.
    """
    if name.endswith(".py"):
        path = pathlib.Path(name)
        if not path.is_file():
            raise ValueError(f"NAME must be an experiment or its file, but {name} is not there.")
        # Its cells are found again by the names of their classes, in other processes too.
        sys.path.insert(0, str(path.parent.resolve()))
        return _defined(path.stem, "EXPERIMENT")
    if ":" in name:
        sys.path.insert(0, os.getcwd())
        return _defined(*name.split(":", 1))
    known = catalog()
    if name in known:
        return known[name].load()
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ValueError(f"NAME must be one of {', '.join(known)}, got {name!r}{hint}")


def _defined(module: str, name: str) -> "Experiment":
    """The experiment of this name in a module."""
    from ._experiment import Experiment

    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise ValueError(f"NAME must be of a module that can be imported, not {module}.") from None
    if not isinstance(found, Experiment):
        raise ValueError(
            f"NAME must be of a module that defines {name} = jaxdp.sweep.Experiment(...), which "
            f"{module} does not; `jaxdp new` writes one that does."
        )
    return found


def _modules(name: str) -> Iterator[ModuleSpec]:
    """Where the module itself is, or the public modules of a package."""
    root = importlib.util.find_spec(name)
    if root is None:
        raise ModuleNotFoundError(f"No module named {name!r}, an entry point of {GROUP}", name=name)
    if root.submodule_search_locations is None:
        yield root
        return
    for folder in root.submodule_search_locations:
        for finder, module, _ in pkgutil.iter_modules([folder]):
            spec = None if module.startswith("_") else finder.find_spec(f"{name}.{module}", None)
            if spec is not None:
                yield spec


def _entry(spec: ModuleSpec) -> Entry:
    """What a module says of its experiment; it is imported only if its source does not say it."""
    described = _described(spec.origin or "")
    if described is None:
        experiment = importlib.import_module(spec.name).EXPERIMENT
        described = experiment.name, experiment.summary
    return Entry(*described, spec.name)


def _described(path: str) -> tuple[str, str] | None:
    """Name and summary in the line `EXPERIMENT = Experiment(name="...", summary="...", ...)`.

    None where there is no such line, or another beside it; where a name is computed; and for a
    module that has no source.
    """
    try:
        body = ast.parse(pathlib.Path(path).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return None
    match [node for node in body if _binds_experiment(node)]:
        case [ast.Assign(value=ast.Call(func=ast.Name("Experiment"), keywords=keywords))]:
            pass
        case [ast.Assign(value=ast.Call(func=ast.Attribute(attr="Experiment"), keywords=keywords))]:
            pass
        case _:
            return None
    constants = {k.arg: k.value.value for k in keywords if isinstance(k.value, ast.Constant)}
    match constants:
        case {"name": str(name), "summary": str(summary)}:
            return name, summary
    return None


def _binds_experiment(node: ast.stmt) -> bool:
    """Whether a statement at the top of a module, or one within it, may define EXPERIMENT."""
    return any(
        (isinstance(part, ast.Name) and part.id == "EXPERIMENT" and isinstance(part.ctx, ast.Store))
        or (isinstance(part, ast.alias) and (part.asname or part.name) in ("EXPERIMENT", "*"))
        for part in ast.walk(node)
    )
