"""Accelerator kernels of jaxdp, one folder an operation.

Each folder holds the operation's public function (`api.py`), its definition in plain JAX
(`ref.py`), its implementations (`xla.py`, where the definition is not fast enough, and those for
one kind of device), the arguments that tests and benchmarks share (`arg_specs.py`) and its
benchmark (`bench.py`). `implementation=None` always works; a named one raises where it cannot run.
This package never imports `jaxdp`.
"""

from ._pytree import register_dataclass as register_dataclass
from ._table import Table as Table
from .fwht import fwht as fwht
from .randomize_and_sum import randomize_and_sum as randomize_and_sum
from .randomize_and_tally import randomize_and_tally as randomize_and_tally
from .standard_normal import standard_normal as standard_normal
from .threefry_words import threefry_words as threefry_words

OPERATIONS = (
    "fwht",
    "randomize_and_sum",
    "randomize_and_tally",
    "standard_normal",
    "threefry_words",
)
"""The folders, by name."""
