"""Reports fused with their tally."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import Counted as Counted
from .api import Draft as Draft
from .api import Randomizer as Randomizer
from .api import randomize_and_tally as randomize_and_tally
