"""Random words of any index range of a threefry2x32 stream."""

from .api import IMPLEMENTATIONS as IMPLEMENTATIONS
from .api import threefry_words as threefry_words
from .ref import threefry2x32 as threefry2x32
