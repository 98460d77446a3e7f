"""Simulation and design of local differential privacy, on JAX.

Describe what each user runs and what the analyst computes; jaxdp runs it for any number of users,
in as many trials as you like, and says what error to expect before a single trial is run.
"""

import importlib
import typing

from ._version import __version__ as __version__

if typing.TYPE_CHECKING:
    from . import accounting as accounting
    from . import audit as audit
    from . import bounds as bounds
    from . import central as central
    from . import factorization as factorization
    from . import learning as learning
    from . import linear as linear
    from . import pairwise as pairwise
    from . import projections as projections
    from . import random as random
    from . import randomizers as randomizers
    from . import workloads as workloads
    from .engine import Trials as Trials
    from .engine import run as run
    from .engine import simulate as simulate
    from .engine import stack as stack
    from .population import Population as Population
    from .random import merge as merge

_PACKAGES = (
    "accounting",
    "audit",
    "bounds",
    "central",
    "factorization",
    "learning",
    "linear",
    "pairwise",
    "projections",
    "random",
    "randomizers",
    "workloads",
)
_NAMES = {
    "Population": "population",
    "Trials": "engine",
    "merge": "random",
    "run": "engine",
    "simulate": "engine",
    "stack": "engine",
}
"""Names of this package, and the packages that they are from; all are imported when first used."""


def __getattr__(name: str) -> typing.Any:
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name in _NAMES:
        return getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_NAMES})
