"""The contract of specs and params, and how many users and trials run.

A mechanism of your own derives from `Spec`, and what it builds from `Round`, or from a base of
`jaxdp.randomizers` that knows more. `jaxdp.engine.checks` has the checks of fields.
"""

from .. import _checks as checks
from .._contract import Collect as Collect
from .._contract import Cost as Cost
from .._contract import Counted as Counted
from .._contract import Draft as Draft
from .._contract import Independent as Independent
from .._contract import Interactive as Interactive
from .._contract import Kernels as Kernels
from .._contract import Padded as Padded
from .._contract import Params as Params
from .._contract import Round as Round
from .._contract import Sent as Sent
from .._contract import Spec as Spec
from .._contract import Step as Step
from .._contract import Summed as Summed
from .._contract import TallyLaw as TallyLaw
from .._contract import Through as Through
from .._contract import Tree as Tree
from .._contract import Words as Words
from .._contract import Work as Work
from .._contract import field as field
from .._contract import params as params
from .._contract import spec as spec
from .._contract import static as static
from .._prediction import Prediction as Prediction
from ._expected import SimulatedErrors as SimulatedErrors
from ._simulate import outcome as outcome
from ._simulate import run as run
from ._simulate import simulate as simulate
from ._simulate import stack as stack
from ._stream import Census as Census
from ._trials import Trials as Trials

__all__ = ["checks"]
