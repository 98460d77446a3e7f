"""The code that computes a cell: which files it consists of, and a hash of them.

Imports are read from the sources, and followed: nothing is imported, and no module is missed
because a run has not come to import it.
"""

import functools
import hashlib
import importlib.metadata
import importlib.util
import pathlib
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from typing import NamedTuple

OURS = frozenset(("jaxdp", "jaxdp_kernels", "jaxdp_experiments"))
_COMPUTING = ("jax", "jaxlib", "numpy")  # all that rows depend on of what jaxdp's modules import

# A line of a docstring may match, too: such a module is found as well, or does not exist.
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|(?:\\\n|[^\n#;])*)"
    r"|import[ \t]+((?:\\\n|[^\n#;])*))",
    re.M,
)


def versions(modules: Iterable[str]) -> dict[str, str]:
    """What the rows of a cell depend on, besides the cell.

    Args:
      modules: those of the classes and functions that the cell names.

    Returns:
      By name the hash of each package's part in it, the version of each library, and for
      "platform" where jax computes, if it does.
    """
    modules = list(modules)
    own = OURS | {_top(module) for module in modules}
    files: dict[str, dict[str, pathlib.Path]] = {}
    libraries: set[str] = set()
    # A module and whether it is used as a whole: a lazy package imports what is asked of it.
    waiting, seen = [(module, True) for module in modules], set[tuple[str, bool]]()
    while waiting:
        module, whole = waiting.pop()
        if (module, whole) in seen:
            continue
        seen.add((module, whole))
        name = _top(module)
        if _is_library(name, own):
            libraries.add(name)
            continue
        parent, _, _ = module.rpartition(".")
        if parent:
            waiting.append((parent, False))
        source = _source(module)
        if source is None:
            continue
        files.setdefault(name, {})[module] = source.path
        for imported in source.imports + (source.lazy if whole else ()):
            if name not in OURS or _top(imported[0]) in (*OURS, *_COMPUTING):
                waiting.append(imported)
    found = {name: version for name in libraries if (version := _version(name))}
    if "jax" in found:
        import jax

        found |= {name: _version(name) or "" for name in _COMPUTING}
        found["platform"] = jax.default_backend()
    return found | {name: _hash(parts) for name, parts in files.items()}


class _Source(NamedTuple):
    """A module's file, what it imports, and what its package imports when asked for it."""

    path: pathlib.Path
    imports: tuple[tuple[str, bool], ...]
    lazy: tuple[tuple[str, bool], ...]


@functools.cache
def _source(module: str) -> _Source | None:
    """Where a module's source is, and what it imports; None if there is none, or no module."""
    path = _path(module)
    if path is None or not path.is_file():
        return None
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    text = path.read_text(encoding="utf-8", errors="replace") if path.suffix == ".py" else ""
    stub = path.with_suffix(".pyi")
    lazy = stub.read_text(encoding="utf-8") if "_lazy" in text and stub.is_file() else ""
    return _Source(path, tuple(_imports(text, package)), tuple(_imports(lazy, package)))


def _imports(text: str, package: str) -> Iterator[tuple[str, bool]]:
    """The modules that a source may import, and whether what it uses of them is not known."""
    for base, names, plain in _IMPORT.findall(text):
        if plain:
            for word in plain.replace("\\\n", " ").split(","):
                parts = word.split(" as ")[0].strip().split(".")
                if all(part.isidentifier() for part in parts):
                    # `import a.b` names a, too, so that anything of it may be used.
                    for length in range(len(parts)):
                        yield ".".join(parts[: length + 1]), True
            continue
        level = len(base) - len(base.lstrip("."))
        root = package.split(".")[: len(package.split(".")) - level + 1] if level else []
        base = ".".join([*root, *filter(None, [base.lstrip(".")])])
        for word in re.sub(r"#[^\n]*|[()\\]", " ", names).split(","):
            name = word.split(" as ")[0].strip()
            if name.isidentifier() and _path(f"{base}.{name}") is not None:
                yield f"{base}.{name}", True
            elif name:
                yield base, True


@functools.cache
def _path(module: str) -> pathlib.Path | None:
    """The file of a module, which need not be imported; None if there is none."""
    name, _, rest = module.partition(".")
    roots, origin = _root(name)
    if not rest:
        return origin
    for root in roots:
        place = root.joinpath(*rest.split("."))
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if path.is_file():
                return path
        # An extension module, or a package without a file of its own.
        found = sorted(place.parent.glob(f"{place.name}.*.so")) if place.parent.is_dir() else []
        if found or place.is_dir():
            return found[0] if found else place
    return None


@functools.cache
def _root(name: str) -> tuple[tuple[pathlib.Path, ...], pathlib.Path | None]:
    """The folders of a top-level package, and the file of it or of a module."""
    if name == "__main__":  # a script has a file; what is typed into a shell has none
        file = getattr(sys.modules[name], "__file__", None)
        return (), pathlib.Path(file) if file else None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return (), None
    roots = tuple(map(pathlib.Path, spec.submodule_search_locations or ()))
    origin = pathlib.Path(spec.origin) if spec.has_location and spec.origin else None
    return roots, origin or (roots[0] if roots else None)


@functools.cache
def _libraries() -> tuple[pathlib.Path, ...]:
    """Where packages are installed."""
    named = [*site.getsitepackages(), site.getusersitepackages()]
    named += [sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib", "platstdlib")]
    return tuple({pathlib.Path(path).resolve() for path in named})


def _is_library(name: str, own: frozenset[str] | set[str]) -> bool:
    """Whether a package counts by its version, and not by its sources."""
    if name in own or name in sys.stdlib_module_names:
        return name not in own
    roots, origin = _root(name)
    places = [path.resolve() for path in (*roots, *filter(None, [origin]))]
    return any(path.is_relative_to(library) for path in places for library in _libraries())


@functools.cache
def _version(library: str) -> str | None:
    """The version of an installed package; None for one of Python's, and one that is not there."""
    if library in sys.stdlib_module_names:
        return None
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        named = importlib.metadata.packages_distributions().get(library)
        return importlib.metadata.version(named[0]) if named else None


def _hash(files: dict[str, pathlib.Path]) -> str:
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        if path.is_file():
            total.update(name.encode() + b"\0" + _file_hash(path))
    return total.hexdigest()[:24]


@functools.cache
def _file_hash(path: pathlib.Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _top(module: str) -> str:
    return module.partition(".")[0]
