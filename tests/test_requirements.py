"""The files of pinned dependencies are those of pyproject.toml."""

import pathlib
import re
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def declared(*extras: str) -> dict[str, str]:
    """The lower bound of each dependency, by name."""
    groups = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][e] for e in extras)]
    pattern = r"([\w-]+)(?:\[.*\])?>=([\d.]+)"
    return dict(
        match.groups() for group in groups for line in group if (match := re.match(pattern, line))
    )


def pinned(name: str) -> dict[str, list[str]]:
    """The versions of each package in a file, one for each range of Python's versions."""
    found: dict[str, list[str]] = {}
    text = (ROOT / "requirements" / name).read_text()
    for package, version in re.findall(r"^([\w.-]+)(?:\[.*\])?==([\w.]+)", text, re.MULTILINE):
        found.setdefault(package, []).append(version)
    return found


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


@pytest.mark.parametrize("name", ["ci.txt", "aot.txt"])
def test_every_pinned_package_has_hashes(name):
    entries = re.split(r"^(?=\S)", (ROOT / "requirements" / name).read_text(), flags=re.M)[1:]
    pins = [entry for entry in entries if "==" in entry.partition("\n")[0]]
    assert len(pins) > 50
    assert not [pin for pin in pins if "--hash=sha256:" not in pin]


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("ci.txt", ("sweep", "test", "lint", "docs")),
        ("aot.txt", ("sweep", "test", "aot")),
        ("oldest.txt", ("sweep", "test")),
    ],
)
def test_pins_fit_the_bounds(name, extras):
    pins = pinned(name)
    for package, low in declared(*extras).items():
        assert all(numbers(v) >= numbers(low) for v in pins[package]), package


def test_the_oldest_core_is_the_oldest_allowed():
    pins = pinned("oldest.txt")
    for package, low in declared().items():
        (version,) = pins[package]
        assert numbers(version)[: len(numbers(low))] == numbers(low), package


def test_compilers_for_accelerators_come_with_the_jax_of_all_other_tests():
    others, pins = pinned("ci.txt"), pinned("aot.txt")
    assert {"jax-cuda13-plugin", "libtpu"} <= pins.keys() - others.keys()
    assert not [name for name in pins if name.startswith("nvidia")]  # gigabytes, and not needed
    for name in pins.keys() & others.keys():
        assert pins[name] == others[name], name
