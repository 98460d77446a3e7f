"""What to write for a name that a package lacks: errors that say where it is."""

import glob
import os

COMMON_NAMES = {
    "BLH": "randomizers.LocalHashing(..., hash_range=2)",
    "BRR": "randomizers.KRR(num_values=2, ...)",
    "BinaryRandomizedResponse": "randomizers.KRR(num_values=2, ...)",
    "DE": "randomizers.KRR",
    "DirectEncoding": "randomizers.KRR",
    "Duchi": "randomizers.BinaryResponse",
    "GRR": "randomizers.KRR",
    "GeneralizedRandomizedResponse": "randomizers.KRR",
    "GeometricMechanism": "randomizers.DiscreteLaplace",
    "HR": "randomizers.HadamardResponse",
    "HRR": "randomizers.HadamardBit",
    "HadamardRandomizedResponse": "randomizers.HadamardBit",
    "LH": "randomizers.LocalHashing",
    "OLH": "randomizers.LocalHashing",
    "OUE": "randomizers.UnaryEncoding",
    "OptimizedLocalHashing": "randomizers.LocalHashing",
    "OptimizedUnaryEncoding": "randomizers.UnaryEncoding",
    "PGR": "randomizers.ProjectiveGeometryResponse",
    "PM": "randomizers.Piecewise",
    "PiecewiseMechanism": "randomizers.Piecewise",
    "PrivUnit2": "randomizers.PrivUnit",
    "RAPPOR": "randomizers.Rappor",
    "RR": "randomizers.KRR",
    "RandomizedResponse": "randomizers.KRR",
    "SS": "randomizers.SubsetSelection",
    "SUE": 'randomizers.UnaryEncoding(..., kind="symmetric")',
    "SymmetricUnaryEncoding": 'randomizers.UnaryEncoding(..., kind="symmetric")',
    "UE": "randomizers.UnaryEncoding",
}
"""Names that papers and other libraries use, and what jaxdp calls the same."""


def missing(package: str, name: str) -> AttributeError:
    """The error for a name that a package lacks, with the name to use where there is one."""
    error = f"module {package!r} has no attribute {name!r}"
    found = [f"jaxdp.{COMMON_NAMES[name]}"] if name in COMMON_NAMES else _exported(name)
    return AttributeError(f"{error}; use {' or '.join(found)}" if found else error)


def _exported(name: str) -> list[str]:
    """Where jaxdp's packages export a public name, read from their sources: no import is needed."""
    if name.startswith("_"):
        return []
    found = []
    # A package that imports its names when they are used lists them in `__init__.pyi`.
    for path in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "*", "__init__.py*"))):
        with open(path, encoding="utf-8") as source:
            if f" as {name}\n" in source.read():
                found.append(f"jaxdp.{os.path.basename(os.path.dirname(path))}.{name}")
    return found
