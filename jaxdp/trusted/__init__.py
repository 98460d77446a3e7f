"""Protocols in which users trust someone: a shuffler, a secure sum, each other in pairs.

These are not local differential privacy alone: the guarantees hold where that someone does as
described.
"""

from ._all_pairs import AllPairs as AllPairs
from ._pair_sampling import PairSampling as PairSampling
from ._pairs import PairOutcome as PairOutcome
from ._secure_sum import SecureSum as SecureSum
from ._shuffled import Shuffled as Shuffled
from ._shuffled import local_epsilon as local_epsilon
from ._shuffled_sum import ShuffledSum as ShuffledSum
