"""Real reports: a value in, bytes out on users' devices, and reports out of bytes."""

from .._lazy import lazy as _lazy

_NAMES, __getattr__, __dir__ = _lazy(__name__, __file__)
