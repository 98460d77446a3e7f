"""What users add, fused with its sums."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import Summing as Summing
from .api import num_rows as num_rows
from .api import randomize_and_sum as randomize_and_sum
