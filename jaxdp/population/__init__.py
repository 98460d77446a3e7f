"""Where the users' values come from: an array, a histogram, or a distribution."""

from ._derived import GroupSource as GroupSource
from ._derived import PairSource as PairSource
from ._distribution import DistributionSource as DistributionSource
from ._labels import labels_and_codes as labels_and_codes
from ._labels import labels_and_counts as labels_and_counts
from ._maximum_entropy import maximum_entropy as maximum_entropy
from ._population import Population as Population
from ._rounds import RoundSource as RoundSource
from ._source import HistogramSource as HistogramSource
from ._source import Reader as Reader
from ._source import Rest as Rest
from ._source import Source as Source
from ._source import Span as Span
