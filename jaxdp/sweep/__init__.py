"""Grids of configurations: run, resume, store, summarise, plot; the `jaxdp` command.

Results are stored as Parquet files and shown as tables and figures, which needs the extra
`sweep`.
"""

# Imported when they are used: what the command prints without computing needs no jax.
from .._lazy import lazy as _lazy

_NAMES, __getattr__, __dir__ = _lazy(__name__, __file__)
