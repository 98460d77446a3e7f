"""Random words of users: a pure function of (key, user, word)."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import threefry_words as threefry_words
from .flat import FlatWords as FlatWords
from .ref import TILE as TILE
from .ref import StreamKey as StreamKey
from .ref import UserWords as UserWords
