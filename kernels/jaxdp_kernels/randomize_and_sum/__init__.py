"""Vectors that many users report and their sums, in one operation."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import randomize_and_sum as randomize_and_sum
