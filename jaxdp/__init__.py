"""Simulation and design of local differential privacy, on JAX.

Describe what each user runs and what the analyst computes; jaxdp runs it for any number of users,
in as many trials as you like, and says what error to expect before a single trial is run.
"""

from ._lazy import lazy as _lazy
from ._version import __version__ as __version__

_NAMES, __getattr__, __dir__ = _lazy(__name__, __file__)
