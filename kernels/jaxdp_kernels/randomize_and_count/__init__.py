"""Reports of many users and their counts, in one operation."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import randomize_and_count as randomize_and_count
