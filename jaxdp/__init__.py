"""Simulation and design of local differential privacy, on JAX.

Describe what each user runs and what the analyst computes; jaxdp runs it for any number of users,
in as many trials as you like, and says what error to expect before a single trial is run.
"""

from ._install import clash_beside as _clash_beside
from ._lazy import lazy as _lazy
from ._version import __version__ as __version__

if _clash := _clash_beside(__file__):
    import warnings as _warnings

    _warnings.warn(_clash, stacklevel=2)

_NAMES, __getattr__, __dir__ = _lazy(__name__, __file__)
