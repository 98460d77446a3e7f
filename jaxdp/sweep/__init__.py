"""Grids of configurations: run, resume, store, summarise, plot; the `jaxdp` command.

Results are stored as Parquet files and shown as tables and figures, which needs the extra
`jaxdp[sweep]`.
"""

from ._cell import Cell as Cell
from ._cell import HistogramData as HistogramData
from ._cell import Simulation as Simulation
from ._experiment import Experiment as Experiment
from ._experiment import Settings as Settings
from ._experiment import experiments as experiments
from ._run import run as run
from ._store import collect as collect
