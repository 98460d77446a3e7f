"""The distribution's name, in messages, and warnings of another one that owns `jaxdp`."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

from jaxdp import _install
from jaxdp.sweep import cli

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_name_is_that_of_the_project():
    assert PROJECT["name"] == _install.DISTRIBUTION
    assert re.fullmatch(r"pip install '(.*)\[sweep,s3\]'", _install.install("sweep", "s3"))[1] == (
        _install.DISTRIBUTION
    )


def calls(pattern, folders):
    """(file, match) of a pattern in the sources below some folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for match in re.finditer(pattern, path.read_text(encoding="utf-8")):
                yield path.name, match


def test_every_message_is_made_from_it():
    """No other text tells how to install jaxdp, and each extra that one names exists."""
    folders = ("jaxdp", "kernels", "experiments")
    named = [name for name, _ in calls(r"pip install\b[^\n]*jaxdp|jaxdp(-local)?\[\w", folders)]
    assert named == []
    extras = [match[1] for _, match in calls(r"\binstall\('(\w+)'\)", folders)]
    assert len(extras) >= 7
    assert {*extras} <= {*PROJECT["optional-dependencies"]}


def test_documents_name_it():
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        name
        for path in texts
        for name in re.findall(r"([\w-]*jaxdp[\w-]*)\[[\w,]+\]", path.read_text(encoding="utf-8"))
    }
    assert named <= {_install.DISTRIBUTION}
    assert _install.DISTRIBUTION in (ROOT / "README.md").read_text()


def test_no_clash_where_there_is_none(monkeypatch):
    monkeypatch.setattr(
        importlib.metadata, "packages_distributions", lambda: {"jaxdp": [_install.DISTRIBUTION]}
    )
    assert _install.clash() is None
    monkeypatch.setattr(importlib.metadata, "packages_distributions", dict)  # as of `pip -e`
    assert _install.clash() is None


def test_the_command_tells_of_a_clash(monkeypatch, capsys):
    monkeypatch.setattr(
        importlib.metadata,
        "packages_distributions",
        lambda: {"jaxdp": ["jaxdp", _install.DISTRIBUTION]},
    )
    assert cli.main(["version"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("jaxdp: the distribution jaxdp has installed a package named jaxdp")
    assert "pip uninstall jaxdp, then pip install --force-reinstall" in told


def test_a_folder_that_cannot_be_listed_has_no_clash(tmp_path):
    archive = tmp_path / "packages.zip"
    archive.touch()
    assert _install.clash_beside(str(archive / "jaxdp" / "__init__.py")) is None


@pytest.mark.parametrize("other", [None, "jaxdp-0.4.0.dist-info", "jaxdp_local-0.1.0.dist-info"])
def test_the_import_tells_of_a_clash(other, tmp_path):
    """In a folder of packages that has what another distribution leaves there."""
    (tmp_path / "jaxdp").symlink_to(ROOT / "jaxdp")
    if other:
        (tmp_path / other).mkdir()
    code = "import sys; sys.path.insert(0, sys.argv[1]); import jaxdp"
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": ""},
    )
    assert ("pip uninstall jaxdp" in result.stderr) == (other == "jaxdp-0.4.0.dist-info")
