"""The Walsh-Hadamard transform."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import MAX_LENGTH as MAX_LENGTH
from .api import fwht as fwht
