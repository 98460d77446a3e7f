"""Random words of users: a pure function of (key, user, word)."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import threefry_words as threefry_words
from .ref import LANES as LANES
from .ref import TILE as TILE
from .ref import UserWords as UserWords
from .ref import threefry2x32 as threefry2x32
from .ref import users_words as users_words
