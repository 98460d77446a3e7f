"""What computes a cell, as a hash: change a line of it, and the cell is computed again."""

import functools
import hashlib
import importlib
import importlib.metadata
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

OURS = ("jaxdp", "jaxdp_kernels")
LIBRARIES = ("jax", "jaxlib", "numpy")


def versions(cell: Any) -> dict[str, str]:
    """The versions of the libraries, and the sources of jaxdp and of what a cell's JSON names."""
    packages = sorted({*OURS, *(module.partition(".")[0] for module in _modules(cell))})
    return {name: _version(name) for name in LIBRARIES} | {
        name: source_hash(name) for name in packages
    }


@functools.cache
def _version(library: str) -> str:
    return importlib.metadata.version(library)  # reads a file


def _modules(form: Any) -> Iterator[str]:
    """The modules of the classes and functions in the JSON form of a spec."""
    if isinstance(form, dict):
        for key, value in form.items():
            if key in ("spec", "function"):
                yield value.partition(":")[0]
            else:
                yield from _modules(value)
    elif isinstance(form, list):
        for value in form:
            yield from _modules(value)


@functools.cache
def source_hash(package: str) -> str:
    """A hash of all Python files of a package, or of the one file of a module."""
    module = vars(sys.modules.get(package) or importlib.import_module(package))
    roots = [pathlib.Path(root) for root in module.get("__path__", ())]
    files = {str(path.relative_to(root)): path for root in roots for path in root.rglob("*.py")}
    # A module typed into a shell has no file, and no source that could be told from another's.
    if not roots and (file := module.get("__file__")):
        files = {package: pathlib.Path(file)}
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        total.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:24]
