"""Packages that import their names when these are first used."""

import sys

TYPE_CHECKING = False  # that of `typing`, which takes as long to import as all of this package
if TYPE_CHECKING:
    from collections.abc import Callable

    Lazy = tuple[dict[str, str], Callable[[str], object], Callable[[], list[str]]]


def lazy(package: str, file: str) -> "Lazy":
    """A package's public names and its functions `__getattr__` and `__dir__`.

    The list of the names is the stub beside the package's file, which type checkers read, too. A
    line of it is `from .module import name as name`, or `from . import package as package`.

    Args:
      package: the package's name.
      file: its `__init__.py`.

    Returns:
      The names, each with the module that it is from, and the two functions.
    """
    with open(f"{file}i", encoding="utf-8") as stub:
        words = [line.split() for line in stub if line.startswith("from ")]
    names = {name: module for _, module, _, name, *_ in words}

    def get(name: str) -> object:
        import importlib

        if name not in names:
            from ._hints import missing

            raise missing(package, name)
        if names[name] == ".":
            return importlib.import_module(f".{name}", package)
        return getattr(importlib.import_module(names[name], package), name)

    return names, get, lambda: sorted({*vars(sys.modules[package]), *names})
