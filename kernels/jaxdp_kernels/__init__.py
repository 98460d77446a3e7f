"""Accelerator kernels of jaxdp, one folder an operation.

Each folder holds the operation's public function (`api.py`), its definition in plain JAX
(`ref.py`), the arguments that tests and benchmarks share (`arg_specs.py`) and its benchmark
(`bench.py`). This package never imports `jaxdp`.
"""

from .threefry_words import threefry_words as threefry_words
