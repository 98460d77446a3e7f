"""The Walsh-Hadamard transform."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import fwht as fwht
