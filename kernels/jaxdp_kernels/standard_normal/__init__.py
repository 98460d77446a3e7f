"""Standard normals, one from each random word."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import standard_normal as standard_normal
