"""Reports fused with their tally."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import Counted as Counted
from .api import Draft as Draft
from .api import Drawn as Drawn
from .api import Randomizer as Randomizer
from .api import count_reports as count_reports
from .api import randomize_and_tally as randomize_and_tally
from .api import tiles_users as tiles_users
from .api import users_reports as users_reports
