"""What jaxdp promises: the public names of its public packages, and whether they are explained.

Used twice: as a Sphinx extension it warns (so the build fails) about a public name that no page of
the API reference documents; tests/test_package.py checks the docstrings themselves.
"""

import importlib
import inspect
import pkgutil
import types
from collections.abc import Container, Iterator

ROOTS = ("jaxdp", "jaxdp_kernels")
ROOMS = "jaxdp.pairwise."
"""Packages that only order the files of another one, which exports what is public in them."""


def public_packages() -> list[str]:
    """Importable names of every public package: no part of its name starts with an underscore."""
    found = []
    for root in ROOTS:
        package = importlib.import_module(root)
        found.append(root)
        found += [
            module.name
            for module in pkgutil.walk_packages(package.__path__, prefix=f"{root}.")
            if module.ispkg
            and not any(part.startswith("_") for part in module.name.split("."))
            and not module.name.startswith(ROOMS)
        ]
    return found


def public_names(package: str) -> dict[str, object]:
    """Names that `package` exports (`from ._x import Y as Y`), with their objects."""
    module = importlib.import_module(package)
    values = {name: getattr(module, name) for name in dir(module)}  # some are imported only now
    return {
        name: value
        for name, value in values.items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }


def undocumented(package: str) -> Iterator[str]:
    """Public classes, functions, methods and properties of `package` that lack a docstring."""
    for name, value in public_names(package).items():
        if not callable(value):
            continue
        if not inspect.getdoc(value):
            yield f"{package}.{name}"
        if inspect.isclass(value):
            # Own definitions only; getdoc also accepts what an override inherits from its base.
            for attribute, member in vars(value).items():
                is_code = isinstance(member, property | classmethod | staticmethod)
                is_code = is_code or inspect.isfunction(member)
                explained = inspect.getdoc(getattr(value, attribute, None))
                if is_code and not attribute.startswith("_") and not explained:
                    yield f"{package}.{name}.{attribute}"


def missing(documented: Container[str]) -> Iterator[str]:
    """Public names outside `documented`. One name of an object that has several is enough."""
    known, unknown = set(), []
    for package in public_packages():
        for name, value in public_names(package).items():
            alias = f"{package}.{name}"
            qualname = getattr(value, "__qualname__", None)  # of classes and functions
            origin = f"{value.__module__}.{qualname}" if qualname else alias
            if alias in documented:
                known.add(origin)
            else:
                unknown.append((origin, alias))
    yield from (alias for origin, alias in unknown if origin not in known)


def _warn_about_missing(app, env):
    from sphinx.util import logging

    for name in missing(env.domains["py"].objects):
        logging.getLogger(__name__).warning("no page of the API reference documents %s", name)


def setup(app):
    """Registers the check with Sphinx."""
    app.connect("env-check-consistency", _warn_about_missing)
    return {"parallel_read_safe": True}
