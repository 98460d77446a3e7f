"""The name under which jaxdp is installed, and how to install what is missing.

The name `jaxdp` on the package index belongs to another project, whose wheel fills the same folder.
"""

import os

DISTRIBUTION = "jaxdp-local"
"""As in pyproject.toml, which a test compares."""


def install(*extras: str) -> str:
    """The command that installs jaxdp with these extras."""
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"


def clash() -> str | None:
    """What to do if another distribution has installed a package `jaxdp`; None if none has.

    Reads the records of all installed distributions, which takes a tenth of a second and more.
    """
    import importlib.metadata

    owners = importlib.metadata.packages_distributions().get("jaxdp", [])
    return _remedy(sorted({*owners} - {DISTRIBUTION}))


def clash_beside(file: str) -> str | None:
    """The same, of the distributions in the folder where the package lies: one listing.

    Args:
      file: the `__init__.py` of jaxdp.
    """
    try:
        entries = os.listdir(os.path.dirname(os.path.dirname(file)))
    except OSError:  # a zip archive, or a folder that may not be listed: no reason not to import
        return None
    installed = any(x.startswith("jaxdp-") and x.endswith(".dist-info") for x in entries)
    return _remedy(["jaxdp"] if installed else [])


def _remedy(others: list[str]) -> str | None:
    if not others:
        return None
    return (
        f"the distribution {' and '.join(others)} has installed a package named jaxdp, too, and "
        f"the two overwrite each other's files: pip uninstall {' '.join(others)}, then "
        f"pip install --force-reinstall --no-deps {DISTRIBUTION}"
    )
