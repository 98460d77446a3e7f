"""Statistics of pairs from one report of a frequency oracle per user."""

from ._oracle_statistic import OracleStatistic as OracleStatistic
from ._quantized_rr import QuantizedRR as QuantizedRR
from ._queries_from_pairs import QueriesFromPairs as QueriesFromPairs
