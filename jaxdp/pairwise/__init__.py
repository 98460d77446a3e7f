"""Protocols for statistics of pairs of users, and their kernels."""

from .._hints import missing as _missing
from ._auc_protocol import AUCProtocol as AUCProtocol
from ._best import RankedStatistic as RankedStatistic
from ._best import StatisticRanking as StatisticRanking
from ._best import best as best
from ._protocol import PairwiseProtocol as PairwiseProtocol
from .auc import BilinearAUC as BilinearAUC
from .auc import HierarchicalAUC as HierarchicalAUC
from .kernels import AUC as AUC
from .kernels import CollisionEntropy as CollisionEntropy
from .kernels import GiniCoefficient as GiniCoefficient
from .kernels import GiniDiversity as GiniDiversity
from .kernels import GiniMeanDifference as GiniMeanDifference
from .kernels import Grid as Grid
from .kernels import KendallTau as KendallTau
from .kernels import Kernel as Kernel
from .kernels import MatrixKernel as MatrixKernel
from .kernels import PairKernel as PairKernel
from .kernels import ProductGrid as ProductGrid
from .kernels import balanced_num_bins as balanced_num_bins
from .oracles import OracleStatistic as OracleStatistic
from .oracles import QuantizedRR as QuantizedRR
from .oracles import QueriesFromPairs as QueriesFromPairs
from .rounds import OneStep as OneStep
from .rounds import RoundsOutcome as RoundsOutcome
from .rounds import ThreeRound as ThreeRound
from .rounds import TwoRound as TwoRound
from .vectors import OneReport as OneReport
from .vectors import TwoReport as TwoReport


def __getattr__(name: str) -> object:
    raise _missing(__name__, name)
