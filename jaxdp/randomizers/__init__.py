"""Local randomizers: what one user runs."""

from ._binary import BinaryResponse as BinaryResponse
from ._binary import BinaryResponseParams as BinaryResponseParams
from ._krr import KRR as KRR
from ._krr import KRRParams as KRRParams
from ._randomizer import Randomizer as Randomizer
