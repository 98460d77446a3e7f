"""Simulation and design of local differential privacy, on JAX.

Describe what each user runs and what the analyst computes; jaxdp runs it for any number of users,
in as many trials as you like, and says what error to expect before a single trial is run.
"""

from ._version import __version__ as __version__


def _names() -> dict[str, str]:
    """The public names, and the module that each is from: what `__init__.pyi` lists.

    A line of it is `from .module import name as name`, or `from . import package as package`.
    """
    with open(f"{__file__}i", encoding="utf-8") as stub:
        words = [line.split() for line in stub if line.startswith("from ")]
    return {name: module for _, module, _, name, *_ in words}


_NAMES = _names()


def __getattr__(name: str) -> object:
    """Imports a public name when it is first used."""
    import importlib

    if name not in _NAMES:
        from ._hints import missing

        raise missing(__name__, name)
    if _NAMES[name] == ".":
        return importlib.import_module(f".{name}", __name__)
    return getattr(importlib.import_module(_NAMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
