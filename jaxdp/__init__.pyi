"""The names of jaxdp: the one list, which type checkers and `__init__.py` both read."""

from . import accounting as accounting
from . import audit as audit
from . import bounds as bounds
from . import central as central
from . import data as data
from . import engine as engine
from . import factorization as factorization
from . import learning as learning
from . import linear as linear
from . import pairwise as pairwise
from . import population as population
from . import projections as projections
from . import random as random
from . import randomizers as randomizers
from . import sweep as sweep
from . import testing as testing
from . import trusted as trusted
from . import workloads as workloads
from ._program_cache import enable_compilation_cache as enable_compilation_cache
from ._version import __version__ as __version__
from .engine import Trials as Trials
from .engine import run as run
from .engine import simulate as simulate
from .engine import stack as stack
from .population import Population as Population
from .random import merge as merge
