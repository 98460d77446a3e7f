"""How many users and trials run: blocks, devices, processes, exact tallies."""

from ._simulate import outcome as outcome
from ._simulate import run as run
from ._simulate import simulate as simulate
from ._simulate import stack as stack
from ._stream import stream_tally as stream_tally
from ._trials import Trials as Trials
