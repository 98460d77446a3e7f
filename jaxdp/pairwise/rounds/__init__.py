"""Statistics of pairs in several rounds, each of which broadcasts what the last one found."""

from ._one_step import OneStep as OneStep
from ._rounds import RoundsOutcome as RoundsOutcome
from ._three_round import ThreeRound as ThreeRound
from ._three_round import three_round_bound as three_round_bound
from ._two_round import TwoRound as TwoRound
