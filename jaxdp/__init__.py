"""Simulation and design of local differential privacy, on JAX.

Describe what each user runs and what the analyst computes; jaxdp runs it for any number of users,
in as many trials as you like, and says what error to expect before a single trial is run.
"""

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
from ._version import __version__ as __version__
from .engine import Trials as Trials
from .engine import run as run
from .engine import simulate as simulate
from .engine import stack as stack
from .population import Population as Population
from .random import merge as merge
