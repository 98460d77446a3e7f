"""The names of jaxdp.sweep: the one list, which type checkers and `__init__.py` both read."""

from ._catalog import experiments as experiments
from ._cell import HistogramData as HistogramData
from ._cell import Simulation as Simulation
from ._executors import RayExecutor as RayExecutor
from ._experiment import Experiment as Experiment
from ._experiment import Settings as Settings
from ._fingerprint import Cell as Cell
from ._grid import Point as Point
from ._grid import grid as grid
from ._page import report as report
from ._plot import plot as plot
from ._run import Executor as Executor
from ._run import Outcome as Outcome
from ._run import run as run
from ._status import Status as Status
from ._status import status as status
from ._store import collect as collect
from ._summary import summarize as summarize
